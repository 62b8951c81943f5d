package features

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// Judge says what of the GPU a build links, what is missing and what it needs. It reads nothing.
func Judge(f *Facts) *Reach {
	j := newJudge(f)
	switch j.out.Via = "unit graph"; {
	case f.unknown():
		j.out.Via, j.out.Unknown = "unknown", f.Input.Unknown
		j.find(newFinding(IDUnknown, "which GPU crates the features enable is unknown: %s", f.Input.Unknown))
	case f.Input.Alone != nil:
		j.out.Via = "manifests"
	}
	if !f.unknown() {
		for i := range j.Roots {
			j.root(&j.Roots[i])
		}
	}
	j.out.requested = j.ask.RequestsGPU() || slices.ContainsFunc(j.out.Roots, func(r Root) bool {
		return slices.ContainsFunc(r.Asked, j.ask.IsCUDA)
	})
	if f.Input.Alone == nil && !f.Input.Lint {
		j.needs()
		j.units()
	}
	j.cudarcs()
	j.archives()
	j.out.Findings = OneOfACause(j.out.Findings)
	j.out.Stops = slices.ContainsFunc(j.out.Findings, func(o Finding) bool {
		return o.Severity == Error || f.Input.Strict && o.Severity == Warning
	})
	return j.out
}

// archives warns of each crate that has no library with CUDA to download for the target, where no error says so.
func (j *judge) archives() {
	for _, i := range j.lacking {
		t := j.torch[i]
		said := slices.ContainsFunc(j.out.Findings, func(f Finding) bool { return f.ID == IDFileCPU && strings.Contains(f.Message, t.Says) })
		if !said && j.Catalog.Crate(j.Nodes[i].Name).On(j.Nodes[i].Features) {
			j.out.NoArchive = append(j.out.NoArchive, t.Says+"; "+t.Fix)
			j.find(newFinding(IDNoArchive, "%s; %s", t.Says, t.Fix))
		}
	}
}

type judge struct {
	*Facts
	ask manifest.Asked
	out *Reach

	anyGPU bool            // a bare `gpu` is asked for, which may be that of CUDA
	words  map[string]bool // of known: a workspace asks about few words, and about each of them once for every feature
}

func newJudge(f *Facts) *judge {
	return &judge{Facts: f, ask: manifest.ParseRequest(f.Input.Request),
		out: &Reach{Findings: []Finding{}, Roots: []Root{}, Units: []ScriptUnit{}}, words: map[string]bool{}}
}

// known reports whether a word is the name of a package of the build, or begins that of a GPU crate: candle.
func (j *judge) known(word string) bool {
	is, asked := j.words[word]
	if !asked {
		is = slices.ContainsFunc(j.Nodes, func(n graph.Node) bool { return manifest.IsNamed(n.Name, word) })
		j.words[word] = is
	}
	return is
}

func (j *judge) find(f Finding) { j.out.Findings = append(j.out.Findings, f) }

// root judges one root unit.
func (j *judge) root(r *graph.Root) {
	n := &j.Nodes[r.Node]
	k := j.rootOf(r)
	out := Root{Package: n.Name, Version: n.Version, Crates: []CrateState{}, Asked: append([]string{}, k.asked...)}
	if j.Graph != nil {
		u := &j.Graph.Units[r.Node]
		out.Target, out.Mode = u.Target.Name, u.Mode
		if len(u.Target.Kind) > 0 {
			out.Kind = u.Target.Kind[0]
		}
	}
	if n.Platform != "" {
		out.For = n.Platform
		k.label += " for " + n.Platform
	}
	for _, g := range k.groups {
		g.sort()
		j.anyGPU = j.anyGPU || g.backend == manifest.AnyGPU
		out.Named = append(out.Named, slices.DeleteFunc(slices.Clone(g.asked), func(f string) bool { return !strings.Contains(f, "/") })...)
	}
	for _, i := range r.Linked {
		if k.samePackage(i) {
			continue
		}
		if st, listed := j.state(i, out.Asked, i == r.Node); listed {
			if st.On && i != r.Node && st.Backend != "own" { // the ways to all own packages of all roots are more than anyone reads
				st.Steps = k.chainTo(i)
				st.Anyway = st.Steps == nil
			}
			out.Crates = append(out.Crates, st)
		}
		out.Reached = out.Reached || j.CUDAOn(i)
	}
	k.apply()
	out.Ineffective, out.Open = k.ineffective, k.open
	for _, g := range k.groups { // another backend than CUDA
		if out.Other, out.OtherOff = "", nil; g.backend == manifest.CUDA || g.backend == manifest.AnyGPU {
			break
		}
		out.Other = title(g.backend)
		for _, c := range g.off {
			if k.hasOf(c.gate, g.backend) {
				out.OtherOff = append(out.OtherOff, k.name(c.node))
			}
		}
	}
	j.out.Roots = append(j.out.Roots, out)
}

// samePackage reports whether a node is the library of the root program's own package.
func (k *rootJudge) samePackage(i int) bool {
	return i != k.r.Node && k.Nodes[i].ID != "" && k.Nodes[i].ID == k.Nodes[k.r.Node].ID
}

// state describes a linked node; listed is false for what has nothing to do with GPUs.
func (j *judge) state(i int, asked []string, root bool) (st CrateState, listed bool) {
	n, c := &j.Nodes[i], j.Crate(i)
	st = CrateState{Name: n.Name, Version: n.Version, PkgID: n.ID, Backend: "unknown", Features: append([]string{}, n.Features...)}
	if c == nil {
		st.On = catalog.Overlap(asked, n.Features)
		if listed = st.On; n.Local {
			st.Backend = "own"
			listed = root || slices.ContainsFunc(asked, func(f string) bool { return j.Declares(i, f) })
		}
		return st, listed
	}
	st.Backend, st.Role, st.On = c.Backend, c.Role, c.On(n.Features) && !c.Linked()
	on, gate := slices.DeleteFunc(c.Other(n.Features), func(b string) bool { return !j.here(b, i) }), c.CarrierFeatures
	switch {
	case c.CUDA() && c.On(n.Features):
		on = append([]string{c.Backend}, on...)
	case c.Linked() && (len(gate) == 0 || !j.Declares(i, gate[0]) || catalog.Overlap(gate, n.Features)):
		on = []string{c.Backend}
	}
	if len(on) > 0 {
		st.Backend, st.On = strings.Join(on, ","), true
	}
	return st, c.Role != catalog.Helper && (c.Role != catalog.FalseFriend || slices.Contains(n.Features, "cuda"))
}

func (f *Facts) name(i int) string {
	return fmt.Sprintf("%s %s", f.Nodes[i].Name, f.Nodes[i].Version)
}
