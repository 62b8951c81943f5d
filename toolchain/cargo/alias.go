package cargo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// Alias expands a user's [alias] as cargo does: `gpu = "run --features cuda"`, and one that beats the built-in b, c, d, r, t. Its answers
// take the place of Split's, since only now is it known which words belong to a program; without an alias they are the same. The expanded
// line is what is built; handing it to cargo does the same as the typed one. Verbs of cargo's own cannot be aliased. An error comes with
// the line that is wrong.
func Alias(h buildenv.Host, t Tool, l Line, own OwnFlags) (Line, []Own, error) {
	_, owns, err := Split(l.typed, own)
	if err != nil {
		return l, nil, err
	}
	var config config
	seen := map[string]bool{}
	for {
		w := l.VerbWord
		if _, verb := verbs[w]; w == "" || verb && w != "clippy" || strings.ContainsAny(w, ".\"'= \t") || cargoCommands[w] || seen[w] {
			return l, owns, nil // a circle is cargo's to report
		}
		if config == nil { // cargo 1.95 expands aliases before it reads --config (cli.rs, expand_aliases)
			config = slices.DeleteFunc(readConfig(h, t, l), func(l layer) bool { return l.cli })
		}
		expanded, from := config.joined("alias", w)
		if expanded == nil {
			return l, owns, nil
		}
		seen[w] = true
		args := slices.Concat(l.typed[:l.verbAt], expanded, l.typed[l.verbAt+1:])
		next, more, err := Split(args, own)
		if err != nil {
			return next, owns, fmt.Errorf("alias `%s` of cargo's configuration: %w", w, err)
		}
		// not their number: an alias that ends in -- takes the user's own ones away
		if at := slices.IndexFunc(more, func(o Own) bool { return !slices.Contains(owns, o) }); at >= 0 {
			if err := foreignAlias(h, t, l, from, w, more[at].Name); err != nil {
				return next, owns, err
			}
		}
		if next.VerbWord == "" {
			return l, owns, nil // an alias of flags only: cargo's to report
		}
		next.AliasConfig = l.AliasConfig || len(next.Config) > len(l.Config)
		l, owns = next, more
	}
}

// foreignAlias returns an error if an alias that brings a flag of ours is the repository's, or in part: it could start a download, agree to
// the repository's own tools or write a file, with a command line that shows none of it. from are its layers.
func foreignAlias(h buildenv.Host, t Tool, l Line, from config, name, flag string) error {
	cwd := l.cwd(h, t)
	project := h.Dir(h.From(cwd, cmp.Or(l.ManifestPath, buildenv.ManifestFile)))
	for _, is := range from {
		if is.origin != "" && !UsersConfig(h, t, is.origin, cwd, project) {
			return exit.Errorf(exit.Config, "remove the flag and give it on the command line, or define the alias in your own "+
				"configuration (CARGO_HOME, outside of the repository)",
				"%s: the alias `%s` has %s: a repository may not give flags to gpubuild", is.origin, name, flag)
		}
	}
	return nil
}

// UsersConfig reports whether a configuration file is the user's own: below CARGO_HOME, and not in the repository around one of these
// directories, where CI often puts CARGO_HOME. What cargo unpacked there is not the user's either.
func UsersConfig(h buildenv.Host, t Tool, path string, projects ...string) bool {
	home, path := Home(h, t), h.Real(path)
	return h.Below(path, home) && !h.Below(path, h.Join(home, "registry")) && !h.Below(path, h.Join(home, "git")) &&
		!slices.ContainsFunc(projects, func(dir string) bool { return h.Below(path, h.Checkout(h.Real(dir))) })
}

// Home is CARGO_HOME, without links.
func Home(h buildenv.Host, t Tool) string {
	return h.Real(h.Abs(cmp.Or(t.Env.Get("CARGO_HOME"), h.Join(h.Home, ".cargo"))))
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
	"info": true, "init": true, "locate-project": true, "login": true, "logout": true,
	"new": true, "owner": true, "package": true, "pkgid": true, "publish": true, "read-manifest": true,
	"remove": true, "report": true, "search": true, "uninstall": true, "update": true, "vendor": true,
	"verify-project": true, "version": true, "yank": true,
}
