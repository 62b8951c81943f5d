package app

import (
	"sort"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/features"
	"gpubuild/features/catalog"
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
		j.findings = append(j.findings, finding.Finding{ID: f.ID, Severity: f.Severity, Message: f.Message, Path: j.Shown(f.Path), Line: f.Line, Fix: f.Fix, Evidence: f.Evidence})
	}
	return nil
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
	catalog, err := catalog.Default()
	if err != nil {
		return features.Input{}, err
	}
	return features.Input{
		Project: j.Project, Request: j.request(), Catalog: catalog, Strict: j.options.Strict, Graph: j.graph.Units, Tree: j.graph.Tree,
	}, nil
}

// checkReach says whether the features arrive, and stops where they do not.
func (j *journey) checkReach() error {
	if err := j.judge(); err != nil {
		return err
	}
	for _, line := range reachLines(j.reach) {
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

// reachLines words in one line for each root what of the GPU it links: the crates that are on, and those that are off. A library whose line is that of
// its own package's program is left out.
func reachLines(a *features.Answer) []string {
	lines, seen := []string{}, map[string]bool{}
	for _, program := range []bool{true, false} {
		for _, r := range a.Roots {
			if (r.Kind == "bin") != program {
				continue
			}
			says := reachLine(r) + " (" + a.Via + ")"
			if key := r.Package + says; !seen[key] {
				seen[key] = true
				name := orWord(r.Target, r.Package) // cargo tree knows no targets
				if !program && r.Kind != "" {
					name = r.Kind + " " + r.Target
				}
				lines = append(lines, name+": "+says)
			}
		}
	}
	return lines
}

// onOff lists the GPU crates of a root, those that are on and those that are linked without their GPU code.
func onOff(r features.Root) (on, off []string) {
	for _, c := range r.Crates {
		name := c.Name + " " + c.Version
		switch {
		case c.Backend == "own":
		case c.On && c.Backend != "none":
			on = append(on, name)
		case !c.On && (c.Backend != "none" || len(c.Wanted) > 0):
			off = append(off, name)
		}
	}
	sort.Strings(on)
	sort.Strings(off)
	return on, off
}

func reachLine(r features.Root) string {
	on, off := onOff(r)
	asked, reach := strings.Join(r.Asked, ", "), "reaches"
	switch len(r.Asked) {
	case 0:
		asked = "no GPU feature"
	case 1:
	default:
		reach = "reach"
	}
	var line string
	switch {
	case len(on) > 0:
		line = asked + " " + reach + " " + strings.Join(on, ", ")
	case len(off) > 0:
		line = asked + " " + reach + " no GPU crate"
	default:
		line = asked + ", and no GPU crate is linked"
	}
	if len(off) > 0 {
		line += "; without it: " + strings.Join(off, ", ")
	}
	return line
}

func pathLine(w graph.Why) string {
	line := strings.Join(w.Steps, " → ")
	if !w.Reached && w.End != "" {
		line += " ends: " + w.End
	}
	return line
}
