package features

import (
	"slices"
	"sort"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// linkedAnywhere lists the nodes that any root links, in order.
func (j *judge) linkedAnywhere() []int {
	seen := map[int]bool{}
	var out []int
	for _, r := range j.Roots {
		for _, i := range r.Linked {
			if !seen[i] {
				seen[i] = true
				out = append(out, i)
			}
		}
	}
	sort.Ints(out)
	return out
}

func (j *judge) needs() {
	n := &j.out.Needs
	seen := map[NeedReason]bool{}
	because := func(need string, i int, why string) {
		r := NeedReason{need, j.name(i), why}
		if !seen[r] {
			seen[r] = true
			n.Because = append(n.Because, r)
		}
	}
	versionOnly, named := true, false // named: what its script needs is not known
	n.RunLibs, n.Run = []string{}, []NeedReason{}
	ran := map[string]bool{}
	runs := func(need string, i int, why string) {
		if !ran[need] {
			ran[need] = true
			n.Run = append(n.Run, NeedReason{need, j.name(i), why})
		}
	}
	for _, i := range j.linkedAnywhere() {
		c := j.Crate(i)
		feats := j.Nodes[i].Features
		named = named || slices.Contains(j.in.Named, j.Nodes[i].Name)
		if c.CUDA() && c.On(feats) {
			if !n.CUDA || c.Role == catalog.Carrier {
				because("cuda", i, "its CUDA code is linked")
			}
			n.CUDA = true
			for _, l := range c.RunNeeds {
				if !c.Idle(feats) {
					runs(l, i, "")
				}
			}
			if c.Name == "cudarc" {
				for _, l := range catalog.CudarcLibraries(feats) {
					runs(l, i, catalog.CudarcOf(feats).How())
				}
			} else {
				for _, l := range c.Runtime.Linked {
					if !strings.Contains(l, "feature cudnn") || slices.Contains(feats, "cudnn") {
						n.RunLibs = manifest.Union(n.RunLibs, []string{l})
					}
				}
			}
			if slices.Contains(feats, "cudnn") {
				n.RunCUDNN = true
			}
			n.EmbedsPTX = n.EmbedsPTX || c.EmbedsPTX
		}
		if c != nil {
			if !c.CUDA() && c.Role == catalog.Carrier {
				for _, l := range c.RunNeeds {
					runs(l, i, "")
				}
			}
			for _, need := range c.Also(feats) {
				flag, word := n.also(need)
				*flag = true
				because(word, i, "")
			}
		}
		j.known(i, c)
		s, has := j.scriptNode(i)
		if !has || !s.any() {
			continue
		}
		if s.compiles && !c.CUDA() {
			n.CUDA = true
			because("cuda", i, s.why)
		}
		asks, libs := s.why, s.why
		if s.asksVersion {
			asks = asksNVCC
		}
		if s.libsWhy != "" {
			libs = s.libsWhy
		}
		for _, a := range []struct {
			on        bool
			flag      *bool
			need, why string
		}{
			{s.compiles || s.asksVersion, &n.NVCC, "nvcc", asks}, {s.compiles, &n.HostCXX, "host compiler", s.why},
			{s.libs, &n.CUDALibs, "CUDA headers or libraries", libs}, {s.cudnn, &n.CUDNN, "cuDNN", libs},
			{s.cmake, &n.CMake, "CMake", s.why}, {s.clang, &n.LibClang, "libclang", s.why}, {s.torch, &n.LibTorch, "libtorch", s.why},
			{s.rocm, &n.ROCm, "ROCm", s.why}, {s.network, &n.Network, "network", s.why}, {s.cap, &n.ComputeCap, "a compute capability",
				s.why},
		} {
			if a.on {
				*a.flag = true
				because(a.need, i, a.why)
			}
		}
		n.EmbedsPTX = n.EmbedsPTX || s.ptx
		if !s.max.IsZero() {
			j.limit(s.max, i)
		}
		versionOnly = versionOnly && !s.compiles
	}
	n.NVCCVersion = n.NVCC && versionOnly
	n.RunCUDNN = n.RunCUDNN || n.CUDNN
	n.DriverOnly = n.CUDA && !named && !n.NVCC && !n.CUDALibs && !n.CUDNN && !n.LibTorch && !n.ROCm
	if n.Because == nil {
		n.Because = []NeedReason{}
	}
}

// known adds what the catalog knows of a linked crate's build script.
func (j *judge) known(i int, c *catalog.Crate) {
	if c == nil || c.Idle(j.Nodes[i].Features) {
		return
	}
	n, h := &j.out.Needs, j.Host
	for _, f := range c.Floors {
		if c.On(j.Nodes[i].Features) && f.Holds(j.src.Text(h.Join(j.DirOf(i), f.File))) {
			n.Floors = append(n.Floors, Floor{j.name(i), f.Arch, f.Since, f.Until, f.Why})
		}
	}
	for _, f := range c.Files {
		if c.On(j.Nodes[i].Features) && (f.OS == "" || f.OS == h.OS) && !slices.Contains(j.Nodes[i].Features, f.Unless) {
			n.Files = manifest.Union(n.Files, f.Names)
		}
	}
	for _, f := range c.Fetches {
		if (len(f.Features) == 0 || catalog.Overlap(f.Features, j.Nodes[i].Features)) && !f.HasCopy(h) {
			n.Fetches = append(n.Fetches, Fetch{j.name(i), f.What, f.From, f.Local})
		}
	}
}

// also answers the flag and the word of a need that has nothing to do with CUDA.
func (n *Needs) also(need string) (*bool, string) {
	switch need {
	case "cmake":
		return &n.CMake, "CMake"
	case "libclang":
		return &n.LibClang, "libclang"
	case "capnp":
		return new(bool), "Cap'n Proto compiler"
	case "network":
		return &n.Network, "network"
	case "rocm":
		return &n.ROCm, "ROCm"
	case "vulkan_sdk":
		return &n.VulkanSDK, "Vulkan SDK"
	}
	return new(bool), "a C++ compiler"
}

// units lists the build scripts whose output depends on the GPU toolchain, those for the building machine included.
func (j *judge) units() {
	defer func() {
		sort.SliceStable(j.out.Units, func(a, b int) bool { return j.out.Units[a].Name < j.out.Units[b].Name })
	}()
	seen := map[string]bool{}
	add := func(i int, id, dir, platform string, s scriptFacts) {
		n := &j.Nodes[i]
		if key := id + "\x00" + strings.Join(n.Features, ",") + "\x00" + platform; id != "" && s.machine() && !seen[key] {
			seen[key] = true
			j.out.Units = append(j.out.Units, ScriptUnit{PkgID: id, Name: n.Name, Version: n.Version,
				Features: append([]string{}, n.Features...),
				Dir:      dir, Platform: platform, Inputs: s.inputs()})
		}
	}
	if j.Graph == nil {
		return
	}
	for i := range j.Graph.Units {
		if u := &j.Graph.Units[i]; u.Mode == "run-custom-build" {
			add(i, u.PkgID, j.DirOf(i), u.Platform, j.scriptRun(i))
		}
	}
}

func (s *scriptFacts) inputs() Inputs {
	return Inputs{NVCC: s.compiles || s.asksVersion, Version: s.asksVersion && !s.compiles, Host: s.compiles, Arch: s.compiles,
		Root:  s.libs || s.compiles,
		Binds: s.libs && s.clang, CUDNN: s.cudnn, CXX: s.cc || s.cmake || s.torch, Torch: s.torch, Headers: s.headers,
		Sources: s.sources, Env: append([]string{}, s.env...)}
}
