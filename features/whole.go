package features

// wholeKey is one feature of one package.
type wholeKey struct {
	pkg     *Package
	feature string
}

// wholly is what is known of such a feature, whatever other features are on beside it.
type wholly struct {
	ok      bool // every GPU crate and every package of the user's below that can be linked gets CUDA
	reaches bool // at least one GPU crate is linked and has it
	done    bool
}

// Clear says that a member built alone with its cuda has no fault, without a plan of that build: each package below passes the feature on to everything
// below it that has to do with GPUs. What is found of a package holds for all that use it, so that a workspace of members that all pass the feature on
// is looked at once and not once for each of them. false only means that a plan is needed.
func (p *Project) Clear(member *Package, r Request) bool {
	if len(r.Features) != 1 || r.Features[0] != "cuda" || r.AllFeatures || len(r.GPUFeatures) > 0 || member.ProcMacro || len(p.lockNamed("cudarc")) > 1 {
		return false
	}
	cat, err := DefaultCatalog()
	if err != nil || cat.Crate(member.Name) != nil {
		return false
	}
	b := &planner{Project: p, catalog: cat, ask: parseRequest(r), unify: p.Resolver == "1", roots: []*Package{member}, current: member, plan: &Plan{}}
	b.outside(r)
	if len(b.plan.Open) > 0 || b.byChance(member) {
		return false
	}
	w := b.wholeOf(member, "cuda")
	return w.ok && w.reaches && len(b.plan.Open) == 0
}

// byChance says whether a member's cudnn may be on in the build with cuda: that feature has a judgement of its own.
func (b *planner) byChance(p *Package) bool {
	if !p.Declares("cudnn") {
		return false
	}
	on, _ := p.closure([]string{"cuda", "default"})
	return on["cudnn"] || b.unify
}

func (b *planner) wholeOf(p *Package, feature string) wholly {
	key := b.target.triple + "\x00" + b.target.os
	if b.whole == nil {
		b.Project.whole = map[string]map[wholeKey]*wholly{}
	}
	if b.whole[key] == nil {
		b.whole[key] = map[wholeKey]*wholly{}
	}
	at := wholeKey{p, feature}
	if w := b.whole[key][at]; w != nil {
		return wholly{ok: w.ok && w.done, reaches: w.reaches} // not done: a circle, which is not followed
	}
	w := &wholly{}
	b.whole[key][at] = w
	w.ok, w.reaches = b.lookWhole(p, feature)
	w.done = true
	return *w
}

func (b *planner) lookWhole(p *Package, feature string) (ok, reaches bool) {
	if !p.Declares(feature) || !b.soundEdges(p) {
		return false, false
	}
	_, edges := p.closure([]string{feature})
	on, tied := map[string]bool{}, map[string][]string{}
	for _, e := range edges {
		if !e.Weak {
			on[e.Dep] = true
		}
		if e.Feature != "" {
			tied[e.Dep] = append(tied[e.Dep], e.Feature)
		}
	}
	for i := range p.Dependencies {
		d := &p.Dependencies[i]
		if d.Kind != Normal {
			continue
		}
		if d.Target != "" {
			switch b.target.applies(d.Target) {
			case no:
				continue
			case maybe:
				if b.matters(p, d) {
					return false, false
				}
				continue
			}
		}
		if !b.matters(p, d) {
			continue
		}
		c := b.catalog.Crate(d.Package)
		if c != nil && (c.Role == FalseFriend || c.Role == Helper) {
			continue
		}
		if c != nil && !c.CUDA() {
			return false, false
		}
		t := b.dependency(p, i)
		switch {
		case t.open != "":
			return false, false
		case t.pkg == nil:
			continue
		case t.pkg.ProcMacro:
			continue
		}
		linked := !d.Optional || on[d.Key]
		if c != nil && c.Role == Carrier {
			reaches = reaches || linked
			continue
		}
		way := ""
		for _, f := range tied[d.Key] {
			if c != nil && contains(c.CUDAFeatures, f) || c == nil && f == "cuda" {
				way = f
			}
		}
		if way == "" {
			return false, false
		}
		below := b.wholeOf(t.pkg, way)
		if !below.ok {
			return false, false
		}
		reaches = reaches || linked && (c != nil || below.reaches)
	}
	return true, reaches
}

// soundEdges says whether no edge of a package can be a fault of its own: one that names nothing, or a weak one of a GPU feature whose dependency
// may be off.
func (b *planner) soundEdges(p *Package) bool {
	x := p.indexed()
	for _, list := range x.edges {
		for _, e := range list {
			if e.Dep == "" && !p.Declares(e.Feature) && e.Feature != "default" {
				return false
			}
		}
	}
	for _, f := range b.ask.gpu {
		_, edges := p.closure([]string{f})
		on := map[string]bool{}
		for _, e := range edges {
			if !e.Weak {
				on[e.Dep] = true
			}
		}
		for _, e := range edges {
			if e.Weak && x.optional[e.Dep] && !on[e.Dep] {
				return false
			}
		}
	}
	return true
}
