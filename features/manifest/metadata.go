package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv"
)

// Metadata is the answer of `cargo metadata`, as far as it is read.
type Metadata struct {
	Packages []Package `json:"packages"`
	Members  []string  `json:"workspace_members"`
	Default  []string  `json:"workspace_default_members"`
	Resolve  struct {  // empty after --no-deps
		Nodes []struct {
			ID   string `json:"id"`
			Deps []struct {
				Name  string `json:"name"` // as the source calls it
				Pkg   string `json:"pkg"`
				Kinds []struct {
					Kind string `json:"kind,omitempty"`
				} `json:"dep_kinds"`
			} `json:"deps"`
		} `json:"nodes"`
	} `json:"resolve"`
}

// target is what cargo makes of a package.
type target struct {
	Kind    []string `json:"kind"`
	Name    string   `json:"name"`
	SrcPath string   `json:"src_path"`
	Needs   []string `json:"required-features,omitempty"`
}

// ParseMetadata reads the answer of `cargo metadata --format-version 1`. Of packages of others it keeps nothing that only they test.
func ParseMetadata(data []byte) (*Metadata, error) {
	m := &Metadata{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("cargo metadata: %w", err)
	}
	for i := range m.Packages {
		if p := &m.Packages[i]; !slices.Contains(m.Members, p.ID) {
			p.Dependencies = slices.DeleteFunc(p.Dependencies, func(d Dependency) bool { return d.Kind == Dev })
			read := []string{"custom-build", "proc-macro"}
			p.Targets = slices.DeleteFunc(p.Targets, func(t target) bool { return !slices.Contains(read, t.Kind[0]) })
		}
	}
	return m, nil
}

// With is the project as cargo knows it: its members with what they inherit, and the packages of others that belong to the build. Path
// dependencies that are off stay as they were read. Nil metadata changes nothing.
func (p *Project) With(m *Metadata) *Project {
	if m == nil {
		return p
	}
	out := *p
	out.Members, out.Locals, out.Default, out.Selected, out.own, out.counted = nil, nil, nil, nil, nil, 0
	out.byID, out.byPath = map[string]*Package{}, map[string]*Package{}
	for i := range m.Packages {
		pkg := p.complete(m.Packages[i])
		out.byID[pkg.ID], out.byPath[pkg.Manifest] = pkg, pkg
		out.byPath[p.host.Clean(m.Packages[i].Manifest)] = pkg // which a link may lead to
		switch {
		case slices.Contains(m.Members, pkg.ID):
			out.Members = append(out.Members, pkg)
		case ParsePkgID(pkg.ID).Local():
			out.Locals = append(out.Locals, pkg)
		}
		selected := func(d *Package) bool { return d.Manifest == pkg.Manifest }
		if slices.Contains(m.Default, pkg.ID) || m.Default == nil && slices.ContainsFunc(p.Default, selected) { // cargo before 1.71 does not say
			out.Default = append(out.Default, pkg)
		}
		if p.host.SamePath(pkg.Manifest, p.Manifest) {
			out.Selected = pkg
		}
	}
	if out.Selected != nil && p.Manifest != p.RootManifest { // cargo lists those of the root
		out.Default = []*Package{out.Selected}
	}
	for _, n := range m.Resolve.Nodes {
		if pkg := out.byID[n.ID]; pkg != nil {
			pkg.resolved = map[string]*Package{}
			for _, d := range n.Deps { // a build script may have another version of the same name
				if normal := len(d.Kinds) > 0 && d.Kinds[0].Kind == ""; normal || pkg.resolved[d.Name] == nil {
					pkg.resolved[d.Name] = out.byID[d.Pkg]
				}
			}
		}
	}
	for _, seen := range p.Locals {
		if out.byPath[seen.Manifest] == nil {
			out.Locals, out.byPath[seen.Manifest] = append(out.Locals, seen), seen
		}
	}
	return &out
}

// Alone is the project seen from a member: as if its manifest was the one asked for.
func (p *Project) Alone(member *Package) *Project {
	out := *p
	out.Manifest, out.Selected, out.Default = member.Manifest, member, []*Package{member}
	return &out
}

// complete is a package of cargo's metadata in the form that is used here, with its text where the look has read it.
func (p *Project) complete(pkg Package) *Package {
	h := p.host
	pkg.Manifest = h.Clean(pkg.Manifest)
	read := p.byPath[pkg.Manifest]
	for _, one := range slices.Concat(p.Members, p.Locals) { // through a link
		if read == nil && one.Name == pkg.Name && h.SamePath(h.Real(one.Manifest), pkg.Manifest) {
			read, pkg.Manifest = one, one.Manifest
		}
	}
	pkg.Dir = h.Dir(pkg.Manifest)
	path := pkg.Manifest
	pkg.spans = sync.OnceValue(func() Positions {
		data, _ := h.ReadFile(path, buildenv.Manifest) // without a text nothing has a line
		return Locate(data)
	})
	if read != nil {
		pkg.text, pkg.spans = read.text, read.spans
	}
	for i := range pkg.Dependencies {
		d := &pkg.Dependencies[i]
		d.Key, d.Kind = cmp.Or(d.Key, d.Package), cmp.Or(d.Kind, Normal)
		if d.Path != "" {
			d.Path = h.Clean(d.Path)
		}
	}
	for _, t := range pkg.Targets {
		switch strings.Join(t.Kind, " ") {
		case "custom-build":
			pkg.BuildScript = h.Clean(t.SrcPath)
		case "proc-macro":
			pkg.ProcMacro = true
		}
	}
	return &pkg
}

// Known is the package of cargo's metadata that an id means; nil where it is none.
func (p *Project) Known(id string) *Package { return p.byID[id] }
