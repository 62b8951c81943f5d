package cargo

import (
	"slices"
	"strings"
)

// Flag is one of cargo's flags as it was understood, whichever of clap's forms it was written in.
type Flag struct {
	Name     string // long form with its hyphens, "-Z" and "-C" where there is none
	Value    string
	HasValue bool
}

// item is one or two words of the command line and what they mean. A cluster such as -vrFcuda is one item with three flags; a word that
// is not understood is an item with none.
type item struct {
	words      []string
	flags      []Flag
	positional bool
}

// Line is a cargo command line, taken apart. Its words are kept as they were typed and in order.
type Line struct {
	Toolchain string   // "nightly" of +nightly
	Global    []string // words between the toolchain and the verb
	// canonical: "build" for b and for none at all; a plugin's or alias' own name; empty for `cargo --list` and its like
	Verb        string
	VerbWord    string   // as typed; empty when there was none
	Args        []string // words after the verb and before --
	Trailing    []string // words after --
	HasTrailing bool     // there was a --

	// Of the flags, those that are asked for in more than one place, or whose values count; Has knows the others.
	Features      []string // split at commas and spaces, in order
	AllFeatures   bool
	NoDefault     bool
	Packages      []string
	Excludes      []string
	Workspace     bool
	Target        []string
	Profile       string // --profile's value; see ProfileName
	ManifestPath  string
	TargetDir     string
	MessageFormat []string // split at commas
	Config        []string // those that cargo heeds: given after the verb, the ones before it are lost (cargo 1.95)
	Dir           string   // -C
	Verbose       int
	Color         string
	Positional    []string // after the verb: a test's name, a program's words
	AliasConfig   bool     // an alias brought some of Config

	globals, items []item
	parts          []Part
	typed          []string // everything, our own flags too
	verbAt         int      // index of VerbWord in typed
}

// Words are the words for cargo: what was typed without our own flags, and "build" where no verb was.
func (l Line) Words() []string {
	var out []string
	if l.Toolchain != "" {
		out = append(out, "+"+l.Toolchain)
	}
	out = append(out, l.Global...)
	if w := l.verbWord(); w != "" {
		out = append(out, w)
	}
	out = append(out, l.Args...)
	if l.HasTrailing {
		out = append(append(out, "--"), l.Trailing...)
	}
	return out
}

func (l Line) verbWord() string {
	if l.VerbWord == "" {
		return l.Verb
	}
	return l.VerbWord
}

// Started is the line of a second cargo, which starts what the first one built. cargo 1.97 and newer, by the version of their rustc, do not
// repeat the warnings of that build then (older ones warn of the setting). `run` is quiet, since it would only repeat the first one; of
// `test` and `bench` that would change what the programs print.
func (l Line) Started(rustc VersionInfo) Line {
	if !l.Purpose().Starts() {
		return l
	}
	if rustc.Minor >= 97 {
		l = l.WithConfig(`build.warnings="allow"`)
	}
	if l.Purpose() == Runs && !l.Has("--quiet", "--verbose") {
		l.Args = append([]string{"--quiet"}, l.Args...)
	}
	return l
}

// Unknown lists the arguments that look like flags and that are none of the verb's, as far as is known here.
func (l Line) Unknown() []string {
	var out []string
	for _, it := range l.items {
		if len(it.flags) == 0 && !it.positional {
			out = append(out, it.words...)
		}
	}
	return out
}

// Known reports whether the verb is one whose flags are understood; others are plugins, aliases or commands that build nothing.
func (l Line) Known() bool { _, ok := verbs[l.Verb]; return ok && l.Verb != "install" }

// ProfileName is the profile that is built, by cargo's name for it.
func (l Line) ProfileName() string {
	switch {
	case l.Profile != "":
		return l.Profile
	case l.Has("--release"):
		return "release"
	case l.Verb == "bench":
		return "bench"
	}
	return "dev"
}

// WantsJSON reports whether the user asked for JSON on stdout, so that our reading of it must not swallow it.
func (l Line) WantsJSON() bool {
	return slices.ContainsFunc(l.MessageFormat, func(f string) bool { return strings.HasPrefix(strings.ToLower(f), "json") })
}

// Has reports whether the line has one of these flags, by the names that Flag gives them.
func (l Line) Has(names ...string) bool {
	return slices.ContainsFunc(l.flags(), func(f Flag) bool { return slices.Contains(names, f.Name) })
}

// HasTargets reports whether the line names targets rather than leaving them to the verb's default.
func (l Line) HasTargets() bool {
	return l.Has("--lib", "--bins", "--bin", "--examples", "--example", "--tests", "--test", "--benches", "--bench", "--all-targets")
}

// flags lists the flags that cargo heeds in order, those before the verb first. -C stays out: it must stand before the verb.
func (l Line) flags() []Flag {
	var out []Flag
	after := func(name string) bool {
		return slices.ContainsFunc(l.items, func(i item) bool {
			return slices.ContainsFunc(i.flags, func(f Flag) bool { return f.Name == name })
		})
	}
	for _, it := range l.globals {
		for _, f := range it.flags {
			// clap: a global argument that is given in both places keeps only the values after the verb; observed with --config.
			if f.Name != "-C" && !(f.HasValue && after(f.Name)) {
				out = append(out, f)
			}
		}
	}
	for _, it := range l.items {
		out = append(out, it.flags...)
	}
	return out
}

// read fills the fields from the items.
func (l *Line) read() {
	for _, it := range l.globals {
		for _, f := range it.flags {
			if f.Name == "-C" {
				l.Dir = f.Value
			}
		}
	}
	for _, f := range l.flags() {
		l.set(f)
	}
	for _, it := range l.items {
		if it.positional {
			l.Positional = append(l.Positional, it.words...)
		}
	}
}

func (l *Line) set(f Flag) {
	add := func(list *[]string) {
		if f.HasValue {
			*list = append(*list, f.Value)
		}
	}
	switch f.Name {
	case "--package":
		add(&l.Packages)
	case "--exclude":
		add(&l.Excludes)
	case "--target":
		add(&l.Target)
	case "--config":
		add(&l.Config)
	case "--profile":
		l.Profile = f.Value
	case "--manifest-path":
		l.ManifestPath = f.Value
	case "--target-dir":
		l.TargetDir = f.Value
	case "--color":
		l.Color = f.Value
	case "--all-features":
		l.AllFeatures = true
	case "--no-default-features":
		l.NoDefault = true
	case "--workspace", "--all":
		l.Workspace = true
	case "--features":
		l.Features = append(l.Features, strings.Fields(strings.ReplaceAll(f.Value, ",", " "))...)
	case "--message-format":
		l.MessageFormat = append(l.MessageFormat, strings.Split(f.Value, ",")...)
	case "--verbose":
		l.Verbose++
	}
}

// Links reports whether what is built is linked as usual: false where the words for rustc ask for other output only.
func (l Line) Links() bool {
	rustc := l.Trailing
	if l.Verb == "rustc" && !l.HasTrailing {
		rustc = l.Positional
	}
	for i, w := range rustc {
		kinds, ok := strings.CutPrefix(w, "--emit=")
		if w == "--emit" && i+1 < len(rustc) {
			kinds, ok = rustc[i+1], true
		}
		if ok {
			return slices.ContainsFunc(strings.Split(kinds, ","),
				func(k string) bool { return k == "link" || strings.HasPrefix(k, "link=") })
		}
	}
	return true
}

// Part is one piece of a command line, in the order in which it was typed: an argument, or a flag with its value.
type Part struct {
	Kind  PartKind
	Words []string
}

// PartKind is what a piece of a command line is, for those that store or print it.
type PartKind int

// Kinds of parts.
const (
	PlainPart   PartKind = iota // cargo's own, and what Split leaves to cargo
	VerbPart                    // the subcommand
	SettingPart                 // --config with its value
	OwnPart                     // one of our flags
	ProgramPart                 // an argument for a program, or behind a subcommand whose arguments nobody here understands
)

// Parts are all pieces of the line. Of an alias they are those of the line that it expands to.
func (l Line) Parts() []Part { return slices.Clone(l.parts) }

// Refused reports whether cargo refuses the line for an argument that its verb does not have, or is newer than what is known here: nobody
// knows then what the other arguments are.
func (l Line) Refused() bool {
	spec, known := verbs[l.Verb]
	return known && (len(l.Unknown()) > 0 || spec.rest == restNone && len(l.Positional) > 0 || l.Purpose() == Tests && len(l.Positional) > 1)
}

// part is what an item is; unread is that of one that is not understood.
func (i item) part(unread PartKind) PartKind {
	switch {
	case len(i.flags) == 0:
		return unread
	case i.flags[0].Name == "--config":
		return SettingPart
	}
	return PlainPart
}
