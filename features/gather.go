package features

import (
	"slices"

	"gpubuild/buildenv"
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
	// Once answers a question about a directory that never changes, from what it answered before if it can; nil: it is asked each time
	Once func(dir string, ask func() bool) bool
}

// Sources reads the packages of a workspace, each text once.
type Sources struct {
	*source.Reader
	host    buildenv.Host
	project *manifest.Project
	does    map[*manifest.Package]scriptDoes
}

// NewSources prepares reading the packages of a workspace.
func NewSources(h buildenv.Host, p *manifest.Project) *Sources {
	return &Sources{source.NewReader(h, p.Root), h, p, map[*manifest.Package]scriptDoes{}}
}

// Facts is everything that Judge decides from. It is complete: Judge reads nothing.
type Facts struct {
	Input       Input
	*graph.View // what the build links, with the packages' manifests, and a catalog that has the user's own GPU packages, too

	os      string
	tests   map[testedFeature]source.Tested
	does    map[*manifest.Package]scriptDoes
	scripts map[int]*scriptFacts // by node: what its build script needs; none: it has no script, or needs are not judged
	floors  []Floor
	torch   map[int]source.Libtorch // by node of torch-sys
	cudarc  cudarcVariable
}

type testedFeature struct {
	p    *manifest.Package
	name string
}

// cudarcVariable is CUDARC_CUDA_VERSION.
type cudarcVariable struct {
	value           string
	set, configured bool // in the environment; in a configuration file of cargo's
}

// Gather reads what Judge decides from: the manifests of the packages in cargo's unit graph, their build scripts, and where their code
// tests features that may have been asked for.
func Gather(h buildenv.Host, in Input) Facts {
	if in.Sources == nil {
		in.Sources = NewSources(h, in.Project)
	}
	src := in.Sources
	f := Facts{Input: in, os: h.OS, tests: map[testedFeature]source.Tested{}, does: src.does,
		scripts: map[int]*scriptFacts{}, torch: map[int]source.Libtorch{}}
	switch {
	case in.Graph != nil:
		f.View = graph.NewView(h, in.Project, in.Graph)
	case in.Alone != nil:
		f.View = graph.Alone(in.Project, []*manifest.Package{in.Alone}, in.Request, in.Sure)
	default: // what a build of the selected packages could need, manifests show
		selected, _ := in.Project.Selection(in.Request)
		f.View = graph.Alone(in.Project, selected, in.Request, false)
	}
	f.Catalog = src.withOwn(f.View, in)
	f.cudarc.value, f.cudarc.set = h.Env.Lookup("CUDARC_CUDA_VERSION")
	for i := range f.Nodes {
		switch f.Nodes[i].Name {
		case "torch-sys":
			f.torch[i] = src.LibtorchOf(f.Nodes[i].Features)
		case "cudarc":
			f.cudarc.configured = f.cudarc.configured || !f.cudarc.set && src.ConfigNames("CUDARC_CUDA_VERSION")
		}
	}
	f.readTests(src)
	if in.Alone != nil {
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

// readTests looks where the user's packages test features that may mean a backend, and where what a request turns on is tested. Code of a
// package that the request brings in says nothing more than that package does.
func (f *Facts) readTests(src *Sources) {
	j := newJudge(f)
	for r := range f.Roots {
		k := j.rootOf(&f.Roots[r])
		src.scriptDoes(k.pkg)
		features := k.request.Features()
		for _, i := range k.r.Linked {
			if n := &f.Nodes[i]; n.Local && n.Pkg != nil {
				for _, name := range n.Pkg.FeatureNames() {
					if b, loose := k.ask.BackendOf(name, j.known); b != "" && !loose {
						features = append(features, graph.Feature{Node: i, Name: name})
					}
				}
			}
		}
		for _, on := range features {
			n := &f.Nodes[on.Node]
			foreign := f.Crate(on.Node) != nil || k.request.Has(graph.Feature{Node: on.Node})
			if n.Pkg != nil && on.Name != "" && (n.Local || !foreign) {
				f.tests[testedFeature{n.Pkg, on.Name}] = src.TestsOf(n.Pkg, on.Name)
			}
		}
	}
}
