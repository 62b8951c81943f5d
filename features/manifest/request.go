package manifest

import (
	"maps"
	"path"
	"slices"
	"strings"

	"gpubuild/features/catalog"
)

// Request is the part of a cargo command line that chooses packages and features.
type Request struct {
	Features    []string // as given; each may hold several, separated by commas or spaces
	AllFeatures bool
	NoDefault   bool
	Packages    []string // -p
	Excludes    []string
	Workspace   bool
	GPUFeatures []string // of the configuration: names that mean GPU work in this project
}

// Asked is a Request with its feature lists taken apart.
type Asked struct {
	Request
	Plain     []string
	Qualified map[string][]string // package or dependency → features
}

// IsGPU reports whether a feature may ask for CUDA, ROCm, Vulkan or OpenCL by its name. One that is only called gpu may mean any kind of
// GPU.
func (a *Asked) IsGPU(feature string) bool {
	backend, loose := a.BackendOf(feature, nil)
	_, version := catalog.CudarcVersion(feature) // cuda-12080 only selects one
	return !version && (backend == CUDA || !loose && slices.Contains([]string{ROCm, Vulkan, OpenCL}, backend))
}

// IsCUDA reports whether a feature means CUDA by its name, or the configuration calls it a GPU feature.
func (a *Asked) IsCUDA(feature string) bool {
	backend, loose := a.BackendOf(feature, nil)
	return a.IsGPU(feature) && backend == CUDA && !loose || slices.Contains(a.GPUFeatures, feature)
}

func ParseRequest(r Request) Asked {
	a := Asked{Request: r, Qualified: map[string][]string{}}
	for _, f := range strings.FieldsFunc(strings.Join(r.Features, ","), func(c rune) bool { return c == ',' || c == ' ' || c == '\t' }) {
		if pkg, feat, ok := strings.Cut(f, "/"); ok {
			pkg = strings.TrimSuffix(pkg, "?")
			a.Qualified[pkg] = append(a.Qualified[pkg], feat)
			continue
		}
		a.Plain = append(a.Plain, f)
	}
	return a
}

// Names reports whether the command line names a feature of a package, or all features.
func (a *Asked) Names(pkg, feature string) bool {
	return a.AllFeatures || slices.Contains(a.Plain, feature) || slices.Contains(a.Qualified[pkg], feature)
}

// RequestsGPU reports whether the command line names a feature that IsGPU knows, of whichever package.
func (a *Asked) RequestsGPU() bool {
	for pkg, list := range a.Qualified {
		if c := catalog.Default().Crate(pkg); slices.ContainsFunc(list, a.IsGPU) && (c == nil || c.Role != catalog.FalseFriend) {
			return true
		}
	}
	return slices.ContainsFunc(a.Plain, a.IsGPU)
}

// Of lists the features of a selected package that the command line turns on.
func (a *Asked) Of(pkg *Package) []string {
	var out []string
	if !a.NoDefault {
		out = append(out, "default")
	}
	if a.AllFeatures {
		out = append(out, pkg.FeatureNames()...)
	}
	return slices.Concat(out, a.Plain, a.Qualified[pkg.Name])
}

// Selection lists the packages that a command line builds; known is false when one of its names is not found.
func (p *Project) Selection(r Request) (list []*Package, known bool) {
	list, known = p.Default, true
	switch {
	case len(r.Packages) > 0:
		list = slices.Concat(p.Members, p.Locals)
		for _, spec := range r.Packages {
			known = known && slices.ContainsFunc(list, func(m *Package) bool { return means([]string{spec}, m) })
		}
	case r.Workspace:
		list = p.Members
	}
	return slices.DeleteFunc(slices.Clone(list), func(m *Package) bool {
		return len(r.Packages) > 0 && !means(r.Packages, m) || means(r.Excludes, m)
	}), known
}

// means reports whether one of some -p values means a package: a name, a glob, name@version, or a package id.
func means(specs []string, m *Package) bool {
	return slices.ContainsFunc(specs, func(spec string) bool {
		if strings.Contains(spec, "://") {
			return ParsePkgID(spec).Name == m.Name
		}
		name, _, _ := strings.Cut(strings.ReplaceAll(spec, ":", "@"), "@")
		ok, err := path.Match(strings.ReplaceAll(name, "[!", "[^"), m.Name)
		return ok && err == nil
	})
}

// Question is one feature of one member that means GPU work: does it reach when that package is built alone with it?
type Question struct {
	Package *Package
	Feature string
}

// Questions lists every member's GPU features, but for those that are no user's to ask for by their name: _cuda.
func (p *Project) Questions(gpu []string) []Question {
	a := Asked{Request: Request{GPUFeatures: gpu}}
	var names []string
	for i := range p.Lock {
		names = append(names, p.Lock[i].Name)
	}
	for _, m := range slices.Concat(p.Members, p.Locals) {
		names = append(names, m.Name)
		for _, d := range m.Dependencies {
			names = append(names, d.Package)
		}
	}
	names = Union(names)
	known := func(word string) bool {
		return slices.ContainsFunc(names, func(pkg string) bool { return IsNamed(pkg, word) })
	}
	means := map[string]string{}
	for _, name := range names {
		if c := catalog.Default().Crate(name); c != nil {
			maps.Copy(means, c.Means)
		}
	}
	var out []Question
	for _, m := range p.Members {
		for _, f := range m.FeatureNames() {
			backend, loose := a.BackendOf(f, known)
			if (means[f] != "" || backend != "" && !loose) && !m.ProcMacro && !m.modifies(f) {
				out = append(out, Question{m, f})
			}
		}
	}
	return out
}

// modifies reports whether a feature only says how another one of its package is built, by its name: cuda-12080 or cuda-static next to
// cuda. They are asked for together, and one alone need enable nothing.
func (p *Package) modifies(feature string) bool {
	plain, rest := "", 0
	for _, w := range strings.FieldsFunc(strings.ToLower(feature), func(c rune) bool { return c == '-' || c == '_' }) {
		switch {
		case versionWord.MatchString(w) || slices.Contains([]string{"static", "dynamic", "f16"}, w):
			rest++
		case plain != "" || backendWords[w] == "":
			return false
		default:
			plain = w
		}
	}
	_, declared := p.Features[plain]
	return declared && rest > 0
}
