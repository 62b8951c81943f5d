package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features/manifest"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/nvcc"
)

// worker is a cargo that knows one project: app, with a feature cuda for cudarc, which loads the driver when it runs.
type worker struct {
	b     *bench
	on    bool // cudarc is part of the build
	two   bool // two programs
	cut   bool // the feature enables nothing of candle-core, which is linked
	asks  int  // with which it ends questions
	fails int  // and builds
	ran   []string
}

// started leaves what our runner would of a program that opened no driver, on a machine without one.
func (w *worker) started(c buildenv.Cmd) {
	for _, v := range slices.Concat(c.Env, c.Args) {
		if _, file, found := strings.Cut(v, proof.RunnerWord); found { // the words of a variable, or a list where a path has a blank
			w.b.t.Helper()
			p := proof.Proof{Program: filepath.Join(w.b.top, "w", "target", "debug", "app"), Verdict: verify.Verdict{Kind: verify.NoDevice},
				Evidence: verify.Evidence{Ran: true, Watch: verify.Watch{Complete: true}}}
			dir := filepath.Dir(strings.Trim(file, `", ]`))
			hosttest.OK(w.b.t, os.WriteFile(filepath.Join(dir, "proof-1.json"), hosttest.Must(json.Marshal(p))(w.b.t), 0o600))
		}
	}
}

func (w *worker) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	words, dir := strings.Join(c.Args, " "), filepath.Join(w.b.top, "w")
	r := buildenv.Result{}
	app, crate := "path+file://"+dir+"#app@1.0.0", "registry+https://github.com/rust-lang/crates.io-index#cudarc@0.19.4"
	switch {
	case strings.Contains(words, "-Vv"), words == "-vV":
		r.Stdout = []byte("cargo 1.95.0\nrelease: 1.95.0\nhost: x86_64-unknown-linux-gnu\n")
	case strings.Contains(words, "--unit-graph"):
		w.ran = append(w.ran, "graph")
		r.Code = w.asks
		unit := func(id, kind, name, deps string) string {
			features := `"std","driver","dynamic-loading","cuda-12080"`
			if kind == "bin" {
				if features = ""; strings.Contains(words, "--features") {
					features = `"cuda"`
				}
			}
			return fmt.Sprintf(`{"pkg_id":%q,"target":{"kind":[%q],"name":%q,"src_path":"/x/main.rs"},"platform":null,"mode":"build","features":[%s],"dependencies":[%s]}`, id, kind, name, features, deps)
		}
		deps, units, roots := "", []string{unit(crate, "lib", "cudarc", "")}, "1"
		if w.on {
			deps = `{"index":0,"extern_crate_name":"cudarc"}`
		}
		if units = append(units, unit(app, "bin", "app", deps)); w.two {
			units, roots = append(units, unit(app, "bin", "other", deps)), "1,2"
		}
		if !w.on {
			units[0] = unit("path+file:///near#near@1.0.0", "lib", "near", "")
		}
		if w.cut {
			units[0] = unit("registry+https://github.com/rust-lang/crates.io-index#candle-core@0.9.2", "lib", "candle_core", "")
			units[0] = strings.Replace(units[0], `"std","driver","dynamic-loading","cuda-12080"`, "", 1)
			units[1] = unit(app, "bin", "app", `{"index":0,"extern_crate_name":"candle_core"}`)
		}
		r.Stdout = []byte(`{"version":1,"units":[` + strings.Join(units, ",") + `],"roots":[` + roots + "]}")
	case strings.Contains(words, "metadata"):
		r.Stdout = []byte(fmt.Sprintf(`{"packages":[{"name":"app","version":"1.0.0","id":%q,"manifest_path":%q,"source":null,"features":{"cuda":["dep:cudarc"]},"targets":[{"kind":["bin"],"name":"app","src_path":"/x/main.rs"}],`+
			`"dependencies":[{"name":"cudarc","req":"^0.19","kind":null,"optional":true,"uses_default_features":true,"features":["driver"],"rename":null,"target":null,"source":"registry+x"}]}],`+
			`"workspace_members":[%[1]q],"workspace_default_members":[%[1]q],"resolve":null,"workspace_root":%q,"target_directory":%q,"version":1}`, app, filepath.Join(dir, "Cargo.toml"), dir, filepath.Join(dir, "target")))
	default:
		w.ran = append(w.ran, c.Args[0])
		w.started(c)
		if r.Code = w.fails; r.Code == 0 && c.Stdout != nil && strings.Contains(words, "json") {
			_, _ = fmt.Fprintf(c.Stdout, `{"reason":"compiler-artifact","package_id":%q,"target":{"kind":["bin"],"name":"app","src_path":"/x/main.rs"},"profile":{"test":%v},"executable":%q,"fresh":false}`+"\n{\"reason\":\"build-finished\",\"success\":true}\n",
				app, c.Args[0] == "test" || c.Args[0] == "bench", filepath.Join(dir, "target", "debug", "app"))
		}
	}
	if r.Code != 0 {
		if c.Stderr != nil {
			_, _ = c.Stderr.Write([]byte("error: cargo says why\n"))
		}
		return r, &buildenv.ExitError{Cmd: c, Result: r}
	}
	return r, nil
}

const unlocked = "version = 4\n"

const optional = plain + "[features]\ncuda = [\"dep:cudarc\"]\n[dependencies]\ncudarc = { version = \"0.19\", optional = true, features = [\"driver\"] }\n"

// cutOff is a project whose feature does not enable that of its GPU crate.
var cutOff = map[string]string{"w/Cargo.toml": plain + "[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.9\"\n",
	"w/Cargo.lock": "version = 4\n[[package]]\nname = \"app\"\nversion = \"1.0.0\"\ndependencies = [\n \"candle-core\",\n]\n" +
		"[[package]]\nname = \"candle-core\"\nversion = \"0.9.2\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n"}

func newWorker(t *testing.T, files map[string]string) *worker {
	t.Helper()
	w := &worker{b: newBench(t, map[string]string{"w/Cargo.toml": optional, "w/src/main.rs": "fn main() {}\n", "w/Cargo.lock": "version = 4\n[[package]]\nname = \"app\"\nversion = \"1.0.0\"\n" +
		"dependencies = [\n \"cudarc\",\n]\n[[package]]\nname = \"cudarc\"\nversion = \"0.19.4\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n"})}
	for name, text := range files {
		w.b.write(name, text)
	}
	w.b.write("w/target/debug/app", "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x02\x00\x3e\x00\x01"+strings.Repeat("\x00", 43)) // a head alone
	w.b.m.Runner = w
	return w
}

// TestBuild: the stages of a build, and what ends it.
func TestBuild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, words string
		files        map[string]string
		env          string
		o            Options
		worker       worker
		ran          string
		code         int
		says         []string // "!": it does not say that
	}{
		{story: "a build", words: "build --features cuda", worker: worker{on: true}, ran: "graph build", says: []string{"Resolving", "no toolkit: the GPU crates", "gpubuild prove", "!leaves off", "!Executable"}},
		{story: "one that fails", words: "build --features cuda", worker: worker{on: true, fails: 101}, ran: "graph build", code: 101, says: []string{"cargo says why", "!gpubuild prove"}},
		{story: "a type check", words: "check --features cuda", worker: worker{on: true}, ran: "graph check", says: []string{"Resolving", "!gpubuild prove", "!Scanned"}},
		{story: "clippy", words: "clippy --features cuda", worker: worker{on: true}, ran: "graph clippy", says: []string{"!gpubuild prove", "!Scanned"}},
		{story: "a type check with a stand-in", words: "check --features cuda", o: Options{Tools: tools.Options{Toolkit: tools.None}}, worker: worker{on: true}, ran: "graph check", says: []string{"a stand-in of release"}},
		{story: "one that fails with a stand-in", words: "check --features cuda", o: Options{Tools: tools.Options{Toolkit: tools.None}}, worker: worker{on: true, fails: 101}, ran: "graph check", code: 101},
		{story: "tests that are only built", words: "test --no-run --features cuda", worker: worker{on: true}, ran: "graph test", says: []string{"Executable", "!gpubuild prove"}},
		{story: "a feature that is left off", words: "build", ran: "graph build", says: []string{"has a `cuda` feature that this build leaves off", "!Resolving"}},
		{story: "and a coverage wants it", words: "build", files: map[string]string{"w/gpubuild.toml": "[test]\ncoverage = 50\n"}, ran: "graph build", says: []string{"`[test]` wants a proof"}},
		{story: "of the tests, too", words: "test", files: map[string]string{"w/gpubuild.toml": "[test]\ncoverage = 50\n"}, ran: "graph test", says: []string{"`[test]` wants a proof"}},
		{story: "benchmarks have none", words: "bench", files: map[string]string{"w/gpubuild.toml": "[test]\ncoverage = 50\n"}, ran: "graph bench", says: []string{"!wants a proof"}},
		{story: "and a flag that waits for a proof", words: "run", o: Options{Proof: proof.Options{UntilProved: true}}, ran: "graph run", says: []string{"Not proven: no GPU work"}},
		{story: "a feature that enables nothing", words: "build --features cuda", files: cutOff, worker: worker{cut: true}, ran: "graph", code: exit.Unreached},
		{story: "which is allowed", words: "build --features cuda", files: cutOff, worker: worker{cut: true}, o: Options{AllowUnreached: true}, ran: "graph build", says: []string{"building anyway because of --gpu-allow-unreached"}},
		{story: "a refusal", words: "build --features cuda", worker: worker{on: true, asks: 101}, ran: "graph", code: 101},
		{story: "a refusal of a build that asks for no GPU", words: "build", worker: worker{asks: 101}, ran: "graph build"},
		{story: "a program that is not chosen", words: "run --features cuda", worker: worker{on: true, two: true}, ran: "graph run", says: []string{"!Targeting", "!no toolkit"}},
		{story: "a mark that no target has", words: "test --no-run --features cuda", files: map[string]string{"w/gpubuild.toml": "[test]\ngpu = [\"nobody\"]\n"}, worker: worker{on: true}, code: exit.Config, says: []string{"!Resolving"}},
		{story: "a program to prove that no package has", words: "build --features cuda", files: map[string]string{"w/gpubuild.toml": "[prove]\nbin = \"nobody\"\n"}, worker: worker{on: true}, code: exit.Config, says: []string{"!Resolving"}},
		{story: "a kernel cache that is none", words: "build --features cuda", env: nvcc.Variable + "=yes", worker: worker{on: true}, ran: "graph", code: exit.Usage},
		{story: "a compiler that is none", words: "build --features cuda", o: Options{Tools: tools.Options{CCBin: "g++-none"}}, worker: worker{on: true}, ran: "graph", code: exit.Usage},
		{story: "messages that the user asked for", words: "build --features cuda --message-format=json", worker: worker{on: true}, ran: "graph build", says: []string{`{"reason":"build-finished"`}},
		{story: "an installation without a GPU", words: "install --path .", files: map[string]string{"w/Cargo.lock": unlocked, "w/Cargo.toml": plain}, ran: "install", says: []string{"!Resolving", "!installed without"}},
		{story: "one of a workspace", words: "install --path .", files: map[string]string{"w/Cargo.toml": "[workspace]\nmembers = []\n"}, ran: "install", says: []string{"!Resolving"}},
		{story: "one with a GPU", words: "install --path . --features cuda", worker: worker{on: true}, ran: "graph install", says: []string{"Resolving", "!installed without"}},
		{story: "one that cargo refuses to be asked about", words: "install --path . --features cuda", worker: worker{on: true, asks: 101}, ran: "graph install", says: []string{"installed without a check of its features"}},
		{story: "one that fails, too", words: "install --path . --features cuda", worker: worker{on: true, asks: 101, fails: 101}, ran: "graph install", code: 101, says: []string{"!installed without"}},
		{story: "one with a configuration that is wrong", words: "install --path . --features cuda", files: map[string]string{"w/gpubuild.toml": "[prove]\nbims = 1\n"}, code: exit.Config},
		{story: "one of a registry", words: "install app --features cuda", ran: "graph install", says: []string{"`cuda` enables the GPU", "`gpubuild install --path DIR`"}},
		{story: "one of a registry without a GPU", words: "install app --features fast", ran: "graph install", says: []string{"!enables the GPU"}},
		{story: "a list of what is installed", words: "install --list", ran: "install", says: []string{"!enables the GPU"}},
		{story: "a watched run without GPU work", words: "run", files: map[string]string{"w/Cargo.lock": unlocked, "w/Cargo.toml": plain}, o: Options{Watch: true}, ran: "build run"},
		{story: "one that cannot be built", words: "run", files: map[string]string{"w/Cargo.lock": unlocked, "w/Cargo.toml": plain}, o: Options{Watch: true}, worker: worker{fails: 101}, ran: "build", code: 101},
		{story: "one of which an alert is to fail it", words: "run", files: map[string]string{"w/Cargo.lock": unlocked, "w/Cargo.toml": plain}, o: Options{Watch: true, FailOn: []string{"lost"}}, ran: "build run", code: exit.Unproved},
		{story: "by the configuration", words: "run", files: map[string]string{"w/Cargo.lock": unlocked, "w/Cargo.toml": plain, "w/gpubuild.toml": "[watch]\nfail-on = [\"lost\"]\n"}, o: Options{Watch: true}, ran: "build run", code: exit.Unproved},
		{story: "which the flag overrules", words: "run", files: map[string]string{"w/Cargo.lock": unlocked, "w/Cargo.toml": plain, "w/gpubuild.toml": "[watch]\nfail-on = [\"lost\"]\n"}, o: Options{Watch: true, FailOn: []string{}}, ran: "build run"},
		{story: "a proof that is required", words: "build --features cuda", o: Options{Proof: proof.Options{Required: true, Wanted: true}}, worker: worker{on: true}, ran: "graph build", code: exit.Unproved},
	} {
		w := newWorker(t, tt.files)
		b := w.b
		*w = worker{b: b, on: tt.worker.on, two: tt.worker.two, cut: tt.worker.cut, asks: tt.worker.asks, fails: tt.worker.fails}
		name, value, _ := strings.Cut(tt.env, "=")
		b.m.Host.Env = b.m.Host.Env.Set(name, value)
		c := b.command(tt.words)
		c.Options = tt.o
		_, err := Dispatch(t.Context(), c)
		got := strings.Join(slices.Compact(slices.Clone(w.ran)), " ")
		if got != tt.ran || exit.Of(err) != tt.code {
			t.Errorf("%s: ran %q, %v, want %q, %d: %s", tt.story, got, err, tt.ran, tt.code, b.said.String())
		}
		for _, want := range tt.says {
			want, not := strings.CutPrefix(want, "!")
			if strings.Contains(b.said.String(), want) == not {
				t.Errorf("%s: %q in %s", tt.story, want, b.said.String())
			}
		}
	}
}

// TestLeftOffIsSaidOnce, and again when the manifest has changed.
func TestLeftOffIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorker(t, nil)
	for i, want := range []bool{true, false, true} {
		if i == 2 {
			w.b.write("w/Cargo.toml", optional+"# changed\n")
		}
		w.b.said.Reset()
		if _, err := Dispatch(t.Context(), w.b.command("build")); err != nil || strings.Contains(w.b.said.String(), "leaves off") != want {
			t.Errorf("build %d: %v: %s", i, err, w.b.said.String())
		}
	}
}

// TestOutcome: what a report says of a proof that was asked for.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words         string
		o             proof.Options
		prove         *config.Prove
		asked, marked bool
	}{
		{"build", proof.Options{}, nil, false, false}, {"build", proof.Options{Wanted: true}, nil, true, false}, {"build", proof.Options{}, &config.Prove{}, true, false},
		{"test", proof.Options{}, &config.Prove{}, true, true}, {"test", proof.Options{ExpectCPU: true}, &config.Prove{}, true, false},
		{"run", proof.Options{}, nil, true, false}, {"test", proof.Options{}, nil, true, false}, {"bench", proof.Options{}, nil, true, false},
		{"test --no-run", proof.Options{Wanted: true}, nil, false, false}, {"check", proof.Options{}, nil, false, false},
	} {
		b := newBench(t, nil)
		c := b.command(tt.words)
		c.Options.Proof = tt.o
		s := &session.Session{Machine: b.m, Line: c.Line, Project: &manifest.Project{Root: b.m.Host.Cwd, Manifest: filepath.Join(b.m.Host.Cwd, "Cargo.toml")}}
		if s.Config.Prove.Value = tt.prove; tt.prove != nil {
			s.Config.Test.Value = &config.Tested{Marked: config.Marked{GPU: []string{"app"}}}
		}
		got := Result{Session: s}.outcome(c, finding.NewTrace(time.Now)).Collected
		if got.Proving.Asked != tt.asked || got.Proving.MarkedOnly != tt.marked || got.Project != "Cargo.toml" {
			t.Errorf("%s with %+v, %+v: %+v", tt.words, tt.o, tt.prove, got.Proving)
		}
		if none := (Result{Judged: true}).outcome(c, finding.NewTrace(time.Now)).Collected; none.Project != "" {
			t.Errorf("%s without a project: %+v", tt.words, none)
		}
	}
}
