package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// Project is a workspace as its manifests and Cargo.lock say it.
type Project struct {
	Root         string // directory of the workspace root
	RootManifest string
	Manifest     string // the one asked for
	Members      []*Package
	Default      []*Package // what cargo builds without -p, from Manifest
	Selected     *Package   // the package of Manifest; nil for a virtual one
	Locals       []*Package // path dependencies that are no members
	Lock         []LockPackage
	LockPath     string
	HasLock      bool
	Doubts       []string // what the manifests alone leave open

	host     buildenv.Host
	byPath   map[string]*Package
	globbed  []string              // what member patterns looked at
	dirs     map[string]*Package   // Members and Locals
	known    map[string]*Package   // what cargo's metadata has, by idKey
	unpacked []string              // UnpackedIn; nil: not looked yet
	locked   map[string][]*Package // see Locked
}

// FileName is what a package's or a workspace's manifest is called.
const FileName = buildenv.ManifestFile

// Find walks up from dir to the nearest Cargo.toml, as cargo does.
func Find(h buildenv.Host, dir string) (string, error) {
	dir = h.Abs(dir)
	for d := range h.Upwards(dir) {
		if m := h.Join(d, FileName); h.IsFile(m) {
			return m, nil
		}
	}
	return "", &NotFoundError{Dir: dir}
}

// Load reads the workspace that a manifest belongs to: its members, their local path dependencies and the lock file.
func Load(h buildenv.Host, manifest string) (*Project, error) {
	manifest = h.Clean(h.Abs(manifest))
	p := &Project{Manifest: manifest, host: h, byPath: map[string]*Package{}, dirs: map[string]*Package{}}
	asked, err := p.read(manifest)
	if err != nil {
		return nil, err
	}
	root, err := p.findRoot(asked)
	if err != nil {
		return nil, err
	}
	p.RootManifest, p.Root = root.Manifest, root.Dir
	asked.inherit(h, root)
	if err := p.findMembers(root); err != nil {
		return nil, err
	}
	if asked.Name != "" {
		p.Selected = asked
		if !p.IsMember(asked) {
			if asked != root {
				p.Doubts = append(p.Doubts, asked.Manifest+" is not among the members of "+root.Manifest)
			}
			p.Members = append(p.Members, asked)
		}
	}
	if err := p.findLocals(); err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(p.Locals, p.Members) {
		p.dirs[m.Dir] = m
	}
	p.findDefaults(root, asked)
	p.Refresh()
	return p, nil
}

// read parses a manifest once.
func (p *Project) read(path string) (*Package, error) {
	if pkg, ok := p.byPath[path]; ok {
		return pkg, nil
	}
	data, err := p.host.ReadFile(path, manifestLimit)
	if err != nil {
		return nil, &Error{Path: path, Message: "cannot be read: " + plain(err), Err: err}
	}
	pkg, err := parseManifest(p.host, path, data)
	if err != nil {
		return nil, err
	}
	p.byPath[path] = pkg
	return pkg, nil
}

// plain is an error's text without the path, which the message has already.
func plain(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// findRoot answers the workspace root of a package; a package without one is its own.
// Source: cargo's workspace.rs (find_workspace_root_with_loader, get_ws_root, is_excluded).
func (p *Project) findRoot(pkg *Package) (*Package, error) {
	h := p.host
	if pkg.workspace != nil {
		return pkg, nil
	}
	if pkg.pointer != "" {
		return p.pointed(pkg)
	}
	for d := range h.Upwards(h.Dir(pkg.Dir)) {
		path := h.Join(d, FileName)
		if d == pkg.Dir || !h.IsFile(path) {
			continue
		}
		cand, err := p.read(path)
		switch {
		case err != nil:
			return nil, err
		case cand.workspace != nil && !excluded(h, cand, pkg.Manifest):
			return cand, nil
		case cand.workspace == nil && cand.pointer != "":
			return p.pointed(cand)
		}
	}
	return pkg, nil
}

// pointed is the workspace root that package.workspace names.
func (p *Project) pointed(pkg *Package) (*Package, error) {
	root, err := p.read(p.host.Join(p.host.From(pkg.Dir, pkg.pointer), FileName))
	if err != nil {
		return nil, fmt.Errorf("%s: package.workspace: %w", pkg.Manifest, err)
	}
	return root, nil
}

// excluded says whether a root's exclude list names a manifest that its members list does not.
func excluded(h buildenv.Host, root *Package, manifest string) bool {
	named := func(list []string) bool {
		return slices.ContainsFunc(list, func(e string) bool { return h.Below(manifest, h.Clean(h.From(root.Dir, e))) })
	}
	return named(root.workspace.exclude) && !named(root.workspace.members)
}

// Text is a manifest of the workspace as it was read; nil for others.
func (p *Project) Text(manifest string) []byte {
	for _, m := range p.Members {
		if p.host.SamePath(m.Manifest, manifest) {
			return m.text
		}
	}
	return nil
}

// Member says whether a manifest is one of the workspace's own.
func (p *Project) Member(manifest string) bool {
	return slices.ContainsFunc(p.Members, func(m *Package) bool { return p.host.SamePath(m.Manifest, manifest) })
}

func (p *Project) IsMember(pkg *Package) bool { return slices.Contains(p.Members, pkg) }

func (p *Project) findMembers(root *Package) error {
	if root.workspace == nil {
		p.Members = append(p.Members, root)
		return nil
	}
	for _, pattern := range root.workspace.members {
		paths, globbed := p.expand(root.Dir, pattern)
		if globbed && len(paths) == 0 {
			p.Doubts = append(p.Doubts, fmt.Sprintf("workspace member %q matches nothing", pattern))
		}
		for _, dir := range paths {
			m := p.host.Join(dir, FileName)
			if globbed && (!p.host.IsFile(m) || excluded(p.host, root, m)) {
				continue
			}
			if err := p.addMember(root, m, false); err != nil {
				return err
			}
		}
	}
	if root.Name != "" {
		return p.addMember(root, root.Manifest, false)
	}
	return nil
}

// addMember adds a package and those of its path dependencies that lie in the workspace, as cargo's find_path_deps does.
func (p *Project) addMember(root *Package, manifest string, dependency bool) error {
	if dependency && (!p.host.Below(manifest, root.Dir) || excluded(p.host, root, manifest)) {
		return nil
	}
	if dependency && !p.host.IsFile(manifest) {
		return nil // cargo has its own words for that
	}
	pkg, err := p.read(manifest)
	if err != nil {
		return err
	}
	if pkg.Name == "" || p.IsMember(pkg) || dependency && pkg.workspace != nil && pkg != root {
		return nil
	}
	p.Members = append(p.Members, pkg)
	pkg.inherit(p.host, root)
	for _, d := range pkg.Dependencies {
		if d.Path != "" {
			if err := p.addMember(root, p.host.Join(d.Path, FileName), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// findLocals reads the path dependencies that are no members, and theirs.
func (p *Project) findLocals() error {
	for queue := slices.Clone(p.Members); len(queue) > 0; queue = queue[1:] {
		for _, d := range queue[0].Dependencies {
			if d.Path == "" {
				continue
			}
			m := p.host.Join(d.Path, FileName)
			if !p.host.IsFile(m) {
				p.doubt(fmt.Sprintf("%s: path dependency `%s` has no manifest at %s", queue[0].Manifest, d.Key, m))
				continue
			}
			if _, err := p.read(m); err != nil {
				return err
			}
			if local := p.readLocal(d.Path); !p.IsMember(local) && !slices.Contains(p.Locals, local) && local.Name != "" {
				p.Locals, queue = append(p.Locals, local), append(queue, local)
			}
		}
	}
	return nil
}

func (p *Project) findDefaults(root, asked *Package) {
	switch {
	case asked != root && asked.Name != "":
		p.Default = []*Package{asked}
	case root.workspace != nil && root.workspace.hasDefaults:
		for _, pattern := range root.workspace.defaults {
			paths, _ := p.expand(root.Dir, pattern)
			for _, dir := range paths {
				for _, m := range p.Members {
					if p.host.SamePath(m.Dir, dir) {
						p.Default = append(p.Default, m)
					}
				}
			}
		}
	case root.Name != "":
		p.Default = []*Package{root}
	default:
		p.Default = p.Members
	}
}

// expand lists the directories that a member pattern means; globbed says whether it was a pattern at all.
func (p *Project) expand(dir, pattern string) (paths []string, globbed bool) {
	full := p.host.Clean(p.host.From(dir, pattern))
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{full}, false
	}
	paths = glob(p.host, dir, pattern, func(path string) { p.globbed = append(p.globbed, path) })
	for _, dir := range paths {
		p.globbed = append(p.globbed, p.host.Join(dir, FileName)) // a directory that matches becomes a member with its manifest
	}
	return paths, true
}

// Globbed lists the directories and manifests that decided which members the workspace's patterns find, those that are not there included.
func (p *Project) Globbed() []string { return p.globbed }

// Local answers the workspace member or path dependency whose directory is dir.
func (p *Project) Local(dir string) *Package {
	if m := p.dirs[dir]; m != nil {
		return m
	}
	for _, m := range slices.Concat(p.Members, p.Locals) {
		if p.host.SamePath(m.Dir, dir) {
			return m
		}
	}
	return nil
}

// Declaring answers the package that an entry of another one leads to; nil where cargo has not resolved it and it is no path.
func (p *Project) Declaring(from *Package, d Dependency) *Package {
	if p == nil {
		return nil
	}
	if from != nil {
		if to := from.resolved[strings.ReplaceAll(d.Key, "-", "_")]; to != nil && to.Name == d.Package {
			return to
		}
		for _, to := range from.resolved { // a library may have another name than its package
			if to != nil && to.Name == d.Package && d.Key == d.Package {
				return to
			}
		}
	}
	if d.Path == "" {
		return nil
	}
	if to := p.Local(d.Path); to != nil {
		return to
	}
	return p.readLocal(d.Path)
}

// Package answers a package that was read, by the path of its manifest; nil for others.
func (p *Project) Package(manifest string) *Package { return p.byPath[manifest] }
