package manifest

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// Project is a workspace with its packages: what the look finds without cargo, or what cargo's metadata has (With).
type Project struct {
	Root         string // directory of the workspace root
	RootManifest string
	Manifest     string // the one asked for
	Members      []*Package
	Default      []*Package // what cargo builds without -p, from Manifest; the default members of a virtual one, else all
	Selected     *Package   // the package of Manifest; nil for a virtual one
	Locals       []*Package // path dependencies that are no members
	Lock         []LockPackage
	LockPath     string
	HasLock      bool
	Doubts       []string // what the look could not read
	Globbed      []string // directories and manifests that decided which members patterns find, those that are not there included

	host      buildenv.Host
	unbounded error // a file that is too large, or has no end
	byPath    map[string]*Package
	own       map[*Package]bool // of so many packages: Members (true) and Locals
	counted   int
	byID      map[string]*Package // of cargo's metadata
	unpacked  []string            // UnpackedIn; nil: not looked yet
}

// Name is what people call the project: the package of the workspace's root, or the directory of a workspace without one.
func (p *Project) Name() string {
	if root := p.byPath[p.RootManifest]; root != nil && root.Name != "" {
		return root.Name
	}
	return p.host.Base(p.Root)
}

// LockPackage is one [[package]] of Cargo.lock.
type LockPackage struct {
	Name, Version, Source string
}

// FileName is what a package's or a workspace's manifest is called.
const FileName = buildenv.ManifestFile

// ErrNotFound is that of Find where neither a directory nor its parents hold a Cargo.toml.
var ErrNotFound = errors.New("no Cargo.toml")

// Find walks up from dir to the nearest Cargo.toml, as cargo does.
func Find(h buildenv.Host, dir string) (string, error) {
	dir = h.Abs(dir)
	for d := range h.Upwards(dir) {
		if m := h.Join(d, FileName); h.IsFile(m) {
			return m, nil
		}
	}
	return "", exit.Errorf(exit.Config, "go to the project's directory or name its manifest with --manifest-path",
		"%w in %s or any directory above it", ErrNotFound, dir)
}

// Refresh reads what cargo may write while it answers: Cargo.lock of the workspace root, and where it unpacks packages.
func (p *Project) Refresh() {
	p.unpacked = nil
	data, err := p.host.ReadFile(p.LockPath, buildenv.Lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.doubt(p.LockPath, err)
	}
	p.HasLock, p.Lock = err == nil, parseLock(string(data))
}

func (p *Project) doubt(path string, err error) {
	var pe *fs.PathError // repeats the path
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if text := path + ": " + err.Error(); !slices.Contains(p.Doubts, text) {
		p.Doubts = append(p.Doubts, text)
	}
}

// parseLock reads the fixed form in which cargo writes its lock files, all versions of it. It is many times faster than a TOML reader,
// which matters because every build begins with it.
func parseLock(text string) (out []LockPackage) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[[") {
			out = append(out, LockPackage{})
		}
		key, value, ok := strings.Cut(line, " = ")
		if !ok || len(out) == 0 {
			continue
		}
		switch l := &out[len(out)-1]; key {
		case "name":
			l.Name = strings.Trim(value, `"`)
		case "version":
			l.Version = strings.Trim(value, `"`)
		case "source":
			l.Source = strings.Trim(value, `"`)
		}
	}
	return out
}

// Text is a manifest of the workspace as it was read; nil for others.
func (p *Project) Text(manifest string) []byte {
	if m := p.byPath[manifest]; p.IsMember(m) {
		return m.text
	}
	return nil
}

// IsMember reports whether a package is one of the workspace's own.
func (p *Project) IsMember(pkg *Package) bool { return p.ours()[pkg] }

func (p *Project) ours() map[*Package]bool {
	if n := len(p.Members) + len(p.Locals); p.counted != n {
		p.own, p.counted = make(map[*Package]bool, n), n
		for _, pkg := range p.Locals {
			p.own[pkg] = false
		}
		for _, pkg := range p.Members {
			p.own[pkg] = true
		}
	}
	return p.own
}

// Local returns the workspace member or path dependency whose directory is dir.
func (p *Project) Local(dir string) *Package {
	m := p.byPath[p.host.Join(dir, FileName)]
	if _, own := p.ours()[m]; own {
		return m
	}
	return nil
}

// Declaring returns the package that an entry of another one leads to; nil where cargo has not resolved it and it is no path.
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
	return p.byPath[p.host.Join(d.Path, FileName)]
}

// Package returns a package by the path of its manifest; nil for one that was not read.
func (p *Project) Package(manifest string) *Package { return p.byPath[manifest] }

// Locked reads the manifests of all packages of Cargo.lock that have a name; none where cargo has not unpacked one of them.
func (p *Project) Locked(name string) (list []*Package) {
	for i := range p.Lock {
		if l := &p.Lock[i]; l.Name == name && l.Source != "" {
			m := p.LockedManifest(l)
			if m == nil {
				return nil
			}
			list = append(list, m)
		}
	}
	return list
}

// LockedManifest reads the manifest of a locked package of a registry or a repository where cargo has unpacked it; nil where it has not.
// Source: src/cargo/sources/git/source.rs (a checkout's directory is the short id of the commit).
func (p *Project) LockedManifest(l *LockPackage) *Package {
	h := p.host
	_, commit, git := strings.Cut(l.Source, "#")
	for _, in := range p.UnpackedIn() { // `cargo vendor` leaves the version out where there is one only
		dirs := []string{h.Join(in, l.Name+"-"+l.Version), h.Join(in, l.Name)}
		if git {
			dirs = nil
			for _, id := range h.Names(in) {
				if len(id) >= 7 && strings.HasPrefix(commit, id) {
					left := globLimit
					dirs, _ = expand(h, h.Join(in, id), "**", &left)
				}
			}
		}
		for _, dir := range dirs {
			if m := p.Read(h.Join(dir, FileName)); m != nil && m.Name == l.Name && (m.Version == l.Version || m.Version == "") {
				return m
			}
		}
	}
	return nil
}

// UnpackedIn lists the directories in which cargo unpacks packages and checks out repositories, and the one where `cargo vendor` puts them.
func (p *Project) UnpackedIn() []string {
	if h := p.host; p.unpacked == nil {
		p.unpacked = []string{h.Join(p.Root, "vendor")}
		for _, base := range []string{h.Join(CargoHome(h), "registry", "src"), h.Join(CargoHome(h), "git", "checkouts")} {
			p.unpacked = append(p.unpacked, base)
			for _, name := range h.Names(base) {
				p.unpacked = append(p.unpacked, h.Join(base, name))
			}
		}
	}
	return p.unpacked
}

// CargoHome is cargo's home directory; empty when there is none.
// Source: The Cargo Book, "Cargo Home".
func CargoHome(h buildenv.Host) string {
	if home := h.Env.Get("CARGO_HOME"); home != "" || h.Home == "" {
		return home
	}
	return h.Join(h.Home, ".cargo")
}
