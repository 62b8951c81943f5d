// Package app walks from a feature to the verdict for cargo's verbs, and does what our own verbs do. Package cli reads the command line and calls it.
package app

import (
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// app is one run of gpubuild: the machine and the command line.
type app struct {
	*session.Machine
	words []string // the command line without the program's name
	typed []string // the words of the command line
	// sinkOfVerb is where the result of one of our own verbs goes, from when it is known
	sinkOfVerb *report.Sink
}

// speakLike takes over cargo's own flags for how loud and in what colour to speak.
func (a *app) speakLike(l cargo.Line) {
	a.Shell.Quiet = l.Quiet
	if v, ok := a.Host.Env.Lookup("CARGO_TERM_QUIET"); ok && v == "true" {
		a.Shell.Quiet = true
	}
	a.Shell.Verbose = l.Verbose > 0
	switch l.Color {
	case "always":
		a.Shell.Colour = true
	case "never":
		a.Shell.Colour = false
	}
}
