package features

import (
	"fmt"
	"strings"

	"gpubuild/buildenv"
)

// Plan is what cargo would link of one package with these features, found from manifests and Cargo.lock alone. It is told only what is
// certain: whatever these files cannot say is in Open, and then Graph is not to be judged.
type Plan struct {
	Graph *Graph
	Open  []string // why it is not decided here; empty when it is
}

// PlanBuild follows the features of a member as cargo's feature resolver does, for a build of that package alone on this machine. Tests,
// build scripts and proc-macros are no part of what is linked and are left out.
// Source: rust-lang/cargo, src/cargo/core/resolver/features.rs (FeatureResolver) and facts/features.md 2.
func (p *Project) PlanBuild(member *Package, r Request) *Plan {
	b := &planner{
		Project: p, ask: parseRequest(r), unify: p.Resolver == "1", root: member, plan: &Plan{Graph: &Graph{Version: 1}},
		on: map[*Package]map[string]bool{}, deps: map[*Package]map[string]bool{}, weak: map[*Package]map[string][]string{}, based: map[*Package]bool{}, leads: map[string]bool{},
		known: map[string]int{}, found: map[entry]target{},
	}
	cat, err := DefaultCatalog()
	if err != nil {
		b.open(err.Error())
		return b.plan
	}
	b.catalog = cat
	b.outside(r)
	if member.ProcMacro {
		b.open(member.Name + " is a proc-macro")
	}
	for _, f := range b.wanted() {
		if !member.Declares(f) && f != "default" {
			b.open(fmt.Sprintf("%s has no feature `%s`", member.Name, f))
		}
	}
	if len(b.plan.Open) > 0 {
		return b.plan
	}
	b.pkg(member, b.wanted())
	b.build()
	b.plan.Open = mergeStrings(b.plan.Open)
	return b.plan
}

type planner struct {
	*Project
	catalog *Catalog
	ask     asked
	unify   bool // resolver 1: one set of features for everything
	root    *Package
	plan    *Plan
	on      map[*Package]map[string]bool
	deps    map[*Package]map[string]bool     // dependencies that features turned on, by key
	weak    map[*Package]map[string][]string // features that wait for a dependency
	based   map[*Package]bool
	leads   map[string]bool // answers of leading
	known   map[string]int  // units by package directory
	found   map[entry]target
}

// entry names one entry of one manifest's dependency tables.
type entry struct {
	pkg                     *Package
	key, kind, target, name string
}

func entryOf(p *Package, d Dependency) entry { return entry{p, d.Key, d.Kind, d.Target, d.Package} }

// target is what a dependency entry leads to.
type target struct {
	pkg  *Package
	skip bool // it leads to no GPU crate and its manifest is not here: it cannot matter
}

func (b *planner) open(why string) {
	if len(b.plan.Open) < 20 {
		b.plan.Open = append(b.plan.Open, why)
	}
}

func (b *planner) wanted() []string {
	var out []string
	if !b.ask.noDefault {
		out = append(out, "default")
	}
	if b.ask.all {
		out = append(out, b.root.FeatureNames()...)
	}
	return append(out, b.ask.plain...)
}

// counts says whether an entry takes part in resolving features. Under resolver 1 everything does, for every platform.
func (b *planner) counts(pkg *Package, d Dependency) bool {
	switch {
	case d.Kind == Dev:
		return b.unify && pkg == b.root
	case b.unify:
		return true
	}
	return b.applies(pkg, d)
}

// enters says whether what an entry leads to has the features of what is linked: what build scripts use has its own, but under resolver 1.
func (b *planner) enters(d Dependency) bool { return d.Kind != Build || b.unify }

// applies says whether an entry's target table is that of this machine. Where that cannot be told it is left open, if it can matter.
func (b *planner) applies(pkg *Package, d Dependency) bool {
	if d.Target == "" {
		return true
	}
	t := maybe
	if expr, ok := strings.CutPrefix(d.Target, "cfg("); ok && !strings.Contains(d.Target, "target_arch") {
		t = evalCfg(strings.TrimSuffix(expr, ")"), b.host.OS, b.host.Arch)
	} else if !ok && b.host.OS != buildenv.Windows && strings.Contains(d.Target, "-windows-") {
		t = no
	}
	if t == maybe && b.matters(pkg, d) {
		b.open(fmt.Sprintf("%s: whether [target.%s] applies is cargo's to say", pkg.Manifest, d.Target))
	}
	return t == yes
}

// pkg turns features of a package on, and what belongs to it without any.
func (b *planner) pkg(p *Package, feats []string) {
	if b.on[p] == nil {
		b.on[p], b.deps[p], b.weak[p] = map[string]bool{}, map[string]bool{}, map[string][]string{}
	}
	for _, f := range feats {
		b.feature(p, f)
	}
	if b.based[p] {
		return
	}
	b.based[p] = true
	for _, d := range p.Dependencies {
		if !d.Optional && b.counts(p, d) {
			b.enter(p, d)
		}
	}
}

// enter follows a dependency entry with the features that it names itself.
func (b *planner) enter(p *Package, d Dependency) {
	if !b.enters(d) {
		return
	}
	t := b.dependency(p, d)
	if t.pkg == nil {
		return
	}
	feats := d.Features
	if d.DefaultFeatures {
		feats = append([]string{"default"}, feats...)
	}
	b.pkg(t.pkg, feats)
}

// feature turns one feature of a package on.
func (b *planner) feature(p *Package, f string) {
	if b.on[p][f] || !p.Declares(f) {
		if f != "default" && !p.Declares(f) {
			b.open(fmt.Sprintf("%s has no feature `%s`", p.Name, f))
		}
		return
	}
	b.on[p][f] = true
	edges, _ := p.Edges(f)
	for _, e := range edges {
		switch {
		case e.Dep == "":
			b.feature(p, e.Feature)
		case e.Feature == "":
			b.turnOn(p, e.Dep)
		default:
			b.edge(p, e)
		}
	}
}

// turnOn turns an optional dependency on, and the weak edges that waited for it.
func (b *planner) turnOn(p *Package, key string) {
	if b.deps[p][key] {
		return
	}
	b.deps[p][key] = true
	waiting := b.weak[p][key]
	delete(b.weak[p], key)
	for _, d := range p.Dependencies {
		if d.Key != key || !b.counts(p, d) {
			continue
		}
		b.enter(p, d)
		if !b.enters(d) {
			continue
		}
		if t := b.dependency(p, d); t.pkg != nil {
			for _, f := range waiting {
				b.feature(t.pkg, f)
			}
		}
	}
}

// edge follows x/f and x?/f.
func (b *planner) edge(p *Package, e Edge) {
	for _, d := range p.Dependencies {
		if d.Key != e.Dep || !b.counts(p, d) {
			continue
		}
		if d.Optional {
			if e.Weak && !b.deps[p][e.Dep] {
				b.weak[p][e.Dep] = append(b.weak[p][e.Dep], e.Feature)
				continue
			}
			b.turnOn(p, e.Dep)
			if !e.Weak && p.Declares(e.Dep) { // the old behaviour: a feature of that name goes on with it
				b.feature(p, e.Dep)
			}
		}
		if !b.enters(d) {
			continue
		}
		if t := b.dependency(p, d); t.pkg != nil {
			if b.on[t.pkg] == nil {
				b.pkg(t.pkg, nil)
			}
			b.feature(t.pkg, e.Feature)
		}
	}
}

// dependency finds what an entry leads to.
func (b *planner) dependency(p *Package, d Dependency) target {
	key := entryOf(p, d)
	if t, ok := b.found[key]; ok {
		return t
	}
	t := b.find(p, d)
	b.found[key] = t
	return t
}

func (b *planner) find(p *Package, d Dependency) target {
	if d.Path != "" {
		if local := b.byPath[b.host.Join(d.Path, "Cargo.toml")]; local != nil && local.Name == d.Package {
			return b.side(local)
		}
		b.open(fmt.Sprintf("%s: `%s` is not at %s", p.Manifest, d.Key, d.Path))
		return target{}
	}
	if d.Inherited && d.Version == "" && d.Git == "" {
		b.open(fmt.Sprintf("%s: `%s` is not among the workspace's dependencies", p.Manifest, d.Key))
		return target{}
	}
	lp, why := b.locked(p, d)
	if lp == nil {
		if b.matters(p, d) {
			b.open(why)
		}
		return target{skip: true}
	}
	if !b.leading(lp) {
		return target{skip: true}
	}
	if !strings.HasPrefix(lp.Source, "registry+") && !strings.HasPrefix(lp.Source, "sparse+") {
		b.open(lp.Name + " is not from a registry")
		return target{}
	}
	m := b.registryManifest(lp.Name, lp.Version)
	if m == nil {
		b.open(fmt.Sprintf("the manifest of %s %s is not on this machine (cargo fetch)", lp.Name, lp.Version))
		return target{}
	}
	return b.side(m)
}

// side leaves proc-macros to the host, where they have features of their own; resolver 1 knows no sides.
func (b *planner) side(p *Package) target {
	if p.ProcMacro && !b.unify {
		return target{skip: true}
	}
	return target{pkg: p}
}

// locked answers the package of the lock file that an entry means; nil with the reason when it cannot be told.
func (b *planner) locked(p *Package, d Dependency) (*LockPackage, string) {
	if !b.HasLock {
		return nil, "there is no Cargo.lock"
	}
	var owner *LockPackage
	owners := 0
	for i := range b.Lock {
		if lp := &b.Lock[i]; lp.Name == p.Name && (p.Version == "" || lp.Version == p.Version) {
			owner = lp
			owners++
		}
	}
	if owners != 1 {
		return nil, fmt.Sprintf("Cargo.lock has %d packages %s %s", owners, p.Name, p.Version)
	}
	var found *LockPackage
	for _, dep := range owner.Dependencies {
		name, rest, _ := strings.Cut(dep, " ")
		version, _, _ := strings.Cut(rest, " ")
		if name != d.Package {
			continue
		}
		for i := range b.Lock {
			if lp := &b.Lock[i]; lp.Name == name && (version == "" || lp.Version == version) {
				if found != nil {
					return nil, fmt.Sprintf("%s depends on several %s", p.Name, name)
				}
				found = lp
			}
		}
	}
	if found == nil {
		return nil, fmt.Sprintf("Cargo.lock does not say which %s is the one of %s", d.Package, p.Name)
	}
	return found, ""
}

// leading says whether a locked package leads to a GPU crate.
func (b *planner) leading(lp *LockPackage) bool {
	w := &work{Project: b.Project, catalog: b.catalog}
	if len(b.leads) == 0 {
		w.readLeading()
		b.leads = w.leading
		b.leads[""] = true // read, even when nothing leads
	}
	return b.leads[lockKey(lp)] || b.catalog.Crate(lp.Name) != nil
}

// matters says whether an entry could change what is said of GPU crates: it leads to one, or to a package of the user's whose own code a GPU
// feature may gate. Where that cannot be told the answer is yes.
func (b *planner) matters(p *Package, d Dependency) bool {
	if b.catalog.Crate(d.Package) != nil {
		return true
	}
	if d.Path != "" {
		return b.localMatters(b.byPath[b.host.Join(d.Path, "Cargo.toml")], map[*Package]bool{})
	}
	known := false
	for i := range b.Lock {
		if b.Lock[i].Name == d.Package {
			known = true
			if b.leading(&b.Lock[i]) {
				return true
			}
		}
	}
	return !known
}

func (b *planner) localMatters(p *Package, seen map[*Package]bool) bool {
	if p == nil {
		return true
	}
	if seen[p] {
		return false
	}
	seen[p] = true
	for _, f := range b.ask.gpu {
		if p.Declares(f) {
			return true
		}
	}
	for _, d := range p.Dependencies {
		if d.Kind == Dev {
			continue
		}
		if b.catalog.Crate(d.Package) != nil || d.Path != "" && b.localMatters(b.byPath[b.host.Join(d.Path, "Cargo.toml")], seen) || d.Path == "" && b.matters(p, d) {
			return true
		}
	}
	return false
}
