package cli

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/cargo"
)

// manual is the manual page in roff, made of the tables that parse and help use.
func manual() string {
	var b strings.Builder
	b.WriteString(".TH GPUBUILD 1\n.SH NAME\ngpubuild \\- cargo with a GPU that is proven to be used\n.SH SYNOPSIS\n")
	b.WriteString(".B gpubuild\n[build|check|run|test|bench|clippy] [\\fICARGO FLAGS\\fR] [\\-\\-gpu\\-\\fIFLAGS\\fR]\n" +
		".br\n.B gpubuild\n\\fIVERB\\fR [\\fIFLAGS\\fR]\n.br\n.B gpubuild cargo\n\\fIWORDS\\fR\n")
	b.WriteString(".SH DESCRIPTION\nWithout a verb gpubuild builds and stands where cargo build stood. " +
		"Every flag of cargo passes; our own begin with \\-\\-gpu\\- there.\nVerbs that are not listed here are cargo's.\n")
	list := func(flags []*flag) {
		for _, f := range flags {
			b.WriteString(".TP\n\\fB" + roff("--"+f.Name) + "\\fR")
			switch f.kind {
			case cargo.Value:
				b.WriteString(" \\fI" + roff(f.holder) + "\\fR")
			case cargo.Optional:
				b.WriteString("[=\\fI" + roff(f.holder) + "\\fR]")
			}
			b.WriteString("\n" + roff(f.Usage) + "\n")
		}
	}
	b.WriteString(".SH FLAGS ON CARGO'S VERBS\n")
	list(cargoFlags())
	b.WriteString(".SH VERBS\n")
	for _, v := range verbs() {
		b.WriteString(".SS " + roff(v.name) + "\n" + roff(v.usage) + "\n.PP\n.nf\n" + roff(v.text) + "\n.fi\n")
		list(v.flags)
	}
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
