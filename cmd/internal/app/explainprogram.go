package app

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/proof"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/explain"
)

// explainProgram says after a program's own words, and after the verdict, what its failure means, if that is known: by its words where we heard them,
// else by its exit status and what we found ourselves.
func (a *app) explainProgram(ctx context.Context, e proof.Ending, lookAt func([]explain.Found) situation) []finding.Finding {
	if e.Heard.Rules == nil || e.Code == 0 && !e.OnCPU {
		return nil
	}
	answer, heard := e.Heard.Answer(a.Host)
	by := ""
	if e.Code == 127 && !answer.Known() && len(e.Missing) > 0 {
		// What glibc's ld.so would have written (elf/dl-load.c); that it ends with 127 is its own, too (elf/rtld.c).
		own := explain.NewWatcher(e.Heard.Rules)
		for _, lib := range e.Missing {
			_, _ = fmt.Fprintf(own, "%s: error while loading shared libraries: %s: cannot open shared object file: No such file or directory\n", e.Program, lib)
		}
		answer, by = own.Answer(), "exit status 127, and "+strings.Join(e.Missing, ", ")+" is found nowhere that the loader of "+e.Program+" looks"
	}
	if answer.Known() {
		f := answer.Found[0]
		words := lookAt(answer.Found[:1]).words(f)
		if by == "" {
			by = f.Text
		}
		a.tellCause(by, answer, words)
		return []finding.Finding{causeFinding(f, words)}
	}
	if e.Code == 0 {
		return nil
	}
	if why := a.uncovered(ctx, e.Program); why != "" {
		a.Shell.Loud("Explaining", "%s may have failed because its device code does not run here: %s", e.Program, why)
		return nil
	}
	if heard && e.Signal != "" && e.Verb == "run" { // of a test cargo says it
		a.Shell.Error("%s%s", e.Program, cargorun.Ended(e.Code))
	}
	if heard || !telling(e) {
		return nil
	}
	a.Shell.Note("%s%s; gpubuild leaves a program's terminal alone: with 2>&1 | gpubuild explain - behind the command its words are looked at", e.Program, cargorun.Ended(e.Code))
	return nil
}

// telling says whether an exit status is worth a word where nothing was heard: a test that fails says itself what was wrong.
func telling(e proof.Ending) bool {
	return e.Verb != "test" && e.Verb != "bench" || e.Code == 127 || e.Code > 128
}

// uncovered says why no device here runs what a file holds; empty when one does, or when nothing is known.
func (a *app) uncovered(ctx context.Context, path string) string {
	r, err := a.scan(a.Host.Abs(path))
	if err != nil || len(r.Images) == 0 {
		return ""
	}
	d, devices, _ := driver.Inventory(ctx, a.Host, a.Runner, a.Self)
	why := ""
	for _, dev := range devices {
		c := fatbin.Coverage(r.Images, dev.Capability, d.CUDA)
		if c.Runs || dev.Capability.IsZero() {
			return ""
		}
		why = dev.Name + ": " + c.Why
	}
	return why
}

// tellCause words the first cause of an answer; by is what it was known by.
func (a *app) tellCause(by string, answer explain.Answer, words explain.Words) {
	f := answer.Found[0]
	a.Shell.Loud("Explaining", "%s", by)
	a.Shell.Loud("", "%s [%s]", words.Cause, f.ID)
	if len(words.Here) > 0 {
		a.Shell.Loud("", "here: %s", strings.Join(words.Here, "; "))
	}
	if len(f.Source) > 0 {
		a.Shell.Detail("source: %s", strings.Join(f.Source, "\n"+strings.Repeat(" ", 13)+"source: "))
	}
	for _, more := range answer.Found[1:] {
		if more.Kind == explain.Cause {
			a.Shell.Loud("", "also possible: %s (gpubuild explain %s)", more.Text, more.ID)
		}
	}
	fix := words.Fix
	if words.Command != "" {
		fix += "\n      " + words.Command
	}
	a.Shell.Hint(fix)
}

// causeFinding is a cause as machines read it.
func causeFinding(f explain.Found, words explain.Words) finding.Finding {
	fix := words.Fix
	if words.Command != "" {
		fix += "\n" + words.Command
	}
	severity := finding.Error
	if f.Kind == explain.Note {
		severity = finding.Note
	}
	return finding.Finding{ID: "explain." + f.ID, Severity: severity, Message: sentence(words), Line: f.Line, Fix: fix, Evidence: f.Text}
}
