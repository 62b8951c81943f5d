package features

import (
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
)

// withOwn adds to what the catalog knows the user's own packages whose build scripts compile kernels, those that gpubuild.toml names, and
// those of others that have a GPU feature and compile kernels with it: one whose script tests GPU features is on by these, any other by
// being linked.
func (v *view) withOwn(in Input) {
	if in.Catalog == nil {
		return
	}
	add := func(name string, p *manifest.Package) {
		if v.Catalog.Crate(name) != nil {
			return
		}
		c := catalog.Crate{Name: name, Backend: manifest.CUDA, Role: catalog.Carrier}
		if p != nil {
			script := v.src.TextOf(v.manifestScript(p), p.Dir).All
			if !slices.Contains(in.Named, name) && source.NamesHipcc(script) && !v.compilesKernels(p) {
				c.Backend = manifest.ROCm
			}
			c.CUDAFeatures, c.Backends = v.kernelFeatures(p, in.Request.GPUFeatures)
		}
		if len(c.CUDAFeatures) > 0 {
			c.Role, c.Lost = catalog.Gated, map[string]string{}
			lost := "its kernels are not compiled"
			if !slices.Contains(in.Named, name) && !v.compilesAny(p) {
				lost = "it does not link CUDA"
			}
			for _, f := range c.CUDAFeatures {
				c.Lost[f] = lost
			}
		} else if len(c.Backends) > 0 {
			c.Backend, c.Role = "", catalog.Gated // its kernels are for another GPU
		}
		v.Catalog = v.Catalog.With(c)
	}
	local := map[string]bool{}
	if in.Project != nil {
		for _, p := range slices.Concat(in.Project.Members, in.Project.Locals) {
			local[p.Name] = true
			if slices.Contains(in.Named, p.Name) || v.usesToolkit(p) {
				add(p.Name, p)
			}
		}
	}
	asked := manifest.ParseRequest(manifest.Request{GPUFeatures: in.Request.GPUFeatures})
	for i := range v.Nodes { // among them what cargo takes from a directory by [patch] or `paths`, which no dependency entry shows
		n := &v.Nodes[i]
		named := slices.Contains(in.Named, n.Name)
		wanted := n.Local || slices.ContainsFunc(n.Features, asked.IsBackend)
		if local[n.Name] || v.Catalog.Crate(n.Name) != nil || !named && !wanted {
			continue
		}
		p := v.ManifestOf(i)
		if !named && (p == nil || !v.compilesAny(p) && !(n.Local && v.usesToolkit(p))) {
			continue
		}
		if !named && !n.Local { // what others leave off is not missed
			cuda, backends := v.kernelFeatures(p, in.Request.GPUFeatures)
			gate := slices.AppendSeq(cuda, maps.Keys(backends))
			if len(gate) > 0 && !catalog.Overlap(gate, n.Features) {
				continue
			}
		}
		add(n.Name, p)
	}
}

// kernelFeatures lists the features with which a package's build script compiles kernels for CUDA, and those for other GPUs by backend.
// None: it always does.
func (v *view) kernelFeatures(p *manifest.Package, configured []string) (cuda []string, others map[string]string) {
	asked := manifest.ParseRequest(manifest.Request{GPUFeatures: configured})
	script := v.src.Text(p.BuildScript)
	helper := v.optionalHelper(p)
	others = map[string]string{}
	for _, f := range p.FeatureNames() {
		backend, _ := asked.BackendOf(f, nil)
		_, edges := p.Closure([]string{f})
		tested := testsFeature(script, f) || v.src.TestsOf(p, f).Script ||
			helper != "" && slices.ContainsFunc(edges, func(e manifest.Edge) bool { return e.Dep == helper })
		switch {
		case !tested || backend == "" || f == "default":
		case backend == manifest.CUDA || backend == manifest.AnyGPU:
			cuda = append(cuda, f)
		default:
			others[f] = backend
		}
	}
	return cuda, others
}

// optionalHelper is an optional build-dependency that runs nvcc; empty where there is none.
func (v *view) optionalHelper(p *manifest.Package) string {
	for _, d := range p.Dependencies {
		if c := v.Catalog.Crate(d.Package); d.Kind == manifest.Build && d.Optional && c != nil && c.Role == catalog.Helper &&
			c.Needs("nvcc") {
			return d.Key
		}
	}
	return ""
}

// Scripts reads build scripts for the look before a build.
func Scripts(h buildenv.Host, p *manifest.Project) manifest.Scripts {
	v := &view{graph.NewView(h, p, nil, nil), NewSources(h, p)}
	return manifest.Scripts{Compile: v.usesToolkit, Locked: func() []string {
		first := map[string]bool{} // what cargo has unpacked once anything was built
		for _, m := range p.Members {
			for _, d := range m.Dependencies {
				first[d.Package] = first[d.Package] || d.Path == "" && d.Target == "" && !d.Optional && d.Kind != manifest.Dev
			}
		}
		var out []string
		for i := range p.Lock {
			// what is not here yet may hold anything; cargo checks every repository out before it builds
			l := &p.Lock[i]
			pkg := p.LockedManifest(l)
			if pkg != nil && v.compilesAny(pkg) || pkg == nil && (strings.HasPrefix(l.Source, "git+") || l.Source != "" && first[l.Name]) {
				out = append(out, l.Name)
			}
		}
		return out
	}}
}

// Leads reports whether a member brings CUDA code into a build with these features, by manifests alone.
func Leads(h buildenv.Host, p *manifest.Project, member *manifest.Package, noDefault bool, with ...string) bool {
	known, err := catalog.Default()
	if err != nil {
		return false
	}
	r := manifest.Request{NoDefault: noDefault, Features: with}
	asked := manifest.ParseRequest(r)
	v := newView(h, Input{Project: p, Catalog: known, Alone: graph.FromManifests(h, p, known, []*manifest.Package{member}, r)})
	for i := range v.Nodes {
		if c := v.Crate(i); v.CUDAOn(i) || c != nil && c.Role == catalog.ByFile {
			return true
		}
	}
	return slices.ContainsFunc(with, asked.IsCUDA)
}

// usesToolkit reports whether a package's build script compiles kernels, or links libraries of CUDA.
func (v *view) usesToolkit(p *manifest.Package) bool {
	return v.compilesAny(p) || p.BuildScript != "" && source.LinksCUDA(v.src.TextOf(v.manifestScript(p), p.Dir).All)
}

// compilesKernels says whether a package's build script runs nvcc, as far as manifests and its text show it.
func (v *view) compilesKernels(p *manifest.Package) bool {
	if p.BuildScript == "" {
		return false
	}
	for _, d := range p.Dependencies {
		if c := v.Catalog.Crate(d.Package); d.Kind == manifest.Build && !d.Optional && c != nil && c.Role == catalog.Helper &&
			c.Needs("nvcc") {
			return true
		}
	}
	if v.optionalHelper(p) != "" {
		return true
	}
	return runsNvcc(v.src.TextOf(v.manifestScript(p), p.Dir).All)
}

// compilesAny says the same of nvcc or of ROCm's hipcc.
func (v *view) compilesAny(p *manifest.Package) bool {
	return v.compilesKernels(p) || p.BuildScript != "" && source.NamesHipcc(v.src.TextOf(v.manifestScript(p), p.Dir).All)
}

// gpuFeatures are those that a build script may test.
func gpuFeatures(configured []string) []string {
	return manifest.Union([]string{"cuda", "cudnn", "_cuda", "gpu"}, configured)
}

func testsFeature(text, f string) bool {
	return strings.Contains(text, "CARGO_FEATURE_"+source.EnvName(f)+`"`) || source.TestsFeature(text, f)
}
