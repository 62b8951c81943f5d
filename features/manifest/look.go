package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// globLimit is how many entries of directories the member patterns look at.
const globLimit = 100_000

// looked is what a manifest says about its workspace.
type looked struct {
	pointer          string // package.workspace
	root             bool   // it has a [workspace] table
	members, exclude []string
	defaults         []string       // default-members
	shared           map[string]any // workspace.dependencies
}

// tables are the dependency tables, with the older spelling that cargo still reads.
var tables = []struct{ kind, key, old string }{
	{Normal, "dependencies", ""}, {Build, "build-dependencies", "build_dependencies"}, {Dev, "dev-dependencies", "dev_dependencies"},
}

// Load reads the manifests that a command line about this one may concern, and Cargo.lock, without cargo: the workspace root, the members
// that its patterns and path dependencies lead to, and theirs. A manifest that cannot be understood is a doubt, since cargo words it best.
func Load(h buildenv.Host, manifest string) (*Project, error) {
	manifest = h.Clean(h.Abs(manifest))
	p := &Project{Manifest: manifest, Root: h.Dir(manifest), RootManifest: manifest, host: h, byPath: map[string]*Package{}}
	if !h.IsFile(manifest) {
		return nil, exit.Errorf(exit.Config, "check that the file exists and may be read", "%s cannot be read", manifest)
	}
	if asked := p.Read(manifest); asked != nil {
		root := p.findRoot(asked)
		p.RootManifest, p.Root = root.Manifest, root.Dir
		p.walk(root, asked)
		if p.Default = p.Members; asked.Name != "" {
			p.Selected, p.Default = asked, []*Package{asked}
		}
		var dirs []string
		for _, pattern := range asked.look.defaults {
			left := globLimit
			found, _ := expand(h, asked.Dir, pattern, &left)
			dirs = append(dirs, found...)
		}
		if dirs != nil {
			p.Default = slices.DeleteFunc(slices.Clone(p.Members), func(m *Package) bool { return !slices.Contains(dirs, m.Dir) })
		}
	}
	p.LockPath = h.Join(p.Root, "Cargo.lock")
	p.Refresh()
	return p, p.unbounded
}

// Read reads a manifest once; nil where there is none, or none that can be understood.
func (p *Project) Read(path string) *Package {
	pkg, known := p.byPath[path]
	if known {
		return pkg
	}
	data, err := p.host.ReadFile(path, buildenv.Manifest)
	if err == nil {
		pkg, err = parse(p.host, path, data)
	}
	if errors.Is(err, buildenv.ErrUnbounded) {
		p.unbounded = err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.doubt(path, err)
	}
	p.byPath[path] = pkg
	return pkg
}

// findRoot returns the workspace root of a package; a package without one is its own.
// Source: cargo's workspace.rs (find_workspace_root_with_loader, is_excluded).
func (p *Project) findRoot(pkg *Package) *Package {
	h, up := p.host, pkg.Dir
	for at := pkg; ; at = p.Read(h.Join(up, FileName)) {
		switch {
		case at == nil:
		case at.look.pointer != "":
			if root := p.Read(h.Join(h.From(at.Dir, at.look.pointer), FileName)); root != nil {
				return root
			}
			return pkg
		case at.look.root && !excluded(h, at, pkg.Manifest):
			return at
		}
		if h.Dir(up) == up {
			return pkg
		}
		up = h.Dir(up)
	}
}

// excluded reports whether a root's exclude list names a manifest that its members list does not.
func excluded(h buildenv.Host, root *Package, manifest string) bool {
	named := func(list []string) bool {
		return slices.ContainsFunc(list, func(e string) bool { return h.Below(manifest, h.Clean(h.From(root.Dir, e))) })
	}
	return named(root.look.exclude) && !named(root.look.members)
}

// walk reads the members of a workspace and every path dependency.
func (p *Project) walk(root, asked *Package) {
	h, queue, left := p.host, []string{root.Manifest, asked.Manifest}, globLimit
	for _, pattern := range root.look.members {
		dirs, read := expand(h, root.Dir, pattern, &left)
		if left < 0 { // cargo is not asked either: it would walk on
			p.unbounded = &buildenv.UnboundedError{Path: root.Manifest,
				Why: fmt.Sprintf("the member pattern %.200q looks at more than %d entries of directories", pattern, globLimit)}
			return
		}
		p.Globbed = append(p.Globbed, read...)
		for _, dir := range dirs {
			m := h.Join(dir, FileName)
			if p.Globbed = append(p.Globbed, m); !excluded(h, root, m) { // a directory that matches becomes a member with its manifest
				queue = append(queue, m)
			}
		}
	}
	listed, seen := len(queue), map[*Package]bool{}
	for i := 0; i < len(queue); i++ {
		pkg := p.Read(queue[i])
		if pkg == nil || pkg.Name == "" || seen[pkg] {
			continue
		}
		seen[pkg] = true
		if i < listed || root.look.root && !pkg.look.root && h.Below(pkg.Manifest, root.Dir) && !excluded(h, root, pkg.Manifest) {
			p.Members = append(p.Members, pkg)
			for i := range pkg.Dependencies {
				if d := &pkg.Dependencies[i]; d.inherited {
					from := Dependency{Package: d.Key}
					from.fill(h, root.Dir, root.look.shared[d.Key])
					d.Package, d.Path = from.Package, from.Path
				}
			}
		} else {
			p.Locals = append(p.Locals, pkg)
		}
		for _, d := range pkg.Dependencies {
			if d.Path != "" {
				queue = append(queue, h.Join(d.Path, FileName))
			}
		}
	}
}

// expand lists the directories that a member pattern such as "crates/*" means, sorted, and those whose names decided it. It takes the
// entries that it looks at from left, and stops below 0.
// Source: the glob crate that cargo uses: * and ? stop at separators, ** is any number of directories, [!a] negates.
func expand(h buildenv.Host, dir, pattern string, left *int) (found, read []string) {
	fixed, wild := pattern, ""
	if h.OS == buildenv.Windows {
		fixed = strings.ReplaceAll(pattern, `\`, "/")
	}
	if i := strings.IndexAny(fixed, "*?["); i >= 0 {
		i = strings.LastIndexByte(fixed[:i], '/') + 1
		fixed, wild = fixed[:i], strings.ReplaceAll(fixed[i:], "[!", "[^")
	}
	found = []string{h.Clean(h.From(dir, fixed))}
	for part := range strings.SplitSeq(wild, "/") {
		var next []string
		for i := 0; i < len(found) && *left >= 0 && part != ""; i++ {
			d := found[i]
			read = append(read, d)
			if part == "**" {
				next = append(next, d)
			}
			*left--
			for _, name := range h.Names(d) {
				if *left--; *left < 0 {
					break
				}
				sub := h.Join(d, name)
				if part != "**" {
					if ok, err := path.Match(part, name); ok && err == nil && h.IsDir(sub) {
						next = append(next, sub)
					}
				} else if name != "target" && h.IsDir(sub) && h.Base(h.Real(sub)) == name { // no link, and nothing that cargo built
					found = append(found, sub)
				}
			}
		}
		if part != "" {
			slices.Sort(next)
			found = slices.Compact(next)
		}
	}
	return found, read
}

// parse reads one Cargo.toml. What it inherits from its workspace is not known.
func parse(h buildenv.Host, path string, data []byte) (*Package, error) {
	raw, err := buildenv.ReadTOML(data)
	if err != nil {
		return nil, err
	}
	pkg, ws := table(raw, "package", "project"), table(raw, "workspace")
	p := &Package{Manifest: path, Dir: h.Dir(path), Name: str(pkg["name"]), Version: str(pkg["version"]),
		DefaultRun: str(pkg["default-run"]), Features: map[string][]string{}, text: data,
		spans: sync.OnceValue(func() Positions { return Locate(data) }),
		look: &looked{str(pkg["workspace"]), raw["workspace"] != nil, stringsOf(ws["members"]), stringsOf(ws["exclude"]),
			stringsOf(ws["default-members"]), table(ws, "dependencies")}}
	if build := str(pkg["build"]); build != "" {
		p.BuildScript = h.Clean(h.From(p.Dir, build))
	} else if b := h.Join(p.Dir, "build.rs"); pkg["build"] != false && h.IsFile(b) {
		p.BuildScript = b
	}
	p.readDependencies(h, raw, "")
	targets := table(raw, "target")
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if t, ok := targets[name].(map[string]any); ok {
			p.readDependencies(h, t, name)
		}
	}
	hidden := map[string]bool{}
	for name, v := range table(raw, "features") {
		p.Features[name] = stringsOf(v)
		for _, text := range p.Features[name] {
			if key, is := strings.CutPrefix(text, "dep:"); is {
				hidden[key] = true
			}
		}
	}
	for _, d := range p.Dependencies { // Source: the cargo book, features.md, "Optional dependencies"
		if _, declared := p.Features[d.Key]; d.Optional && !declared && !hidden[d.Key] {
			p.Features[d.Key] = []string{"dep:" + d.Key}
		}
	}
	return p, nil
}

func (p *Package) readDependencies(h buildenv.Host, raw map[string]any, target string) {
	for _, t := range tables {
		deps := table(raw, t.key, t.old)
		for _, key := range slices.Sorted(maps.Keys(deps)) {
			d := Dependency{Key: key, Package: key, Kind: t.kind, Target: target, DefaultFeatures: true}
			d.fill(h, p.Dir, deps[key])
			p.Dependencies = append(p.Dependencies, d)
		}
	}
}

// fill reads one value of a dependency table.
func (d *Dependency) fill(h buildenv.Host, dir string, v any) {
	t, ok := v.(map[string]any)
	if !ok {
		d.Version = str(v)
		return
	}
	d.Version, d.Features = str(t["version"]), stringsOf(t["features"])
	if s := str(t["package"]); s != "" {
		d.Package = s
	}
	if s := str(t["path"]); s != "" {
		d.Path = h.Clean(h.From(dir, s))
	}
	d.Optional, _ = t["optional"].(bool)
	d.inherited, _ = t["workspace"].(bool)
	d.DefaultFeatures = t["default-features"] != false && t["default_features"] != false
}

func table(raw map[string]any, names ...string) map[string]any {
	for _, n := range names {
		if t, ok := raw[n].(map[string]any); ok {
			return t
		}
	}
	return nil
}

func str(v any) string { s, _ := v.(string); return s }

func stringsOf(v any) (out []string) {
	list, _ := v.([]any)
	for _, e := range list {
		out = append(out, str(e))
	}
	return out
}
