package features

import (
	"cmp"
	"maps"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
)

// withOwn is the catalog with the user's own packages whose build scripts compile kernels or link CUDA, those that gpubuild.toml names, and
// those of others that have a GPU feature on and compile kernels: one whose script tests GPU features is on by these, any other by being
// linked.
func (s *Sources) withOwn(v *graph.View, in Input) *catalog.Catalog {
	out, asked := catalog.Default(), manifest.ParseRequest(manifest.Request{GPUFeatures: in.Request.GPUFeatures})
	add := func(name string, p *manifest.Package, local bool, on []string) {
		named := slices.Contains(in.Named, name)
		does := s.scriptDoes(p)
		if out.Crate(name) != nil || !named && !does.compiles() && !(local && does.links) {
			return
		}
		cuda, others := s.kernelFeatures(p, &asked)
		if named && local && len(cuda) == 0 && p.Declares("cuda") {
			cuda = []string{"cuda"}
		}
		gate := slices.AppendSeq(slices.Clone(cuda), maps.Keys(others))
		if !named && len(gate) > 0 && !local && !catalog.Overlap(gate, on) { // what others leave off is not missed
			return
		}
		c := catalog.Crate{Name: name, Backend: manifest.CUDA, Role: catalog.Carrier, CUDAFeatures: cuda, Backends: others}
		if !named && does.hipcc && !does.nvcc {
			c.Backend = manifest.ROCm
		}
		if len(cuda) > 0 {
			c.Role, c.Lost = catalog.Gated, map[string]string{}
			for _, f := range cuda {
				if c.Lost[f] = "its kernels are not compiled"; !named && !does.compiles() {
					c.Lost[f] = "it does not link CUDA"
				}
			}
		} else if len(others) > 0 {
			c.Backend, c.Role = "", catalog.Gated // its kernels are for another GPU
		}
		out = out.With(c)
	}
	for _, p := range slices.Concat(in.Project.Members, in.Project.Locals) {
		add(p.Name, p, true, nil)
	}
	for i := range v.Nodes { // among them what cargo takes from a directory by [patch] or `paths`, which no dependency entry shows
		n := &v.Nodes[i]
		if n.Local || slices.Contains(in.Named, n.Name) || slices.ContainsFunc(n.Features, asked.IsBackend) {
			add(n.Name, n.Pkg, n.Local, n.Features)
		}
	}
	return out
}

// kernelFeatures are the features with which a package's build script compiles kernels for CUDA, and those for other GPUs by backend. None:
// it always does.
func (s *Sources) kernelFeatures(p *manifest.Package, asked *manifest.Asked) (cuda []string, others map[string]string) {
	if p == nil {
		return nil, nil
	}
	helper, _ := s.helper(p)
	others = map[string]string{}
	for _, f := range p.FeatureNames() {
		backend, _ := asked.BackendOf(f, nil)
		_, edges := p.Closure([]string{f})
		byHelper := helper != "" && slices.ContainsFunc(edges, func(e manifest.Edge) bool { return e.Dep == helper })
		if byHelper { // whatever it is called
			backend = cmp.Or(backend, manifest.CUDA)
		}
		switch {
		case backend == "" || f == "default" || !byHelper && s.TestsOf(p, f).Script == "":
		case backend == manifest.CUDA || backend == manifest.AnyGPU:
			cuda = append(cuda, f)
		default:
			others[f] = backend
		}
	}
	return cuda, others
}

// helper is a build-dependency that runs nvcc; its key is empty where it is not optional.
func (s *Sources) helper(p *manifest.Package) (key string, has bool) {
	for _, d := range p.Dependencies {
		if d.Kind == manifest.Build && catalog.Default().Crate(d.Package).RunsNvcc() {
			if has = true; d.Optional {
				key = d.Key
			}
		}
	}
	return key, has
}

// Leads reports whether a member brings CUDA code into a build with these features, by manifests alone.
func Leads(h buildenv.Host, p *manifest.Project, member *manifest.Package, noDefault bool, with ...string) bool {
	r := manifest.Request{NoDefault: noDefault, Features: with}
	asked := manifest.ParseRequest(r)
	facts := Gather(h, Input{Project: p, Request: r, Alone: member})
	return slices.ContainsFunc(with, asked.IsCUDA) || slices.ContainsFunc(facts.Roots[0].Linked, func(i int) bool {
		c := facts.Crate(i)
		return facts.CUDAOn(i) || c != nil && c.Role == catalog.ByFile
	})
}

// scriptDoes is what a package's build script does with a GPU's toolkit, as far as manifests and its text show it.
type scriptDoes struct{ nvcc, hipcc, links bool }

func (d scriptDoes) compiles() bool { return d.nvcc || d.hipcc }

func (s *Sources) scriptDoes(p *manifest.Package) scriptDoes {
	does, read := s.does[p]
	if !read && p != nil && p.BuildScript != "" {
		from := s.scriptFile(p, p.FeatureNames())
		text := s.TextOf(from, p.Dir).All
		_, helper := s.helper(p)
		byCMake := slices.Contains(from.Helpers, "cmake") && source.CMakeCUDA(text)
		does = scriptDoes{helper || byCMake || runsNvcc(text), source.NamesHipcc(text), source.LinksCUDA(text)}
	}
	s.does[p] = does
	return does
}
