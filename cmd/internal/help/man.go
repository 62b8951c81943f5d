package help

import (
	"strings"

	"github.com/urfave/cli/v2"

	"gpubuild/buildenv/exit"
)

// ManualPage is the manual page in roff, made of the tree that parse and help use, and of our topics.
func ManualPage(app *cli.App) (string, error) {
	page, err := app.ToManWithSection(1)
	for _, section := range []struct{ name, text string }{
		{"EXIT STATUS", exit.Table()}, {"ENVIRONMENT", environmentHelp()}, {"FILES", configHelp},
	} {
		page += ".SH " + section.name + "\n.nf\n" + roff(section.text) + ".fi\n"
	}
	return page + ".SH SEE ALSO\n.BR cargo (1)\n", err
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
