package cargo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// The build with JSON on stdout must look on stderr like the build without: warnings, colours, summaries, errors.
func TestBuildLooksTheSame(t *testing.T) {
	need.Asked(t, "long")
	p := newProject(t, shapes+`
-- broken/Cargo.toml --
[package]
name = "broken"
version = "0.1.0"
edition = "2021"
[workspace]
-- broken/src/main.rs --
fn main() { let warned = 1; let x: u8 = "no"; }
`)
	p.must("generate-lockfile")
	seconds := regexp.MustCompile(`in [0-9.]+s`)
	for _, args := range []string{
		"build -p app --color always", "build -p app --message-format short --color=always", "--color never check -p app -v",
		"build --manifest-path broken/Cargo.toml --color always", "clippy -p core1 --color always -- -D warnings",
	} {
		l := p.line(words(args)...)
		for _, round := range []string{"first", "again"} {
			look := func(dir string, c buildenv.Cmd) (string, string) {
				if round == "first" {
					_ = os.RemoveAll(filepath.Join(p.dir, dir))
				}
				res, err := p.run.Run(context.Background(), c)
				var exit *buildenv.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				return seconds.ReplaceAllString(strings.ReplaceAll(string(res.Stderr), dir, "T"), "in Xs"), string(res.Stdout)
			}
			a := p.tool.With(p.tool.Env.Set("CARGO_TARGET_DIR", "targetA").Set("CARGO_BUILD_JOBS", "1"))
			b := p.tool.With(p.tool.Env.Set("CARGO_TARGET_DIR", "targetB").Set("CARGO_BUILD_JOBS", "1"))
			plain, _ := look("targetA", Command(a, l))
			ours, out := look("targetB", Build(b, l, ""))
			if l.Verbose > 0 { // rustc's own command lines are shown, and they do differ
				plain, ours = firstWords(plain), firstWords(ours)
			}
			hosttest.Equal(t, plain, ours, args, round, "plain", "ours")
			if !strings.Contains(out, `"reason":"build-finished"`) {
				t.Errorf("%s: no messages: %s", args, out)
			}
		}
	}
}

func firstWords(s string) string {
	var out []string
	for _, line := range strings.Split(s, "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "Running" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func TestBuildWords(t *testing.T) {
	for _, tt := range []struct{ typed, bin, want string }{
		{"--features cuda -r", "", "build --message-format=json-render-diagnostics --features cuda -r"},
		{"+nightly -v b -Fcuda", "", "+nightly -v b --message-format=json-render-diagnostics -Fcuda"},
		{"build --message-format short -r", "", "build --message-format=json-render-diagnostics,json-diagnostic-short -r"},
		{"build --message-format=human -r", "", "build --message-format=json-render-diagnostics -r"},
		{"build --message-format=json -r", "", "build --message-format=json -r"},
		{"run -r prog --x -- y", "app", "build --message-format=json-render-diagnostics --bin app -r"},
		{"r --bin b prog", "app", "build --message-format=json-render-diagnostics --bin b"},
		{"run --example e", "app", "build --message-format=json-render-diagnostics --example e"},
		{"test name -r -- --nocapture", "", "test --message-format=json-render-diagnostics --no-run name -r"},
		{"t --no-run", "", "t --message-format=json-render-diagnostics --no-run"},
		{"test --doc -p a name", "", "build --message-format=json-render-diagnostics --lib -p a"},
		{"bench -- x", "", "bench --message-format=json-render-diagnostics --no-run"},
		{"clippy -- -D warnings", "", "clippy --message-format=json-render-diagnostics -- -D warnings"},
		{"rustc -r -- --cfg x", "", "rustc --message-format=json-render-diagnostics -r -- --cfg x"},
		{"check --from-the-future -Fcuda", "", "check --message-format=json-render-diagnostics --from-the-future -Fcuda"},
	} {
		l, _ := hosttest.Must2(Split(words(tt.typed), nil))(t)
		hosttest.Equal(t, strings.Join(Build(Tool{}, l, tt.bin).Args, " "), tt.want, tt.typed)
	}
}

func TestQuestionsAsValues(t *testing.T) {
	h := buildenv.Host{
		OS:  buildenv.Linux,
		Cwd: "/w",
		Env: buildenv.NewEnv(buildenv.Linux, []string{"CARGO_UNSTABLE_X=1", "CARGO_TERM_QUIET=true", "A=b", "PATH=:bin:/b:./c:"}),
	}
	tool := Tool{Path: "/bin/cargo", Env: h.Env, Dir: "/w"}
	a := Asking{Private: Private{Root: "/c"}, NoLockWrite: true}
	graph := func(typed string) string {
		c, ok := UnitGraph(h, tool, must(t, typed), a)
		if !ok {
			return "none"
		}
		if env := strings.Join(c.Env, " "); env != "A=b CARGO_BUILD_BUILD_DIR=/c/graph/build CARGO_TARGET_DIR=/c/graph/target CARGO_TERM_QUIET=false CARGO_TERM_VERBOSE=false GPUBUILD_LEVEL=1 PATH=/b __CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS=nightly" ||
			c.Dir != "/w" {
			t.Errorf("%s: environment %s in %s", typed, env, c.Dir)
		}
		return strings.Join(c.Args, " ")
	}
	const own = "--unit-graph -Zunstable-options"
	const dir = ` --config build.build-dir="/c/graph/build"`
	for _, tt := range []struct{ typed, want string }{
		{
			"+beta --offline r -p a --bin b -vv -q --message-format json --timings prog -- x",
			"+beta build " + own + " --offline --package=a --bin=b --message-format=json --locked" + dir,
		},
		{
			"-C sub build --target-dir t --config build.build-dir='u' -j8",
			"-C sub build " + own + " --config=build.build-dir='u' --jobs=8 --locked" + dir,
		},
		{"test name --locked -- --nocapture", "test " + own + " --locked" + dir + " name"},
		{"clippy --fix -Fa -- -Dwarnings", "check " + own + " --features=a --all-targets --locked" + dir},
		{"fix --allow-dirty --lib", "check " + own + " --lib --locked" + dir},
		{"doc --open --new-flag", "doc " + own + " --new-flag --locked" + dir},
		{"install x", "none"}, {"--list", "none"}, {"nextest run", "none"},
	} {
		hosttest.Equal(t, graph(tt.typed), tt.want, tt.typed)
	}
	if env := Version(tool, Line{}).Env; !slices.Contains(env, "PATH=/b") {
		t.Errorf("-Vv: environment %s", env)
	}
	if got := strings.Join(must(t, "test --all --bin b -Fa,b --release --target t --manifest-path m -j3").AsTree("x@1.0"), " "); got !=
		"tree -e features -i x@1.0 --features=a,b --target=t --manifest-path=m --workspace" {
		t.Error(got)
	}
	clean := strings.Join(
		Clean(
			tool,
			must(t, "run --profile fast -p x --config a=1 --target-dir d --locked --bin b"),
			[]string{"b@1.0.0", "a", "b"},
			[]string{"t1", "t2"},
		).Args,
		" ",
	)
	hosttest.Equal(t, clean, "clean -p a -p b --profile fast --target t1 --target t2 --config=a=1 --target-dir=d --locked")
	for typed, want := range map[string]string{"build": "clean -p a", "build --profile dev": "clean -p a", "test --profile test": "clean -p a",
		"build --release": "clean -p a --release", "build --profile release": "clean -p a --release", "bench": "clean -p a --profile bench"} {
		hosttest.Equal(t, strings.Join(Clean(tool, must(t, typed), []string{"a"}, nil).Args, " "), want, "after", typed)
	}
	hosttest.Equal(t, buildenv.TOMLString("a\"b\\c\n\x7fé"), `"a\"b\\c\u000A\u007Fé"`)
}

func must(t *testing.T, typed string) Line {
	t.Helper()
	l, _ := hosttest.Must2(Split(words(typed), nil))(t)
	return l
}

// Clean must make exactly the named packages and what depends on them be built again, in the profile and target that was built.
func TestCleanIsExact(t *testing.T) {
	need.Asked(t, "long")
	p := newProject(t, shapes+`
-- .cargo/config.toml --
[profile.fast]
inherits = "release"
`)
	p.must("generate-lockfile")
	v, _ := ParseVersion([]byte(p.must("-Vv")))
	stale := func(l Line) string {
		res, err := p.run.Run(context.Background(), Build(p.tool, l, ""))
		if err != nil {
			t.Fatalf("%v\n%s", err, res.Stderr)
		}
		var out []string
		_ = readMessages(bytes.NewReader(res.Stdout), func(m Message) {
			if m.Reason == Artifact && !m.Fresh {
				out = append(out, m.Target.Name)
			}
		}, nil)
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		args    string
		targets []string
	}{{"build -p other", nil}, {"build -p other --release", nil}, {"build -p other --profile fast", nil}, {"check -p other", nil},
		{"test --no-run -p other", nil}, {"bench --no-run -p other", nil}, {"build -p other --target " + v.Host, nil},
		{"build -p other --config build.target='" + v.Host + "' --target-dir cfg", []string{v.Host}}} {
		l := p.line(words(tt.args)...)
		stale(l)
		hosttest.Equal(t, stale(l), "", tt.args, "built again for nothing")
		res, err := p.run.Run(context.Background(), Clean(p.tool, l, []string{"core1@0.1.0"}, tt.targets))
		if err != nil || bytes.Contains(res.Stderr, []byte("warning")) {
			t.Fatalf("%s: %v\n%s", tt.args, err, res.Stderr)
		}
		hosttest.Equal(t, stale(l), "build-script-build core1 other", tt.args, "built again")
	}
}
