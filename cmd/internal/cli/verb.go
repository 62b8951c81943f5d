package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// verb is one of our own: what help says of it, its flags, which set its options, and what it does with them.
type verb struct {
	help.Verb
	flags   []*flag
	verbs   []verb        // its subcommands; the first one is the default
	instead string        // what to do in place of an argument that it does not take
	answer  string        // the name of its answer; empty: as it is called
	results *report.Files // where its result goes; nil where it has none to render
	run     func(ctx context.Context, a *invocation, l cargo.Line) error
	shellOS string // for whose shells hints are quoted
}

// bind runs a verb with its options as the flags have set them.
func bind[Options any](
	o *Options, run func(context.Context, *invocation, Options, cargo.Line) error,
) func(context.Context, *invocation, cargo.Line) error {
	return func(ctx context.Context, a *invocation, l cargo.Line) error { return run(ctx, a, *o, l) }
}

// sub is the subcommand that the words name, else the verb itself, and how it is called: "ci init".
func (v verb) sub(words []string) (called string, s verb) {
	for _, w := range words {
		for _, s := range v.verbs {
			if s.Name == w {
				return v.Name + " " + w, s
			}
		}
	}
	return v.Name, v
}

// words are the words of a verb as urfave/cli reads them: its flags first, with their values behind =.
func (v verb) words(line cargo.Line, given []cargo.Own) []string {
	words, args := []string{v.Name}, line.Positional
	if len(v.verbs) > 0 {
		if len(args) == 0 {
			args = []string{v.verbs[0].Name}
		}
		words, args = append(words, args[0]), args[1:]
	}
	for _, o := range given {
		if f := v.flag(o.Name); f.Kind != cargo.Switch {
			o.Name += "=" + o.Value
		}
		words = append(words, o.Name)
	}
	return slices.Concat(words, []string{"--"}, args)
}

// flag is a flag of the verb or of one of its subcommands.
func (v verb) flag(written string) *flag {
	f := findFlag(v.flags, written, "--")
	for _, s := range v.verbs {
		f = cmp.Or(f, findFlag(s.flags, written, "--"))
	}
	return f
}

// split takes the words of a verb apart, its own flags and those of its subcommands out of them. The verbs that look at a project read
// cargo's selection flags as `cargo build` does. After an error it returns the flags that were given.
func (v verb) split(words []string) (l cargo.Line, given []cargo.Own, err error) {
	own := ownFlags(v.flags, "--")
	for _, s := range v.verbs {
		maps.Copy(own, ownFlags(s.flags, "--"))
	}
	bare := map[string]string{} // by the spelling that cargo's verbs have
	for name := range maps.Clone(own) {
		long := prefix + strings.TrimPrefix(name, "--")
		if _, taken := own[long]; !taken {
			own[long], bare[long] = own[name], name
		}
	}
	for _, f := range v.flags {
		if letter := "-" + f.Short; f.Short != "" {
			own[letter], bare[letter] = f.Kind, "--"+f.Name
		}
	}
	line := append([]string{"build"}, words...)
	if v.Project && len(words) > 0 && strings.HasPrefix(words[0], "+") { // rustup's word stands before cargo's verb
		line[0], line[1] = words[0], "build"
	}
	l, given, err = cargo.Split(line, own)
	for i, o := range given {
		given[i].Name = cmp.Or(bare[o.Name], o.Name)
	}
	if wrong, ok := errors.AsType[*exit.UsageError](err); ok {
		wrong.Fix = strings.Replace(wrong.Fix, "gpubuild build --help", "gpubuild "+v.Name+" --help", 1)
	}
	if err != nil {
		return l, given, err
	}
	if strings.HasPrefix(v.Args, "-- ") && !l.HasTrailing && len(l.Positional) > 0 { // what follows is the command, with flags of its own
		at := slices.Index(words, l.Positional[0])
		return l, given, usage("put the command of `gpubuild "+v.Name+"` after --",
			buildenv.Words(v.shellOS, slices.Concat([]string{"gpubuild", v.Name}, words[:at], []string{"--"}, words[at:])...))
	}
	unknown, known := l.Unknown(), []string{"--help"}
	if !v.Project {
		unknown = slices.DeleteFunc(slices.Clone(l.Args), func(w string) bool {
			return len(w) < 2 || w[0] != '-' || loudness.MatchString(w)
		})
	} else {
		for _, n := range cargo.Names("build") {
			if n.Long != "" {
				known = append(known, "--"+n.Long)
			}
		}
	}
	if len(unknown) > 0 {
		name, _, _ := strings.Cut(unknown[0], "=")
		if err := v.ofProgram(words, l.Positional, unknown[0]); err != nil {
			return l, given, err
		}
		called, _ := v.sub(words)
		return l, given, exit.Unknown("flag", name, slices.AppendSeq(known, maps.Keys(own)), "`gpubuild "+called+" --help` lists the flags")
	}
	return l, given, nil
}

// loudness are cargo's flags for how much is printed, and in what colour: every verb takes them. A negative number is no flag.
var loudness = lazyregexp.New(`^(-q|--quiet|-v+|--verbose|--color(=.*)?|-\d+)$`)

// ofProgram is the error for a flag that a verb such as `prove PROGRAM` does not have and that is a build's, or the program's own.
func (v verb) ofProgram(words, positional []string, flag string) error {
	at := slices.IndexFunc(words, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") })
	if !strings.Contains(v.Args, "[-- ARGS]") || at < 0 {
		return nil
	}
	behind := len(positional) > 0 && slices.Index(words, positional[0]) < at // a short flag there is more likely the program's
	for _, n := range cargo.Names("build") {
		if flag == "--"+n.Long || !behind && n.Short != 0 && flag == "-"+string(n.Short) {
			line := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return len(positional) > 0 && w == positional[0] })
			return usage(fmt.Sprintf("`%s` is a flag of builds, and `gpubuild %s` takes a program that is built; the program's own "+
				"arguments follow --", flag, v.Name), buildenv.Words(v.shellOS, append([]string{"gpubuild", "run"}, line...)...))
		}
	}
	name, _, joined := strings.Cut(words[at], "=")
	end := min(at+2, len(words))
	if joined || len(positional) == 1 { // which is the program
		end = at + 1
	}
	rest, args := slices.Concat(words[:at], words[end:]), words[at:end]
	if behind {
		rest, args = slices.Clone(words[:at]), words[at:]
	} else if len(rest) == 0 || len(positional) == 0 || exit.Nearest(name, slices.Collect(maps.Keys(ownFlags(v.flags, "--")))) != "" {
		return nil
	}
	if !slices.Contains(rest, "--") {
		rest = append(rest, "--")
	}
	return usage(fmt.Sprintf("`%s` is no flag of `gpubuild %s`; the program's own arguments follow --", flag, v.Name),
		buildenv.Words(v.shellOS, slices.Concat([]string{"gpubuild", v.Name}, rest, args)...))
}

// subSynonyms are what other programs call subcommands of ours.
var subSynonyms = map[string]string{"add": "install", "ls": "list", "rm": "remove", "uninstall": "remove"}

// noSubcommand is the error for a word that is none of the verb's subcommands.
func (v verb) noSubcommand(word string) error {
	var names []string
	for _, s := range v.verbs {
		names = append(names, s.Name)
	}
	if near := subSynonyms[word]; slices.Contains(names, near) {
		return exit.Usagef("", "unknown subcommand `%s`; did you mean `%s`?", word, near)
	}
	return exit.Unknown("subcommand", word, names, "the subcommands of `gpubuild "+v.Name+"` are "+strings.Join(names, ", "))
}

// checkArgs counts the arguments against those that the usage line shows: NAME must be there, [NAME] may, NAME... may stand several times.
func (v verb) checkArgs(called string, l cargo.Line) error {
	args, trailing, takesTrailing := strings.Cut(v.Args, "--")
	var names []string
	least, most := 0, 0
	for _, name := range strings.Fields(strings.TrimSuffix(args, "[")) {
		if names, most = append(names, name), most+1; name[0] != '[' {
			least++
		}
		if strings.HasSuffix(strings.TrimSuffix(name, "]"), "...") {
			most = len(l.Positional)
		}
	}
	n, behind := len(l.Positional), takesTrailing && !strings.HasSuffix(trailing, "]") // a command must stand behind --
	fix := cmp.Or(v.instead, append(v.Examples, "")[0])
	switch {
	case n <= most || v.instead != "":
	case v.Project && most == 0:
		fix = fmt.Sprintf("features are selected with --features, packages with -p: gpubuild %s --features %s; `gpubuild %[1]s --help` lists all",
			called, l.Positional[0])
	case takesTrailing: // meant for the program
		fix = "gpubuild " + called + " " + buildenv.Words(v.shellOS, slices.Insert(slices.Clone(l.Positional), most, "--")...)
	}
	switch {
	case n < least:
		return usage(fmt.Sprintf("`gpubuild %s` needs an argument: %s", called, names[n]), fix)
	case n > most:
		return usage(fmt.Sprintf("unexpected argument `%s`", l.Positional[most]), fix)
	case behind && len(l.Trailing) == 0:
		return usage(fmt.Sprintf("`gpubuild %s` needs%s after --", called, trailing), fix)
	case !takesTrailing && len(l.Trailing) > 0:
		return usage(fmt.Sprintf("unexpected argument `%s` after --", l.Trailing[0]), fix)
	}
	return nil
}

// asksHelp is the flag by which the words ask for help; empty: they do not.
func asksHelp(words []string) string {
	for _, w := range words {
		switch w {
		case "--":
			return ""
		case "-h", "--help":
			return w
		}
	}
	return ""
}
