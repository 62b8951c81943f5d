package features

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/gpu"
)

// pinned is one cudarc of the graph.
type pinned struct {
	*judge
	catalog.Cudarc
	node   int
	linked bool
}

// cudarcs applies the rules to each cudarc of the graph, those of build scripts included, and records which CUDA versions they know.
func (j *judge) cudarcs() {
	seen, linked := map[string]bool{}, j.linkedAnywhere()
	var list []pinned
	for i := range j.Nodes {
		n := &j.Nodes[i]
		key := n.Version + "\x00" + strings.Join(n.Features, ",")
		if n.Name != "cudarc" || seen[key] {
			continue
		}
		c := pinned{j, catalog.CudarcOf(n.Features), i, slices.Contains(linked, i)}
		if j.Graph == nil && !c.linked || // only possible
			j.Graph != nil && slices.Contains(j.Graph.Units[i].Target.Kind, "custom-build") {
			continue
		}
		seen[key] = true
		c.Asks, c.Version = c.Asks && !j.cudarc.set, n.Version
		// build.rs 0.17.8 and 0.19.10: the roots' variables are read by link_searches, for the two kinds of linking, and by find_header,
		// for a version from a header. With a version by feature nothing else is left that asks the machine for anything. Of other versions
		// it was not read.
		c.Rootless = c.Rootless && (strings.HasPrefix(n.Version, "0.17.") || strings.HasPrefix(n.Version, "0.19."))
		if n.Pkg != nil {
			for f := range n.Pkg.Features {
				if v, ok := catalog.CudarcVersion(f); ok && v.Compare(c.Max) > 0 {
					c.Max = v
				}
			}
		}
		if c.Asks && !c.Max.IsZero() {
			j.limit(c.Max, i)
		}
		if c.linked && c.Linking != "dynamic-loading" && c.Pin.Compare(j.out.Pin) > 0 {
			j.out.Pin = c.Pin
		}
		j.out.Cudarc, list = append(j.out.Cudarc, c.Cudarc), append(list, c)
	}
	for _, c := range list {
		c.noVersion()
		c.severalVersions()
	}
}

// noVersion: nothing sets a CUDA version, and its build script stops (cudarc 0.19.10 build.rs main;
// https://github.com/chelsea0x3b/cudarc/issues/244). Only one whose manifest can be read and has such features is judged.
func (c pinned) noVersion() {
	const asks = "cuda-version-from-build-system"
	n := &c.Nodes[c.node]
	if n.Pkg == nil || !n.Pkg.Declares(asks) || slices.Contains(n.Features, asks) || !c.Pin.IsZero() || c.Max.IsZero() ||
		c.cudarc.set || c.cudarc.configured {
		return
	}
	version := fmt.Sprintf("cuda-%d0%d0", c.Max.Major, c.Max.Minor)
	f := newFinding(IDNoVersion, "%s is built for no CUDA version: none of its features cuda-* is enabled, and its build script stops",
		c.name(c.node))
	if c.Input.Lint && len(c.Project.Members) > 1 { // another one may bring the version, and cargo stops where none does
		f.Severity = Warning
	}
	f.Fix = "export CUDARC_CUDA_VERSION=" + strings.TrimPrefix(version, "cuda-")
	for r := range c.Roots {
		root := c.Roots[r].Node // which may have several cudarcs: only this one is known to have the feature
		if d, ok := c.DepFor(&c.Roots[r], root, c.node); ok {
			p := c.Nodes[root].Pkg
			f.Path, f.Line, f.Fix, f.Ask = p.Manifest, p.DependencyLine(d), "", []string{d.Key + "/" + version}
		}
	}
	c.find(f)
}

// severalVersions: its sources define everything twice. Seen: cudarc 0.19.10 with cuda-12030 and cuda-12080, and with one of them next to
// another CUDARC_CUDA_VERSION (0.17.8, too), ends with E0428 and some hundred other errors.
func (c pinned) severalVersions() {
	pins := strings.Join(c.Pins, ", ")
	if c.linked && len(c.Pins) > 1 {
		f := newFinding(IDPins, "cudarc %s has several CUDA versions turned on, and its sources take one: %s", c.Version, pins)
		f.Fix = "leave one of these features on, where cudarc is depended on; if the default features have one: --no-default-features"
		c.find(f)
	}
	if c.cudarc.set && !c.Input.Lint && pins != "" && !slices.Contains(c.Pins, "cuda-"+c.cudarc.value) {
		f := newFinding(IDVariable, "CUDARC_CUDA_VERSION=%s and the feature %s give %s two CUDA versions; it compiles with one only",
			c.cudarc.value, pins, c.name(c.node))
		f.Fix = "unset CUDARC_CUDA_VERSION, or leave the feature out"
		c.find(f)
	}
}

// limit keeps the newest CUDA version that every build script which asks nvcc for it knows.
func (j *judge) limit(v gpu.Version, i int) {
	if j.out.CudarcMax.IsZero() || v.Compare(j.out.CudarcMax) < 0 {
		j.out.CudarcMax, j.out.MaxBy = v, j.name(i)
	}
}

// cudarcScript says what cudarc's build script needs: it has no feature cuda, its linking mode and version source decide.
// Source: cudarc 0.19.10 build.rs (detect_version_from_env, detect_version_from_feature, cuda_version_from_build_system).
func (f *Facts) cudarcScript(features []string) scriptFacts {
	c, known := catalog.CudarcOf(features), f.Catalog.Crate("cudarc")
	s := scriptFacts{env: known.Env()}
	for _, h := range known.Script.Headers {
		if catalog.Overlap(h.Features, features) {
			s.headers = append(s.headers, h)
		}
	}
	if c.Asks && !f.cudarc.set && !c.Latest {
		s.add("asks nvcc on PATH for its version", nvccVersion)
	}
	if slices.Contains(features, "cudnn-version-from-build-system") {
		s.add("reads cuDNN's header", cudnnLibs)
	}
	if c.Linking != "dynamic-loading" {
		if s.add(c.Linking, cudaLibs); len(cudnnOf(features)) > 0 {
			s.add(c.Linking, cudnnLibs)
		}
	}
	return s
}
