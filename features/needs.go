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
		if s := j.scripts[i]; s != nil {
			j.needsOfScript(s, i, all)
		}
	}
	n.NVCC, n.HostCXX, n.CUDALibs, n.CUDNN = all[nvcc] || all[nvccVersion], all[nvcc], all[cudaLibs], all[cudnnLibs]
	n.LibTorch, n.ROCm, n.NVCCVersion = all[libtorch], all[rocm], all[nvccVersion] && !all[nvcc]
}

func (n *Needs) because(r NeedReason) {
	if !slices.Contains(n.Because, r) {
		n.Because = append(n.Because, r)
	}
}

// needsOfCrate adds what the catalog knows of a linked crate.
func (j *judge) needsOfCrate(c *catalog.Crate, i int, all map[string]bool) {
	n, name, feats := &j.out.Needs, j.name(i), j.Nodes[i].Features
	runs := func(why string, needs ...string) {
		for _, need := range needs {
			if !slices.ContainsFunc(n.Run, func(r NeedReason) bool { return r.Need == need }) {
				n.Run = append(n.Run, NeedReason{need, name, why})
			}
		}
	}
	switch {
	case c.CUDA() && c.On(feats):
		if !n.CUDA || c.Role == catalog.Carrier {
			n.because(NeedReason{"cuda", name, "its CUDA code is linked"})
		}
		n.CUDA, n.EmbedsPTX = true, n.EmbedsPTX || c.EmbedsPTX
		how := ""
		if c.Name == "cudarc" {
			how = catalog.CudarcOf(feats).How()
		}
		runs(how, c.Opens(feats)...)
	case !c.CUDA() && c.Role == catalog.Carrier:
		runs("", c.RunNeeds...)
	}
	for _, word := range c.Also(feats) {
		all[word] = true
		if at := slices.IndexFunc(needWords, func(w needWord) bool { return w.word == word }); at >= 0 {
			n.because(NeedReason{needWords[at].shown, name, ""})
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

// needsOfScript adds what a build script's text shows.
func (j *judge) needsOfScript(s *scriptFacts, i int, all map[string]bool) {
	n, name := &j.out.Needs, j.name(i)
	if why := s.needs[nvcc]; why != "" && !j.Crate(i).CUDA() {
		n.CUDA = true
		n.because(NeedReason{"cuda", name, why})
	}
	for _, w := range needWords {
		if why := s.needs[w.word]; why != "" && w.word != "cxx" {
			all[w.word] = true
			n.because(NeedReason{w.shown, name, why})
		}
	}
	n.EmbedsPTX = n.EmbedsPTX || s.ptx && len(s.needs) > 0
	if !s.max.IsZero() {
		j.limit(s.max, i)
	}
}

// units lists the build scripts whose output depends on the GPU toolchain, those for the building machine included.
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
		if s := j.scripts[i]; s != nil && s.machine() {
			seen[key] = true
			j.out.Units = append(j.out.Units, ScriptUnit{PkgID: u.PkgID, Name: n.Name, Version: n.Version,
				Features: append([]string{}, n.Features...), Dir: n.Dir, Platform: u.Platform, Inputs: s.inputs()})
		}
	}
	slices.SortStableFunc(j.out.Units, func(a, b ScriptUnit) int { return strings.Compare(a.Name, b.Name) })
}

func (s *scriptFacts) inputs() Inputs {
	has := func(word string) bool { return s.needs[word] != "" }
	return Inputs{NVCC: has(nvcc) || has(nvccVersion), Version: has(nvccVersion) && !has(nvcc), Host: has(nvcc), Arch: has(nvcc),
		Root: has(cudaLibs) || has(nvcc), Binds: has(cudaLibs) && has(libclang), CUDNN: has(cudnnLibs),
		CXX: has("cc") || has(cmake) || has(libtorch), Torch: has(libtorch), Headers: s.headers, Sources: s.sources,
		Env: append([]string{}, s.env...)}
}
