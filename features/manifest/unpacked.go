package manifest

import (
	"sort"
	"strings"

	"gpubuild/buildenv"
)

// Locked reads the manifests of all packages of Cargo.lock that have a name; none where cargo has not unpacked one of them.
func (p *Project) Locked(name string) []*Package {
	list, known := p.locked[name]
	if known {
		return list
	}
	for i := range p.Lock {
		l := &p.Lock[i]
		if l.Name != name || l.Source == "" {
			continue
		}
		m := p.LockedManifest(l)
		if m == nil {
			list = nil
			break
		}
		list = append(list, m)
	}
	if p.locked == nil {
		p.locked = map[string][]*Package{}
	}
	p.locked[name] = list
	return list
}

// LockedManifest reads the manifest of a locked package of a registry or a repository where cargo has unpacked it; nil where it has not.
// Source: src/cargo/sources/git/source.rs (a checkout's directory is the short id of the commit).
func (p *Project) LockedManifest(l *LockPackage) *Package {
	h := p.host
	var dirs []string
	if _, commit, git := strings.Cut(l.Source, "#"); git {
		for _, repository := range p.CheckoutsIn()[1:] {
			for _, id := range h.Names(repository) {
				if budget := repositoryLimit; len(id) >= 7 && strings.HasPrefix(commit, id) {
					dirs = append(dirs, tree(h, h.Join(repository, id), &budget)...)
				}
			}
		}
	} else if l.Source != "" {
		for _, dir := range p.UnpackedIn() { // `cargo vendor` leaves the version out where there is one only
			dirs = append(dirs, h.Join(dir, l.Name+"-"+l.Version), h.Join(dir, l.Name))
		}
	}
	for _, dir := range dirs {
		if m := Read(h, h.Join(dir, FileName)); m != nil && m.Name == l.Name && (m.Version == l.Version || m.inheritsVersion) {
			return m
		}
	}
	return nil
}

// UnpackedIn lists the directories in which cargo unpacks registry packages, and the one where `cargo vendor` puts them.
func (p *Project) UnpackedIn() []string {
	if p.unpacked != nil {
		return p.unpacked
	}
	p.unpacked = []string{}
	if home := CargoHome(p.host); home != "" {
		for _, name := range p.host.Names(p.host.Join(home, "registry", "src")) {
			p.unpacked = append(p.unpacked, p.host.Join(home, "registry", "src", name))
		}
		sort.Strings(p.unpacked)
	}
	if vendor := p.host.Join(p.Root, "vendor"); p.host.IsDir(vendor) {
		p.unpacked = append([]string{vendor}, p.unpacked...)
	}
	return p.unpacked
}

const repositoryLimit = 4000 // directories of a repository that are looked at for a package

// CheckoutsIn lists the directories in which cargo checks out repositories: the common one first.
func (p *Project) CheckoutsIn() []string {
	base := p.host.Join(CargoHome(p.host), "git", "checkouts")
	dirs := []string{base}
	for _, name := range p.host.Names(base) {
		dirs = append(dirs, p.host.Join(base, name))
	}
	return dirs
}

// readLocal reads the package of a directory with what it inherits from its workspace; nil where there is none.
func (p *Project) readLocal(dir string) *Package {
	m, err := p.read(p.host.Join(dir, FileName))
	if err != nil {
		return nil
	}
	if home, err := p.findRoot(m); err == nil {
		m.inherit(p.host, home)
	}
	return m
}

// CargoHome is cargo's home directory; empty when there is none.
// Source: The Cargo Book, "Cargo Home".
func CargoHome(h buildenv.Host) string {
	if home := h.Env.Get("CARGO_HOME"); home != "" {
		return home
	}
	if h.Home == "" {
		return ""
	}
	return h.Join(h.Home, ".cargo")
}
