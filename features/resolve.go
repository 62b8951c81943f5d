package features

import (
	"fmt"
	"sort"
	"strings"
)

// Plan is what cargo would link of some packages with these features, found from manifests and Cargo.lock alone. It is told only what is
// certain: whatever these files cannot say is in Open, and then Graph is not to be judged.
type Plan struct {
	Graph *Graph
	Open  []string // why it is not decided here; empty when it is
}

// PlanBuild is PlanSelection for one member built alone, as from its own directory.
func (p *Project) PlanBuild(member *Package, r Request) *Plan {
	return p.plan([]*Package{member}, member, r, p.Resolver == "1")
}

// PlanSelection follows the features of packages that are built together, as cargo's feature resolver does, for their libraries and programs on this
// machine or for one target. Tests and build scripts are no part of what is linked and are left out.
// Source: rust-lang/cargo, src/cargo/core/resolver/features.rs (FeatureResolver), src/cargo/core/workspace.rs (members_with_features_new and
// _old) and facts/features.md 2.
func (p *Project) PlanSelection(list []*Package, r Request) *Plan {
	return p.plan(list, p.Selected, r, p.Resolver == "1")
}

func (p *Project) plan(list []*Package, current *Package, r Request, unify bool) *Plan {
	b := &planner{
		Project: p, ask: parseRequest(r), unify: unify, roots: list, current: current, plan: &Plan{Graph: &Graph{Version: 1}},
		states: map[unitKey]*state{}, known: map[*Package]int{}, dev: map[*Package]bool{},
	}
	cat, err := DefaultCatalog()
	if err != nil {
		b.open(err.Error())
		return b.plan
	}
	b.catalog = cat
	b.outside(r)
	wanted := b.wanted()
	if len(b.plan.Open) > 0 {
		return b.plan
	}
	for _, w := range wanted {
		b.dev[w.pkg] = true
	}
	for _, w := range wanted {
		sides := []bool{false}
		if w.pkg.ProcMacro && !b.unify {
			sides = []bool{false, true} // cargo turns a selected proc-macro's features on for both sides
		}
		for _, host := range sides {
			k := unitKey{w.pkg, host}
			b.pkg(k, w.features)
			for _, e := range w.edges {
				b.edge(k, e)
			}
		}
	}
	b.build()
	b.plan.Open = mergeStrings(b.plan.Open)
	return b.plan
}

type planner struct {
	*Project
	catalog *Catalog
	ask     asked
	unify   bool // resolver 1: one set of features for everything
	roots   []*Package
	current *Package          // of the current directory: resolver 1 gives --features to it alone
	dev     map[*Package]bool // packages whose dev-dependencies count under resolver 1
	plan    *Plan
	target  platform
	states  map[unitKey]*state
	known   map[*Package]int // units
	found   map[entry]target // of the catalog's and the request's meaning; shared between plans
	matter  map[*Package]bool
}

// unitKey is a package on one side: what is linked, or what build scripts and proc-macros are made of. Under resolver 1 there is one side.
type unitKey struct {
	pkg  *Package
	host bool
}

// state is what is on in a package on one side.
type state struct {
	on    map[string]bool
	deps  map[string]bool     // dependencies that features turned on, by key
	weak  map[string][]string // features that wait for a dependency
	based bool
}

// entry names one entry of one manifest's dependency tables.
type entry struct {
	pkg *Package
	at  int
}

// target is what a dependency entry leads to.
type target struct {
	pkg  *Package
	skip bool   // it leads to no GPU crate and its manifest is not here: it cannot matter
	open string // why it is not known
}

func (b *planner) open(why string) {
	if len(b.plan.Open) < 20 {
		b.plan.Open = append(b.plan.Open, why)
	}
}

// wantedFeatures is what the command line turns on in one package.
type wantedFeatures struct {
	pkg      *Package
	features []string
	edges    []Edge // dependency/feature
}

// wanted gives each selected package its features of the command line. What cargo would refuse is left open: cargo has the words.
func (b *planner) wanted() []wantedFeatures {
	matched := map[string]bool{}
	var out []wantedFeatures
	old := b.unify && b.current != nil // cargo's is_virtual is that of the current directory's manifest, not of the root's
	list := b.roots
	if old && !containsPackage(list, b.current) {
		list = append([]*Package{b.current}, list...) // resolved with them, though not built
	}
	for _, p := range list {
		w := wantedFeatures{pkg: p}
		mine, all, noDefault := b.ask.edges(), b.ask.all, b.ask.noDefault
		if old && p != b.current {
			mine, noDefault = b.memberSpecific(p), false
		} else if old {
			mine = b.notMemberSpecific(mine)
		}
		if !noDefault {
			w.features = append(w.features, "default")
		}
		if all {
			w.features = append(w.features, p.FeatureNames()...)
		}
		for _, e := range mine {
			switch {
			case e.Dep == "" && p.Declares(e.Feature):
				w.features = append(w.features, e.Feature)
				matched[e.Text] = true
			case e.Dep == "":
			case p.dependsOn(e.Dep):
				w.edges = append(w.edges, e)
				matched[e.Text] = true
			case e.Dep == p.Name && p.Declares(e.Feature):
				w.features = append(w.features, e.Feature)
				matched[e.Text] = true
			}
		}
		out = append(out, w)
	}
	for _, e := range b.ask.edges() {
		if matched[e.Text] || e.Text == "default" && e.Dep == "" && !old {
			continue
		}
		name := "none of the selected packages"
		if len(b.roots) == 1 {
			name = b.roots[0].Name
		}
		b.open(fmt.Sprintf("%s has no feature `%s`", name, e.Text))
	}
	return out
}

// notMemberSpecific leaves out what resolver 1 gives to another selected member by its name, and so not to a dependency of that name.
func (b *planner) notMemberSpecific(list []Edge) []Edge {
	var out []Edge
	for _, e := range list {
		others := false
		for _, o := range b.roots {
			others = others || o != b.current && o.Name == e.Dep
		}
		if !others {
			out = append(out, e)
		}
	}
	return out
}

// memberSpecific lists the features that resolver 1 gives to a selected member that is not of the current directory: those with its name in front.
func (b *planner) memberSpecific(p *Package) []Edge {
	var out []Edge
	for _, f := range b.ask.qualified[p.Name] {
		out = append(out, Edge{Text: p.Name + "/" + f, Dep: p.Name, Feature: f})
	}
	return out
}

// edges is what was asked for with --features, in the form of edges.
func (a asked) edges() []Edge {
	var out []Edge
	for _, f := range a.plain {
		out = append(out, Edge{Text: f, Feature: f})
	}
	for _, pkg := range sortedKeys(a.qualified) {
		for _, f := range a.qualified[pkg] {
			out = append(out, Edge{Text: pkg + "/" + f, Dep: pkg, Feature: f})
		}
	}
	return out
}

func containsPackage(list []*Package, p *Package) bool {
	for _, e := range list {
		if e == p {
			return true
		}
	}
	return false
}

func (p *Package) dependsOn(key string) bool {
	for i := range p.Dependencies {
		if p.Dependencies[i].Key == key {
			return true
		}
	}
	return false
}

// counts says whether an entry takes part in resolving features. Under resolver 1 everything does, for every platform.
func (b *planner) counts(k unitKey, d *Dependency) bool {
	switch {
	case d.Kind == Dev:
		return b.unify && b.dev[k.pkg]
	case b.unify:
		return true
	}
	return b.applies(k.pkg, d, k.host || d.Kind == Build)
}

// leads answers what an entry leads to and on which side; nil where it leads to nothing that can matter.
func (b *planner) leads(k unitKey, i int) (unitKey, bool) {
	d := &k.pkg.Dependencies[i]
	t := b.dependency(k.pkg, i)
	host := !b.unify && (k.host || d.Kind == Build || t.pkg != nil && t.pkg.ProcMacro)
	if t.open != "" && !host { // what only the host has never changes what is linked
		b.open(t.open)
	}
	return unitKey{t.pkg, host}, t.pkg != nil
}

// applies says whether an entry's target table is that of what is built. Where that cannot be told it is left open, if it can matter.
func (b *planner) applies(pkg *Package, d *Dependency, host bool) bool {
	if d.Target == "" {
		return true
	}
	p := b.target
	if host {
		p = b.hostIs()
	}
	t := p.applies(d.Target)
	if t == maybe && !host && b.matters(pkg, d) {
		b.open(fmt.Sprintf("%s: whether [target.%s] applies is cargo's to say", pkg.Manifest, d.Target))
	}
	return t == yes
}

func (b *planner) state(k unitKey) *state {
	s := b.states[k]
	if s == nil {
		s = &state{on: map[string]bool{}}
		b.states[k] = s
	}
	return s
}

// pkg turns features of a package on, and what belongs to it without any.
func (b *planner) pkg(k unitKey, feats []string) {
	s := b.state(k)
	for _, f := range feats {
		b.feature(k, s, f)
	}
	if s.based {
		return
	}
	s.based = true
	for i := range k.pkg.Dependencies {
		if d := &k.pkg.Dependencies[i]; !d.Optional && b.counts(k, d) {
			if to, ok := b.leads(k, i); ok {
				b.enter(to, d)
			}
		}
	}
}

// enter follows a dependency entry with the features that it names itself.
func (b *planner) enter(to unitKey, d *Dependency) {
	if d.DefaultFeatures {
		b.pkg(to, append([]string{"default"}, d.Features...))
		return
	}
	b.pkg(to, d.Features)
}

// feature turns one feature of a package on.
func (b *planner) feature(k unitKey, s *state, f string) {
	if s.on[f] {
		return
	}
	edges, declared := k.pkg.edgesOf(f)
	if !declared {
		if f != "default" && !k.host {
			b.open(fmt.Sprintf("%s has no feature `%s`", k.pkg.Name, f))
		}
		return
	}
	s.on[f] = true
	for _, e := range edges {
		switch {
		case e.Dep == "":
			b.feature(k, s, e.Feature)
		case e.Feature == "":
			b.turnOn(k, s, e.Dep)
		default:
			b.edge(k, e)
		}
	}
}

// turnOn turns an optional dependency on, and the weak edges that waited for it.
func (b *planner) turnOn(k unitKey, s *state, key string) {
	if s.deps[key] {
		return
	}
	if s.deps == nil {
		s.deps = map[string]bool{}
	}
	s.deps[key] = true
	waiting := s.weak[key]
	delete(s.weak, key)
	for i := range k.pkg.Dependencies {
		d := &k.pkg.Dependencies[i]
		if d.Key != key || !b.counts(k, d) {
			continue
		}
		if to, ok := b.leads(k, i); ok {
			b.enter(to, d)
			for _, f := range waiting {
				b.feature(to, b.state(to), f)
			}
		}
	}
}

// edge follows x/f and x?/f.
func (b *planner) edge(k unitKey, e Edge) {
	s := b.state(k)
	for i := range k.pkg.Dependencies {
		d := &k.pkg.Dependencies[i]
		if d.Key != e.Dep || !b.counts(k, d) {
			continue
		}
		if d.Optional {
			if e.Weak && !s.deps[e.Dep] {
				if s.weak == nil {
					s.weak = map[string][]string{}
				}
				s.weak[e.Dep] = append(s.weak[e.Dep], e.Feature)
				continue
			}
			b.turnOn(k, s, e.Dep)
			if !e.Weak && k.pkg.Declares(e.Dep) { // the old behaviour: a feature of that name goes on with it
				b.feature(k, s, e.Dep)
			}
		}
		if to, ok := b.leads(k, i); ok {
			b.feature(to, b.state(to), e.Feature)
		}
	}
}

func (b *planner) features(k unitKey) []string {
	s := b.state(k)
	out := make([]string, 0, len(s.on))
	for f := range s.on {
		out = append(out, f)
	}
	sort.Strings(out)
	return out
}

// dependency finds what an entry leads to.
func (b *planner) dependency(p *Package, i int) target {
	if b.found == nil {
		b.found = b.Project.foundFor(b.ask.gpu)
	}
	key := entry{p, i}
	if t, ok := b.found[key]; ok {
		return t
	}
	t := b.find(p, &p.Dependencies[i])
	b.found[key] = t
	return t
}

func (b *planner) find(p *Package, d *Dependency) target {
	if d.Path != "" {
		if local := b.byPath[b.host.Join(d.Path, "Cargo.toml")]; local != nil && local.Name == d.Package {
			return target{pkg: local}
		}
		if source, foreign := b.foreign[p]; foreign { // beside it in its repository
			if m := b.foreignManifest(d.Path, d.Package, source); m != nil {
				return target{pkg: m}
			}
		} else if m := b.readPatch(d.Path); m != nil && m.Name == d.Package { // beside a package that a patch names
			return target{pkg: m}
		}
		return target{open: fmt.Sprintf("%s: `%s` is not at %s", p.Manifest, d.Key, d.Path)}
	}
	if d.Inherited && d.Version == "" && d.Git == "" {
		return target{open: fmt.Sprintf("%s: `%s` is not among the workspace's dependencies", p.Manifest, d.Key)}
	}
	lp, why := b.locked(p, d)
	if lp == nil {
		if b.matters(p, d) {
			return target{skip: true, open: why}
		}
		return target{skip: true}
	}
	if !b.leadsToGPU(lp) {
		return target{skip: true}
	}
	m, why := b.lockedManifest(lp)
	if m == nil {
		return target{open: why}
	}
	return target{pkg: m}
}

// locked answers the package of the lock file that an entry means; nil with the reason when it cannot be told.
func (b *planner) locked(p *Package, d *Dependency) (*LockPackage, string) {
	if !b.HasLock {
		return nil, "there is no Cargo.lock"
	}
	var owner *LockPackage
	owners := 0
	for _, i := range b.lockNamed(p.Name) {
		if lp := &b.Lock[i]; p.Version == "" || lp.Version == p.Version {
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
		for _, i := range b.lockNamed(name) {
			if lp := &b.Lock[i]; version == "" || lp.Version == version {
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

// leadsToGPU says whether a locked package leads to a GPU crate.
func (b *planner) leadsToGPU(lp *LockPackage) bool {
	if b.leading == nil {
		w := &work{Project: b.Project, catalog: b.catalog}
		w.readLeading()
		b.Project.leading = w.leading
	}
	return b.leading[lockKey(lp)] || b.catalog.Crate(lp.Name) != nil
}

// matters says whether an entry could change what is said of GPU crates: it leads to one, or to a package of the user's whose own code a GPU
// feature may gate. Where that cannot be told the answer is yes.
func (b *planner) matters(p *Package, d *Dependency) bool {
	if b.catalog.Crate(d.Package) != nil {
		return true
	}
	if d.Path != "" {
		return b.localMatters(b.byPath[b.host.Join(d.Path, "Cargo.toml")])
	}
	known := false
	for _, i := range b.lockNamed(d.Package) {
		known = true
		if b.leadsToGPU(&b.Lock[i]) {
			return true
		}
	}
	return !known
}

// localMatters is the same for a package of the user's; each is looked at once.
func (b *planner) localMatters(p *Package) bool {
	if p == nil {
		return true
	}
	if b.matter == nil {
		b.matter = b.Project.matterFor(b.ask.gpu)
	}
	if is, known := b.matter[p]; known {
		return is
	}
	// Everything below is looked at together, so that a circle of dev-dependencies has one answer.
	below, queue := map[*Package]bool{p: true}, []*Package{p}
	users := map[*Package][]*Package{}
	var yes []*Package
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		does := false
		for _, f := range b.ask.gpu {
			does = does || at.Declares(f)
		}
		for i := range at.Dependencies {
			d := &at.Dependencies[i]
			if d.Kind == Dev {
				continue
			}
			if d.Path == "" || b.catalog.Crate(d.Package) != nil {
				does = does || b.matters(at, d)
				continue
			}
			to := b.byPath[b.host.Join(d.Path, "Cargo.toml")]
			if is, known := b.matter[to]; to == nil || known {
				does = does || to == nil || is
				continue
			}
			users[to] = append(users[to], at)
			if !below[to] {
				below[to] = true
				queue = append(queue, to)
			}
		}
		if does {
			yes = append(yes, at)
		}
	}
	for q := range below {
		b.matter[q] = false
	}
	for len(yes) > 0 {
		at := yes[0]
		yes = yes[1:]
		if !b.matter[at] {
			b.matter[at] = true
			yes = append(yes, users[at]...)
		}
	}
	return b.matter[p]
}
