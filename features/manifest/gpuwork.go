package manifest

import (
	"fmt"
	"slices"

	"gpubuild/features/catalog"
)

// GPUWork is the quick look at a command line: may it have anything to do with GPUs? It looks for names only: of features in the command
// line and in the manifests, of GPU crates in the manifests and in Cargo.lock, and for build scripts that r.Scripts knows. It may say yes
// where cargo links no CUDA, never no where it does: the unit graph decides afterwards. The reason says what was seen.
func (p *Project) GPUWork(r Request) (bool, string) {
	a := ParseRequest(r)
	if a.RequestsGPU() {
		return true, "a GPU feature is requested"
	}
	cat := catalog.Default()
	if len(p.Doubts) > 0 {
		return true, "not decided from the manifests: " + p.Doubts[0]
	}
	local, locked := map[string]bool{}, map[string]bool{}
	for i := range p.Lock {
		locked[p.Lock[i].Name] = true
	}
	for _, pkg := range slices.Concat(p.Members, p.Locals) {
		local[pkg.Name] = true
		if why := p.names(pkg, &a, cat); why != "" {
			return true, why
		}
		if r.Scripts.Compile != nil && r.Scripts.Compile(pkg) {
			return true, "the build script of " + pkg.Name + " compiles kernels"
		}
		for _, d := range pkg.Dependencies {
			if p.HasLock && p.IsMember(pkg) && !d.Optional && d.Path == "" && !locked[d.Package] {
				return true, "Cargo.lock does not have " + d.Package + " yet"
			}
		}
	}
	foreign := false
	for i := range p.Lock {
		foreign = foreign || p.Lock[i].Source != ""
		switch l := &p.Lock[i]; {
		case cat.Crate(l.Name).BringsCUDA():
			return true, "Cargo.lock has " + l.Name
		case l.Source == "" && !local[l.Name]: // a [patch], of which nothing is read here
			return true, l.Name + " is patched"
		}
	}
	if foreign && r.Scripts.Locked != nil {
		for _, name := range r.Scripts.Locked() {
			return true, "the build script of " + name + " may compile kernels"
		}
	}
	return false, "no feature, no dependency and no build script has to do with a GPU"
}

// names is what in a package's manifest names a GPU; empty where nothing does.
func (p *Project) names(pkg *Package, a *Asked, cat *catalog.Catalog) string {
	if cat.Crate(pkg.Name).BringsCUDA() {
		return pkg.Name + " is itself a GPU crate"
	}
	for _, f := range pkg.FeatureNames() {
		if a.IsBackend(f) || a.IsGPU(f) {
			return fmt.Sprintf("%s has the feature `%s`", pkg.Name, f)
		}
	}
	for _, d := range pkg.Dependencies {
		switch c := cat.Crate(d.Package); {
		case c.BringsCUDA():
			return pkg.Name + " depends on " + d.Package
		case c == nil && d.Path == "" && !p.HasLock:
			return "there is no Cargo.lock: what " + d.Package + " leads to is not known"
		}
	}
	return ""
}
