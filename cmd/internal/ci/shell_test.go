package ci

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// shells are the real ones that are here; POSIX's own sh is one of them everywhere but on Windows.
func shells(t *testing.T) []string {
	t.Helper()
	out := []string{need.Tool(t, "sh")}
	for _, name := range []string{"bash", "dash"} {
		if path, reason := need.Find(name); reason == "" {
			out = append(out, path)
		}
	}
	return out
}

// TestShellsReadTheWords: what is printed for a person to paste, and what --gpu-prove hands on, is read back by real shells to the very words.
func TestShellsReadTheWords(t *testing.T) {
	var words []string
	for _, s := range texts(t) {
		if !strings.ContainsRune(s, 0) {
			words = append(words, s)
		}
	}
	for _, shell := range shells(t) {
		c := exec.Command(shell)
		c.Stdin = strings.NewReader(`printf '%s\0' ` + buildenv.PosixWords(words...)) // an argument may not be that long
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v", shell, err)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
			for i := range words {
				if i >= len(got) || got[i] != words[i] {
					t.Fatalf("%s: word %d, %q, was not read back", shell, i, words[i])
				}
			}
		}
	}
}

// TestGate runs the last job's text with every result that GitHub gives a job.
func TestGate(t *testing.T) {
	texts := jobsOf(t, github.Workflow(usual()))
	for _, sh := range shells(t) {
		for _, tt := range []struct {
			results, fork string
			ok            bool
		}{
			{"success success success", "false", true},
			{"success failure success", "false", false},
			{"success success cancelled", "false", false},
			{"success success skipped", "false", false},
			{"success success skipped", "true", true},
			{"success failure skipped", "true", false},
		} {
			c := exec.Command(sh, "-e", "-c", texts[len(texts)-1])
			c.Env = []string{"RESULTS=" + tt.results, "FORK=" + tt.fork}
			if out, err := c.CombinedOutput(); (err == nil) != tt.ok || tt.ok == strings.Contains(string(out), "::error::") {
				t.Errorf("%s: %+v: %v, %s", sh, tt, err, out)
			}
		}
	}
}

// TestShellTextIsSound has real shells parse every command of the workflows, with install texts of every kind that parses by itself.
func TestShellTextIsSound(t *testing.T) {
	w := usual()
	w.Setup, w.Dir = "export A=1\n# a comment", "it's/a $dir"
	for _, sh := range shells(t) {
		for _, install := range []string{"true", "get it --from here", "cat <<EOF\n  text\nEOF", "if true; then\n\ttrue\nfi # end"} {
			w.Install = install
			texts := jobsOf(t, github.Workflow(w))
			for _, script := range gitlabScripts(t, gitlab.Workflow(w)) {
				texts = append(texts, strings.Join(script, "\n"))
			}
			for _, text := range texts {
				c := exec.Command(sh, "-n")
				c.Stdin = strings.NewReader(text)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%s -n: %v %s in\n%s", sh, err, out, text)
				}
			}
		}
	}
}

// workflows are the forms that a workflow can have.
func workflows() map[string]Workflow {
	rows := []Row{{Name: "cuda", Args: "-p app --features cuda"}}
	place := usual()
	place.Runner, place.Place, place.NoDefault, place.Attest = nil, "slurm", false, false
	return map[string]Workflow{
		"bare":  {Install: "true", Rows: rows},
		"usual": usual(),
		"place": place,
		"below": {Install: "true", Rows: rows, Dir: "crates/it's an app",
			Image: "example.org/image:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
		"hostile": {Install: "echo \"it's\" 'a' # ${{ github.sha }}\n\n  x: |-\n- run: y", Setup: "::error::x", Rows: rows, Runner: []string{"a", "b"},
			Image: "a: b # c@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
	}
}

func TestActionlintAcceptsTheWorkflows(t *testing.T) {
	t.Parallel()
	lint := need.Tool(t, "actionlint")
	lintWorkflows(t, func(path string) ([]byte, error) { return exec.Command(lint, "-no-color", path).CombinedOutput() },
		"name: test-${{ matrix.name }}", "name: test-${{ matrix.names }}", "names")
}

// TestZizmorAcceptsTheWorkflows: nothing of medium severity, by all audits that need no network.
func TestZizmorAcceptsTheWorkflows(t *testing.T) {
	t.Parallel()
	zizmor := need.Tool(t, "zizmor")
	lintWorkflows(t, func(path string) ([]byte, error) {
		return exec.Command(zizmor, "--offline", "--no-progress", "--persona=auditor", "--min-severity=medium", path).CombinedOutput()
	}, "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "actions/checkout@v7", "unpinned-uses")
}

// lintWorkflows has a linter accept every form of the workflow, and refuse one in which a text is replaced.
func lintWorkflows(t *testing.T, lint func(path string) ([]byte, error), good, bad, says string) {
	t.Helper()
	run := func(text []byte) ([]byte, error) {
		path := filepath.Join(t.TempDir(), ".github", "workflows", "gpu.yml")
		hosttest.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		hosttest.OK(t, os.WriteFile(path, text, 0o644))
		return lint(path)
	}
	for name, w := range workflows() {
		text := github.Workflow(w)
		if out, err := run(text); err != nil {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, text)
		}
	}
	broken := bytes.Replace(github.Workflow(usual()), []byte(good), []byte(bad), 1)
	if out, err := run(broken); err == nil || !bytes.Contains(out, []byte(says)) {
		t.Errorf("it accepts %s: %v %s", bad, err, out)
	}
}

func TestSchemasAcceptTheWorkflows(t *testing.T) {
	checker := need.Tool(t, "jsonschema")
	dir := t.TempDir()
	n := 0
	write := func(text []byte) string {
		n++
		path := filepath.Join(dir, fmt.Sprint(n, ".yml"))
		hosttest.OK(t, os.WriteFile(path, text, 0o644))
		return path
	}
	check := func(schema string, files ...string) ([]byte, error) {
		return exec.Command(checker, append([]string{"--builtin-schema", schema}, files...)...).CombinedOutput()
	}
	var hub, lab []string
	for _, w := range workflows() {
		hub, lab = append(hub, write(github.Workflow(w))), append(lab, write(gitlab.Workflow(w)))
	}
	for schema, files := range map[string][]string{"vendor.github-workflows": hub, "vendor.gitlab-ci": lab, "vendor.github-actions": {"../../../.github/actions/gpubuild/action.yml"}} {
		if out, err := check(schema, files...); err != nil {
			t.Errorf("%s: %v\n%s", schema, err, out)
		}
	}
	for schema, text := range map[string]string{"vendor.github-workflows": "name: x\non: push\njobs: {a: {steps: []}}\n", "vendor.gitlab-ci": "a:\n  script: {}\n", "vendor.github-actions": "name: x\nruns: {using: composite}\n"} {
		if out, err := check(schema, write([]byte(text))); err == nil {
			t.Errorf("%s accepts what is wrong: %s", schema, out)
		}
	}
}

// actionSteps are the run texts of the composite action, by step name.
func actionSteps(t *testing.T) map[string]string {
	t.Helper()
	data := hosttest.Must(os.ReadFile("../../../.github/actions/gpubuild/action.yml"))(t)
	var doc struct {
		Runs struct{ Steps []struct{ Name, Run string } }
	}
	hosttest.OK(t, yaml.Unmarshal(data, &doc))
	out := map[string]string{}
	for _, s := range doc.Runs.Steps {
		if s.Run != "" {
			out[s.Name] = s.Run
		}
	}
	return out
}

// TestActionInstalls runs the action's own shell text with bash, as GitHub does, for each kind of source.
func TestActionInstalls(t *testing.T) {
	bash := need.Tool(t, "bash")
	for _, program := range []string{"curl", "tar", "sha256sum", "unzip"} {
		need.Program(t, "bash", program)
	}
	steps := actionSteps(t)
	const program = "#!/bin/sh\necho gpubuild v9\n"
	archive, zipped := tarOf(t, program), zipOf(t, "gpubuild-9.data/scripts/gpubuild", program)
	hash := func(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
	right := hash(archive)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gpubuild.whl":
			_, _ = w.Write(zipped)
		case "/gpubuild":
			_, _ = w.Write([]byte(program))
		case "/gpubuild.deb":
			_, _ = w.Write([]byte("!<arch>\ndebian-binary"))
		case "/empty.zip":
			_, _ = w.Write(zipOf(t, "README", "nothing"))
		default:
			_, _ = w.Write(archive)
		}
	}))
	defer server.Close()
	pemFile := filepath.Join(t.TempDir(), "ca.pem")
	hosttest.OK(t, os.WriteFile(pemFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644))
	checkout := hosttest.Must(filepath.Abs("../../.."))(t)
	for _, tt := range []struct {
		name, source, sha string
		fails             string // empty: it installs
		slow              bool
	}{
		{"an archive", server.URL + "/gpubuild.tar.gz", right, "", false},
		{"an archive whatever its address ends in", server.URL + "/download?id=1", right, "", false},
		{"a wheel", server.URL + "/gpubuild.whl", hash(zipped), "", false},
		{"the program itself", server.URL + "/gpubuild", hash([]byte(program)), "", false},
		{"an archive without a program", server.URL + "/empty.zip", hash(zipOf(t, "README", "nothing")), "there is no program gpubuild", false},
		{"a package", server.URL + "/gpubuild.deb", hash([]byte("!<arch>\ndebian-binary")), "no archive (.tgz, .zip), no wheel and no program", false},
		{"an archive that is another one", server.URL + "/gpubuild.tar.gz", strings.Repeat("0", 64), "the sha256 is " + right, false},
		{"an address without a hash", server.URL + "/gpubuild.tar.gz", "", "needs the input sha256", false},
		{"no encryption", "http://127.0.0.1/x.tar.gz", right, "the input source is no https", false},
		{"a word", "gpubuild", "", "the input source is no https", false},
		{"a text that a shell would run", "$(touch pwned); ./x", "", "the input source is no https", false},
		{"a checkout", checkout, "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.slow {
				need.Asked(t, "long")
			}
			dir := t.TempDir()
			var out bytes.Buffer
			var failed error
			for _, name := range []string{"Source", "Install", "Version"} {
				c := exec.Command(bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[name])
				c.Dir = dir
				c.Env = append(os.Environ(), "SOURCE="+tt.source, "SHA256="+tt.sha, "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+filepath.Join(dir, "output"), "GITHUB_PATH="+filepath.Join(dir, "path"), "CURL_CA_BUNDLE="+pemFile, "GOFLAGS=-buildvcs=false")
				c.Stdout, c.Stderr = &out, &out
				if failed = c.Run(); failed != nil {
					break
				}
			}
			if (failed == nil) != (tt.fails == "") || !strings.Contains(out.String(), tt.fails) {
				t.Fatalf("got %v: %s", failed, out.String())
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Error("the source was run as shell text")
			}
			if failed == nil {
				path, _ := os.ReadFile(filepath.Join(dir, "path"))
				outputs, _ := os.ReadFile(filepath.Join(dir, "output"))
				if strings.TrimSpace(string(path)) != filepath.Join(dir, "gpubuild-bin") || !strings.Contains(string(outputs), "version=gpubuild ") {
					t.Errorf("path %q, output %q", path, outputs)
				}
			}
		})
	}
}

// zipOf is an archive with one file.
func zipOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f := hosttest.Must(w.Create(name))(t)
	hosttest.Must(f.Write([]byte(text)))(t)
	hosttest.OK(t, w.Close())
	return out.Bytes()
}

// tarOf is a release archive as ours: the program one directory down.
func tarOf(t *testing.T, program string) []byte {
	t.Helper()
	dir := t.TempDir()
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "gpubuild-v9"), 0o755))
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "gpubuild-v9", "gpubuild"), []byte(program), 0o644))
	return hosttest.Must(exec.Command("tar", "-czf", "-", "-C", dir, "gpubuild-v9").Output())(t)
}
