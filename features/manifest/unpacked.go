package manifest

import (
	"sort"
	"strings"

	"gpubuild/buildenv"
)

// LockedManifest reads the manifest of a locked package of a registry or a repository where cargo has unpacked it; nil where it has not.
func (p *Project) LockedManifest(lp *LockPackage) *Package {
	switch kind, _, _ := strings.Cut(lp.Source, "+"); kind {
	case "git":
		return p.gitManifest(lp)
	case "registry", "sparse":
		return p.RegistryManifest(lp.Name, lp.Version)
	}
	return nil
}

// RegistryManifest looks for a registry package's manifest below CARGO_HOME and in the workspace's vendor directory.
func (p *Project) RegistryManifest(name, version string) *Package {
	key := name + "-" + version
	if pkg, seen := p.registry[key]; seen {
		return pkg
	}
	p.registry[key] = nil
	for _, dir := range p.UnpackedIn() {
		for _, place := range []string{key, name} { // `cargo vendor` leaves the version out where there is one only
			pkg := Read(p.host, p.host.Join(dir, place, FileName))
			if pkg != nil && pkg.Name == name && pkg.Version == version {
				p.registry[key] = pkg
				return pkg
			}
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

// gitManifest finds a package of a git source in cargo's checkouts: <CARGO_HOME>/git/checkouts/<name>-<hash>/<short commit>/….
// Source: src/cargo/sources/git/source.rs (ident: the last part of the address and a hash; the directory is the short id of the commit).
func (p *Project) gitManifest(lp *LockPackage) *Package {
	key := lp.Source + " " + lp.Key()
	if m, known := p.registry[key]; known {
		return m
	}
	p.registry[key] = nil
	h := p.host
	address, commit, ok := strings.Cut(lp.Source, "#")
	if !ok || len(commit) < 7 {
		return nil
	}
	name := strings.TrimSuffix(h.Base(strings.TrimRight(ParsePkgID(address).URL, "/")), ".git")
	for _, repository := range p.CheckoutsIn()[1:] {
		called := h.Base(repository)
		i := strings.LastIndexByte(called, '-')
		if i < 0 || !strings.EqualFold(called[:i], name) {
			continue
		}
		for _, id := range h.Names(repository) {
			if len(id) < 7 || !strings.HasPrefix(commit, id) {
				continue
			}
			budget := repositoryLimit
			for _, dir := range tree(h, h.Join(repository, id), &budget) {
				if m := p.readLocal(dir); m != nil && m.Name == lp.Name && (m.Version == lp.Version || m.Version == "") {
					p.registry[key] = m
					return m
				}
			}
		}
	}
	return nil
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
