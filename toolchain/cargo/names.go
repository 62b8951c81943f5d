package cargo

import (
	"maps"
	"slices"
)

// Name is one of cargo's flags as a shell completes it.
type Name struct {
	Long  string // without hyphens; empty for a flag that has a short form only
	Short byte   // 0: none
	Value bool   // a value follows; see Attached
	// Attached says that the value may be left out, and else follows an equals sign.
	Attached bool
}

// narrow names the verbs that know a flag of buildFlags; the others are known to all that build. Cargo 1.95's own help says so.
var narrow = map[string][]string{
	"doc": {"test", "clean"}, "no-run": {"test", "bench"}, "no-fail-fast": {"test", "bench"},
	"print": {"rustc"}, "crate-type": {"rustc"}, "output-format": {"rustdoc"},
	"open": {"doc", "rustdoc"}, "no-deps": {"doc", "metadata"}, "document-private-items": {"doc"},
	"edition": {"fix"}, "edition-idioms": {"fix"}, "broken-code": {"fix"},
	"allow-no-vcs": {"fix"}, "allow-dirty": {"fix"}, "allow-staged": {"fix"},
	// deprecated, or of nightly cargo only
	"all": {}, "out-dir": {}, "artifact-dir": {}, "unit-graph": {}, "build-plan": {},
	"compile-time-deps": {}, "lockfile-path": {}, "no-indent": {}, "prefix-depth": {},
	"keep-going": {"build", "check", "run", "doc", "fix", "rustc", "rustdoc", "clippy"},
}

// lacking names flags of buildFlags that a verb does not know although it builds.
var lacking = map[string][]string{
	"run": {
		"workspace", "exclude", "lib", "bins", "examples", "tests", "test", "benches", "bench", "all-targets",
		"future-incompat-report",
	},
	"doc":     {"tests", "test", "benches", "bench", "all-targets", "future-incompat-report"},
	"rustc":   {"workspace", "exclude"},
	"bench":   {"release", "future-incompat-report"},
	"rustdoc": {"workspace", "exclude", "future-incompat-report"},
	"fix":     {"future-incompat-report"},
	"clippy":  {},
}

// Names lists the flags that a verb of cargo knows, for completion and the manual: those of the splitter's own table. Verbs that the
// splitter passes on unread have the global ones only.
func Names(verb string) []Name {
	if long, ok := builtinAliases[verb]; ok {
		verb = long
	}
	var out []Name
	add := func(list []flagSpec) {
		for _, f := range list {
			if only, limited := narrow[f.long]; limited && !slices.Contains(only, verb) || slices.Contains(lacking[verb], f.long) {
				continue
			}
			out = append(out, Name{f.long, f.short, f.arity != none, f.arity == attached})
		}
	}
	add(globalFlags)
	if spec, ok := verbs[verb]; ok {
		switch verb {
		case "clean", "tree", "metadata":
			add(selectionOf(verb))
		default:
			add(buildFlags)
		}
		add(spec.flags)
	}
	if verb == "" {
		add(topFlags)
	}
	return out
}

// selectionOf is the part of buildFlags that a verb knows which builds nothing.
func selectionOf(verb string) []flagSpec {
	known := map[string][]string{
		"clean":    {"package", "workspace", "doc", "release", "profile", "target", "target-dir", "manifest-path"},
		"tree":     {"package", "workspace", "exclude", "features", "all-features", "no-default-features", "target", "manifest-path"},
		"metadata": {"features", "all-features", "no-default-features", "no-deps", "manifest-path"},
	}[verb]
	var out []flagSpec
	for _, f := range buildFlags {
		if slices.Contains(known, f.long) {
			out = append(out, f)
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
