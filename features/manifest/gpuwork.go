package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/features/catalog"
)

// GPUWork is the quick look at a command line: does it ask for anything that has to do with GPUs? It reads manifests and Cargo.lock only,
// with what r.Scripts says of build scripts, and leans to yes: the unit graph decides afterwards. The reason says what was seen.
//
// It may say yes where cargo links no CUDA, never no where it does: features are followed as cargo's resolver 1 does, which unifies more
// than the newer ones, every weak edge counts, and so does every [target.…] table.
func (p *Project) GPUWork(r Request) (bool, string) {
	a := ParseRequest(r)
	for _, f := range a.Plain {
		if b, loose := a.BackendOf(f, nil); a.IsCUDA(f) || !loose && (b == ROCm || b == Vulkan) {
			return true, fmt.Sprintf("feature `%s` is requested", f)
		}
	}
	cat, err := catalog.Default()
	if err != nil {
		return true, err.Error()
	}
	w := &work{
		Project: p, catalog: cat, ask: a, scripts: r.Scripts, dev: r.Dev,
		on: map[*Package]map[string]bool{}, base: map[*Package]bool{},
	}
	for _, pkg := range slices.Sorted(maps.Keys(a.Qualified)) {
		for _, f := range a.Qualified[pkg] {
			name := w.realName(pkg)
			if c := cat.Crate(name); a.IsCUDA(f) && (c == nil || c.Role != catalog.FalseFriend) ||
				c != nil && slices.Contains(c.CUDAFeatures, f) {
				return true, fmt.Sprintf("feature `%s/%s` is requested", pkg, f)
			}
		}
	}
	selected, known := p.Selection(r)
	if !known {
		return true, "the packages asked for are not among the manifests"
	}
	for _, pkg := range selected {
		if c := cat.Crate(pkg.Name); c.CUDA() && c.Role == catalog.Carrier {
			return true, pkg.Name + " is itself a GPU crate"
		}
		w.activate(pkg, a.Of(pkg))
		if w.reason != "" {
			return true, w.reason
		}
	}
	if len(p.Doubts) > 0 {
		return true, "not decided from the manifests: " + p.Doubts[0]
	}
	return false, "no requested feature, no default feature and no dependency leads to a GPU crate"
}

// work follows features through manifests.
type work struct {
	*Project
	catalog *catalog.Catalog
	ask     Asked
	scripts Scripts
	dev     bool
	on      map[*Package]map[string]bool
	base    map[*Package]bool   // packages whose plain dependencies were followed
	leading map[string]bool     // lock packages from which a GPU crate is reached
	patched map[string]*Package // by [patch] with a path
	reason  string
}

// patches reads the packages that the root manifest puts in place of others by their paths.
func (p *Project) patches() map[string]*Package {
	out := map[string]*Package{}
	root := p.byPath[p.RootManifest]
	if root == nil || !bytes.Contains(root.text, []byte("patch")) {
		return out
	}
	raw, err := readTOML(root.text)
	if err != nil {
		return out // cargo says what is wrong with it
	}
	sources := table(raw, "patch")
	for source := range sources {
		for name, v := range table(sources, source) {
			if d, ok := v.(map[string]any); ok && str(d["path"]) != "" {
				if m := Read(p.host, p.host.Join(p.host.From(p.Root, str(d["path"])), FileName)); m != nil {
					out[cmp.Or(str(d["package"]), name)] = m
				}
			}
		}
	}
	return out
}

func (w *work) realName(key string) string {
	for _, m := range w.Members {
		for _, d := range m.Dependencies {
			if d.Key == key {
				return d.Package
			}
		}
	}
	return key
}

// activate turns features of a package on and follows what they lead to.
func (w *work) activate(pkg *Package, feats []string) {
	if w.reason != "" {
		return
	}
	have := w.on[pkg]
	if have == nil {
		have = map[string]bool{}
		w.on[pkg] = have
	}
	selected := w.IsMember(pkg)
	fresh := false
	on, edges := pkg.Closure(feats)
	for f := range on {
		if have[f] {
			continue
		}
		have[f], fresh = true, true
		if selected && (w.ask.IsCUDA(f) || namesGPU(f) && w.idle(pkg, f)) {
			w.reason = fmt.Sprintf("feature `%s` of %s is on", f, pkg.Name)
			return
		}
	}
	if (fresh || !w.base[pkg]) && w.scripts.Compile != nil && w.scripts.Compile(pkg, have) {
		w.reason = "the build script of " + pkg.Name + " compiles kernels"
		return
	}
	if !w.base[pkg] {
		w.base[pkg] = true
		for _, d := range pkg.Dependencies {
			if !d.Optional && w.counts(pkg, d) {
				w.follow(pkg, d, nil)
			}
		}
	}
	if !fresh {
		return
	}
	for _, e := range edges { // a weak one, too: something else may turn its dependency on
		w.edge(pkg, e)
	}
}

// idle says whether a feature enables nothing although the package has a dependency that can bring CUDA code. A feature gpu may mean any
// kind of GPU: one that enables something is followed instead.
func (w *work) idle(pkg *Package, feature string) bool {
	_, edges := pkg.Closure([]string{feature})
	return len(edges) == 0 && slices.ContainsFunc(pkg.Dependencies, func(d Dependency) bool { return w.catalog.Crate(d.Package).CUDA() })
}

func (w *work) edge(pkg *Package, e Edge) {
	for _, d := range pkg.Dependencies {
		if d.Key == e.Dep && w.counts(pkg, d) {
			var feats []string
			if e.Feature != "" {
				feats = []string{e.Feature}
			}
			w.follow(pkg, d, feats)
		}
	}
}

// counts says whether a dependency can become part of what is built: build-dependencies do only where resolver 1 unifies them.
func (w *work) counts(pkg *Package, d Dependency) bool {
	switch d.Kind {
	case Dev:
		return (w.dev || w.Resolver == "1") && w.IsMember(pkg)
	case Build:
		return w.Resolver == "1"
	}
	return true // also below [target.…]: whether that applies is cargo's to say
}

// follow goes into a dependency.
func (w *work) follow(pkg *Package, d Dependency, feats []string) {
	if w.reason != "" {
		return
	}
	all := Union(d.Features, feats)
	if c := w.catalog.Crate(d.Package); c != nil {
		switch {
		case c.CUDA() && c.On(all):
			w.reason = fmt.Sprintf("%s turns on %s", pkg.Name, d.Package)
		case c.Role == catalog.ByFile:
			w.reason = fmt.Sprintf("%s depends on %s", pkg.Name, d.Package)
		case c.Role == catalog.Helper:
			return
		}
		if w.reason != "" {
			return
		}
	}
	if d.DefaultFeatures {
		all = append(all, "default")
	}
	if d.Path != "" {
		if local := w.byPath[w.host.Join(d.Path, FileName)]; local != nil && !local.ProcMacro {
			w.activate(local, all)
		}
		return
	}
	w.foreign(pkg, d, all)
}

// foreign decides about a package of a registry or git source, by the lock file and, where its sources are unpacked, by its manifest.
func (w *work) foreign(pkg *Package, d Dependency, feats []string) {
	c := w.catalog.Crate(d.Package)
	if !w.HasLock {
		if c == nil { // a crate that is known is decided by what the catalog knows of its features
			w.reason = "there is no Cargo.lock: what " + d.Package + " leads to is not known"
		}
		return
	}
	w.readLeading()
	lp := w.lockPackage(d)
	if lp == nil || !w.leading[lp.Key()] {
		return
	}
	m := w.patched[lp.Name]
	if m == nil && lp.Source != "" && !strings.HasPrefix(lp.Source, "git+") {
		m = w.RegistryManifest(lp.Name, lp.Version)
	}
	if m == nil {
		if c == nil {
			w.reason = fmt.Sprintf("%s depends on %s, which may lead to a GPU crate", pkg.Name, d.Package)
		}
		return
	}
	if !m.ProcMacro {
		w.activate(m, feats)
	}
}

// lockPackage finds the locked package that a dependency means; with several versions the one whose version begins as was asked.
func (w *work) lockPackage(d Dependency) *LockPackage {
	var found *LockPackage
	want := strings.TrimLeft(d.Version, "=^~> ")
	for i := range w.Lock {
		p := &w.Lock[i]
		if p.Name != d.Package {
			continue
		}
		if found == nil || want != "" && strings.HasPrefix(p.Version, want) ||
			!w.leading[found.Key()] && w.leading[p.Key()] && !strings.HasPrefix(found.Version, want) {
			found = p
		}
	}
	return found
}

// readLeading marks every locked package from which a crate that can bring CUDA code is reached.
func (w *work) readLeading() {
	if w.leading != nil {
		return
	}
	w.leading = map[string]bool{}
	users := map[string][]string{} // key → keys that depend on it
	byName := map[string][]string{}
	for i := range w.Lock {
		byName[w.Lock[i].Name] = append(byName[w.Lock[i].Name], w.Lock[i].Key())
	}
	local := map[string]bool{}
	for _, p := range slices.Concat(w.Members, w.Locals) {
		local[p.Name] = true
	}
	var queue []string
	if w.scripts.Locked != nil {
		queue = w.scripts.Locked()
		w.patched = w.patches()
	}
	for i := range w.Lock {
		p := &w.Lock[i]
		switch m := w.patched[p.Name]; {
		case m != nil && w.scripts.Compile(m, nil):
			queue = append(queue, p.Key())
		case m == nil && p.Source == "" && !local[p.Name]: // cargo's configuration can patch, too: what is there is not read here
			queue = append(queue, p.Key())
		}
		if c := w.catalog.Crate(p.Name); c.CUDA() || c != nil && c.Role == catalog.ByFile {
			queue = append(queue, p.Key())
		}
		for _, dep := range p.Dependencies {
			name, rest, _ := strings.Cut(dep, " ")
			version, _, _ := strings.Cut(rest, " ")
			for _, k := range byName[name] {
				if version == "" || k == name+" "+version {
					users[k] = append(users[k], p.Key())
				}
			}
		}
	}
	for len(queue) > 0 {
		k := queue[0]
		queue = queue[1:]
		if w.leading[k] {
			continue
		}
		w.leading[k] = true
		queue = append(queue, users[k]...)
	}
}

// Leading lists the names of the locked packages from which a GPU crate of the catalog is reached.
func (p *Project) Leading() map[string]bool {
	if p.leading == nil {
		p.leading = map[string]bool{}
		if known, err := catalog.Default(); err == nil {
			w := &work{Project: p, catalog: known}
			w.readLeading()
			for key := range w.leading {
				name, _, _ := strings.Cut(key, " ")
				p.leading[name] = true
			}
		}
	}
	return p.leading
}
