package features

// wholeKey is one feature of one package.
type wholeKey struct {
	pkg     *Package
	feature string
}

// wholly is what is known of such a feature, whatever other features are on beside it.
type wholly struct {
	ok      bool // every GPU crate and every package of the user's below that can be linked gets CUDA, if all of lacks do
	reaches bool // at least one GPU crate is linked and has it
	done    bool
	gets    featureSet // what it certainly turns on
	lacks   featureSet // what can be linked below and is not passed the feature by one that depends on it: another may do that
}

// featureSet is a set of features of packages, a bit for each; nil is empty. A set is not changed once it is kept.
type featureSet []uint64

func (s featureSet) with(o featureSet) featureSet {
	for len(s) < len(o) {
		s = append(s, 0)
	}
	for i, bits := range o {
		s[i] |= bits
	}
	return s
}

func (s featureSet) plus(n int) featureSet {
	for len(s) <= n/64 {
		s = append(s, 0)
	}
	s[n/64] |= 1 << (n % 64)
	return s
}

// within says whether all of s is in o.
func (s featureSet) within(o featureSet) bool {
	for i, bits := range s {
		if bits != 0 && (i >= len(o) || bits&^o[i] != 0) {
			return false
		}
	}
	return true
}

// bit is the number of a feature of a package in sets.
func (p *Project) bit(at wholeKey) int {
	n, known := p.bits[at]
	if !known {
		if p.bits == nil {
			p.bits = map[wholeKey]int{}
		}
		n = len(p.bits)
		p.bits[at] = n
	}
	return n
}

// Clear says that a member built alone with its cuda has no fault, without a plan of that build: each package below passes the feature on to everything
// below it that has to do with GPUs, or something else of the same build does in its place. What is found of a package holds for all that use it, so that a
// workspace is looked at once and not once for each of its members. false only means that a plan is needed.
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
	return w.ok && w.reaches && w.lacks.within(w.gets) && len(b.plan.Open) == 0
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
		out := *w
		out.ok = w.ok && w.done // not done: a circle, which is not followed
		return out
	}
	w := &wholly{}
	b.whole[key][at] = w
	*w = b.lookWhole(p, feature)
	w.done = true
	return *w
}

func (b *planner) lookWhole(p *Package, feature string) (w wholly) {
	if !p.Declares(feature) || !b.soundEdges(p) {
		return w
	}
	w.gets = w.gets.plus(b.bit(wholeKey{p, feature}))
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
					return wholly{}
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
			return wholly{}
		}
		t := b.dependency(p, i)
		switch {
		case t.open != "":
			return wholly{}
		case t.pkg == nil:
			continue
		case t.pkg.ProcMacro:
			continue
		}
		linked := !d.Optional || on[d.Key]
		if c != nil && c.Role == Carrier {
			w.reaches = w.reaches || linked
			continue
		}
		way := ""
		for _, f := range tied[d.Key] {
			if c != nil && contains(c.CUDAFeatures, f) || c == nil && f == "cuda" {
				way = f
			}
		}
		passed := way != ""
		if !passed {
			way = "cuda"
			if c != nil {
				way = means(c, way)
			}
			w.lacks = w.lacks.plus(b.bit(wholeKey{t.pkg, way}))
		}
		below := b.wholeOf(t.pkg, way)
		if !below.ok {
			return wholly{}
		}
		w.lacks = w.lacks.with(below.lacks)
		if passed && linked {
			w.gets = w.gets.with(below.gets)
			w.reaches = w.reaches || c != nil || below.reaches
		}
	}
	w.ok = true
	return w
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
