package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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

// Wanted says whether any form of the result was asked for.
func (f Files) Wanted() bool {
	return f.SARIF != "" || f.JUnit != "" || f.Receipt != "" || f.JSON != nil
}

// Check says which file cannot be written because its directory is missing: better before a long build than after it.
func (f Files) Check(m *session.Machine) error {
	files := []string{f.SARIF, f.JUnit, f.Receipt}
	if f.JSON != nil {
		files = append(files, *f.JSON)
	}
	for _, file := range files {
		if file == "" {
			continue
		}
		if err := m.HasDir(file); err != nil {
			return err
		}
	}
	return nil
}

// Sink takes the result of one command line and renders it in every form that was asked for: files, and what GitHub Actions reads.
type Sink struct {
	machine  *session.Machine
	words    []string // the command line without the program's name
	files    Files
	finished bool
}

// NewSink is for one command line: its words without the program's name, and the files that it names.
func NewSink(m *session.Machine, words []string, files Files) *Sink {
	return &Sink{machine: m, words: words, files: files}
}

// Wants says whether anything is rendered of a cargo command that ended with end; judged as in Stages.
func (s *Sink) Wants(judged bool, end error) bool {
	return !isInterrupted(end) && (s.files.Wanted() || judged && s.onGitHub())
}

// Finish renders the result of a cargo command and returns its error: a file that could not be written is reported, and is the error only
// if everything else succeeded. seal makes the receipts; it is called only if a file is named for them.
func (s *Sink) Finish(st Stages, seal func() ([]receipt.Receipt, error), end error) error {
	r := s.placed(Assemble(s.machine, s.words, st, end))
	bad := s.render(r, nil, st.Judged && s.onGitHub())
	if s.files.Receipt != "" {
		receipts, err := seal()
		if err == nil {
			err = s.writeReceipts(receipts, r)
		}
		bad = append(bad, err)
	}
	return s.endWith(end, bad)
}

// FinishVerb renders what one of our own verbs came to, of which part is known. fields are those of the verb's own answer, or nil. receipts
// are written where a file is named.
func (s *Sink) FinishVerb(part Result, fields any, receipts []receipt.Receipt, end error) error {
	s.finished = true
	if !s.files.Wanted() && !s.onGitHub() { // git is not asked what nobody reads
		return end
	}
	r := s.placed(OfVerb(s.machine, s.words, part, end))
	bad := s.render(r, fields, s.onGitHub())
	if len(receipts) > 0 {
		bad = append(bad, s.writeReceipts(receipts, r))
	}
	return s.endWith(end, bad)
}

// FinishEarly renders an error of one of our own verbs that came before its answer.
func (s *Sink) FinishEarly(verb string, end error) error {
	if end == nil || s.finished || isInterrupted(end) {
		return end
	}
	s.files.JSON = nil // AnswerError writes it
	return s.FinishVerb(Result{Verb: verb}, nil, nil, end)
}

// placed is a result with the commit and the run that it is of. A part that came with an origin keeps it.
func (s *Sink) placed(r Result) Result {
	if r.Origin == nil {
		dir := s.machine.Host.Cwd
		if r.Project != "" {
			dir = s.machine.Host.Dir(s.machine.Host.Abs(r.Project))
		}
		o := origin.Of(context.Background(), s.machine.Host, s.machine.Runner, dir)
		r.Origin = &o
	}
	r.Row = r.Origin.Row
	if *r.Origin == (origin.Origin{}) {
		r.Origin = nil
	}
	return r
}

// endWith reports what could not be written; it is the returned error only if everything else succeeded.
func (s *Sink) endWith(end error, bad []error) error {
	for _, err := range bad {
		switch {
		case err == nil:
		case end == nil:
			end = err
		default:
			s.machine.Shell.Failure(err)
		}
	}
	return end
}

// onGitHub says whether a step of GitHub Actions reads what we write.
func (s *Sink) onGitHub() bool { return s.machine.Host.Env.Get("GITHUB_ACTIONS") == "true" }

// render writes a result in every form that was asked for, and answers what could not be written.
func (s *Sink) render(r Result, fields any, github bool) []error {
	var bad []error
	write := func(file string, data []byte, err error) {
		if err == nil {
			err = writeAnswer(s.machine, file, data)
		}
		bad = append(bad, err)
	}
	if s.files.JSON != nil {
		data, err := r.Answer(fields)
		write(*s.files.JSON, data, err)
	}
	if s.files.SARIF != "" || github {
		var place string
		r, place = s.rooted(r)
		if s.files.SARIF != "" {
			data, err := r.SARIF(place)
			write(s.files.SARIF, data, err)
		}
		if github {
			_, err := io.WriteString(s.machine.Shell.Err, Annotations(r.Findings))
			bad = append(bad, err, s.appendSummary(r))
		}
	}
	if s.files.JUnit != "" {
		data, err := r.JUnit()
		write(s.files.JUnit, data, err)
	}
	return bad
}

// writeReceipts writes one file of what was found: the first receipt, the others behind it, and the result of the whole run.
func (s *Sink) writeReceipts(list []receipt.Receipt, r Result) error {
	if r.Origin != nil && r.Origin.Machine != "" { // a receipt is passed on: it distinguishes machines, and names none
		hashed := *r.Origin
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
	if err := s.machine.WriteFile(s.files.Receipt, data, 0o644); err != nil {
		return err
	}
	s.machine.Shell.Status("Receipt", "%s (%s)", s.machine.Shown(s.machine.Host.Abs(s.files.Receipt)), first.Verdict.Kind)
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
	m.Shell.Answered = true
	if file == "" {
		_, err := m.Shell.Out.Write(console.VisibleJSON(data))
		return err
	}
	return m.WriteFile(file, data, 0o644)
}

// AnswerError writes the answer of a command line that ended before it had one: why, and with which exit code. file is where the answer was
// asked for; nil: nowhere.
func AnswerError(m *session.Machine, words []string, file *string, verb string, end error) error {
	if file == nil || end == nil || m.Shell.Answered || isInterrupted(end) {
		return nil
	}
	var findings []finding.Finding
	if f, ok := failure(m, end, verb); ok {
		findings = Result{Findings: []finding.Finding{f}}.redact(words, m.Host.Env).Findings
	}
	return Answer(m, file, verb, false, findings, struct {
		Code int `json:"exit_code"`
	}{exit.Of(end)})
}

// appendSummary appends to the step's summary what there is room for.
func (s *Sink) appendSummary(r Result) error {
	file := s.machine.Host.Env.Get("GITHUB_STEP_SUMMARY")
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the step summary: %w", err)
	}
	fi, err := f.Stat()
	if err == nil {
		_, err = io.WriteString(f, r.Summary(SummaryRoom(fi.Size())))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("the step summary: %w", err)
	}
	return nil
}

// rooted is a result whose findings have paths below the source root, and the place of a finding without a path.
func (s *Sink) rooted(r Result) (Result, string) {
	root := s.sourceRoot(r.Project)
	r.Findings = append([]finding.Finding{}, r.Findings...)
	for i := range r.Findings {
		r.Findings[i].Path = s.below(root, r.Findings[i].Path)
	}
	if r.Project == "" {
		return r, s.below(root, "gpubuild.toml")
	}
	return r, s.below(root, r.Project)
}

// sourceRoot is what paths in SARIF and annotations are relative to: the
// checkout of the workflow, else the directory with .git above the project.
func (s *Sink) sourceRoot(project string) string {
	h := s.machine.Host
	start := h.Cwd
	if project != "" {
		start = h.Dir(h.Abs(project))
	}
	if root := h.Env.Get("GITHUB_WORKSPACE"); root != "" && (h.Below(start, root) || h.SamePath(start, root)) {
		return root
	}
	return cmp.Or(h.Repository(start), h.Cwd)
}

// below is a path below the source root with slashes, or the absolute path of another.
func (s *Sink) below(root, path string) string {
	if path == "" {
		return ""
	}
	h := s.machine.Host
	abs, root := h.Clean(h.Abs(path)), h.Clean(root)
	if !h.Below(abs, root) || h.SamePath(abs, root) {
		return abs
	}
	return strings.ReplaceAll(strings.TrimLeft(abs[len(root):], `/\`), `\`, "/")
}
