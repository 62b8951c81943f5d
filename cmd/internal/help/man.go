package help

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/exit"
)

// Manual is the manual page in roff, made of the tables that parse and help use.
func (p Pages) Manual() string {
	var b strings.Builder
	b.WriteString(".TH GPUBUILD 1\n.SH NAME\ngpubuild \\- " + roff(summary) + "\n.SH SYNOPSIS\n.nf\n" + roff(synopsis) +
		"\ngpubuild COMMAND [FLAGS]\ngpubuild cargo ARGUMENTS\n.fi\n")
	b.WriteString(".SH DESCRIPTION\nWithout a command gpubuild builds, as `cargo build` does. All cargo flags work unchanged; " +
		"ours begin with \\-\\-gpu\\- there.\nAny other command is passed to cargo.\n")
	list := func(flags []Flag) {
		for _, f := range flags {
			b.WriteString(".TP\n\\fB" + roff(f.written()) + "\\fR\n" + roff(f.Meaning) + "\n")
		}
	}
	b.WriteString(".SH FLAGS ON CARGO'S COMMANDS\n")
	heading := ""
	for _, f := range p.Cargo {
		if f.Group != heading {
			heading = f.Group
			b.WriteString(".SS " + roff(heading) + "\n")
		}
		list([]Flag{f})
	}
	b.WriteString(".SH COMMANDS\n")
	var commands func(name string, verbs []Verb)
	commands = func(before string, verbs []Verb) {
		for _, v := range verbs {
			name := before + v.Name
			b.WriteString(".SS gpubuild " + roff(name+usageOf(v)) + "\n" + roff(upper(v.Usage)) + ".\n")
			if len(v.Examples) > 0 {
				b.WriteString(".PP\n.nf\n" + roff(strings.Join(v.Examples, "\n")) + "\n.fi\n")
			}
			if v.Text != "" {
				b.WriteString(".PP\n" + roff(v.Text) + "\n")
			}
			list(v.Flags)
			commands(name+" ", v.Verbs)
		}
	}
	commands("", p.Verbs)
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range exit.Codes {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", e.Code, roff(e.Meaning))
	}
	b.WriteString(".TP\n.B other\ncargo's or the program's own code, when they failed\n.SH ENVIRONMENT\n")
	for _, v := range variables {
		b.WriteString(".TP\n.B " + roff(v.Name) + "\n" + roff(v.Meaning) + "\n")
	}
	b.WriteString(".SH FILES\n.nf\n" + roff(configHelp) + ".fi\n.SH SEE ALSO\n.BR cargo (1)\n")
	return b.String()
}

// roff makes plain text safe for roff: no letter of it is a command.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `...`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
