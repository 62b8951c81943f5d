package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	Options
	Prove bool   // what the machine is to be good for: proofs, too
	Save  string // the file to write the machine into
}

func doctorVerb() verb {
	var o doctorOptions
	var goal string
	return verb{
		name: "doctor", usage: "check this machine and this project, part by part",
		text: "gpubuild doctor --for prove\n\n" +
			"Every check has a stable id. Ends 11 when a part is missing, 12 when parts do not fit.",
		project: true,
		results: &o.Options,
		flags: slices.Concat(
			toolFlags(&o.Options),
			shared(&o.Options, "backend"),
			[]*flag{
				choice("for", "build|prove", "what the machine is to be good for", &goal, "build", "prove"),
				text("save", "FILE", "write what was looked at on this machine, for a bug report: no project, no secrets, no user name; "+
					"look at it before you send it", &o.Save),
			},
			resultFlags(&o.Options),
		),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			o.Prove = goal == "prove"
			return runDoctor(ctx, a, o, l)
		},
	}
}

func runDoctor(ctx context.Context, a *invocation, o doctorOptions, l cargo.Line) error {
	m := a.Machine
	m.SpeakLike(l)
	var recording *doctor.Recording
	if o.Save != "" {
		var err error
		if m, recording, err = doctor.Record(a.Machine, o.Save); err != nil {
			return err
		}
	}
	wanted := tools.Options{Toolkit: o.Toolkit, Arch: o.Arch, CCBin: o.CCBin, Backend: o.Backend}
	facts, err := doctor.Gather(ctx, m, l, doctor.Options{Tools: wanted, Prove: o.Prove})
	if err != nil {
		return err
	}
	facts.TryCache()
	checks := doctor.Run(facts)
	if recording != nil {
		if err := recording.Write(checks); err != nil {
			return err
		}
	}
	if o.JSON == nil {
		if _, err := fmt.Fprint(a.Shell.Out, doctor.Text(checks)); err != nil {
			return err
		}
	}
	var end error
	switch doctor.Worst(checks) {
	case doctor.Missing:
		end = exit.Code(exit.Missing)
	case doctor.Misfit:
		end = exit.Code(exit.Misfit)
	}
	r := report.Result{Verb: "doctor", Project: facts.Project, Findings: doctor.Findings(checks)}
	for _, c := range checks {
		state := map[doctor.State]string{doctor.Missing: report.Failed, doctor.Misfit: report.Failed, doctor.Info: report.Skipped}[c.State]
		r.Checks = append(r.Checks, report.Check{ID: c.ID, State: cmp.Or(state, report.Passed), Message: c.Says, Detail: c.Fix})
	}
	return a.end(o.Options, end, r, struct {
		Checks []doctor.Check `json:"checks"`
	}{checks})
}
