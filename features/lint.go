package features

// Question is one feature of one member that means GPU work: does it reach when that package is built alone with it?
type Question struct {
	Package *Package
	Feature string
}

// Questions lists every member's GPU features: cuda, cudnn and those that the configuration names.
func (p *Project) Questions(gpu []string) []Question {
	var out []Question
	for _, m := range p.Members {
		for _, f := range mergeStrings([]string{"cuda", "cudnn"}, gpu) {
			if m.Declares(f) && !m.ProcMacro {
				out = append(out, Question{m, f})
			}
		}
	}
	return out
}

// Selection lists the members that a request builds; known is false where one of its names is no member's.
func (p *Project) Selection(r Request) (list []*Package, known bool) { return p.selection(r) }

// EdgeCheck judges feature edges from manifests alone: those between the workspace's members and those to GPU crates. It knows no selection; whether
// a build is hurt is Judge's to say.
type EdgeCheck struct {
	*view
	code map[featureOf]bool // known answers of hasCode
}

type featureOf struct{ pkg, feature string }

// NewEdgeCheck prepares a check of a workspace.
func NewEdgeCheck(p *Project) (*EdgeCheck, error) {
	cat, err := DefaultCatalog()
	if err != nil {
		return nil, err
	}
	return &EdgeCheck{view: newView(p.host, p, cat, &Graph{}, nil), code: map[featureOf]bool{}}, nil
}

// All checks every GPU feature of every member, and names members that have no such feature although a dependency has one.
func (c *EdgeCheck) All(gpu []string) []Finding {
	var out []Finding
	for _, q := range c.project.Questions(gpu) {
		out = append(out, c.Of(q)...)
	}
	return append(out, c.undeclared()...)
}

// Of finds the direct dependencies that have a member's GPU feature, too, and to which it is not passed on. A missing edge is a warning where CUDA code
// lies behind it and no other edge of the feature leads there, else a note.
func (c *EdgeCheck) Of(q Question) []Finding {
	var out []Finding
	passed, carried := q.Package.passedOn(q.Feature), c.carried(q.Package, q.Feature)
	for _, d := range q.Package.Dependencies {
		crate := c.catalog.Crate(d.Package)
		if d.Kind != Normal || crate != nil && crate.Role == FalseFriend {
			continue
		}
		want := q.Feature
		to := c.project.declaring(d)
		switch {
		case to != nil:
			if !to.Declares(want) || to.ProcMacro || implied(passed, d, to, want) {
				continue
			}
		case crate.CUDA() && crate.Role == Gated && contains(crate.CUDAFeatures, means(crate, want)): // its sources are not on this machine
			want = means(crate, want)
		default:
			continue
		}
		if passed[d.Key+"/"+want] {
			continue
		}
		edge := d.Key + "/" + want
		if d.Optional {
			edge = d.Key + "?/" + want
		}
		f := Finding{ID: IDPropagation, Severity: Note, Path: q.Package.Manifest, Line: q.Package.FeatureLine(q.Feature), Root: q.Package.Name, Evidence: "manifests",
			Fix: (&edit{pkg: q.Package, feature: q.Feature, add: []string{edge}}).line(), line: lineAt{q.Feature, []string{edge}, []string{d.Package}}}
		if at := (featureOf{d.Package, want}); !carried[at] && c.hasCode(to, at) {
			f.Severity = Warning
		}
		f.Message = propagationMessage([]Finding{f})
		out = append(out, f)
	}
	return out
}

// carried lists what a feature turns on in other packages, as far as manifests on this machine show it.
func (c *EdgeCheck) carried(p *Package, feature string) map[featureOf]bool {
	out := map[featureOf]bool{}
	type visit struct {
		pkg     *Package
		feature string
	}
	for queue := []visit{{p, feature}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		own, edges := at.pkg.closure([]string{at.feature})
		if at.pkg != p {
			for f := range own {
				out[featureOf{at.pkg.Name, f}] = true
			}
		}
		for _, e := range edges {
			for _, d := range at.pkg.Dependencies {
				to := featureOf{d.Package, e.Feature}
				if d.Key != e.Dep || d.Kind != Normal || out[to] {
					continue
				}
				out[to] = true
				if m := c.project.declaring(d); m != nil && e.Feature != "" {
					queue = append(queue, visit{m, e.Feature})
				}
			}
		}
	}
	return out
}

// hasCode says whether CUDA code may lie behind a feature of a dependency: it is a GPU crate, tests the feature, or depends on a package of which that is true,
// whether or not an edge leads there today.
func (c *EdgeCheck) hasCode(p *Package, at featureOf) bool {
	if known, ok := c.code[at]; ok {
		return known
	}
	c.code[at] = false // for a circle of packages
	crate := c.catalog.Crate(at.pkg)
	has := crate.CUDA()
	if p != nil && !has && (crate == nil || crate.Role != FalseFriend) {
		has = c.gateOf(p, at.feature, nil, "").any()
		for _, d := range p.Dependencies {
			has = has || d.Kind == Normal && c.hasCode(c.project.declaring(d), featureOf{d.Package, at.feature})
		}
	}
	c.code[at] = has
	return has
}

// undeclared notes members through which nobody can turn CUDA on, because they have no feature for it: their dependency has one, and no
// edge leads there. That may be meant, and what a crate nobody knows calls cuda may be anything.
func (c *EdgeCheck) undeclared() []Finding {
	var out []Finding
	for _, m := range c.project.Members {
		if m.ProcMacro || m.Declares("cuda") {
			continue
		}
		on := m.passedOn(m.FeatureNames()...)
		for _, d := range m.Dependencies {
			crate := c.catalog.Crate(d.Package)
			if d.Kind != Normal || on[d.Key+"/cuda"] || crate != nil && !crate.CUDA() || crate == nil && d.Path == "" {
				continue
			}
			to := c.project.declaring(d)
			if to == nil || !to.Declares("cuda") || to.ProcMacro || implied(on, d, to, "cuda") {
				continue
			}
			edge := d.Key + "/cuda"
			if d.Optional {
				edge = d.Key + "?/cuda"
			}
			f := Finding{ID: IDPropagation, Severity: Note, Path: m.Manifest, Line: m.DependencyLine(d), Root: m.Name, Evidence: "manifests", undeclared: true,
				Fix: (&edit{pkg: m, feature: "cuda", add: []string{edge}}).line(), line: lineAt{"cuda", []string{edge}, []string{d.Package}}}
			f.Message = propagationMessage([]Finding{f})
			out = append(out, f)
		}
	}
	return out
}

// implied says whether a feature that is passed on turns the wanted one on: candle-core/cudnn brings its cuda.
func implied(edges map[string]bool, d Dependency, to *Package, want string) bool {
	var given []string
	for _, f := range to.FeatureNames() {
		if edges[d.Key+"/"+f] {
			given = append(given, f)
		}
	}
	on, _ := to.closure(given)
	return contains(sortedKeys(on), want)
}

// passedOn lists what features turn on in dependencies, as "key/feature".
func (p *Package) passedOn(features ...string) map[string]bool {
	out := map[string]bool{}
	_, edges := p.closure(features)
	for _, e := range edges {
		if e.Feature != "" {
			out[e.Dep+"/"+e.Feature] = true
		}
	}
	for _, d := range p.Dependencies { // on already, whatever the feature says: by every entry that is linked
		for _, f := range d.Features {
			on := d.Kind == Normal
			for _, o := range p.Dependencies {
				on = on && (o.Key != d.Key || o.Kind != Normal || contains(o.Features, f))
			}
			if on {
				out[d.Key+"/"+f] = true
			}
		}
	}
	return out
}

// declaring answers the manifest that an entry leads to, where it is on this machine.
func (p *Project) declaring(d Dependency) *Package {
	if d.Path != "" {
		return p.localPackage(d)
	}
	for i := range p.Lock {
		if lp := &p.Lock[i]; lp.Name == d.Package {
			if m := p.registryManifest(lp.Name, lp.Version); m != nil {
				return m
			}
		}
	}
	return nil
}

// localPackage answers the manifest that an entry with a path leads to; nil where it is not among those that were read.
func (p *Project) localPackage(d Dependency) *Package {
	if p == nil || d.Path == "" {
		return nil
	}
	return p.byPath[p.host.Join(d.Path, "Cargo.toml")]
}
