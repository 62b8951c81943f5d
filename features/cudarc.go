package features

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/gpu"
)

// versionless reports a cudarc for which nothing sets a CUDA version: its build script stops (cudarc 0.19.10 build.rs main;
// https://github.com/chelsea0x3b/cudarc/issues/244). Only one whose manifest can be read and has such features is judged.
func (j *judge) versionless(i int, c catalog.Cudarc) {
	n := &j.Nodes[i]
	p := j.ManifestOf(i)
	if p == nil || !p.Declares("cuda-version-from-build-system") || slices.Contains(n.Features, "cuda-version-from-build-system") ||
		!c.Pin.IsZero() || c.Max.IsZero() {
		return
	}
	if _, set := j.Host.Env.Lookup("CUDARC_CUDA_VERSION"); set || j.src.ConfigNames("CUDARC_CUDA_VERSION") {
		return
	}
	version := fmt.Sprintf("cuda-%d0%d0", c.Max.Major, c.Max.Minor)
	f := newFinding(IDNoVersion, "%s is built for no CUDA version: none of its features cuda-* is enabled, and its build script stops",
		j.name(i))
	f.Fix = "export CUDARC_CUDA_VERSION=" + strings.TrimPrefix(version, "cuda-")
	for r := range j.Roots {
		p := j.ManifestOf(j.Roots[r].Node)
		if p == nil {
			continue
		}
		if p.Name == n.Name && p.Declares(version) {
			f.Path, f.Line, f.Fix, f.Ask = p.Manifest, p.FeatureLine(version), "", []string{version}
		}
		for _, d := range p.Dependencies {
			if d.Package == n.Name {
				f.Path, f.Line, f.Fix, f.Ask = p.Manifest, p.DependencyLine(d), "", []string{d.Key + "/" + version}
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
			if catalog.Overlap(h.Features, j.Nodes[i].Features) {
				s.headers = append(s.headers, h)
				why = append(why, "it takes a version from "+h.File)
			}
		}
	}
	var libs []string
	_, set := j.Host.Env.Lookup("CUDARC_CUDA_VERSION")
	if c.Asks && !set && !c.Latest {
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
	s.why = cmp.Or(strings.Join(append(libs, why...), "; "), "it opens the libraries when it runs")
	return s
}

// cudarc records which CUDA versions each cudarc of the graph knows, those of build scripts included.
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
		if _, set := j.Host.Env.Lookup("CUDARC_CUDA_VERSION"); set {
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
			f := newFinding(IDPins, "cudarc %s has several CUDA versions turned on, and its sources take one: %s", n.Version,
				strings.Join(c.Pins, ", "))
			f.Fix = "leave one of these features on, where cudarc is depended on"
			j.find(f)
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
				// CUDARC_CUDA_VERSION is no remedy: it turns a second version on
				// as well as the feature, and the sources then define everything twice.
				fix := fmt.Sprintf("give both the feature cuda-%02d0%d0, where they are depended on", newer.Major, newer.Minor)
				f := newFinding(IDMixed, "features give two cudarc of this build different CUDA versions: %s and %s", j.out.Pin, c.Pin)
				f.Fix = fix
				j.find(f)
			}
			if c.Pin.Compare(j.out.Pin) > 0 {
				j.out.Pin = c.Pin
			}
		}
	}
}

// pinsOpened reports cudarcs that open the toolkit's libraries at run time and got different versions: no build stops at it.
func (j *judge) pinsOpened(linked map[int]bool) {
	type pinned struct{ crate, version string }
	var list []pinned
	pins := map[gpu.Version]bool{}
	opens := false
	for i := range j.Nodes {
		n := &j.Nodes[i]
		if n.Name != "cudarc" || !linked[i] {
			continue
		}
		c := catalog.CudarcOf(n.Features)
		if c.Pin.IsZero() {
			continue
		}
		opens = opens || c.Linking == "dynamic-loading"
		if !pins[c.Pin] {
			pins[c.Pin] = true
			list = append(list, pinned{n.Version, c.Pin.String()})
		}
	}
	if len(list) < 2 || !opens {
		return
	}
	var words []string
	for _, t := range list {
		words = append(words, fmt.Sprintf("cudarc %s for CUDA %s", t.crate, t.version))
	}
	j.find(newFinding(IDMixed, "%s are in one program: what opens the libraries when it runs takes those of any version, "+
		"and panics where one lacks a function of the newer", strings.Join(words, " and ")))
}

// pinAgainstVariable reports CUDARC_CUDA_VERSION where a feature says another version. Seen: cudarc 0.17.8 and 0.19.10 then turn both on,
// and rustc ends with E0428 and some hundred other errors.
func (j *judge) pinAgainstVariable(i int, c catalog.Cudarc) {
	v, set := j.Host.Env.Lookup("CUDARC_CUDA_VERSION")
	if !set || len(c.Pins) == 0 || slices.Contains(c.Pins, "cuda-"+v) {
		return
	}
	f := newFinding(IDVariable, "CUDARC_CUDA_VERSION=%s and the feature %s give %s two CUDA versions; it compiles with one only",
		v, strings.Join(c.Pins, ", "), j.name(i))
	f.Fix = "unset CUDARC_CUDA_VERSION, or leave the feature out"
	j.find(f)
}
