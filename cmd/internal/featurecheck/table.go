package featurecheck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/features"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// Table words an answer: for each root what is linked, the way of each feature, and what the build and the program need.
func Table(r *features.Reach) string {
	var b strings.Builder
	for i, root := range r.Roots {
		if i > 0 {
			b.WriteByte('\n')
		}
		target := ""
		if root.Target != "" {
			target = fmt.Sprintf(" (%s %s)", cmp.Or(root.Kind, "target"), root.Target)
		}
		if root.For != "" {
			target += " for " + root.For
		}
		fmt.Fprintf(&b, "%s %s%s, by %s\n", root.Package, root.Version, target, r.Via)
		for _, c := range root.Crates {
			backend := strings.Join(append([]string{c.Backend}, c.Also...), ",")
			fmt.Fprintf(&b, "  %-4s  %-28s %-8s %s\n", c.State, c.Name+" "+c.Version, backend, strings.Join(c.Features, ","))
			if c.Note != "" {
				fmt.Fprintf(&b, "        %s\n", c.Note)
			}
		}
	}
	for i, w := range r.Paths {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n", PathLine(w))
	}
	needs(&b, "\nto build:\n", r.Needs.Because)
	if !r.CudarcMax.IsZero() {
		fmt.Fprintf(&b, "  no CUDA newer than %s: %s stops with one\n", r.CudarcMax, r.MaxBy)
	}
	needs(&b, "\nto run:\n", r.Needs.Run)
	if r.Needs.DriverOnly {
		b.WriteString("\nno nvcc and no toolkit is needed to build\n")
	}
	return b.String()
}

// PathLine words the way of a feature.
func PathLine(w graph.Why) string {
	line := strings.Join(w.Steps, " → ")
	if !w.Reached && w.End != "" {
		line += " ends: " + w.End
	}
	return line
}

// needs prints one line for each need: who has it.
func needs(b *strings.Builder, title string, list []features.NeedReason) {
	who := map[string][]string{}
	for _, n := range list {
		if n.Need != "cuda" { // whose CUDA code is linked is in the table above
			who[n.Need] = manifest.Union(who[n.Need], []string{n.Crate})
		}
	}
	if len(who) > 0 {
		b.WriteString(title)
	}
	for _, need := range slices.Sorted(maps.Keys(who)) {
		fmt.Fprintf(b, "  %s: %s\n", need, strings.Join(who[need], ", "))
	}
}
