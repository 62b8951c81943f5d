package cargorun

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

func lineOf(t *testing.T, words string) cargo.Line {
	t.Helper()
	line, _ := hosttest.Must2(cargo.Split(strings.Fields(words), nil))(t)
	return line
}

func artifact(kind, executable string, test bool) cargo.Message {
	return cargo.Message{Reason: cargo.Artifact, PackageID: "path+file:///w#app@1.0.0", Executable: executable, Profile: cargo.Profile{Test: test},
		Target: cargo.Target{Kind: strings.Split(kind, "+"), Name: "x", SrcPath: "/w/src/x.rs"}}
}

// TestProgramsOfABuild: which of cargo's messages are programs, and what each is.
func TestProgramsOfABuild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words string
		m     cargo.Message
		want  string
	}{
		{"build", artifact("bin", "/t/x", false), "bin of bin"},
		{"build", artifact("lib", "", false), ""},
		{"build", artifact("example", "/t/x", false), "example of example"},
		{"build", artifact("custom-build", "/t/x", false), ""},
		{"build", cargo.Message{Reason: cargo.ScriptExecuted, Executable: "/t/x"}, ""},
		{"test", artifact("lib", "/t/x", true), "test of lib, unit"},
		{"test", artifact("rlib+cdylib", "/t/x", true), "test of lib, unit"},
		{"test", artifact("bin", "/t/x", true), "test of bin, unit"},
		{"test", artifact("test", "/t/x", true), "test of test"},
		{"bench", artifact("bench", "/t/x", true), "test of bench"},
		{"rustc", artifact("bin", "/there", false), "bin of bin"},
		{"rustc", artifact("bin", "/gone", false), ""},
		{"rustc -- --emit=asm", artifact("bin", "/there", false), ""},
		{"build", artifact("bin", "/gone", false), "bin of bin"},
	} {
		h := hosttest.Memory(map[string]string{"/there": ""})
		got := ""
		for _, p := range programs(h, lineOf(t, tt.words), []cargo.Message{tt.m}) {
			got = p.Kind + " of " + p.Target
			if p.Unit {
				got += ", unit"
			}
			if p.Package != "app" || p.Name != "x" || p.Path != tt.m.Executable || p.Source != "/w/src/x.rs" {
				t.Errorf("%s: %+v", tt.words, p)
			}
		}
		hosttest.Equal(t, got, tt.want, tt.words, tt.m)
	}
}

// TestWhichProgramIsRun: cargo refuses to choose among several programs, unless a flag or a manifest does.
func TestWhichProgramIsRun(t *testing.T) {
	t.Parallel()
	one, two := features.Root{Package: "app", Target: "a", Kind: "bin"}, features.Root{Package: "app", Target: "b", Kind: "bin"}
	lib := features.Root{Package: "app", Target: "c", Kind: "lib"}
	named := &manifest.Package{Name: "app", DefaultRun: "a"}
	for _, tt := range []struct {
		words    string
		roots    []features.Root
		selected *manifest.Package // nil: one without a default
		member   *manifest.Package
		want     bool
		run      string
	}{
		{"run", []features.Root{one, two}, nil, nil, true, ""},
		{"run", []features.Root{one}, nil, nil, false, ""},
		{"run", []features.Root{one, lib}, nil, nil, false, ""},
		{"run", []features.Root{one, one}, nil, nil, false, ""},
		{"run", []features.Root{lib}, nil, nil, true, ""},
		{"run", []features.Root{lib, {Package: "app"}}, nil, nil, false, ""},
		{"build", []features.Root{one, two}, nil, nil, false, ""},
		{"run --bin a", []features.Root{one, two}, nil, nil, false, ""},
		{"run --example a", []features.Root{one, two}, nil, nil, false, ""},
		{"run", []features.Root{one, two}, named, nil, false, "a"},
		{"build", nil, named, nil, false, ""},
		{"run -p app", []features.Root{one, two}, named, nil, true, ""},
		{"run", []features.Root{one, two}, nil, named, false, ""},
	} {
		s := &session.Session{Line: lineOf(t, tt.words), Project: &manifest.Project{Selected: tt.selected}}
		if tt.member != nil {
			s.Project.Members = []*manifest.Package{tt.member}
		}
		if got, run := RefusedRun(s, tt.roots), DefaultRun(s); got != tt.want || run != tt.run {
			t.Errorf("%s %+v: ambiguous %v, default %q", tt.words, tt.roots, got, run)
		}
	}
}

// fake is a cargo that prints what a row says and exits with its code.
type fake struct {
	stdout, stderr, signal string
	code                   int
	ran                    []buildenv.Cmd
}

func (f *fake) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	f.ran = append(f.ran, c)
	if c.Stdout != nil {
		_, _ = c.Stdout.Write([]byte(f.stdout))
	}
	if c.Stderr != nil {
		_, _ = c.Stderr.Write([]byte(f.stderr))
	}
	r := buildenv.Result{Stdout: []byte(f.stdout), Code: f.code, Signal: f.signal}
	if f.code != 0 {
		return r, &buildenv.ExitError{Cmd: c, Result: r}
	}
	return r, nil
}

func machine(f *fake, err *bytes.Buffer) *session.Machine {
	h := hosttest.Memory(map[string]string{"/bin/cargo": ""})
	h.Env = buildenv.NewEnv(h.OS, []string{"CARGO=/bin/cargo"})
	return &session.Machine{Host: h, Runner: f, CacheDir: "/cache", Shell: &console.Shell{Out: err, Err: err}}
}

// TestNoRun: of a build with --no-run the executables are listed as cargo lists them.
func TestNoRun(t *testing.T) {
	t.Parallel()
	list := []Program{{Path: "/w/t/a", Source: "/w/a.rs", Kind: "test", Unit: true}, {Path: "/w/t/b", Source: "/w/b.rs", Kind: "bench"}, {Path: "/w/t/c", Kind: "bin"}}
	for words, want := range map[string]string{
		"test": "", "test --no-run --message-format=json": "",
		"test --no-run": "  Executable unittests a.rs (t/a)\n  Executable b.rs (t/b)\n",
	} {
		var said bytes.Buffer
		PrintExecutables(machine(nil, &said), lineOf(t, words), list)
		hosttest.Equal(t, said.String(), want, words)
	}
}

// TestBuilt: what is known of a build after it.
func TestBuilt(t *testing.T) {
	t.Parallel()
	const lines = `{"reason":"compiler-artifact","package_id":"p","target":{"kind":["bin"],"name":"x"},"executable":"/t/x"}` + "\n" +
		`{"reason":"build-finished","success":true}` + "\nnot json\n"
	for _, tt := range []struct {
		story               string
		f                   fake
		canceled            bool
		interrupted, waited bool
		known               bool
	}{
		{story: "it went well", f: fake{stdout: lines}},
		{story: "it waited", f: fake{stdout: lines, stderr: "    Blocking waiting for file lock on build directory\n"}, waited: true},
		{story: "for the artifacts", f: fake{stdout: lines, stderr: "    Blocking waiting for file lock on artifact directory\n"}, waited: true},
		{story: "for packages, which is nobody's build", f: fake{stdout: lines, stderr: "    Blocking waiting for file lock on package cache\n"}},
		{story: "it failed", f: fake{stdout: lines, stderr: "nvcc fatal   : Unsupported gpu architecture 'compute_10'\n", code: 101}, known: true},
		{story: "it went well with such a word", f: fake{stdout: lines, stderr: "nvcc fatal   : Unsupported gpu architecture 'compute_10'\n"}},
		{story: "it was killed", f: fake{stdout: lines, signal: "killed", code: 137}, interrupted: true},
		{story: "the user ended it", f: fake{stdout: lines, stderr: "nvcc fatal   : Unsupported gpu architecture 'compute_10'\n", code: 101}, canceled: true, interrupted: true},
	} {
		var said, other bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		if tt.canceled {
			cancel()
		}
		defer cancel()
		asked := ""
		out := Output{Other: &other, Messages: func(b []byte) { asked += string(b) + "\n" }}
		s := &session.Session{Machine: machine(&tt.f, &said), Line: lineOf(t, "build"), Project: &manifest.Project{}}
		built, err := Build(ctx, s, cargo.Tool{Path: "/bin/cargo"}, out)
		if (err != nil) != (tt.f.code != 0) || built.Interrupted != tt.interrupted || built.Waited != tt.waited || built.Match.Known() != tt.known || built.Unread {
			t.Errorf("%s: %+v %v", tt.story, built, err)
		}
		if len(built.Programs) != 1 || len(built.Messages) != 1 || other.String() != "not json\n" || strings.Count(asked, "\n") != 2 || said.String() != tt.f.stderr {
			t.Errorf("%s: %d programs, %d messages, %q, %q", tt.story, len(built.Programs), len(built.Messages), other.String(), asked)
		}
	}
}

// TestCompilerMessages: where the user asked for JSON, a linker's error is in a message.
func TestCompilerMessages(t *testing.T) {
	t.Parallel()
	for level, known := range map[string]bool{"error": true, "warning": false} {
		f := fake{code: 101, stdout: fmt.Sprintf(`{"reason":"compiler-message","message":{"level":%q,"rendered":"error[E0425]: cannot find value\n --> src/main.rs:1:1\n"}}`+"\n", level)}
		var said bytes.Buffer
		s := &session.Session{Machine: machine(&f, &said), Line: lineOf(t, "build"), Project: &manifest.Project{}}
		built, _ := Build(t.Context(), s, cargo.Tool{Path: "/bin/cargo"}, Output{Other: &said, Messages: func([]byte) {}})
		hosttest.Equal(t, len(built.CompileErrors) > 0, known, level, built.CompileErrors)
	}
}

// TestClean: an error of cargo's cleaning names the reason and what to do.
func TestClean(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    fake
		want string // of the error's hint
	}{
		{fake{stderr: "     Removed 3 files\n"}, ""},
		{fake{stderr: "error: failed to remove x: Permission denied (os error 13)\n", code: 101}, "make /t one that you may write to"},
		{fake{stderr: "error: Read-only file system\n", code: 101}, "make /t one"}, {fake{stderr: "error: Access is denied.\n", code: 101}, "make /t one"},
		{fake{stderr: "error: No space left on device\n", code: 101}, "free some space"}, {fake{stderr: "error: other\n", code: 101}, "nothing that is stale was taken for good"},
	} {
		var said bytes.Buffer
		err := Clean(t.Context(), machine(&tt.f, &said), buildenv.Cmd{}, "/t")
		if (err != nil) != (tt.want != "") || !strings.Contains(exit.Hint(err), tt.want) || said.Len() > 0 {
			t.Errorf("%q: %v, hint %q, said %q", tt.f.stderr, err, exit.Hint(err), said.String())
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "cargo could not clean /t:\n") || strings.Contains(err.Error(), "error: ")) {
			t.Errorf("%v", err)
		}
	}
	var said bytes.Buffer
	f := fake{stderr: "    Blocking waiting for file lock on package cache\n    Blocking waiting for file lock on build directory\n"}
	if err := Clean(t.Context(), machine(&f, &said), buildenv.Cmd{}, "/t"); err != nil || strings.Count(said.String(), "is at work in /t") != 1 || strings.Count(said.String(), "package cache, which another cargo holds") != 1 {
		t.Errorf("%v: %s", err, said.String())
	}
}

// TestEndOfAProgram: cargo's run of a program that a signal ended is named; of other subcommands cargo says it.
func TestEndOfAProgram(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words, signal string
		code          int
		want          string
	}{
		{"run", "segmentation fault", 139, "error: the program ended with 139 (SIGSEGV)\n"}, {"r", "killed", 137, "error: the program ended with 137 (SIGKILL, as the kernel ends a program for which there is no memory)\n"},
		{"run", "odd", 159, "error: the program ended with 159\n"}, {"run", "", 1, ""}, {"test", "segmentation fault", 139, ""},
	} {
		var said bytes.Buffer
		f := fake{code: tt.code, signal: tt.signal}
		m := machine(&f, &said)
		err := Run(t.Context(), m, lineOf(t, tt.words), m.Host.Env)
		if exit.Of(err) != tt.code || said.String() != tt.want {
			t.Errorf("%s: %v %q, want %q", tt.words, err, said.String(), tt.want)
		}
	}
	var said bytes.Buffer
	m := machine(&fake{}, &said)
	m.Host.Env = m.Host.Env.Set("CARGO", "/gone")
	if err := Run(t.Context(), m, lineOf(t, "run"), m.Host.Env); err == nil || !strings.Contains(err.Error(), "no cargo") || len(m.Runner.(*fake).ran) > 0 {
		t.Errorf("without a cargo: %v", err)
	}
}

// TestTargets: the targets of all members, without build scripts, a library of any kind as lib.
func TestTargets(t *testing.T) {
	t.Parallel()
	f := fake{stdout: `{"packages":[{"name":"app","targets":[{"name":"app","kind":["rlib","cdylib"]},{"name":"build-script-build","kind":["custom-build"]},` +
		`{"name":"b","kind":["bin"]},{"name":"t","kind":["test"]},{"name":"e","kind":["example"]},{"name":"n","kind":["bench"]},{"name":"m","kind":["proc-macro"]}]}]}`}
	var said bytes.Buffer
	list, err := Targets(t.Context(), machine(&f, &said), cargo.Tool{Path: "/bin/cargo"}, lineOf(t, "test"))
	if got := fmt.Sprint(list); err != nil || got != "[{app lib app} {app bin b} {app test t} {app example e} {app bench n} {app lib m}]" {
		t.Errorf("%s %v", got, err)
	}
	for _, bad := range []fake{{code: 101}, {code: 101, stdout: f.stdout}, {stdout: "{"}} {
		if _, err := Targets(t.Context(), machine(&bad, &said), cargo.Tool{Path: "/bin/cargo"}, lineOf(t, "test")); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
