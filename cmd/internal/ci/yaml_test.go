package ci

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

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

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestRowsOfAnyTextStayData: whatever a label, an image, a feature or a wrapper is called, GitHub's lines and GitLab's pipeline hold it as that value.
func TestRowsOfAnyTextStayData(t *testing.T) {
	for _, s := range texts(t) {
		m := Matrix{}
		for i, kind := range []string{Compile, Proof} {
			compile := ""
			if i == 1 {
				compile = m.Rows[0].ID
			}
			r := Row{Compile: compile, Kind: kind, Features: s, CUDA: "13.4", CUDNN: s, Arch: "sm_90", Platform: "linux-x86_64", Profile: s, Place: "p", Runner: []string{s, "x"}, Container: []string{s + digest, ""}[i], Wrapper: []string{s}}
			r.ID = r.id()
			r.CacheKey = r.cacheKey(s)
			m.Rows = append(m.Rows, r)
		}
		out, err := GitHub.Rows(m, Workflow{})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(lines) != 5 || bytes.ContainsAny(out, "\r") {
			t.Fatalf("%q: %d lines:\n%s", s, len(lines), out)
		}
		var back struct{ Include []githubRow }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[0], "compile=")), &back); err != nil {
			t.Fatal(err)
		}
		if r := back.Include[0]; !reflect.DeepEqual(r.Runner, []any{s, "x"}) || r.Container != s+digest {
			t.Fatalf("%q became %+v", s, r)
		}
		child, err := GitLab.Rows(m, Workflow{Install: "true", Setup: s, Dir: "d"})
		if err != nil {
			t.Fatal(err)
		}
		jobs := gitlabJobs(t, child)
		c := jobs["compile-1"]
		image := s + digest
		proof := jobs[m.Rows[1].ID]
		if len(jobs) != 3 || c.Image != image || !slices.Equal(c.Tags, []string{s, "x"}) || c.Parallel.Matrix[0]["GPUBUILD_ROW"][0] != m.Rows[0].ID || proof.Tags[0] != s || proof.Needs[0].Parallel.Matrix[0]["GPUBUILD_ROW"][0] != m.Rows[0].ID ||
			s != "" && !slices.Contains(c.Script, s) {
			t.Fatalf("%q became %+v\n%s", s, jobs, child)
		}
	}
}

type gitlabJob struct {
	Image    string
	Tags     []string
	Parallel struct{ Matrix []map[string][]string }
	Needs    []struct {
		Job      string
		Parallel struct{ Matrix []map[string][]string }
	}
	Script []string
}

// gitlabJobs are the jobs of a pipeline of rows.
func gitlabJobs(t *testing.T, text []byte) map[string]gitlabJob {
	t.Helper()
	var doc map[string]yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	jobs := map[string]gitlabJob{}
	for name, node := range doc {
		var job gitlabJob
		if name == "stages" || name == "default" || name == "workflow" {
			continue
		}
		if err := node.Decode(&job); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		jobs[name] = job
	}
	return jobs
}

// TestWorkflowsHoldTheUsersShellText: install and setup come out of the YAML as they went in, whatever they hold, and move nothing else.
func TestWorkflowsHoldTheUsersShellText(t *testing.T) {
	plain := len(jobsOf(t, GitHub.Workflow(Workflow{Install: "x", Setup: "y", Dir: "z"})))
	for _, s := range texts(t) {
		if strings.TrimSpace(s) == "" {
			continue
		}
		runs := jobsOf(t, GitHub.Workflow(Workflow{Install: s, Setup: s, Dir: s}))
		installs, setups := 0, 0
		for _, r := range runs {
			if r == s+"\n"+goBin {
				installs++
			}
			if r == s {
				setups++
			}
		}
		if installs != 3 || setups != 3 || len(runs) != plain {
			t.Fatalf("%q: %d installs, %d setups, %d steps of %d", s, installs, setups, len(runs), plain)
		}
		var lab map[string]any
		text := GitLab.Workflow(Workflow{Install: s, Setup: s, Image: s, Dir: s})
		if err := yaml.Unmarshal(text, &lab); err != nil {
			t.Fatalf("%q: %v\n%s", s, err, text)
		}
		plan := lab["plan"].(map[string]any)
		if script := plan["script"].([]any); plan["image"] != s || !slices.Contains(script, any(s)) || len(lab) != 4 {
			t.Fatalf("%q became %v", s, plan)
		}
	}
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
	for _, name := range []string{"plan", "compile", "proof", "report", "gpu"} {
		for _, s := range doc.Jobs[name].Steps {
			if s.Run != "" {
				runs = append(runs, s.Run)
			}
		}
	}
	return runs
}

func TestPathsThatCIWouldReadAreRefused(t *testing.T) {
	for dir, ok := range map[string]bool{"": true, "crates/app": true, "a b": true, "it's": true, "${{ secrets.X }}": false, "a\nb": false, "a*": false} {
		if err := (Workflow{Dir: dir}).Check(); (err == nil) != ok {
			t.Errorf("%q: got %v", dir, err)
		}
	}
}

// TestNothingHidesFailure: no workflow of ours may be green for a step that failed.
func TestNothingHidesFailure(t *testing.T) {
	for name, text := range map[string][]byte{"github": GitHub.Workflow(Workflow{}), "gitlab": GitLab.Workflow(Workflow{})} {
		for _, word := range []string{"|| true", "continue-on-error", "allow_failure: true", "nvidia-smi", "@main", "@master", "set +e", "permissions: write-all"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s has %q", name, word)
			}
		}
	}
}
