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

// RegistryManifest looks for a registry package's manifest below CARGO_HOME.
func (p *Project) RegistryManifest(name, version string) *Package {
	key := name + "-" + version
	if pkg, seen := p.registry[key]; seen {
		return pkg
	}
	var found *Package
	for _, dir := range p.registryDirs() {
		if pkg := Read(p.host, p.host.Join(dir, key, FileName)); pkg != nil && pkg.Name == name {
			found = pkg
			break
		}
	}
	p.registry[key] = found
	return found
}

// registryDirs lists the directories in which cargo unpacks registry packages.
func (p *Project) registryDirs() []string {
	home := CargoHome(p.host)
	if home == "" {
		return nil
	}
	src := p.host.Join(home, "registry", "src")
	entries, err := p.host.Files.ReadDir(src)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, e := range entries {
		dirs = append(dirs, p.host.Join(src, e.Name()))
	}
	sort.Strings(dirs)
	return dirs
}

const repositoryLimit = 4000 // directories of a repository that are looked at for a package

// gitManifest finds a package of a git source in cargo's checkouts: <CARGO_HOME>/git/checkouts/<name>-<hash>/<short commit>/….
// Source: src/cargo/sources/git/source.rs (ident: the last part of the address and a hash; the directory is the short id of the commit).
func (p *Project) gitManifest(lp *LockPackage) *Package {
	key := lp.Source + " " + lockKey(lp)
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
	base := h.Join(CargoHome(h), "git", "checkouts")
	repositories, err := h.Files.ReadDir(base)
	if err != nil {
		return nil
	}
	for _, r := range repositories {
		i := strings.LastIndexByte(r.Name(), '-')
		if i < 0 || !strings.EqualFold(r.Name()[:i], name) {
			continue
		}
		commits, err := h.Files.ReadDir(h.Join(base, r.Name()))
		if err != nil {
			continue
		}
		for _, c := range commits {
			if len(c.Name()) < 7 || !strings.HasPrefix(commit, c.Name()) {
				continue
			}
			budget := repositoryLimit
			for _, dir := range tree(h, h.Join(base, r.Name(), c.Name()), &budget) {
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
