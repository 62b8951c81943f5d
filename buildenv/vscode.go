package buildenv

import (
	"encoding/json"
	"strings"
)

// Selected are the features of a command line, for an editor.
type Selected struct {
	Features       []string // as --features takes them
	All, NoDefault bool
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
	return indented(out)
}

// Tasks is VS Code's tasks.json: a build by gpubuild, whose own findings and rustc's become problems ("Tasks", defining a problem matcher).
func (s Selected) Tasks() (string, error) {
	args := []string{"build"}
	for _, f := range s.Features {
		args = append(args, "--features="+f)
	}
	if s.All {
		args = append(args, "--all-features")
	}
	if s.NoDefault {
		args = append(args, "--no-default-features")
	}
	type object map[string]any
	return indented(object{"version": "2.0.0", "tasks": []object{{
		"label": "gpubuild build", "type": "process", "command": "gpubuild", "args": args,
		"group": object{"kind": "build", "isDefault": true},
		"problemMatcher": []any{"$rustc", object{
			"owner": "gpubuild", "fileLocation": []string{"autoDetect", "${workspaceFolder}"},
			"pattern": []object{
				{"regexp": `^(error|warning|note): (.*)$`, "severity": 1, "message": 2},
				{"regexp": `^\s+--> (.+):(\d+)$`, "file": 1, "line": 2},
			},
		}},
	}}})
}
