package features

import "fmt"

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
			if to == nil || !to.Declares(q.Feature) || to.ProcMacro {
				continue
			}
			f := Finding{ID: IDPropagation, Severity: Note, Path: q.Package.Manifest, Line: q.Package.FeatureLine(q.Feature), Root: q.Package.Name, Evidence: "manifests",
				Message: fmt.Sprintf("`%s` of %s is not passed on to %s, which has it, too", q.Feature, q.Package.Name, d.Package)}
			if v.gate(to.Dir, to.BuildScript, q.Feature, "").any() {
				f.Severity = Warning
			}
			edge := d.Key + "/" + q.Feature
			if d.Optional {
				edge = d.Key + "?/" + q.Feature
			}
			f.Fix = (&edit{pkg: q.Package, feature: q.Feature, add: []string{edge}}).line()
			out = append(out, f)
		}
	}
	return out, nil
}

// passedOn lists what a feature turns on in dependencies, as "key/feature".
func (p *Package) passedOn(feature string) map[string]bool {
	out := map[string]bool{}
	_, edges := p.closure([]string{feature})
	for _, e := range edges {
		if e.Feature != "" {
			out[e.Dep+"/"+e.Feature] = true
		}
	}
	for _, d := range p.Dependencies {
		for _, f := range d.Features { // on already, whatever the feature says
			out[d.Key+"/"+f] = true
		}
	}
	return out
}

// declaring answers the manifest that an entry leads to, where it is on this machine.
func (p *Project) declaring(d Dependency) *Package {
	if d.Path != "" {
		return p.byPath[p.host.Join(d.Path, "Cargo.toml")]
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
