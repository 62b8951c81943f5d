package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// cargoLab is a wineLab with a project that the stand-in cargo.exe builds and runs, a toolset and a device.
type cargoLab struct {
	*wineLab
}

func newCargoLab(t *testing.T) *cargoLab {
	l := &cargoLab{newWineLab(t)}
	l.wine.cargo()
	l.plant(map[string]string{"14.44.35207": "12.4"})
	root := filepath.Join("..", "..", "..")
	for out, args := range map[string][]string{
		filepath.Join(l.bin, "answers", "program.exe"): {"-std=gnu11", "-DROOM", "-static", filepath.Join(root, "gpu", "verify", "testdata",
			"program_windows.c")},
	} {
		if text, err := exec.Command("x86_64-w64-mingw32-gcc", append(args, "-O1", "-o", out)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", out, err, text)
		}
	}
	buildSMI(t, l.path(`C:\windows\system32\nvidia-smi.exe`))
	return l
}

// buildSMI compiles the stand-in nvidia-smi for Windows, of a driver that is as new as the toolkit of these tests, whose PTX a program holds.
func buildSMI(t *testing.T, to string) {
	t.Helper()
	from := filepath.Join("..", "..", "..", "testdata", "standin", "smi.c")
	if text, err := exec.Command("x86_64-w64-mingw32-gcc", "-O1", "-static", `-DDRIVER="617.10"`, "-o", to, from).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// runs is `gpubuild VERB` in the project, with our flags and the program's words behind --.
func (l *cargoLab) runs(verb string, env, flags []string, args ...string) (string, int) {
	l.t.Helper()
	env = append([]string{"WINEPATH=" + z(filepath.Join(l.bin, "rust")) + ";" + z(filepath.Join(l.dir, "standin")), "STANDIN_CARGO=" +
		z(filepath.Join(l.bin, "answers"))}, env...)
	words := []string{z(l.standin), verb, "--manifest-path", z(filepath.Join(l.work, "matmul", "Cargo.toml")), "--features", "cuda",
		"--gpu-toolkit=" + z(filepath.Join(l.wine.dir, "toolkit")), "--gpu-arch=90",
		"--gpu-probe=" + z(filepath.Join(l.dir, "probe", "gpubuild_probe.dll")), "--gpu-cupti=" + z(l.cupti)}
	out, err := l.run(env, append(append(append(words, flags...), "--"), args...)...)
	return out, code(err)
}

// TestWineRun has gpubuild.exe build, run and prove a project's programs through cargo.exe and our runner, which stands in front of the
// user's.
func TestWineRun(t *testing.T) {
	l := newCargoLab(t)
	const runner = "CARGO_TARGET_X86_64_PC_WINDOWS_MSVC_RUNNER="
	// so that our runner's words have spaces, and only a list in --config can hold them
	spaced := "GPUBUILD_CACHE=" + z(filepath.Join(l.work, "a cache, ü"))
	counted := []string{"another kernel", "on the CPU: nobody can know that nothing else was done", "a cache with spaces in its path"}
	tests := []struct {
		story      string
		verb       string
		env, flags []string
		args       []string
		code       int
		want       []string
		not        string
	}{
		{"a product", "run", nil, nil, []string{"gpu"}, 0, []string{"Compiling matmul", "\ndone\n",
			`Proved matmul\target\debug\matmul.exe ran its kernel on Stand-in device`,
			"ran: 1 launch of matmul"}, ""},
		{"the driver opened, and nothing launched", "run", nil, nil, []string{"init"}, 20, []string{"Not used", "in this program and its children"},
			"Compiling"},
		{"on the CPU: nobody can know that nothing else was done", "run", nil, nil, []string{"cpu"}, 21,
			[]string{"Not proven", "Windows does not report"}, ""},
		{"another kernel", "run", nil, nil, []string{"fill"}, 22, []string{"1 launch of other kernels: fill_f32"}, ""},
		{"the program's own status", "run", nil, nil, []string{"status", "7"}, 7, []string{"(exit code: 7)", "ended with status 7"}, ""},
		{"its arguments as they were", "run", nil, nil, []string{"arguments", `a b`, `c"d`, `e\`, ``, `%PATH%`}, 21,
			[]string{`[a b][c"d][e\][][%PATH%]`}, ""},
		{"a cache with spaces in its path", "run", []string{spaced}, nil, []string{"gpu"}, 0,
			[]string{"\ndone\n", "ran: 1 launch of matmul"}, ""},
		{"the user's own runner", "run", []string{runner + z(l.other) + " launcher"}, nil, []string{"gpu"}, 0,
			[]string{"\nlauncher\ndone\n", `Proved matmul\target\debug\matmul.exe`}, ""},
		{"both", "run", []string{spaced, runner + z(l.other) + " launcher"}, nil, []string{"status", "9"}, 9,
			[]string{"\nlauncher\n", "ended with status 9"}, "done"},
		{"every test program", "test", nil, nil, []string{"gpu", "3"}, 0, []string{"3 of 3 programs ran a kernel on the GPU", "multiply",
			"matmul ×3"}, ""},
		{"no test program, and a proof is required", "test", nil, []string{"--gpu-require-proof"}, []string{"init"}, 20,
			[]string{"0 of 3 programs ran a kernel on the GPU"}, ""},
	}
	for _, tt := range tests {
		if slices.Contains(counted, tt.story) && !need.Full(t) { // TestWineProof has the verdicts, "both" has the spaces
			continue
		}
		t.Run(tt.story, func(t *testing.T) {
			l.t = t
			if to := filepath.Join(l.work, "a cache, ü"); len(tt.env) > 0 && tt.env[0] == spaced && !exists(to) {
				l.must(os.CopyFS(to, os.DirFS(filepath.Join(l.work, "cache")))) // what is known of the toolkit, which takes long to read
			}
			out, got := l.settled(func() (string, int) { return l.runs(tt.verb, tt.env, tt.flags, tt.args...) },
				func(_ string, got int) bool { return got == tt.code })
			if got != tt.code {
				t.Errorf("ended with %d, want %d", got, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if tt.not != "" && strings.Contains(out, tt.not) {
				t.Errorf("%q", tt.not)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
	t.Run("no device", func(t *testing.T) {
		l.t = t
		if err := os.Remove(l.path(`C:\windows\system32\nvidia-smi.exe`)); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			flags []string
			code  int
		}{{nil, 0}, {[]string{"--gpu-require-proof"}, 21}} {
			out, got := l.settled(func() (string, int) { return l.runs("run", nil, tt.flags, "gpu") },
				func(_ string, got int) bool { return got == tt.code })
			if got != tt.code || !strings.Contains(out, "\ndone\n") || !strings.Contains(out, "Not proven: no GPU here") {
				t.Errorf("%v ended with %d\n%s", tt.flags, got, out)
			}
		}
	})

	// `build --gpu-audit` runs what was built on failing drivers that cl.exe makes, and ends as `audit` does.
	t.Run("build --gpu-audit", func(t *testing.T) {
		l.t = t
		l.must(os.Remove(filepath.Join(l.work, "matmul", "gpubuild.toml"))) // it has every build proven
		if out, got := l.runs("build", nil, nil); got != 0 {                // nvcc needs the headers of C++, which plantSDK takes away
			t.Fatalf("the build alone ended with %d\n%s", got, out)
		}
		l.plantSDK()
		out, got := l.runs("build", nil, []string{"--gpu-audit=may"})
		if got != 20 || strings.Contains(out, "Compiling") {
			t.Errorf("ended with %d, want 20", got)
		}
		for _, want := range []string{"FAIL no-library:", "silent CPU fallback", `matmul.exe: 1 cubin sm_90`} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q", want)
			}
		}
		if t.Failed() {
			t.Log(out)
		}
	})
}
