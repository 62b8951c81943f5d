package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// wanted says whether anything is to be rendered of the result.
func (o Options) wanted() bool {
	return o.SARIF != "" || o.JUnit != "" || o.Receipt != "" || o.JSON != nil
}

// checkResults refuses what cannot be written together.
func (o Options) checkResults(l cargo.Line) error {
	if o.NoClean && o.ForceClean {
		return &usageError{"--gpu-no-clean and --gpu-force-clean contradict each other", "leave one of them out"}
	}
	if o.Audit && l.Known() && l.Verb != "build" {
		return &usageError{"--gpu-audit belongs to build, and this is " + l.Verb, "gpubuild audit BIN -- ARGS audits any program"}
	}
	if err := o.checkExpected("--gpu-"); err != nil {
		return err
	}
	if o.JSON != nil && *o.JSON == "" && l.WantsJSON() {
		return &usageError{"stdout has cargo's messages, and --gpu-json would write into them", "give it a file: --gpu-json=FILE"}
	}
	return nil
}

// settle renders what a cargo verb came to, and answers how it ends: a file that could not be written is told, and counts only where all else was well.
func (j *journey) settle(end error) error {
	if isInterrupted(end) {
		return end
	}
	on := j.walked && j.onGitHub()
	if !on && !j.options.wanted() && (!j.walked || j.ndjson() == nil) {
		return end
	}
	r := j.result(end)
	if j.walked && j.ndjson() != nil {
		for _, p := range r.Programs {
			j.event("program", p)
		}
		for _, f := range r.Findings[len(j.findings):] {
			j.event("finding", f)
		}
		j.event("finished", struct {
			OK     bool           `json:"ok"`
			Code   int            `json:"exit_code"`
			Row    string         `json:"row,omitempty"`
			Checks []report.Check `json:"checks"`
		}{r.OK(), r.Code, r.Row, r.Checks})
	}
	o := j.options
	bad := j.render(o, r, nil, on)
	if o.Receipt != "" {
		bad = append(bad, j.writeReceipts(r))
	}
	return j.endWith(end, bad)
}

// endWith tells what could not be written; it is the end only where all else was well.
func (a *app) endWith(end error, bad []error) error {
	for _, err := range bad {
		switch {
		case err == nil:
		case end == nil:
			end = err
		default:
			a.Shell.Failure(err)
		}
	}
	return end
}

// render writes a result in every form that was asked for, and answers what could not be written.
func (a *app) render(o Options, r report.Result, fields any, github bool) []error {
	var bad []error
	if o.JSON != nil {
		data, err := r.Answer(fields)
		if err == nil {
			err = a.writeAnswer(*o.JSON, data)
		}
		bad = append(bad, err)
	}
	if o.SARIF != "" || github {
		r.Findings = append([]finding.Finding{}, r.Findings...)
		root := a.sourceRoot(r.Project)
		otherwise := a.rooted(root, orWord(r.Project, "gpubuild.toml"))
		for i := range r.Findings {
			r.Findings[i].Path = a.rooted(root, r.Findings[i].Path)
		}
		if o.SARIF != "" {
			data, err := r.SARIF(otherwise)
			if err == nil {
				err = a.writeFile(o.SARIF, data)
			}
			bad = append(bad, err)
		}
		if github {
			_, err := io.WriteString(a.Shell.Err, report.Annotations(r.Findings))
			bad = append(bad, err, a.appendSummary(r))
		}
	}
	if o.JUnit != "" {
		data, err := r.JUnit()
		if err == nil {
			err = a.writeFile(o.JUnit, data)
		}
		bad = append(bad, err)
	}
	return bad
}

// end renders what one of our own verbs came to.
func (a *app) end(o Options, end error, r report.Result, fields any) error {
	a.concluded = true
	made := a.result(r.Verb, a.Began, end)
	made.Project, made.Features, made.Set, made.Programs, made.Stale = r.Project, r.Features, r.Set, r.Programs, r.Stale
	made.Findings, made.Checks = append(made.Findings, r.Findings...), append(made.Checks, r.Checks...)
	if f, ok := failure(end, r.Verb); ok {
		f.Path = a.shownIf(f.Path)
		made.Findings = append(made.Findings, f)
	}
	made.Findings = report.RedactFindings(made.Findings, a.words)
	if len(made.Checks) == 0 {
		made.Checks = append(made.Checks, endCheck(r.Verb, end))
	}
	made.Checks = withFailure(made.Checks, r.Verb, end)
	bad := a.render(o, made, fields, a.onGitHub())
	if len(a.sealed) > 0 {
		bad = append(bad, a.writeReceipt(o, a.sealed, made))
	}
	return a.endWith(end, bad)
}

// endEarly renders an error of one of our own verbs that came before its answer.
func (a *app) endEarly(o Options, verb string, end error) error {
	if end == nil || a.concluded || isInterrupted(end) || !contains(onlyOn["sarif"], verb) {
		return end
	}
	o.JSON = nil // there is no answer
	return a.end(o, end, report.Result{Verb: verb}, nil)
}

// writeAnswer writes machine-readable output to stdout, or beside and renamed to a file.
func (a *app) writeAnswer(file string, data []byte) error {
	if file == "" {
		_, err := a.Shell.Out.Write(data)
		return err
	}
	return a.writeFile(file, data)
}

func (a *app) writeFile(file string, data []byte) error {
	path := a.Host.Abs(file)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = cache.WriteFile(path, data, 0o644)
	} else {
		err = &cache.WriteError{Path: path, Err: err}
	}
	if err != nil {
		return &outputError{err}
	}
	return nil
}

// outputError says that a file that the command line names cannot be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

// ExitCode is exit.Usage.
func (e *outputError) ExitCode() int { return exit.Usage }

func (e *outputError) Unwrap() error { return e.err }

// onGitHub says whether a step of GitHub Actions reads what we write.
func (a *app) onGitHub() bool { return a.Host.Env.Get("GITHUB_ACTIONS") == "true" }

// appendSummary appends to the step's summary what there is room for.
func (a *app) appendSummary(r report.Result) error {
	file := a.Host.Env.Get("GITHUB_STEP_SUMMARY")
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the step summary: %w", err)
	}
	fi, err := f.Stat()
	if err == nil {
		_, err = io.WriteString(f, r.Summary(report.SummaryRoom(fi.Size())))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("the step summary: %w", err)
	}
	return nil
}

// sourceRoot is what paths in SARIF and annotations are relative to: the checkout of the workflow, else the directory with .git above the project.
func (a *app) sourceRoot(project string) string {
	start := a.Host.Cwd
	if project != "" {
		start = a.Host.Dir(a.Host.Abs(project))
	}
	if root := a.Host.Env.Get("GITHUB_WORKSPACE"); root != "" && (a.Host.Below(start, root) || a.Host.SamePath(start, root)) {
		return root
	}
	for dir := start; ; dir = a.Host.Dir(dir) {
		if _, err := a.Host.Files.Stat(a.Host.Join(dir, ".git")); err == nil {
			return dir
		}
		if a.Host.Dir(dir) == dir {
			return a.Host.Cwd
		}
	}
}

// rooted is a path below the source root with slashes, or the absolute path of another.
func (a *app) rooted(root, path string) string {
	if path == "" {
		return ""
	}
	abs, root := a.Host.Clean(a.Host.Abs(path)), a.Host.Clean(root)
	if !a.Host.Below(abs, root) || a.Host.SamePath(abs, root) {
		return abs
	}
	return strings.ReplaceAll(strings.TrimLeft(abs[len(root):], `/\`), `\`, "/")
}
