package app

import (
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
	"gpubuild/features"
	"gpubuild/features/graph"
)

// judge holds cargo's answer against the manifests.
func (j *journey) judge() error {
	reach, err := j.verdict()
	if err != nil {
		return err
	}
	j.reach = reach
	for _, f := range j.reach.Findings {
		j.findings = append(j.findings, j.placed(f.Finding))
	}
	return nil
}

// placed is a finding with its path as a person reads it.
func (j *journey) placed(f finding.Finding) finding.Finding {
	f.Path = j.Shown(f.Path)
	return f
}

func (j *journey) verdict() (*features.Answer, error) {
	in, err := j.heard()
	if err != nil {
		return nil, err
	}
	reach, err := features.Judge(j.Host, in)
	if err != nil {
		return nil, err
	}
	features.SameHint(j.Project, reach.Findings)
	return reach, nil
}

// heard is what cargo answered, in the words of features.
func (j *journey) heard() (features.Input, error) {
	return j.session.With(j.Line).Input(j.graph, j.options.Strict)
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
		j.Shell.Detail("%s", pathLine(w))
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

func pathLine(w graph.Why) string {
	line := strings.Join(w.Steps, " → ")
	if !w.Reached && w.End != "" {
		line += " ends: " + w.End
	}
	return line
}
