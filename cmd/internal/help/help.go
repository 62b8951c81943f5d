// Package help makes what a user reads about the command line: the templates of help, its topics, the manual page, and the candidates of
// completion. It is given the commands and flags as urfave/cli's tree, and reads no command line itself.
package help

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/cargo"
)

// Verb is what help says of one of our own verbs, or of a subcommand of one.
type Verb struct {
	Name     string
	Usage    string // what it does, in one line
	Args     string // its arguments, as the usage line shows them
	Examples []string
	Text     string   // what a user should know; paragraphs end with a line break
	Project  bool     // it takes cargo's selection flags, too
	Common   []string // the flags that -h lists; none: all
}

// Form is how much a page says.
type Form int

// A page is that of -h, that of --help, or a section of the manual page.
const (
	Short Form = iota
	Long
	Manual
)

// What gpubuild is, in one line, and how it is called.
const (
	Summary   = "Build Rust GPU code with cargo and prove that it ran on the GPU"
	Synopsis  = "gpubuild [build|check|run|test|bench|clippy] [CARGO FLAGS] [--gpu-FLAGS]"
	selection = "[CARGO'S SELECTION FLAGS]"
)

// About is what the manual page says of gpubuild.
const About = "Without a command gpubuild builds, as `cargo build` does. All cargo flags work unchanged; ours begin with --gpu- there. " +
	"Any other command is passed to cargo."

// flagsTemplate lists flags below the headings of their categories.
const flagsTemplate = `{{$last := ""}}{{range .VisibleFlags}}{{if ne .GetCategory $last}}{{$last = .GetCategory}}
{{$last}}:
{{end}}  {{.String}}
{{end}}`

// CommandTemplate is the help of one of our own verbs.
const CommandTemplate = `{{.Usage}}

Usage: {{.HelpName}}{{with .ArgsUsage}} {{.}}{{end}}
{{with .Description}}
{{.}}
{{end}}{{with .VisibleCommands}}
Commands:
{{range .}}  {{.Name}}` + "\t" + `{{.Usage}}
{{end}}
` + "`{{$.HelpName}} COMMAND --help`" + ` lists the flags of one.
{{end}}` + flagsTemplate

// RootTemplate is what `gpubuild help` prints; it fits on one screen.
var RootTemplate = Summary + "\n\nUsage: " + Synopsis + `
       gpubuild COMMAND [FLAGS]

Examples:
  gpubuild run --features cuda --release` + "\t" + `build, run, and prove that a kernel ran on the GPU
  gpubuild build --features cuda` + "\t" + `build only
  gpubuild features --features cuda --fix` + "\t" + `forward a feature to the GPU crates
  gpubuild doctor` + "\t" + `check this machine and this project

Commands:
{{range .VisibleCommands}}  {{.Name}}` + "\t" + `{{.Usage}}
{{end}}
Any other command is passed to cargo. All cargo flags work unchanged; ours begin with --gpu-.
` + "`gpubuild build --help` lists them, `gpubuild help COMMAND` explains a command." + `
Topics: gpubuild help ` + strings.Join(topics, ", ") + "\n"

// Command is the command of a verb without its action and its subcommands; before is how it is called, but for its name.
func (v Verb) Command(before string, flags []*Flag, subcommands bool, form Form) *cli.Command {
	c := &cli.Command{Name: v.Name, Usage: upper(v.Usage), HideHelp: true, CustomHelpTemplate: CommandTemplate}
	var args []string
	for _, part := range []struct {
		word string
		has  bool
	}{{"COMMAND", subcommands}, {selection, v.Project}, {"[FLAGS]", subcommands || len(flags) > 0}, {v.Args, v.Args != ""}} {
		if part.has {
			args = append(args, part.word)
		}
	}
	c.ArgsUsage = strings.Join(args, " ")
	var about []string
	if len(v.Examples) > 0 {
		about = append(about, "Examples:\n  "+strings.Join(v.Examples, "\n  "))
	}
	switch text := strings.TrimSpace(v.Text); {
	case form == Manual:
		c.Usage += ".\n\n" + text
		c.UsageText = strings.Join(append([]string{before + " " + v.Name + " " + c.ArgsUsage}, v.Examples...), "\n")
	case form == Long && text != "":
		about = append(about, text)
	case form == Short && !subcommands && (text != "" || len(v.Common) > 0):
		about = append(about, "See more with --help.")
	}
	c.Description = strings.Join(about, "\n\n")
	c.Flags = Listed(flags, v.Common, form)
	return c
}

// Listed are flags as a page lists them: grouped by category, and for -h only the common ones.
func Listed(flags []*Flag, common []string, form Form) (out []cli.Flag) {
	var categories []string
	for _, f := range flags {
		if !slices.Contains(categories, f.Category) {
			categories = append(categories, f.Category)
		}
		f.Hidden = form == Short && len(common) > 0 && !slices.Contains(common, f.Name)
	}
	for _, category := range categories {
		for _, f := range flags {
			if f.Category == category {
				out = append(out, f)
			}
		}
	}
	return append(out, &cli.BoolFlag{Name: "help", Hidden: true})
}

// CargoPage is our part of the help of one of cargo's verbs; cargo's own follows it.
func CargoPage(verb string, flags []*Flag, common []string, form Form) string {
	usage, examples := "run `cargo "+verb+"` with CUDA", []string{"gpubuild " + verb + " --features cuda"}
	switch p := cargo.PurposeOf(verb); {
	case verb == "nextest":
		examples[0] = "gpubuild nextest run --features cuda"
		fallthrough
	case p.Starts():
		usage += ", check its features and artifacts, and prove that it used the GPU"
	case p.Judged():
		usage += ", and check its features and artifacts"
	}
	switch verb {
	case "build":
		examples = append(examples, "gpubuild build --features cuda --gpu-arch sm_80,sm_90")
	case "run":
		examples = append(examples, "gpubuild run --features cuda --release -- --device cuda")
	}
	v := Verb{Name: verb, Usage: usage, Args: "[CARGO'S FLAGS]", Examples: examples, Common: common}
	c := v.Command("gpubuild", flags, false, form)
	c.HelpName = "gpubuild " + verb
	var b strings.Builder
	cli.HelpPrinter(&b, CommandTemplate+"\nCargo's own help:\n\n", c)
	return b.String()
}

// Find is a command of the tree, or with two names a subcommand of it.
func Find(app *cli.App, names ...string) *cli.Command {
	c := &cli.Command{Subcommands: app.Commands}
	for _, name := range names {
		if c = c.Command(name); c == nil {
			return nil
		}
	}
	return c
}

// OfCargo is the category of cargo's own commands.
const OfCargo = "cargo"

// ours reports whether a command is one of our own verbs.
func ours(c *cli.Command) bool { return c != nil && c.Category != OfCargo && !c.SkipFlagParsing }

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// flagOfCargo is a flag of cargo's own, for completion.
func flagOfCargo(n cargo.Name) Flag {
	kind := cargo.Switch
	switch {
	case n.Attached:
		kind = cargo.Optional
	case n.Value:
		kind = cargo.Value
	}
	f := NewFlag(n.Long, kind, "", "", nil)
	if n.Short != 0 {
		f.Short = string(n.Short)
	}
	return *f
}

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
