package builddir

import (
	"errors"
	"io/fs"
	"strings"

	"gpubuild/buildenv"
)

// Words is what a build script told cargo when it last ran, as far as cargo
// repeats it to nobody: its messages have no watched variables.
type Words struct {
	Cfgs     []string          // rustc-cfg
	Env      map[string]string // rustc-env
	Searched []string          // rustc-link-search, without the kind, in the script's order
	Linked   []string          // rustc-link-lib
	Watched  []string          // rerun-if-env-changed
}

// outputLimit is far above what scripts print; bindgen's warnings can take megabytes.
const outputLimit = 64 << 20

// Output reads what the script of an OUT_DIR printed. The file is output beside out (layouts up to 1.99) or run/stdout (1.100); a
// script that failed leaves none, or the one of its last success. Nothing to read is an error that is fs.ErrNotExist.
func Output(h buildenv.Host, outDir string) (Words, error) {
	unit := h.Dir(outDir)
	data, err := h.ReadFile(h.Join(unit, "run", "stdout"), outputLimit)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = h.ReadFile(h.Join(unit, "output"), outputLimit)
	}
	if err != nil {
		return Words{}, err
	}
	return parseOutput(string(data)), nil
}

// parseOutput understands both forms of an instruction, cargo:KEY=VALUE and cargo::KEY=VALUE (cargo reference, "Build scripts").
func parseOutput(text string) Words {
	w := Words{Env: map[string]string{}}
	for _, line := range strings.Split(text, "\n") {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\r"), "cargo:")
		if !ok {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimPrefix(line, ":"), "=")
		if !ok {
			continue
		}
		switch key {
		case "rustc-cfg":
			w.Cfgs = append(w.Cfgs, value)
		case "rustc-env":
			if name, v, ok := strings.Cut(value, "="); ok {
				w.Env[name] = v
			}
		case "rustc-link-search":
			w.Searched = append(w.Searched, searchedDir(value))
		case "rustc-link-lib":
			w.Linked = append(w.Linked, value)
		case "rerun-if-env-changed":
			w.Watched = append(w.Watched, value)
		}
	}
	return w
}

// searchedDir takes the kind off a link-search value, "native=/x/lib". A path may hold the sign itself.
func searchedDir(value string) string {
	kind, dir, ok := strings.Cut(value, "=")
	switch kind {
	case "dependency", "crate", "native", "framework", "all":
		if ok {
			return dir
		}
	}
	return value
}
