package cli

import (
	"context"

	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// invocation is one run of gpubuild: the machine and the command line.
type invocation struct {
	*session.Machine
	words []string // the command line without the program's name
	typed []string // the words of the command line
	// sinkOfVerb is where the result of one of our own verbs goes, from when it is known
	sinkOfVerb *report.Sink
}

// newInvocation is a run on a machine; words are the command line without the program's name.
func newInvocation(m *session.Machine, words []string) *invocation {
	return &invocation{Machine: m, words: words}
}

// plain calls cargo as the user wrote it.
func (a *invocation) plain(ctx context.Context, l cargo.Line) error {
	return cargorun.Plain(ctx, a.Machine, l, a.Host.Env)
}

// ciStep is the process that a wrapper such as srun starts for a step of a row.
func (a *invocation) ciStep(ctx context.Context, words []string) error {
	return ci.Inside(ctx, a.Machine, ciParser(), words, func(err error) int { return console.Finish(a.Shell, err) })
}
