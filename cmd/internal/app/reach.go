package app

import (
	"context"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/report"
)

// judge has features judge cargo's answer.
func (j *journey) judge() error {
	judged, err := featurecheck.Judge(j.session.With(j.Line), j.Tool, j.graph, j.options.Strict)
	if err != nil {
		return err
	}
	j.checked, j.reach, j.findings = judged, judged.Answer, append(j.findings, judged.Findings()...)
	return nil
}

// checkReach says whether the features arrive, and stops where they do not.
func (j *journey) checkReach() error {
	if err := j.judge(); err != nil {
		return err
	}
	for _, line := range report.ReachLines(j.reach) {
		j.Shell.Status("Resolving", "%s", line)
	}
	if j.graph.Reason != "" {
		j.Shell.Note("features are from `cargo tree`: %s", j.graph.Reason)
	}
	for _, w := range j.reach.Paths {
		j.Shell.Detail("%s", report.PathLine(w))
	}
	for _, f := range j.findings {
		j.Shell.Finding(f)
	}
	if !j.reach.Stops {
		return nil
	}
	if j.options.AllowUnreached {
		j.Shell.Loud("Warning", "a feature does not reach its GPU crates; building all the same, as --gpu-allow-unreached says")
		return nil
	}
	return exit.Code(exit.Unreached)
}

// hintRoute names, where a build stops, the command line that would reach, if a few questions find one.
func (j *journey) hintRoute(ctx context.Context) {
	if f, ok := featurecheck.HintRoute(ctx, j.checked); ok {
		j.findings = append(j.findings, f)
		j.Shell.Hint("without a change to a manifest, cargo says that this reaches: " + f.Fix)
	}
}
