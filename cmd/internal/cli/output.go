package cli

import (
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// files are the places that the flags name for the result.
func (o Options) files() report.Files {
	return report.Files{JSON: o.JSON, SARIF: o.SARIF, JUnit: o.JUnit, Receipt: o.Receipt}
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

// answer writes a verb's machine-readable answer where it was asked for.
func (a *invocation) answer(o Options, verb string, ok bool, findings []finding.Finding, fields any) error {
	return report.Answer(a.Machine, o.JSON, verb, ok, findings, fields)
}

// verbSink is where the result of one of our own verbs goes.
func (a *invocation) verbSink(o Options) *report.Sink {
	if a.sinkOfVerb == nil {
		a.sinkOfVerb = report.NewSink(a.Machine, a.words, o.files(), false)
	}
	return a.sinkOfVerb
}

// end renders what one of our own verbs came to.
func (a *invocation) end(o Options, end error, r report.Result, fields any, receipts ...receipt.Receipt) error {
	return a.verbSink(o).FinishVerb(r, fields, receipts, end)
}

// endEarly renders an error of one of our own verbs that came before its answer.
func (a *invocation) endEarly(o Options, verb string, end error) error {
	return a.verbSink(o).FinishEarly(verb, end)
}
