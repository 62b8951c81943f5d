package features

import (
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
	// What a helper crate tests by cfg is a feature of its own; the variable is one of the package whose script runs.
	if script.Own == "" || !j.scriptWants(i, script.Own+strings.ReplaceAll(script.All[len(script.Own):], "feature", "")) {
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

// scriptWants says whether a script that tests GPU features has one of them on; one that tests none always does its work.
func (j *judge) scriptWants(i int, text string) bool {
	tested := false
	for _, f := range gpuFeatures(j.in.Request.GPUFeatures) {
		if testsFeature(text, f) {
			if slices.Contains(j.Nodes[i].Features, f) {
				return true
			}
			tested = true
		}
	}
	return !tested
}

// scriptRun says what the build script that a unit of the graph runs needs.
func (j *judge) scriptRun(run int) scriptFacts {
	s, ok := j.scripts[run]
	if !ok {
		s = j.scriptOf(run, j.graphScript(run))
		j.scripts[run] = s
	}
	return s
}

// scriptNode answers what the build script of a linked node needs, from the graph or, without one, from the manifest.
func (j *judge) scriptNode(i int) (scriptFacts, bool) {
	if j.Graph != nil {
		run := j.Graph.ScriptRun(i)
		if run < 0 {
			return scriptFacts{}, false
		}
		return j.scriptRun(run), true
	}
	n, c := &j.Nodes[i], j.Crate(i)
	if !n.Local && c == nil && !slices.Contains(n.Features, "cuda") {
		return scriptFacts{}, false
	}
	p := j.ManifestOf(i)
	if p == nil {
		return j.scriptOf(i, source.Script{}), c != nil && c.Script != nil
	}
	if p.BuildScript == "" {
		return scriptFacts{}, false
	}
	return j.scriptOf(i, j.manifestScript(p)), true
}

// graphScript is the script that a unit runs, with all packages that its program links, and those of them that are the user's or, taken by
// the user's own script, name nvcc.
func (j *judge) graphScript(run int) source.Script {
	build := j.Graph.Compiled(run)
	s := source.Script{Source: j.Graph.Units[run].Target.SrcPath}
	if build < 0 {
		return s
	}
	s.Source = j.Graph.Units[build].Target.SrcPath
	walk := func(enter func(from, to int) bool) (out []int) {
		seen := map[int]bool{build: true}
		for queue := []int{build}; len(queue) > 0; queue = queue[1:] {
			for _, d := range j.Nodes[queue[0]].Deps {
				if !seen[d.To] && enter(queue[0], d.To) {
					seen[d.To] = true
					queue, out = append(queue, d.To), append(out, d.To)
				}
			}
		}
		return out
	}
	for _, i := range walk(func(_, _ int) bool { return true }) {
		s.Helpers = append(s.Helpers, j.Nodes[i].Name)
	}
	for _, i := range walk(func(from, to int) bool {
		foreign := from == build && j.Nodes[build].Local && j.Crate(to) == nil
		return !j.Graph.Units[to].Host() &&
			(j.Nodes[to].Local || foreign && source.NamesNvcc(j.src.Modules(j.Graph.Units[to].Target.SrcPath)))
	}) {
		s.Locals = append(s.Locals, j.Graph.Units[i].Target.SrcPath)
	}
	return s
}

// manifestScript is the script of a package without a unit graph, by its manifest and those of its path dependencies.
func (v *view) manifestScript(p *manifest.Package) source.Script {
	s := source.Script{Source: p.BuildScript}
	seen := map[string]bool{}
	var walk func(p *manifest.Package, kind string)
	walk = func(p *manifest.Package, kind string) {
		for _, d := range p.Dependencies {
			if d.Kind != kind {
				continue
			}
			if !slices.Contains(s.Helpers, d.Package) {
				s.Helpers = append(s.Helpers, d.Package)
			}
			if d.Path == "" || seen[d.Path] {
				continue
			}
			seen[d.Path] = true
			if local := v.Project.Declaring(nil, d); local != nil {
				s.Locals = append(s.Locals, v.Host.Join(local.Dir, "src", "lib.rs"))
				walk(local, manifest.Normal)
			}
		}
	}
	walk(p, manifest.Build)
	return s
}
