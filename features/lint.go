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

// Propagation compares names only: a member's GPU feature that a dependency declares, too, and that is not passed on to it. It is a
// warning where the feature gates code of the dependency and the user's manifests can be blamed for its absence, a note where the
// dependency only forwards. It knows no selection; whether a build is hurt is Judge's to say.
func (p *Project) Propagation(gpu []string) ([]Finding, error) {
	cat, err := DefaultCatalog()
	if err != nil {
		return nil, err
	}
	v := newView(p.host, p, cat, &Graph{}, nil)
	var out []Finding
	for _, q := range p.Questions(gpu) {
		edges := q.Package.passedOn(q.Feature)
		for _, d := range q.Package.Dependencies {
			c := cat.Crate(d.Package)
			if d.Kind != Normal || edges[d.Key+"/"+q.Feature] || c != nil && c.Role == FalseFriend {
				continue
			}
			to := p.declaring(d)
			if to == nil || !to.Declares(q.Feature) || to.ProcMacro || implied(edges, d, to, q.Feature) {
				continue
			}
			f := Finding{ID: IDPropagation, Severity: Note, Path: q.Package.Manifest, Line: q.Package.FeatureLine(q.Feature), Root: q.Package.Name, Evidence: "manifests"}
			if v.gateOf(to, q.Feature, nil, "").any() {
				f.Severity = Warning
			}
			edge := d.Key + "/" + q.Feature
			if d.Optional {
				edge = d.Key + "?/" + q.Feature
			}
			f.Fix = (&edit{pkg: q.Package, feature: q.Feature, add: []string{edge}}).line()
			f.line = lineAt{q.Feature, []string{edge}, []string{d.Package}}
			f.Message = propagationMessage([]Finding{f})
			out = append(out, f)
		}
	}
	return append(out, p.undeclared(cat)...), nil
}

// undeclared notes members through which nobody can turn CUDA on, because they have no feature for it: their dependency has one, and no
// edge leads there. That may be meant, and what a crate nobody knows calls cuda may be anything.
func (p *Project) undeclared(cat *Catalog) []Finding {
	var out []Finding
	for _, m := range p.Members {
		if m.ProcMacro || m.Declares("cuda") {
			continue
		}
		on := m.passedOn(m.FeatureNames()...)
		for _, d := range m.Dependencies {
			c := cat.Crate(d.Package)
			if d.Kind != Normal || on[d.Key+"/cuda"] || c != nil && !c.CUDA() || c == nil && d.Path == "" {
				continue
			}
			to := p.declaring(d)
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
