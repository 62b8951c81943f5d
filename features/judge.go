package features

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// Judge says what of the GPU a build links, what is missing and what it needs. It reads sources through h and decides; it changes nothing.
func Judge(h buildenv.Host, in Input) (*Answer, error) {
	if in.Graph == nil && in.Tree == nil {
		return nil, errors.New("features: neither a unit graph nor a cargo tree to judge")
	}
	if in.Catalog == nil {
		c, err := catalog.Default()
		if err != nil {
			return nil, err
		}
		in.Catalog = c
	}
	j := &judge{
		view: newView(h, in),
		in:   in,
		ask:  manifest.ParseRequest(in.Request),
		out:  &Answer{Findings: []Finding{}, Roots: []Root{}, Paths: []graph.Why{}, Units: []ScriptUnit{}},
		seen: map[string]bool{}, paths: map[pathKey]graph.Why{}, scripts: map[int]scriptFacts{},
	}
	if j.out.Via = "unit graph"; in.Graph == nil {
		j.out.Via = "cargo tree"
	}
	for i := range j.Roots {
		j.root(&j.Roots[i])
	}
	j.settle()
	j.needs()
	j.units()
	j.cudarc()
	j.out.Findings = OneOfACause(j.out.Findings)
	j.out.Stops = slices.ContainsFunc(j.out.Findings, func(f Finding) bool {
		return f.Severity == Error || in.Strict && f.Severity == Warning
	})
	return j.out, nil
}

type judge struct {
	*view
	in   Input
	ask  manifest.Asked
	out  *Answer
	seen map[string]bool // findings that were made for another root already
	idle []idleRoot

	paths   map[pathKey]graph.Why
	scripts map[int]scriptFacts // by the unit that runs the script
}

// idleRoot is a root whose GPU feature changes nothing and that links no GPU crate: a fault unless another root is reached.
type idleRoot struct {
	finding  Finding
	platform string
}

func (j *judge) find(f Finding) {
	key := strings.Join([]string{f.ID, f.Severity, f.Path, f.Fix, f.Message}, "\x00")
	if !j.seen[key] {
		j.seen[key] = true
		j.out.Findings = append(j.out.Findings, f)
	}
}

// OneOfACause leaves out every finding whose edits all belong to another one that is as grave: what one edge of a member lacks is found
// again for each program that links it.
func OneOfACause(list []Finding) []Finding {
	covers := func(a, b *Finding) bool {
		return len(b.Edits) > 0 && (a.Severity == Error || b.Severity != Error) && !slices.ContainsFunc(b.Edits, func(e edit.Edit) bool {
			return !slices.ContainsFunc(a.Edits, func(o edit.Edit) bool {
				return o.Manifest == e.Manifest && o.Feature == e.Feature &&
					!slices.ContainsFunc(e.Add, func(s string) bool { return !slices.Contains(o.Add, s) })
			})
		})
	}
	out := []Finding{}
	for i := range list {
		again := false
		for k := range list {
			again = again || k != i && covers(&list[k], &list[i]) && (k < i || !covers(&list[i], &list[k]))
		}
		if !again {
			out = append(out, list[i])
		}
	}
	return out
}

// buildFinding is about the whole build.
func (j *judge) buildFinding(id, severity, fix, format string, a ...any) Finding {
	f := finding.Finding{ID: id, Severity: severity, Message: fmt.Sprintf(format, a...), Fix: fix, Evidence: j.out.Via}
	return Finding{Finding: f}
}

// root judges one root unit.
func (j *judge) root(r *graph.Root) {
	n := &j.Nodes[r.Node]
	out := Root{Package: n.Name, Version: n.Version, Crates: []CrateState{}, Asked: []string{}}
	main := ""
	if j.Graph != nil {
		u := &j.Graph.Units[r.Node]
		out.Target, out.Mode = u.Target.Name, u.Mode
		if len(u.Target.Kind) > 0 {
			out.Kind = u.Target.Kind[0]
		}
		switch out.Kind {
		case "bin", "example", "test", "bench":
			main = u.Target.SrcPath
		}
	}
	for _, f := range n.Features {
		if p := j.ManifestOf(r.Node); j.ask.IsGPU(f) && (p == nil || !p.Implicit(f)) { // the name of a dependency is none
			out.Asked = append(out.Asked, f)
		}
	}
	if p := j.ManifestOf(r.Node); j.Graph == nil && p != nil {
		main = j.Host.Join(p.Dir, "src", "main.rs") // a tree does not say which program it is: look at the usual one
	}
	label := out.Package
	if n.Platform != "" && j.severalPlatforms() {
		out.For = n.Platform
		label += " for " + n.Platform
	}
	if !slices.ContainsFunc(out.Asked, func(f string) bool { return j.path(r, graph.Feature{Node: r.Node, Name: f}).Reached }) {
		for _, f := range j.leading(r) {
			if len(out.Asked) == 0 || f != "default" {
				out.Asked = append(out.Asked, f)
			}
		}
	}
	var gpuOn []int // CUDA crates that are on
	for _, i := range r.Linked {
		c := j.Crate(i)
		if i != r.Node && j.Nodes[i].ID != "" && j.Nodes[i].ID == n.ID {
			continue // the library of the program's own package
		}
		st, listed := j.state(i, c, out.Asked, i == r.Node)
		if listed {
			out.Crates = append(out.Crates, st)
		}
		if j.CUDAOn(i) {
			gpuOn = append(gpuOn, i)
			out.Reached = true
		}
	}
	k := &rootJudge{judge: j, r: r, pkg: j.ManifestOf(r.Node), label: label, main: main, asked: out.Asked, on: gpuOn}
	k.requests()
	out.Borrowed = k.lent
	k.left()
	k.weak()
	k.unasked()
	k.otherwise()
	j.why(r, out.Asked, k.qualified())
	j.out.Roots = append(j.out.Roots, out)
}

// leading lists the features of a root that lead to a GPU crate under another name than cuda: gpu = ["candle-core/cuda"].
func (j *judge) leading(r *graph.Root) []string {
	on := slices.ContainsFunc(r.Linked, func(i int) bool { return i != r.Node && j.CUDAOn(i) })
	out := []string{}
	if p := j.ManifestOf(r.Node); !on || p == nil {
		return out
	}
	byDefault := false
	for _, f := range j.Nodes[r.Node].Features {
		if !j.path(r, graph.Feature{Node: r.Node, Name: f}).Reached {
			continue
		}
		if f == "default" {
			byDefault = true
			continue
		}
		out = append(out, f)
	}
	if byDefault && len(out) == 0 {
		out = append(out, "default")
	}
	return out
}

// severalPlatforms says whether roots are built for more than one target. Procedural macros are built for the host, which is none of them:
// they have no platform while others have one.
func (j *judge) severalPlatforms() bool {
	first := ""
	for _, r := range j.Roots {
		switch p := j.Nodes[r.Node].Platform; {
		case p == "":
		case first == "":
			first = p
		case p != first:
			return true
		}
	}
	return false
}

// state describes a linked node; listed is false for what has nothing to do with GPUs.
func (j *judge) state(i int, c *catalog.Crate, wanted []string, root bool) (CrateState, bool) {
	n := &j.Nodes[i]
	st := CrateState{Name: n.Name, Version: n.Version, PkgID: n.ID, Features: n.Features, Wanted: map[string]bool{}}
	if st.Features == nil {
		st.Features = []string{}
	}
	switch {
	case c != nil:
		st.Backend, st.Role = c.Backend, c.Role
		st.On = c.On(n.Features)
		for _, f := range wanted {
			if m := c.Means(f); c.Role != catalog.FalseFriend && j.Declares(i, m) {
				st.Wanted[f] = slices.Contains(n.Features, m)
			}
		}
		other := c.Other(n.Features)
		if !c.CUDA() && c.Role == catalog.Carrier {
			other = []string{c.Backend}
			if len(c.CarrierFeatures) > 0 && j.Declares(i, c.CarrierFeatures[0]) && !slices.ContainsFunc(c.CarrierFeatures,
				func(f string) bool { return slices.Contains(n.Features, f) }) {
				other, st.On, st.Note = nil, false, "none of its backends is on: "+strings.Join(c.CarrierFeatures, ", ")
			}
		}
		wants := len(wanted) > 0 || j.ask.ForGPU() // else nobody misses CUDA
		switch {
		case c.Role == catalog.Helper || c.Role == catalog.FalseFriend && !slices.Contains(n.Features, "cuda"):
			return st, false
		case c.Name == "torch-sys":
			st.Note = j.src.LibtorchOf(n.Features).Says
		case c.Role == catalog.FalseFriend || c.Role == catalog.Monitor && (wants || st.On):
			st.Note = c.Notes
		case !st.On && wants && c.Lost["cuda"] != "":
			st.Note = "without cuda: " + c.Lost["cuda"]
		}
		switch {
		case len(other) > 0 && st.On && c.CUDA():
			st.Also = other
		case len(other) > 0:
			st.Backend, st.On = strings.Join(other, ","), true
		}
		st.State = onOff(st.On)
		switch c.Role {
		case catalog.ByFile:
			st.State = "file"
		case catalog.FalseFriend:
			st.State = "-"
		}
	case n.Local:
		st.Backend, st.Role, st.State = "own", "", "-"
		for _, f := range wanted {
			if j.Declares(i, f) {
				st.Wanted[f] = slices.Contains(n.Features, f)
				st.On = st.On || st.Wanted[f]
				st.State = onOff(st.On)
			}
		}
		if len(st.Wanted) == 0 && !root {
			return st, false
		}
	default:
		st.Backend, st.State = "unknown", "on"
		for _, f := range wanted {
			if slices.Contains(n.Features, f) {
				st.Wanted[f] = true
				st.On = true
			}
		}
		if !st.On {
			return st, false
		}
	}
	return st, true
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// settle turns roots whose feature changes nothing into errors when no root of the build is reached, into notes otherwise.
func (j *judge) settle() {
	undecided := slices.ContainsFunc(j.out.Findings, func(f Finding) bool { return f.ID == IDUndecided })
	reached := map[string]bool{} // by target: what one is built for does not help another
	for i, r := range j.out.Roots {
		at := j.Nodes[j.Roots[i].Node].Platform
		reached[at] = reached[at] || r.Reached
		reached[""] = reached[""] || r.Reached // a procedural macro serves all
	}
	for _, idle := range j.idle {
		f := idle.finding
		if undecided || reached[idle.platform] {
			f.Severity = Note
		}
		j.find(f)
	}
}

func (j *judge) name(i int) string {
	return fmt.Sprintf("%s %s", j.Nodes[i].Name, j.Nodes[i].Version)
}
