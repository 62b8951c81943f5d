package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// resultLimit is the size up to which a result is read.
const resultLimit = receipt.Limit

// badFilesError lists what cannot be joined, so that one run tells all of it.
type badFilesError struct {
	Bad   []badFile
	Files int
}

type badFile struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

func (e *badFilesError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %s cannot be joined:", len(e.Bad), report.Count(e.Files, "file"))
	for _, f := range e.Bad {
		fmt.Fprintf(&b, "\n  %s: %s", f.File, f.Why)
	}
	return b.String()
}

// ExitCode is exit.Usage.
func (e *badFilesError) ExitCode() int { return exit.Usage }

// Hint says how to go on without them.
func (e *badFilesError) Hint() string {
	return "leave them out, or leave them to --skip-bad, which tells them and joins the others"
}

// runReport joins the results of a matrix.
func runReport(a *app, _ context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) == 0 {
		return &usageError{"report needs the files of results", "gpubuild report results/*.json results/*.xml --html report.html"}
	}
	files, err := a.resultFiles(l.Positional)
	if err != nil {
		return err
	}
	told := []report.Observation{}
	var expected []string
	bad := []badFile{}
	for _, f := range files {
		list, rows, err := a.observe(f)
		if err != nil {
			bad = append(bad, badFile{f, err.Error()})
			continue
		}
		told, expected = append(told, list...), append(expected, rows...)
	}
	if len(bad) > 0 && (!o.SkipBad || len(told) == 0) {
		return &badFilesError{bad, len(files)}
	}
	for _, f := range bad {
		a.Shell.Warning("%s: %s; left out", f.File, f.Why)
	}
	if len(told) == 0 && len(expected) == 0 {
		return &usageError{"there is no result in " + strings.Join(l.Positional, ", "), "give the files that --gpu-receipt, --gpu-json, --gpu-junit and `prove --receipt` wrote, or their directory"}
	}
	rows := report.Join(told, expected)
	if o.HTML != "" {
		page, err := report.HTML(rows, len(files)-len(bad), version.Number())
		if err != nil {
			return err
		}
		if err := a.writeFile(o.HTML, page); err != nil {
			return err
		}
		a.Shell.Status("Reported", "%s in %s", report.Count(len(rows), "row"), a.Shown(a.Host.Abs(o.HTML)))
	}
	if err := a.answer(o, "report", true, nil, struct {
		Rows []report.Row `json:"rows"`
		Bad  []badFile    `json:"bad"`
	}{rows, bad}); err != nil {
		return err
	}
	if o.HTML == "" && o.JSON == nil {
		_, err = fmt.Fprint(a.Shell.Out, report.Table(rows))
	}
	return err
}

// resultFiles are the files of a command line; of a directory every .json and .xml below it.
func (a *app) resultFiles(words []string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	add := func(shown string) {
		if abs := a.Host.Clean(a.Host.Abs(shown)); !seen[abs] {
			seen[abs] = true
			out = append(out, shown)
		}
	}
	for _, w := range words {
		fi, err := os.Stat(a.Host.Abs(w))
		switch {
		case err != nil:
			return nil, &usageError{fmt.Sprintf("%s cannot be read: %v", w, reasonOf(err)), "give files that are there, or their directory"}
		case !fi.IsDir():
			add(w)
			continue
		}
		var below []string
		err = filepath.WalkDir(a.Host.Abs(w), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if ext := strings.ToLower(filepath.Ext(path)); d.Type().IsRegular() && (ext == ".json" || ext == ".xml") {
				below = append(below, path)
			}
			return nil
		})
		if err != nil {
			return nil, &usageError{fmt.Sprintf("%s cannot be read: %v", w, reasonOf(err)), "give files that you may read"}
		}
		sort.Strings(below)
		for _, p := range below {
			add(a.Shown(p))
		}
	}
	return out, nil
}

// reasonOf is an error of the file system without the path, which its reader has in front of him.
func reasonOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// observe reads what one file says; or which rows a matrix has.
func (a *app) observe(file string) ([]report.Observation, []string, error) {
	data, err := a.Host.ReadFile(a.Host.Abs(file), resultLimit)
	if err != nil {
		return nil, nil, err
	}
	if rows, ok := report.Expected(data); ok {
		return nil, rows, nil
	}
	weight := report.ByJUnit
	if json.Valid(data) {
		weight = report.ByAnswer
	}
	list, err := report.Read(data, func(schema string, data []byte) ([]report.Result, bool, error) {
		if !strings.HasPrefix(schema, receipt.Family) {
			return nil, false, nil
		}
		weight = report.ByReceipt
		r, err := receipt.Decode(data)
		if err != nil {
			return nil, true, err
		}
		one, err := a.resultOf(r)
		return []report.Result{one}, true, err
	})
	if err != nil {
		return nil, nil, err
	}
	out := make([]report.Observation, 0, len(list))
	for _, r := range list {
		out = append(out, report.Observation{File: file, Weight: weight, Result: r})
	}
	return out, nil, nil
}

// resultOf makes the result of a receipt. A proof in it counts only as far as its own evidence, judged again, comes to it: a verdict that somebody
// wrote there is none.
func (a *app) resultOf(r receipt.Receipt) (report.Result, error) {
	if !r.Whole() {
		return report.Result{}, &report.FormatError{Why: "this receipt was changed after it was written: its sum does not fit"}
	}
	var out report.Result
	if len(r.Result) == 0 {
		// Of a gpubuild that wrote no result into it: neither the row nor the time is known.
		out = report.Result{Verb: "prove", Gpubuild: r.Gpubuild, Command: r.Command}
	} else {
		list, err := report.Read(r.Result, nil)
		if err != nil {
			return out, err
		}
		out = list[0]
	}
	for i := range out.Programs {
		out.Programs[i].Proof = nil // as the receipts say, and no other way
	}
	for _, one := range append([]receipt.Receipt{r}, r.More...) {
		if !one.Evidence.Ran {
			continue
		}
		p := proofResult(proof{Verdict: one.Verdict, Evidence: one.Evidence})
		if wrong := one.Holds(a.realFor(one.Evidence)); len(wrong) > 0 && one.Verdict.Kind == verify.Proved {
			p = &report.Proof{Verdict: report.Unproved, Why: "the receipt does not hold: " + wrong[0], Lines: p.Lines}
		}
		name := pathBase(one.Binary.Path)
		found := false
		for i := range out.Programs {
			if out.Programs[i].Proof == nil && pathBase(out.Programs[i].Path) == name {
				out.Programs[i].Proof, found = p, true
				break
			}
		}
		if !found {
			out.Programs = append(out.Programs, report.Program{Name: name, Path: one.Binary.Path, Code: one.Binary.Code, Proof: p})
		}
	}
	return out, nil
}

// pathBase is the last name of a path of either system: a receipt may be of another than this.
func pathBase(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
