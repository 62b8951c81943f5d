package inputs

import (
	"strings"

	"gpubuild/buildenv"
)

// StaticLibraries finds the files of the static libraries among what a script linked (cargo's linked_libs), by their names.
func StaticLibraries(h buildenv.Host, dirs, linked []string) map[string]string {
	out := map[string]string{}
	for _, l := range linked {
		kind, name, ok := strings.Cut(l, "=")
		if !ok || kind != "static" && !strings.HasPrefix(kind, "static:") {
			continue
		}
		name, _, _ = strings.Cut(name, ":") // name:rename
		for _, file := range []string{"lib" + name + ".a", name + ".lib", name} {
			if p := firstWith(h, dirs, file); p != "" {
				out[file] = p
				break
			}
		}
	}
	return out
}

func firstWith(h buildenv.Host, dirs []string, file string) string {
	for _, d := range dirs {
		if p := h.Join(d, file); h.IsFile(p) {
			return p
		}
	}
	return ""
}
