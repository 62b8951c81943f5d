package toolchain_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/hostcc"
)

func TestPlanted(t *testing.T) {
	set := toolchain.Set{Toolkit: &cuda.Toolkit{NVCC: `C:\CUDA\bin\nvcc.exe`}, Compiler: &hostcc.Compiler{CXX: `C:\VC\bin\cl.exe`}}
	const chosen = "C:\\CUDA\\bin\\nvcc.exe\nC:\\VC\\bin\\cl.exe\n"
	tests := []struct{ story, os, dir, files, want string }{
		{"nothing there", "windows", `C:\app`, "C:\\app\\build.rs\n" + chosen, ""},
		{"cl.exe, which nvcc itself takes first", "windows", `C:\app`, "C:\\app\\CL.exe\n" + chosen,
			`C:\app\cl.exe lies where the build runs, and Windows would run it instead of C:\VC\bin\cl.exe`},
		{"a batch file of that name, which cmd takes first", "windows", `C:\app`, "C:\\app\\nvcc.bat\n" + chosen,
			`C:\app\nvcc.bat lies where`},
		{"a part of nvcc's, which cmd takes first", "windows", `C:\app`, "C:\\app\\cudafe++.exe\n" + chosen,
			`C:\app\cudafe++.exe lies where the build runs, and Windows would run it instead of C:\CUDA\bin\cudafe++.exe`},
		{"another part, as a batch file", "windows", `C:\app`, "C:\\app\\ptxas.cmd\n" + chosen, `C:\app\ptxas.cmd lies where`},
		{"the librarian", "windows", `C:\app`, "C:\\app\\lib.exe\n" + chosen, `C:\app\lib.exe lies where the build runs, and Windows ` +
			`would run it instead of C:\VC\bin\lib.exe`},
		{"a batch file of the project's own", "windows", `C:\app`, "C:\\app\\lib.bat\nC:\\app\\link.cmd\n" + chosen, ""},
		{"built in the toolkit's own directory", "windows", `C:\CUDA\bin`, "C:\\CUDA\\bin\\ptxas.exe\n" + chosen, ""},
		{"built in the compiler's own directory", "windows", `C:\VC\bin`, chosen, ""},
		{"where the current directory is not searched", "linux", "/app", "/app/cl +x\n/app/nvcc +x\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			h, err := hosttest.Parse([]byte("os: " + tt.os + "\ncwd: " + tt.dir + "\n-- @empty --\n" + tt.files))
			if err != nil {
				t.Fatal(err)
			}
			got := hosttest.Outcome("", toolchain.Planted(h, set, []string{tt.dir}))
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
