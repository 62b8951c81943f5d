package cargo

import "cmp"

// Purpose is what a subcommand does with what it builds. Code outside this package asks about sets of subcommands by purpose only.
type Purpose int

// Purposes, from the least to the most: the methods below compare them, and TestPurposes spells the sets out.
const (
	Other     Purpose = iota // plugins, aliases not yet resolved, subcommands that build nothing, no subcommand
	Installs                 // install
	Documents                // doc, rustdoc, fix: they compile, and gpubuild judges nothing
	Checks                   // check, clippy: they make no program
	Builds                   // build, rustc: they make programs and run none
	Runs                     // run: starts one program
	Tests                    // test, bench: start several; `nextest run` is one of them by Line.Nextest
)

var purposes = map[string]Purpose{
	"install": Installs, "doc": Documents, "rustdoc": Documents, "fix": Documents, "check": Checks, "clippy": Checks,
	"build": Builds, "rustc": Builds, "run": Runs, "test": Tests, "bench": Tests,
}

// Canonical is a subcommand's own name for one of cargo's built-in aliases: build for b.
func Canonical(verb string) string { return cmp.Or(builtinAliases[verb], verb) }

// PurposeOf is the purpose of a subcommand by its canonical name, for results, which hold only the name.
func PurposeOf(verb string) Purpose { return purposes[verb] }

// Purpose is what the line's subcommand does.
func (l Line) Purpose() Purpose { return purposes[l.Verb] }

// Judged reports whether gpubuild judges the result. Every other subcommand runs in the build's environment and is not judged.
func (p Purpose) Judged() bool { return p >= Checks }

// Starts reports whether the subcommand starts programs.
func (p Purpose) Starts() bool { return p >= Runs }

// Compiles reports whether the subcommand compiles the selected packages, so that cargo can be asked about them.
func (p Purpose) Compiles() bool { return p >= Documents }

// Starts reports whether the line starts what it builds.
func (l Line) Starts() bool { return l.Purpose().Starts() && !l.Has("--no-run") }
