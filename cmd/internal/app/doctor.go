package app

import (
	"cmp"
	"context"
	"fmt"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// DoctorOptions are the flags of doctor.
type DoctorOptions struct {
	Options
	Prove bool   // what the machine is to be good for: proofs, too
	Save  string // the file to write the machine into
}

func runDoctor(a *app, ctx context.Context, o DoctorOptions, l cargo.Line) error {
	looked := a
	var recording *doctor.Recording
	if o.Save != "" {
		m, r, err := doctor.Record(a.Machine, o.Save)
		if err != nil {
			return err
		}
		looked, recording = New(m, a.words), r
	}
	facts, err := doctor.Gather(ctx, looked.Machine, l, doctor.Options{Tools: toolOptions(o.Options), Prove: o.Prove},
		func(ctx context.Context) (doctor.Opened, error) {
			looked.speakLike(l)
			p, err := pipeline.Look(ctx, looked.Machine, l, o.Strict)
			if err != nil {
				return doctor.Opened{}, err
			}
			return doctor.Opened{Session: p.Features.Session, Graph: p.Features.Graph, Reach: p.Features.Answer}, nil
		})
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
