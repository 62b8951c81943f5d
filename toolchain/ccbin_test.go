package toolchain_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
)

// TestNVCCReadsTheCompiler holds that whatever a user wrote to name a host compiler is taken as a wish, and that nothing is left in the
// environment which nvcc would not take for the first cl.exe on PATH.
func TestNVCCReadsTheCompiler(t *testing.T) {
	const vs = `C:\Program Files\Microsoft Visual Studio\18\Insiders`
	const old = vs + `\VC\Tools\MSVC\14.29.30133`
	const tooNew = vs + `\VC\Tools\MSVC\14.51.36231\bin\Hostx64\x64`
	for _, tt := range []struct{ story, name, value, toolset, change string }{
		{"the directory", "NVCC_CCBIN", old + `\bin\Hostx64\x64`, "14.29.30133", ""},
		{"in other letters", "NVCC_CCBIN", strings.ToUpper(old) + `\BIN\HOSTX64\X64`, "14.29.30133", ""},
		{"the program, with slashes", "NVCC_CCBIN", strings.ReplaceAll(old, `\`, "/") + "/bin/Hostx64/x64/cl", "14.29.30133", ""},
		{"what PATH says", "NVCC_CCBIN", "cl.exe", "14.44.35207", ""},
		{"a backslash at the end", "NVCC_CCBIN", old + `\bin\Hostx64\x64\`, "14.29.30133", "unset NVCC_CCBIN="},
		{"quotes, as set takes them", "NVCC_CCBIN", `"` + old + `\bin\Hostx64\x64"`, "14.29.30133", "unset NVCC_CCBIN="},
		{"two backslashes", "NVCC_CCBIN", strings.ReplaceAll(old, `\`, `\\`) + `\\bin\\Hostx64\\x64`, "14.29.30133", "unset NVCC_CCBIN="},
		{"a version", "NVCC_CCBIN", "14.29", "14.29.30133", "unset NVCC_CCBIN="},
		{"the toolset's directory", "NVCC_CCBIN", old, "14.29.30133", "unset NVCC_CCBIN="},
		{"its compiler for another processor", "NVCC_CCBIN", old + `\bin\Hostx86\x86\cl.exe`, "14.29.30133", "unset NVCC_CCBIN="},
		{"the Visual Studio: its newest that fits", "NVCC_CCBIN", vs, "14.44.35207", "unset NVCC_CCBIN="},
		{"one that does not fit", "NVCC_CCBIN", tooNew, "14.44.35207", "unset NVCC_CCBIN="},
		{"one that is gone", "NVCC_CCBIN", `C:\gone`, "14.44.35207", "unset NVCC_CCBIN="},
		{"nvcc's own options name what PATH says", "NVCC_PREPEND_FLAGS", "-O3 -ccbin cl", "14.44.35207", ""},
		{"they keep quotes, and without those a blank ends the path", "NVCC_PREPEND_FLAGS", `-O3 -ccbin "` + old +
			`\bin\Hostx64\x64" -lineinfo`, "14.29.30133", "set NVCC_PREPEND_FLAGS=-O3 -lineinfo"},
		{"they name one that is gone", "NVCC_PREPEND_FLAGS", `-ccbin C:\gone`, "14.44.35207", "unset NVCC_PREPEND_FLAGS="},
		{"they name one that does not fit", "NVCC_APPEND_FLAGS", `--compiler-bindir="` + tooNew + `" -v`, "14.44.35207",
			"set NVCC_APPEND_FLAGS=-v"},
		{"a file name that begins so", "NVCC_APPEND_FLAGS", `-I C:\x-ccbin y`, "14.44.35207", ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Load(t, "windows-five-toolsets")
			h.Env = h.Env.Set(tt.name, tt.value)
			s := hosttest.Must(toolchain.Choose(windows(h), kernels, toolchain.Wish{}))(t)
			got := ""
			for _, c := range toolchain.Environment(h, s, kernels).Changes {
				if c.Name == tt.name {
					got += string(c.Op) + " " + c.Name + "=" + c.Value
					if !strings.Contains(c.Reason, "14.44.35207") && !strings.Contains(c.Reason, "14.29.30133") {
						t.Errorf("the reason names no compiler: %s", c.Reason)
					}
				}
			}
			if s.MSVC.Toolset.Version != tt.toolset || got != tt.change {
				t.Errorf("got %s, %q", s.MSVC.Toolset.Version, got)
			}
		})
	}
}

// TestNVCCFlagsOnLinux holds the same where gcc is the compiler: nvcc puts the -ccbin of its options before NVCC_CCBIN.
func TestNVCCFlagsOnLinux(t *testing.T) {
	machine := strings.Replace(usual, "-- @links --\n", "-- @links --\n/usr/bin/gcc-9 -> x86_64-linux-gnu-gcc-9\n/usr/bin/g++-9 -> "+
		"x86_64-linux-gnu-g++-9\n/usr/bin/gcc-15 -> x86_64-linux-gnu-gcc-15\n/usr/bin/g++-15 -> x86_64-linux-gnu-g++-15\n", 1)
	for _, n := range []string{"9", "15"} {
		machine = strings.Replace(machine, "-- @empty --\n", "-- @empty --\n/usr/bin/x86_64-linux-gnu-gcc-"+n+
			" +x\n/usr/bin/x86_64-linux-gnu-g++-"+n+" +x\n", 1)
	}
	machine = strings.Replace(machine, "/usr/local/cuda-12.4/include/crt/host_config.h\n", "", 1) +
		"-- /usr/local/cuda-12.4/include/crt/host_config.h --\n#if __GNUC__ > 13\n#error -- unsupported GNU version!\n#endif\n"
	for _, tt := range []struct{ story, value, compiler, change string }{
		{"one that fits is what nvcc takes by itself", "-ccbin g++-9 -O3", "9", ""},
		{"by its path", "-ccbin=/usr/bin/g++-9", "9", ""},
		{"its directory", "-ccbin /usr/bin", "12", ""},
		{"one that is too new", "-O3 -ccbin /usr/bin/g++-15", "12", "set NVCC_APPEND_FLAGS=-O3"},
		{"one that is gone", "-ccbin /opt/gone/g++", "12", "unset NVCC_APPEND_FLAGS="},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h, err := hosttest.Parse([]byte(strings.Replace(machine, "-- @env --\n", "-- @env --\nNVCC_APPEND_FLAGS="+tt.value+"\n", 1)))
			if err != nil {
				t.Fatal(err)
			}
			f := gather(h, silent{})
			s := hosttest.Must(toolchain.Choose(f, kernels, toolchain.Wish{}))(t)
			got := ""
			for _, c := range toolchain.Environment(h, s, kernels).Changes {
				if c.Name == "NVCC_APPEND_FLAGS" {
					got += string(c.Op) + " " + c.Name + "=" + c.Value
				}
			}
			if s.Compiler.Version != tt.compiler || got != tt.change {
				t.Errorf("got %s, %q", s.Compiler.Version, got)
			}
		})
	}
}
