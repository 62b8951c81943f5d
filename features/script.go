package features

import (
	"maps"
	"slices"
	"sort"
	"strings"

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
	headers     []Header
	env         []string
	why         string
	libsWhy     string      // why the libraries are needed, where why says something else
	max         gpu.Version // newest CUDA version in its list: a newer nvcc makes it stop
}

// any says whether the script asks for anything; machine whether its output depends on parts that cargo does not watch.
func (s *scriptFacts) any() bool { return s.machine() || s.clang || s.network || s.cap }

func (s *scriptFacts) machine() bool {
	return s.compiles || s.asksVersion || s.libs || s.cudnn || s.cmake || s.torch || s.rocm || len(s.headers) > 0
}

func (s *scriptFacts) take(c *Crate) {
	s.compiles = s.compiles || c.Needs("nvcc")
	s.libs = s.libs || c.Needs("cuda_headers_or_libs")
	s.cmake = s.cmake || c.Needs("cmake")
	s.clang = s.clang || c.Needs("libclang")
	s.torch = s.torch || c.Needs("libtorch")
	s.rocm = s.rocm || c.Needs("rocm")
	s.network = s.network || c.Needs("network")
	s.cap = s.cap || c.Needs("gpu_visible_or_env")
	s.ptx = s.ptx || c.EmbedsPTX
	s.env = slices.Sorted(slices.Values(Union(s.env, c.Env())))
	if s.cmake {
		s.env = slices.Sorted(slices.Values(Union(s.env, cmakeReads())))
	}
}

// cmakeReads lists what CMake itself reads for its CUDA language: cmake-env-variables(7), "Environment Variables for Languages" and "… that Change
// Behavior". A build script that runs it hands its environment on.
func cmakeReads() []string {
	return []string{"CUDACXX", "CUDAHOSTCXX", "CUDAFLAGS", "CUDAARCHS", "CMAKE_*"}
}

// scriptOf says what the build script of a node needs.
func (j *judge) scriptOf(i int, from script) scriptFacts {
	n, c := &j.nodes[i], j.crate(i)
	var s scriptFacts
	switch {
	case n.name == "cudarc":
		return j.cudarcScript(i)
	case c != nil && (c.Role == Carrier || c.Role == Gated && c.On(n.features) || c.Role == ByFile) && c.Script != nil:
		s.take(c)
		s.cudnn = s.cudnn || c.Needs("cudnn_headers_or_libs")
		if !slices.Contains(n.features, "cudnn") {
			s.cudnn = false
		}
		if text := j.src.text(from.source); text != "" {
			s.max = newestKnown(text)
			s.network = s.network && downloads(text)
		}
		s.why = "known of " + c.Name
		return s
	case c != nil && (c.Role == FalseFriend || c.Role == Helper || c.Role == Monitor || c.Role == Gated && !c.On(n.features)):
		return s
	}
	gpu := n.local || c.CUDA() || slices.Contains(n.features, "cuda") || slices.Contains(n.features, "_cuda")
	for _, h := range from.helpers {
		if hc := j.catalog.Crate(h); hc != nil && hc.Role == Helper {
			s.take(hc)
			s.ptx = true
			s.why = "its build script uses " + h
		}
	}
	if !gpu {
		return s
	}
	script := j.src.textOf(from, j.dirOf(i))
	// What a helper crate tests by cfg is a feature of its own; the variable is one of the package whose script runs.
	if script.own == "" || !j.scriptWants(i, script.own+strings.ReplaceAll(script.all[len(script.own):], "feature", "")) {
		return s
	}
	text := script.all
	switch {
	case compilesByCC(text):
		s.compiles, s.libs, s.cc = true, true, true
		s.env = Union(s.env, []string{"NVCC"}) // before nvcc of PATH (cc 1.0 to 1.11, "NVCC")
		s.why = script.file(j.src, compilesByCC) + " compiles CUDA with cc"
	case namesNvcc(text):
		s.compiles = true
		s.libs = s.libs || linksCUDA(text)
		s.ptx = s.ptx || strings.Contains(text, "ptx")
		s.why = script.file(j.src, namesNvcc) + " calls nvcc"
	case slices.Contains(from.helpers, "cmake") && strings.Contains(text, "cmake") && (slices.Contains(n.features, "cuda") || strings.Contains(strings.ToLower(text), "cuda")):
		s.cmake, s.compiles, s.libs, s.ptx = true, true, true, true
		s.env = Union(s.env, cmakeReads())
		s.why = "its build script runs CMake with CUDA"
	case linksCUDA(text):
		s.libs = true
		s.why = script.file(j.src, linksCUDA) + " links libraries of the toolkit"
	default:
		return s
	}
	s.env = slices.Sorted(slices.Values(Union(s.env, variables(text))))
	return s
}

// scriptWants says whether a script that tests GPU features has one of them on; one that tests none always does its work.
func (j *judge) scriptWants(i int, text string) bool {
	tested := false
	for _, f := range Union(j.ask.gpu, []string{"_cuda", "gpu"}) {
		if strings.Contains(text, "CARGO_FEATURE_"+envName(f)+`"`) || testsFeature(text, f) {
			if slices.Contains(j.nodes[i].features, f) {
				return true
			}
			tested = true
		}
	}
	return !tested
}

// helpersOf lists the packages that a build script's program uses: all that it or a path package of it names itself, and GPU helpers at any depth.
func (j *judge) helpersOf(build int) []string {
	if build < 0 {
		return nil
	}
	direct := map[int]bool{}
	for _, i := range append(j.localNodes(build), build) {
		for _, d := range j.nodes[i].deps {
			direct[d.to] = true
		}
	}
	names := map[string]bool{}
	seen := map[int]bool{build: true}
	queue := []int{build}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, d := range j.nodes[i].deps {
			if seen[d.to] {
				continue
			}
			seen[d.to] = true
			queue = append(queue, d.to)
			if c := j.crate(d.to); direct[d.to] || c != nil && c.Role == Helper {
				names[j.nodes[d.to].name] = true
			}
		}
	}
	out := slices.Sorted(maps.Keys(names))
	sort.Strings(out)
	return out
}

// scriptNode answers what the build script of a linked node needs, from the graph or, without one, from the manifest.
func (j *judge) scriptNode(i int) (scriptFacts, bool) {
	if j.graph != nil {
		run, build := j.graph.script(i)
		if run < 0 {
			return scriptFacts{}, false
		}
		file := ""
		if build >= 0 {
			file = j.graph.Units[build].Target.SrcPath
		} else {
			file = j.graph.Units[run].Target.SrcPath
		}
		return j.scriptOf(i, script{file, j.helpersOf(build), j.localsOf(build)}), true
	}
	n, c := &j.nodes[i], j.crate(i)
	if !n.local && c == nil && !slices.Contains(n.features, "cuda") {
		return scriptFacts{}, false
	}
	p := j.manifestOf(i)
	if p == nil {
		return j.scriptOf(i, script{}), c != nil && c.Script != nil
	}
	if p.BuildScript == "" {
		return scriptFacts{}, false
	}
	return j.scriptOf(i, j.manifestScript(p)), true
}

// localsOf lists the root files of the path packages that the program of a build script is made of.
func (j *judge) localsOf(build int) []string {
	var out []string
	for _, i := range j.localNodes(build) {
		if src := j.graph.Units[i].Target.SrcPath; src != "" && !slices.Contains(out, src) {
			out = append(out, src)
		}
	}
	return out
}

// localNodes lists the path packages that a build script's program links, those of them first that it names itself.
func (j *judge) localNodes(build int) []int {
	if build < 0 {
		return nil
	}
	var out []int
	seen, queue := map[int]bool{build: true}, []int{build}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, d := range j.nodes[i].deps {
			if seen[d.to] || !j.nodes[d.to].local || j.graph != nil && j.graph.Units[d.to].Host() {
				continue
			}
			seen[d.to] = true
			queue, out = append(queue, d.to), append(out, d.to)
		}
	}
	return out
}

// manifestScript is the script of a package without a unit graph, by its manifest and those of its path dependencies.
func (j *judge) manifestScript(p *Package) script {
	s := script{source: p.BuildScript}
	seen := map[string]bool{}
	var walk func(p *Package, kind string)
	walk = func(p *Package, kind string) {
		for _, d := range p.Dependencies {
			if d.Kind != kind {
				continue
			}
			if !slices.Contains(s.helpers, d.Package) {
				s.helpers = append(s.helpers, d.Package)
			}
			if d.Path == "" || seen[d.Path] {
				continue
			}
			seen[d.Path] = true
			if local := j.localPackage(d); local != nil {
				s.locals = append(s.locals, j.h.Join(local.Dir, "src", "lib.rs"))
				walk(local, Normal)
			}
		}
	}
	walk(p, Build)
	return s
}

func (j *judge) localPackage(d Dependency) *Package {
	if j.project != nil {
		if p := j.project.Local(d.Path); p != nil {
			return p
		}
	}
	return j.readManifest(j.h.Join(d.Path, ManifestName), d.Package)
}
