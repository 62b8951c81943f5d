package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// links compiles a C text into a program that imports what it calls of a library at its start.
func (l *wineLab) links(name, library, exports, text string) string {
	l.t.Helper()
	dir := l.t.TempDir() // the library must not lie beside the program
	dll, program := filepath.Join(dir, library), filepath.Join(l.t.TempDir(), name)
	for path, words := range map[string]string{filepath.Join(dir, "dll.c"): exports, filepath.Join(dir, "exe.c"): text} {
		l.must(os.WriteFile(path, []byte(words), 0o600))
	}
	for _, args := range [][]string{{"-shared", "-o", dll, filepath.Join(dir, "dll.c")}, {"-o", program, filepath.Join(dir, "exe.c"),
		dll}} {
		if out, err := exec.Command("x86_64-w64-mingw32-gcc", append([]string{"-w", "-static"}, args...)...).CombinedOutput(); err != nil {
			l.t.Fatalf("%v\n%s", err, out)
		}
	}
	return program
}

// TestWineAudit runs Windows programs on failing drivers that gpubuild.exe has a cl.exe build. What a row of the table says of each kind of
// program is the same on every system; script audit-modes has all of them.
func TestWineAudit(t *testing.T) {
	l := newWineLab(t)
	audit := func(program string, args ...string) (string, int) {
		out, err := l.run(nil, append([]string{z(l.gpubuild), "audit", z(program), "--"}, args...)...)
		return out, code(err)
	}
	if out, got := audit(l.program, "gpu"); got != 11 || !strings.Contains(out, "no host compiler (cl, gcc or clang) to build the "+
		"failing driver with") || !strings.Contains(out, "winget install") {
		t.Errorf("no compiler: %d\n%s", got, out)
	}
	l.plantSDK()
	linked := l.links("linked.exe", "nvcuda.dll", "__declspec(dllexport) int cuInit(unsigned f) { return f; } __declspec(dllexport) int "+
		"cuOfTheFuture_v9(void) { return 0; }",
		"int cuInit(unsigned), cuOfTheFuture_v9(void); int main(void) { int rc = cuInit(0); return rc ? rc : cuOfTheFuture_v9(); }")
	runtime := l.links("runtime.exe", "cudart64_13.dll",
		"__declspec(dllexport) int cudaMalloc(void **p, unsigned long long n) { return 0; } __declspec(dllexport) int "+
			"cudaLaunchKernel(void) { return 0; } __declspec(dllexport) int cudaDeviceSynchronize(void) { return 0; }",
		`struct dim { unsigned x, y, z; };
int cudaMalloc(void **, unsigned long long), cudaDeviceSynchronize(void);
int cudaLaunchKernel(const void *, struct dim, struct dim, void **, unsigned long long, void *);
int main(void) { struct dim one = { 1, 1, 1 }; void *p, *args[] = { &p }; int rc = cudaMalloc(&p, 64);
	if (!rc) rc = cudaLaunchKernel(main, one, one, args, 0, 0); return rc ? rc : cudaDeviceSynchronize(); }`)
	each := func(words string) []string {
		var out []string
		for _, mode := range []string{"no-library", "no-device", "stub", "mismatch", "oom", "no-binary", "launch-failure", "launch-refused",
			"copy-failure"} {
			out = append(out, words+" "+mode+":")
		}
		return out
	}
	tests := []struct {
		story   string
		program string
		args    []string
		code    int
		want    []string
	}{
		{"fails honestly", l.program, []string{"gpu"}, 0, append(each("ok"), "it looked for the driver and ended with 1\n",
			"launch-failure: its kernel fails after the launch was accepted (error 719): it looked for the driver and ended with 1\n")},
		{"falls back, silently", l.program, []string{"may"}, 20, append(each("FAIL"), "silent CPU fallback")},
		{"a child asks", l.program, []string{"child", z(l.other), "gpu"}, 0, each("ok")},
		{"crashes", l.program, []string{"crash-without"}, 21, []string{"unsure no-device: the driver sees no device (error 100): it was " +
			"ended by Windows (0xC0000005)"}},
		{"imports the driver, and a function that no header has yet", linked, nil, 0, []string{"ok no-library: there is no CUDA " +
			"driver: it looked for the driver and could not go on without a library (0xC0000142)",
			"ok no-device: the driver sees no device (error 100): it looked for the driver and ended with 100",
			"not reached oom: the device's memory is full (error 2): it looked for the driver and ended with 801, before it asked for " +
				"memory"}},
		{"imports the run-time library", runtime, nil, 0, []string{"ok no-library: there is no CUDA driver: it looked for the driver " +
			"and ended with 35", "ok oom: the device's memory is full (error 2): it looked for the driver and ended with 2\n",
			"ok no-binary: the program has no code for this GPU (error 209): it looked for the driver and ended with 209",
			"ok launch-failure: its kernel fails after the launch was accepted (error 719): it looked for the driver and ended with " +
				"719"}},
	}
	for _, tt := range tests {
		if tt.code == 20 && !need.Full(t) { // as build --gpu-audit of TestWineRun
			continue
		}
		t.Run(tt.story, func(t *testing.T) {
			l.t = t
			out, got := l.settled(func() (string, int) {
				out, got := audit(tt.program, tt.args...)
				if strings.Contains(out, "before it looked for the driver") { // none of them does; a process that Wine lost claims nothing
					got = 21
				}
				return out, got
			}, func(_ string, got int) bool { return got == tt.code })
			if got != tt.code {
				t.Errorf("ended with %d, want %d", got, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}

	t.Run("as JSON, with a timeout", func(t *testing.T) {
		l.t = t
		file := filepath.Join(l.work, "audit.json")
		out, err := l.run(nil, z(l.gpubuild), "audit", "--timeout=1s", "--json="+z(file), z(l.program), "--", "sleep", "30000")
		data, _ := os.ReadFile(file)
		var said struct {
			Modes []struct{ Mode, Kind, Why string }
		}
		if code(err) != 21 || json.Unmarshal(data, &said) != nil || len(said.Modes) != 15 || said.Modes[0].Mode != "baseline" ||
			said.Modes[1].Why != "it did not end in time" {
			t.Errorf("%v\n%s\n%s", err, out, data)
		}
	})

	t.Run("a driver that Windows would take instead", func(t *testing.T) {
		l.t = t
		for _, path := range []string{l.path(`C:\windows\system32\nvcuda.dll`), filepath.Join(filepath.Dir(l.program), "nvcuda.dll"),
			filepath.Join(l.work, "nvcuda.dll")} {
			l.copy(filepath.Join(l.dir, "standin", "nvcuda.dll"), path)
			out, got := audit(l.program, "gpu")
			if got != 21 || !strings.Contains(out, `\nvcuda.dll is found before the failing driver`) ||
				!strings.Contains(out, "hint: audit where no NVIDIA driver is installed") || strings.Contains(out, "Honest") {
				t.Errorf("%s: %d\n%s", path, got, out)
			}
			l.must(os.Remove(path))
		}
	})
}
