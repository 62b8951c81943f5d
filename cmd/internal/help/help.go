// Package help makes what a user reads about the command line: help, its topics, the manual page, and the candidates of completion. It is
// given the verbs and flags as tables, and reads no command line itself.
package help

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gpubuild/toolchain/cargo"
)

// Flag is a flag of ours.
type Flag struct {
	Name    string // without hyphens
	Short   string // its one letter; empty: none
	Kind    cargo.Kind
	Holder  string // the value's name in help
	Meaning string
	Group   string // the heading it stands under; empty: Options
}

// Verb is one of our own verbs, or a subcommand of one.
type Verb struct {
	Name     string
	Usage    string // what it does, in one line
	Args     string // its arguments, as the usage line shows them
	Examples []string
	Text     string // what a user should know; paragraphs end with a line break
	Project  bool   // it takes cargo's selection flags, too
	Flags    []Flag
	Verbs    []Verb // its subcommands; the first one is the default
}

// Pages are the tables that everything here is made from.
type Pages struct {
	Verbs []Verb
	Cargo []Flag // our flags on cargo's verbs
}

// What gpubuild is, in one line, and how it is called.
const (
	summary  = "Build Rust GPU code with cargo and prove that it ran on the GPU"
	synopsis = "gpubuild [build|check|run|test|bench|clippy] [CARGO FLAGS] [--gpu-FLAGS]"
)

// Find is a verb, or with two names a subcommand of it.
func (p Pages) Find(names ...string) (Verb, bool) {
	list, found := p.Verbs, Verb{}
	for _, name := range names {
		ok := false
		for _, v := range list {
			if v.Name == name {
				found, ok = v, true
			}
		}
		if !ok {
			return Verb{}, false
		}
		list = found.Verbs
	}
	return found, len(names) > 0
}

// Root is what `gpubuild help` prints; it fits on one screen.
func (p Pages) Root() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s\n       gpubuild COMMAND [FLAGS]\n\nExamples:\n", summary, synopsis)
	rows(&b, [][2]string{
		{"gpubuild run --features cuda --release", "build, run, and prove that a kernel ran on the GPU"},
		{"gpubuild build --features cuda", "build only"},
		{"gpubuild features --features cuda --fix", "forward a feature to the GPU crates"},
		{"gpubuild doctor", "check this machine and this project"},
	})
	b.WriteString("\nCommands:\n")
	var list [][2]string
	for _, v := range p.Verbs {
		list = append(list, [2]string{v.Name, v.Usage})
	}
	rows(&b, append(list, [2]string{"cargo", "run plain cargo with the arguments that follow"}))
	b.WriteByte('\n')
	b.WriteString("Any other command is passed to cargo. All cargo flags work unchanged; ours begin with --gpu-.\n" +
		"`gpubuild build --help` lists them, `gpubuild help COMMAND` explains a command.\n" +
		"Topics: gpubuild help " + strings.Join(topics, ", ") + "\n")
	return b.String()
}

// Page is the help of one of our own verbs; names lead to it: "ci", "matrix".
func (p Pages) Page(names ...string) string {
	v, _ := p.Find(names...)
	var b strings.Builder
	command := "gpubuild " + strings.Join(names, " ")
	fmt.Fprintf(&b, "%s\n\nUsage: %s%s\n", upper(v.Usage), command, usageOf(v))
	if len(v.Examples) > 0 {
		b.WriteString("\nExamples:\n  " + strings.Join(v.Examples, "\n  ") + "\n")
	}
	if v.Text != "" {
		b.WriteString("\n" + v.Text + "\n")
	}
	if len(v.Verbs) > 0 {
		b.WriteString("\nCommands:\n")
		var list [][2]string
		for _, s := range v.Verbs {
			list = append(list, [2]string{strings.TrimSpace(s.Name + " " + s.Args), s.Usage})
		}
		rows(&b, list)
		fmt.Fprintf(&b, "\n`%s COMMAND --help` lists the flags of one.\n", command)
	}
	b.WriteString(p.Groups(v.Flags))
	return b.String()
}

// CargoPage is our part of the help of one of cargo's verbs; cargo's own follows it.
func (p Pages) CargoPage(verb string) string {
	flags := slices.Clone(p.Cargo)
	if verb == "doc" || verb == "rustdoc" {
		flags = slices.DeleteFunc(flags, func(f Flag) bool { return f.Group != "Toolchain" })
	}
	return "Flags of gpubuild; those of cargo follow below\n" + p.Groups(flags) + "\n"
}

func usageOf(v Verb) string {
	usage := ""
	if len(v.Verbs) > 0 {
		usage = " COMMAND"
	}
	if v.Project {
		usage += " [CARGO'S SELECTION FLAGS]"
	}
	if len(v.Flags) > 0 || len(v.Verbs) > 0 {
		usage += " [FLAGS]"
	}
	return strings.TrimRight(usage+" "+v.Args, " ")
}

// Groups lists flags below the headings of their groups.
func (p Pages) Groups(flags []Flag) string {
	var headings []string
	groups := map[string][][2]string{}
	for _, f := range flags {
		heading := cmp.Or(f.Group, "Options")
		if groups[heading] == nil {
			headings = append(headings, heading)
		}
		groups[heading] = append(groups[heading], [2]string{f.written(), f.Meaning})
	}
	var b strings.Builder
	for _, h := range headings {
		b.WriteString("\n" + h + ":\n")
		rows(&b, groups[h])
	}
	return b.String()
}

// written is a flag with the name of its value.
func (f Flag) written() string {
	name := "--" + f.Name
	if f.Short != "" {
		name = "-" + f.Short + ", " + name
	}
	switch f.Kind {
	case cargo.Optional:
		return name + "[=" + f.Holder + "]"
	case cargo.Value:
		return name + " " + f.Holder
	}
	return name
}

// rows writes two columns. A first column that is too wide gets a line of its own.
func rows(b *strings.Builder, list [][2]string) {
	const most = 40
	left := 0
	for _, r := range list {
		if n := utf8.RuneCountInString(r[0]); n <= most {
			left = max(left, n)
		}
	}
	for _, r := range list {
		if utf8.RuneCountInString(r[0]) > left {
			fmt.Fprintf(b, "  %s\n%*s%s\n", r[0], left+4, "", r[1])
			continue
		}
		fmt.Fprintf(b, "  %-*s  %s\n", left, r[0], r[1])
	}
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
