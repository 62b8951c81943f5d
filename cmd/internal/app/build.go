package app

import (
	"context"
	"io"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/toolchain/cargo"
)

// build runs cargo with the user's own words, and says why it failed where that is known.
func (j *journey) build(ctx context.Context) error {
	out := cargorun.Output{Other: j.otherOut()}
	if j.Line.WantsJSON() {
		out.Stream = j.stream()
	}
	endedByItself := fresh.Begin(j.Machine, j.graph.Places)
	built, err := cargorun.Build(ctx, j.session.With(j.Line), j.Tool, out)
	if !built.Interrupted {
		endedByItself()
	}
	j.messages, j.compileErrors = built.Messages, built.CompileErrors
	j.explain(ctx, built) // which of the programs was built last says nothing about the failure
	j.programs = built.Programs
	return err
}

// explain says after cargo's own words what a failed build's cause is, if it is known. What is unknown needs no words: cargo said it.
func (j *journey) explain(ctx context.Context, built cargorun.Built) {
	answer := built.Answer
	if !answer.Known() {
		if built.Unread {
			j.Shell.Note("gpubuild did not read along on this terminal; to look for a known cause, add 2>&1 | gpubuild explain")
		}
		return
	}
	f := answer.Found[0]
	words := j.situation(ctx, answer.Found[:1]).words(f)
	finding := causeFinding(f, words)
	j.cause = &finding
	j.tellCause(f.Text, answer, words)
}

// stream is where cargo's messages go that the user asked for.
func (j *journey) stream() *cargorun.Stream {
	if j.passed == nil {
		j.passed = cargorun.NewStream(func(line []byte) { _ = j.ndjson().Whole(line) }) // a stdout that nobody reads is cargo's matter, too
	}
	return j.passed
}

// otherOut is where lines go that are no messages of cargo: stdout, where they may share a line's end with ours.
func (j *journey) otherOut() io.Writer {
	if l := j.ndjson(); l != nil {
		return l
	}
	return j.Shell.Out
}

// plainCargo runs cargo as the user called it, with the user's own streams.
func (a *app) plainCargo(ctx context.Context, l cargo.Line, env buildenv.Env) error {
	return cargorun.Plain(ctx, a.Machine, l, env)
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
