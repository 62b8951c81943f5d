package features

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
)

// outside looks for what changes cargo's answer without standing in a manifest of the workspace, and finds out what is built for.
func (b *planner) outside(r Request) {
	if len(b.Doubts) > 0 {
		b.open(b.Doubts[0])
	}
	if r.Dev {
		b.open("tests, benches or examples are asked for")
	}
	for _, e := range b.host.Env.Entries() {
		name, value, _ := strings.Cut(e, "=")
		if up := strings.ToUpper(name); value != "" && (strings.HasPrefix(up, "CARGO_RESOLVER_") && up != "CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS" || strings.HasPrefix(up, "CARGO_UNSTABLE_") || strings.HasPrefix(up, "CARGO_PATCH")) {
			b.open(up + " is set")
		}
	}
	for _, why := range b.rootSays() {
		b.open(why)
	}
	for _, p := range b.roots {
		if !b.isMember(p) {
			b.open(p.Manifest + " is no member of its workspace")
		}
	}
	chain := b.configured(b.host.Cwd, true)
	for _, why := range chain.open {
		b.open(why)
	}
	for _, p := range b.roots {
		// Cargo reads the configuration of the current directory. Someone who stands in the package's may get another one.
		if c := b.configured(p.Dir, false); c.target != "" && c.target != chain.target || len(c.open) > 0 {
			for _, why := range c.open {
				b.open(why)
			}
			if c.target != "" && c.target != chain.target {
				b.open(c.targetIn + " has build.target")
			}
		}
	}
	b.chooseTarget(r, chain)
}

// chooseTarget finds what is built for: --target, CARGO_BUILD_TARGET, build.target, else this machine.
func (b *planner) chooseTarget(r Request, c *configured) {
	triple, by := "", ""
	switch env := b.host.Env.Get("CARGO_BUILD_TARGET"); {
	case len(r.Targets) > 1:
		b.open("several targets are asked for")
		return
	case len(r.Targets) == 1:
		triple, by = r.Targets[0], "another target is asked for"
	case env != "":
		triple, by = env, "CARGO_BUILD_TARGET is set"
	case c.target != "":
		triple, by = c.target, c.targetIn+" has build.target"
	default:
		b.target = b.hostIs()
		return
	}
	var ok bool
	if b.target, ok = platformOf(triple); !ok {
		b.open(by + ": " + triple + ", of which nothing is known here")
	}
}

// hostIs is this machine's platform, as far as it can be told without running rustc.
func (p *Project) hostIs() platform {
	if p.machine == nil {
		at := hostPlatform(p.host)
		if t, ok := platformOf(hostTriple(p.host)); ok && t.os == at.os {
			at = t
		}
		p.machine = &at
	}
	return *p.machine
}

// rootSays is what stands in the way in the root manifest, read once.
func (b *planner) rootSays() []string {
	if b.rootKnown {
		return b.rootOpen
	}
	b.rootKnown = true
	root := b.byPath[b.RootManifest]
	if root == nil {
		return nil
	}
	for _, key := range []string{"replace", "cargo-features"} {
		if root.hasTables[key] {
			b.rootOpen = append(b.rootOpen, fmt.Sprintf("%s has [%s]", root.Manifest, key))
		}
	}
	for _, list := range [][]*Package{b.Members, b.Locals} {
		for _, p := range list {
			for _, d := range p.Dependencies {
				if d.Artifact {
					b.rootOpen = append(b.rootOpen, fmt.Sprintf("%s: `%s` is an artifact dependency", p.Manifest, d.Key))
				}
			}
		}
	}
	if root.hasTables["patch"] {
		b.rootOpen = append(b.rootOpen, b.patches(root)...)
	}
	return b.rootOpen
}

// patches says which [patch] entries are not known to be in force as Cargo.lock has them. A patch that the lock file holds, used or unused, is
// followed by way of the lock file; one that was added later makes cargo resolve anew.
// Source: the cargo book, overriding-dependencies.md, and the encoding of [[patch.unused]] in src/cargo/core/resolver/encode.rs.
func (b *planner) patches(root *Package) []string {
	raw, err := decode(root.text)
	if err != nil {
		return []string{root.Manifest + ": " + err.Error()}
	}
	var out []string
	unused := b.unusedPatches()
	sources := table(raw, "patch")
	for _, source := range sortedKeys(sources) {
		entries, _ := sources[source].(map[string]any)
		for _, key := range sortedKeys(entries) {
			d := Dependency{Key: key, Package: key}
			d.fill(b.host, root.Dir, entries[key])
			if !b.patchLocked(d, unused) {
				out = append(out, fmt.Sprintf("%s: [patch] `%s` is not as Cargo.lock has it", root.Manifest, key))
			}
		}
	}
	return out
}

func (b *planner) patchLocked(d Dependency, unused []LockPackage) bool {
	version := ""
	if d.Path != "" {
		m := b.readPatch(d.Path)
		if m == nil || m.Name != d.Package {
			return false
		}
		version = m.Version
	}
	is := func(lp *LockPackage) bool {
		switch {
		case lp.Name != d.Package:
			return false
		case d.Path != "":
			return lp.Source == "" && lp.Version == version
		case d.Git != "":
			at := ParsePkgID(lp.Source)
			return at.Kind == "git" && strings.TrimSuffix(at.URL, ".git") == strings.TrimSuffix(d.Git, ".git")
		}
		return false
	}
	for _, i := range b.lockNamed(d.Package) {
		if is(&b.Lock[i]) {
			if d.Path != "" {
				b.patchDirs()[lockKey(&b.Lock[i])] = d.Path
			}
			return true
		}
	}
	for i := range unused {
		if is(&unused[i]) {
			return true
		}
	}
	return false
}

func (p *Project) patchDirs() map[string]string {
	if p.patched == nil {
		p.patched = map[string]string{}
	}
	return p.patched
}

// readPatch reads the manifest of a package that a patch or a repository holds; nil where there is none.
func (p *Project) readPatch(dir string) *Package {
	m, err := p.read(p.host.Join(dir, "Cargo.toml"))
	if err != nil {
		return nil
	}
	if home, err := p.findRoot(m); err == nil {
		m.inherit(p.host, home)
	}
	return m
}

// unusedPatches reads the patches that the lock file has and nothing uses.
func (p *Project) unusedPatches() []LockPackage {
	data, err := p.host.ReadFile(p.LockPath, manifestLimit)
	if err != nil {
		return nil
	}
	_, rest, found := strings.Cut(string(data), "[[patch.unused]]")
	if !found {
		return nil
	}
	return parseLock(strings.ReplaceAll("[[patch.unused]]"+rest, "[[patch.unused]]", "[[package]]"))
}

// lockNamed lists the places of a name in the lock file.
func (p *Project) lockNamed(name string) []int {
	if p.lockIndex == nil {
		p.lockIndex = make(map[string][]int, len(p.Lock))
		for i := range p.Lock {
			p.lockIndex[p.Lock[i].Name] = append(p.lockIndex[p.Lock[i].Name], i)
		}
	}
	return p.lockIndex[name]
}

// lockedManifest reads the manifest of a locked package, where its sources are unpacked; nil with the reason where they are not.
func (p *Project) lockedManifest(lp *LockPackage) (*Package, string) {
	var m *Package
	switch {
	case lp.Source == "":
		dir, known := p.patchDirs()[lockKey(lp)]
		if !known {
			return nil, fmt.Sprintf("Cargo.lock has %s %s from a path, and no [patch] names it", lp.Name, lp.Version)
		}
		if m = p.readPatch(dir); m != nil && m.Name == lp.Name {
			return m, ""
		}
	case strings.HasPrefix(lp.Source, "git+"):
		if m = p.gitManifest(lp); m != nil {
			return m, ""
		}
	case strings.HasPrefix(lp.Source, "registry+"), strings.HasPrefix(lp.Source, "sparse+"):
		if m = p.registryManifest(lp.Name, lp.Version); m != nil {
			p.foreignPackages()[m] = lp.Source
			return m, ""
		}
	default:
		return nil, fmt.Sprintf("%s is from a source that is not known here: %s", lp.Name, lp.Source)
	}
	return nil, fmt.Sprintf("the manifest of %s %s is not on this machine (cargo fetch)", lp.Name, lp.Version)
}

func (p *Project) foreignPackages() map[*Package]string {
	if p.foreign == nil {
		p.foreign = map[*Package]string{}
	}
	return p.foreign
}

// foreignManifest reads a package by its directory in the repository that source names.
func (p *Project) foreignManifest(dir, name, source string) *Package {
	m := p.readPatch(dir)
	if m == nil || m.Name != name {
		return nil
	}
	p.foreignPackages()[m] = source
	return m
}

const repositoryLimit = 4000 // directories of a repository that are looked at for a package

// gitManifest finds a package of a git source in cargo's checkouts: <CARGO_HOME>/git/checkouts/<name>-<hash>/<short commit>/….
// Source: src/cargo/sources/git/source.rs (ident: the last part of the address and a hash; the directory is the short id of the commit).
func (p *Project) gitManifest(lp *LockPackage) *Package {
	if p.gits == nil {
		p.gits = map[string]*Package{}
	}
	key := lp.Source + " " + lockKey(lp)
	if m, known := p.gits[key]; known {
		return m
	}
	p.gits[key] = nil
	h := p.host
	address, commit, ok := strings.Cut(lp.Source, "#")
	if !ok || len(commit) < 7 {
		return nil
	}
	name := strings.TrimSuffix(h.Base(strings.TrimRight(ParsePkgID(address).URL, "/")), ".git")
	base := h.Join(p.cargoHome(), "git", "checkouts")
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
				if f := h.Join(dir, "Cargo.toml"); h.IsFile(f) {
					if m := p.foreignManifest(dir, lp.Name, address); m != nil && (m.Version == lp.Version || m.Version == "") {
						p.gits[key] = m
						return m
					}
				}
			}
		}
	}
	return nil
}

func (p *Project) cargoHome() string {
	home, ok := p.host.Env.Lookup("CARGO_HOME")
	if !ok || home == "" {
		home = p.host.Join(p.host.Home, ".cargo")
	}
	return home
}

// configured is what cargo's configuration says, as far as it can change what is linked.
type configured struct {
	open             []string
	target, targetIn string // build.target of the nearest file that has one
}

// configured reads the configuration of a directory and all above it, and with home that of the user, each file once.
func (p *Project) configured(dir string, home bool) *configured {
	key := dir
	if home {
		key += "\x00"
	}
	if c, known := p.configs[key]; known {
		return c
	}
	if p.configs == nil {
		p.configs = map[string]*configured{}
	}
	h, out := p.host, &configured{}
	take := func(c *configured) {
		if c == nil {
			return
		}
		out.open = mergeStrings(out.open, c.open)
		if out.target == "" {
			out.target, out.targetIn = c.target, c.targetIn
		}
	}
	if dir != "" {
		at := h.Clean(dir)
		take(p.configFile(h.Join(at, ".cargo")))
		if up := h.Dir(at); up != at {
			take(p.configured(up, false))
		}
	}
	if home {
		take(p.configFile(p.cargoHome()))
	}
	p.configs[key] = out
	return out
}

// configFile reads config.toml, or the older config, of one directory; nil where there is none.
func (p *Project) configFile(dir string) *configured {
	if c, known := p.configFiles[dir]; known {
		return c
	}
	if p.configFiles == nil {
		p.configFiles = map[string]*configured{}
	}
	var found *configured
	for _, name := range []string{"config", "config.toml"} { // cargo takes the older one where both are there
		path := p.host.Join(dir, name)
		data, err := p.host.ReadFile(path, manifestLimit)
		if err != nil {
			continue // it is not there; one that cannot be read is cargo's own error
		}
		found = readConfigText(p.host, path, string(data))
		break
	}
	p.configFiles[dir] = found
	return found
}

func readConfigText(_ buildenv.Host, path, text string) *configured {
	c := &configured{}
	raw := map[string]any{}
	if _, err := toml.Decode(text, &raw); err != nil {
		c.open = append(c.open, path+" cannot be read")
		return c
	}
	for _, key := range []string{"patch", "paths", "unstable", "include"} {
		if raw[key] != nil {
			c.open = append(c.open, fmt.Sprintf("%s has `%s`", path, key))
		}
	}
	for key := range table(raw, "resolver") {
		if key != "incompatible-rust-versions" { // which says how versions are chosen; the lock file has them
			c.open = append(c.open, fmt.Sprintf("%s has `resolver.%s`", path, key))
		}
	}
	build := table(raw, "build")
	switch t := build["target"].(type) {
	case nil:
	case string:
		c.target, c.targetIn = t, path
	default:
		c.open = append(c.open, path+" has build.target with several targets")
	}
	if build["rustc"] != nil {
		c.open = append(c.open, path+" has build.rustc")
	}
	// [source] changes where the same packages come from: their checksums are in the lock file.
	return c
}
