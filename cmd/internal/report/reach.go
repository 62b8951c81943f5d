package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// FeaturesOf is the part of a result that says what the features enable. asked are the features of the command line.
func FeaturesOf(a *features.Reach, asked []string) *Features {
	if a == nil {
		return nil
	}
	f := &Features{Asked: askedFeatures(a, asked), Via: a.Via, Stops: a.Stops, Roots: []Root{}}
	for _, r := range a.Roots {
		on, anyway, off := onOff(r, false)
		on = slices.Sorted(slices.Values(slices.Concat(on, anyway)))
		f.Roots = append(f.Roots, Root{
			Package: r.Package, Target: r.Target, Kind: r.Kind, Reached: r.Reached, On: append([]string{}, on...),
			Off: append([]string{}, off...), Backends: r.Backends(),
		})
	}
	return f
}

// askedFeatures are those of the command line, or else the GPU features that are on in the roots.
func askedFeatures(a *features.Reach, typed []string) []string {
	names := strings.FieldsFunc(strings.Join(typed, ","), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		for _, r := range a.Roots {
			names = append(names, r.Asked...)
		}
	}
	return append([]string{}, manifest.Union(names)...)
}

// ReachLines says in one line for each root which GPU crates it links: those that are on, and those that are off. Programs of a package of
// which the same is true share a line, and a library whose line is that of its own package's programs is left out.
func ReachLines(a *features.Reach, source bool) []string {
	lines, at, seen := []string{}, map[string]int{}, map[string]bool{}
	for _, program := range []bool{true, false} {
		for _, r := range a.Roots {
			if (r.Kind == "bin") != program {
				continue
			}
			says := reachLine(r)
			if source {
				says += " (" + a.Via + ")"
			}
			name := cmp.Or(r.Target, r.Package)
			if !program && r.Kind != "" {
				name = r.Kind + " " + r.Target
			}
			if r.For != "" {
				name += " for " + r.For
			}
			key, end := r.Package+r.For+says, ": "+says
			if i, known := at[key]; !known {
				at[key], lines = len(lines), append(lines, name+end)
			} else if program && !seen[key+name] {
				lines[i] = strings.TrimSuffix(lines[i], end) + ", " + name + end
			}
			seen[key+name] = true
		}
	}
	return lines
}

// Ways says how the request turned each GPU crate on.
func Ways(a *features.Reach) (lines []string) {
	for _, r := range a.Roots {
		for _, c := range r.Crates {
			var steps []string
			for _, s := range c.Steps {
				steps = append(steps, s.Text)
			}
			if line := strings.Join(steps, " → "); line != "" && !slices.Contains(lines, line) && c.Backend != "own" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// onOff lists the GPU crates of a root: those that the request turns on, those that are on without it, and those that are linked without
// their GPU code. backends adds to those that are on for which GPU.
func onOff(r features.Root, backends bool) (on, anyway, off []string) {
	for _, c := range r.Crates {
		name := c.Name + " " + c.Version
		switch {
		case c.Backend == "own":
		case c.On && c.Backend != "none":
			if backends && c.Backend != "unknown" {
				name += " (" + strings.ReplaceAll(c.Backend, ",", ", ") + ")"
			}
			if c.Anyway {
				anyway = append(anyway, name)
			} else {
				on = append(on, name)
			}
		case !c.On && c.Backend != "none":
			off = append(off, name)
		}
	}
	slices.Sort(on)
	slices.Sort(anyway)
	slices.Sort(off)
	return on, anyway, off
}

func reachLine(r features.Root) string {
	backends := r.Backends()
	others := slices.ContainsFunc(backends, func(b string) bool { return b != "cuda" && b != "cpu" })
	on, anyway, off := onOff(r, others)
	list := slices.DeleteFunc(slices.Clone(r.Asked), func(f string) bool { return slices.Contains(r.Ineffective, f) })
	if len(on) == 0 || len(list) == 0 {
		list = r.Asked
	}
	if len(list) == 0 {
		list = r.Named
	}
	if r.Other != "" {
		off = r.OtherOff
	}
	is := func(role string) func(string) bool {
		return func(name string) bool {
			return slices.ContainsFunc(r.Crates, func(c features.CrateState) bool { return c.Role == role && strings.HasPrefix(name, c.Name+" ") })
		}
	}
	if len(off) > 0 { // what a binding links is no answer to that
		anyway = slices.DeleteFunc(anyway, is(catalog.Binding))
	}
	asked, enable, nothing := strings.Join(list, ", "), "enables", "switches on nothing"
	if len(list) > 1 {
		enable, nothing = "enable", "switch on nothing"
	}
	var line string
	switch {
	case len(list) == 0 && len(on)+len(anyway) > 0:
		line = "no GPU feature is requested; linked with GPU code: " + some(slices.Sorted(slices.Values(slices.Concat(on, anyway))))
		anyway = nil
	case len(list) == 0:
		line = "no GPU feature is requested"
	case len(on) > 0:
		line = asked + " " + enable + " " + some(on)
	case len(off) > 0:
		line = asked + " " + nothing
	default:
		line = asked + " " + enable + " no GPU crate that gpubuild knows"
	}
	if len(anyway) > 0 {
		line += "; also linked with GPU code: " + some(anyway)
	}
	if others && !slices.Contains(backends, "cuda") && strings.Contains(asked, "cud") {
		line += ", and no CUDA"
	}
	without := "CUDA"
	if !slices.ContainsFunc(r.Crates, func(c features.CrateState) bool { return !c.On && c.Backend == "cuda" }) {
		without = "a backend"
	}
	if r.Other != "" {
		without = r.Other
	}
	switch off = slices.DeleteFunc(off, is(catalog.ByFile)); {
	case len(off) > 1:
		line += "; " + some(off) + " are built without " + without
	case len(off) > 0:
		line += "; " + off[0] + " is built without " + without
	}
	return line
}

// some names the first of a list: the rest is in the table of `features --verbose`.
func some(names []string) string {
	const most = 5
	if len(names) > most+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// ReachResult is what one of our own verbs says of the features.
func ReachResult(verb, project, name string, a *features.Reach, asked []string, found []finding.Finding) Result {
	c := Check{ID: CheckReach, State: Passed, Message: strings.Join(ReachLines(a, false), "; ")}
	if a.Stops {
		c.State = Failed
		if i := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Severity == finding.Error }); i >= 0 {
			c.Message = found[i].Message
		}
	}
	return Result{Verb: verb, Project: project, Name: name, Features: FeaturesOf(a, asked), Findings: found, Checks: []Check{c}}
}

// WhyText words how crates were linked, and features turned on.
func WhyText(m *session.Machine, reasons []graph.Reason) string {
	var b strings.Builder
	for _, r := range reasons {
		switch {
		case r.Feature == "":
			fmt.Fprintf(&b, "%s: %s %s is linked, with %s\n", r.Root, r.Crate, r.Version,
				cmp.Or(strings.Join(r.Features, ", "), "no feature"))
		case r.On:
			fmt.Fprintf(&b, "%s: %s %s has `%s`\n", r.Root, r.Crate, r.Version, r.Feature)
		default:
			fmt.Fprintf(&b, "%s: %s %s has no `%s` here\n", r.Root, r.Crate, r.Version, r.Feature)
		}
		for i, s := range r.Steps {
			place := ""
			if s.Line > 0 {
				place = fmt.Sprintf("  (%s:%d)", m.Shown(s.Manifest), s.Line)
			}
			fmt.Fprintf(&b, "  %s%s%s\n", strings.Repeat("→ ", min(i, 1)), s.Text, place)
		}
	}
	return b.String()
}
