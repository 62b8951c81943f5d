package features

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// outside looks for what changes cargo's answer without standing in a manifest of the workspace.
func (b *planner) outside(r Request) {
	if len(b.Doubts) > 0 {
		b.open(b.Doubts[0])
	}
	if len(b.ask.qualified) > 0 {
		b.open("features of named packages are asked for")
	}
	if r.Dev {
		b.open("tests, benches or examples are asked for")
	}
	if len(r.Targets) > 0 {
		b.open("another target is asked for")
	}
	h := b.host
	for _, e := range h.Env.Entries() {
		name, value, _ := strings.Cut(e, "=")
		if up := strings.ToUpper(name); value != "" && (up == "CARGO_BUILD_TARGET" || strings.HasPrefix(up, "CARGO_RESOLVER_") || strings.HasPrefix(up, "CARGO_UNSTABLE_") || strings.HasPrefix(up, "CARGO_PATCH")) {
			b.open(up + " is set")
		}
	}
	for _, why := range b.rootSays() {
		b.open(why)
	}
	if !b.isMember(b.root) {
		b.open(b.root.Manifest + " is no member of its workspace")
	}
	for _, why := range b.configured() {
		b.open(why)
	}
}

// rootSays is what stands in the way in the root manifest, read once.
func (b *planner) rootSays() []string {
	if b.configs == nil {
		b.configs = map[string][]string{}
	}
	if why, known := b.configs[""]; known {
		return why
	}
	out := []string{}
	if root := b.byPath[b.RootManifest]; root != nil {
		raw, err := decode(root.text)
		if err != nil {
			out = append(out, root.Manifest+": "+err.Error())
		}
		for _, key := range []string{"patch", "replace", "cargo-features"} {
			if raw[key] != nil {
				out = append(out, fmt.Sprintf("%s has [%s]", root.Manifest, key))
			}
		}
		if pkg := table(raw, "package", "project"); pkg != nil && table(raw, "workspace") != nil && str(pkg["resolver"]) == "" && str(table(raw, "workspace")["resolver"]) == "" {
			if _, inherited := pkg["edition"].(map[string]any); inherited { // the resolver follows the edition of the root package
				out = append(out, root.Manifest+" inherits its edition and names no resolver")
			}
		}
	}
	b.configs[""] = out
	return out
}

// configured says what in cargo's configuration stands in the way, once for each directory.
func (b *planner) configured() []string {
	if b.configs == nil {
		b.configs = map[string][]string{}
	}
	if why, known := b.configs[b.root.Dir]; known {
		return why
	}
	h, out := b.host, []string{}
	for _, path := range b.configFiles() {
		data, err := h.ReadFile(path, manifestLimit)
		if err != nil {
			continue // it is not there; one that cannot be read is cargo's own error
		}
		raw := map[string]any{}
		if _, err := toml.Decode(string(data), &raw); err != nil {
			out = append(out, path+" cannot be read")
			continue
		}
		for _, key := range []string{"patch", "paths", "unstable", "resolver", "source", "include"} {
			if raw[key] != nil {
				out = append(out, fmt.Sprintf("%s has `%s`", path, key))
			}
		}
		if build := table(raw, "build"); build["target"] != nil {
			out = append(out, path+" has build.target")
		}
	}
	b.configs[b.root.Dir] = out
	return out
}

// configFiles lists the places in which cargo looks for its configuration.
func (b *planner) configFiles() []string {
	h := b.host
	var out []string
	for _, start := range []string{h.Cwd, b.root.Dir} {
		if start == "" {
			continue
		}
		for dir := h.Clean(start); ; dir = h.Dir(dir) {
			out = append(out, h.Join(dir, ".cargo", "config.toml"), h.Join(dir, ".cargo", "config"))
			if h.Dir(dir) == dir {
				break
			}
		}
	}
	home, ok := h.Env.Lookup("CARGO_HOME")
	if !ok || home == "" {
		home = h.Join(h.Home, ".cargo")
	}
	return mergeStrings(out, []string{h.Join(home, "config.toml"), h.Join(home, "config")})
}
