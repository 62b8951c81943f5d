package cli

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// invocation is one run of gpubuild: the machine and the command line.
type invocation struct {
	*session.Machine
	words   []string      // the command line without the program's name
	parts   []cargo.Part  // … as it was parsed; nil: it was not, or could not be
	outcome report.Report // what it came to
}

// reachEnd is how a verb about features ends.
func reachEnd(stops bool) error {
	if stops {
		return exit.Code(exit.Unreached)
	}
	return nil
}

// reachResult is what one of our own verbs says of the features.
func (a *invocation) reachResult(verb string, j reach.Judged) report.Result {
	p := j.Session.Project
	return report.ReachResult(verb, a.Shown(p.Manifest), p.Name(), j.Reach, j.Session.Line.Features, j.Findings())
}

// answer writes a verb's machine-readable answer where it was asked for.
func (a *invocation) answer(json *string, verb string, ok bool, findings []finding.Finding, fields any) error {
	return report.Answer(a.Machine, json, verb, ok, findings, fields)
}

// end is how one of our own verbs ends, with its result.
func (a *invocation) end(files report.Files, end error, r report.Result, fields any, receipts ...receipt.Receipt) error {
	a.outcome = report.Report{Collected: report.Collected{Result: r}, Files: files, Annotated: true, HasResult: true, Fields: fields,
		Receipts: func() ([]receipt.Receipt, error) { return receipts, nil }}
	return end
}

// keep keeps the command line of one of cargo's verbs, unless cargo refuses it.
func (a *invocation) keep(line cargo.Line) {
	if a.parts = line.Parts(); line.Refused() {
		a.parts = nil
	}
}

// keepParts keeps the command line of one of our own verbs, which is read as one of `build`.
func (a *invocation) keepParts(line cargo.Line, verb string) {
	a.parts = line.Parts()
	for i, p := range a.parts {
		if p.Kind == cargo.VerbPart {
			a.parts[i].Words = []string{verb}
		}
	}
}

// results are the flags that name a file for a result.
var results = []string{"--json", "--sarif", "--junit", "--receipt", "--html", "--coverage", "--statement"}

// checkFiles refuses a flag for a result whose file cannot be written, before anything is done, and a file that stands behind such a flag
// without =; words are the command line with these flags. What other flags name is read.
func (a *invocation) checkFiles(words []string, given []cargo.Own, inputs []string) error {
	inputs = slices.Clone(inputs)
	bare := func(o cargo.Own) string { return strings.Replace(o.Name, prefix, "--", 1) }
	for _, o := range given {
		if o.Value != "" && !slices.Contains(results, bare(o)) {
			inputs = append(inputs, o.Value)
		}
	}
	for i, o := range given {
		same := func(p cargo.Own) bool {
			return p.Name != o.Name && a.Host.Abs(p.Value) == a.Host.Abs(o.Value) && slices.Contains(results, bare(p))
		}
		err := a.CheckFile(o.Value, inputs...)
		switch name, at := bare(o), slices.Index(words, o.Name)+1; {
		case !slices.Contains(results, name):
		case o.HasValue && o.Value == "":
			return usage("`"+o.Name+"` has an empty value", "write "+o.Name+"=FILE")
		case o.Value != "" && !strings.HasPrefix(o.Value, "/dev/") && slices.ContainsFunc(given[:i], same):
			return usage(o.Name+": "+o.Value+" is named for another result, too", "name another file")
		case err != nil:
			return usage(o.Name+": "+err.Error(), exit.Hint(err))
		case name == "--json" && o.Value == "" && 0 < at && at < len(words) && strings.HasSuffix(words[at], ".json"):
			line := slices.Concat([]string{"gpubuild"}, words[:at-1], []string{o.Name + "=" + words[at]}, words[at+1:])
			return usage(fmt.Sprintf("%s takes no separate argument; write %s=FILE", o.Name, o.Name), buildenv.Words(a.Host.OS, line...))
		}
	}
	return nil
}

// usage is an error in our own part of the command line, and what to write instead.
func usage(what, fix string) error { return &exit.UsageError{What: what, Fix: fix} }
