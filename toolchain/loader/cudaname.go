package loader

import (
	"fmt"
	"strconv"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// Only these carry the toolkit's own major version in their names: libcufft.so.11 and cusolver64_11.dll belong to CUDA 12,
// curand64_10.dll to all. cudart64_110.dll and nvrtc64_112_0.dll are CUDA 11's; nvrtc64_120_0.dll is CUDA 12's. Source: the wheels and
// installers of 11.8, 12.9 and 13.4.
var (
	elfName = lazyregexp.New(`^lib(?:cudart|cublas|cublaslt|nvrtc|nvrtc-builtins|nvjitlink)\.so\.(\d+)`)
	dllName = lazyregexp.New(`^(?:cudart64|cublas64|cublaslt64|nvrtc64|nvrtc-builtins64|nvjitlink)_(\d+)(?:_\d+)?\.dll$`)
)

// CUDAMajor returns the major version of CUDA in a library's name; 0 if it has none.
func CUDAMajor(name string) int {
	name = strings.ToLower(name)
	if m := elfName.FindStringSubmatch(name); m != nil {
		return number(m[1])
	}
	m := dllName.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	if n := number(m[1]); n >= 100 {
		return n / 10 // 110, 112, 120: major and minor
	} else {
		return n
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > 9999 {
		return 0
	}
	return n
}

// Mixed says where the libraries of a program come from two CUDA majors, each
// with its own state of the one driver; empty when they do not.
func Mixed(libs []Library) string {
	var first Library
	for _, l := range libs {
		major := CUDAMajor(l.Name)
		if major == 0 {
			continue
		}
		if first.Name == "" {
			first = l
			continue
		}
		if m := CUDAMajor(first.Name); m != major {
			return fmt.Sprintf("two CUDA versions in one program: %s (for %s) and %s (for %s)", first.Name, first.By, l.Name, l.By)
		}
	}
	return ""
}
