package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// GPUWork is the quick look at a command line: may it have anything to do with GPUs? It looks for names only: of features in the command
// line and in the manifests, of GPU crates in the manifests and in Cargo.lock, and of CUDA source in packages with a build script. It may
// say yes where cargo links no CUDA, never no where it links a crate of the catalog: the unit graph decides afterwards. The reason says
// what was seen. once keeps the answer about the packages of Cargo.lock.
func (s *Sources) GPUWork(r manifest.Request, once func(func() []string) []string) (bool, string) {
	a, p := manifest.ParseRequest(r), s.project
	bare := func(f string) bool {
		b, loose := a.BackendOf(f, nil)
		return !loose && (b == manifest.AnyGPU || b == manifest.Metal)
	}
	if a.RequestsGPU() || slices.ContainsFunc(slices.Concat(append(slices.Collect(maps.Values(a.Qualified)), a.Plain)...), bare) {
		return true, "a GPU feature is requested"
	}
	if len(p.Doubts) > 0 {
		return true, "not decided from the manifests: " + p.Doubts[0]
	}
	local, locked := map[string]bool{}, map[string]bool{}
	for i := range p.Lock {
		locked[p.Lock[i].Name] = true
	}
	for _, pkg := range slices.Concat(p.Members, p.Locals) {
		local[pkg.Name] = true
		if why := s.names(pkg, &a); why != "" {
			return true, why
		}
		if s.mayCompile(pkg) {
			return true, "the build script of " + pkg.Name + " may compile kernels"
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
		case catalog.Default().Crate(l.Name).BringsCUDA():
			return true, "Cargo.lock has " + l.Name
		case l.Source == "" && !local[l.Name]: // a [patch], of which nothing is read here
			return true, l.Name + " is patched"
		}
	}
	if foreign {
		for _, name := range once(s.lockedKernels) {
			return true, "the build script of " + name + " may compile kernels"
		}
	}
	return false, "no feature, no dependency and no build script has to do with a GPU"
}

// mayCompile reports whether a package has a build script and, by names alone, what it would compile kernels from or with.
func (s *Sources) mayCompile(p *manifest.Package) bool {
	may, known := s.cuda[p.Dir]
	if !known {
		may = p.BuildScript != "" && (s.holds(p.Dir, buildenv.MostDepth, demos, "build.rs", cudaFiles...) || slices.ContainsFunc(p.Dependencies, func(d manifest.Dependency) bool {
			return d.Kind == manifest.Build && catalog.Default().Crate(d.Package).RunsNvcc()
		}))
		s.cuda[p.Dir] = may
	}
	return may
}

// lockedKernels lists the packages of Cargo.lock whose build scripts may compile kernels. What is not here yet may hold anything, if cargo
// has unpacked it once anything was built; it checks every repository out before it builds.
func (s *Sources) lockedKernels() (out []string) {
	first := map[string]bool{}
	for _, m := range s.project.Members {
		for _, d := range m.Dependencies {
			first[d.Package] = first[d.Package] || d.Path == "" && d.Target == "" && !d.Optional && d.Kind != manifest.Dev
		}
	}
	for i := range s.project.Lock {
		l := &s.project.Lock[i]
		pkg := s.project.LockedManifest(l)
		unknown := pkg == nil && (strings.HasPrefix(l.Source, "git+") || l.Source != "" && first[l.Name])
		if unknown || pkg != nil && s.mayCompile(pkg) {
			out = append(out, l.Name)
		}
	}
	return out
}

// names is what in a package's manifest names a GPU; empty where nothing does.
func (s *Sources) names(pkg *manifest.Package, a *manifest.Asked) string {
	cat := catalog.Default()
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
		case c == nil && d.Path == "" && !s.project.HasLock:
			return "there is no Cargo.lock: what " + d.Package + " leads to is not known"
		}
	}
	return ""
}
