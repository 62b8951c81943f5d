package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv"
)

// Kinds of dependency tables.
const (
	Normal = "normal"
	Build  = "build"
	Dev    = "dev"
)

const manifestLimit = 16 << 20 // bytes of a manifest or lock file that are read

// Package is one Cargo.toml, as it was read or as cargo's metadata has it.
type Package struct {
	ID           string              `json:"id"` // of the metadata; else empty
	Name         string              `json:"name"`
	Version      string              `json:"version"`
	Manifest     string              `json:"manifest_path"`
	DefaultRun   string              `json:"default_run,omitempty"` // the program that `cargo run` means when there are several
	Features     map[string][]string `json:"features"`              // as declared; Edges and Declares know the implicit ones
	Dependencies []Dependency        `json:"dependencies"`
	Targets      []target            `json:"targets"` // those of a manifest that was read here: what [[bin]] names

	Dir         string `json:"-"`
	BuildScript string `json:"-"` // path of the build script; empty when there is none
	ProcMacro   bool   `json:"-"`
	Lib         string `json:"-"` // path of the library that [lib] names

	pointer         string // package.workspace
	inheritsVersion bool
	index           *featureIndex
	resolved        map[string]*Package // what its dependencies mean, by the names that sources use; of cargo's metadata
	workspace       *workspace
	text            []byte
	spans           func() Positions // of text, computed once
}

// Dependency is one entry of a dependency table, workspace inheritance applied.
type Dependency struct {
	Key             string   `json:"rename,omitempty"` // its name in this manifest
	Package         string   `json:"name"`             // its real name
	Kind            string   `json:"kind,omitempty"`
	Target          string   `json:"target,omitempty"` // the table's cfg(…) or triple; empty for the plain tables
	Version         string   `json:"req"`
	Path            string   `json:"path,omitempty"` // absolute; empty unless local
	Optional        bool     `json:"optional,omitempty"`
	DefaultFeatures bool     `json:"uses_default_features"`
	Features        []string `json:"features"`

	inherited   bool // workspace = true
	saidDefault bool // this manifest itself has default-features
}

// workspace is the [workspace] table of a root manifest.
type workspace struct {
	members, exclude, defaults []string
	hasDefaults                bool
	version                    string
	deps                       map[string]any
}

// Line answers the line of a key, such as Line("features", "cuda"); 0 when it is not in the manifest.
func (p *Package) Line(path ...string) int {
	if p.spans == nil {
		return 0
	}
	at, _ := p.spans().At(path...)
	return at.Line
}

// FeatureLine answers the line of a feature, else that of the [features] table, else that of the table before which one belongs.
func (p *Package) FeatureLine(feature string) int {
	for _, path := range [][]string{{"features", feature}, {"features"}, {"dependencies"}, {"package"}} {
		if n := p.Line(path...); n > 0 {
			return n
		}
	}
	return 0
}

// Required is a program of the package that is built only with a feature; empty when there is none.
func (p *Package) Required(feature string) string {
	for _, t := range p.Targets {
		if slices.Contains(t.Needs, feature) && !slices.Contains([]string{"test", "bench", "example"}, strings.Join(t.Kind, "")) {
			return t.Name
		}
	}
	return ""
}

// Read reads one package's manifest by itself; nil where that cannot be read.
func Read(h buildenv.Host, path string) *Package {
	data, err := h.ReadFile(path, manifestLimit)
	if err != nil {
		return nil
	}
	p, err := parseManifest(h, path, data)
	if err != nil {
		return nil
	}
	return p
}

// parseManifest reads one Cargo.toml. Inherited dependencies are only marked; inherit fills them in.
func parseManifest(h buildenv.Host, path string, data []byte) (*Package, error) {
	raw, err := readTOML(data)
	if err != nil {
		return nil, SyntaxError(path, data, err)
	}
	p := &Package{Manifest: path, Dir: h.Dir(path), Features: map[string][]string{}, text: data,
		spans: sync.OnceValue(func() Positions { return Locate(data) })}
	pkg := table(raw, "package", "project")
	p.Name, p.Version = str(pkg["name"]), str(pkg["version"])
	_, p.inheritsVersion = pkg["version"].(map[string]any)
	p.pointer = str(pkg["workspace"])
	p.DefaultRun = str(pkg["default-run"])
	if pkg != nil && p.Name == "" {
		return nil, &Error{Path: path, Line: p.Line("package"), Column: 1, Message: "[package] has no name"}
	}
	switch build := pkg["build"].(type) {
	case string:
		p.BuildScript = h.Join(p.Dir, build)
	case nil:
		if b := h.Join(p.Dir, "build.rs"); pkg != nil && h.IsFile(b) {
			p.BuildScript = b
		}
	case bool:
		if build {
			p.BuildScript = h.Join(p.Dir, "build.rs")
		}
	}
	lib := table(raw, "lib")
	p.ProcMacro, _ = first(lib, "proc-macro", "proc_macro").(bool)
	if s := str(lib["path"]); s != "" {
		p.Lib = h.Join(p.Dir, s)
	}
	for _, b := range tablesOf(raw["bin"]) {
		needs, _ := stringsOf(b["required-features"])
		p.Targets = append(p.Targets, target{Name: str(b["name"]), Needs: needs})
	}
	for name, v := range table(raw, "features") {
		list, ok := stringsOf(v)
		if !ok {
			return nil, &Error{Path: path, Line: p.Line("features", name), Column: 1,
				Message: fmt.Sprintf("feature `%s` is not a list of strings", name)}
		}
		p.Features[name] = list
	}
	p.readDependencies(h, raw, "")
	targets := table(raw, "target")
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if t, ok := targets[name].(map[string]any); ok {
			p.readDependencies(h, t, name)
		}
	}
	if ws := table(raw, "workspace"); raw["workspace"] != nil {
		p.workspace = &workspace{deps: table(ws, "dependencies")}
		p.workspace.members, _ = stringsOf(ws["members"])
		p.workspace.exclude, _ = stringsOf(ws["exclude"])
		p.workspace.defaults, _ = stringsOf(ws["default-members"])
		p.workspace.hasDefaults = ws["default-members"] != nil
		p.workspace.version = str(table(ws, "package")["version"])
	}
	return p, nil
}

func (p *Package) readDependencies(h buildenv.Host, raw map[string]any, target string) {
	for _, t := range []struct{ kind, key, old string }{
		{Normal, "dependencies", ""}, {Build, "build-dependencies", "build_dependencies"}, {Dev, "dev-dependencies", "dev_dependencies"},
	} {
		deps := table(raw, t.key, t.old)
		for _, key := range slices.Sorted(maps.Keys(deps)) {
			d := Dependency{Key: key, Package: key, Kind: t.kind, Target: target, DefaultFeatures: true}
			d.fill(h, p.Dir, deps[key])
			p.Dependencies = append(p.Dependencies, d)
		}
	}
}

// DependencyLine answers the line of a dependency's entry; 0 when it is not found.
func (p *Package) DependencyLine(d Dependency) int {
	names := map[string][]string{Normal: {"dependencies"}, Build: {"build-dependencies", "build_dependencies"},
		Dev: {"dev-dependencies", "dev_dependencies"}}
	for _, t := range names[d.Kind] {
		path := []string{t, d.Key}
		if d.Target != "" {
			path = []string{"target", d.Target, t, d.Key}
		}
		if n := p.Line(path...); n > 0 {
			return n
		}
	}
	return 0
}

// fill reads one value of a dependency table.
func (d *Dependency) fill(h buildenv.Host, dir string, v any) {
	switch v := v.(type) {
	case string:
		d.Version = v
	case map[string]any:
		d.Version = str(v["version"])
		if s := str(v["package"]); s != "" {
			d.Package = s
		}
		if s := str(v["path"]); s != "" {
			d.Path = h.Clean(h.From(dir, s))
		}
		d.Optional, _ = v["optional"].(bool)
		d.inherited, _ = v["workspace"].(bool)
		if b, ok := first(v, "default-features", "default_features").(bool); ok {
			d.DefaultFeatures, d.saidDefault = b, true
		}
		d.Features, _ = stringsOf(v["features"])
	}
}

// inherit applies the workspace's table to what a member takes from it.
// Source: the cargo book, specifying-dependencies.md "Inheriting a dependency from a workspace", and measured: features are
// added; default-features = true over the workspace's false turns them on; false over true is ignored (edition 2024: cargo's error).
func (p *Package) inherit(h buildenv.Host, root *Package) {
	ws := root.workspace
	if ws == nil {
		return
	}
	if p.inheritsVersion {
		p.Version = ws.version
	}
	for i := range p.Dependencies {
		d := &p.Dependencies[i]
		if !d.inherited {
			continue
		}
		v, ok := ws.deps[d.Key]
		if !ok {
			continue
		}
		shared := Dependency{Key: d.Key, Package: d.Key, DefaultFeatures: true}
		shared.fill(h, root.Dir, v)
		own := d.DefaultFeatures && d.saidDefault
		d.Package, d.Version, d.Path = shared.Package, shared.Version, shared.Path
		d.DefaultFeatures = shared.DefaultFeatures || own
		d.Features = Union(shared.Features, d.Features)
	}
}

// Union joins lists of features, each once, in their order.
func Union(lists ...[]string) []string {
	var out []string
	seen := map[string]bool{}
	for _, l := range lists {
		for _, s := range l {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

func table(raw map[string]any, names ...string) map[string]any {
	for _, n := range names {
		if t, ok := raw[n].(map[string]any); ok {
			return t
		}
	}
	return nil
}

func first(t map[string]any, names ...string) any {
	for _, n := range names {
		if v, ok := t[n]; ok {
			return v
		}
	}
	return nil
}

func str(v any) string { s, _ := v.(string); return s }

func stringsOf(v any) ([]string, bool) {
	if v == nil {
		return nil, true
	}
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}
