package app

import (
	"context"
	"io"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/diagnose"
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
	failed := j.diagnosis()
	failed.Programs = nil // which say nothing about a build that failed
	if cause, known := diagnose.Build(ctx, j.Machine, built, failed.Here); known {
		j.cause = &cause
	}
	j.programs = built.Programs
	return err
}

// diagnosis is what was found so far, for an explanation.
func (j *journey) diagnosis() diagnose.Stages {
	return diagnose.Stages{
		Machine: j.Machine, Typed: j.typed, Valued: takesValue, Facts: j.Facts, Set: j.Set, Answer: j.reach, Project: j.Project, Programs: j.programs,
	}
}

// takesValue says whether a flag on cargo's verbs takes the next argument as its value.
func takesValue(flag string) bool {
	f, ours := CargoFlag(strings.TrimPrefix(flag, ownPrefix))
	return ours && f.Kind == cargo.Value
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
