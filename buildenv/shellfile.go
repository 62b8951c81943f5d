package buildenv

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// github writes for the file $GITHUB_ENV: NAME<<DELIMITER, the value, DELIMITER ("Multiline strings", GitHub's workflow commands). The
// file has no comments and cannot unset. PATH stands in full: the runner puts what $GITHUB_PATH holds before it.
func (x exporter) github(v outcome) (string, error) {
	up := strings.ToUpper(v.name)
	switch {
	case v.unset:
		return "", x.refuse(v, "a step cannot unset a variable for the steps after it")
	case up == "NODE_OPTIONS" || strings.HasPrefix(up, "GITHUB_") || strings.HasPrefix(up, "RUNNER_"):
		return "", x.refuse(v, "GitHub keeps that variable for itself")
	case strings.Contains(v.name, "<<"):
		return "", x.refuse(v, "<< ends a name there")
	case strings.Contains(v.value, "\r"):
		return "", x.refuse(v, "a carriage return ends a line there")
	}
	end := "GPUBUILD_END"
	// No value may end its own block and begin another variable (the fault of CVE-2020-15228).
	for n := 1; slices.Contains(strings.Split(v.value, "\n"), end); n++ {
		end = fmt.Sprintf("GPUBUILD_END_%d", n)
	}
	return fmt.Sprintf("%s<<%s\n%s\n%s\n", v.name, end, v.value, end), nil
}

// vscode writes settings: what rust-analyzer gives cargo, and what the terminal gets; null unsets in both ("rust-analyzer configuration",
// "Terminal Basics", VS Code documentation). ${…} is replaced in both, so that it cannot stand in a value.
func (x exporter) vscode() (string, error) {
	values := map[string]any{}
	terminal := map[string]any{}
	for _, v := range x.vars {
		if err := x.text(v); err != nil {
			return "", err
		}
		if strings.Contains(v.value, "${") {
			return "", x.refuse(v, "VS Code would replace its ${…}")
		}
		if v.unset {
			values[v.name], terminal[v.name] = nil, nil
			continue
		}
		values[v.name], terminal[v.name] = v.value, v.value
		if v.relative && x.oldEnds(v) {
			terminal[v.name] = x.host.JoinList(append(slices.Clone(v.before), "${env:"+v.name+"}")...)
		}
	}
	system := cmp.Or(map[string]string{Windows: "windows", Darwin: "osx"}[x.host.OS], "linux")
	return indented(map[string]any{
		"rust-analyzer.cargo.extraEnv":      values,
		"terminal.integrated.env." + system: terminal,
	})
}

// cargoConfig writes the [env] table of .cargo/config.toml. cargo sets it for rustc, build scripts and what it runs, and does not look
// for programs by it itself; it refuses three names there ("[env]", The Cargo Book).
func (x exporter) cargoConfig() (string, error) {
	lines, err := each(exporter.text, func(x exporter, v outcome) (string, error) {
		name := v.name
		switch {
		case name == "CARGO_HOME", name == "RUSTUP_HOME", name == "RUSTUP_TOOLCHAIN":
			return "", x.refuse(v, "cargo does not let [env] set it")
		case v.unset:
			return "", x.refuse(v, "[env] cannot unset")
		case !identifier(name):
			name = TOMLString(name)
		}
		return fmt.Sprintf("%s = { value = %s, force = true }\n", name, TOMLString(v.value)), nil
	})(x)
	if err != nil {
		return "", err
	}
	return "[env]\n" + lines, nil
}

// json writes the changes with their reasons, and what becomes of each variable; null is unset.
func (x exporter) json() (string, error) {
	values := map[string]*string{}
	for _, v := range x.vars {
		if err := x.text(v); err != nil {
			return "", err
		}
		if values[v.name] = nil; !v.unset {
			values[v.name] = &v.value
		}
	}
	changes := x.delta.Changes
	if changes == nil {
		changes = []Change{}
	}
	return indented(struct {
		Changes   []Change           `json:"changes"`
		Variables map[string]*string `json:"variables"`
	}{changes, values})
}

func indented(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return b.String(), nil
}

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
