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

func (a *app) speakLike(l cargo.Line) { a.SpeakLike(l) }
