package tools

import (
	"context"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

func hostOf(t *testing.T, text string) buildenv.Host {
	return hosttest.Must(hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /r/app\n" + text)))(t)
}

// TestGuardChecksWhatIsRun: a path below the repository, by its name or behind a link, needs consent; what the user's own environment leads
// to does not, and neither does what lies elsewhere. The first refusal stays.
func TestGuardChecksWhatIsRun(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @links --\n/opt/link -> /r/tools/gcc\n-- @empty --\n/r/tools/gcc +x\n/r/my tools/gcc +x\n/usr/bin/gcc +x\n/r/own/gcc +x\n")
	for _, tt := range []struct {
		story string
		paths []string
		want  string // the path that is refused
	}{
		{"elsewhere", []string{"/usr/bin/gcc"}, ""},
		{"in the repository", []string{"/r/tools/gcc"}, "/r/tools/gcc"},
		{"with a space in its name", []string{"/r/my tools/gcc"}, "/r/my tools/gcc"},
		{"outside, and a link into the repository", []string{"/opt/link"}, "/opt/link"},
		{"the second of two", []string{"/usr/bin/gcc", "/r/tools/gcc"}, "/r/tools/gcc"},
		{"the user's own PATH leads there", []string{"/r/own/gcc"}, ""},
		{"nothing", []string{""}, ""},
		{"a name that only begins like the repository", []string{"/r2/gcc"}, ""},
	} {
		g := &Guard{host: h, roots: []string{"/r"}, named: []string{"NVCC"}, own: func() []string { return []string{"", "/r/own/gcc"} }}
		err := g.check(tt.paths...)
		is := err != nil
		if is != (tt.want != "") || is && (!strings.HasPrefix(err.Error(), tt.want+" is in the repository") || exit.Of(err) != exit.Config) {
			t.Errorf("%s: %v", tt.story, err)
		}
		if is && g.check("/r/other") != err {
			t.Errorf("%s: the second refusal hides the first", tt.story)
		}
	}
}

// TestToolsGetTheUsersOwnValues of variables that the repository's files set, and what else sets them stays.
func TestToolsGetTheUsersOwnValues(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @env --\nCPATH=/mine\n")
	g := &Guard{host: h, foreign: []cargo.Given{{Name: "LD_PRELOAD", Value: "evil.so"}, {Name: "CPATH", Value: "/r/include"},
		{Name: "CC", Value: "/r/cc"}}}
	got := g.ownValues(h.Env.Set("LD_PRELOAD", "evil.so").Set("CPATH", "/r/include").Set("CC", "gcc"))
	if _, set := got.Lookup("LD_PRELOAD"); set || got.Get("CPATH") != "/mine" || got.Get("CC") != "gcc" {
		t.Errorf("got %q", got.Entries())
	}
}

// TestGuardChecksEveryPart of a chosen set: each of them is run, or read by what is run.
func TestGuardChecksEveryPart(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @empty --\n/r/x +x\n")
	for story, set := range map[string]toolchain.Set{
		"toolkit":           {Toolkit: &cuda.Toolkit{Root: "/r/x", NVCC: "/usr/bin/nvcc"}},
		"nvcc":              {Toolkit: &cuda.Toolkit{Root: "/opt", NVCC: "/r/x"}},
		"C compiler":        {Compiler: &hostcc.Compiler{Path: "/r/x", CXX: "/usr/bin/g++"}},
		"C++ compiler":      {Compiler: &hostcc.Compiler{Path: "/usr/bin/gcc", CXX: "/r/x"}},
		"cuDNN":             {CUDNN: &cudnn.Install{Root: "/r/x"}},
		"cuDNN's headers":   {CUDNN: &cudnn.Install{Root: "/opt", Include: "/r/x"}},
		"cuDNN's libraries": {CUDNN: &cudnn.Install{Root: "/opt", Lib: "/r/x"}},
		"a launcher":        {Launchers: []string{"/r/x"}},
		"":                  {Toolkit: &cuda.Toolkit{Root: "/opt"}},
	} {
		g := &Guard{host: h, roots: []string{"/r"}, own: func() []string { return nil }}
		if err := g.Check(set); (err != nil) != (story != "") {
			t.Errorf("%s: %v", story, err)
		}
	}
}

// TestGuardIsMadeOfTheRepositorysFiles, unless the user agrees by the flag. A relative value that leads out of the directory of its file
// counts as the repository's there, too.
func TestGuardIsMadeOfTheRepositorysFiles(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- /r/app/.cargo/config.toml --\n[env]\n-- @empty --\n/r/tools/nvcc +x\n/r/app/nvcc +x\n")
	s := &session.Session{Machine: &session.Machine{Host: h}, Project: &manifest.Project{Root: "/r/app"}, Config: config.Config{}}
	tables := []cargo.Given{{Name: "NVCC", Value: "/r/app/../tools/nvcc", Written: "../tools/nvcc", Origin: "/r/app/.cargo/config.toml"}}
	refuses := func(tables []cargo.Given, o Options, path string) bool {
		g := hosttest.Must(guard(context.Background(), s, o, tables, wish{}))(t)
		g.own = func() []string { return nil }
		return g.check(path) != nil
	}
	for _, tt := range []struct {
		story  string
		tables []cargo.Given
		o      Options
		path   string
		want   bool
	}{
		{"below the repository", tables, Options{}, "/r/app/nvcc", true},
		{"above it, by ..", tables, Options{}, "/r/tools/nvcc", true},
		{"elsewhere", tables, Options{}, "/usr/bin/nvcc", false},
		{"by another name of the current directory", tables, Options{}, "/proc/self/cwd/link/nvcc", true},
		{"the user agrees", tables, Options{TrustProject: true}, "/r/app/nvcc", false},
		{"the repository says nothing", nil, Options{}, "/r/app/nvcc", false},
		{"CARGO_HOME lies in the repository", tables, Options{Cargo: cargo.Tool{Env: h.Env.Set("CARGO_HOME", "/r/app/.cargo")}},
			"/r/app/nvcc", true},
		{"the user's own --config", []cargo.Given{{Name: "NVCC", Value: "/r/app/nvcc", Written: "nvcc", Origin: "--config"}}, Options{},
			"/r/app/nvcc", false},
	} {
		hosttest.Equal(t, refuses(tt.tables, tt.o, tt.path), tt.want, tt.story, "refused is")
	}
}

// TestTrustCoversWhatIsBelow a directory that the user's own configuration names, by that name or behind a link, and nothing above or beside it.
func TestTrustCoversWhatIsBelow(t *testing.T) {
	t.Parallel()
	tables := []cargo.Given{{Name: "NVCC", Value: "/r/app/nvcc", Written: "nvcc", Origin: "/r/app/.cargo/config.toml"}}
	for trusted, refused := range map[string]bool{"/r/app": false, "/r": false, "/link": false, "/": false, "/r/app/sub": true, "/r/ap": true, "/other": true} {
		h := hostOf(t, "-- @env --\nGPUBUILD_CONFIG=/c.toml\n-- /c.toml --\ntrust = [\""+trusted+"\"]\n"+
			"-- /r/app/.cargo/config.toml --\n[env]\n-- @links --\n/link -> /r\n-- @empty --\n/r/app/nvcc +x\n")
		s := &session.Session{Machine: &session.Machine{Host: h}, Project: &manifest.Project{Root: "/r/app"}}
		g := hosttest.Must(guard(context.Background(), s, Options{}, tables, wish{}))(t)
		g.own = func() []string { return nil }
		hosttest.Equal(t, g.check("/r/app/nvcc") != nil, refused, "trust = [", trusted, "]: refused is")
	}
}

// TestCheckout: what is around a submodule, or around a .git that an archive brings, was written by the same people; the user's home was not.
func TestCheckout(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @empty --\n/r/.git/HEAD\n/r/sub/.git\n/r/sub/deep/x\n/home/u/.git/HEAD\n/home/u/app/.git/HEAD\n/home/u/app/sub/.git\n/home/u/plain/x\n/ws/Cargo.toml\n/ws/m/Cargo.toml\n/ws/m/src/x\n")
	for dir, want := range map[string]string{"/r/sub/deep": "/r", "/r/sub": "/r", "/r": "/r", "/opt/x": "/opt/x", "/ws/m/src": "/ws", "/home/u/app/sub": "/home/u/app",
		"/home/u/plain": "/home/u/plain", "/home/u": "/home/u"} {
		hosttest.Equal(t, h.Checkout(dir), want, dir)
	}
}

// TestGuardOnWindows: a path with another letter case, or one by which Windows names the same file in another way, is the repository's, too.
func TestGuardOnWindows(t *testing.T) {
	t.Parallel()
	h, err := hosttest.Parse([]byte("os: windows\nhome: C:\\Users\\u\ncwd: C:\\r\\app\n-- @empty --\nC:\\r\\cl.exe +x\nC:\\x\\cl.exe +x\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := &Guard{host: h, roots: []string{`C:\r`}, own: func() []string { return []string{`\\server\tools\cl.exe`} }}
	for path, want := range map[string]bool{`C:\r\cl.exe`: true, `c:/R/cl.exe`: true, `\\?\C:\r\cl.exe`: true, `\\localhost\c$\r\cl.exe`: true,
		`\\.\C:\r\cl.exe`: true, `C:\x\cl.exe`: false, `C:\x\..\r\cl.exe`: true, `\\server\tools\cl.exe`: false} {
		hosttest.Equal(t, g.check(path) != nil, want, path, "refused is")
	}
}

// TestGuardedRunner: a program of the repository is not started, and any other gets the user's own environment.
func TestGuardedRunner(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @env --\nPATH=/usr/bin\n-- @empty --\n/r/gcc +x\n/usr/bin/gcc +x\n")
	g := &Guard{host: h, roots: []string{"/r"}, foreign: []cargo.Given{{Name: "LD_PRELOAD", Value: "evil.so"}}, own: func() []string { return nil }}
	run := &answers{of: map[string]string{"/r/gcc": "", "/usr/bin/gcc": ""}}
	env := h.Env.Set("LD_PRELOAD", "evil.so").Entries()
	if _, err := g.Over(run).Run(t.Context(), buildenv.Cmd{Path: "/usr/bin/gcc", Env: env}); err != nil || len(run.envs) != 1 || run.envs[0].Get("LD_PRELOAD") != "" || run.envs[0].Get("PATH") != "/usr/bin" {
		t.Errorf("%v: %v", err, run.envs)
	}
	if _, err := g.Over(run).Run(t.Context(), buildenv.Cmd{Path: "/r/gcc", Env: env}); err == nil || len(run.asked) != 1 {
		t.Errorf("the repository's gcc: %v, asked %q", err, run.asked)
	}
	var none *Guard
	if _, err := none.Over(run).Run(t.Context(), buildenv.Cmd{Path: "/r/gcc"}); err != nil || none.Over(run) != run {
		t.Errorf("without a guard: %v", err)
	}
}

// TestGuardByAnAlias: what an alias of the repository brings on the command line is its own, relative to where cargo runs; without a project the
// repository is that of the working directory. The message names what the user could trust.
func TestGuardByAnAlias(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @empty --\n/r/.git/HEAD\n/r/app/nvcc +x\n/r/tools/nvcc +x\n/x/nvcc +x\n")
	tables := []cargo.Given{{Name: "NVCC", Value: "nvcc", Written: "nvcc", Origin: "--config"}}
	for _, tt := range []struct {
		alias   bool
		project *manifest.Project
		path    string
		want    string // the directory to trust; empty: it is not refused
	}{
		{false, nil, "/r/app/nvcc", ""}, {true, nil, "/r/app/nvcc", `"/r`}, {true, nil, "/x/nvcc", ""}, {true, &manifest.Project{Root: "/x"}, "/x/nvcc", `"/x"`},
		{true, &manifest.Project{Root: "/x"}, "/r/app/nvcc", `"/x"`},
	} {
		s := &session.Session{Machine: &session.Machine{Host: h}, Project: tt.project}
		s.Line.AliasConfig = tt.alias
		g := hosttest.Must(guard(t.Context(), s, Options{}, tables, wish{}))(t)
		g.own = func() []string { return nil }
		if err := g.check(tt.path); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(exit.Hint(err), "trust = ["+tt.want) {
			t.Errorf("%+v: %v, %s", tt, err, exit.Hint(err))
		}
	}
}

// TestGuardLooksAtEveryTable: what the user gives on the command line hides nothing that the repository's files say after it.
func TestGuardLooksAtEveryTable(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @empty --\n/r/.git/HEAD\n/r/.cargo/config.toml\n/r/evil +x\n")
	s := &session.Session{Machine: &session.Machine{Host: h}}
	tables := []cargo.Given{{Name: "AA", Value: "x", Origin: "--config"}, {Name: "NVCC", Value: "/r/evil", Written: "evil", Origin: "/r/.cargo/config.toml"}}
	g := hosttest.Must(guard(t.Context(), s, Options{}, tables, wish{}))(t)
	g.own = func() []string { return nil }
	if g.check("/r/evil") == nil {
		t.Error("the repository's compiler may run")
	}
}
