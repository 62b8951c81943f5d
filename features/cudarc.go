package features

import (
	"cmp"
	"fmt"
	"maps"
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
		s.add(nvccVersion)
		why = append(why, asksNVCC)
	}
	cudnn := false
	for _, f := range j.Nodes[i].Features {
		cudnn = cudnn || strings.HasPrefix(f, "cudnn")
	}
	if c.Linking == "dynamic-linking" || c.Linking == "static-linking" {
		s.add(cudaLibs)
		if cudnn {
			s.add(cudnnLibs)
		}
		libs = append(libs, c.Linking)
	}
	if slices.Contains(j.Nodes[i].Features, "cudnn-version-from-build-system") {
		s.add(cudnnLibs)
		libs = append(libs, "reads cuDNN's header")
	}
	s.libsWhy = strings.Join(libs, "; ")
	s.why = cmp.Or(strings.Join(append(libs, why...), "; "), "it opens the libraries when it runs")
	return s
}

// cudarc records which CUDA versions each cudarc of the graph knows, those of build scripts included.
func (j *judge) cudarc() {
	seen, pins := map[string]bool{}, map[string]string{}
	linked := j.linkedAnywhere()
	_, set := j.Host.Env.Lookup("CUDARC_CUDA_VERSION")
	for i := range j.Nodes {
		n := &j.Nodes[i]
		key := n.Version + "\x00" + strings.Join(n.Features, ",")
		if n.Name != "cudarc" || seen[key] {
			continue
		}
		if j.Graph == nil && !slices.Contains(linked, i) || // only possible
			j.Graph != nil && slices.Contains(j.Graph.Units[i].Target.Kind, "custom-build") {
			continue
		}
		seen[key] = true
		c := catalog.CudarcOf(n.Features)
		c.Asks, c.Version = c.Asks && !set, n.Version
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
		if c.Asks && !c.Max.IsZero() {
			j.limit(c.Max, i)
		}
		j.versionless(i, c)
		j.pinAgainstVariable(i, c)
		if c.Pin.IsZero() || !slices.Contains(linked, i) {
			continue
		}
		if len(c.Pins) > 1 {
			// Seen: cudarc 0.19.10 with cuda-12030 and cuda-12080 ends with E0428, "CUDA_VERSION is defined multiple times".
			f := newFinding(IDPins, "cudarc %s has several CUDA versions turned on, and its sources take one: %s", n.Version,
				strings.Join(c.Pins, ", "))
			f.Fix = "leave one of these features on, where cudarc is depended on"
			j.find(f)
		}
		pins[c.Pin.String()] = fmt.Sprintf("cudarc %s for CUDA %s", n.Version, c.Pin)
		if c.Linking != "dynamic-loading" && c.Pin.Compare(j.out.Pin) > 0 {
			j.out.Pin = c.Pin
		}
	}
	if len(pins) > 1 { // no build stops at it: CUDARC_CUDA_VERSION is no remedy, it turns a second version on in both
		f := newFinding(IDMixed, "%s are in one program", strings.Join(slices.Sorted(maps.Values(pins)), " and "))
		f.Fix = "give both the same feature cuda-*, where they are depended on"
		j.find(f)
	}
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
