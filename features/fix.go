package features

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
)

// place is a feature of a package, or the package itself where an optional dependency is activated: then feature is empty.
type place struct{ pkg, feature string }

// planner finds the edges by which a feature would enable the CUDA code of a package's dependencies. It reads manifests and sources.
type planner struct {
	*view
	linked  func(p *manifest.Package, d manifest.Dependency) int // the node of a dependency, or -1; nil: no build is looked at
	reach   map[place]map[place]bool                             // known answers of enables
	code    map[place]bool                                       // … and of hasCode
	certain map[place]bool                                       // … and of sure
	found   map[place]plan                                       // … and of plan
	pkgs    map[string]*manifest.Package                         // by the name that places have for them
}

// plan is the edits that are missing, each behind the ones that it needs.
type plan struct {
	edits []edit.Edit
	to    []string // the dependencies that would get the feature
	// edges to optional dependencies that nothing else brings in, by the engine that they belong to: only the user knows which one is meant
	engines map[string][]string
}

func (v *view) planner() *planner {
	return &planner{view: v, reach: map[place]map[place]bool{}, code: map[place]bool{}, certain: map[place]bool{}, found: map[place]plan{},
		pkgs: map[string]*manifest.Package{}}
}

func placeOf(d manifest.Dependency, to *manifest.Package, feature string) place {
	if to != nil {
		return place{to.Manifest, feature}
	}
	return place{d.Package, feature}
}

// enables lists everything that a feature of a package turns on, as far as manifests on this machine show it.
func (c *planner) enables(p *manifest.Package, feature string) map[place]bool {
	key := place{p.Manifest, feature}
	if known, ok := c.reach[key]; ok {
		return known
	}
	out := map[place]bool{key: true}
	c.reach[key], c.pkgs[p.Manifest] = out, p
	take := func(d manifest.Dependency, to *manifest.Package, f string) {
		out[placeOf(d, to, f)] = true
		if to != nil {
			for at := range c.enables(to, f) {
				out[at] = true
			}
			return
		}
		c.known(d.Package, f, out)
	}
	enter := func(d manifest.Dependency, to *manifest.Package) {
		take(d, to, "")
		for _, f := range d.Features {
			take(d, to, f)
		}
		if d.DefaultFeatures && to != nil && to.Declares("default") {
			take(d, to, "default")
		}
	}
	if feature == "" {
		for _, d := range p.Dependencies {
			if !d.Optional && d.Kind == manifest.Normal {
				enter(d, c.Project.Declaring(d))
			}
		}
		return out
	}
	own, edges := p.Closure([]string{feature})
	for f := range own {
		out[place{p.Manifest, f}] = true
	}
	for _, e := range edges {
		for _, d := range p.Dependencies {
			if d.Key != e.Dep || d.Kind != manifest.Normal {
				continue
			}
			to := c.Project.Declaring(d)
			if e.Feature != "" {
				take(d, to, e.Feature)
			}
			if d.Optional && !e.Weak {
				enter(d, to)
			}
		}
	}
	return out
}

// known adds what a feature of a crate turns on in others by the catalog: the crate's manifest is not on this machine.
func (c *planner) known(name, feature string, out map[place]bool) {
	crate := c.Catalog.Crate(name)
	if crate == nil {
		return
	}
	for _, s := range crate.Features[feature] {
		e := manifest.ParseEdge(s)
		at := place{cmp.Or(e.Dep, name), e.Feature}
		if !out[at] {
			out[at] = true
			c.known(at.pkg, at.feature, out)
		}
	}
}

// aboutCUDA says whether any of what is enabled has to do with CUDA by its name or the catalog.
func (c *planner) aboutCUDA(enabled map[place]bool) bool {
	for at := range enabled {
		name := at.pkg
		if p := c.pkgs[at.pkg]; p != nil {
			name = p.Name
		}
		crate := c.Catalog.Crate(name)
		if strings.Contains(at.feature, "cud") ||
			crate.CUDA() && (crate.Role == catalog.Carrier || slices.Contains(crate.CUDAFeatures, at.feature)) {
			return true
		}
	}
	return false
}

// codeAt is hasCode of a place.
func (c *planner) codeAt(at place) bool {
	return c.hasCode(manifest.Dependency{Package: at.pkg}, c.pkgs[at.pkg], at.feature)
}

// hasCode says whether CUDA code is compiled with a feature of a package itself, or with the package where no feature is named.
func (c *planner) hasCode(d manifest.Dependency, p *manifest.Package, feature string) bool {
	at := placeOf(d, p, feature)
	if known, ok := c.code[at]; ok {
		return known
	}
	name := d.Package
	if p != nil {
		name = p.Name
	}
	crate := c.Catalog.Crate(name)
	has := false
	switch {
	case crate != nil && feature == "":
		has = crate.CUDA() && crate.Role == catalog.Carrier
	case crate != nil && !crate.CUDA():
	case crate != nil && crate.Lost[feature] != "":
		has = true
	case p != nil && feature != "" && !(&manifest.Asked{}).IsGPU(feature) &&
		(crate == nil && c.Project.Local(p.Dir) != p || crate != nil && !slices.Contains(crate.CUDAFeatures, feature)):
		// serde/derive has code, and none for a GPU; burn-cuda/fusion is a choice within it
	case p != nil && feature != "":
		g := c.src.GateOf(p, feature, source.Build{Choices: true}, "")
		has = g.Any() || g.Calls
	case crate != nil:
		has = slices.Contains(crate.CUDAFeatures, feature)
	}
	c.code[at] = has
	return has
}

// adds says whether a feature of a dependency would bring CUDA code that is not among what is enabled yet.
func (c *planner) adds(have map[place]bool, d manifest.Dependency, to *manifest.Package, want string) bool {
	if to == nil {
		return !have[place{d.Package, want}] && c.hasCode(d, nil, want)
	}
	return c.more(have, to, want)
}

// more says whether a feature enables CUDA code that is not among what is enabled yet.
func (c *planner) more(have map[place]bool, p *manifest.Package, feature string) bool {
	for at := range c.enables(p, feature) {
		if !have[at] && c.codeAt(at) {
			return true
		}
	}
	return false
}

// wants is what a dependency calls what a feature of a package means; empty where it has nothing of the kind.
func (c *planner) wants(d manifest.Dependency, to *manifest.Package, feature string) string {
	meaning, crate := manifest.Meaning(feature), c.Catalog.Crate(d.Package)
	switch {
	case crate != nil && !crate.CUDA():
		return ""
	case crate != nil:
		f := crate.Means(meaning)
		_, known := crate.Features[f]
		if to != nil && to.Declares(f) || to == nil && (known || slices.Contains(crate.CUDAFeatures, f)) {
			return f
		}
		return ""
	case to == nil || to.ProcMacro:
		return ""
	}
	for _, f := range []string{feature, meaning, "cuda"} {
		if to.Declares(f) {
			return f
		}
	}
	return ""
}

// target is a dependency, and what it calls what a package's feature means.
type target struct {
	manifest.Dependency
	crate *catalog.Crate
	to    *manifest.Package
	want  string
}

// plan finds the missing edges of a feature, and of the members that it leads to.
func (c *planner) plan(p *manifest.Package, feature string) plan {
	key := place{p.Manifest, feature}
	if known, ok := c.found[key]; ok {
		return known
	}
	c.pkgs[p.Manifest] = p
	if within, _ := p.Closure([]string{feature}); feature != "cuda" && manifest.Meaning(feature) == "cuda" && within["cuda"] {
		c.found[key] = c.plan(p, "cuda") // what its cuda lacks, it lacks
		return c.found[key]
	}
	c.found[key] = plan{} // packages do not depend on each other in a circle
	out, have := plan{engines: map[string][]string{}}, maps.Clone(c.enables(p, feature))
	var add []string
	if manifest.Meaning(feature) == "cudnn" && p.Declares("cuda") && c.more(have, p, "cuda") {
		out.edits = append(out.edits, c.plan(p, "cuda").edits...) // cuDNN without the package's own CUDA code is of no use
		add, out.to = append(add, "cuda"), append(out.to, p.Name)
		maps.Copy(have, c.enables(p, "cuda"))
		for _, e := range out.edits {
			for _, s := range e.Add {
				maps.Copy(have, c.through(c.pkgs[e.Manifest], manifest.ParseEdge(s)))
			}
		}
	}
	passed := p.PassedOn(feature)
	targeted := map[string][]string{} // engines of some targets only: this build's may be none of them, which cargo says
	for _, t := range c.targets(p, feature) {
		var below plan
		if t.to != nil && !t.to.ProcMacro && (c.Project.IsMember(t.to) || t.Path != "" && t.crate == nil) {
			if t.want == "" && t.crate == nil {
				t.want = c.calls(t.to)
			}
			name := t.want
			if name == "" && t.crate == nil {
				name = feature // it would have to be declared
			}
			if name != "" {
				if below = c.gains(have, c.plan(t.to, name)); t.want == "" && len(below.edits) > 0 {
					t.want = name
				}
			}
		}
		node := -1
		if c.linked != nil {
			node = c.linked(p, t.Dependency)
		}
		if t.Optional && c.linked != nil && node < 0 {
			if edge := c.activating(p, t, have, feature); edge != "" && !slices.Contains(p.Features[feature], edge) {
				engine, _, _ := strings.Cut(t.Package, "-")
				engines := out.engines
				if t.Target != "" {
					engines = targeted
				}
				engines[engine] = append(engines[engine], edge)
			}
			continue
		}
		if t.want == "" || len(below.edits) == 0 && !c.adds(have, t.Dependency, t.to, t.want) || t.Optional && c.bringsAlong(p, t) {
			continue
		}
		out.edits = append(out.edits, below.edits...)
		if passed[t.Key+"/"+t.want] || have[placeOf(t.Dependency, t.to, t.want)] ||
			node >= 0 && len(below.edits) == 0 && slices.Contains(c.Nodes[node].Features, t.want) {
			continue
		}
		edge := t.Key + "/" + t.want
		if t.Optional {
			edge = t.Key + "?/" + t.want
		}
		add, out.to = append(add, edge), append(out.to, t.Package)
		maps.Copy(have, c.through(p, manifest.ParseEdge(edge)))
	}
	if len(out.engines) == 0 && len(targeted) == 1 {
		out.engines = targeted
	}
	if len(add) > 0 || len(out.edits) > 0 || c.leads(p, feature) {
		out.engines = nil
	}
	if len(out.engines) == 1 {
		for _, edges := range out.engines {
			add = edges
		}
	}
	if len(add) > 0 {
		out.edits = append(out.edits, edit.Edit{Manifest: p.Manifest, Feature: feature, Add: add})
	}
	c.found[key] = out
	return out
}

// calls is the feature that names an optional dependency with CUDA code, whatever its own name; empty unless there is just one.
func (c *planner) calls(p *manifest.Package) string {
	found := ""
	for f, list := range p.Features {
		for _, s := range list {
			e := manifest.ParseEdge(s)
			for _, d := range p.Dependencies {
				crate := c.Catalog.Crate(d.Package)
				if d.Key != e.Dep || e.Feature != "" || !d.Optional || !crate.CUDA() || crate.Role != catalog.Carrier {
					continue
				}
				if found != "" && found != f {
					return ""
				}
				found = f
			}
		}
	}
	return found
}

// targets lists the dependencies of a package that a GPU feature may be forwarded to: first those that have such a feature and are always
// there, which may bring all that the others would.
func (c *planner) targets(p *manifest.Package, feature string) []target {
	var first, then []target
	for _, d := range p.Dependencies {
		t := target{Dependency: d, crate: c.Catalog.Crate(d.Package)}
		if d.Kind != manifest.Normal || d.Artifact || t.crate != nil && t.crate.Role == catalog.FalseFriend {
			continue
		}
		t.to = c.Project.Declaring(d)
		if t.want = c.wants(d, t.to, feature); t.want != "" && !d.Optional {
			first = append(first, t)
		} else {
			then = append(then, t)
		}
	}
	return append(first, then...)
}

// through lists what an edge of a package enables.
func (c *planner) through(p *manifest.Package, e manifest.Edge) map[place]bool {
	if e.Dep == "" {
		return c.enables(p, e.Feature)
	}
	out := map[place]bool{}
	for _, d := range p.Dependencies {
		if d.Key == e.Dep && d.Kind == manifest.Normal {
			to := c.Project.Declaring(d)
			out[placeOf(d, to, e.Feature)] = true
			if to != nil {
				maps.Copy(out, c.enables(to, e.Feature))
			}
		}
	}
	return out
}

// bringsAlong says whether every feature that activates an optional dependency gives it the wanted feature, too.
func (c *planner) bringsAlong(p *manifest.Package, t target) bool {
	some := false
	for _, f := range p.FeatureNames() {
		_, edges := p.Closure([]string{f})
		active, given := false, false
		for _, e := range edges {
			active = active || e.Dep == t.Key && !e.Weak
			given = given || e.Dep == t.Key && e.Feature == t.want
		}
		if active && !given {
			return false
		}
		some = some || active
	}
	return some
}

// apart says whether a feature of a dependency has one of its own in the package, next to another that was asked for: gpu-cuda =
// ["whisper-rs/cuda"] and cohere-cuda = ["ort/cuda"] are two choices. One that enables the same CUDA code and more is none.
func (c *planner) apart(p *manifest.Package, goal string, of place) bool {
	if goal == "cuda" || goal == "cudnn" || goal == "gpu" {
		return false
	}
	return slices.ContainsFunc(p.FeatureNames(), func(f string) bool {
		own, _ := p.Closure([]string{f})
		with := c.enables(p, f)
		if own[goal] || !with[of] {
			return false
		}
		for at := range with {
			if at.pkg != p.Manifest && c.enables(p, goal)[at] && c.codeAt(at) {
				return false
			}
		}
		return true
	})
}

// gains is a plan for a dependency, or nothing where all that it would enable is enabled already.
func (c *planner) gains(have map[place]bool, below plan) plan {
	for _, e := range below.edits {
		for _, s := range e.Add {
			for at := range c.through(c.pkgs[e.Manifest], manifest.ParseEdge(s)) {
				if !have[at] && c.codeAt(at) {
					return below
				}
			}
		}
	}
	return plan{}
}

// activating is the edge that brings an optional dependency with CUDA code into the build.
func (c *planner) activating(p *manifest.Package, t target, have map[place]bool, feature string) string {
	switch {
	case t.want != "" && (t.crate.CUDA() || t.to != nil && c.adds(have, t.Dependency, t.to, t.want)):
		return t.Key + "/" + t.want
	case t.crate.CUDA() && t.crate.Role == catalog.Carrier && manifest.Meaning(feature) == "cuda":
		if p.Implicit(t.Key) { // a first "dep:" would take away the feature of its name
			return t.Key
		}
		return "dep:" + t.Key
	}
	return ""
}

// leads says whether a feature enables CUDA code anywhere, its own package's included.
func (c *planner) leads(p *manifest.Package, feature string) bool {
	return c.more(nil, p, feature)
}

// canEnable says whether there is any CUDA code that a feature could enable.
func (c *planner) canEnable(p *manifest.Package, feature string) bool {
	m := c.plan(p, feature)
	return len(m.edits) > 0 || len(m.engines) > 0 || c.dormant(p)
}

// dormant says whether CUDA code lies behind an optional dependency, although none of its features leads there.
func (c *planner) dormant(p *manifest.Package) bool {
	for _, d := range p.Dependencies {
		to := c.Project.LocalPackage(d)
		if !d.Optional || d.Kind != manifest.Normal || to == nil {
			continue
		}
		for at := range c.enables(to, "") {
			if q := c.pkgs[at.pkg]; q != nil && slices.ContainsFunc(q.FeatureNames(), func(f string) bool { return c.leads(q, f) }) {
				return true
			}
		}
	}
	return false
}

// sure says whether a feature enables CUDA code whatever else is built, and for which target. cargo says what manifests leave open: a weak
// edge, a dependency of some targets, one that is not linked, code that needs other features.
func (c *planner) sure(p *manifest.Package, feature string) (is bool) {
	key := place{p.Manifest, feature}
	if known, ok := c.certain[key]; ok {
		return known
	}
	c.certain[key] = false
	defer func() { c.certain[key] = is }()
	_, edges := p.Closure([]string{feature})
	with, others := p.Closure([]string{feature, "default"})
	if c.src.GateOf(p, feature, source.Build{Features: slices.Sorted(maps.Keys(with)), OS: source.OSOf("", c.Host.OS)}, "").Any() {
		return true
	}
	for _, e := range edges {
		for _, d := range p.Dependencies {
			if d.Key != e.Dep || d.Kind != manifest.Normal || d.Target != "" || d.Artifact ||
				d.Optional && !slices.ContainsFunc(others, func(o manifest.Edge) bool { return o.Dep == d.Key && !o.Weak }) {
				continue
			}
			to, feats := c.Project.Declaring(d), []string{e.Feature}
			if d.Optional && !e.Weak {
				feats = append(append(feats, ""), d.Features...)
			}
			for _, f := range feats {
				if c.hasCode(d, to, f) || to != nil && (f == "" && c.leads(to, "") || f != "" && c.sure(to, f)) {
					return true
				}
			}
		}
	}
	return false
}

// toml is the edits as they stand in the manifests afterwards; behind each line of several manifests stands whose it is.
func (v *view) toml(edits []edit.Edit) string {
	lines := make([]string, 0, len(edits))
	for _, e := range slices.Backward(edits) {
		p := v.Project.Package(e.Manifest)
		line := edit.WithEdges(p, e.Feature, e.Add...)
		if slices.ContainsFunc(edits, func(o edit.Edit) bool { return o.Manifest != e.Manifest }) {
			line += " # " + p.Name
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
