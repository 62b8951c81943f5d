package cargo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// poison counts the cfgs that its build script sees: a nightly answer in .rustc_info.json makes them more.
const poison = `
-- Cargo.toml --
[package]
name = "poison"
version = "0.1.0"
edition = "2021"
[features]
cuda = []
-- src/main.rs --
fn main() {}
-- build.rs --
fn main() { for (k, _) in std::env::vars() { if k.starts_with("CARGO_CFG_") { println!("cargo::rustc-env={k}=x"); } } }
`

// TestQuestionDoesNotPoison is trap 1: after the question a stable build must see the cfgs that it would have seen without.
func TestQuestionDoesNotPoison(t *testing.T) {
	need.Asked(t, "long")
	p := newProject(t, poison)
	p.must("generate-lockfile")
	cfgs := func(args ...string) int {
		n := 0
		out := p.must(append([]string{"build", "--message-format=json"}, args...)...)
		err := readMessages(strings.NewReader(out), func(m Message) { n += bytes.Count(m.Raw, []byte("CARGO_CFG_")) }, nil)
		if err != nil || n == 0 {
			t.Fatalf("%d cfgs, %v", n, err)
		}
		return n
	}
	clean := cfgs("--target-dir", "clean")
	if p.poisoned(t) == clean {
		t.Log("this cargo is not poisoned by RUSTC_BOOTSTRAP=1 in the same directory; the test proves less than it could")
	}
	for _, args := range []string{"build", "build --target-dir u1", "build --config build.build-dir='u2'", "build --config conf.toml", "--config build.target-dir='u4' build"} {
		if err := os.WriteFile(filepath.Join(p.dir, "conf.toml"), []byte("build.build-dir = \"u3\"\nbuild.target-dir = \"u3t\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		p.tool.Env = p.tool.Env.Set("CARGO_UNSTABLE_BINDEPS", "true").Set("CARGO_TERM_QUIET", "true")
		before := files(t, p.dir)
		got, err := p.graph(words(args)...)
		if err != nil || got.Graph == nil {
			t.Fatalf("%s: %v %s", args, err, got.Reason)
		}
		if after := files(t, p.dir); before != after {
			t.Errorf("%s: the question left traces\nbefore %s\nafter %s", args, before, after)
		}
		p.tool.Env = p.tool.Env.Unset("CARGO_UNSTABLE_BINDEPS").Unset("CARGO_TERM_QUIET")
		l := p.line(words(args)...)
		n := 0
		res, err := p.run.Run(context.Background(), Build(p.tool, l, ""))
		if err != nil {
			t.Fatalf("%v\n%s", err, res.Stderr)
		}
		_ = readMessages(bytes.NewReader(res.Stdout), func(m Message) { n += bytes.Count(m.Raw, []byte("CARGO_CFG_")) }, nil)
		hosttest.Equal(t, n, clean, args, "the build sees", "cfgs, a clean one")
	}
}

// poisoned shows the hole: the cfgs of a build after a question in its own target directory.
func (p *project) poisoned(t *testing.T) int {
	c := p.tool.cmd(p.tool.Env.Set("RUSTC_BOOTSTRAP", "1"), words("build --unit-graph -Zunstable-options --target-dir poisoned"))
	hosttest.Must(p.run.Run(context.Background(), c))(t)
	n := 0
	_ = readMessages(
		strings.NewReader(p.must(words("build --message-format=json --target-dir poisoned")...)),
		func(m Message) { n += bytes.Count(m.Raw, []byte("CARGO_CFG_")) },
		nil,
	)
	return n
}

// TestUnstableTablesMeanUnknown is trap 2.
func TestUnstableTablesMeanUnknown(t *testing.T) {
	p := newProject(t, shapes+`
-- .cargo/config.toml --
[unstable]
feature-unification = true
[resolver]
feature-unification = "workspace"
`)
	p.must("generate-lockfile")
	got, err := p.graph(words("build --bin app -p app --features cuda --all-targets --release -j1 --timings")...)
	if err != nil || got.Graph != nil || !strings.Contains(got.Reason, "[unstable]") {
		t.Fatalf("%v %q", err, got.Reason)
	}
	// the word alone, in a comment, is no reason
	hosttest.OK(t, os.WriteFile(filepath.Join(p.dir, ".cargo", "config.toml"), []byte("# unstable things\n"), 0o644))
	n := len(p.run.ran)
	if got, err = p.graph("build", "-p", "app"); err != nil || got.Graph == nil || len(p.run.ran)-n != 1 {
		t.Errorf("%v %q, %d calls", err, got.Reason, len(p.run.ran)-n)
	}
	// and no configuration at all spares the question
	hosttest.OK(t, os.RemoveAll(filepath.Join(p.dir, ".cargo")))
	n = len(p.run.ran)
	if got, err = p.graph("build", "-p", "app"); err != nil || got.Graph == nil || len(p.run.ran)-n != 1 {
		t.Errorf("%v %q, %d calls", err, got.Reason, len(p.run.ran)-n)
	}
}

// On a nightly cargo the settings are in force in the build: the question is put with them, and nothing is withheld.
func TestUnstableTablesOfANightlyStay(t *testing.T) {
	need.Asked(t, "nightly")
	p := newProject(t, shapes+`
-- .cargo/config.toml --
[resolver]
feature-unification = "workspace"
`)
	if _, _, err := p.cargo("+nightly", "-V"); err != nil {
		need.Missing(t, "nightly", "no nightly toolchain")
	}
	p.must("generate-lockfile")
	p.tool.Env = p.tool.Env.Set("CARGO_UNSTABLE_FEATURE_UNIFICATION", "true")
	features := func(args string) bool {
		got, err := p.graph(words(args)...)
		if err != nil || got.Graph == nil {
			t.Fatalf("%s: %v %s", args, err, got.Reason)
		}
		return strings.Contains(strings.Join(units(t, got.Graph), "\n"), "core1 [lib] [cuda extra]")
	}
	if features("build -p app") {
		t.Error("a stable build does not heed the variable, its question did")
	}
	if !features("+nightly build -p app") {
		t.Error("a nightly build heeds the variable, its question did not")
	}
}

func TestAliasIsExpandedAsCargoDoes(t *testing.T) {
	p := newProject(t, shapes+`
-- .cargo/config.toml --
[alias]
b = "build --release --features cuda"
gpu = ["run", "--bin", "app", "-F", "cuda"]
twice = "gpu -q"
build = "check"
round = "round --release"
only = "--locked"
list = ["run", "--quiet", "--"]
text = "run --lib"
-- app/.cargo/config.toml --
[alias]
list = ["4"]
text = "check"
`)
	tests := []struct{ typed, want, own string }{
		{"b -p app --gpu-strict", "build --release --features cuda -p app", "--gpu-strict"},
		{"gpu prog --gpu-strict", "run --bin app -F cuda prog --gpu-strict", ""},
		{"--locked twice --gpu-strict -- x", "--locked run --bin app -F cuda -q -- x", "--gpu-strict"},
		{"build -r", "build -r", ""},
		{"t -r", "t -r", ""},
		{"nextest run", "nextest run", ""},
		{"-r", "build -r", ""},
	}
	p.tool.Env = p.tool.Env.Set("CARGO_ALIAS_FROMENV", "test --lib")
	tests = append(tests, struct{ typed, want, own string }{"fromenv x", "test --lib x", ""})
	// Lists are joined, with a variable's words behind them; a text is not. --config defines no alias.
	p.tool.Env = p.tool.Env.Set("CARGO_ALIAS_LIST", "x -- 1").Set("CARGO_ALIAS_TEXT", "bench")
	tests = append(tests, []struct{ typed, want, own string }{
		{"list", "run --quiet -- x -- 1", ""}, {"-C app list", "-C app run --quiet -- 4 x -- 1", ""}, {"-C app text", "-C app bench", ""},
		{"k --config alias.k='run'", "k --config alias.k='run'", ""},
	}...)
	for _, tt := range tests {
		l, own, err := Alias(p.h, p.tool, p.line(words(tt.typed)...), testOwn)
		got := ""
		for _, o := range own {
			got += o.Name
		}
		if err != nil || strings.Join(l.Words(), " ") != tt.want || got != tt.own {
			t.Errorf("%s: %q, own %q, %v", tt.typed, l.Words(), got, err)
		}
	}
	if l, _, err := Alias(p.h, p.tool, p.line("only", "-r"), testOwn); err != nil || strings.Join(l.Words(), " ") != "only -r" {
		t.Errorf("an alias of flags alone: %q %v", l.Words(), err)
	}
	if l, _, err := Alias(p.h, p.tool, p.line("round"), testOwn); err != nil || l.VerbWord != "round" {
		t.Errorf("a circle: %q %v", l.Words(), err)
	}
}

func TestPlacesFollowConfigurationAndFlag(t *testing.T) {
	p := newProject(t, poison+`
-- .cargo/config.toml --
[build]
target-dir = "tdir"
build-dir = "bdir/{workspace-path-hash}"
-- plain.toml --
build.build-dir = "other"
`)
	check := func(target, build string, args ...string) {
		t.Helper()
		got := hosttest.Must(Locate(context.Background(), p.h, p.run, p.tool, p.line(args...)))(t)
		rel := func(s string) string { r, _ := filepath.Rel(p.dir, s); return filepath.ToSlash(r) }
		if got.WorkspaceRoot != p.dir || rel(got.TargetDirectory) != target || !strings.HasPrefix(rel(got.BuildDirectory), build) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	check("tdir", "bdir/", "build")
	check("flag", "bdir/", "build", "--target-dir", "flag")
	check("tdir", "../other", "build", "--config", "plain.toml") // cargo counts from above the file's directory, as if it were .cargo
	check("x", "bdir/", "--config", "build.target-dir='x'", "run", "--release")
	p.tool.Env = p.tool.Env.Set("CARGO_TARGET_DIR", "byenv")
	check("byenv", "bdir/", "build")
	check("flag", "bdir/", "build", "--target-dir=flag")
	if _, err := os.Stat(filepath.Join(p.dir, "Cargo.lock")); err == nil {
		t.Error("a lock file was written")
	}
	_, err := Locate(context.Background(), p.h, p.run, p.tool, p.line("build", "--manifest-path", "nowhere/Cargo.toml"))
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != 101 || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
}

func TestCargosOwnErrorComesThroughOnce(t *testing.T) {
	p := newProject(t, poison)
	p.must("generate-lockfile")
	for _, args := range []string{"build --features nope", "build --bin nope", "build --nope", "build --profile nope", "build --release --profile dev", "build --features"} {
		n := len(p.run.ran)
		_, err := p.graph(words(args)...)
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", args, err)
			continue
		}
		hosttest.Equal(t, len(p.run.ran)-n, 1, args, "calls")
		_, direct, err := p.cargo(p.line(words(args)...).Words()...)
		var exit *buildenv.ExitError
		if !errors.As(err, &exit) || exit.Result.Code != refused.Code {
			t.Errorf("%s: status %d, cargo itself %v", args, refused.Code, err)
		}
		// clap's usage line repeats the flags that were given, ours among them
		usage := regexp.MustCompile(`(?m)^Usage: .*\n`)
		if got, want := usage.ReplaceAllString(string(refused.Stderr), ""), usage.ReplaceAllString(direct, ""); got != want {
			t.Errorf("%s:\n%s\ncargo itself:\n%s", args, got, want)
		}
	}
	// colours as the user's terminal would have them
	_, err := Graph(
		context.Background(),
		p.h,
		p.run,
		p.tool,
		Request{Line: p.line("build", "-F", "nope"), Asking: Asking{Private: p.priv, Colour: true}},
	)
	var refused *RefusedError
	if !errors.As(err, &refused) || !bytes.Contains(refused.Stderr, []byte("\x1b[")) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
}

func TestNoLockWriteLeavesTheLockAlone(t *testing.T) {
	p := newProject(t, poison)
	_, err := Graph(
		context.Background(),
		p.h,
		p.run,
		p.tool,
		Request{Line: p.line("build"), Asking: Asking{Private: p.priv, NoLockWrite: true}},
	)
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint(), "cargo generate-lockfile") {
		t.Errorf("without a lock: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "Cargo.lock")); err == nil {
		t.Error("a lock file was written")
	}
	p.must("generate-lockfile")
	if _, err := Graph(context.Background(), p.h, p.run, p.tool, Request{Line: p.line("build"), Asking: Asking{Private: p.priv, NoLockWrite: true}}); err != nil {
		t.Errorf("with a lock: %v", err)
	}
}

// The package cache is one for all of a user's cargos: another one's git fetch held a graph up for half a minute (measured).
func TestWaitingIsSaid(t *testing.T) {
	p := newProject(t, poison)
	p.must("generate-lockfile")
	home := p.tool.Env.Get("CARGO_HOME")
	hosttest.OK(t, os.MkdirAll(home, 0o755))
	lock := flock.New(filepath.Join(home, ".package-cache"))
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	said := ""
	q := Request{Line: p.line("build"), Asking: Asking{Private: p.priv, Colour: true}, Notice: func(s string) {
		said += s
		hosttest.Equal(t, lock.Unlock(), nil)
	}}
	hosttest.Must(Graph(ctx, p.h, p.run, p.tool, q))(t)
	hosttest.Equal(t, said, "Blocking waiting for file lock on package cache", "said")
}
