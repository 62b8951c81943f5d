package features

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
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
	versionOnly := true
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
	n.DriverOnly = n.CUDA && !n.NVCC && !n.CUDALibs && !n.CUDNN && !n.LibTorch && !n.ROCm
	if n.Because == nil {
		n.Because = []NeedReason{}
	}
}

// also answers the flag and the word of a need that has nothing to do with CUDA.
func (n *Needs) also(need string) (*bool, string) {
	switch need {
	case "cmake":
		return &n.CMake, "CMake"
	case "libclang":
		return &n.LibClang, "libclang"
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
	if j.Graph == nil { // a tree names no build scripts and no platforms; which packages have one, their manifests say
		for i := range j.Nodes {
			s, ok := j.scriptNode(i)
			id := j.TreeID(i)
			if name := j.Nodes[i].Name; j.untold(i, id, ok, s.machine()) && !slices.Contains(j.out.Untold, name) {
				j.out.Untold = append(j.out.Untold, name)
			}
			if ok {
				add(i, id, j.Nodes[i].Dir, "", s)
			}
		}
		return
	}
	for i := range j.Graph.Units {
		if u := &j.Graph.Units[i]; u.Mode == "run-custom-build" {
			add(i, u.PkgID, j.DirOf(i), u.Platform, j.scriptOf(i, j.graphScript(i)))
		}
	}
}

func (s *scriptFacts) inputs() Inputs {
	return Inputs{NVCC: s.compiles || s.asksVersion, Version: s.asksVersion && !s.compiles, Host: s.compiles, Arch: s.compiles,
		Root:  s.libs || s.compiles,
		Binds: s.libs && s.clang, CUDNN: s.cudnn, CXX: s.cc || s.cmake || s.torch, Torch: s.torch, Headers: s.headers,
		Env: append([]string{}, s.env...)}
}

// untold says whether a package of a tree may take something from the GPU's toolchain while nothing tells what, or by which name cargo's
// messages will call it.
func (j *judge) untold(i int, id string, read, machine bool) bool {
	n, c := &j.Nodes[i], j.Crate(i)
	if n.Local || n.Registry {
		return false
	}
	if read && machine {
		return id == ""
	}
	return j.ManifestOf(i) == nil && (c != nil && c.Script != nil && (c.Role == catalog.Carrier || c.On(n.Features)) ||
		c == nil && slices.Contains(n.Features, "cuda"))
}

// versionless reports a cudarc that nobody tells a CUDA version: its build script stops (cudarc 0.19.10 build.rs main;
// https://github.com/chelsea0x3b/cudarc/issues/244). Only one whose manifest can be read and has such features is judged.
func (j *judge) versionless(i int, c catalog.Cudarc) {
	n := &j.Nodes[i]
	p := j.ManifestOf(i)
	if p == nil || !p.Declares("cuda-version-from-build-system") || slices.Contains(n.Features, "cuda-version-from-build-system") ||
		!c.Pin.IsZero() || c.Max.IsZero() {
		return
	}
	if _, told := j.Host.Env.Lookup("CUDARC_CUDA_VERSION"); told || j.src.ConfigNames("CUDARC_CUDA_VERSION") {
		return
	}
	f := Finding{Finding: finding.Finding{ID: IDNoVersion, Severity: Error, Message: j.name(i) +
		" is told no CUDA version, and its build script stops: none of its features cuda-… is on", Evidence: j.out.Via,
		Fix: fmt.Sprintf("CUDARC_CUDA_VERSION=%d0%d0, or cudarc's feature cuda-version-from-build-system", c.Max.Major, c.Max.Minor)}}
	for r := range j.Roots {
		if p := j.ManifestOf(j.Roots[r].Node); p != nil {
			for _, d := range p.Dependencies {
				if d.Package == n.Name {
					f.Path, f.Line = p.Manifest, p.DependencyLine(d)
				}
			}
		}
	}
	j.find(f)
}

// limit keeps the newest CUDA version that every build script which asks nvcc for it knows.
func (j *judge) limit(v gpu.Version, i int) {
	if j.out.CudarcMax.IsZero() || v.Compare(j.out.CudarcMax) < 0 {
		j.out.CudarcMax, j.out.MaxBy = v, j.name(i)
	}
}

const asksNVCC = "asks nvcc on PATH for its version"

// cudarcScript says what cudarc's build script needs: it has no feature cuda, its linking mode and version source decide.
// Source: cudarc 0.19.10 build.rs (detect_version_from_env, detect_version_from_feature, cuda_version_from_build_system).
func (j *judge) cudarcScript(i int) scriptFacts {
	c := catalog.CudarcOf(j.Nodes[i].Features)
	s := scriptFacts{}
	why := []string{}
	if known := j.Catalog.Crate("cudarc"); known != nil {
		s.env = known.Env()
		for _, h := range known.Script.Headers {
			if overlap(h.Features, j.Nodes[i].Features) {
				s.headers = append(s.headers, h)
				why = append(why, "it takes a version from "+h.File)
			}
		}
	}
	var libs []string
	_, told := j.Host.Env.Lookup("CUDARC_CUDA_VERSION")
	if c.Asks && !told && !c.Latest {
		s.asksVersion = true
		why = append(why, asksNVCC)
	}
	cudnn := false
	for _, f := range j.Nodes[i].Features {
		cudnn = cudnn || strings.HasPrefix(f, "cudnn")
	}
	if c.Linking == "dynamic-linking" || c.Linking == "static-linking" {
		s.libs = true
		s.cudnn = cudnn
		libs = append(libs, c.Linking)
	}
	if slices.Contains(j.Nodes[i].Features, "cudnn-version-from-build-system") {
		s.cudnn = true
		libs = append(libs, "reads cuDNN's header")
	}
	s.libsWhy = strings.Join(libs, "; ")
	s.why = strings.Join(append(libs, why...), "; ")
	if s.why == "" {
		s.why = "it opens the libraries when it runs"
	}
	return s
}

func overlap(a, b []string) bool {
	for _, s := range a {
		if slices.Contains(b, s) {
			return true
		}
	}
	return false
}

// cudarc tells of each cudarc in the graph, those of build scripts included, which CUDA versions it knows.
func (j *judge) cudarc() {
	seen := map[string]bool{}
	linked := map[int]bool{}
	for _, i := range j.linkedAnywhere() {
		linked[i] = true
	}
	defer j.pinsOpened(linked)
	for i := range j.Nodes {
		n := &j.Nodes[i]
		if n.Name != "cudarc" || j.Graph != nil && j.Graph.Units[i].Mode == "run-custom-build" {
			continue
		}
		if j.Graph != nil && slices.Contains(j.Graph.Units[i].Target.Kind, "custom-build") {
			continue
		}
		key := n.Version + "\x00" + strings.Join(n.Features, ",")
		if seen[key] {
			continue
		}
		seen[key] = true
		c := catalog.CudarcOf(n.Features)
		if _, told := j.Host.Env.Lookup("CUDARC_CUDA_VERSION"); told {
			c.Asks = false
		}
		c.Version = n.Version
		// build.rs 0.17.8 and 0.19.10: the roots' variables are read by link_searches, for the two kinds of linking, and by find_header,
		// for a version from a header. With a version by feature nothing else is left that asks the machine for anything. Of other versions
		// it was not read.
		c.Rootless = c.Rootless && (strings.HasPrefix(n.Version, "0.17.") || strings.HasPrefix(n.Version, "0.19."))
		if p := j.ManifestOf(i); p != nil {
			for f := range p.Features {
				if v, ok := catalog.CudarcVersion(f); ok && v.Compare(c.Max) > 0 {
					c.Max = v
				}
			}
		}
		j.out.Cudarc = append(j.out.Cudarc, c)
		if linked[i] && len(c.Pins) > 1 {
			// Seen: cudarc 0.19.10 with cuda-12030 and cuda-12080 ends with E0428, "CUDA_VERSION is defined multiple times".
			j.find(Finding{Finding: finding.Finding{ID: IDPins, Severity: Warning,
				Message: fmt.Sprintf("cudarc %s has several CUDA versions turned on, and its sources take one: %s", j.Nodes[i].Version,
					strings.Join(c.Pins, ", ")), Fix: "leave one of these features on, where cudarc is depended on", Evidence: j.out.Via}})
		}
		if c.Asks && !c.Max.IsZero() {
			j.limit(c.Max, i)
		}
		j.versionless(i, c)
		j.pinAgainstVariable(i, c)
		if !c.Pin.IsZero() && linked[i] && c.Linking != "dynamic-loading" {
			if !j.out.Pin.IsZero() && j.out.Pin != c.Pin {
				newer := j.out.Pin
				if c.Pin.Compare(newer) > 0 {
					newer = c.Pin
				}
				// CUDARC_CUDA_VERSION is no remedy: it turns a second version on beside the feature, and the sources then define everything
				// twice.
				j.find(Finding{Finding: finding.Finding{ID: IDPins, Severity: Warning,
					Message: "two cudarc of this build are told different CUDA versions: " +
						j.out.Pin.String() + " and " + c.Pin.String(),
					Fix:      fmt.Sprintf("give both the feature cuda-%02d0%d0, where they are depended on", newer.Major, newer.Minor),
					Evidence: j.out.Via}})
			}
			if c.Pin.Compare(j.out.Pin) > 0 {
				j.out.Pin = c.Pin
			}
		}
	}
}
