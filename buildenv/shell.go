package buildenv

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// writers makes the text of each form. Every function is pure and refuses what its reader would take for something else.
func writers() map[string]func(exporter) (string, error) {
	return map[string]func(exporter) (string, error){
		"bash":         each(exporter.named, exporter.posix),
		"zsh":          each(exporter.named, exporter.posix),
		"fish":         each(exporter.plain, exporter.fish),
		"pwsh":         each(exporter.text, exporter.pwsh),
		"cmd":          exporter.cmd,
		"github":       each(exporter.text, exporter.github),
		"vscode":       exporter.vscode,
		"cargo-config": exporter.cargoConfig,
		"json":         exporter.json,
	}
}

// each makes a form that writes one variable after the other, if a check lets it.
func each(check func(exporter, outcome) error, write func(exporter, outcome) (string, error)) func(exporter) (string, error) {
	return func(x exporter) (string, error) {
		var b strings.Builder
		for _, v := range x.vars {
			if err := check(x, v); err != nil {
				return "", err
			}
			text, err := write(x, v)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
		}
		return b.String(), nil
	}
}

// Shells lists the forms that Export knows, sorted, and after them other names of some.
func Shells() []string { return append(slices.Sorted(maps.Keys(writers())), "powershell", "sh") }

// UsualShell is the shell that the user has, as far as the environment shows.
func UsualShell(h Host) string {
	inHome := func(dir string) bool { return h.Home != "" && h.Below(dir, h.Home) }
	switch {
	case h.OS == Windows && h.Env.Get("MSYSTEM") != "": // Git Bash, MSYS2
		return "bash"
	// PROMPT is set by cmd.exe, and inherited; PowerShell adds the user's own modules.
	case h.OS == Windows && h.Env.Get("PROMPT") != "" && !slices.ContainsFunc(h.SplitList(h.Env.Get("PSModulePath")), inHome):
		return "cmd"
	case h.OS == Windows:
		return "pwsh"
	}
	switch s := h.Base(h.Env.Get("SHELL")); s {
	case "zsh", "fish":
		return s
	}
	return "bash"
}

// Export writes a delta for a shell or a file that others read, so that reading it in the environment base gives h.Apply(base, d).
//
//	bash zsh fish pwsh cmd      text to be sourced; cmd's belongs into a .bat file
//	github                      lines for $GITHUB_ENV, PATH in full
//	vscode                      settings.json: rust-analyzer and the terminal
//	cargo-config                the [env] table of .cargo/config.toml
//	json                        the changes with their reasons, and the values
//
// Directories before a list are written relative to the variable where the form can do so and the result is the same, else the whole value
// is written. What a form cannot say is an *ExportError.
func Export(shell string, h Host, base Env, d Delta) (string, error) {
	if other := map[string]string{"powershell": "pwsh", "sh": "bash"}[shell]; other != "" { // the lines of bash are POSIX
		shell = other
	}
	write, ok := writers()[shell]
	if !ok {
		return "", fmt.Errorf("unknown shell %.200q", shell)
	}
	x := exporter{shell: shell, host: h, delta: d}
	for _, v := range outcomes(h, base, d) {
		if v.name == "" || strings.ContainsAny(v.name, "=\x00\n\r") {
			return "", x.refuse(v, "it is no name of a variable")
		}
		if v.unset && !v.was && fileForm(shell) {
			continue // a file that cannot unset need not
		}
		if strings.ContainsRune(v.value, 0) {
			return "", x.refuse(v, "it holds a NUL byte, which no environment can")
		}
		x.vars = append(x.vars, v)
	}
	return write(x)
}

func (h Host) sameName(a, b string) bool {
	return a == b || h.OS == Windows && strings.EqualFold(a, b)
}

func fileForm(shell string) bool {
	return slices.Contains([]string{"github", "cargo-config"}, shell)
}

// exporter is what a writer writes.
type exporter struct {
	shell string
	host  Host
	delta Delta
	vars  []outcome
}

// outcome is what a delta makes of one variable.
type outcome struct {
	name  string
	was   bool // it was set before
	unset bool
	value string // the whole of it
	// relative says that value is before and the old value, joined with the list separator.
	relative bool
	before   []string
}

func outcomes(h Host, base Env, d Delta) []outcome {
	result := h.Apply(base, d)
	var out []outcome
	for _, c := range d.Changes {
		if slices.ContainsFunc(out, func(o outcome) bool { return h.sameName(o.name, c.Name) }) {
			continue
		}
		v := outcome{name: c.Name, relative: true}
		value, ok := result.Lookup(c.Name)
		v.value, v.unset = value, !ok
		_, v.was = base.Lookup(c.Name)
		for _, c := range d.Changes {
			switch {
			case !h.sameName(c.Name, v.name):
			case c.Op == Prepend:
				v.before = append([]string{c.Value}, v.before...)
			default:
				v.relative = false
			}
		}
		list := slices.Clone(v.before)
		if old := base.Get(v.name); old != "" {
			list = append(list, old)
		}
		// A directory that was in the list already has moved: then only the whole value says so.
		v.relative = v.relative && h.JoinList(list...) == v.value
		out = append(out, v)
	}
	return out
}

// ExportError says which variable a form cannot say, and why.
type ExportError struct{ Shell, Name, Why string }

func (e *ExportError) Error() string {
	return fmt.Sprintf("%s cannot be written for %s: %s", e.Name, e.Shell, e.Why)
}

func (e *ExportError) Hint() string {
	return "use `gpubuild exec -- COMMAND`, which sets every variable itself, or another form"
}

func (x exporter) refuse(v outcome, why string) error {
	return &ExportError{Shell: x.shell, Name: v.name, Why: why}
}

// identifier reports whether a name is one that POSIX shells can set.
func identifier(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// plain checks what most forms need: a name that is an identifier, and text.
func (x exporter) plain(v outcome) error {
	if err := x.named(v); err != nil {
		return err
	}
	return x.text(v)
}

func (x exporter) named(v outcome) error {
	if !identifier(v.name) {
		return x.refuse(v, "only letters, digits and _ may stand in a name there")
	}
	return nil
}

func (x exporter) text(v outcome) error {
	if !utf8.ValidString(v.value) || !utf8.ValidString(v.name) {
		return x.refuse(v, "it is not UTF-8")
	}
	return nil
}

// inMSYS reports whether a POSIX shell on Windows holds the variable in its own form: PATH with / and :. Git Bash, MSYS2 and Cygwin give
// native programs the Windows form again ("Filesystem Paths", MSYS2).
func (x exporter) inMSYS(v outcome) bool {
	return x.host.OS == Windows && strings.EqualFold(v.name, "PATH")
}

func msys(dir string) string {
	dir = strings.ReplaceAll(dir, `\`, "/")
	if drive(dir) {
		return "/" + strings.ToLower(dir[:1]) + dir[2:]
	}
	return dir
}

// lists returns the variable's parts and separator as a POSIX shell holds them.
func (x exporter) lists(v outcome) (before []string, sep, whole, name string) {
	if !x.inMSYS(v) {
		return v.before, x.host.ListSeparator(), v.value, v.name
	}
	convert := func(in []string) (out []string) {
		for _, d := range in {
			out = append(out, msys(d))
		}
		return out
	}
	return convert(v.before), ":", strings.Join(convert(x.host.SplitList(v.value)), ":"), "PATH"
}

// posix writes for bash and zsh: nothing is special between single quotes, not even a newline.
func (x exporter) posix(v outcome) (string, error) {
	before, sep, whole, name := x.lists(v)
	switch {
	case v.unset:
		return fmt.Sprintf("unset %s\n", name), nil
	case !v.relative:
		return fmt.Sprintf("export %s=%s\n", name, PosixQuote(whole)), nil
	}
	// An empty entry at an end of a list is the current directory to most readers, so the separator comes with the old value alone.
	return fmt.Sprintf("export %s=%s\"${%s:+%s$%s}\"\n", name, PosixQuote(strings.Join(before, sep)), name, sep, name), nil
}

// fish writes for fish: between single quotes only \ and ' are escaped. A variable whose name ends in PATH is a list there, split and
// joined at colons ("PATH variables", fish documentation).
func (x exporter) fish(v outcome) (string, error) {
	before, sep, whole, name := x.lists(v)
	isList := strings.HasSuffix(name, "PATH") && sep == ":"
	switch {
	case v.unset:
		return fmt.Sprintf("set -q %s; and set -e %s; or true\n", name, name), nil
	case isList && v.relative && !strings.Contains(strings.Join(before, ""), ":"):
		words := ""
		for _, dir := range before {
			words += " " + fishQuote(dir)
		}
		// A list that is set to nothing is one empty directory there.
		return fmt.Sprintf("set -gx %s%s (string match -v '' -- $%s); or true\n", name, words, name), nil
	}
	return fmt.Sprintf("set -gx %s %s\n", name, fishQuote(whole)), nil
}
