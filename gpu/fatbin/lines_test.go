package fatbin

import (
	"bytes"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

const withLines = `#include "inc/h.cuh"
__device__ __forceinline__ float square(float x) { return x * x; }
namespace { __global__ void unseen(float *p) { p[0] = square(p[1]); } }
static __global__ void
file_local(float *p) {
  p[0] = 3;
}
extern "C" __global__ void matmul(float *a) { a[0] = a[1]; }
void go(float *p) { scale<float><<<1, 1>>>(p); scale<int><<<1, 1>>>((int *)p); unseen<<<1, 1>>>(p); file_local<<<1, 1>>>(p); }
`

// TestLinesOfKernels: the kernel's own line, of what nvcc itself wrote; a cubin cut or damaged anywhere in its lines is read all the same.
func TestLinesOfKernels(t *testing.T) {
	nvcc := filepath.Join(need.Toolkit(t), "bin", "nvcc")
	need.Asked(t, "cc")
	dir := t.TempDir()
	hosttest.OK(t, os.Mkdir(filepath.Join(dir, "inc"), 0o755))
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "inc", "h.cuh"), []byte("\ntemplate <typename T> __global__ void scale(T *p) { p[0] *= 2; }\n"), 0o644))
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "k.cu"), []byte(withLines), 0o644))
	want := map[string]string{"scaleIfE": "inc/h.cuh:2", "scaleIiE": "inc/h.cuh:2", "unseen": "k.cu:3", "file_local": "k.cu:5", "matmul": "k.cu:8"}
	for _, args := range []string{"-lineinfo", "-G", "-lineinfo -rdc=true", "-lineinfo -gencode arch=compute_80,code=[sm_80,compute_80]", ""} {
		file := filepath.Join(dir, "k.fatbin")
		c := exec.Command(nvcc, append(strings.Fields(args), "-fatbin", "-o", file, "k.cu")...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		data := hosttest.Must(os.ReadFile(file))(t)
		got := map[string]string{}
		for _, im := range scan(t, data).Images {
			for name, place := range im.Lines {
				if im.Kind != Cubin || !slices.Contains(im.Kernels, name) {
					t.Errorf("%s: %s has the line of %s", args, im.Kind, name)
				}
				for part := range want {
					// The file's name, with that of its first function, is in the names of static functions.
					if strings.Contains(strings.TrimPrefix(name[strings.LastIndex(name, "_k_cu_")+1:], "k_cu_matmul"), part) {
						got[part] = strings.TrimPrefix(place, dir+"/")
					}
				}
			}
		}
		if args == "" {
			hosttest.Equal(t, len(got), 0, "without line information")
			continue
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", args, got, want)
		}
	}
	file := filepath.Join(dir, "k.cubin")
	if out, err := exec.Command(nvcc, "-lineinfo", "-cubin", "-o", file, filepath.Join(dir, "k.cu")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := hosttest.Must(os.ReadFile(file))(t)
	f := hosttest.Must(elf.NewFile(bytes.NewReader(data)))(t)
	for _, name := range []string{".debug_line", ".rel.debug_line"} {
		s := f.Section(name)
		for at := s.Offset; at < s.Offset+s.FileSize; at++ {
			for _, b := range []byte{0, 0x7f, 0xff} {
				damaged := slices.Clone(data)
				damaged[at] = b
				hosttest.Equal(t, len(scan(t, damaged).Images), 1, name, at-s.Offset)
			}
		}
	}
}
