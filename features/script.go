package features

import (
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/graph"
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
	sources []string    // files and directories with what it compiles, besides the kernels of the package
	max     gpu.Version // newest CUDA version in its list: a newer nvcc makes it stop
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

// scriptOf says what the build script of a node needs: what the catalog knows of it, else what its text shows.
func (f *Facts) scriptOf(src *Sources, i int, from source.Script) scriptFacts {
	n, c := &f.Nodes[i], f.Crate(i)
	var s scriptFacts
	switch {
	case n.Name == "cudarc":
		return f.cudarcScript(n.Features)
	case c == nil:
	case c.Script != nil && (c.Role == catalog.Carrier || c.Role == catalog.ByFile || c.Role == catalog.Gated && c.On(n.Features)):
		s.take(c, "known of "+c.Name)
		if !slices.Contains(n.Features, "cudnn") {
			delete(s.needs, cudnnLibs)
		}
		if text := src.Text(from.Source); text != "" {
			s.max = source.NewestKnown(text)
		}
		return s
	case c.Role == catalog.FalseFriend || c.Role == catalog.Helper || c.Role == catalog.Monitor ||
		c.Role == catalog.Gated && !c.On(n.Features):
		return s
	}
	for _, h := range from.Helpers {
		if hc := catalog.Default().Crate(h); hc.RunsNvcc() {
			s.take(hc, "its build script uses "+h)
			delete(s.needs, cudnnLibs)
			s.ptx = true
		}
	}
	// Whatever a package is called and wherever it comes from, a script that runs nvcc makes it a GPU package; one of another's that only
	// mentions CUDA does not.
	if n.Local || c.CUDA() || slices.Contains(n.Features, "cuda") || slices.Contains(n.Features, "_cuda") ||
		src.runsNvcc(from, n.Dir, f.Input.Once) || source.NamesLibDir(src.Text(from.Source)) {
		s.readText(src, from, n)
	}
	return s
}

// readText adds what the text of a node's build script shows.
func (s *scriptFacts) readText(src *Sources, from source.Script, n *graph.Node) {
	script := src.TextOf(from, n.Dir)
	text := script.All
	switch {
	case source.CompilesByCC(text):
		s.add(script.File(src.Reader, source.CompilesByCC)+" compiles CUDA with cc", nvcc, cudaLibs, "cc")
		s.reads("NVCC") // before nvcc of PATH (cc 1.0 to 1.11, "NVCC")
	case source.NamesNvcc(text):
		why := script.File(src.Reader, source.NamesNvcc) + " calls nvcc"
		if s.add(why, nvcc); source.LinksCUDA(text) {
			s.add(why, cudaLibs)
		}
		s.ptx = s.ptx || strings.Contains(text, "ptx")
	case slices.Contains(from.Helpers, "cmake") &&
		(slices.Contains(n.Features, "cuda") && strings.Contains(text, "cmake") || source.CMakeCUDA(text)):
		s.add("its build script runs CMake with CUDA", cmake, nvcc, cudaLibs)
		s.ptx = true
		s.reads(cmakeReads()...)
	case source.LinksCUDA(text):
		s.add(script.File(src.Reader, source.LinksCUDA)+" links libraries of the toolkit", cudaLibs)
	}
	if s.machine() {
		s.reads(script.Variables()...)
		for _, root := range from.Locals { // dir/src/lib.rs
			s.sources = manifest.Union(s.sources, []string{src.host.Dir(src.host.Dir(root))})
		}
	}
}

func runsNvcc(text string) bool { return source.NamesNvcc(text) || source.CompilesByCC(text) }

// runsNvcc reports whether a build script of somebody else's runs nvcc, itself or by what it runs. That can be hundreds of files, which
// never change in cargo's own home.
func (s *Sources) runsNvcc(from source.Script, dir string, once func(string, func() bool) bool) bool {
	text := s.Text(from.Source)
	runs := func() bool { return runsNvcc(s.TextOf(source.Script{Source: from.Source}, dir).All) }
	if once == nil || !source.Unchanging(s.host, dir) {
		once = func(_ string, f func() bool) bool { return f() }
	}
	return runsNvcc(text) || source.LeadsOn(text) && once(dir, runs)
}

// readScripts reads what the build scripts of nodes need, by the graph or, without one, by the manifest.
func (f *Facts) readScripts(src *Sources, nodes []int) {
	for _, i := range nodes {
		n, c := &f.Nodes[i], f.Crate(i)
		var path string
		var has bool
		switch {
		case f.Graph != nil:
			path, has = f.Graph.Script(i)
		case n.Pkg == nil:
			has = c != nil && c.Script != nil
		default:
			path, has = n.Pkg.BuildScript, n.Pkg.BuildScript != "" && (n.Local || c != nil || slices.Contains(n.Features, "cuda"))
		}
		if !has {
			continue
		}
		from := source.Script{Source: path}
		if n.Pkg != nil {
			from = src.scriptFile(n.Pkg, n.Features)
			from.Source = path
		}
		s := f.scriptOf(src, i, from)
		f.scripts[i] = &s
	}
}

// scriptFile is the build script of a package with all that it uses: the names of its build-dependencies, but for optional ones that
// no feature brings in, and the sources of those that are the user's own or that name nvcc for a package of the user's.
func (s *Sources) scriptFile(p *manifest.Package, features []string) source.Script {
	out := source.Script{Source: p.BuildScript}
	_, edges := p.Closure(features)
	seen := map[*manifest.Package]bool{p: true}
	var walk func(p *manifest.Package, kind string)
	walk = func(p *manifest.Package, kind string) {
		for _, d := range p.Dependencies {
			if d.Kind != kind || d.Optional && kind == manifest.Build &&
				!slices.ContainsFunc(edges, func(e manifest.Edge) bool { return e.Dep == d.Key }) {
				continue
			}
			out.Helpers = manifest.Union(out.Helpers, []string{d.Package})
			to := s.project.Declaring(p, d)
			if to == nil || seen[to] {
				continue
			}
			seen[to] = true
			lib := s.host.Join(to.Dir, "src", "lib.rs")
			for _, t := range to.Targets {
				if slices.Contains(t.Kind, "lib") {
					lib = t.SrcPath
				}
			}
			local := func(p *manifest.Package) bool { return s.project.Local(p.Dir) == p }
			if local(to) || kind == manifest.Build && local(p) && catalog.Default().Crate(to.Name) == nil &&
				source.NamesNvcc(s.Modules(lib)) {
				out.Locals = append(out.Locals, lib)
			}
			walk(to, manifest.Normal)
		}
	}
	walk(p, manifest.Build)
	return out
}
