package featurecheck

import (
	"cmp"
	"fmt"
	"strings"

	"gpubuild/features"
	"gpubuild/features/graph"
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
			fmt.Fprintf(&b, "  %-4s  %-28s %-8s %s\n", c.State, c.Name+" "+c.Version, backend, fewer(c.Features))
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
	building(&b, r)
	running(&b, r.Needs.Run)
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

// building prints one line for each need: who has it, and why where that says more.
func building(b *strings.Builder, r *features.Reach) {
	var order []string
	who := map[string][]string{}
	known := map[string]bool{}
	for _, n := range r.Needs.Because {
		if n.Need == "cuda" || known[n.Need+n.Crate] {
			continue // whose CUDA code is linked is in the table above
		}
		known[n.Need+n.Crate] = true
		if len(who[n.Need]) == 0 {
			order = append(order, n.Need)
		}
		name := n.Crate
		if n.Why != "" && !strings.HasPrefix(n.Why, "known of ") {
			name += " (" + n.Why + ")"
		}
		who[n.Need] = append(who[n.Need], name)
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\nto build:\n")
	for _, need := range order {
		fmt.Fprintf(b, "  %s: %s\n", need, strings.Join(who[need], ", "))
	}
	if !r.CudarcMax.IsZero() {
		fmt.Fprintf(b, "  no CUDA newer than %s: %s stops with one\n", r.CudarcMax, r.MaxBy)
	}
}

// running prints one line for each crate that needs something when the program runs.
func running(b *strings.Builder, needs []features.NeedReason) {
	var order []string
	what := map[string][]string{}
	for _, n := range needs {
		who := n.Crate
		if n.Why != "" {
			who += ", " + n.Why
		}
		if len(what[who]) == 0 {
			order = append(order, who)
		}
		what[who] = append(what[who], n.Need)
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\nto run:\n")
	for _, who := range order {
		fmt.Fprintf(b, "  %s (%s)\n", strings.Join(what[who], ", "), who)
	}
}

// aboutGPUs are parts of the names of features that have to do with GPUs.
var aboutGPUs = []string{
	"cuda", "cudnn", "gpu", "nccl", "flash", "dynamic", "static-linking", "fallback", "tensorrt", "rocm", "hip", "vulkan", "metal", "wgpu",
	"libtorch", "disable",
}

// fewer shortens a long list of features to those that have to do with GPUs.
func fewer(list []string) string {
	all := strings.Join(list, ",")
	if len(all) <= 72 {
		return all
	}
	var kept []string
	for _, f := range list {
		for _, word := range aboutGPUs {
			if strings.Contains(f, word) {
				kept = append(kept, f)
				break
			}
		}
	}
	if left := len(list) - len(kept); left > 0 {
		kept = append(kept, fmt.Sprintf("… %d more", left))
	}
	return strings.Join(kept, ",")
}
