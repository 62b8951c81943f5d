package features

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
)

// Input says which build is judged, and has cargo's answers about it.
type Input struct {
	Project *manifest.Project
	Request manifest.Request
	Graph   *graph.Graph
	Unknown string            // why there is no graph
	Alone   *manifest.Package // instead of a graph: this member as manifests show what it links, built alone
	Sure    bool              // … and by edges only that count for every target
	Strict  bool              // warnings stop, too
	Missing []string          // GPU features that were asked for, and that no selected package declares: cargo was asked without them
	Lint    bool              // nobody asked for this build: a feature that only counts together with another one does not stop it
	Named   []string          // packages that compile kernels although nothing shows it, as gpubuild.toml says
	Sources *Sources          // shared by several questions about one workspace; nil: read for this one
	// Compiled reports whether our nvcc has compiled kernels for a package's build script before; nil: nothing is known
	Compiled func(*manifest.Package) bool
	Target   func() string // the triple that is built for where cargo names none; nil: nobody knows
}

// Sources reads the packages of a workspace, each text once.
type Sources struct {
	*source.Reader
	host    buildenv.Host
	project *manifest.Project
	device  map[*manifest.Package]bool // it holds device code, or what may hold it
	cuda    map[string]bool            // by directory: its build script may compile CUDA code
	last    *graph.View                // of possible
	means   map[*manifest.Package]map[string][]string
}

// NewSources prepares reading the packages of a workspace.
func NewSources(h buildenv.Host, p *manifest.Project) *Sources {
	return &Sources{Reader: source.NewReader(h, p.Root), host: h, project: p, device: map[*manifest.Package]bool{},
		cuda: map[string]bool{}, means: map[*manifest.Package]map[string][]string{}}
}

// named lists the features of a package that mean a backend by their name. Every package that depends on it is asked about them.
func (s *Sources) named(a *manifest.Asked, p *manifest.Package, backend string) []string {
	if s.means[p] == nil {
		s.means[p] = map[string][]string{}
		for _, name := range p.FeatureNames() {
			b, loose := a.BackendOf(name, nil)
			if _, which := catalog.CudarcVersion(name); !loose && !which && !p.Implicit(name) { // a version says which CUDA, and not whether
				s.means[p][b] = append(s.means[p][b], name)
			}
		}
	}
	return s.means[p][backend]
}

// possible is what manifests let a package link. The last answer is kept: questions about one package come one after the other.
func (s *Sources) possible(p *manifest.Project, known *catalog.Catalog, member *manifest.Package) *graph.View {
	if s.last == nil || s.last.Project != p || s.last.Catalog != known || s.last.Nodes[0].Pkg != member {
		s.last = graph.Possible(p, known, member)
	}
	return s.last
}

// Facts is everything that Judge decides from. It is complete: Judge reads nothing.
type Facts struct {
	Input       Input
	*graph.View // what the build links, with the packages' manifests, and a catalog that has the user's own GPU packages, too

	os       string
	cuda     map[*manifest.Package]bool // of packages outside of the catalog: their build scripts can compile CUDA code
	compiles map[*manifest.Package]bool // of the user's packages: their build scripts can compile device code
	scripts  map[int]*scriptFacts       // by node: what its build script needs; none: it has no script, or needs are not judged
	floors   []Floor
	torch    map[int]source.Libtorch // by node of torch-sys, and of what downloads a library that has no CUDA for the target
	lacking  []int                   // those of torch that download a library
	cudarc   cudarcVariable
}

// cudarcVariable is CUDARC_CUDA_VERSION.
type cudarcVariable struct {
	value           string
	set, configured bool // in the environment; in a configuration file of cargo's
}

// Gather reads what Judge decides from.
func Gather(h buildenv.Host, in Input) Facts {
	if in.Sources == nil {
		in.Sources = NewSources(h, in.Project)
	}
	src := in.Sources
	f := Facts{Input: in, os: h.OS, cuda: map[*manifest.Package]bool{}, compiles: map[*manifest.Package]bool{},
		scripts: map[int]*scriptFacts{}, torch: map[int]source.Libtorch{}}
	switch {
	case in.Graph != nil:
		f.View = graph.NewView(h, in.Project, in.Graph)
	case in.Alone != nil:
		f.View = src.possible(in.Project, catalog.Default(), in.Alone).Alone(in.Request, in.Sure)
	default: // what a build of the selected packages could need, manifests show
		selected, _ := in.Project.Selection(in.Request)
		f.View = graph.Possible(in.Project, catalog.Default(), selected...).Alone(in.Request, false)
	}
	f.Catalog = withNamed(f.View, in.Named)
	f.cudarc.value, f.cudarc.set = h.Env.Lookup("CUDARC_CUDA_VERSION")
	for i := range f.Nodes {
		switch name := f.Nodes[i].Name; {
		case name == "torch-sys" && !in.Lint: // which finds another libtorch on each machine
			f.torch[i] = src.LibtorchOf(f.Nodes[i].Features)
		case name == "cudarc":
			f.cudarc.configured = f.cudarc.configured || !f.cudarc.set && src.ConfigNames("CUDARC_CUDA_VERSION")
		}
	}
	f.readArchives(src)
	f.readOwn(src)
	if in.Alone != nil || in.Lint { // nothing is built, and no tools are chosen
		return f
	}
	linked := f.linkedAnywhere()
	for _, i := range linked {
		if c, n := f.Crate(i), &f.Nodes[i]; c != nil && c.On(n.Features) && !c.Ineffective(n.Features) {
			for _, floor := range c.Floors {
				if floor.AppliesTo(src.Text(h.Join(n.Dir, floor.File))) {
					f.floors = append(f.floors, Floor{f.name(i), floor.Arch, floor.Since, floor.Until, floor.Why})
				}
			}
		}
	}
	if f.Graph != nil { // build scripts of what is linked nowhere, too
		for i := range f.Graph.Units {
			if f.Graph.Units[i].Mode == "run-custom-build" {
				linked = append(linked, i)
			}
		}
	}
	f.readScripts(src, linked)
	return f
}

// unknown reports whether cargo has not said what the build links.
func (f *Facts) unknown() bool { return f.Input.Graph == nil && f.Input.Alone == nil }

// linkedAnywhere lists the nodes that any root links, in order.
func (f *Facts) linkedAnywhere() []int {
	var out []int
	for _, r := range f.Roots {
		out = append(out, r.Linked...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readArchives looks which linked crates download a library for CUDA, and have none for the target: that library decides, of them and of
// what calls it by them, unless they have another GPU on.
func (f *Facts) readArchives(src *Sources) {
	if f.Input.Target == nil || f.Input.Lint {
		return
	}
	named := func(name string) bool { return src.host.Env.Get(name) != "" || src.ConfigNames(name) }
	linked := f.linkedAnywhere()
	for _, i := range linked {
		n, c := &f.Nodes[i], f.Crate(i)
		if c == nil {
			continue
		}
		a := c.Archive(n.Version, n.Features)
		if a == nil {
			continue
		}
		at := cmp.Or(n.Platform, f.Input.Target())
		if at == "" || slices.Contains(a.Targets, at) || slices.ContainsFunc(a.Unless, named) {
			continue
		}
		f.lacking, f.torch[i] = append(f.lacking, i), source.Libtorch{CPU: true, Says: fmt.Sprintf("%s has nothing to download with CUDA for %s, and %s", f.name(i), at, a.Else),
			Fix: cmp.Or(a.Instead, strings.Join(a.Unless[max(0, len(a.Unless)-1):], "")+" names a library of your own")}
		if a.System && n.Platform == "" { // for another target pkg-config finds nothing
			continue
		}
		for _, k := range linked {
			c := f.Crate(k)
			calls := k == i || slices.ContainsFunc(f.Nodes[k].Deps, func(d graph.Dep) bool { return d.To == i })
			if c == nil || !calls || c.Role != catalog.Gated || !f.CUDAOn(k) || len(c.Other(f.Nodes[k].Features)) > 0 {
				continue
			}
			other := *c
			other.Role, other.Notes = catalog.ByFile, "the library that "+n.Name+" downloads does"
			if f.Instead == nil {
				f.Instead = map[int]*catalog.Crate{}
			}
			f.Instead[k] = &other
		}
	}
}

// withNamed is the catalog with the packages that gpubuild.toml names: on by their features that mean a GPU, or by being linked where they
// have none. A root is judged by what it makes.
func withNamed(v *graph.View, named []string) *catalog.Catalog {
	out := catalog.Default()
	add := func(name string, p *manifest.Package) {
		root := slices.ContainsFunc(v.Roots, func(r graph.Root) bool { return v.Nodes[r.Node].Name == name })
		if root || out.Crate(name) != nil || !slices.Contains(named, name) {
			return
		}
		c := catalog.Crate{Name: name, Backend: manifest.CUDA, Role: catalog.Carrier, Backends: map[string]string{}, Lost: map[string]string{}}
		if p != nil {
			for _, f := range p.FeatureNames() {
				switch b, loose := (&manifest.Asked{}).BackendOf(f, nil); {
				case loose || b == "":
				case b == manifest.CUDA || b == manifest.AnyGPU:
					c.Role, c.CUDAFeatures, c.Lost[f] = catalog.Gated, append(c.CUDAFeatures, f), "its kernels are not compiled"
				default:
					c.Backends[f] = b
				}
			}
		}
		out = out.With(c)
	}
	for i := range v.Nodes {
		add(v.Nodes[i].Name, v.Nodes[i].Pkg)
	}
	for _, p := range slices.Concat(v.Project.Members, v.Project.Locals) { // which the right edge would link
		add(p.Name, p)
	}
	return out
}

// readOwn looks which of the user's packages can compile device code: those with a build script, and a build-dependency that compiles, files
// of device code, or a record that it did. Where no root asks for a GPU, and in packages of a registry or a repository, CUDA source and a crate that calls
// nvcc are signs of it: a script that compiles C++ is no GPU work.
func (f *Facts) readOwn(src *Sources) {
	j := newJudge(f)
	var roots []*rootJudge
	for r := range f.Roots {
		roots = append(roots, j.rootOf(&f.Roots[r]))
	}
	asked := slices.ContainsFunc(roots, func(k *rootJudge) bool { return len(k.groups) > 0 })
	for _, k := range roots {
		if asked && len(k.groups) == 0 {
			continue
		}
		for _, i := range k.r.Linked {
			n := &f.Nodes[i]
			judged := f.Input.Alone == nil && !f.Input.Lint || n.Local // what others need is not asked, so they are not looked at
			if _, known := f.cuda[n.Pkg]; !known && judged && n.Pkg != nil && f.Crate(i) == nil && f.runsScript(i) {
				f.cuda[n.Pkg] = src.mayCompile(n.Pkg)
				f.compiles[n.Pkg] = n.Local && (f.cuda[n.Pkg] || asked && (f.compilesWith(i) || src.holdsDeviceCode(n.Pkg) ||
					f.Input.Compiled != nil && f.Input.Compiled(n.Pkg)))
			}
		}
	}
}

// runsScript reports whether a node's build script runs.
func (f *Facts) runsScript(i int) bool {
	if f.Graph == nil {
		return f.Nodes[i].Pkg.BuildScript != ""
	}
	return f.Graph.Script(i) >= 0
}

// compilesWith reports whether a node's build script has a build-dependency that compiles.
func (f *Facts) compilesWith(i int) bool {
	helper := func(name string) bool { c := f.Catalog.Crate(name); return c != nil && c.Role == catalog.Helper }
	if f.Graph == nil {
		return slices.ContainsFunc(f.Nodes[i].Pkg.Dependencies, func(d manifest.Dependency) bool {
			return d.Kind == manifest.Build && helper(d.Package)
		})
	}
	return slices.ContainsFunc(f.Graph.ScriptUses(i), func(u graph.UnitDep) bool { return helper(f.Nodes[u.Index].Name) })
}
