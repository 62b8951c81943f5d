package cargo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
)

// configLimit is the size up to which a configuration file is looked through; cargo is asked about a larger one.
const configLimit = 1 << 20

// ConfigFiles lists the configuration files that cargo reads for a command line, strongest first, with those that they include; --config
// is left out.
// Cargo walks up from its current directory, which it knows without links; both spellings are looked at.
func ConfigFiles(h buildenv.Host, t Tool, l Line) []string {
	var out []string
	seen := map[string]bool{}
	look := func(dir string) {
		for _, name := range []string{"config.toml", "config"} {
			p := h.Join(dir, name)
			if h.IsFile(p) {
				out = append(out, withIncludes(h, p, seen)...)
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
	return out
}

// withIncludes is a configuration file and what it includes (cargo 1.94 and newer), strongest first.
func withIncludes(h buildenv.Host, path string, seen map[string]bool) []string {
	if seen[path] {
		return nil
	}
	seen[path] = true
	data, err := h.ReadFile(path, configLimit)
	if err != nil {
		return []string{path}
	}
	return append([]string{path}, includes(h, string(data), h.Dir(path), seen)...)
}

// includes are the files that a text of configuration includes: a path or a table with one, or a list of them. The last is the strongest.
func includes(h buildenv.Host, text, dir string, seen map[string]bool) (out []string) {
	var doc map[string]any
	if _, err := toml.Decode(text, &doc); err != nil {
		return nil // cargo's to report
	}
	list, isList := doc["include"].([]any)
	if tables, ok := doc["include"].([]map[string]any); ok {
		for _, table := range tables {
			list = append(list, table)
		}
	} else if !isList {
		list = []any{doc["include"]}
	}
	for _, one := range slices.Backward(list) {
		if table, ok := one.(map[string]any); ok {
			one = table["path"]
		}
		if file, ok := one.(string); ok {
			out = append(out, withIncludes(h, h.From(dir, file), seen)...)
		}
	}
	return out
}

// mayHold says whether cargo's configuration can have a key, and where it could be: a file that has neither the word nor a way to hide it
// (include, escapes) cannot. It spares most projects a question of 25 ms; cargo answers it where the word is found.
func mayHold(h buildenv.Host, t Tool, l Line, word, variable string) string {
	suspicious := func(text []byte) bool {
		return slices.ContainsFunc([]string{word, "include", `\u`, `\U`, `\x`}, func(w string) bool {
			return bytes.Contains(text, []byte(w))
		})
	}
	for _, c := range l.Config {
		if !strings.Contains(c, "=") || suspicious([]byte(c)) {
			return "--config " + c
		}
	}
	for _, p := range ConfigFiles(h, t, l) {
		if data, err := h.ReadFile(p, configLimit); err != nil || suspicious(data) {
			return p
		}
	}
	if variable != "" {
		for _, n := range t.Env.Names() {
			if strings.HasPrefix(strings.ToUpper(n), variable) {
				return n
			}
		}
	}
	return ""
}

// unstable says why the unit graph must not be asked for, empty when it may be, and whether unstable settings are in force anyway: on a
// nightly cargo they belong to the build, and the question must have them too.
func unstable(ctx context.Context, h buildenv.Host, run runner, t Tool, l Line) (reason string, nightly bool, err error) {
	where := mayHold(h, t, l, "unstable", "")
	if where == "" && len(t.unstableVars()) == 0 {
		return "", false, nil
	}
	if t.Env.Get("RUSTC_BOOTSTRAP") == "1" {
		return "", true, nil
	}
	if res, err := ask(ctx, run, Version(t, l), Request{}); err == nil {
		if v, _ := ParseVersion(res.Stdout); v.Nightly() {
			return "", true, nil
		}
	}
	if where == "" {
		return "", false, nil // variables are taken out of the question's environment
	}
	value, set, err := configValue(ctx, run, UnstableConfig(t, l))
	if err != nil {
		if _, ok := errors.AsType[*RefusedError](err); ok {
			return "this cargo does not say whether its configuration has [unstable] settings", false, nil
		}
		return "", false, err
	}
	if set {
		return fmt.Sprintf("cargo's configuration has [unstable] settings (%.80s) that the unit graph would wake", value), false, nil
	}
	return "", false, nil
}

// configValue runs a configGet with JSON; unset is no error.
func configValue(ctx context.Context, run runner, c buildenv.Cmd) ([]byte, bool, error) {
	res, err := ask(ctx, run, c, Request{})
	if err == nil {
		return bytes.TrimSpace(res.Stdout), true, nil
	}
	var refused *RefusedError
	if errors.As(err, &refused) && strings.Contains(stripANSI(string(refused.Stderr)), "is not set") {
		return nil, false, nil
	}
	return nil, false, err
}

// Alias expands a user's [alias] as cargo does: `gpu = "run --features cuda"`, and one that beats the built-in b, c, d, r, t. Its answers
// take the place of Split's, since only now is it known which words belong to a program; without an alias they are the same. The expanded
// line is what is built; handing it to cargo does the same as the typed one. Verbs of cargo's own cannot be aliased.
func Alias(ctx context.Context, h buildenv.Host, run runner, t Tool, l Line, own OwnFlags) (Line, []Own, error) {
	_, owns, err := Split(l.typed, own)
	if err != nil {
		return l, nil, err
	}
	seen := map[string]bool{}
	for {
		words, err := alias(ctx, h, run, t, l)
		if err != nil || words == nil {
			return l, owns, err
		}
		if seen[l.VerbWord] {
			return l, owns, nil // a circle: cargo's to report
		}
		seen[l.VerbWord] = true
		args := slices.Concat(l.typed[:l.verbAt], words, l.typed[l.verbAt+1:])
		next, more, err := Split(args, own)
		if err != nil {
			return l, owns, fmt.Errorf("alias `%s` of cargo's configuration: %w", l.VerbWord, err)
		}
		if len(more) > len(owns) {
			if err := foreignAlias(h, t, l); err != nil {
				return l, owns, err
			}
		}
		if next.VerbWord == "" {
			return l, owns, nil // an alias of flags only: cargo's to report
		}
		next.AliasConfig = l.AliasConfig || len(next.Config) > len(l.Config)
		l, owns = next, more
	}
}

// UsersConfig reports whether a configuration file is the user's own, below CARGO_HOME, and not of a repository. What cargo unpacked there
// is not the user's.
func UsersConfig(h buildenv.Host, t Tool, path string) bool {
	home, path := Home(h, t), h.Real(path)
	return h.Below(path, home) && !h.Below(path, h.Join(home, "registry")) && !h.Below(path, h.Join(home, "git"))
}

// Home is CARGO_HOME, without links.
func Home(h buildenv.Host, t Tool) string {
	return h.Real(h.Abs(cmp.Or(t.Env.Get("CARGO_HOME"), h.Join(h.Home, ".cargo"))))
}

// foreignAlias returns an *AliasError if a file of the repository gives this command line a flag of ours.
func foreignAlias(h buildenv.Host, t Tool, l Line) error {
	for _, path := range ConfigFiles(h, t, l) {
		if UsersConfig(h, t, path) {
			continue
		}
		data, err := h.ReadFile(path, configLimit)
		if err != nil {
			return &AliasError{Path: path, Alias: l.VerbWord} // cargo was asked, and it may be this file that has the alias
		}
		var doc struct {
			Alias map[string]any `toml:"alias"`
		}
		if _, err := toml.Decode(string(data), &doc); err != nil {
			continue // cargo's to report
		}
		for _, w := range strings.Fields(fmt.Sprint(doc.Alias[l.VerbWord])) {
			if flag, _, _ := strings.Cut(strings.Trim(w, "[]"), "="); strings.HasPrefix(flag, ownPrefix) {
				at := 0
				key := `(?m)^\s*(alias\.)?["']?` + regexp.QuoteMeta(l.VerbWord) + `["']?\s*=`
				if key := regexp.MustCompile(key).FindIndex(data); key != nil {
					at = key[1]
				}
				line := 1 + bytes.Count(data[:at+max(0, bytes.Index(data[at:], []byte(flag)))], []byte("\n"))
				return &AliasError{Path: fmt.Sprintf("%s:%d", path, line), Alias: l.VerbWord, Flag: flag}
			}
		}
	}
	return nil
}

func alias(ctx context.Context, h buildenv.Host, run runner, t Tool, l Line) ([]string, error) {
	w := l.VerbWord
	if _, verb := verbs[w]; w == "" || verb && w != "clippy" || strings.ContainsAny(w, ".\"'= \t") || cargoCommands[w] {
		return nil, nil
	}
	variable := "CARGO_ALIAS_" + strings.ToUpper(strings.ReplaceAll(w, "-", "_"))
	if mayHold(h, t, l, "alias", variable) == "" {
		return nil, nil
	}
	value, set, err := configValue(ctx, run, configGet(t, l, "alias."+w, true))
	if err != nil {
		if _, ok := errors.AsType[*RefusedError](err); ok {
			return nil, nil // a configuration that cargo cannot read is reported by the call that follows
		}
		return nil, err
	}
	if !set {
		return nil, nil
	}
	var list []string
	if json.Unmarshal(value, &list) == nil {
		return list, nil
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return strings.Fields(text), nil
	}
	return nil, nil
}

// Plugin reports whether there is a cargo-X for a command, where cargo looks for one.
func Plugin(h buildenv.Host, t Tool, command string) bool {
	h.Env = t.Env
	_, err := h.LookPath("cargo-" + command)
	return err == nil || h.ProgramIn(h.Join(Home(h, t), "bin"), "cargo-"+command) != ""
}

// OwnCommands lists the commands that come with cargo, without asking it.
func OwnCommands() []string {
	return slices.Concat(slices.Collect(maps.Keys(verbs)), slices.Collect(maps.Keys(cargoCommands)))
}

// cargoCommands are the commands of cargo 1.95 itself that verbs does not have: no alias can take their place.
var cargoCommands = map[string]bool{
	"add": true, "config": true, "fetch": true, "generate-lockfile": true, "git-checkout": true, "help": true,
	"info": true, "init": true, "install": true, "locate-project": true, "login": true, "logout": true,
	"new": true, "owner": true, "package": true, "pkgid": true, "publish": true, "read-manifest": true,
	"remove": true, "report": true, "search": true, "uninstall": true, "update": true, "vendor": true,
	"verify-project": true, "version": true, "yank": true,
}
