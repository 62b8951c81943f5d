package features

import (
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

type needWord struct{ word, shown string }

// needWords are the words of the catalog for what a build script needs, as people read them, in the order in which they are said.
var needWords = []needWord{
	{nvcc, "nvcc"}, {nvccVersion, "nvcc"}, {nvcc, "host compiler"}, {cudaLibs, "CUDA headers or libraries"}, {cudnnLibs, "cuDNN"},
	{cmake, "CMake"}, {libclang, "libclang"}, {libtorch, "libtorch"}, {rocm, "ROCm"}, {"network", "network"},
	{"gpu_visible_or_env", "a compute capability"}, {"capnp", "Cap'n Proto compiler"}, {"vulkan_sdk", "Vulkan SDK"},
	{"cxx", "a C++ compiler"},
}

// needs says what the build scripts need to run, and what the program needs to start, each with the crate that says so.
func (j *judge) needs() {
	n := &j.out.Needs
	n.Run, n.Because, n.Floors = []NeedReason{}, []NeedReason{}, j.floors
	all := map[string]bool{} // what any script needs
	for _, i := range j.linkedAnywhere() {
		if c := j.Crate(i); c != nil {
			j.needsOfCrate(c, i, all)
		}
		if s := j.scripts[i]; s != nil && !j.leftOff(i) {
			j.needsOfScript(s, i, all)
		}
		if n.Perhaps == "" && j.perhaps(i) {
			n.Perhaps = j.Nodes[i].Name
		}
	}
	n.NVCC, n.HostCXX, n.CUDALibs, n.CUDNN = all[nvcc] || all[nvccVersion], all[nvcc], all[cudaLibs], all[cudnnLibs]
	n.LibTorch, n.ROCm, n.NVCCVersion = all[libtorch], all[rocm], all[nvccVersion] && !all[nvcc]
}

// perhaps reports whether a package outside of the catalog may compile kernels in this build: only the build shows it. In a build that
// asks for CUDA its own features for CUDA are a sign of it, too; in another one such features, all off, say that no kernels are wanted.
func (j *judge) perhaps(i int) bool {
	n := &j.Nodes[i]
	if j.Crate(i) != nil || n.Pkg == nil || !j.runsScript(i) || j.leftOff(i) {
		return false
	}
	return j.cuda[n.Pkg] || j.out.requested && (j.compiles[n.Pkg] || slices.ContainsFunc(n.Features, j.ask.IsCUDA))
}

// leftOff reports whether a package outside of the catalog declares `cuda`, `gpu` or a feature that the configuration names, and all of them are
// off, in a build in which nobody asks for a GPU: what its script does for them is not wanted. Other names, as `cudnn`, may be a part of it only.
func (j *judge) leftOff(i int) bool {
	n := &j.Nodes[i]
	if j.out.requested || j.anyGPU || n.Pkg == nil || j.Crate(i) != nil {
		return false
	}
	declared := slices.DeleteFunc(n.Pkg.FeatureNames(), func(f string) bool {
		return f != manifest.CUDA && f != manifest.AnyGPU && !slices.Contains(j.ask.GPUFeatures, f)
	})
	return len(declared) > 0 && !catalog.Overlap(declared, n.Features)
}

func (n *Needs) because(r NeedReason) {
	if !slices.Contains(n.Because, r) {
		n.Because = append(n.Because, r)
	}
}

// needsOfCrate adds what the catalog knows of a linked crate.
func (j *judge) needsOfCrate(c *catalog.Crate, i int, all map[string]bool) {
	n, name, feats := &j.out.Needs, j.name(i), j.Nodes[i].Features
	major, nvcc := 0, 0
	runs := func(why string, needs ...string) {
		for _, need := range needs {
			at := slices.IndexFunc(n.Run, func(r NeedReason) bool { return r.Need == need })
			if at >= 0 && (major == 0 || n.Run[at].Major != 0) {
				continue
			} else if at >= 0 {
				n.Run = slices.Delete(n.Run, at, at+1)
			}
			n.Run = append(n.Run, NeedReason{Need: need, Crate: name, Why: why, Major: major, NVCC: nvcc})
		}
	}
	if a := c.Archive(j.Nodes[i].Version, feats); a != nil {
		major, nvcc = a.CUDA, a.NVCC
	}
	switch {
	case c.CUDA() && c.On(feats):
		if !n.CUDA || c.Linked() {
			n.because(NeedReason{Need: "cuda", Crate: name, Why: "its CUDA code is linked"})
		}
		n.CUDA, n.EmbedsPTX = true, n.EmbedsPTX || c.EmbedsPTX
		how := ""
		if c.Name == "cudarc" {
			how = catalog.CudarcOf(feats).How()
		}
		runs(how, c.Opens(feats)...)
	case !c.CUDA() && c.Linked():
		runs("", c.RunNeeds...)
	}
	for _, word := range c.Also(feats) {
		all[word] = true
		if at := slices.IndexFunc(needWords, func(w needWord) bool { return w.word == word }); at >= 0 {
			n.because(NeedReason{Need: needWords[at].shown, Crate: name})
		}
	}
	if c.Ineffective(feats) || !c.On(feats) {
		return
	}
	for _, f := range c.Files {
		if (f.OS == "" || f.OS == j.os) && !slices.Contains(feats, f.Unless) {
			n.Files = manifest.Union(n.Files, f.Names)
		}
	}
}

// needsOfScript adds what a build script needs by the catalog.
func (j *judge) needsOfScript(s *scriptFacts, i int, all map[string]bool) {
	n, name := &j.out.Needs, j.name(i)
	if why := s.needs[nvcc]; why != "" && !j.Crate(i).CUDA() {
		n.CUDA = true
		n.because(NeedReason{Need: "cuda", Crate: name, Why: why})
	}
	for _, w := range needWords {
		if why := s.needs[w.word]; why != "" && w.word != "cxx" {
			all[w.word] = true
			n.because(NeedReason{Need: w.shown, Crate: name, Why: why})
		}
	}
	n.EmbedsPTX = n.EmbedsPTX || s.ptx && len(s.needs) > 0
	if !s.max.IsZero() {
		j.limit(s.max, i)
	}
}

// units lists the build scripts whose output depends on the GPU toolchain, or perhaps does, those for the building machine included.
func (j *judge) units() {
	seen := map[string]bool{}
	if j.Graph == nil {
		return
	}
	for i := range j.Graph.Units {
		u, n := &j.Graph.Units[i], &j.Nodes[i]
		key := u.PkgID + "\x00" + strings.Join(n.Features, ",") + "\x00" + u.Platform
		if u.Mode != "run-custom-build" || seen[key] {
			continue
		}
		var in Inputs
		units := &j.out.Units
		switch s := j.scripts[i]; {
		case j.leftOff(i):
			j.out.LeftOff = manifest.Union(j.out.LeftOff, []string{u.PkgID})
			continue
		case s != nil && s.machine():
			in = s.inputs()
		case j.perhaps(i):
			in = j.inputsPerhaps(i)
		case j.Crate(i) == nil:
			in, units = j.inputsPerhaps(i), &j.out.Others
		default:
			continue
		}
		seen[key] = true
		*units = append(*units, ScriptUnit{PkgID: u.PkgID, Name: n.Name, Version: n.Version,
			Features: append([]string{}, n.Features...), Dir: n.Dir, Platform: u.Platform, Inputs: in})
	}
	slices.SortStableFunc(j.out.Units, func(a, b ScriptUnit) int { return strings.Compare(a.Name, b.Name) })
}

// inputsPerhaps is what the output of a script depends on that may compile kernels.
func (j *judge) inputsPerhaps(i int) Inputs {
	in := Inputs{NVCC: true, Host: true, Arch: true, Root: true, Env: []string{}, PassesCXX: j.scripts[i] != nil && j.scripts[i].passesCXX}
	uses := j.helpers(i)
	if in.CXX = catalog.Overlap(uses, []string{"cc", cmake}); slices.Contains(uses, cmake) {
		in.Env = cmakeReads()
	}
	return in
}

func (s *scriptFacts) inputs() Inputs {
	has := func(word string) bool { return s.needs[word] != "" }
	return Inputs{NVCC: has(nvcc) || has(nvccVersion), Version: has(nvccVersion) && !has(nvcc), Host: has(nvcc), Arch: has(nvcc),
		Root: has(cudaLibs) || has(nvcc), Binds: has(cudaLibs) && has(libclang), CUDNN: has(cudnnLibs),
		PassesCXX: s.passesCXX, CXX: has("cc") || has(cmake) || has(libtorch), Torch: has(libtorch), Headers: s.headers,
		Env: append([]string{}, s.env...)}
}
