package cargo

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// config is what cargo's configuration says of a command line: --config, the variables, then the files, strongest first. It is read here,
// and not asked of `cargo config get`: from what that prints, a value can claim another origin than it has, and consent is asked by origin.
type config []layer

// layer is one source of configuration.
type layer struct {
	origin string // "--config" or the file; empty for the variables
	root   string // the directory to which relative paths in it belong
	table  map[string]any
	vars   buildenv.Env
	cli    bool  // given on the command line, itself or in a file that it names
	unread error // a file that is not understood here: it may say anything
}

// readConfig reads the configuration of a command line.
func readConfig(h buildenv.Host, t Tool, l Line) config {
	r := reader{host: h, seen: map[string]bool{}}
	cwd := l.cwd(h, t)
	for _, c := range slices.Backward(l.Config) {
		if path := h.From(cwd, c); h.IsFile(path) || !strings.Contains(c, "=") {
			r.file(path)
		} else {
			r.text(c, layer{origin: "--config", root: cwd}, cwd)
		}
	}
	for i := range r.out {
		r.out[i].cli = true
	}
	r.out = append(r.out, layer{vars: t.Env})
	r.files(t, l)
	return r.out
}

// ConfigFiles lists the configuration files that cargo reads for a command line, strongest first, with those that they include; --config
// is left out.
func ConfigFiles(h buildenv.Host, t Tool, l Line) (paths []string) {
	r := reader{host: h, seen: map[string]bool{}}
	for _, file := range r.files(t, l) {
		paths = append(paths, file.origin)
	}
	return paths
}

// reader collects layers, each file once.
type reader struct {
	host buildenv.Host
	seen map[string]bool
	out  config
}

// files are those that cargo finds by itself. It walks up from its current directory, which it knows without links; both spellings are
// looked at.
func (r *reader) files(t Tool, l Line) config {
	h := r.host
	before := len(r.out)
	look := func(dir string) {
		for _, name := range []string{"config", "config.toml"} { // of both cargo takes the first only (get_file_path)
			if p := h.Join(dir, name); h.IsFile(p) || h.IsDir(p) {
				r.file(p)
				return
			}
		}
	}
	cwd := l.cwd(h, t)
	for _, start := range []string{cwd, h.Real(cwd)} {
		for dir := range h.Upwards(start) {
			look(h.Join(dir, ".cargo"))
		}
	}
	if home := t.Env.Get("CARGO_HOME"); home != "" {
		look(l.absolute(h, t, home))
	} else if h.Home != "" {
		look(h.Join(h.Home, ".cargo"))
	}
	return r.out[before:]
}

func (r *reader) file(path string) {
	h := r.host
	if r.seen[path] {
		return
	}
	r.seen[path] = true
	file := layer{origin: path, root: h.Dir(h.Dir(path))}
	data, err := h.ReadFile(path, buildenv.Config)
	if err != nil {
		file.unread = err
		r.out = append(r.out, file)
		return
	}
	r.text(string(data), file, h.Dir(path))
}

// text adds a layer, and then what it includes (cargo 1.94 and newer): a path or a table with one, or a list of them, the last the
// strongest.
func (r *reader) text(text string, is layer, dir string) {
	is.table, is.unread = buildenv.ReadTOML([]byte(text))
	r.out = append(r.out, is)
	list, isList := is.table["include"].([]any)
	if tables, ok := is.table["include"].([]map[string]any); ok {
		for _, table := range tables {
			list = append(list, table)
		}
	} else if !isList {
		list = []any{is.table["include"]}
	}
	for _, one := range slices.Backward(list) {
		optional := false
		if table, ok := one.(map[string]any); ok {
			one = table["path"]
			optional, _ = table["optional"].(bool)
		}
		path, ok := one.(string)
		switch path = r.host.From(dir, path); {
		case !ok:
		case optional && !r.host.IsFile(path):
			r.out = append(r.out, layer{origin: path})
		default:
			r.file(path)
		}
	}
}

// get is what a layer says of a key; nil: nothing.
func (l layer) get(keys ...string) any {
	if v := l.vars.Get(variable(keys...)); v != "" {
		return v
	}
	var v any = l.table
	for _, k := range keys {
		table, _ := v.(map[string]any)
		v = table[k]
	}
	return v
}

// variable is the name of the environment variable for a key.
func variable(keys ...string) string {
	return "CARGO_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(strings.Join(keys, "_")))
}

// find is the strongest value of a key, and where it is from.
func (c config) find(keys ...string) (any, layer) {
	for _, l := range c {
		if v := l.get(keys...); v != nil {
			return v, l
		}
	}
	return nil, layer{}
}

// joined is a command as cargo makes it of all layers, and those that have or may have a part in it: lists are joined, the strongest last,
// and a variable's words follow a list (context/mod.rs, get_cv_with_env). Any other text is the whole.
func (c config) joined(keys ...string) (words []string, from config) {
	for _, l := range c {
		v := l.get(keys...)
		if v == nil && l.unread == nil {
			continue
		}
		more, text := command(v)
		if text && words != nil {
			break
		}
		if from = append(from, l); v != nil {
			words = slices.Concat(more, words)
		}
		if text && l.origin != "" {
			break
		}
	}
	return words, from
}

// has reports whether anything is said of a key.
func (c config) has(keys ...string) bool { v, _ := c.find(keys...); return v != nil }

// command reads a command, which is a string that is split at white space or a list.
func command(v any) (words []string, isText bool) {
	if text, ok := v.(string); ok {
		return strings.Fields(text), true
	}
	list, _ := v.([]any)
	for _, w := range list {
		text, _ := w.(string)
		words = append(words, text)
	}
	return words, false
}

// Rustflags are the words that the configuration of a command line has for rustc, and the directories that it names in place of build
// scripts, for whatever target.
func Rustflags(h buildenv.Host, t Tool, l Line) (words []string) {
	add := func(v any) {
		list, _ := command(v)
		words = append(words, list...)
	}
	for _, is := range readConfig(h, t, l) {
		add(is.get("build", "rustflags"))
		targets, _ := is.table["target"].(map[string]any)
		for _, target := range targets {
			table, _ := target.(map[string]any)
			for key, v := range table {
				if script, isScript := v.(map[string]any); isScript {
					add(script["rustc-link-search"])
				} else if key == "rustflags" {
					add(v)
				}
			}
		}
	}
	return words
}

// Given is a variable that cargo's configuration gives to build scripts ("[env]", The Cargo Book).
type Given struct {
	Name, Value string
	Written     string // the value before `relative` made it a path
	Force       bool   // it counts even where the environment has the variable
	Origin      string // the file, or --config
}

// ConfigEnv lists the variables of the [env] tables that count for a command line. One table is made of all, and a key that a stronger one
// has stays. A file that cannot be read is cargo's to report.
func ConfigEnv(h buildenv.Host, t Tool, l Line) (out []Given) {
	merged, from := map[string]map[string]any{}, map[string]layer{}
	for _, is := range readConfig(h, t, l) {
		env, _ := is.table["env"].(map[string]any)
		for name, v := range env {
			table, isTable := v.(map[string]any)
			if !isTable {
				table = map[string]any{"value": v}
			}
			if merged[name] == nil {
				merged[name] = map[string]any{}
			}
			for key, v := range table {
				if _, has := merged[name][key]; has {
					continue
				}
				if merged[name][key] = v; key == "value" {
					from[name] = is
				}
			}
		}
	}
	for name, is := range from {
		value, ok := merged[name]["value"].(string)
		if !ok {
			continue
		}
		g := Given{Name: name, Value: value, Written: value, Force: merged[name]["force"] == true, Origin: is.origin}
		if merged[name]["relative"] == true {
			g.Value = h.From(is.root, value)
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Given) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// WithEnv adds the --config that gives build scripts another value than an [env] table does.
func (l Line) WithEnv(name, value string) Line {
	key := "env." + buildenv.TOMLString(name)
	return l.WithConfig(key+".value="+buildenv.TOMLString(value), key+".relative=false")
}
