package ci

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
)

// noRows says that nothing is left of a matrix, or nothing of what was to be proven at a place. A workflow of such a matrix would be green
// without having done what was asked.
func noRows(leftOut []LeftOut, what string) error {
	return exit.Errorf(exit.Misfit, "change [matrix] in gpubuild.toml; `gpubuild ci matrix` says why each row is left out",
		"%s\n%s", what, strings.TrimSuffix(Reasons(leftOut), "\n"))
}

// Refuse says why no workflow should be made of a matrix; nil: it may. Every service needs pinned images.
func (m Matrix) Refuse() error {
	if len(m.Rows) == 0 {
		return noRows(m.LeftOut, "no row of the matrix can work")
	}
	places := m.unproven()
	if len(places) == 0 {
		return m.pinned(Workflow{})
	}
	rows := slices.DeleteFunc(slices.Clone(m.LeftOut), func(l LeftOut) bool { return !slices.Contains(places, l.Place) })
	for _, place := range places {
		if !slices.ContainsFunc(rows, func(l LeftOut) bool { return l.Place == place }) {
			rows = append(rows, LeftOut{Row{ID: place}, "no row of the matrix has the values that its [[matrix.prove]] selects"})
		}
	}
	return noRows(rows, fmt.Sprintf("nothing can be proven on %s, which [[matrix.prove]] names", strings.Join(places, ", ")))
}

var pinned = lazyregexp.New(`@sha256:[0-9a-f]{64}$`)

// pinned says which image of a matrix, or of a workflow, is none for a workflow; nil: all are pinned.
func (m Matrix) pinned(w Workflow) error {
	for _, r := range append([]Row{{Container: w.Image}}, m.Rows...) {
		if r.Container != "" && !pinned.MatchString(r.Container) {
			fix := "append @ and its digest, which this prints: docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "
			return exit.Errorf(exit.Config, fix+buildenv.PosixWords(r.Container), "image %q is not pinned by its digest", r.Container)
		}
	}
	return nil
}

// Reasons lists rows that are left out, those with the same reason together.
func Reasons(rows []LeftOut) string {
	var order []string
	by := map[string][]string{}
	for _, l := range rows {
		why := OneLine(l.Why)
		if by[why] == nil {
			order = append(order, why)
		}
		by[why] = append(by[why], l.ID)
	}
	var b strings.Builder
	for _, why := range order {
		if why == excluded {
			fmt.Fprintf(&b, "  %s: %d rows\n", why, len(by[why]))
			continue
		}
		fmt.Fprintf(&b, "  %s\n", why)
		for _, id := range by[why] {
			fmt.Fprintf(&b, "    %s\n", id)
		}
	}
	return b.String()
}

// OneLine keeps what a user wrote from looking like several lines of ours, or in a log of GitHub like a command to it: `::` counts where a
// line begins, `##[` anywhere (actions/runner, src/Runner.Common/ActionCommand.cs).
func OneLine(s string) string {
	if strings.HasPrefix(strings.TrimSpace(s), "::") {
		s = "'" + s
	}
	s = strings.ReplaceAll(s, "##[", "## [")
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}

// Workflow is what a workflow needs in addition to the rows, which the matrix job computes on every run.
type Workflow struct {
	Install string // shell text that puts gpubuild on PATH
	Setup   string // shell text before everything else
	Image   string // GitLab: image of jobs that the matrix names none for
	Dir     string // the workspace's root below the repository's, with slashes; empty: the same
}

// Check says why no workflow can be written; nil: it can. GitHub reads ${{ }} in a path as an expression, and a cache's paths are lines.
func (w Workflow) Check() error {
	if strings.Contains(w.Dir, "${{") || strings.ContainsAny(w.Dir, "\r\n\x00*?[]!") {
		return exit.Errorf(0, "give the directory a plain name",
			"the project lies in %q of its repository, and CI would read that name as something else", w.Dir)
	}
	return nil
}

// bareImage brings what an image of nvidia/cuda or rust lacks; Go, where the install command needs it, is [ci] setup's part. It does
// nothing where cargo, git and pip are there.
const bareImage = `if ! command -v cargo >/dev/null || ! command -v git >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update
  apt-get install -y --no-install-recommends ca-certificates curl git gcc g++ python3 python3-pip
  command -v cargo >/dev/null || curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
fi`

// goBin makes what `go install` put into Go's own directory known to later steps: not every runner has that on PATH.
const goBin = `if command -v go >/dev/null; then echo "$(go env GOPATH)/bin" >> "$GITHUB_PATH"; fi`

//go:embed workflows
var templates embed.FS

// render writes a workflow from its template. The templates are part of the program: a test makes each.
func (w Workflow) render(name string, data any) []byte {
	// A path below the workspace's directory, as an action reads it, which knows no working directory.
	in := func(p string) string { return path.Join(w.Dir, p) }
	t := template.New("").Delims("{%", "%}").Funcs(template.FuncMap{
		"quote": quote, "text": block, "list": list, "words": buildenv.PosixWords, "in": in, "archive": Archive, "vars": gitlabVars,
		"targetRoot": func() string { return in("target/gpubuild-ci") },
		"hosted":     func() string { return strings.Join(hostedNames(), ",") },
		"image":      func() string { return cmp.Or(w.Image, defaultImage) },
		"bareImage":  func() string { return bareImage },
		"goBin":      func() string { return goBin },
	})
	var out bytes.Buffer
	if err := template.Must(t.ParseFS(templates, "workflows/*")).ExecuteTemplate(&out, name, data); err != nil {
		panic("workflow: " + err.Error())
	}
	return out.Bytes()
}
