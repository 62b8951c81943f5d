package cargo

// arity says how many words a flag takes, in clap's terms.
type arity int

const (
	none     arity = iota // a switch
	one                   // --flag v, --flag=v, -fv, -f=v
	maybe                 // as one, but the value may be left out: clap's num_args(0..=1)
	attached              // --flag or --flag=v only: clap's require_equals
	hyphen                // as one, and the value may begin with a hyphen: clap's allow_hyphen_values
)

// flagSpec is one of cargo's flags.
type flagSpec struct {
	long  string // without hyphens; empty for a flag that has a short form only
	short byte   // 0: none
	arity arity
}

// name is how a Flag is called after parsing: the long form where there is one.
func (s flagSpec) name() string {
	if s.long != "" {
		return "--" + s.long
	}
	return "-" + string(s.short)
}

// globalFlags are what may stand before the verb, and after it too (cargo's src/bin/cargo/cli.rs, 1.95).
var globalFlags = []flagSpec{
	{"verbose", 'v', none}, {"quiet", 'q', none}, {"color", 0, one}, {"config", 0, one}, {"", 'Z', one},
	{"locked", 0, none}, {"offline", 0, none}, {"frozen", 0, none}, {"help", 'h', none},
}

// topFlags may stand before the verb only.
var topFlags = []flagSpec{{"", 'C', one}, {"version", 'V', none}, {"list", 0, none}, {"explain", 0, one}}

// buildFlags are those of build, check, run, test, bench, rustc, rustdoc, doc, fix and (through check) clippy. One verb does not know all
// of them; cargo says so itself. None of them means two things on two of these verbs.
var buildFlags = []flagSpec{
	{"package", 'p', maybe}, {"workspace", 0, none}, {"all", 0, none}, {"exclude", 0, one},
	{"lib", 0, none}, {"bins", 0, none}, {"bin", 0, maybe}, {"examples", 0, none}, {"example", 0, maybe},
	{"tests", 0, none}, {"test", 0, maybe}, {"benches", 0, none}, {"bench", 0, maybe}, {"all-targets", 0, none}, {"doc", 0, none},
	{"features", 'F', one}, {"all-features", 0, none}, {"no-default-features", 0, none},
	{"release", 'r', none}, {"profile", 0, one}, {"jobs", 'j', hyphen}, {"keep-going", 0, none}, {"target", 0, maybe},
	{"target-dir", 0, one}, {"artifact-dir", 0, one}, {"out-dir", 0, one}, {"unit-graph", 0, none}, {"build-plan", 0, none},
	{"timings", 0, attached}, {"manifest-path", 0, one}, {"lockfile-path", 0, one}, {"ignore-rust-version", 0, none},
	{"message-format", 0, one}, {"future-incompat-report", 0, none}, {"compile-time-deps", 0, none},
	{"no-run", 0, none}, {"no-fail-fast", 0, none},
	{"print", 0, one}, {"crate-type", 0, one}, {"output-format", 0, one},
	{"open", 0, none}, {"no-deps", 0, none}, {"document-private-items", 0, none},
	{"edition", 0, none}, {"edition-idioms", 0, none}, {"broken-code", 0, none},
	{"allow-no-vcs", 0, none}, {"allow-dirty", 0, none}, {"allow-staged", 0, none},
}

var clippyFlags = []flagSpec{{"fix", 0, none}, {"explain", 0, maybe}, {"version", 'V', none}}

var cleanFlags = []flagSpec{{"dry-run", 'n', none}}

var treeFlags = []flagSpec{
	{"edges", 'e', one}, {"invert", 'i', maybe}, {"prune", 0, one}, {"depth", 0, one}, {"prefix", 0, one},
	{"no-dedupe", 0, none}, {"duplicates", 'd', none}, {"charset", 0, one}, {"format", 'f', one},
	{"no-indent", 0, none}, {"prefix-depth", 0, none}, {"", 'a', none},
}

var metadataFlags = []flagSpec{{"filter-platform", 0, one}, {"format-version", 0, one}}

// rest says what becomes of the words after a verb's first positional.
type rest int

const (
	restFlags rest = iota // flags may follow: cargo test NAME --release
	restWords             // clap's trailing_var_arg: everything from there on belongs to the program or to rustc
	restNone              // there is none: cargo refuses it
)

type verbSpec struct {
	flags []flagSpec
	rest  rest
}

var verbs = map[string]verbSpec{
	"build":    {nil, restNone},
	"check":    {nil, restNone},
	"test":     {nil, restFlags},
	"bench":    {nil, restFlags},
	"doc":      {nil, restNone},
	"fix":      {nil, restNone},
	"run":      {nil, restWords},
	"rustc":    {nil, restWords},
	"rustdoc":  {nil, restWords},
	"clippy":   {clippyFlags, restNone},
	"clean":    {cleanFlags, restNone},
	"tree":     {treeFlags, restNone},
	"metadata": {metadataFlags, restNone},
	"install":  {installFlags, restFlags},
}

// builtinAliases are cargo's own; a user's [alias] of the same name beats them, one named like a verb does not (measured).
var builtinAliases = map[string]string{"b": "build", "c": "check", "d": "doc", "r": "run", "t": "test"}

// grammar finds flags by name for one place of the command line.
type grammar struct {
	long  map[string]flagSpec
	short map[byte]flagSpec
}

// grammarOf joins tables; a later one wins.
func grammarOf(tables ...[]flagSpec) grammar {
	g := grammar{map[string]flagSpec{}, map[byte]flagSpec{}}
	for _, t := range tables {
		for _, f := range t {
			if f.long != "" {
				g.long[f.long] = f
			}
			if f.short != 0 {
				g.short[f.short] = f
			}
		}
	}
	return g
}

func verbGrammar(verb string) grammar { return grammarOf(globalFlags, buildFlags, verbs[verb].flags) }

// LeadingFlags counts the words at the beginning that are flags of `cargo build`, with their values.
func LeadingFlags(words []string) (n int) {
	g := verbGrammar("build")
	for n < len(words) && len(words[n]) > 1 && words[n][0] == '-' && words[n] != "--" {
		it, ok := g.parse(words[n:])
		if !ok {
			break
		}
		n += len(it.words)
	}
	return n
}
