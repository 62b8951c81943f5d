package cargo

import (
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
)

// Given is a variable that cargo's configuration gives to build scripts ("[env]", The Cargo Book).
type Given struct {
	Name, Value string
	Written     string // the value before `relative` made it a path
	Force       bool   // it counts even where the environment has the variable
	Origin      string // the file, or --config
}

// ConfigEnv lists the variables of the [env] tables that count for a command line: --config beats files, a nearer file a farther one. A
// file that cannot be read is cargo's to report.
func ConfigEnv(h buildenv.Host, t Tool, l Line) []Given {
	type entry struct {
		value    string
		has      bool
		force    bool
		relative bool
		root     string // to which a relative value belongs
		origin   string
	}
	found := map[string]*entry{}
	var order []string
	take := func(text, root, origin string) {
		var doc struct {
			Env map[string]any `toml:"env"`
		}
		if _, err := toml.Decode(text, &doc); err != nil {
			return
		}
		for name, v := range doc.Env {
			e := found[name]
			if e == nil {
				e = &entry{}
				found[name], order = e, append(order, name)
			}
			table, isTable := v.(map[string]any)
			if text, ok := v.(string); ok {
				table = map[string]any{"value": text}
			}
			// One table is made of all, and a key that a stronger one has stays.
			if text, ok := table["value"].(string); ok && !e.has {
				e.value, e.has, e.root, e.origin = text, true, root, origin
			}
			if isTable {
				e.force = e.force || table["force"] == true
				e.relative = e.relative || table["relative"] == true && e.root == root
			}
		}
	}
	takeFiles := func(paths []string) {
		for _, path := range paths {
			if data, err := h.ReadFile(path, configLimit); err == nil {
				take(string(data), h.Dir(h.Dir(path)), path)
			}
		}
	}
	for _, c := range slices.Backward(l.Config) {
		if strings.Contains(c, "=") {
			take(c, l.cwd(h, t), "--config")
			takeFiles(includes(h, c, l.cwd(h, t), map[string]bool{}))
			continue
		}
		takeFiles(withIncludes(h, l.absolute(h, t, c), map[string]bool{}))
	}
	takeFiles(ConfigFiles(h, t, l))
	slices.Sort(order)
	var out []Given
	for _, name := range order {
		e := found[name]
		if !e.has {
			continue
		}
		value := e.value
		if e.relative && !h.IsAbs(value) {
			value = h.Join(e.root, value)
		}
		out = append(out, Given{Name: name, Value: value, Written: e.value, Force: e.force, Origin: e.origin})
	}
	return out
}

// WithEnv adds the --config that gives build scripts another value than an [env] table does.
func (l Line) WithEnv(name, value string) Line {
	return l.WithConfig("env." + buildenv.TOMLString(name) + ".value=" + buildenv.TOMLString(value)).
		WithConfig("env." + buildenv.TOMLString(name) + ".relative=false")
}
