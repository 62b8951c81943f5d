package features

import (
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

type step struct {
	node    int
	feature string
	from    int // index of the step before; -1 for the first
	text    string
	with    []string // features that the dependency entry itself names
}

// why tells for each GPU feature of a root by which edges it reached a GPU crate, or where it ends.
func (j *judge) why(r *graph.Root, asked, qualified []string) {
	n := &j.Nodes[r.Node]
	for _, f := range asked {
		j.addWhy(n.Name, f, j.path(r, f))
	}
	for _, f := range j.ask.Plain { // asked for under another name: flash-attn
		if slices.Contains(asked, f) || !slices.Contains(n.Features, f) {
			continue
		}
		if w := j.path(r, f); w.Reached {
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
				j.addWhy(n.Name, q, j.pathFrom(r, step{node: i, feature: f, from: -1, text: q}))
				break
			}
		}
	}
}

func (j *judge) addWhy(root, feature string, w Why) {
	w.Root, w.Feature = root, feature
	for _, have := range j.out.Paths {
		if have.Root == w.Root && have.Feature == w.Feature && strings.Join(have.Steps, "\x00") == strings.Join(w.Steps, "\x00") {
			return
		}
	}
	j.out.Paths = append(j.out.Paths, w)
}

// path follows a feature of the root's own package.
func (j *judge) path(r *graph.Root, f string) Why {
	key := pathKey{r.Node, f}
	if w, known := j.paths[key]; known {
		return w
	}
	w := j.pathFrom(r, step{node: r.Node, feature: f, from: -1, text: j.Nodes[r.Node].Name + "/" + f})
	j.paths[key] = w
	return w
}

// pathKey names a search that was made already.
type pathKey struct {
	root    int
	feature string
}

// pathFrom follows a feature's edges breadth first as far as manifests can be read: to a carrier, else to a gated crate that is on, else to
// where it ends.
func (j *judge) pathFrom(r *graph.Root, start step) Why {
	steps := []step{start}
	seen := map[string]bool{start.text: true}
	gated, last := -1, 0
	ended := ""
	for at := 0; at < len(steps) && at < graph.MaxSteps; at++ {
		s := steps[at]
		if c := j.Crate(s.node); c.CUDA() && c.On(j.Nodes[s.node].Features) &&
			(s.node != r.Node || slices.Contains(c.CUDAFeatures, s.feature)) && j.forCUDA(s, c) {
			if c.Role == catalog.Carrier {
				return j.unwind(steps, at, true, "")
			}
			if gated < 0 ||
				len(j.unwind(steps, at, true, "").Steps) > len(j.unwind(steps, gated, true, "").Steps) &&
					steps[at].node != steps[gated].node {
				gated = at
			}
		}
		if s.feature == "" {
			continue
		}
		p := j.ManifestOf(s.node)
		if p == nil {
			ended = "the manifest of " + j.name(s.node) + " is not here"
			continue
		}
		edges, _ := p.Edges(s.feature)
		for _, e := range edges {
			next := step{from: at, node: s.node, feature: e.Feature}
			if e.Dep != "" {
				dead := true
				for _, d := range p.Dependencies {
					if d.Key != e.Dep || d.Kind == manifest.Dev {
						continue
					}
					if to := j.DepNode(s.node, d, r.Set); to >= 0 && (e.Feature == "" || slices.Contains(j.Nodes[to].Features, e.Feature)) {
						next.node, next.with, dead = to, d.Features, false
						break
					}
				}
				if dead {
					ended = deadReason(p, s, e)
					continue
				}
			}
			next.text = j.Nodes[next.node].Name
			if next.feature != "" {
				next.text += "/" + next.feature
			}
			if !seen[next.text] {
				seen[next.text] = true
				steps = append(steps, next)
				last = len(steps) - 1
			}
		}
		if len(edges) == 0 && at == 0 {
			ended = "`" + s.feature + "` of " + p.Name + " turns nothing on"
		}
	}
	if gated >= 0 {
		return j.unwind(steps, gated, true, "")
	}
	if ended == "" {
		ended = "none of its edges leads to a GPU crate"
		last = 0
	}
	return j.unwind(steps, last, false, ended)
}

// forCUDA says whether a step itself leads to the CUDA code of a crate that is on: burn/wgpu does not, although burn/cuda may be on, too.
// Where the crate's manifest is here, its edges tell the rest.
func (j *judge) forCUDA(s step, c *catalog.Crate) bool {
	return c.Role == catalog.Carrier || c.On(s.with) || slices.Contains(c.CUDAFeatures, s.feature) || j.ManifestOf(s.node) == nil
}

func deadReason(p *manifest.Package, s step, e manifest.Edge) string {
	where := "`" + e.Text + "` in `" + s.feature + "` of " + p.Name
	if e.Weak {
		return where + " is a weak edge, and nothing turns `" + e.Dep + "` on"
	}
	for _, d := range p.Dependencies {
		if d.Key != e.Dep {
			continue
		}
		switch {
		case d.Artifact:
			return where + " is an artifact dependency: a program of its own"
		case d.Kind == manifest.Build:
			return where + " is a build-dependency: it is not linked"
		case d.Kind == manifest.Dev:
			return where + " is a dev-dependency"
		case d.Target != "":
			return where + " is a dependency of " + d.Target + " only"
		}
		return where + " is not linked here"
	}
	return where + " names no dependency"
}

func (j *judge) unwind(steps []step, at int, reached bool, end string) Why {
	var out []string
	for i := at; i >= 0; i = steps[i].from {
		out = append([]string{steps[i].text}, out...)
	}
	return Why{Steps: out, Reached: reached, End: end}
}
