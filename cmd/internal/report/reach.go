package report

import (
	"cmp"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/features"
)

// FeaturesOf is the part of a result that says what the features enable. asked are the features of the command line.
func FeaturesOf(a *features.Answer, asked []string) *Features {
	if a == nil {
		return nil
	}
	f := &Features{Asked: askedFeatures(a, asked), Via: a.Via, Stops: a.Stops, Roots: []Root{}}
	for _, r := range a.Roots {
		on, off := onOff(r)
		f.Roots = append(f.Roots, Root{
			Package: r.Package, Target: r.Target, Kind: r.Kind, Reached: r.Reached, On: append([]string{}, on...),
			Off: append([]string{}, off...),
		})
	}
	return f
}

// askedFeatures are those of the command line, or else the GPU features that are on in the roots.
func askedFeatures(a *features.Answer, typed []string) []string {
	out := []string{}
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, f := range typed {
		for _, name := range strings.FieldsFunc(f, func(r rune) bool { return r == ',' || r == ' ' }) {
			add(name)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, r := range a.Roots {
		for _, name := range r.Asked {
			add(name)
		}
	}
	return out
}

// ReachLines says in one line for each root which GPU crates it links: those that are on, and those that are off. A library whose line is
// that of its own package's program is left out.
func ReachLines(a *features.Answer) []string {
	lines, seen := []string{}, map[string]bool{}
	for _, program := range []bool{true, false} {
		for _, r := range a.Roots {
			if (r.Kind == "bin") != program {
				continue
			}
			says := reachLine(r) + " (" + a.Via + ")"
			if key := r.Package + says; !seen[key] {
				seen[key] = true
				name := cmp.Or(r.Target, r.Package) // cargo tree knows no targets
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
	slices.Sort(on)
	slices.Sort(off)
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

// ReachResult is what one of our own verbs says of the features. The manifest of s, its features and findings are known.
func ReachResult(s Stages) Result {
	state := map[bool]string{true: Failed, false: Passed}[s.Answer.Stops]
	return Result{
		Verb: s.Verb, Project: s.Manifest, Features: FeaturesOf(s.Answer, s.Asked), Findings: append([]finding.Finding{}, s.Findings...),
		Checks: []Check{{ID: CheckReach, State: state, Message: s.message(CheckReach, state)}},
	}
}
