package graph

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"gpubuild/features/manifest"
)

// Forms in which Draw draws.
const (
	Dot     = "dot"
	Mermaid = "mermaid"
)

// Draw draws the part of a build that leads to GPU crates: each package with its GPU features, full where they are on and dashed where a
// GPU crate is off. A node is one package with one set of features, so that two copies of a crate are two nodes.
func (v *View) Draw(r manifest.Request, form string) (string, error) {
	ask := manifest.ParseRequest(r)
	type box struct {
		text string
		dash bool
	}
	var boxes []box
	ids := map[string]int{}
	place := func(i int) int {
		n, c := &v.Nodes[i], v.Crate(i)
		var on []string
		for _, f := range n.Features {
			if ask.IsGPU(f) || c != nil && slices.Contains(c.CUDAFeatures, f) {
				on = append(on, f)
			}
		}
		sort.Strings(on)
		key := n.ID + "\x00" + n.Name + " " + n.Version + "\x00" + strings.Join(on, ",")
		id, known := ids[key]
		if !known {
			id = len(boxes)
			ids[key] = id
			text := n.Name + " " + n.Version
			if len(on) > 0 {
				text += "\n" + strings.Join(on, ", ")
			}
			boxes = append(boxes, box{text, c.CUDA() && !c.On(n.Features)})
		}
		return id
	}
	arrows := map[[2]int]bool{}
	for _, r := range v.Roots {
		leads := v.LeadingTo(&r, func(i int) bool { return v.Crate(i).CUDA() })
		place(r.Node)
		for _, i := range r.Linked {
			for _, d := range v.Nodes[i].Deps {
				if leads[i] && r.Set[d.To] && leads[d.To] {
					if a, b := place(i), place(d.To); a != b {
						arrows[[2]int{a, b}] = true
					}
				}
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(arrows), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	var b strings.Builder
	switch form {
	case Dot:
		b.WriteString("digraph features {\n  rankdir=LR;\n  node [shape=box];\n")
		for i, x := range boxes {
			style := ""
			if x.dash {
				style = ", style=dashed"
			}
			fmt.Fprintf(&b, "  n%d [label=\"%s\"%s];\n", i, strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(x.text), style)
		}
		for _, a := range list {
			fmt.Fprintf(&b, "  n%d -> n%d;\n", a[0], a[1])
		}
		b.WriteString("}\n")
	case Mermaid:
		b.WriteString("flowchart LR\n")
		for i, x := range boxes {
			fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, strings.NewReplacer(`"`, "#quot;", "\n", "<br/>").Replace(x.text))
		}
		for _, a := range list {
			fmt.Fprintf(&b, "  n%d --> n%d\n", a[0], a[1])
		}
		for i, x := range boxes {
			if x.dash {
				fmt.Fprintf(&b, "  style n%d stroke-dasharray: 5 5\n", i)
			}
		}
	default:
		return "", fmt.Errorf("features: no form %q, only %s and %s", form, Dot, Mermaid)
	}
	return b.String(), nil
}
