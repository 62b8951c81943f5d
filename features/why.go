package features

import (
	"slices"
	"strings"

	"gpubuild/features/graph"
)

// why records for each GPU feature of a root by which edges it reached a GPU crate, or where it ends.
func (j *judge) why(r *graph.Root, asked, qualified []string) {
	n := &j.Nodes[r.Node]
	for _, f := range asked {
		j.addWhy(n.Name, f, j.path(r, graph.Feature{Node: r.Node, Name: f}))
	}
	for _, f := range j.ask.Plain { // asked for under another name: flash-attn
		if slices.Contains(asked, f) || !slices.Contains(n.Features, f) {
			continue
		}
		if w := j.path(r, graph.Feature{Node: r.Node, Name: f}); w.Reached {
			j.addWhy(n.Name, f, w)
		}
	}
	for _, q := range qualified {
		pkg, f, _ := strings.Cut(q, "/")
		if pkg == n.Name {
			continue // it is among the asked ones, as far as it is on
		}
		if p := j.ManifestOf(r.Node); p != nil {
			for _, d := range p.Dependencies {
				if d.Key == pkg {
					pkg = d.Package // the command line has the manifest's name for it
					break
				}
			}
		}
		for _, i := range r.Linked {
			if j.Nodes[i].Name == pkg && slices.Contains(j.Nodes[i].Features, f) {
				w := j.path(r, graph.Feature{Node: i, Name: f})
				w.Steps = slices.Concat([]string{q}, w.Steps[1:]) // as it was typed
				j.addWhy(n.Name, q, w)
				break
			}
		}
	}
}

func (j *judge) addWhy(root, feature string, w graph.Why) {
	w.Root, w.Feature = root, feature
	for _, have := range j.out.Paths {
		if have.Root == w.Root && have.Feature == w.Feature && strings.Join(have.Steps, "\x00") == strings.Join(w.Steps, "\x00") {
			return
		}
	}
	j.out.Paths = append(j.out.Paths, w)
}

// path is searched once for each feature of each node: a root's own, or one that was asked for by a package's name.
func (j *judge) path(r *graph.Root, f graph.Feature) graph.Why {
	key := pathKey{r, f}
	w, known := j.paths[key]
	if !known {
		w = j.Path(r, f)
		j.paths[key] = w
	}
	return w
}

type pathKey struct {
	root *graph.Root
	from graph.Feature
}
