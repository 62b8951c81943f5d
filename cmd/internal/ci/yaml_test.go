package ci

import (
	"bytes"
	"errors"
	"flag"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// hostile are texts that YAML, a shell, GitHub's expressions or its workflow commands give a meaning.
func hostile() []string {
	return []string{
		"", " ", "a", "null", "~", "true", "no", "1e3", "0x10", "2001-01-01", "- a", "a: b", "a #b", "# a", "[a]", "{a: b}", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a`", "'", "\"", "''",
		"a\nb", "a\n", "\na", "a\r\nb", "a\tb", "\ta", " a", "a ", "a\n  b\n c", "a\n\n\nb", "---", "...", "<<", "? a", "\\", "\\n", "\x00", "\x07", "\x1b[31m", "\x7f", "\u0085", "\u00a0", "\u2028", "\u2029", "\ufeff", "\ufffe",
		"😀", "ä€", "${{ secrets.X }}", "${{", "}}", "$(id)", "`id`", "$HOME", "a;b", "a && b", "a|b", "a>b", "::error::x", "\n::error file=x::y", "%0A", "$CI_JOB_TOKEN",
		"key: |-\n  value", "a'b\"c\\d$e`f", strings.Repeat("long ", 100), "\"\n      - run: id", "EOF\nx", "a\x0bb", "\U0010ffff", "x\n\ty",
	}
}

// texts are hostile ones, and random mixtures of their pieces.
func texts(t testing.TB) []string {
	out := hostile()
	n := 20 * need.Count(t, "random", 10)
	r := rand.New(rand.NewSource(8))
	for range n {
		var b strings.Builder
		for range 1 + r.Intn(4) {
			b.WriteString(hostile()[r.Intn(len(hostile()))])
		}
		out = append(out, b.String())
	}
	return out
}

func checkScalar(t *testing.T, s string) {
	t.Helper()
	for _, form := range []string{"k: " + quote(s) + "\nend: 1\n", "a:\n  - b:\n      k:" + block(s, 8) + "\n      end: 1\n", "k: " + list([]string{s, "x"}) + "\nend: 1\n"} {
		var doc any
		if err := yaml.Unmarshal([]byte(form), &doc); err != nil {
			t.Fatalf("%q: %v in\n%s", s, err, form)
		}
		var got any
		switch top := doc.(map[string]any); {
		case top["a"] != nil:
			inner := top["a"].([]any)[0].(map[string]any)["b"].(map[string]any)
			if inner["end"] != 1 || len(inner) != 2 {
				t.Fatalf("%q leaves its place: %v", s, inner)
			}
			got = inner["k"]
		default:
			if top["end"] != 1 || len(top) != 2 {
				t.Fatalf("%q leaves its place: %v", s, top)
			}
			got = top["k"]
			if l, ok := got.([]any); ok {
				if len(l) != 2 {
					t.Fatalf("%q became %v", s, l)
				}
				got = l[0]
			}
		}
		if got != s {
			t.Fatalf("%q became %q by\n%s", s, got, form)
		}
	}
}

func TestScalarsParseBack(t *testing.T) {
	for _, s := range texts(t) {
		checkScalar(t, s)
	}
}

func FuzzScalar(f *testing.F) {
	for _, s := range hostile() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) {
			checkScalar(t, s)
		}
	})
}

// TestWorkflowsHoldTheUsersShellText: install and setup come out of the YAML as they went in, whatever they contain, and move nothing else.
func TestWorkflowsHoldTheUsersShellText(t *testing.T) {
	usual := usual()
	plain := len(jobsOf(t, github.Workflow(usual)))
	jobs := len(gitlabScripts(t, gitlab.Workflow(usual)))
	for _, s := range texts(t) {
		if strings.TrimSpace(s) == "" {
			continue
		}
		w := usual
		w.Install, w.Setup, w.Dir, w.Image = s, s, s, s
		runs := jobsOf(t, github.Workflow(w))
		installs, setups := 0, 0
		for _, r := range runs {
			if r == s+"\n"+goBin {
				installs++
			}
			if r == s {
				setups++
			}
		}
		if installs != 5 || setups != 5 || len(runs) != plain {
			t.Fatalf("%q: %d installs, %d setups, %d steps of %d", s, installs, setups, len(runs), plain)
		}
		scripts := gitlabScripts(t, gitlab.Workflow(w))
		for job, script := range scripts {
			if !slices.Contains(script, s) || len(scripts) != jobs {
				t.Fatalf("%q became %q in %s", s, script, job)
			}
		}
	}
}

// gitlabScripts are the scripts of a pipeline, by job.
func gitlabScripts(t *testing.T, text []byte) map[string][]string {
	t.Helper()
	var doc map[string]yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	jobs := map[string][]string{}
	for name, node := range doc {
		var job struct{ Script []string }
		if name == "stages" || name == "default" || name == "workflow" || name == "variables" {
			continue
		}
		if err := node.Decode(&job); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		jobs[name] = job.Script
	}
	return jobs
}

func jobsOf(t *testing.T, workflow []byte) (runs []string) {
	t.Helper()
	var doc struct {
		Jobs map[string]struct {
			Steps []struct{ Run, Uses string }
		}
	}
	if err := yaml.Unmarshal(workflow, &doc); err != nil {
		t.Fatalf("%v\n%s", err, workflow)
	}
	for _, name := range []string{"lint", "build", "test", "prove", "gpu"} {
		for _, s := range doc.Jobs[name].Steps {
			if s.Run != "" {
				runs = append(runs, s.Run)
			}
		}
	}
	return runs
}

func TestNamesThatCIWouldReadAreRefused(t *testing.T) {
	for dir, ok := range map[string]bool{"": true, "crates/app": true, "a b": true, "it's": true, "${{ secrets.X }}": false, "a\nb": false, "a*": false} {
		if err := (Workflow{Dir: dir}).check(); (err == nil) != ok {
			t.Errorf("%q: got %v", dir, err)
		}
	}
	for name, w := range map[string]Workflow{
		"an argument": {Rows: []Row{{Name: "a", Args: "--features $(id)"}}},
		"a program":   {Place: "slurm", Programs: []Row{{Name: "a", Args: "--bin ${{ secrets.X }}"}}},
		"a place":     {Place: "slurm; id"},
		"a label":     {Runner: []string{"gpu\n"}},
		"an image":    {Image: "rust:1"},
		"two rows":    {Place: "slurm", Programs: []Row{{Name: "a"}, {Name: "a"}}},
	} {
		if w.check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	hosttest.Equal(t, usual().check(), nil)
}

// TestNothingHidesFailure: no workflow of ours may be green for a step that failed.
func TestNothingHidesFailure(t *testing.T) {
	for _, p := range Providers() {
		for _, word := range []string{"|| true", "continue-on-error", "allow_failure", "nvidia-smi", "@main", "@master", "set +e", "permissions: write-all"} {
			if bytes.Contains(p.Workflow(usual()), []byte(word)) {
				t.Errorf("%s has %q", p.Name, word)
			}
		}
	}
}

// TestWorkflowsAreGolden: a change of what users commit into their repositories is read in review.
func TestWorkflowsAreGolden(t *testing.T) {
	for _, p := range Providers() {
		path := filepath.Join("..", "..", "..", "testdata", "golden", "ci", p.Name+".yml")
		got := p.Workflow(usual())
		if *update {
			hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, got, 0o644)))
		}
		want := hosttest.Must(os.ReadFile(path))(t)
		hosttest.Equal(t, string(got), string(want), "differs from", path, "rewrite with -update and read it", got)
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	github = Providers()[0]
	gitlab = Providers()[1]
)

// usual is a workflow with every part.
func usual() Workflow {
	return Workflow{Install: "tools/get-gpubuild", Setup: "sudo apt-get install -y libssl-dev", Dir: "crates/app", Arch: "sm_80",
		NoDefault: true, Attest: true, Runner: []string{"self-hosted", "gpu"},
		Rows:     []Row{{Name: "cuda", Args: "-p app -p kernels --features cuda"}, {Name: "cudnn", Args: "-p app --features cuda,cudnn"}},
		Programs: []Row{{Name: "bin-app", Args: "--bin app --features cuda -- --device cuda"}}}
}
