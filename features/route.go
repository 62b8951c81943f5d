package features

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// Gap is what one package of a build lacks, and for which of its features.
type Gap struct {
	Root    string // package
	Feature string // as the user calls it
	Lacks   []Lack // none: nothing is linked yet that could have it
}

// Route is a change of the command line that would close gaps, as far as manifests show. Only cargo knows whether it does.
type Route struct {
	Features  []string // to ask for in addition
	Packages  []string // to build together with what was asked for
	Workspace bool     // to build every member
}

func (r Route) size() int {
	n := len(r.Features) + 2*len(r.Packages)
	if r.Workspace {
		n += 10
	}
	return n
}

// Gaps lists what the faults of an answer lack, each package once.
func Gaps(a *Answer) []Gap {
	var out []Gap
	for _, f := range a.Findings {
		if f.Severity == Note || f.ID != IDUnreached && f.ID != IDSibling && f.ID != IDCudnnAlone && f.ID != IDWeak {
			continue
		}
		root, _, _ := strings.Cut(f.Root, " (")
		feature := "cuda"
		for _, r := range a.Roots {
			if r.Package == root && len(r.Asked) > 0 && !slices.Contains(r.Asked, "cuda") {
				feature = r.Asked[0]
			}
		}
		at := slices.IndexFunc(out, func(g Gap) bool { return g.Root == root })
		if at < 0 {
			out = append(out, Gap{Root: root, Feature: feature})
			at = len(out) - 1
		}
		for _, l := range f.Lacks {
			if !slices.Contains(out[at].Lacks, l) {
				out[at].Lacks = append(out[at].Lacks, l)
			}
		}
	}
	return out
}

// GapsWithout lists the GPU crates that a build without the feature leaves off: what its user meant where no selected package declares it.
func GapsWithout(h buildenv.Host, in Input, feature string) ([]Gap, error) {
	v, err := in.view(h)
	if err != nil {
		return nil, err
	}
	var out []Gap
	for i := range v.Roots {
		r := &v.Roots[i]
		g := Gap{Root: v.Nodes[r.Node].Name, Feature: feature}
		for _, n := range r.Linked {
			if c := v.Crate(n); c.CUDA() && c.Role == catalog.Gated && n != r.Node && !c.On(v.Nodes[n].Features) &&
				v.Declares(n, c.Means(feature)) {
				g.Lacks = append(g.Lacks, v.lack(n, c.Means(feature)))
			}
		}
		if len(g.Lacks) > 0 {
			out = append(out, g)
		}
	}
	return out, nil
}

// Closed says whether a build has what the gaps lack: every unit of these packages has every crate's feature.
func Closed(h buildenv.Host, in Input, gaps []Gap) (bool, error) {
	v, err := in.view(h)
	if err != nil {
		return false, err
	}
	for _, g := range gaps {
		roots := v.rootsOf(g.Root)
		for _, r := range roots {
			for _, l := range g.Lacks {
				if i := v.linkedCrate(r, l); i < 0 || !slices.Contains(v.Nodes[i].Features, l.Feature) {
					return false, nil
				}
			}
			if len(g.Lacks) == 0 && !slices.ContainsFunc(r.Linked, v.CUDAOn) {
				return false, nil
			}
		}
		if len(roots) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// rootsOf lists the roots of a package.
func (v *view) rootsOf(pkg string) []*graph.Root {
	var out []*graph.Root
	for i := range v.Roots {
		if r := &v.Roots[i]; v.Nodes[r.Node].Name == pkg {
			out = append(out, r)
		}
	}
	return out
}

// linkedCrate answers the linked node that a lack is about; -1 when it is not linked. With several sets of features of one crate the one
// that lacks it.
func (v *view) linkedCrate(r *graph.Root, l Lack) int {
	found := -1
	for _, i := range r.Linked {
		if n := &v.Nodes[i]; n.Name == l.Crate && n.Version == l.Version {
			if found = i; !slices.Contains(n.Features, l.Feature) {
				return i
			}
		}
	}
	return found
}

// option is one thing that can be added to a command line.
type option struct {
	feature string // "cuda", "dep/cuda" or "member/cuda"
	member  string // a member to select, too; empty: none
	opens   bool   // it brings crates that are not linked yet
	from    []placed
	covers  []bool // which needs it closes, as manifests say
	on      map[graph.Feature]bool
}

const (
	maxOptions = 60 // things to add that are combined
	maxRoutes  = 60 // combinations that cargo is worth asking about
)

// Routes lists the command lines that could close the gaps, the smallest first: features of the selected packages, features of their direct
// dependencies (which cargo takes as `dependency/feature`), and members to build together with them, whose features unify with theirs.
func Routes(h buildenv.Host, in Input, gaps []Gap) ([]Route, error) {
	v, err := in.view(h)
	if err != nil {
		return nil, err
	}
	s := &router{view: v, ask: manifest.ParseRequest(in.Request), alone: len(in.Request.Packages) == 0 && !in.Request.Workspace}
	var need []placed // one lack of one root
	var open bool     // a root that has nothing yet that could be on
	for _, g := range gaps {
		for _, r := range v.rootsOf(g.Root) {
			open = open || len(g.Lacks) == 0
			for _, l := range g.Lacks {
				if n := v.linkedCrate(r, l); n >= 0 {
					need = append(need, placed{r, graph.Feature{Node: n, Name: l.Feature}})
				}
			}
			if len(g.Lacks) == 0 {
				s.turning(r, g.Feature)
				s.opening(r)
			}
			s.own(r)
			s.direct(r)
		}
	}
	s.members()
	s.cover(need, open)
	routes := s.combine()
	if in.Project != nil && !in.Request.Workspace && len(in.Project.Members) > 1 {
		routes = append(routes, Route{Workspace: true})
	}
	sort.SliceStable(routes, func(i, j int) bool { return routes[i].size() < routes[j].size() })
	return routes[:min(len(routes), maxRoutes)], nil
}

// placed is a feature that a node of a root should have.
type placed struct {
	root *graph.Root
	graph.Feature
}

type router struct {
	*view
	ask     manifest.Asked
	alone   bool // no package was named: a -p would build that one alone
	options []option
}

func (s *router) add(o option) {
	for i := range s.options {
		if have := &s.options[i]; have.feature == o.feature && have.member == o.member {
			have.from, have.opens = append(have.from, o.from...), have.opens || o.opens
			return
		}
	}
	if len(s.options) < maxOptions {
		s.options = append(s.options, o)
	}
}

// own adds the features of the root's package that are off.
func (s *router) own(r *graph.Root) {
	p := s.ManifestOf(r.Node)
	if p == nil {
		return
	}
	for _, f := range p.FeatureNames() {
		if f != "default" && !slices.Contains(s.Nodes[r.Node].Features, f) {
			s.add(option{feature: f, from: []placed{{r, graph.Feature{Node: r.Node, Name: f}}}})
		}
	}
}

// turning adds what turns on the optional dependencies that a feature's weak edges wait for.
func (s *router) turning(r *graph.Root, feature string) {
	p := s.ManifestOf(r.Node)
	if p == nil {
		return
	}
	_, edges := p.Closure([]string{feature})
	for _, e := range edges {
		if !e.Weak {
			continue
		}
		for _, f := range p.FeatureNames() {
			_, more := p.Closure([]string{f})
			for _, o := range more {
				if o.Dep == e.Dep && !o.Weak {
					s.add(option{feature: f, opens: true, from: []placed{{r, graph.Feature{Node: r.Node, Name: f}}}})
				}
			}
		}
		s.add(option{feature: e.Dep + "/" + e.Feature, opens: true})
	}
}

// opening adds the features of the root's package and of its direct dependencies that lead to CUDA code which is not linked yet.
func (s *router) opening(r *graph.Root) {
	p := s.ManifestOf(r.Node)
	if p == nil || s.Project == nil {
		return
	}
	c, want := s.planner(), "cuda"
	if slices.ContainsFunc(s.ask.Plain, func(f string) bool { return manifest.Meaning(f) == "cudnn" }) {
		want = "cudnn"
	}
	for _, f := range p.FeatureNames() {
		if f != "default" && !slices.Contains(s.Nodes[r.Node].Features, f) && c.leads(p, f) {
			s.add(option{feature: f, opens: true})
		}
	}
	for _, d := range p.Dependencies {
		q := s.Project.Declaring(d)
		if d.Kind != manifest.Normal || q == nil {
			continue
		}
		for _, f := range q.FeatureNames() {
			if s.ask.IsGPU(f) && c.leads(q, f) && (manifest.Meaning(f) == want || !q.Declares(want)) {
				s.add(option{feature: d.Key + "/" + f, opens: true})
			}
		}
	}
}

// direct adds the features of the root's direct dependencies.
func (s *router) direct(r *graph.Root) {
	p := s.ManifestOf(r.Node)
	if p == nil {
		return
	}
	for _, d := range p.Dependencies {
		if d.Kind != manifest.Normal {
			continue
		}
		to := s.DepNode(r.Node, d, r.Set)
		if to < 0 {
			continue
		}
		q := s.ManifestOf(to)
		if q == nil {
			if c := s.Crate(to); c != nil && len(c.CUDAFeatures) > 0 {
				s.add(option{feature: d.Key + "/" + c.CUDAFeatures[0],
					from: []placed{{r, graph.Feature{Node: to, Name: c.CUDAFeatures[0]}}}})
			}
			continue
		}
		for _, f := range q.FeatureNames() {
			if f != "default" && !slices.Contains(s.Nodes[to].Features, f) {
				s.add(option{feature: d.Key + "/" + f, from: []placed{{r, graph.Feature{Node: to, Name: f}}}})
			}
		}
	}
}

// members adds the workspace's other members: built together, the features that their edges turn on hold for the selected packages, too.
func (s *router) members() {
	if s.Project == nil {
		return
	}
	for _, m := range s.Project.Members {
		if len(s.rootsOf(m.Name)) > 0 || m.ProcMacro {
			continue
		}
		already := append([]string{"default"}, s.ask.Plain...)
		if s.ask.NoDefault {
			already = s.ask.Plain
		}
		s.member(m, "", already)
		for _, f := range m.FeatureNames() {
			if !slices.Contains(already, f) {
				s.member(m, m.Name+"/"+f, append([]string{f}, already...))
			}
		}
	}
}

// member adds one member with features: it begins where its edges and its dependency tables meet what is linked.
func (s *router) member(m *manifest.Package, feature string, on []string) {
	_, edges := m.Closure(on)
	var from []placed
	for _, d := range m.Dependencies {
		if d.Kind != manifest.Normal {
			continue
		}
		feats := append([]string{}, d.Features...)
		if d.DefaultFeatures {
			feats = append(feats, "default")
		}
		for _, e := range edges {
			if e.Dep == d.Key && e.Feature != "" {
				feats = append(feats, e.Feature)
			}
		}
		for i := range s.Roots {
			r := &s.Roots[i]
			for _, n := range r.Linked {
				if s.Nodes[n].Name != d.Package || n == r.Node {
					continue
				}
				for _, f := range feats {
					from = append(from, placed{r, graph.Feature{Node: n, Name: f}})
				}
			}
		}
	}
	if len(from) > 0 {
		s.add(option{feature: feature, member: m.Name, from: from})
	}
}

// cover finds which needs each option closes. That something is brought in, where nothing is linked yet, is one need more.
func (s *router) cover(need []placed, open bool) {
	for i := range s.options {
		o := &s.options[i]
		o.covers, o.on = make([]bool, len(need)), map[graph.Feature]bool{}
		for _, from := range o.from {
			on := s.Carried(from.root, from.Feature)
			maps.Copy(o.on, on)
			for n, want := range need {
				o.covers[n] = o.covers[n] || want.root == from.root && on[want.Feature]
			}
		}
		if open {
			o.covers = append(o.covers, o.opens)
		}
	}
}

// excessive says whether an option does all that another one does, and more
// that nobody asked for: candle-core/cudnn where candle-core/cuda will do.
func (s *router) excessive(i int) bool {
	for k := range s.options {
		a, b := &s.options[k], &s.options[i]
		if k == i || len(a.on) == 0 || len(a.on) >= len(b.on) || a.member != "" && a.member != b.member {
			continue
		}
		within := true
		for f := range a.on {
			within = within && b.on[f]
		}
		for n := range b.covers {
			within = within && (a.covers[n] || !b.covers[n])
		}
		if within {
			return true
		}
	}
	return false
}

// combine lists the smallest sets of options that close all needs.
func (s *router) combine() []Route {
	var useful []int
	for i, o := range s.options {
		if slices.Contains(o.covers, true) && !s.excessive(i) {
			useful = append(useful, i)
		}
	}
	var out []Route
	var grow func(chosen []int, from, left int)
	grow = func(chosen []int, from, left int) {
		switch {
		case len(out) >= maxRoutes:
		case left > 0:
			for i := from; i < len(useful); i++ {
				grow(append(slices.Clip(chosen), useful[i]), i+1, left-1)
			}
		case s.closes(chosen):
			out = append(out, s.route(chosen))
		}
	}
	for size := 1; size <= 4; size++ {
		grow(nil, 0, size)
	}
	return out
}

// closes says whether a set closes every need and none of its options is idle in it.
func (s *router) closes(set []int) bool {
	closed := func(without int) bool {
		for n := range s.options[set[0]].covers {
			if !slices.ContainsFunc(set, func(i int) bool { return i != without && s.options[i].covers[n] }) {
				return false
			}
		}
		return true
	}
	return closed(-1) && !slices.ContainsFunc(set, closed)
}

func (s *router) route(set []int) Route {
	var r Route
	for _, i := range set {
		o := s.options[i]
		if o.feature != "" {
			r.Features = manifest.Union(r.Features, []string{o.feature})
		}
		if o.member != "" {
			for j := range s.Roots {
				if s.alone {
					r.Packages = manifest.Union(r.Packages, []string{s.Nodes[s.Roots[j].Node].Name})
				}
			}
			r.Packages = manifest.Union(r.Packages, []string{o.member})
		}
	}
	return r
}

// Block says why no command line closes a gap, and what would: a dependency of the package's own with the feature.
type Block struct {
	Root     string `json:"root"`
	Lack     Lack   `json:"lack"`
	Why      string `json:"why"`
	Manifest string `json:"manifest,omitempty"` // where the line would stand; empty: outside the workspace, or nothing would help
	Feature  string `json:"feature,omitempty"`  // the feature that gets the edge
	Key      string `json:"key,omitempty"`      // the dependency …
	Line     string `json:"line,omitempty"`     // … and its value
}

// Blocked says for each lack where its way from the command line ends.
func Blocked(h buildenv.Host, in Input, gaps []Gap) ([]Block, error) {
	v, err := in.view(h)
	if err != nil {
		return nil, err
	}
	s := &router{view: v, ask: manifest.ParseRequest(in.Request)}
	var out []Block
	seen := map[Lack]bool{}
	for _, g := range gaps {
		for _, r := range v.rootsOf(g.Root) {
			for _, l := range g.Lacks {
				if n := v.linkedCrate(r, l); n >= 0 && !seen[l] {
					seen[l] = true
					out = append(out, s.block(r, g, l, n))
				}
			}
		}
	}
	return out, nil
}

func (s *router) block(r *graph.Root, g Gap, l Lack, to int) Block {
	b := Block{Root: g.Root, Lack: l}
	way := s.wayTo(r, to)
	if len(way) < 3 { // a direct dependency, or the package itself: cargo accepts its name
		b.Why = fmt.Sprintf("%s %s is linked by %s itself, and cargo refused or ignored each command line that names its feature",
			l.Crate, l.Version, g.Root)
		return b
	}
	var names []string
	for _, i := range way[1 : len(way)-1] {
		names = append(names, s.Nodes[i].Name+" "+s.Nodes[i].Version)
	}
	b.Why = fmt.Sprintf("%s %s is linked through %s, and no feature of %s carries `%s` to it; "+
		"cargo takes `package/feature` for the selected packages and their direct dependencies only",
		l.Crate, l.Version, strings.Join(names, " → "), names[0], l.Feature)
	p := s.ManifestOf(r.Node)
	if p == nil || s.Project == nil || !s.Project.IsMember(p) {
		return b
	}
	if line := s.dependencyValue(p, to); line != "" {
		b.Manifest, b.Key, b.Line, b.Feature = p.Manifest, l.Crate, line, g.Feature
	}
	return b
}

// wayTo is the shortest chain of linked packages from a root to a node, both included.
func (s *router) wayTo(r *graph.Root, to int) []int {
	from := map[int]int{r.Node: -1}
	queue := []int{r.Node}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at == to {
			var out []int
			for i := at; i >= 0; i = from[i] {
				// the library of the program's own package is no step
				if len(out) == 0 || s.Nodes[out[0]].ID != s.Nodes[i].ID || s.Nodes[i].ID == "" {
					out = append([]int{i}, out...)
				}
			}
			return out
		}
		for _, d := range s.Nodes[at].Deps {
			if _, known := from[d.To]; !known && r.Set[d.To] {
				from[d.To] = at
				queue = append(queue, d.To)
			}
		}
	}
	return nil
}

// dependencyValue is the value of a dependency entry that means the very package that is linked; empty where that cannot be written.
func (s *router) dependencyValue(p *manifest.Package, node int) string {
	n := &s.Nodes[node]
	id := manifest.ParsePkgID(n.ID)
	source := ""
	switch {
	case id.Kind == "path":
		dir := id.Dir(s.Host)
		if dir == "" {
			return ""
		}
		source = "path = " + buildenv.TOMLString(strings.ReplaceAll(relative(s.Host, p.Dir, dir), `\`, "/"))
	case id.Kind == "git":
		source = "git = " + buildenv.TOMLString(id.URL)
		if key, value, ok := strings.Cut(id.Query, "="); ok && (key == "branch" || key == "tag" || key == "rev") {
			source += ", " + key + " = " + buildenv.TOMLString(value)
		}
	case strings.Contains(id.URL, "crates.io"):
		source = "version = " + buildenv.TOMLString(n.Version)
	default:
		return "" // another registry: its name is in the user's configuration
	}
	return "{ " + source + ", default-features = false }"
}

// relative is the way from one directory to another; the other one itself where they share nothing.
func relative(h buildenv.Host, from, to string) string {
	up := ""
	for d := range h.Upwards(h.Clean(from)) {
		if h.SamePath(d, to) {
			return strings.TrimSuffix(up, "/")
		}
		if h.Below(to, d) {
			return up + strings.TrimLeft(to[len(d):], `/\`)
		}
		up += "../"
	}
	return to
}
