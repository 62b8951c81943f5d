package builddir

import (
	"sort"
	"strings"

	"gpubuild/buildenv"
)

// Words is what a build script printed for cargo when it last ran to its end.
type Words struct {
	Rules    []string // what goes into the crates that cargo makes, as printed, sorted
	Files    []string // rerun-if-changed
	Declares bool     // it named something to watch; otherwise cargo watches every file of the package
}

// Output reads what the script of an OUT_DIR printed; a script that failed leaves nothing, or what its last success printed. Nothing to
// read is an error that is fs.ErrNotExist.
func Output(h buildenv.Host, outDir string) (Words, error) {
	data, err := h.ReadFile(Printed(h, outDir), buildenv.Printed)
	if err != nil {
		return Words{}, err
	}
	return parseOutput(string(data)), nil
}

// parseOutput understands both forms of an instruction, cargo:KEY=VALUE and cargo::KEY=VALUE (cargo reference, "Build scripts").
func parseOutput(text string) Words {
	var w Words
	for _, line := range strings.Split(text, "\n") {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\r"), "cargo:")
		if !ok {
			continue
		}
		line = strings.TrimPrefix(line, ":")
		key, value, ok := strings.Cut(line, "=")
		if !ok || key == "warning" {
			continue
		}
		switch key {
		case "rerun-if-changed":
			w.Files = append(w.Files, value)
			w.Declares = true
		case "rerun-if-env-changed":
			w.Declares = true
		default:
			w.Rules = append(w.Rules, line)
		}
	}
	sort.Strings(w.Rules)
	return w
}
