package app

import (
	"context"
	"errors"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/cmd/internal/proof"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cuda"
)

// proof is what the command line asks of a proof.
func (o Options) proof() proof.Options {
	return proof.Options{
		Wanted: o.Prove, Args: o.ProveArgs, Required: o.RequireProof, Kernel: o.Kernel, ExpectExit: o.ExpectExit, ExpectCPU: o.ExpectCPU, Min: o.Min,
		Device: o.Device, Child: o.Child, Counterfactual: o.Counterfactual, Timeout: o.Timeout, Probe: o.Probe, CUPTI: o.CUPTI, Receipt: o.Receipt != "",
		Trace: o.Trace,
	}
}

func (j *journey) proofRequest() proof.Request {
	r := proof.Request{
		Session: j.session.With(j.Line), Options: j.options.proof(), Tool: j.Tool, Nextest: j.nextest, Programs: j.programs, Targets: j.workspace,
		Toolkit: j.Set.Toolkit, Env: j.RunEnv,
	}
	if j.Line.WantsJSON() {
		r.Stream = j.stream()
	}
	return r
}

// showed notes what programs showed.
func (j *journey) showed(r proof.Result) {
	for _, p := range r.Proofs {
		j.noteProof(p)
	}
	j.notProven, j.missed = r.NotProven, r.Missed
}

// scanPrograms shows what device code each program holds.
func (j *journey) scanPrograms() error {
	cpuOnly, err := proof.ScanBuilt(j.Machine, j.Line, j.programs)
	if err != nil || !cpuOnly {
		return err
	}
	stops := j.options.Strict && !j.options.AllowUnreached
	severity := map[bool]string{true: finding.Error, false: finding.Warning}[stops]
	found, ok := proof.NoDeviceCode(j.Machine, j.reach, severity)
	if !ok {
		return nil
	}
	j.findings = append(j.findings, found)
	j.Shell.Finding(found)
	if stops {
		return exit.Code(exit.Unreached)
	}
	return nil
}

// proveBuilt is the end of `build`: the proof where it is asked for, else a line that says how.
func (j *journey) proveBuilt(ctx context.Context) error {
	r, err := proof.Built(ctx, j.proofRequest())
	j.showed(r)
	if r.Ending != nil {
		j.findings = append(j.findings, diagnose.Program(ctx, j.Machine, *r.Ending, j.diagnosis().Here)...)
	}
	return err
}

// runProven starts what was built, and explains a failure of it.
func (j *journey) runProven(ctx context.Context) error {
	r, err := proof.Run(ctx, j.proofRequest())
	j.showed(r)
	if r.Ending != nil {
		diagnose.Program(ctx, j.Machine, *r.Ending, j.diagnosis().Here)
	}
	return err
}

// auditBuilt is `build --gpu-audit`: the program that the build made, on drivers that fail.
func (j *journey) auditBuilt(ctx context.Context) error {
	r, err := proof.AuditBuilt(ctx, j.proofRequest(), j.options.AuditArgs)
	j.audited, j.auditedProgram = r.Modes, r.Program
	j.findings = append(j.findings, r.Findings...)
	return err
}

// checkMarks refuses a mark that no target of the workspace has.
func (j *journey) checkMarks(ctx context.Context) error {
	marks := proof.Marks(j.session.With(j.Line))
	if marks == nil {
		return nil
	}
	var err error
	if j.workspace, err = cargorun.Targets(ctx, j.Machine, j.Tool, j.Line); err != nil {
		return err
	}
	return proof.CheckMarks(marks, j.workspace)
}

// marked says whether a program must use the GPU.
func (j *journey) marked(p cargorun.Program) bool { return proof.Marked(j.session.With(j.Line), p) }

// marks are the table of the configuration that says which programs of this verb must use the GPU; nil: none does.
func (j *journey) marks() *config.Marked {
	if j.session == nil {
		return nil
	}
	return proof.Marks(j.session.With(j.Line))
}

func (a *app) scan(path string) (*fatbin.Report, error)    { return proof.Scan(a.Machine, path) }
func (a *app) toolkits(first *cuda.Toolkit) []cuda.Toolkit { return proof.Toolkits(a.Machine, first) }
func (a *app) libraryDirs(toolkits []cuda.Toolkit) []string {
	return proof.LibraryDirs(a.Machine, toolkits)
}
func isInterrupted(err error) bool { return errors.Is(err, context.Canceled) }
