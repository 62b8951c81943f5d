package app

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
)

// hidden is a package of the user's own that compiles kernels although nothing in the sources shows it, in a build of which no other package needs a toolkit.
type hidden struct {
	pkg   string
	why   string
	arch  gpu.Arch // for which its kernels were built; zero: it is not known
	asked bool     // the user named a toolkit or an architecture for this build
}

// hiddenNVCC looks for one: what its script made here before, or the user's own word where a script runs programs. Without it no toolkit would be chosen,
// the user's word would go unheard, and there would be nothing that old kernels could be held against.
func (j *journey) hiddenNVCC() (hidden, error) {
	local, err := j.localScripts()
	if err != nil {
		return hidden{}, err
	}
	asked := j.askedTools()
	for _, p := range local {
		if arch, made := j.madeKernels(p); made != "" {
			return hidden{p.Name, "its build script left kernels here that nvcc " + made + " compiled", arch, asked != ""}, nil
		}
	}
	if asked == "" {
		return hidden{}, nil
	}
	for _, p := range local {
		if text, err := j.Host.ReadFile(p.BuildScript, mostSource); err == nil && strings.Contains(string(text), "Command") {
			return hidden{pkg: p.Name, why: "its build script runs programs, and " + asked + " was given", asked: true}, nil
		}
	}
	return hidden{}, nil
}

// askedTools is the word with which the user asked for a toolkit or an architecture for this build; empty when there was none.
func (j *journey) askedTools() string {
	switch cuda := j.Host.Env.Get("GPUBUILD_CUDA"); {
	case j.options.Toolkit != "" && j.options.Toolkit != "fetch":
		return "--gpu-toolkit"
	case j.options.Toolkit == "" && cuda != "" && cuda != "fetch":
		return "GPUBUILD_CUDA"
	case j.options.Arch != "":
		return "--gpu-arch"
	}
	return ""
}

// localScripts are the path packages whose build script runs in this build; without a unit graph all that have one.
func (j *journey) localScripts() ([]*manifest.Package, error) {
	runs := map[string]bool{}
	if j.graph.Units != nil {
		for _, u := range j.graph.Units.Units {
			if u.Mode == "run-custom-build" {
				runs[u.PkgID] = true
			}
		}
	}
	var out []*manifest.Package
	for _, list := range [][]*manifest.Package{j.Project.Members, j.Project.Locals} {
		for _, p := range list {
			if p.BuildScript != "" && (j.graph.Units == nil || runs[p.PathID(j.Host)]) {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// madeKernels says which nvcc compiled the user's own kernels that a package's script left here when it last ran, and for what; empty where there are none.
func (j *journey) madeKernels(p *manifest.Package) (arch gpu.Arch, nvcc string) {
	var list []stale.Mismatch
	for _, dir := range j.tookOuts(p) {
		list = append(list, j.ownKernels(features.ScriptUnit{Name: p.Name, Dir: p.Dir}, dir).list...)
	}
	for _, m := range list {
		for _, made := range m.Makes {
			if made.NVCC == "" {
				continue
			}
			if nvcc == "" || made.PTX == "" { // machine code is for one architecture; PTX for that one and all that follow
				arch, nvcc = made.Arch, made.NVCC
			}
		}
	}
	return arch, nvcc
}

// needHidden adds what a hidden package needs to what is known of the others.
func (j *journey) needHidden() (hidden, error) {
	if j.Needs.Toolkit() {
		return hidden{}, nil // one is chosen anyway
	}
	h, err := j.hiddenNVCC()
	if err != nil || h.pkg == "" {
		return h, err
	}
	j.Needs.NVCC = true
	j.Needs.Because = append(j.Needs.Because, fmt.Sprintf("nvcc: %s (%s)", h.pkg, h.why))
	// Which variables its script reads is not known. Where the user asked for a toolkit all are set, unless a cudarc declares the roots' to cargo without
	// reading them; otherwise PATH alone leads there: what was built without the others would be built anew.
	if h.asked && len(j.Needs.Reads) == 0 && len(j.reach.Cudarc) == 0 {
		return h, nil
	}
	j.Needs.Reads = append(j.Needs.Reads, "PATH")
	if arch, _ := toolchain.ArchWish(j.options.Arch, j.Host.Env, j.Config.Arch.Value, j.Config.Arch.Origin); arch != "" {
		j.Needs.Reads = append(j.Needs.Reads, "CUDA_COMPUTE_CAP")
	}
	return h, nil
}

// remembered has the architecture stay what it was where nobody asks for another; no record of ours tells it.
func (h hidden) remembered(w *toolchain.Wish) {
	if w.Previous.IsZero() && !h.arch.Capability.IsZero() {
		w.Previous, w.PreviousSuffix, w.PreviousUnset = h.arch.Capability, h.arch.Suffix, true
	}
}
