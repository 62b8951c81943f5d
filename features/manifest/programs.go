package manifest

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// Programs are the names of what cargo makes of a package as files of their own: without a unit graph the manifest tells them. Those whose
// required features are off are not built and left out, and so are those that need a feature of a dependency, of which a manifest does not
// tell whether it is on.
// Source: the cargo book, cargo-targets.md, "Target auto-discovery" and "The required-features field".
type Programs struct {
	Bins, Examples []string
	Library        string // its file's name without what a platform adds; empty: there is no library
}

func (p *Package) Programs(h buildenv.Host, features []string) Programs {
	at := p.places
	var out Programs
	on, _ := p.Closure(features)
	take := func(list []binPlace, auto bool, dir string) (names []string) {
		known, paths := map[string]bool{}, map[string]bool{}
		for _, one := range list {
			built := one.name != ""
			for _, f := range one.needs {
				built = built && (on[f] || slices.Contains(features, f))
			}
			known[one.name] = true
			if one.path != "" {
				paths[h.Join(p.Dir, one.path)] = true
			}
			if built {
				names = append(names, one.name)
			}
		}
		add := func(name, path string) {
			if auto && h.IsFile(path) && !known[name] && !paths[path] {
				known[name] = true
				names = append(names, name)
			}
		}
		if dir == "" {
			add(p.Name, h.Join(p.Dir, "src", "main.rs"))
			dir = h.Join(p.Dir, "src", "bin")
		}
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			return names // there is none
		}
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".rs"); ok {
				add(name, h.Join(dir, e.Name()))
				continue
			}
			add(e.Name(), h.Join(dir, e.Name(), "main.rs"))
		}
		return names
	}
	out.Bins = take(at.bins, !at.noAutobins, "")
	out.Examples = take(at.examples, !at.noAutoexamples, h.Join(p.Dir, "examples"))
	if at.hasLib || h.IsFile(h.Join(p.Dir, "src", "lib.rs")) {
		if out.Library = at.libName; out.Library == "" {
			out.Library = libName(p.Name)
		}
	}
	return out
}

func libName(pkg string) string { return strings.ReplaceAll(pkg, "-", "_") }

// places is where a manifest says that targets are.
type places struct {
	lib            string
	libName        string
	hasLib         bool
	noAutobins     bool
	noAutoexamples bool
	bins, examples []binPlace
}

type binPlace struct {
	name, path string
	needs      []string // required-features
}

func placesIn(raw map[string]any) places {
	lib, pkg := table(raw, "lib"), table(raw, "package", "project")
	at := places{lib: str(lib["path"]), libName: str(lib["name"]), hasLib: raw["lib"] != nil}
	if v, ok := pkg["autobins"].(bool); ok {
		at.noAutobins = !v
	}
	if v, ok := pkg["autoexamples"].(bool); ok {
		at.noAutoexamples = !v
	}
	at.bins, at.examples = placesOf(raw, "bin"), placesOf(raw, "example")
	return at
}

func placesOf(raw map[string]any, kind string) []binPlace {
	var out []binPlace
	for _, one := range tablesOf(raw[kind]) {
		needs, _ := stringsOf(one["required-features"])
		out = append(out, binPlace{str(one["name"]), str(one["path"]), needs})
	}
	return out
}
