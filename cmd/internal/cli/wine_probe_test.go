package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/gpu/probe"
)

// wineLab is a Windows machine with a stand-in nvcuda.dll and CUPTI, the probe as a DLL, and a gpubuild.exe whose predicate takes that
// driver for real.
type wineLab struct {
	*wine
	dir     string // all of it
	standin string // this test binary, for Windows: a gpubuild that believes in the stand-in
	program string
	other   string // the same program in another file
	cupti   string
}

func newWineLab(t *testing.T) *wineLab {
	t.Helper()
	const gcc = "x86_64-w64-mingw32-gcc"
	w := newWine(t)
	need.Program(t, "wine", gcc)
	dir := t.TempDir()
	l := &wineLab{wine: w, dir: dir, standin: filepath.Join(dir, "gpubuild-standin.exe")}
	l.program, l.other = filepath.Join(dir, "a program.exe"), filepath.Join(dir, "other.exe")
	toolkit := filepath.Join(dir, "toolkit", "extras", "CUPTI", "lib64")
	l.cupti = filepath.Join(toolkit, "cupti64_2026.10.0.dll")
	for _, d := range []string{filepath.Join(dir, "standin"), filepath.Join(dir, "probe"), toolkit} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join("..", "..", "..")
	csrc, source := filepath.Join(root, "gpu", "probe", "csrc"), filepath.Join(root, "testdata", "standin")
	strict := func(std string) []string {
		return []string{"-std=" + std, "-Wall", "-Wextra", "-Werror", "-O2", "-static"}
	}
	compat := append(strict("gnu11"), "-shared", "-I", filepath.Join(source, "mingw"))
	program := filepath.Join(root, "gpu", "verify", "testdata", "program_windows.c")
	for out, args := range map[string][]string{
		filepath.Join(dir, "standin", "nvcuda.dll"): append(compat[:len(compat):len(compat)], filepath.Join(source, "cuda.c")),
		l.cupti: append(compat[:len(compat):len(compat)], filepath.Join(source, "cupti.c")),
		filepath.Join(toolkit, "cupti64_2026.9.1.dll"):      append(compat[:len(compat):len(compat)], filepath.Join(source, "cupti.c")),
		filepath.Join(dir, "probe", "gpubuild_probe.dll"):   append(strict("c11"), "-shared", filepath.Join(csrc, "probe.c")),
		filepath.Join(dir, "probe", "gpubuild-control.exe"): append(strict("c11"), filepath.Join(csrc, "control.c")),
		filepath.Join(dir, "probe", "gpubuild-watch.exe"):   append(strict("c11"), filepath.Join(csrc, "watch_windows.c")),
		l.program:                         append(strict("gnu11"), program),
		filepath.Join(dir, "records.exe"): {"-std=c11", "-static", filepath.Join(root, "gpu", "verify", "testdata", "records_windows.c")},
		l.other:                           append(strict("gnu11"), program),
	} {
		if text, err := exec.Command(gcc, append(args, "-o", out)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", out, err, text)
		}
	}
	l.copy(built(t, "windows", "./cmd/internal/cli", "test", "-c"), l.standin)
	return l
}

// with is the environment in which the stand-in driver is found as programs find one: on PATH, since System32 has none.
func (l *wineLab) with(extra ...string) []string {
	return append([]string{"WINEPATH=" + z(filepath.Join(l.dir, "standin"))}, extra...)
}

// prove runs `gpubuild prove` on the program and answers what it printed and its exit code. {other} and {program} in args are those files.
func (l *wineLab) prove(gpubuild string, env, flags []string, args ...string) (string, int) {
	l.t.Helper()
	words := []string{z(gpubuild), "prove", "--probe=" + z(filepath.Join(l.dir, "probe", "gpubuild_probe.dll")), "--cupti=" + z(l.cupti)}
	words = append(append(words, flags...), z(l.program), "--")
	for _, a := range args {
		words = append(words, strings.NewReplacer("{other}", z(l.other), "{program}", z(l.program)).Replace(a))
	}
	out, err := l.run(env, words...)
	return out, code(err)
}

// TestWineProof proves small Windows programs by the real chain: the driver loads the probe, CUPTI records, the watcher watches, the judge
// judges. Each of them ends in another way.
func TestWineProof(t *testing.T) {
	l := newWineLab(t)
	// What the judge says is the same on every system, and one way of ending is like another: for the full count.
	counted := []string{"many launches", "the other kernel was asked for", "the same, as it was expected", "a return from main",
		"ExitProcess in another thread", "the same, and it was asked for", "a program that does not need its LD_PRELOAD"}
	tests := []struct {
		story string
		args  []string
		flags []string
		code  int
		want  string // one of the lines
	}{
		{"a product on the GPU", []string{"gpu"}, nil, 0, `a program.exe ran its kernel on Stand-in device`},
		{"many launches", []string{"gpu", "20000"}, nil, 0, "ran: 20000 launches of matmul"},
		{"other kernels in four threads, then the product", []string{"threads"}, nil, 0, "ran: 1 launch of matmul"},
		{"another kernel", []string{"fill"}, nil, 22, "ran: 1 launch of other kernels: fill_f32"},
		{"the other kernel was asked for", []string{"fill"}, []string{"--kernel=^fill"}, 0, "Proved"},
		{"the driver was opened, and nothing was launched", []string{"init"}, nil, 20, "the driver was opened, but nothing was " +
			"launched in this program and its children"},
		{"the same, as it was expected", []string{"init"}, []string{"--expect=cpu"}, 0, "Not used"},
		{"computed on the CPU: nobody can know that nothing else was done", []string{"cpu"}, nil, 21,
			"whether a GPU was opened while it ran is not known"},
		{"the driver loaded, but not called", []string{"loads"}, nil, 21, "Not proven"},
		{"the variable cleared by the program itself", []string{"clears"}, nil, 21, "Not proven"},

		{"a return from main", []string{"status", "3"}, []string{"--expect-exit=3"}, 0, "Proved"},
		{"a status that was not expected", []string{"status", "3"}, nil, 3, "ended with status 3, expected was 0"},
		{"exit, with a handler of its own", []string{"exit", "0"}, nil, 0, "\natexit\n"},
		{"ExitProcess", []string{"ExitProcess", "5"}, []string{"--expect-exit=5"}, 0, "Proved"},
		{"ExitProcess in another thread", []string{"thread-ends-it", "7"}, []string{"--expect-exit=7"}, 0, "Proved"},
		{"ExitProcess in five threads at once", []string{"two-at-once", "6"}, []string{"--expect-exit=6"}, 0, "Proved"},
		{"the last of its threads ends", []string{"last-thread", "9"}, []string{"--expect-exit=9"}, 0, "Proved"},
		{"TerminateProcess at once", []string{"TerminateProcess"}, nil, 0, "did not end in an orderly way (TerminateProcess"},
		{"TerminateProcess after a while", []string{"TerminateProcess", "500"}, nil, 0, "later records may be missing"},
		// Wine's own status is a byte
		{"a crash", []string{"crash"}, nil, 5, "was ended by Windows (0xC0000005), expected was 0"},
		{"abort", []string{"abort"}, []string{"--expect-exit=3"}, 0, "Proved"},
		{"the driver freed, and more often than loaded", []string{"frees"}, nil, 0, "Proved"},
		{"never ends", []string{"sleep", "60000"}, []string{"--timeout=2s"}, -1, "before it was done"},

		{"a child uses the GPU, the binary does not", []string{"child", "{other}", "gpu"}, nil, 21, "not by the binary itself"},
		{"a child's product was asked for", []string{"child", "{other}", "gpu"}, []string{"--child=OTH*"}, 0, "kernels of a child count"},
		{"a child that is the binary itself", []string{"child", "{program}", "gpu"}, nil, 21, "how that process ended is not known"},
		{"the same, and it was asked for", []string{"child", "{program}", "gpu"}, []string{"--child=*PROGRAM*"}, 0, "Proved"},
		{"a child on the CPU behind the product", []string{"then-child", "{other}", "cpu"}, nil, 0, "Proved"},
		{"the driver was opened, and a child came and went", []string{"init-then-child", "{other}", "cpu"}, nil, 21,
			"it started other processes"},
		{"a child without our environment uses the GPU", []string{"bare-child", "{other}", "gpu"}, nil, 21, "Not proven"},
		{"a child without our environment lives long", []string{"bare-child", "{other}", "sleep", "600"}, nil, 21,
			"whether a GPU was opened while it ran is not known"},

		{"its arguments as they were", []string{"arguments", `a b`, `c"d`, `e\`, `f g\`, ``, `%PATH%`}, nil, 21,
			`[a b][c"d][e\][f g\][][%PATH%]` + "\n"},
		{"the thread's last error as it was", []string{"last-error"}, nil, 0, "\n1234\n"},
	}
	for _, tt := range tests {
		if slices.Contains(counted, tt.story) && !need.Full(t) {
			continue
		}
		t.Run(tt.story, func(t *testing.T) {
			l.t = t
			holds := func(out string, got int) bool {
				return (got == tt.code || tt.code < 0 && got != 0) && strings.Contains(out, tt.want)
			}
			out, got := l.settled(func() (string, int) { return l.prove(l.standin, l.with(), tt.flags, tt.args...) }, holds)
			if !holds(out, got) {
				t.Errorf("ended with %d, want %d and %q in\n%s", got, tt.code, tt.want, out)
			}
		})
	}

	settings := []struct {
		story string
		env   []string
		code  int
		want  string
	}{
		{"a device that is hidden, in other letters", l.with("cuda_visible_devices=-1"), 21,
			"hidden by CUDA_VISIBLE_DEVICES=-1"},
		{"no driver", nil, 21, "there is no CUDA driver here"},
		{"an injection of somebody else's, in other letters", l.with(`Cuda_Injection64_Path=C:\other.dll`), 0,
			`CUDA_INJECTION64_PATH was set: replaced`},
		{"CUPTI may not trace", l.with("STANDIN_CUPTI_ENABLE=35"), 21, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"},
		{"CUPTI loses the launch", l.with("STANDIN_CUPTI_LOSE=matmul"), 21, "of 1 launch that the driver accepted"},
		{"a program that does not need its LD_PRELOAD", l.with("LD_PRELOAD=/usr/lib/x.so"), 0, "Proved"},
	}
	for _, tt := range settings {
		if slices.Contains(counted, tt.story) && !need.Full(t) {
			continue
		}
		t.Run(tt.story, func(t *testing.T) {
			l.t = t
			program := "gpu"
			if tt.story == "no driver" || strings.HasPrefix(tt.story, "a device") {
				program = "cpu"
			}
			holds := func(out string, got int) bool { return got == tt.code && strings.Contains(out, tt.want) }
			out, got := l.settled(func() (string, int) { return l.prove(l.standin, tt.env, nil, program) }, holds)
			if !holds(out, got) {
				t.Errorf("ended with %d, want %d and %q in\n%s", got, tt.code, tt.want, out)
			}
		})
	}

	t.Run("a long directory for records, on a network share too", func(t *testing.T) {
		l.t = t
		long := strings.Repeat(`\long`, 40)
		for dir, want := range map[string]string{`C:` + long: `\\?\C:\long`, `\\server\share` + long: `\\?\UNC\server\share\long`, `\\server\share`: `\\server\share`} {
			if out, _ := l.run(nil, z(filepath.Join(l.dir, "records.exe")), dir); !strings.HasPrefix(out, want) {
				t.Errorf("%s: %s", dir, out)
			}
		}
	})

	t.Run("a CUPTI that is not there", func(t *testing.T) {
		l.t = t
		words := []string{z(l.standin), "prove", "--probe=" + z(filepath.Join(l.dir, "probe", "gpubuild_probe.dll")), z(l.program), "--",
			"gpu"}
		out, err := l.run(l.with(), words...)
		if code(err) != 21 || !strings.Contains(out, "no cupti64_*.dll was named") ||
			!strings.Contains(out, `Install CUPTI (cupti64_*.dll, of the toolkit's extras\CUPTI\lib64)`) {
			t.Errorf("%v\n%s", err, out)
		}
	})

	// The shipped gpubuild.exe believes in no such driver, wherever it lies.
	t.Run("the shipped predicate", func(t *testing.T) {
		l.t = t
		on := func(env []string) (string, int) {
			return l.settled(func() (string, int) { return l.prove(l.gpubuild, env, nil, "gpu") },
				func(out string, _ int) bool { return strings.Contains(out, "1 launch of matmul") })
		}
		out, got := on(l.with())
		if got != 21 || !strings.Contains(out, `nvcuda.dll is not C:\windows\system32\nvcuda.dll`) ||
			!strings.Contains(out, "ran: 1 launch of matmul") {
			t.Errorf("on PATH: %d\n%s", got, out)
		}
		data, err := os.ReadFile(filepath.Join(l.dir, "standin", "nvcuda.dll"))
		if err != nil {
			t.Fatal(err)
		}
		system := l.path(`C:\windows\system32\nvcuda.dll`)
		t.Cleanup(func() {
			if err := os.RemoveAll(system); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(system, data, 0o755); err != nil {
			t.Fatal(err)
		}
		out, got = on(nil)
		if got != 21 || !strings.Contains(out, `nvcuda.dll carries no signature that Windows holds valid`) ||
			!strings.Contains(out, "ran: 1 launch of matmul") {
			t.Errorf("in System32: %d\n%s", got, out)
		}
	})

	t.Run("the answer as JSON", func(t *testing.T) {
		l.t = t
		file := filepath.Join(l.work, "answer.json")
		if out, got := l.prove(l.standin, l.with(), []string{"--json=" + z(file)}, "gpu", "3"); got != 0 {
			t.Fatalf("%d\n%s", got, out)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for _, want := range []string{`cupti64_2026.10.0.dll`, `nvcuda.dll`, `a program.exe`, `"matmul"`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	})

	// The probe by itself: one record file a process, read by the reader of all systems.
	t.Run("records", func(t *testing.T) {
		l.t = t
		dir := filepath.Join(l.work, "records, ü")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		env := l.with("CUDA_INJECTION64_PATH="+z(filepath.Join(l.dir, "probe", "gpubuild_probe.dll")), "GPUBUILD_PROBE_DIR="+z(dir),
			"CUDA_PATH="+z(filepath.Join(l.dir, "toolkit")))
		out, err := l.run(env, z(l.program), "child", z(l.program), "gpu", "5000")
		if err != nil || out != "done\n" {
			t.Fatalf("%v\n%s", err, out)
		}
		r, err := probe.ReadDir(dir)
		if err != nil || r.Bad != 0 || r.Cut != 0 || len(r.Processes) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		p := r.Processes[0]
		if p.Launches() != 5000 || p.End == nil || p.End.Accepted != 5000 || p.End.Flush != 0 || len(p.Devices) != 1 || p.Parent == 0 ||
			p.ExeInode == 0 || p.Started == 0 {
			t.Errorf("%+v", p)
		}
		driver := z(filepath.Join(l.dir, "standin", "nvcuda.dll"))
		if p.LibCUPTI != z(l.cupti) || p.LibCUDA != driver || p.Caller != driver || len(p.Drivers) != 1 || p.Exe != z(l.program) {
			t.Errorf("%+v", p) // the newest CUPTI of CUDA_PATH, by number
		}
		newest := filepath.Join(filepath.Dir(l.cupti), "cupti64_13.dll") // CUDA 13.5's, whose number is lower
		l.copy(l.cupti, newest)
		l.must(os.RemoveAll(dir))
		l.must(os.Mkdir(dir, 0o755))
		if out, err := l.run(env, z(l.program), "gpu"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if r, err := probe.ReadDir(dir); err != nil || len(r.Processes) != 1 || r.Processes[0].LibCUPTI != z(newest) {
			t.Errorf("beside %s: %+v, %v", newest, r, err)
		}
		l.must(os.Remove(newest))
	})

	t.Run("unchanged", l.unchanged)
	t.Run("builds the probe", l.buildsTheProbe)
}

// plantSDK makes the planted Visual Studio one that can compile and link C: mingw-w64's windows.h behind the few headers that stand for
// what cl has by itself, its import libraries, and a small libcmt.lib.
func (l *wineLab) plantSDK() {
	l.t.Helper()
	const gcc = "x86_64-w64-mingw32-gcc"
	l.plant(map[string]string{"14.44.35207": "12.4"})
	standin := filepath.Join("..", "..", "..", "testdata", "standin")
	toolset, version := studio+`\VC\Tools\MSVC\14.44.35207`, "10.0.26100.0"
	include := l.path(toolset + `\include`)
	entries, err := os.ReadDir(include)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range entries { // C++ only
		if e.Name() != "yvals_core.h" {
			l.must(os.Remove(filepath.Join(include, e.Name())))
		}
	}
	headers, err := filepath.Glob(filepath.Join(standin, "intrin", "*.h"))
	if err != nil || len(headers) == 0 {
		l.t.Fatal("no headers", err)
	}
	for _, h := range headers {
		l.copy(h, filepath.Join(include, filepath.Base(h)))
	}
	l.file(kit+`\Include\`+version+`\um\Windows.h`, "#include_next <windows.h>\n")
	l.file(kit+`\Include\`+version+`\ucrt\corecrt.h`, "#include_next <corecrt.h>\n")
	where := func(what string) string {
		out, err := exec.Command(gcc, "-print-file-name="+what).Output()
		if err != nil || !filepath.IsAbs(strings.TrimSpace(string(out))) {
			l.t.Fatalf("%s: %q, %v", what, out, err)
		}
		return strings.TrimSpace(string(out))
	}
	shared := l.path(kit + `\Include\` + version + `\shared`)
	l.must(os.RemoveAll(shared))
	l.must(os.Symlink(filepath.Join(filepath.Dir(where("libkernel32.a")), "..", "include"), shared))
	l.copy(where("libkernel32.a"), l.path(kit+`\Lib\`+version+`\um\x64\kernel32.lib`))
	l.copy(where("libmsvcrt.a"), l.path(kit+`\Lib\`+version+`\ucrt\x64\ucrt.lib`))
	var objects []string
	for _, entry := range []string{"0", "1", "2"} {
		object := filepath.Join(l.dir, "libcmt"+entry+".o")
		if out, err := exec.Command(gcc, "-O1", "-Wall", "-Werror", "-c", "-DENTRY="+entry, filepath.Join(standin, "libcmt.c"), "-o",
			object).CombinedOutput(); err != nil {
			l.t.Fatalf("%v\n%s", err, out)
		}
		objects = append(objects, object)
	}
	libcmt := l.path(toolset + `\lib\x64\libcmt.lib`)
	l.must(os.Remove(libcmt))
	if out, err := exec.Command("x86_64-w64-mingw32-ar", append([]string{"rcs", libcmt}, objects...)...).CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
}

func (l *wineLab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (w *wine) copy(from, to string) {
	w.t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// buildsTheProbe has gpubuild.exe build the probe by a cl.exe that it found, and prove with it.
func (l *wineLab) buildsTheProbe(t *testing.T) {
	l.t = t
	prove := func() (string, int) {
		out, err := l.run(l.with(), z(l.standin), "prove", "--cupti="+z(l.cupti), z(l.program), "--", "gpu")
		return out, code(err)
	}
	if out, got := prove(); got != 11 || !strings.Contains(out, "no host compiler (cl, gcc or clang) to build the probe with") ||
		!strings.Contains(out, "winget install") {
		t.Errorf("no compiler: %d\n%s", got, out)
	}
	l.plantSDK()
	l.calls()
	// It ends 11: there is no cargo. Its lines are wrapped.
	if out, _ := l.run(nil, z(l.gpubuild), "doctor"); !strings.Contains(strings.Join(strings.Fields(out), " "), "can be built by "+studio) {
		t.Errorf("doctor: %s", out)
	}
	out, got := prove()
	if got != 0 || !strings.Contains(out, "ran: 1 launch of matmul") {
		t.Fatalf("ended with %d\n%s", got, out)
	}
	calls := strings.Join(l.calls(), "\n")
	for _, want := range []string{"ARGS=/nologo /TC /utf-8 /W3 /O2 /MT /LD /Fo:", "control.c", "watch_windows.c", `INCLUDE=` + studio,
		`LIB=` + studio} {
		if !strings.Contains(calls, want) {
			t.Errorf("no %s in\n%s", want, calls)
		}
	}
	if out, got := prove(); got != 0 {
		t.Errorf("once more: %d\n%s", got, out)
	}
	if again := l.calls(); len(again) != 0 {
		t.Errorf("built once more: %s", again)
	}
}

// unchanged runs a program bare, and under the probe behind the watcher, and compares what it printed and its exit code; in the full count
// under the probe alone, too.
func (l *wineLab) unchanged(t *testing.T) {
	dir, watched := t.TempDir(), filepath.Join(t.TempDir(), "watch.jsonl")
	probed := l.with("CUDA_INJECTION64_PATH="+z(filepath.Join(l.dir, "probe", "gpubuild_probe.dll")), "GPUBUILD_PROBE_DIR="+z(dir),
		"GPUBUILD_PROBE_CUPTI="+z(l.cupti))
	for _, args := range []string{"gpu", "init", "fill", "threads", "status 3", "exit 4", "ExitProcess 5", "TerminateProcess", "abort",
		"frees", "thread-ends-it 7", "last-thread 9", "two-at-once 6", "last-error"} {
		t.Run(args, func(t *testing.T) {
			l.t = t
			words := append([]string{z(l.program)}, strings.Fields(args)...)
			bare, first := l.run(l.with(), words...)
			same := func(how string, words ...string) {
				if out, err := l.run(probed, words...); out != bare || code(err) != code(first) {
					t.Errorf("bare %d %q, %s %d %q", code(first), bare, how, code(err), out)
				}
			}
			same("behind the watcher", append([]string{z(filepath.Join(l.dir, "probe", "gpubuild-watch.exe")), z(watched), ""}, words...)...)
			if need.Full(t) {
				same("under the probe", words...)
			}
		})
	}
	if r, err := probe.ReadDir(dir); err != nil || r.Bad != 0 || len(r.Processes) < 10 {
		t.Errorf("the probe was there: %d processes, %v", len(r.Processes), err)
	}
}
