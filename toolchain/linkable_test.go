package toolchain_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
)

func TestUnlinkable(t *testing.T) {
	linux, err := hosttest.Parse([]byte("os: linux\narch: amd64\n-- @empty --\n/tk/lib64/libcudart.so\n/tk/lib64/libcublas.so.13\n" +
		"/tk/lib64/stubs/libcublas.so\n/hpc/math_libs/lib64/libcurand.so\n" +
		"/tk/include/cuda.h\n/hpc/math_libs/include/cublas_v2.h\n/cpath/nccl.h\n/dnn/lib/libcudnn.so\n/usr/lib/x86_64-linux-gnu/libnccl.so\n/mine/libnvrtc.so\n/tk/lib64/libcufft.a\n"))
	if err != nil {
		t.Fatal(err)
	}
	windows, err := hosttest.Parse([]byte("os: windows\narch: amd64\n-- @empty --\nC:\\tk\\lib\\x64\\cublas.lib\nC:\\mine\\curand.lib\n"))
	if err != nil {
		t.Fatal(err)
	}
	tk := toolchain.Set{Toolkit: &cuda.Toolkit{Root: "/tk", Lib: "/tk/lib64", Stubs: "/tk/lib64/stubs",
		Libs: []string{"/hpc/math_libs/lib64"}, Include: "/tk/include"}, CUDNN: &cudnn.Install{Lib: "/dnn/lib"}}
	win := toolchain.Set{Toolkit: &cuda.Toolkit{Root: `C:\tk`, Lib: `C:\tk\lib\x64`}}
	env := func(pairs ...string) (e buildenv.Env) {
		for i := 0; i < len(pairs); i += 2 {
			e = e.Set(pairs[i], pairs[i+1])
		}
		return e
	}
	for _, tt := range []struct {
		story string
		h     buildenv.Host
		set   toolchain.Set
		env   buildenv.Env
		asks  string
		want  string
	}{
		{"each in its place", linux, tk, env(), "libcudart libcublas libcurand libcudnn libnccl libcufft", ""},
		{"a number behind it is no name that a linker looks for", linux,
			toolchain.Set{Toolkit: &cuda.Toolkit{Root: "/tk", Lib: "/tk/lib64"}}, env(), "libcublas", "libcublas.so"},
		{"nowhere", linux, tk, env(), "libcublas libnvrtc libcusolver", "libnvrtc.so libcusolver.so"},
		{"in LIBRARY_PATH", linux, tk, env("LIBRARY_PATH", "/nothing:/mine"), "libnvrtc", ""},
		{"rustc's flags name directories", linux, tk, env("RUSTFLAGS", "-C opt-level=2 -L native=/x"), "libnvrtc", ""},
		{"those of a target do", linux, tk, env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-L/x"), "libnvrtc", ""},
		{"flags that name none", linux, tk, env("RUSTFLAGS", "-C target-cpu=native"), "libnvrtc", "libnvrtc.so"},
		{"headers of the toolkit", linux, tk, env(), "cuda.h cublas_v2.h", ""},
		{"one that is nowhere", linux, tk, env("LIBRARY_PATH", "/cpath"), "cublas_v2.h nccl.h", "nccl.h"},
		{"in CPATH", linux, tk, env("CPATH", "/x:/cpath"), "nccl.h", ""},
		{"a static library", linux, tk, env(), "libcufft.a libcublas_static.a libcudart.a", "libcublas_static.a libcudart.a"},
		{"no toolkit", linux, toolchain.Set{}, env(), "libnvrtc", ""},
		{"Windows", windows, win, env("LIB", `C:\mine`), "libcublas libcurand libnvrtc", "nvrtc.lib"},
	} {
		if got := strings.Join(toolchain.Unlinkable(tt.h, tt.set, tt.env, strings.Fields(tt.asks)), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.want)
		}
	}
}
