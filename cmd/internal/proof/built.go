package proof

import (
	"cmp"
	"context"
	"fmt"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
)

// Request is a build whose programs are to be proven.
type Request struct {
	Session  *session.Session
	Options  Options
	Given    Given
	Tool     cargo.Tool
	Nextest  *cargo.Line // what was typed, where the session's line is the `cargo test` that builds the same
	Programs []cargorun.Program
	Targets  []cargorun.Target // of the workspace; needed only where the configuration marks programs
	Toolkit  *cuda.Toolkit     // of the build
	Env      buildenv.Env      // in which a program starts
}

// Result is what the programs of a build showed.
type Result struct {
	Proofs    []Proof
	NotProven string    // why a proof that was asked for was not made
	Missed    []string  // what the configuration marks and this run left out
	Ending    *Ending   // nil: no program was run
	Coverage  *Coverage // nil: not asked for, or nothing ran
}

// Chosen is the one program that a build made, or of several the one that the [prove] table names; nil: it is not clear which.
func Chosen(programs []cargorun.Program, want *config.Prove) *cargorun.Program {
	var p *cargorun.Program
	for i := range programs {
		if k := programs[i].Kind; k == "bin" || k == "example" {
			if want != nil && (want.Bin != "" && want.Bin != programs[i].Name || !want.Covers(programs[i].Package)) {
				continue
			}
			if p != nil {
				return nil
			}
			p = &programs[i]
		}
	}
	return p
}

// whyNone says why no program of the build could be taken for the one to be proven.
func whyNone(programs []cargorun.Program, want *config.Prove) string {
	switch {
	case len(programs) == 0:
		return "the build made no program; choose one with --bin"
	case want != nil && want.Bin != "":
		return fmt.Sprintf("the build made no program %s, which the [prove] table names", want.Bin)
	}
	return "the build made several programs; choose one with --bin, or with bin in the [prove] table"
}

// Built is the end of `build`: the proof where it is asked for, else a line
// that says how. The error is an exit.Code where everything was said.
func Built(ctx context.Context, r Request) (Result, error) {
	m, o, want := r.Session.Machine, r.Options, r.table()
	p := Chosen(r.Programs, want)
	args := o.Args
	if want != nil && len(args) == 0 {
		args = want.Args
	}
	switch {
	case len(r.Programs) == 0 && !o.Wanted && !o.Required:
		return Result{}, nil // a library: there is nothing to run
	case p == nil && (o.Wanted || o.Required || want != nil):
		why := whyNone(r.Programs, want)
		m.Shell.Alert("Not proven:", "%s", why)
		if !o.Wanted && !o.Required && want.Bin != "" { // the workspace has it: another member was built
			return Result{NotProven: why}, nil
		}
		// A proof was asked for and there is none: that must not end as success does.
		return Result{NotProven: why}, exit.Code(exit.Unproved)
	case p == nil:
		m.Shell.Status("Not proven:", "nothing was run; prove a program with `gpubuild prove BIN -- ARGS`")
		return Result{}, nil
	}
	words := []string{"gpubuild", "prove", m.Shown(p.Path)}
	if len(args) > 0 {
		words = append(append(words, "--"), args...)
	}
	how := buildenv.Words(m.Host.OS, words...)
	if !o.Wanted && !o.Required && want == nil {
		m.Shell.Status("Not proven:", "nothing was run. To prove it, run: %s", how)
		return Result{}, nil
	}
	if !r.underProbe(ctx) {
		m.Shell.Alert("Not proven:", "no GPU here. On a GPU machine, run: %s", how)
		var err error
		if o.Demanded() {
			err = exit.Code(exit.Unproved)
		}
		return Result{NotProven: "no GPU here"}, err
	}
	return r.proveBuilt(ctx, p, args)
}

// proveBuilt runs the program of a build under the probe.
func (r Request) proveBuilt(ctx context.Context, p *cargorun.Program, args []string) (Result, error) {
	m, t := r.Session.Machine, r.task(p.Path)
	t.Args = args
	got, err := r.Options.proveFile(ctx, m, t, start{verb: r.Session.Line.Verb, given: r.Given, toolkit: r.Toolkit, env: r.Env,
		stdout: m.Shell.Out})
	if got.Proof.Program == "" {
		return Result{}, err
	}
	return Result{Proofs: []Proof{got.Proof}, Ending: got.Ending}, cmp.Or(err, got.Outcome)
}
