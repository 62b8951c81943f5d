package app

import (
	"strings"

	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
)

// hiddenNVCC looks for an undeclared package: what its script made here before, or the user's own word, asked, where a script runs programs. Without it no
// toolkit would be chosen, the user's word would go unheard, and there would be nothing that old kernels could be held against.
func (j *journey) hiddenNVCC(asked string) (tools.Undeclared, error) {
	local, err := j.localScripts()
	if err != nil {
		return tools.Undeclared{}, err
	}
	for _, p := range local {
		if arch, made := j.madeKernels(p); made != "" {
			return tools.Undeclared{Package: p.Name, Why: "its build script left kernels here that nvcc " + made + " compiled", Arch: arch}, nil
		}
	}
	if asked == "" {
		return tools.Undeclared{}, nil
	}
	for _, p := range local {
		if text, err := j.Host.ReadFile(p.BuildScript, mostSource); err == nil && strings.Contains(string(text), "Command") {
			return tools.Undeclared{Package: p.Name, Why: "its build script runs programs, and " + asked + " was given"}, nil
		}
	}
	return tools.Undeclared{}, nil
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
