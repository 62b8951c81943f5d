package buildenv

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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

// gitlab writes a dotenv report: NAME=value to the end of the line, no quotes, no comments, no empty lines, blanks at the ends taken off,
// at most 5 KiB by default ("artifacts:reports:dotenv", GitLab documentation). GitLab expands $ in variables when a job starts.
func (x exporter) gitlab() (string, error) {
	const limit = 5 << 10
	var b strings.Builder
	for _, v := range x.vars {
		if err := x.plain(v); err != nil {
			return "", err
		}
		switch {
		case v.unset:
			return "", x.refuse(v, "a dotenv report cannot unset")
		case strings.ContainsAny(v.value, "\r\n"):
			return "", x.refuse(v, "a value ends with its line there")
		case strings.TrimSpace(v.value) != v.value:
			return "", x.refuse(v, "blanks at the ends of a value are taken off there")
		case v.value == "":
			return "", x.refuse(v, "an empty value is not read alike by all versions")
		case strings.Contains(v.value, "$"):
			return "", x.refuse(v, "a $ would be taken for a variable")
		}
		fmt.Fprintf(&b, "%s=%s\n", v.name, v.value)
		if b.Len() > limit {
			return "", x.refuse(v, fmt.Sprintf("a dotenv report holds at most %d bytes", limit))
		}
	}
	return b.String(), nil
}

// dotenv writes what shells, Node's, Ruby's and Python's dotenv and Docker Compose read alike: bare where nothing is special, so that
// docker --env-file, which knows no quotes, reads it as well; else between single quotes, where they differ only about \\ and \' and
// ${…}, which python-dotenv replaces in there, too. Directories of Windows that end in \ or begin with \\ stand bare with their blanks:
// shells, which would split them, read no .env there.
func (x exporter) dotenv(v outcome) (string, error) {
	bare := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_./:@%+,-", r)
	}
	special := strings.IndexFunc(v.value, func(r rune) bool { return !bare(r) }) >= 0
	switch {
	case v.unset:
		return "", x.refuse(v, "a .env file cannot unset")
	case v.value == "" || !special:
		return fmt.Sprintf("%s=%s\n", v.name, v.value), nil
	case strings.ContainsAny(v.value, "\r\n"):
		return "", x.refuse(v, "not every reader takes a value of more than one line")
	case strings.Contains(v.value, "${"):
		return "", x.refuse(v, "python-dotenv replaces its ${…} between any quotes")
	case !strings.Contains(v.value, "'") && !strings.Contains(v.value, `\\`) && !strings.HasSuffix(v.value, `\`):
		return fmt.Sprintf("%s='%s'\n", v.name, v.value), nil
	case x.host.OS == Windows && !strings.ContainsAny(v.value, "'\"`$#") && strings.TrimSpace(v.value) == v.value:
		return fmt.Sprintf("%s=%s\n", v.name, v.value), nil
	case !strings.ContainsAny(v.value, "\"\\$`!"):
		return fmt.Sprintf("%s=\"%s\"\n", v.name, v.value), nil
	}
	return "", x.refuse(v, "its quotes and backslashes are not read alike by all who read .env files")
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
			list := append(slices.Clone(v.before), "${env:"+v.name+"}")
			terminal[v.name] = x.host.JoinList(append(list, v.after...)...)
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
