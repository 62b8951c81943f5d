package cargo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/toolchain/cargo/builddir"
)

// The test binary is a runner, too: it says what it was called with.
func TestMain(m *testing.M) {
	if who := os.Getenv("CARGO_TEST_ECHO"); who != "" {
		fmt.Printf("%s %q\n", who, os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// execRunner starts real processes.
type execRunner struct{ ran []buildenv.Cmd }

func (r *execRunner) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	r.ran = append(r.ran, c)
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr
	var out, errs bytes.Buffer
	if c.Stdout == nil {
		cmd.Stdout = &out
	}
	if c.Stderr == nil {
		cmd.Stderr = &errs
	}
	err := cmd.Run()
	res := buildenv.Result{Stdout: out.Bytes(), Stderr: errs.Bytes()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		res.Code = exit.ExitCode()
		err = &buildenv.ExitError{Cmd: c, Result: res}
	}
	return res, err
}

// project is a fixture on disk with a real cargo, a CARGO_HOME of its own and no network.
type project struct {
	t    *testing.T
	h    buildenv.Host
	tool Tool
	run  *execRunner
	dir  string
	priv Private
}

func newProject(t *testing.T, archive string) *project {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	dir := hosttest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	root := filepath.Join(dir, "p")
	for _, f := range txtar.Parse([]byte(archive)).Files {
		p := filepath.Join(root, filepath.FromSlash(f.Name))
		hosttest.OK(t, os.MkdirAll(filepath.Dir(p), 0o755))
		hosttest.OK(t, os.WriteFile(p, f.Data, 0o644))
	}
	for _, n := range h.Env.Names() {
		if strings.HasPrefix(n, "CARGO") || strings.HasPrefix(n, "RUSTC") || strings.HasPrefix(n, "RUSTFLAGS") {
			h.Env = h.Env.Unset(n)
		}
	}
	if rustup := filepath.Join(h.Home, ".rustup"); h.IsDir(rustup) && h.Env.Get("RUSTUP_HOME") == "" {
		h.Env = h.Env.Set("RUSTUP_HOME", rustup)
	}
	h.Env = h.Env.Set("CARGO_HOME", filepath.Join(dir, "home")).Set("CARGO_NET_OFFLINE", "true").
		Set("CARGO_INCREMENTAL", "0").Set("CARGO_PROFILE_DEV_DEBUG", "0") // only for speed
	h.Cwd, h.Home = root, filepath.Join(dir, "user")
	tool, err := Find(h, Line{})
	if err != nil {
		need.Missing(t, "cargo", "%v", err)
	}
	return &project{t, h, tool, &execRunner{}, root, Private{Root: filepath.Join(dir, "private")}}
}

func (p *project) line(args ...string) Line {
	p.t.Helper()
	l, _ := hosttest.Must2(Split(args, testOwn))(p.t)
	return l
}

// cargo runs cargo itself and answers stdout and stderr.
func (p *project) cargo(args ...string) (string, string, error) {
	res, err := p.run.Run(context.Background(), p.tool.cmd(p.tool.Env, args))
	return string(res.Stdout), string(res.Stderr), err
}

func (p *project) must(args ...string) string {
	p.t.Helper()
	out, errs, err := p.cargo(args...)
	if err != nil {
		p.t.Fatalf("cargo %s: %v\n%s", args, err, errs)
	}
	return out
}

func (p *project) graph(args ...string) (GraphAnswer, error) {
	p.t.Helper()
	return Graph(context.Background(), p.h, p.run, p.tool, Request{Line: p.line(args...), Asking: Asking{Private: p.priv}})
}

// units lists a graph's units as "name kind mode features", sorted; scripts' runs have their mode.
func units(t *testing.T, graph []byte) []string {
	t.Helper()
	var g struct {
		Units []struct {
			PkgID    string `json:"pkg_id"`
			Target   Target
			Mode     string
			Features []string
		}
	}
	if err := json.Unmarshal(graph, &g); err != nil {
		t.Fatalf("%v: %.200s", err, graph)
	}
	var out []string
	for _, u := range g.Units {
		if u.Mode == "run-custom-build" {
			out = append(out, u.PkgID+" script")
			continue
		}
		out = append(out, fmt.Sprint(u.PkgID, " ", u.Target.Name, " ", u.Target.Kind, " ", u.Features))
	}
	sort.Strings(out)
	return out
}

// files lists a tree with sizes and times.
func files(t *testing.T, dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err == nil && !d.IsDir() {
			fmt.Fprintln(&b, path, fi.Size(), fi.ModTime().UnixNano())
		} else if err == nil {
			fmt.Fprintln(&b, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b.String()
}

// shapes is a workspace with what makes features differ: a proc-macro's copy, a build script, dev-dependencies, examples, a test.
const shapes = `
-- Cargo.toml --
[workspace]
members = ["app", "other"]
resolver = "2"
-- app/Cargo.toml --
[package]
name = "app"
version = "0.1.0"
edition = "2021"
default-run = "app"
[features]
cuda = ["core1/cuda"]
cudnn = []
[dependencies]
core1 = { path = "../core1" }
pm = { path = "../pm" }
[dev-dependencies]
dev = { path = "../dev" }
-- app/src/main.rs --
fn main() { let args: Vec<String> = std::env::args().skip(1).collect(); println!("{args:?}"); }
#[test]
fn t() {}
-- app/src/bin/second.rs --
fn main() {}
-- app/examples/ex.rs --
fn main() {}
-- app/tests/it.rs --
#[test]
fn it() {}
-- other/Cargo.toml --
[package]
name = "other"
version = "0.1.0"
edition = "2021"
[features]
cuda = []
[dependencies]
core1 = { path = "../core1", features = ["extra"] }
-- other/src/main.rs --
fn main() {}
-- core1/Cargo.toml --
[package]
name = "core1"
version = "0.1.0"
edition = "2021"
[features]
cuda = []
extra = []
-- core1/build.rs --
fn main() { println!("cargo::rerun-if-changed=build.rs"); println!("cargo::rustc-cfg=made"); println!("cargo::rustc-env=K=V"); println!("cargo::rustc-check-cfg=cfg(made)"); println!("cargo::warning=said by the script"); }
-- core1/src/lib.rs --
pub fn f() { let unused = 1; }
-- pm/Cargo.toml --
[package]
name = "pm"
version = "0.1.0"
edition = "2021"
[lib]
proc-macro = true
[dependencies]
core1 = { path = "../core1", features = ["cuda"] }
-- pm/src/lib.rs --
-- dev/Cargo.toml --
[package]
name = "dev"
version = "0.1.0"
edition = "2021"
-- dev/src/lib.rs --
`

func TestGraphIsWhatCargoBuilds(t *testing.T) {
	need.Asked(t, "long")
	p := newProject(t, shapes)
	p.must("generate-lockfile")
	for _, args := range []string{"build -p app --features cuda", "test -p app --no-run", "run --bin second --features=app/cuda,cudnn -p app", "check --workspace -F cuda"} {
		l := p.line(words(args)...)
		got, err := p.graph(words(args)...)
		if err != nil || got.Graph == nil {
			t.Fatalf("%s: %v %s", args, err, got.Reason)
		}
		if strings.Contains(files(t, p.dir), string(filepath.Separator)+"target"+string(filepath.Separator)) &&
			args == "build -p app --features cuda" {
			t.Fatal("the question made a target directory")
		}
		res, err := p.run.Run(context.Background(), Build(p.tool, l, ""))
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, res.Stderr)
		}
		var built []string
		finished := false
		err = readMessages(bytes.NewReader(res.Stdout), func(m Message) {
			switch m.Reason {
			case Artifact:
				built = append(built, fmt.Sprint(m.PackageID, " ", m.Target.Name, " ", m.Target.Kind, " ", m.Features))
			case ScriptExecuted:
				if builddir.Ran(p.h, m.OutDir) == 0 {
					t.Errorf("script: %s", m.Raw)
				}
				built = append(built, m.PackageID+" script")
			case "build-finished":
				finished = bytes.Contains(m.Raw, []byte(`"success":true`))
			}
		}, func(line []byte) { t.Errorf("not a message: %s", line) })
		sort.Strings(built)
		if want := units(t, got.Graph); err != nil || !finished || strings.Join(want, "\n") != strings.Join(built, "\n") {
			t.Errorf("%s: %v\ngraph:\n%s\nbuilt:\n%s", args, err, strings.Join(want, "\n"), strings.Join(built, "\n"))
		}
	}
}

// Every spelling must mean to cargo what it means to us: cargo's graph for the words as typed equals its graph for the words as we render
// them.
func TestSplitMeansWhatCargoMeans(t *testing.T) {
	t.Parallel()
	p := newProject(t, shapes)
	p.must("generate-lockfile")
	for i, s := range []string{
		"build -p app -Fcuda", "b -papp -F cuda", "build -p=app -F=cuda", "build --package app --features=cuda,cudnn", "check -vp app -rFcuda", "build -qrp app",
		"build -p app --bin second -j1", "build -p app --bin=app --jobs 1", "build -p app --bins --timings", "build -p app --features cuda --features cudnn",
		"build -p app --all-targets --keep-going", "build --workspace --exclude other --all-features", "build --all --exclude=app --no-default-features -F cuda",
		"test -p app", "test -p app it", "test -p app --tests it", "t -p core1 -p app --lib --bins", "test -p app --example ex", "bench -p app", "test --workspace -- --nocapture", "test -p pm --doc",
		"run -p app -- x", "run -p other x --release", "r -p other -F cuda -- -- --release", "rustc -p app --bin app -r -- -Copt-level=1", "doc -p core1 --no-deps --open", "clippy -p app -- -D warnings",
		"build --manifest-path app/Cargo.toml -r", "build --profile release --manifest-path=other/Cargo.toml", "build --target x86_64-unknown-linux-gnu -p other",
		"--locked --config profile.dev.opt-level=1 build -p other", "--config profile.dev.opt-level=1 build -p other --config profile.dev.debug=false",
		"build -p other --color=never --message-format short", "build -p other --offline --frozen --message-format=json", "build -p o*", "build -p app -p other -F app/cuda",
	} {
		if i%3 > 0 && !need.Has("long") {
			continue
		}
		l := p.line(words(s)...)
		cmd, ok := UnitGraph(p.h, p.tool, l, Asking{Private: p.priv})
		if !ok {
			t.Fatalf("%s: no graph", s)
		}
		ours, err := p.run.Run(context.Background(), cmd)
		if err != nil {
			t.Errorf("%s: %v\n%s", s, err, ours.Stderr)
			continue
		}
		// as typed, with nothing but the question added
		w := l.Words()
		at := len(l.Global) + 1
		typed := append(append(append([]string{}, w[:at]...), "--unit-graph", "-Zunstable-options"), w[at:]...)
		direct := p.tool.cmd(p.tool.Env.Set("RUSTC_BOOTSTRAP", "1").Set("CARGO_TARGET_DIR", filepath.Join(p.dir, "..", "direct")), typed)
		theirs, _ := p.run.Run(context.Background(), direct) // run panics after the graph, doc --open finds nothing to open
		a, b := ours.Stdout, theirs.Stdout
		if l.Verb == "run" {
			// a build has the other binaries' units as well: compare what is linked
			if len(b) == 0 || !subset(units(t, b), units(t, a)) {
				t.Errorf("%s:\n%s\n%s\n%s", s, units(t, a), units(t, b), theirs.Stderr)
			}
			continue
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: graphs differ\n%s\n%s\n%s", s, a, b, theirs.Stderr)
		}
	}
}

func subset(small, big []string) bool {
	return !slices.ContainsFunc(small, func(s string) bool { return !slices.Contains(big, s) })
}

// What a program receives is the positional words and those after --, wherever cargo draws the line.
func TestProgramWordsAreWhatTheProgramGets(t *testing.T) {
	need.Asked(t, "long")
	p := newProject(t, shapes)
	p.must("generate-lockfile")
	for _, s := range []string{"run -p app", "run -p app -- a -b", "run -p app a --release -- b", "run --bin app -q x -v --", "r -papp -- -- -F x", "run -p app - --features nope"} {
		l := p.line(words(s)...)
		res, err := p.run.Run(context.Background(), Command(p.tool, l))
		if err != nil {
			t.Errorf("%s: %v\n%s", s, err, res.Stderr)
			continue
		}
		got := append(append([]string{}, l.Positional...), l.Trailing...)
		quoted := make([]string, len(got))
		for i, w := range got {
			quoted[i] = fmt.Sprintf("%q", w)
		}
		hosttest.Equal(t, strings.TrimSpace(string(res.Stdout)), "["+strings.Join(quoted, ", ")+"]", s, "the program", "we say", got)
	}
}

// TestAccepts: cargo is asked about the flags before anything is cleaned for the line; it builds nothing.
func TestAccepts(t *testing.T) {
	t.Parallel()
	p := newProject(t, "-- Cargo.toml --\n[package]\nname = \"p\"\n-- src/main.rs --\nfn main() {}\n")
	for line, want := range map[string]string{
		"run --no-run":                  "unexpected argument '--no-run'",
		"build --frobnicate":            "unexpected argument '--frobnicate'",
		"build --message-format odd":    "invalid value 'odd'",
		"test name --message-format":    "a value is required",
		"build --features none":         "",
		"run --release app --no-run":    "",
		"rustc --lib -- -C opt-level=3": "",
		"test name -- --no-run":         "",
	} {
		err := Accepts(t.Context(), p.run, p.tool, p.line(strings.Fields(line)...), false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("cargo %s: %v, want %q", line, err, want)
		}
	}
}
