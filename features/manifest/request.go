package manifest

import (
	"path"
	"slices"
	"strings"
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
	Targets     []string // --target; empty: the host
	Dev         bool     // tests, benches or examples are built: dev-dependencies count
}

// Names says whether a feature is asked for, by its own name or with a package in front.
func (r Request) Names(feature string) bool {
	a := ParseRequest(r)
	for _, list := range a.Qualified {
		if slices.Contains(list, feature) {
			return true
		}
	}
	return a.All || slices.Contains(a.Plain, feature)
}

// Asked is a Request with its feature lists taken apart.
type Asked struct {
	Plain     []string
	Qualified map[string][]string // package or dependency → features
	GPU       []string            // names that mean GPU work
	All       bool
	NoDefault bool
}

func ParseRequest(r Request) Asked {
	a := Asked{Qualified: map[string][]string{}, GPU: Union([]string{"cuda", "cudnn"}, r.GPUFeatures), All: r.AllFeatures,
		NoDefault: r.NoDefault}
	for _, s := range r.Features {
		for _, f := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' }) {
			if pkg, feat, ok := strings.Cut(f, "/"); ok {
				pkg = strings.TrimSuffix(pkg, "?")
				a.Qualified[pkg] = append(a.Qualified[pkg], feat)
				continue
			}
			a.Plain = append(a.Plain, f)
		}
	}
	return a
}

// ForGPU says whether any GPU feature was asked for, of whichever package.
func (a *Asked) ForGPU() bool {
	for _, f := range a.Plain {
		if slices.Contains(a.GPU, f) {
			return true
		}
	}
	for _, list := range a.Qualified {
		for _, f := range list {
			if slices.Contains(a.GPU, f) {
				return true
			}
		}
	}
	return a.All
}

// Selection lists the packages that a command line builds; known is false when one of its names is not found.
func (p *Project) Selection(r Request) (list []*Package, known bool) {
	switch {
	case len(r.Packages) > 0:
		known = true
		for _, spec := range r.Packages {
			found := false
			among := p.Members
			if !strings.ContainsAny(spec, "*?[") { // a pattern means members only; a name may be that of any package
				among = append(append([]*Package{}, p.Members...), p.Locals...)
			}
			for _, m := range among {
				if specMatches(spec, m) {
					if !slices.Contains(list, m) {
						list = append(list, m)
					}
					found = true
				}
			}
			known = known && found
		}
		return list, known
	case r.Workspace:
		list = p.Members
	default:
		list = p.Default
	}
	return slices.DeleteFunc(slices.Clone(list), func(m *Package) bool {
		return slices.ContainsFunc(r.Excludes, func(spec string) bool { return specMatches(spec, m) })
	}), true
}

// specMatches says whether a -p value means a package: a name, a glob, name@version, or a package id.
func specMatches(spec string, m *Package) bool {
	if ok, err := path.Match(strings.ReplaceAll(spec, "[!", "[^"), m.Name); ok && err == nil {
		return true
	}
	for _, sep := range []string{"@", ":"} {
		if name, _, ok := strings.Cut(spec, sep); ok && name == m.Name {
			return true
		}
	}
	return strings.Contains(spec, "://") && ParsePkgID(spec).Name == m.Name
}

// Question is one feature of one member that means GPU work: does it reach when that package is built alone with it?
type Question struct {
	Package *Package
	Feature string
}

// Questions lists every member's GPU features: cuda, cudnn and those that the configuration names.
func (p *Project) Questions(gpu []string) []Question {
	var out []Question
	for _, m := range p.Members {
		for _, f := range Union([]string{"cuda", "cudnn"}, gpu) {
			if m.Declares(f) && !m.ProcMacro {
				out = append(out, Question{m, f})
			}
		}
	}
	return out
}
