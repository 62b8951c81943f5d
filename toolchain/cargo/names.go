package cargo

import (
	"maps"
	"slices"
	"strings"
)

// Name is one of cargo's flags as a shell completes it.
type Name struct {
	Long  string // without hyphens; empty for a flag that has a short form only
	Short byte   // 0: none
	Value bool   // a value follows; see Attached
	// Attached says that the value may be left out, and else follows an equals sign.
	Attached bool
}

// knownBy says which verbs know a flag of buildFlags, where that is not every verb that builds: "fix": only fix, "-run": not run, "+tree":
// tree as well, which builds nothing, and "nightly": no verb of a stable cargo, or deprecated. Cargo 1.95's own help says so.
var knownBy = map[string]string{
	"package": "+clean +tree", "workspace": "-run -rustc -rustdoc +clean +tree", "exclude": "-run -rustc -rustdoc +tree",
	"lib": "-run", "bins": "-run", "examples": "-run", "tests": "-run -doc", "test": "-run -doc", "benches": "-run -doc",
	"bench": "-run -doc", "all-targets": "-run -doc", "future-incompat-report": "-run -doc -bench -rustdoc -fix",
	"release": "-bench +clean", "profile": "+clean", "target": "+clean +tree", "target-dir": "+clean",
	"manifest-path": "+clean +tree +metadata", "keep-going": "-test -bench",
	"features": "+tree +metadata", "all-features": "+tree +metadata", "no-default-features": "+tree +metadata",
	"doc": "test +clean", "no-run": "test bench", "no-fail-fast": "test bench", "print": "rustc", "crate-type": "rustc",
	"output-format": "rustdoc", "open": "doc rustdoc", "no-deps": "doc +metadata", "document-private-items": "doc",
	"edition": "fix", "edition-idioms": "fix", "broken-code": "fix", "allow-no-vcs": "fix", "allow-dirty": "fix", "allow-staged": "fix",
	"all": "nightly", "out-dir": "nightly", "artifact-dir": "nightly", "unit-graph": "nightly", "build-plan": "nightly",
	"compile-time-deps": "nightly", "lockfile-path": "nightly", "no-indent": "nightly", "prefix-depth": "nightly",
}

// knows reports whether a verb knows a flag of buildFlags.
func knows(verb, flag string) bool {
	known := verb != "clean" && verb != "tree" && verb != "metadata" && verb != "install"
	for _, w := range strings.Fields(knownBy[flag]) {
		switch {
		case strings.TrimPrefix(w, "+") == verb:
			return true
		case w == "-"+verb:
			return false
		case w[0] != '+' && w[0] != '-':
			known = false
		}
	}
	return known
}

// Names lists the flags that a verb of cargo knows, for completion and the manual: those of the splitter's own table. Verbs that the
// splitter passes on unread have the global ones only.
func Names(verb string) []Name {
	verb = Canonical(verb)
	var out []Name
	add := func(f flagSpec) { out = append(out, Name{f.long, f.short, f.arity != none, f.arity == attached}) }
	for _, f := range globalFlags {
		add(f)
	}
	if spec, ok := verbs[verb]; ok {
		for _, f := range buildFlags {
			if knows(verb, f.long) {
				add(f)
			}
		}
		for _, f := range spec.flags {
			if knownBy[f.long] != "nightly" {
				add(f)
			}
		}
	}
	if verb == "" {
		for _, f := range topFlags {
			add(f)
		}
	}
	return out
}

// VerbNames lists cargo's verbs that are worth completing, its aliases left out.
func VerbNames() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq([]string{
		"add", "fetch", "fmt", "info", "init", "install", "new", "package", "publish", "remove", "report",
		"search", "uninstall", "update", "vendor",
	}, maps.Keys(verbs))))
}

// Aliases are cargo's own short names of a verb.
func Aliases(verb string) (out []string) {
	for short, long := range builtinAliases {
		if long == verb {
			out = append(out, short)
		}
	}
	return out
}
