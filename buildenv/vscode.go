package buildenv

import (
	"encoding/json"
	"maps"
	"strings"
)

// Selected are the features of a command line, for an editor.
type Selected struct {
	Features       []string // as --features takes them
	All, NoDefault bool
	Editor         bool // the settings are for rust-analyzer alone: a build in the terminal must not take them
}

// Settings adds to VS Code's settings what rust-analyzer checks: the same features as the command line ("rust-analyzer configuration").
func (s Selected) Settings(settings string) (string, error) {
	var out map[string]any
	if err := json.Unmarshal([]byte(settings), &out); err != nil {
		return "", err
	}
	names := strings.FieldsFunc(strings.Join(s.Features, ","), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case s.All:
		out["rust-analyzer.cargo.features"] = "all"
	case len(names) > 0:
		out["rust-analyzer.cargo.features"] = names
	}
	if s.NoDefault {
		out["rust-analyzer.cargo.noDefaultFeatures"] = true
	}
	if s.Editor {
		maps.DeleteFunc(out, func(name string, _ any) bool { return strings.HasPrefix(name, "terminal.") })
	}
	return indented(out)
}
