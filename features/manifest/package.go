package manifest

// Kinds of dependency tables.
const (
	Normal = "normal"
	Build  = "build"
	Dev    = "dev"
)

// Package is a package as cargo's metadata has it, or as much of it as the look reads of a Cargo.toml.
type Package struct {
	ID           string              `json:"id"` // of the metadata; else empty
	Name         string              `json:"name"`
	Version      string              `json:"version"` // empty where a manifest that was read inherits it
	Manifest     string              `json:"manifest_path"`
	DefaultRun   string              `json:"default_run,omitempty"` // the program that `cargo run` means when there are several
	Features     map[string][]string `json:"features"`              // with those that cargo makes of optional dependencies
	Dependencies []Dependency        `json:"dependencies"`
	Targets      []target            `json:"targets"` // of the metadata only

	Dir         string `json:"-"`
	BuildScript string `json:"-"` // path of the build script; empty when there is none
	ProcMacro   bool   `json:"-"` // of the metadata only

	edges    map[string][]Edge // of Features, parsed once
	byKey    map[string][]Dependency
	resolved map[string]*Package // what its dependencies mean, by the names that sources use; of cargo's metadata
	look     *looked             // what only the look reads; nil for others
	text     []byte
	spans    func() Positions // of text, computed once
}

// Dependency is one entry of a dependency table. Of one that a manifest inherits, the look knows the package and the path.
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

	inherited bool // workspace = true
}

// Line returns the line of a key, such as Line("features", "cuda"); 0 when it is not in the manifest.
func (p *Package) Line(path ...string) int {
	if p.spans == nil {
		return 0
	}
	at, _ := p.spans().At(path...)
	return at.Line
}

// FeatureLine returns the line of a feature, else that of the [features] table, else that of the table before which one belongs.
func (p *Package) FeatureLine(feature string) int {
	for _, path := range [][]string{{"features", feature}, {"features"}, {"dependencies"}, {"package"}} {
		if n := p.Line(path...); n > 0 {
			return n
		}
	}
	return 0
}

// DependencyLine returns the line of a dependency's entry; 0 when it is not found.
func (p *Package) DependencyLine(d Dependency) int {
	for _, t := range tables {
		for _, name := range []string{t.key, t.old} {
			path := []string{name, d.Key}
			if d.Target != "" {
				path = []string{"target", d.Target, name, d.Key}
			}
			if n := p.Line(path...); t.kind == d.Kind && n > 0 {
				return n
			}
		}
	}
	return 0
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
