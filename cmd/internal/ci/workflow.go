// Package ci writes a CI workflow of plain gpubuild commands, once. The file is the user's to change from then on: nothing reads it back.
//
// It owns the form of the workflows for GitHub Actions and GitLab CI. What a user wrote reaches a workflow only as a quoted scalar or as
// text that no expression reads again; exceptions are the commands of [ci] install and setup, which are shell text by meaning.
package ci

import (
	"bytes"
	"embed"
	"path"
	"strconv"
	"strings"
	"text/template"
	"unicode"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/receipt"
)

// Provider is a service that runs workflows.
type Provider struct {
	Name string
	File []string // the workflow in a repository
	Keep string   // what a user can do who has such a file already, other than replacing it
	form string   // template
}

// ProviderNames are those of Providers, as a choice is written.
const ProviderNames = "github|gitlab"

// Providers are the services that gpubuild writes workflows for.
func Providers() []Provider {
	return []Provider{
		{Name: "github", File: []string{".github", "workflows", "gpu.yml"}, form: "github.yml.tmpl"},
		{Name: "gitlab", File: []string{".gitlab-ci.yml"}, form: "gitlab.yml.tmpl",
			Keep: "keep yours, write ours to another file (--stdout > .gitlab/gpubuild.yml) and `include: {local: .gitlab/gpubuild.yml}`"},
	}
}

// Row is one entry of the service's own matrix.
type Row struct {
	Name string // unique, and safe in a file name
	Args string // arguments for cargo, of which each word is safe in a shell
}

// Workflow is what a workflow is made from.
type Workflow struct {
	Install   string // shell text that puts gpubuild on PATH
	Setup     string // shell text before everything else
	Image     string // GitLab: the image of jobs without a GPU
	Dir       string // the workspace's root below the repository's, with slashes; empty: the same
	Arch      string // --gpu-arch where there is no GPU; empty: gpubuild.toml has one
	NoDefault bool   // the default features need CUDA, so that check and clippy run without them
	Selected  string // by -p and --exclude; empty: the workspace
	Rows      []Row  // built, and tested on the GPU
	Programs  []Row  // run and proven
	Runner    []string
	Place     string // of --gpu-on
	Trust     bool   // the repository says what Place is
	Attest    bool   // GitHub: the receipts of Programs become attestations
}

// GPU reports whether anything runs on a GPU.
func (w Workflow) GPU() bool { return len(w.Runner) > 0 || w.Place != "" }

const safeWords = "use letters, digits and _.,:=/@+%-" // as safeWord has them

var (
	pinned   = lazyregexp.New(`@sha256:[0-9a-f]{64}$`)
	safeWord = lazyregexp.New(`^[A-Za-z0-9_.,:=/@+%-]+$`)
	rowName  = lazyregexp.New(`[^A-Za-z0-9_.]+`)
)

// check returns why no workflow can be written. GitHub reads ${{ }} in a path as an expression, and a cache's paths are lines.
func (w Workflow) check() error {
	if strings.Contains(w.Dir, "${{") || strings.ContainsAny(w.Dir, "\r\n\x00*?[]!") {
		return exit.Errorf(exit.Other, "rename the directory", "the project is in %.200q of its repository, a name that CI would expand", w.Dir)
	}
	if w.Image != "" && !pinned.MatchString(w.Image) {
		name := "IMAGE"
		if len(w.Image) <= 200 {
			name = buildenv.PosixWords(w.Image)
		}
		fix := "append @ and its digest, which this prints: docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "
		return exit.Errorf(exit.Config, fix+name, "image %.200q is not pinned by its digest", w.Image)
	}
	for _, label := range append([]string{w.Place}, w.Runner...) {
		if label != "" && !safeWord.MatchString(label) {
			return &exit.UsageError{What: "a workflow cannot hold the name " + quote(label), Fix: safeWords}
		}
	}
	for _, rows := range [][]Row{w.Rows, w.Programs} {
		names := map[string]bool{}
		for _, r := range rows {
			for word := range strings.FieldsSeq(r.Args) {
				if !safeWord.MatchString(word) {
					return &exit.UsageError{What: "a workflow cannot hold the argument " + quote(word), Fix: safeWords}
				}
			}
			if names[r.Name] {
				return &exit.UsageError{What: "two rows of a job would be called " + r.Name, Fix: "name each program once"}
			}
			names[r.Name] = true
		}
	}
	return nil
}

// goBin makes what `go install` put into Go's own directory known to later steps: not every runner has that on PATH.
const goBin = `if command -v go >/dev/null; then echo "$(go env GOPATH)/bin" >> "${GITHUB_PATH:-/dev/null}"; fi`

//go:embed workflows
var templates embed.FS

// Workflow writes the workflow. The templates are part of the program: a test makes each.
func (p Provider) Workflow(w Workflow) []byte {
	t := template.New("").Delims("{%", "%}").Funcs(template.FuncMap{
		"quote": quote, "text": block, "list": list, "words": buildenv.PosixWords,
		// A path below the workspace's directory, as an action reads it, which knows no working directory.
		"in": func(p string) string { return path.Join(w.Dir, p) },
		// The results of a job that the last one expects.
		"expect": func(job string, rows []Row) (out string) {
			for _, r := range rows {
				out += " --expect " + job + "-" + r.Name
			}
			return out
		},
		"goBin":     func() string { return goBin },
		"predicate": func() string { return receipt.PredicateType },
	})
	var out bytes.Buffer
	if err := template.Must(t.ParseFS(templates, "workflows/"+p.form)).ExecuteTemplate(&out, p.form, w); err != nil {
		panic("workflow: " + err.Error())
	}
	return out.Bytes()
}

// quote writes a string as a double-quoted YAML scalar on one line: all escapes of Go are YAML's, too (YAML 1.2.2, 5.7). Invalid UTF-8
// becomes U+FFFD.
func quote(s string) string { return strconv.Quote(strings.ToValidUTF8(s, "\uFFFD")) }

// block writes text as a literal block scalar below a key, indented by n, or quoted where a block could not hold it as it is.
func block(s string, n int) string {
	plain := s != "" && !strings.HasPrefix(s, " ") && !strings.HasPrefix(s, "\n") && !strings.HasSuffix(s, "\n")
	for _, r := range s {
		plain = plain && (r == '\n' || r == '\t' || r >= 0x20 && r <= 0x7e || r >= 0xa0 && r <= 0xd7ff && unicode.IsPrint(r))
	}
	if !plain || strings.Contains(s, "\n\t") || strings.HasPrefix(s, "\t") {
		return " " + quote(s)
	}
	indent := "\n" + strings.Repeat(" ", n)
	return " |-" + indent + strings.ReplaceAll(strings.ReplaceAll(s, "\n", indent), indent+"\n", "\n\n")
}

// list writes strings as a flow sequence of quoted scalars.
func list(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
