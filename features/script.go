package features

import (
	"maps"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/gpu"
)

// scriptFacts is what one package's build script asks of the machine.
type scriptFacts struct {
	compiles    bool // runs nvcc on kernels
	asksVersion bool // only asks nvcc for its version
	libs        bool // headers or libraries of the toolkit
	cudnn       bool
	cmake       bool
	clang       bool
	torch       bool
	rocm        bool
	network     bool
	cap         bool // asks for the compute capability
	ptx         bool
	cc          bool // compiles C++ with the cc crate
	headers     []catalog.Header
	env         []string
	sources     []string // files and directories with what it compiles, besides the kernels of the package
	why         string
	libsWhy     string      // why the libraries are needed, where why says something else
	max         gpu.Version // newest CUDA version in its list: a newer nvcc makes it stop
}

// any says whether the script asks for anything; machine whether its output depends on parts that cargo does not watch.
func (s *scriptFacts) any() bool { return s.machine() || s.clang || s.network || s.cap }

func (s *scriptFacts) machine() bool {
	return s.compiles || s.asksVersion || s.libs || s.cudnn || s.cmake || s.torch || s.rocm || len(s.headers) > 0
}

func (s *scriptFacts) take(c *catalog.Crate) {
	s.compiles = s.compiles || c.Needs("nvcc")
	s.libs = s.libs || c.Needs("cuda_headers_or_libs")
	s.cmake = s.cmake || c.Needs("cmake")
	s.clang = s.clang || c.Needs("libclang")
	s.torch = s.torch || c.Needs("libtorch")
	s.rocm = s.rocm || c.Needs("rocm")
	s.network = s.network || c.Needs("network")
	s.cap = s.cap || c.Needs("gpu_visible_or_env")
	s.ptx = s.ptx || c.EmbedsPTX
	s.env = slices.Sorted(slices.Values(manifest.Union(s.env, c.Env())))
	if s.cmake {
		s.env = slices.Sorted(slices.Values(manifest.Union(s.env, cmakeReads())))
	}
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
		s.cudnn = s.cudnn || c.Needs("cudnn_headers_or_libs")
		if !slices.Contains(n.Features, "cudnn") {
			s.cudnn = false
		}
		if text := j.src.Text(from.Source); text != "" {
			s.max = source.NewestKnown(text)
			s.network = s.network && source.Downloads(text)
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
		s.compiles, s.libs, s.cc = true, true, true
		s.env = manifest.Union(s.env, []string{"NVCC"}) // before nvcc of PATH (cc 1.0 to 1.11, "NVCC")
		s.why = script.File(j.src, source.CompilesByCC) + " compiles CUDA with cc"
	case source.NamesNvcc(text):
		s.compiles = true
		s.libs = s.libs || source.LinksCUDA(text)
		s.ptx = s.ptx || strings.Contains(text, "ptx")
		s.why = script.File(j.src, source.NamesNvcc) + " calls nvcc"
	case slices.Contains(from.Helpers, "cmake") && strings.Contains(text, "cmake") &&
		(slices.Contains(n.Features, "cuda") || strings.Contains(strings.ToLower(text), "cuda")):
		s.cmake, s.compiles, s.libs, s.ptx = true, true, true, true
		s.env = manifest.Union(s.env, cmakeReads())
		s.why = "its build script runs CMake with CUDA"
	case source.LinksCUDA(text):
		s.libs = true
		s.why = script.File(j.src, source.LinksCUDA) + " links libraries of the toolkit"
	}
	if s.machine() {
		s.env = slices.Sorted(slices.Values(manifest.Union(s.env, script.Variables())))
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

// helpersOf lists the packages that a build script's program uses: all that it
// or a path package of it names itself, and GPU helpers at any depth.
func (j *judge) helpersOf(build int) []string {
	if build < 0 {
		return nil
	}
	direct := map[int]bool{}
	for _, i := range append(j.localNodes(build), build) {
		for _, d := range j.Nodes[i].Deps {
			direct[d.To] = true
		}
	}
	names := map[string]bool{}
	seen := map[int]bool{build: true}
	queue := []int{build}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, d := range j.Nodes[i].Deps {
			if seen[d.To] {
				continue
			}
			seen[d.To] = true
			queue = append(queue, d.To)
			if c := j.Crate(d.To); direct[d.To] || c != nil && c.Role == catalog.Helper {
				names[j.Nodes[d.To].Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
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

// graphScript is the script that a unit runs.
func (j *judge) graphScript(run int) source.Script {
	build := j.Graph.Compiled(run)
	file := j.Graph.Units[run].Target.SrcPath
	if build >= 0 {
		file = j.Graph.Units[build].Target.SrcPath
	}
	return source.Script{Source: file, Helpers: j.helpersOf(build), Locals: j.localsOf(build)}
}

// localsOf lists the root files of the path packages that the program of a build script is made of.
func (j *judge) localsOf(build int) []string {
	var out []string
	for _, i := range j.localNodes(build) {
		if src := j.Graph.Units[i].Target.SrcPath; src != "" && !slices.Contains(out, src) {
			out = append(out, src)
		}
	}
	return out
}

// localNodes lists the path packages that a build script's program links, those of them first that it names itself, and what the user's own
// script takes from git or a registry to run nvcc.
func (j *judge) localNodes(build int) []int {
	if build < 0 {
		return nil
	}
	var out []int
	seen, queue := map[int]bool{build: true}, []int{build}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, d := range j.Nodes[i].Deps {
			if seen[d.To] || j.Graph != nil && j.Graph.Units[d.To].Host() {
				continue
			}
			foreign := i == build && j.Nodes[build].Local && j.Graph != nil && j.Crate(d.To) == nil
			if !j.Nodes[d.To].Local && !(foreign && source.NamesNvcc(j.src.Modules(j.Graph.Units[d.To].Target.SrcPath))) {
				continue
			}
			seen[d.To] = true
			queue, out = append(queue, d.To), append(out, d.To)
		}
	}
	return out
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
			if local := v.localPackage(d); local != nil {
				s.Locals = append(s.Locals, v.Host.Join(local.Dir, "src", "lib.rs"))
				walk(local, manifest.Normal)
			}
		}
	}
	walk(p, manifest.Build)
	return s
}

func (v *view) localPackage(d manifest.Dependency) *manifest.Package {
	if v.Project != nil {
		if p := v.Project.Local(d.Path); p != nil {
			return p
		}
	}
	return v.ReadManifest(v.Host.Join(d.Path, manifest.FileName), d.Package)
}
