package cli

import (
	"cmp"
	"context"
	"slices"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	Tools   tools.Options
	Results report.Files
	Prove   bool // what the machine is to be good for: proofs, too
}

func doctorVerb() verb {
	var o doctorOptions
	var goal string
	return verb{
		Verb: help.Verb{
			Name: "doctor", Usage: "check this machine and this project, part by part", Project: true,
			Common:   []string{"toolkit", "for", "json"},
			Examples: []string{"gpubuild doctor", "gpubuild doctor --for prove"},
			Text:     "Exits with 11 if a part is missing, with 12 if parts do not work together. Every check has a stable id.",
		},
		results: &o.Results,
		flags: slices.Concat(toolFlags(&o.Tools, "--"),
			[]*flag{choice("for", "build|prove", "what the machine is to be used for", &goal, "build", "prove")}, resultFlags(&o.Results)),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			o.Prove = goal == "prove"
			return runDoctor(ctx, a, o, l)
		},
	}
}

// doctorAnswer is what --json writes.
type doctorAnswer struct {
	Checks []doctor.Check `json:"checks"`
}

func runDoctor(ctx context.Context, a *invocation, o doctorOptions, l cargo.Line) error {
	facts, err := doctor.Gather(ctx, a.Machine, l, doctor.Options{Tools: o.Tools, Prove: o.Prove})
	if err = cmp.Or(ctx.Err(), err); err != nil { // what is interrupted is not missing
		return err
	}
	facts.TryCache()
	checks := doctor.Run(facts)
	if o.Results.JSON == nil {
		text := doctor.Text(checks)
		if a.Shell.Quiet {
			text = doctor.Verdict(checks) + "\n"
		}
		if err := a.Shell.Page(text); err != nil {
			return err
		}
	}
	end := map[doctor.State]error{doctor.Missing: exit.Code(exit.Missing), doctor.Misfit: exit.Code(exit.Misfit)}[doctor.Worst(checks)]
	r := report.Result{Verb: "doctor", Project: facts.Project, Name: facts.ProjectName, Findings: doctor.Findings(checks)}
	for _, c := range checks {
		state := map[doctor.State]string{doctor.Missing: report.Failed, doctor.Misfit: report.Failed, doctor.Info: report.Skipped}[c.State]
		r.Checks = append(r.Checks, report.Check{ID: c.ID, State: cmp.Or(state, report.Passed), Message: c.Says, Detail: c.Fix})
	}
	return a.end(o.Results, end, r, doctorAnswer{Checks: checks})
}
