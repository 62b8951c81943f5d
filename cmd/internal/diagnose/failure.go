package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/proof"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// Build says after cargo's own output what the cause of a failed build is, if it is known. What is unknown needs no words: cargo said it.
func Build(ctx context.Context, built cargorun.Built, c Collected) (finding.Finding, bool) {
	m, match := c.Machine, built.Match
	if !match.Known() {
		if built.Unread {
			m.Shell.Note("gpubuild did not read along on this terminal; to look for a known cause, add 2>&1 | gpubuild explain")
		}
		return finding.Finding{}, false
	}
	return c.print(ctx, match.Found[0].Text, match), true
}

// Program says after a program's own output, and after the verdict, what its failure means, if that is known: by its output where that
// could be read, else by its exit status and what gpubuild found itself.
func Program(ctx context.Context, e proof.Ending, c Collected) []finding.Finding {
	m := c.Machine
	if e.Code == 0 && !e.OnCPU {
		return nil
	}
	rules, err := explain.Default() // 30 ms, which a program that went well does not cost
	if err != nil {
		m.Shell.Detail("failures are not explained: %v", err)
		return nil
	}
	rules = rules.OfPrograms()
	match, heard := e.Heard.Match(rules)
	by := ""
	if e.Code == 127 && !match.Known() && len(e.Missing) > 0 {
		// What glibc's ld.so would have written (elf/dl-load.c); that it ends with 127 is its own, too (elf/rtld.c).
		own := &explain.Tail{}
		for _, lib := range e.Missing {
			_, _ = fmt.Fprintf(own, "%s: error while loading shared libraries: %s: "+
				"cannot open shared object file: No such file or directory\n", e.Program, lib)
		}
		match = own.Match(rules)
		by = "exit status 127, and " + strings.Join(e.Missing, ", ") + " is found nowhere that the loader of " + e.Program + " looks"
	}
	if match.Known() {
		return []finding.Finding{c.print(ctx, cmp.Or(by, match.Found[0].Text), match)}
	}
	if e.Code == 0 {
		return nil
	}
	if heard && e.Signal != "" && cargo.PurposeOf(e.Verb) == cargo.Runs { // of a test cargo says it
		m.Shell.Error("%s%s", e.Program, cargorun.Ended(e.Code))
	}
	if heard || !telling(e) {
		return nil
	}
	m.Shell.Note("%s%s; gpubuild leaves a program's terminal alone: with 2>&1 | gpubuild explain - behind the command its words are looked at",
		e.Program, cargorun.Ended(e.Code))
	return nil
}

// telling reports whether an exit status is worth a word where nothing was heard: a test that fails says itself what was wrong.
func telling(e proof.Ending) bool {
	return cargo.PurposeOf(e.Verb) != cargo.Tests || e.Code == 127 || e.Code > 128
}

// print words the first cause of a match, with what is known here; by is what it was known by.
func (c Collected) print(ctx context.Context, by string, match explain.Match) finding.Finding {
	m, f := c.Machine, match.Found[0]
	words := c.here(ctx, f).words(f)
	m.Shell.Alert("Explaining", "%s", by)
	m.Shell.Alert("", "%s [%s]", words.Cause, f.ID)
	if len(words.Here) > 0 {
		m.Shell.Alert("", "here: %s", strings.Join(words.Here, "; "))
	}
	if len(f.Source) > 0 {
		m.Shell.Detail("source: %s", strings.Join(f.Source, "\n"+strings.Repeat(" ", 13)+"source: "))
	}
	for _, more := range match.Found[1:] {
		if more.Kind == explain.Cause {
			m.Shell.Alert("", "also possible: %s (gpubuild explain %s)", more.Text, more.ID)
		}
	}
	out := causeFinding(f, words)
	m.Shell.Hint(strings.ReplaceAll(out.Fix, "\n", "\n      "))
	return out
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
