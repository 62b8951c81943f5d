package features

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/gpu"
)

// scriptFacts is what one package's build script asks of the machine.
type scriptFacts struct {
	needs   map[string]bool // in the catalog's words
	ptx     bool
	headers []catalog.Header
	env     []string
	sources []string // files and directories with what it compiles, besides the kernels of the package
	why     string
	libsWhy string      // why the libraries are needed, where why says something else
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

func (s *scriptFacts) add(words ...string) {
	if s.needs == nil {
		s.needs = map[string]bool{}
	}
	for _, w := range words {
		s.needs[w] = true
	}
}

// machine says whether the script's output depends on parts that cargo does not watch.
func (s *scriptFacts) machine() bool {
	return len(s.headers) > 0 || slices.ContainsFunc([]string{nvcc, nvccVersion, cudaLibs, cudnnLibs, cmake, libtorch, rocm},
		func(word string) bool { return s.needs[word] })
}

func (s *scriptFacts) take(c *catalog.Crate) {
	s.add(c.BuildNeeds...)
	s.ptx = s.ptx || c.EmbedsPTX
	s.reads(c.Env()...)
	if s.needs[cmake] {
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

// scriptOf says what the build script of a node needs.
func (j *judge) scriptOf(i int, from source.Script) scriptFacts {
	n, c := &j.Nodes[i], j.Crate(i)
	var s scriptFacts
	switch {
	case n.Name == "cudarc":
		return j.cudarcScript(i)
	case c != nil && (c.Role == catalog.Carrier || c.Role == catalog.Gated && c.On(n.Features) ||
		c.Role == catalog.ByFile) && c.Script != nil:
		s.take(c)
		if !slices.Contains(n.Features, "cudnn") {
			delete(s.needs, cudnnLibs)
		}
		if text := j.src.Text(from.Source); text != "" {
			s.max = source.NewestKnown(text)
			if !source.Downloads(text) {
				delete(s.needs, "network")
			}
		}
		s.why = "known of " + c.Name
		return s
	case c != nil && (c.Role == catalog.FalseFriend || c.Role == catalog.Helper || c.Role == catalog.Monitor ||
		c.Role == catalog.Gated && !c.On(n.Features)):
		return s
	}
	// Whatever a package is called and wherever it comes from, a script that runs nvcc makes it a GPU package; one of another's that only
	// mentions CUDA does not.
	gpu := n.Local || c.CUDA() || slices.Contains(n.Features, "cuda") || slices.Contains(n.Features, "_cuda") ||
		j.runsNvcc(from, j.DirOf(i)) || source.NamesLibDir(j.src.Text(from.Source))
	for _, h := range from.Helpers {
		if hc := j.Catalog.Crate(h); hc != nil && hc.Role == catalog.Helper {
			s.take(hc)
			delete(s.needs, cudnnLibs)
			s.ptx = true
			s.why = "its build script uses " + h
		}
	}
	if !gpu {
		return s
	}
	script := j.src.TextOf(from, j.DirOf(i))
	if script.Own == "" {
		return s
	}
	text := script.All
	switch {
	case source.CompilesByCC(text):
		s.add(nvcc, cudaLibs, "cc")
		s.reads("NVCC") // before nvcc of PATH (cc 1.0 to 1.11, "NVCC")
		s.why = script.File(j.src, source.CompilesByCC) + " compiles CUDA with cc"
	case source.NamesNvcc(text):
		s.add(nvcc)
		if source.LinksCUDA(text) {
			s.add(cudaLibs)
		}
		s.ptx = s.ptx || strings.Contains(text, "ptx")
		s.why = script.File(j.src, source.NamesNvcc) + " calls nvcc"
	case slices.Contains(from.Helpers, "cmake") && strings.Contains(text, "cmake") &&
		(slices.Contains(n.Features, "cuda") || strings.Contains(strings.ToLower(text), "cuda")):
		s.add(cmake, nvcc, cudaLibs)
		s.ptx = true
		s.reads(cmakeReads()...)
		s.why = "its build script runs CMake with CUDA"
	case source.LinksCUDA(text):
		s.add(cudaLibs)
		s.why = script.File(j.src, source.LinksCUDA) + " links libraries of the toolkit"
	}
	if s.machine() {
		s.reads(script.Variables()...)
		for _, root := range from.Locals { // dir/src/lib.rs
			s.sources = manifest.Union(s.sources, []string{j.Host.Dir(j.Host.Dir(root))})
		}
	}
	return s
}

func runsNvcc(text string) bool { return source.NamesNvcc(text) || source.CompilesByCC(text) }

// runsNvcc says whether a build script of somebody else's runs nvcc, itself or by what it runs.
func (j *judge) runsNvcc(from source.Script, dir string) bool {
	text := j.src.Text(from.Source)
	return runsNvcc(text) || source.LeadsOn(text) && runsNvcc(j.src.TextOf(source.Script{Source: from.Source}, dir).All)
}

// scriptNode is what the build script of a node needs, by the graph or, without one, by the manifest; false where it has none.
func (j *judge) scriptNode(i int) (s scriptFacts, has bool) {
	n, c, p := &j.Nodes[i], j.Crate(i), j.ManifestOf(i)
	var from source.Script
	if p != nil {
		from = j.scriptFile(p, n.Features)
	}
	switch {
	case j.Graph != nil:
		from.Source, has = j.Graph.Script(i)
	case p == nil:
		has = c != nil && c.Script != nil
	default:
		has = p.BuildScript != "" && (n.Local || c != nil || slices.Contains(n.Features, "cuda"))
	}
	if !has {
		return s, false
	}
	key := fmt.Sprint(n.ID, n.Name, n.Platform, n.Features)
	if _, known := j.scripts[key]; !known {
		j.scripts[key] = j.scriptOf(i, from)
	}
	return j.scripts[key], true
}

// scriptFile is the build script of a package with all that it uses: the names of its build-dependencies, but for optional ones that
// no feature brings in, and the sources of those that are the user's own or that name nvcc for a package of the user's.
func (v *view) scriptFile(p *manifest.Package, features []string) source.Script {
	s := source.Script{Source: p.BuildScript}
	_, edges := p.Closure(features)
	seen := map[*manifest.Package]bool{p: true}
	var walk func(p *manifest.Package, kind string)
	walk = func(p *manifest.Package, kind string) {
		for _, d := range p.Dependencies {
			if d.Kind != kind || d.Optional && kind == manifest.Build &&
				!slices.ContainsFunc(edges, func(e manifest.Edge) bool { return e.Dep == d.Key }) {
				continue
			}
			s.Helpers = manifest.Union(s.Helpers, []string{d.Package})
			to := v.Project.Declaring(p, d)
			if to == nil || seen[to] {
				continue
			}
			seen[to] = true
			lib := v.Host.Join(to.Dir, "src", "lib.rs")
			for _, t := range to.Targets {
				if slices.Contains(t.Kind, "lib") {
					lib = t.SrcPath
				}
			}
			local := func(p *manifest.Package) bool { return v.Project.Local(p.Dir) == p }
			switch {
			case local(to):
				s.Locals = append(s.Locals, lib)
				walk(to, manifest.Normal)
			case kind == manifest.Build && local(p) && v.Catalog.Crate(to.Name) == nil && source.NamesNvcc(v.src.Modules(lib)):
				s.Locals = append(s.Locals, lib)
			}
		}
	}
	walk(p, manifest.Build)
	return s
}
