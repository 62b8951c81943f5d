// Package cargo speaks cargo's language: it takes a command line apart exactly as cargo does, builds every cargo call that gpubuild makes
// as a value, and reads cargo's JSON messages.
//
// It decides which words belong to cargo and which to us, how a question about a build is put so that cargo answers for that very build,
// and how the question leaves the user's target directory and rustc's cache as they were. It never resolves features itself: cargo's unit
// graph does, and `cargo tree` where the graph is refused or unsafe.
//
// Limits: a flag that a later cargo adds passes untouched, but a value that follows it as a word of its own looks like a positional.
// Windows' and cargo's own files below target are read by nobody here; paths of messages are as cargo writes them.
//
// Facts about cargo carry the version they were observed with; "measured": with cargo 1.95.
package cargo

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
)

// Private is a directory of ours in which cargo may keep what it learns while it is only being asked: one for each workspace, kept
// between calls, so that a question changes nothing of what a build believes.
type Private struct {
	Root string
	Lock string // a Cargo.lock that cargo reads and writes in place of the workspace's (cargo 1.95); empty: none
}

// Dirs lists the directories to be made before the first call: cargo is 67 ms faster when they are there (measured).
func (p Private) Dirs(h buildenv.Host) []string {
	return []string{h.Join(p.Root, "graph", "target"), h.Join(p.Root, "graph", "build")}
}

// instead has a question use these directories. The variable alone loses against a --config of the user's; the last --config wins against
// files, variables and earlier ones (observed 1.95).
func (p Private) instead(h buildenv.Host, args []string, env buildenv.Env) ([]string, buildenv.Env) {
	dirs := p.Dirs(h)
	if p.Lock != "" {
		args, env = append(args, "-Zlockfile-path", "--config", "resolver.lockfile-path="+buildenv.TOMLString(p.Lock)), env.Set(channel, "nightly")
	}
	return append(args, "--config", "build.build-dir="+buildenv.TOMLString(dirs[1])),
		env.Set("CARGO_TARGET_DIR", dirs[0]).Set("CARGO_BUILD_BUILD_DIR", dirs[1])
}

// Asking is how questions are put, whatever they are.
type Asking struct {
	Private     Private
	Colour      bool // the user's stderr shows colours: cargo's own errors are to have them
	NoLockWrite bool // never write Cargo.lock: --locked, so that a missing or outdated one is cargo's error

	nightly bool // unstable settings are in force in the build itself, so they stay in force in the question
}

// selection are the flags by which a line chooses packages, features and targets; settings, those that say besides what cargo is to make
// of it, whatever the subcommand.
var (
	selection = []string{"--manifest-path", "--package", "--workspace", "--all", "--exclude", "--features", "--all-features",
		"--no-default-features", "--target", "--release", "--profile", "--lib", "--bins", "--bin", "--examples", "--example", "--tests",
		"--test", "--benches", "--bench", "--all-targets"}
	settings = []string{"--config", "-Z", "--locked", "--offline", "--frozen", "--lockfile-path"}
)

// channel makes a stable cargo take unstable flags, and changes nothing for rustc (cargo's core/features.rs, channel). RUSTC_BOOTSTRAP=1
// would have rustc take them, too: a -Z in a repository's rustflags can name a library that rustc loads.
const channel = "__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS"

// UnitGraph asks for cargo's own plan of the build, as a nightly cargo would; both private directories keep the user's own as
// they are. A `run` becomes a build, since `cargo run --unit-graph` prints the graph and then panics; it may so have roots that `run` would
// not build: the other binaries of a package with default-run. Program words are dropped, a test's name is kept: it changes what is built.
func UnitGraph(h buildenv.Host, t Tool, l Line, a Asking) (buildenv.Cmd, bool) {
	verb := l.Verb
	switch verb {
	case "run":
		verb = "build"
	case "clippy", "fix":
		verb = "check"
	case "build", "check", "test", "bench", "rustc", "doc", "rustdoc":
	default:
		return buildenv.Cmd{}, false
	}
	args := append(l.before(), verb, "--unit-graph", "-Zunstable-options")
	args = append(args, l.keep(slices.Concat(selection, settings, []string{"--doc", "--crate-type", "--ignore-rust-version", "--color",
		"--message-format", "--compile-time-deps", "--jobs", "--keep-going", "--no-fail-fast"})...)...)
	if verb == "doc" || verb == "rustdoc" {
		args = append(args, l.keep("--no-deps")...)
	}
	args = append(args, l.Unknown()...) // of a newer cargo's
	if (l.Verb == "fix" || l.Verb == "clippy" && l.Has("--fix")) && !l.HasTargets() {
		args = append(args, "--all-targets") // their own default
	}
	args, env := a.Private.instead(h, append(args, a.locked(l)...), a.env(t).Set(channel, "nightly"))
	if l.Purpose() == Tests {
		args = append(args, l.Positional...)
	}
	return t.cmd(env, args), true
}

// AsTree are the words of a `cargo tree` that shows what turns the features of a package on in this build.
func (l Line) AsTree(pkg string) []string {
	words := slices.Concat(l.before(), []string{"tree", "-e", "features", "-i", pkg}, l.keep("--manifest-path", "--package", "--exclude",
		"--features", "--all-features", "--no-default-features", "--target"))
	if l.Workspace {
		words = append(words, "--workspace") // `tree --all` means --no-dedupe
	}
	return words
}

// MetadataNoDeps asks where the build directories are, with configuration, variables and --config applied; --target-dir is applied by way
// of the variable that it beats, since metadata does not know the flag. Needs no lock file, no sources and no network.
func MetadataNoDeps(h buildenv.Host, t Tool, l Line) buildenv.Cmd {
	args := append(l.before(), "metadata", "--no-deps", "--format-version", "1")
	args = append(args, l.keep("--manifest-path", "--lockfile-path", "--config", "--offline", "-Z")...)
	env := t.question()
	if l.TargetDir != "" {
		env = env.Set("CARGO_TARGET_DIR", l.absolute(h, t, l.TargetDir))
	}
	return t.cmd(env, args)
}

// Metadata asks for the packages of a build: their features, dependencies and targets. Nothing is downloaded and no lock file is written;
// noDeps leaves out what is not of the workspace, for when that is not all on this machine. Cargo reads and writes what it knows of rustc,
// and does so in the private directory.
func Metadata(h buildenv.Host, t Tool, l Line, p Private, noDeps bool) buildenv.Cmd {
	args := append(l.before(), "metadata", "--format-version", "1", "--quiet")
	args = append(args, l.keep("--manifest-path", "--lockfile-path", "--config", "-Z")...)
	if noDeps { // which needs no Cargo.lock
		p.Lock = ""
	}
	args, env := p.instead(h, args, t.question())
	if noDeps {
		return t.cmd(env, append(args, "--no-deps", "--offline"))
	}
	args = append(args, l.keep("--features", "--all-features", "--no-default-features")...)
	args = append(args, "--frozen")
	targets := l.Target
	if len(targets) == 0 {
		targets = []string{"host-tuple"} // cargo 1.91 and later; to others it is unknown
	}
	for _, target := range targets {
		args = append(args, "--filter-platform", target)
	}
	return t.cmd(env, args)
}

// absolute returns a path of the command line as cargo would understand it.
func (l Line) absolute(h buildenv.Host, t Tool, p string) string {
	return h.Clean(h.From(l.cwd(h, t), p))
}

// cwd is where cargo works: its start directory, or -C.
func (l Line) cwd(h buildenv.Host, t Tool) string {
	dir := cmp.Or(t.Dir, h.Cwd)
	if l.Dir == "" {
		return dir
	}
	return h.Clean(h.From(dir, l.Dir))
}

// Clean removes what was built of some packages, for exactly one profile and the given targets. Traps (measured):
// one profile only, dev unless another is named · without --target only the host's tree, and a build.target of the configuration is not
// looked at: the caller passes every platform that the unit graph shows · a version in a package's name is ignored with a warning, so
// names come without. It waits for cargo's build lock and needs the lock file and sources, but no network when they are there.
func Clean(t Tool, l Line, packages, targets []string) buildenv.Cmd {
	args := append(l.before(), "clean")
	names := make([]string, 0, len(packages))
	for _, p := range packages {
		name, _, _ := strings.Cut(p, "@")
		names = append(names, name)
	}
	sort.Strings(names)
	for _, n := range slices.Compact(names) {
		args = append(args, "-p", n)
	}
	switch p := l.ProfileName(); p {
	case "dev", "test": // both live in debug
	case "release":
		args = append(args, "--release")
	default:
		args = append(args, "--profile", p)
	}
	if len(targets) == 0 {
		targets = l.Target
	}
	for _, tr := range targets {
		args = append(args, "--target", tr)
	}
	return t.cmd(t.Env, append(args, l.keep(append(settings, "--manifest-path", "--target-dir", "--color")...)...))
}

// Command is cargo as the user called it. The caller sets the streams.
func Command(t Tool, l Line) buildenv.Cmd { return t.cmd(t.Env, l.Words()) }

// Build is the user's build with cargo's JSON messages on stdout; diagnostics, colours, progress
// and summary stay on stderr as they were (compared byte by byte under a terminal, cargo 1.95). A
// user's own JSON choice is left alone: the caller passes the messages on to the user's stdout.
//
// run becomes build (bin names the default-run binary, if there is one and the user named none); test and bench become --no-run. Words
// for the program are dropped, those for rustc and clippy are kept. Everything else stays as it was typed, in order.
func Build(t Tool, l Line, bin string) buildenv.Cmd {
	args := l.head()
	verb := l.verbWord()
	var extra []string
	trailing := l.HasTrailing
	dropPositional := false
	drop := ""
	switch l.Verb {
	case "run":
		verb, trailing, dropPositional = "build", false, true
		if bin != "" && !l.Has("--bin", "--example") {
			extra = []string{"--bin", bin}
		}
	case "test", "bench":
		trailing = false
		switch {
		case l.Has("--doc"): // `test --doc --no-run` is refused; doc tests need the library
			verb, extra, drop, dropPositional = "build", []string{"--lib"}, "--doc", true
		case !l.Has("--no-run"):
			extra = []string{"--no-run"}
		}
	}
	args = append(args, verb)
	if f := l.jsonFormat(); f != "" {
		args = append(args, "--message-format="+f)
	}
	args = append(args, extra...)
	for _, it := range l.items {
		switch {
		case it.positional && dropPositional,
			!l.WantsJSON() && it.has("--message-format"),
			drop != "" && it.has(drop),
			l.Verb == "test" && l.Has("--doc") && it.has("--no-fail-fast"):
			continue
		}
		args = append(args, it.words...)
	}
	if trailing {
		args = append(append(args, "--"), l.Trailing...)
	}
	return t.cmd(t.Env, args)
}

// jsonFormat is the message format to ask for; empty when the user's own is JSON already.
func (l Line) jsonFormat() string {
	if l.WantsJSON() {
		return ""
	}
	if slices.ContainsFunc(l.MessageFormat, func(f string) bool { return strings.EqualFold(f, "short") }) {
		return "json-render-diagnostics,json-diagnostic-short"
	}
	return "json-render-diagnostics"
}

func (it item) has(name string) bool {
	return slices.ContainsFunc(it.flags, func(f Flag) bool { return f.Name == name })
}

// head is everything before the verb as it was typed.
func (l Line) head() []string { return append(l.prefixed(), l.Global...) }

// before is what our own calls have before the verb: the toolchain and -C; other global flags follow the verb, so that ours and the
// user's are together (clap forgets those before the verb when the same one follows it).
func (l Line) before() []string {
	out := l.prefixed()
	if l.Dir != "" {
		out = append(out, "-C", l.Dir)
	}
	return slices.Clip(out)
}

// keep writes some of the flags out again.
func (l Line) keep(names ...string) []string {
	var out []string
	for _, f := range l.flags() {
		if slices.Contains(names, f.Name) {
			out = append(out, f.words()...)
		}
	}
	return out
}

// As is another command about the same packages, features and targets, with what the line says of these.
func (l Line) As(verb ...string) []string {
	return slices.Concat(l.before(), verb, l.keep(selection...))
}

func (f Flag) words() []string {
	switch {
	case !f.HasValue:
		return []string{f.Name}
	case strings.HasPrefix(f.Name, "--"):
		return []string{f.Name + "=" + f.Value}
	}
	return []string{f.Name, f.Value}
}

func (a Asking) locked(l Line) []string {
	if a.NoLockWrite && !l.Has("--locked", "--frozen") {
		return []string{"--locked"}
	}
	return nil
}

func (a Asking) env(t Tool) buildenv.Env {
	e := t.question()
	for _, n := range t.unstableVars() {
		if a.nightly {
			e = e.Set(n, t.Env.Get(n))
		}
	}
	if a.Colour {
		e = e.Set("CARGO_TERM_COLOR", "always")
	}
	return e
}

// OnTerminal makes cargo draw on a pipe what it would draw on a terminal of this width: its bar,
// and its colours where colour says that the terminal has them. What the user has settled stays.
// The settings go on the command line, so that no cargo below a build script inherits them.
func (l Line) OnTerminal(h buildenv.Host, t Tool, width int, colour bool) Line {
	config := readConfig(h, t, l)
	if set, _ := config.find("term", "color"); colour && l.Color == "" && (set == nil || set == "auto") {
		l = l.WithConfig(`term.color="always"`)
	}
	// cargo's own conditions for a bar on a terminal, which "always" leaves out. Source: cargo 1.95, src/cargo/util/progress.rs.
	_, ci := t.Env.Lookup("CI")
	_, azure := t.Env.Lookup("TF_BUILD")
	if l.Has("--quiet") || t.Env.Get("CARGO_TERM_QUIET") == "true" || t.Env.Get("TERM") == "dumb" || ci || azure {
		return l
	}
	if !config.has("term", "progress", "when") && !config.has("term", "progress", "width") {
		l = l.WithConfig(`term.progress.when="always"`, fmt.Sprintf("term.progress.width=%d", width))
	}
	return l
}
