package features

import (
	"slices"

	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/gpu"
)

// scriptFacts is what one package's build script asks of the machine.
type scriptFacts struct {
	needs   map[string]string // why, by the catalog's words
	ptx     bool
	headers []catalog.Header
	env     []string
	max     gpu.Version // newest CUDA version in its list: a newer nvcc makes it stop

	passesCXX bool // to nvcc, by the cc crate
}

// Words of the catalog for what a build script needs; asking nvcc for its version alone is none of them.
const (
	nvcc        = "nvcc"
	nvccVersion = "nvcc_version"
	cudaLibs    = "cuda_headers_or_libs"
	cudnnLibs   = "cudnn_headers_or_libs"
	cmake       = "cmake"
	libclang    = "libclang"
	libtorch    = "libtorch"
	rocm        = "rocm"
)

func (s *scriptFacts) add(why string, words ...string) {
	if s.needs == nil {
		s.needs = map[string]string{}
	}
	for _, w := range words {
		s.needs[w] = why
	}
}

// machine reports whether the script's output depends on parts that cargo does not watch.
func (s *scriptFacts) machine() bool {
	return len(s.headers) > 0 || slices.ContainsFunc([]string{nvcc, nvccVersion, cudaLibs, cudnnLibs, cmake, libtorch, rocm},
		func(word string) bool { return s.needs[word] != "" })
}

func (s *scriptFacts) take(c *catalog.Crate, why string) {
	s.add(why, c.BuildNeeds...)
	s.ptx = s.ptx || c.EmbedsPTX
	s.reads(c.Env()...)
	if s.needs[cmake] != "" {
		s.reads(cmakeReads()...)
	}
}

func (s *scriptFacts) reads(env ...string) {
	s.env = slices.Sorted(slices.Values(manifest.Union(s.env, env)))
}

// cmakeReads lists what CMake itself reads for its CUDA language: cmake-env-variables(7), "Environment Variables for Languages" and "…
// that Change Behavior". A build script that runs it hands its environment on.
func cmakeReads() []string {
	return []string{"CUDACXX", "CUDAHOSTCXX", "CUDAFLAGS", "CUDAARCHS", "CMAKE_*"}
}

// scriptOf says what the build script of a node needs, by the catalog: what is known of the package, or of what its script uses. What any
// other script does, only the build shows.
func (f *Facts) scriptOf(src *Sources, i int) (s scriptFacts) {
	n, c := &f.Nodes[i], f.Crate(i)
	switch {
	case n.Name == "cudarc":
		return f.cudarcScript(n.Features)
	case c == nil:
	case c.Script != nil && (c.Linked() || c.Role == catalog.ByFile || c.Role == catalog.Gated && c.On(n.Features)):
		s.take(c, "known of "+c.Name)
		if !slices.Contains(n.Features, "cudnn") {
			delete(s.needs, cudnnLibs)
		}
		s.max = source.NewestKnown(src.Text(src.host.Join(n.Dir, "build.rs")))
		return s
	case c.Role == catalog.FalseFriend || c.Role == catalog.Helper || c.Role == catalog.Monitor ||
		c.Role == catalog.Gated && !c.On(n.Features):
		return s
	}
	for _, h := range f.helpers(i) {
		if hc := catalog.Default().Crate(h); hc.RunsNvcc() {
			s.take(hc, "its build script uses "+h)
			delete(s.needs, cudnnLibs)
			s.ptx = true
		}
	}
	return s
}

// readScripts looks what the build scripts of nodes need, by the graph or, without one, by the manifest.
func (f *Facts) readScripts(src *Sources, nodes []int) {
	for _, i := range nodes {
		n, c := &f.Nodes[i], f.Crate(i)
		has := false
		switch {
		case f.Graph != nil:
			has = f.Graph.Script(i) >= 0
		case n.Pkg == nil:
			has = c != nil && c.Script != nil
		default:
			has = n.Pkg.BuildScript != "" && (n.Local || c != nil || slices.Contains(n.Features, "cuda"))
		}
		if has {
			s := f.scriptOf(src, i)
			s.passesCXX = n.Local && source.PassesCXX(src.Text(src.host.Join(n.Dir, "build.rs")))
			f.scripts[i] = &s
		}
	}
}

// helpers lists the packages that the build script of a node is compiled with, but for optional ones that no feature brings in.
func (f *Facts) helpers(i int) (names []string) {
	n := &f.Nodes[i]
	if n.Pkg == nil {
		return nil
	}
	_, edges := n.Pkg.Closure(n.Features)
	seen := map[*manifest.Package]bool{n.Pkg: true}
	var walk func(p *manifest.Package, kind string)
	walk = func(p *manifest.Package, kind string) {
		for _, d := range p.Dependencies {
			if d.Kind != kind || d.Optional && kind == manifest.Build &&
				!slices.ContainsFunc(edges, func(e manifest.Edge) bool { return e.Dep == d.Key }) {
				continue
			}
			if !slices.Contains(names, d.Package) {
				names = append(names, d.Package)
			}
			if to := f.Project.Declaring(p, d); to != nil && !seen[to] {
				seen[to] = true
				walk(to, manifest.Normal)
			}
		}
	}
	walk(n.Pkg, manifest.Build)
	return names
}
