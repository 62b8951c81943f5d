package report

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
)

// Files are the places that the flags of a command line name for its result. Empty: that form was not asked for.
type Files struct {
	JSON    *string // nil: not asked for; empty: stdout
	SARIF   string
	JUnit   string
	Receipt string
}

// Wanted reports whether any form of the result was asked for.
func (f Files) Wanted() bool {
	return f.SARIF != "" || f.JUnit != "" || f.Receipt != "" || f.JSON != nil
}

// Report is what one command line came to, but for how it ended.
type Report struct {
	Collected
	Files     Files
	Annotated bool                              // the subcommand is one that has a result, shown on GitHub Actions
	HasResult bool                              // what was to be answered is known; else the end says why not
	Fields    any                               // of the verb's own answer, next to its result
	Receipts  func() ([]receipt.Receipt, error) // called only if a file is named for them
}

// Finish renders the result of a command line in every form that was asked for, prints the error that it ended with, and returns the exit
// code. A file that could not be written is reported, and is the error only if everything else succeeded. words are the command line
// without the program's name.
func Finish(m *session.Machine, words []string, o Report, end error) int {
	for _, err := range o.render(m, words, end) {
		switch {
		case err == nil:
		case end == nil:
			end = err
		default:
			m.Shell.Failure(err)
		}
	}
	m.Shell.Failure(end)
	return exit.Of(end)
}

// render writes a result in every form that was asked for, and returns what could not be written.
func (o Report) render(m *session.Machine, words []string, end error) (bad []error) {
	if !o.HasResult && (end == nil || errors.Is(end, context.Canceled)) {
		return nil
	}
	write := func(file string, data []byte, err error) {
		if err == nil {
			err = writeAnswer(m, file, data)
		}
		bad = append(bad, err)
	}
	r := Assemble(m, words, o.Collected, end)
	if !o.HasResult {
		code := struct {
			Code int `json:"exit_code"`
		}{r.Code}
		if o.Fields, o.Files.Receipt = code, ""; m.JSONWritten != nil && m.JSONWritten.Load() {
			o.Files.JSON = nil
		}
		if o.Files.JSON != nil && !o.Annotated { // of a verb without a result
			data, err := Envelope(o.Verb, false, r.Findings, code)
			write(*o.Files.JSON, data, err)
			return bad
		}
	}
	github := o.Annotated && m.Host.Env.Get("GITHUB_ACTIONS") == "true"
	if !github && !o.Files.Wanted() { // git is not asked what nobody reads
		return bad
	}
	r = r.placed(m)
	rooted, place := rooted(m, r)
	if o.Files.SARIF != "" {
		data, err := rooted.SARIF(place)
		write(o.Files.SARIF, data, err)
	}
	if github {
		_, err := io.WriteString(m.Shell.Err, Annotations(rooted.Findings))
		bad = append(bad, err)
		appendSummary(m, rooted)
	}
	if o.Files.JUnit != "" {
		data, err := r.JUnit()
		write(o.Files.JUnit, data, err)
	}
	if o.Files.Receipt != "" {
		receipts, err := o.Receipts()
		if err == nil && len(receipts) > 0 {
			err = writeReceipts(m, o.Files.Receipt, receipts, r)
		}
		bad = append(bad, err)
	}
	if o.Files.JSON != nil { // last: it says how the process ends
		if failed := errors.Join(bad...); end == nil && failed != nil {
			r = Assemble(m, words, o.Collected, failed).placed(m)
		}
		data, err := r.Answer(o.Fields)
		write(*o.Files.JSON, data, err)
	}
	return bad
}

// placed is a result with the commit and the run that it is of, and the machine where its programs ran.
func (r Result) placed(m *session.Machine) Result {
	o := origin.Of(context.Background(), m.Host, m.Runner, projectDir(m.Host, r.Project))
	for _, p := range r.Programs { // the other machine that a program ran on, without its job
		if p.Proof != nil && p.Proof.Host != "" {
			o.Machine, _, _ = strings.Cut(p.Proof.Host, ",")
		}
	}
	o.Run = withoutUser(o.Run)
	if r.Row = o.Row; o != (origin.Origin{}) {
		r.Origin = &o
	}
	return r
}

// writeReceipts writes one file of what was found: the first receipt, the others behind it, and the result of the whole run.
func writeReceipts(m *session.Machine, file string, list []receipt.Receipt, r Result) error {
	if hashed := r.from(); hashed.Machine != "" { // a receipt is passed on: it distinguishes machines, and names none
		hashed.Machine = receipt.Hidden([]string{hashed.Machine})[0]
		r.Origin = &hashed
	}
	answer, err := r.Answer(nil)
	if err != nil {
		return err
	}
	first := list[0]
	first.Result, first.More, first.Origin, first.Time = answer, list[1:], r.Origin, r.At
	data, err := first.Encode()
	if err != nil {
		return err
	}
	if err := m.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	m.Shell.Status("Receipt", "%s (%s)", m.Shown(m.Host.Abs(file)), first.Verdict.Kind)
	return nil
}

// Answer writes a verb's machine-readable answer: to a file, to stdout where its name is empty, or nowhere where it was not asked for.
func Answer(m *session.Machine, file *string, verb string, ok bool, findings []finding.Finding, fields any) error {
	if file == nil {
		return nil
	}
	data, err := Envelope(verb, ok, findings, fields)
	if err != nil {
		return err
	}
	return writeAnswer(m, *file, data)
}

func writeAnswer(m *session.Machine, file string, data []byte) error {
	m.NoteJSON()
	if file == "" {
		_, err := m.Shell.Out.Write(console.VisibleJSON(data))
		return err
	}
	return m.WriteFile(file, data, 0o644)
}

// appendSummary appends to the step's summary what there is room for. No flag asks for it: that it cannot be written is no failure.
func appendSummary(m *session.Machine, r Result) {
	file := m.Host.Env.Get("GITHUB_STEP_SUMMARY")
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		fi, wrong := f.Stat()
		if wrong == nil {
			_, wrong = io.WriteString(f, r.Summary(int(summaryLimit-fi.Size())))
		}
		err = errors.Join(wrong, f.Close())
	}
	if err != nil {
		m.Shell.Warning("the step summary: %v", err)
	}
}

// rooted is a result whose findings have paths below the source root, and the place of a finding without a path.
func rooted(m *session.Machine, r Result) (Result, string) {
	root := sourceRoot(m.Host, r.Project)
	r.Findings = append([]finding.Finding{}, r.Findings...)
	for i := range r.Findings {
		r.Findings[i].Path = below(m.Host, root, r.Findings[i].Path)
	}
	return r, below(m.Host, root, cmp.Or(r.Project, "gpubuild.toml"))
}

// sourceRoot is what paths in SARIF and annotations are relative to: the
// checkout of the workflow, else the directory with .git above the project.
func sourceRoot(h buildenv.Host, project string) string {
	start := projectDir(h, project)
	if root := h.Env.Get("GITHUB_WORKSPACE"); root != "" && h.Below(start, root) {
		return root
	}
	return cmp.Or(h.Repository(start), h.Cwd)
}

// projectDir is the directory of a project's manifest, or the current one.
func projectDir(h buildenv.Host, project string) string {
	return h.Dir(h.Abs(cmp.Or(project, buildenv.ManifestFile)))
}

// below is a path below the source root with slashes, or the absolute path of another.
func below(h buildenv.Host, root, path string) string {
	if path == "" {
		return ""
	}
	abs, root := h.Clean(h.Abs(path)), h.Clean(root)
	if !h.Below(abs, root) || h.SamePath(abs, root) {
		return abs
	}
	return strings.ReplaceAll(strings.TrimLeft(abs[len(root):], `/\`), `\`, "/")
}
