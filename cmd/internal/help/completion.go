package help

import (
	"cmp"
	"embed"
	"slices"
	"sort"
	"strings"

	"github.com/urfave/cli/v2"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
	"gpubuild/toolchain/install"
)

// Each shell gets a script that asks `gpubuild completion words -- WORD…` what may stand where the cursor is; one answer serves them all.
//
//go:embed completion
var scripts embed.FS

// Script returns a shell's completion script.
func Script(shell string) (string, bool) {
	if shell == "pwsh" || shell == "powershell" {
		shell = "ps1"
	}
	text, err := scripts.ReadFile("completion/gpubuild." + shell)
	return string(text), err == nil
}

// candidates are what may stand where the cursor is.
type candidates struct {
	list  []candidate
	files bool // names of files may stand there, too
}

type candidate struct{ word, about string }

func (c *candidates) add(word, about string) { c.list = append(c.list, candidate{word, about}) }

func (c *candidates) words(about string, words ...string) {
	for _, w := range words {
		c.add(w, about)
	}
}

// commands adds the commands of a list that help shows.
func (c *candidates) commands(list []*cli.Command) {
	for _, v := range list {
		c.add(v.Name, v.Usage)
	}
}

// toolkits adds the versions in the cache.
func (c *candidates) toolkits(m *session.Machine) {
	for _, in := range install.Installed(m.Host, m.CacheDir) {
		c.add(in.CUDA.String(), in.Root)
	}
}

// text is what the scripts read: a candidate a line, its meaning behind a tab, and ":files" at the end. Names of a project that a terminal
// or the scripts would obey are left out.
func (c candidates) text() string {
	var b strings.Builder
	for _, e := range c.list {
		if line := e.word + e.about; console.Visible(line) != line || strings.ContainsAny(line, "\t\n") {
			continue
		}
		b.WriteString(e.word)
		if e.about != "" {
			b.WriteString("\t" + e.about)
		}
		b.WriteByte('\n')
	}
	if c.files {
		b.WriteString(":files\n")
	}
	return b.String()
}

// starting keeps the candidates that begin with what was typed, without doubles.
func (c candidates) starting(typed string) candidates {
	out := candidates{files: c.files}
	seen := map[string]bool{}
	for _, e := range c.list {
		if strings.HasPrefix(e.word, typed) && !seen[e.word] {
			seen[e.word] = true
			out.list = append(out.list, e)
		}
	}
	return out
}

// known lists the flags of a verb and its words, ours first; without words those of the place before any verb, where both a verb and the
// flags of build may stand. plain: behind `gpubuild cargo`.
func known(app *cli.App, plain bool, words ...string) (out []Flag) {
	add := func(names []cargo.Name, wanted func(Flag) bool) {
		for _, n := range names {
			if f := flagOfCargo(n); wanted(f) {
				out = append(out, f)
			}
		}
	}
	all := func(Flag) bool { return true }
	word := ""
	if len(words) > 0 {
		word = words[0]
	}
	if c := app.Command(word); ours(c) && !plain {
		if len(c.Subcommands) > 0 {
			c = c.Subcommands[0] // the default
			if len(words) > 1 {
				c = cmp.Or(Find(app, words[:2]...), c)
			}
		}
		out = flagsOf(c)
		help := NewFlag("help", cargo.Switch, "", "print help", nil)
		help.Short = "h"
		out = append(out, *help)
		add(cargo.Names("build"), func(f Flag) bool {
			return strings.Contains(c.ArgsUsage, selection) || slices.Contains([]string{"quiet", "verbose", "color"}, f.Name)
		})
		return out
	}
	if word == "" {
		add(cargo.Names(""), all)
		word = "build"
	}
	if !plain {
		out = append(out, flagsOf(app.Command("build"))...)
	}
	add(cargo.Names(word), all)
	return out
}

// Complete answers, in the form that the scripts read, what may stand at the cursor. words are those after gpubuild; the last one is being
// typed and may be empty.
func Complete(app *cli.App, m *session.Machine, words []string) string {
	return complete(app, m, words).text()
}

func complete(app *cli.App, m *session.Machine, words []string) candidates {
	if len(words) == 0 {
		words = []string{""}
	}
	typed := words[len(words)-1]
	if typed == "''" || typed == `""` { // PowerShell drops empty words; its script marks them so
		typed = ""
	}
	before := words[:len(words)-1]
	if len(before) > 0 && strings.HasPrefix(before[0], "+") {
		before = before[1:]
	}
	var own []string   // the verb and its words
	ofCargo := false   // gpubuild cargo …: the next word is cargo's verb
	var previous *Flag // takes the next word
	flags := known(app, false)
	for _, w := range before {
		switch {
		case w == "--":
			return candidates{files: true}
		case previous != nil:
			previous = nil
		case strings.HasPrefix(w, "-"):
			if f := findFlag(flags, w); f != nil && f.Kind == cargo.Value && !strings.Contains(w, "=") {
				previous = f
			}
		case len(own) == 0 && w == "cargo" && !ofCargo:
			ofCargo, flags = true, known(app, true)
		default:
			own = append(own, w)
			flags = known(app, ofCargo, own...)
		}
	}
	if previous != nil {
		return values(m, *previous, typed, before[:len(before)-1]).starting(typed)
	}
	if name, value, ok := strings.Cut(typed, "="); ok && strings.HasPrefix(name, "--") {
		f := findFlag(flags, name)
		if f == nil || f.Kind == cargo.Switch {
			return candidates{}
		}
		out := values(m, *f, value, before).starting(value)
		for i := range out.list {
			out.list[i].word = name + "=" + out.list[i].word
		}
		return out
	}
	var out candidates
	if strings.HasPrefix(typed, "-") {
		for _, f := range flags {
			if f.Name != "" {
				out.add("--"+f.Name, f.Usage)
			}
			if f.Short != "" && !strings.HasPrefix(typed, "--") {
				out.add("-"+f.Short, f.Usage)
			}
		}
		return out.starting(typed)
	}
	if len(own) > 0 {
		out = positional(app, own)
		if slices.Contains([]string{"use", "remove"}, own[len(own)-1]) && own[0] == "toolchain" {
			out.toolkits(m)
		}
		return out.starting(typed)
	}
	if !ofCargo {
		out.commands(app.VisibleCommands())
		out.add("help", "what gpubuild knows of a verb or a topic")
	}
	out.words("cargo", cargo.VerbNames()...)
	return out.starting(typed)
}

func findFlag(known []Flag, word string) *Flag {
	name, _, _ := strings.Cut(word, "=")
	i := slices.IndexFunc(known, func(f Flag) bool { return f.Name != "" && name == "--"+f.Name || f.Short != "" && name == "-"+f.Short })
	if i < 0 {
		return nil
	}
	return &known[i]
}

// positional is what may stand behind a verb and its words.
func positional(app *cli.App, words []string) candidates {
	var c candidates
	verb, subverbs := words[0], words
	if verb == "help" {
		subverbs = words[1:]
	}
	v := Find(app, subverbs...)
	if len(subverbs) > 0 && ours(v) {
		c.commands(v.VisibleCommands())
	}
	switch {
	case len(c.list) > 0, verb == "help" && len(subverbs) > 0:
	case verb == "help":
		c.words("topic", topics...)
		c.commands(app.VisibleCommands())
		c.words("cargo", cargo.VerbNames()...)
	case verb == "explain":
		c.files = true
		if rules, err := explain.Default(); err == nil {
			for _, r := range rules.All {
				c.add(r.ID, explain.Stages[r.Stage])
			}
		}
	case ours(v): // by its usage: github|gitlab, [VERSION|DIR|default]
		for _, choice := range strings.FieldsFunc(v.ArgsUsage, func(r rune) bool { return strings.ContainsRune("[]|. ", r) }) {
			if strings.ToLower(choice) == choice {
				c.add(choice, "")
			}
			c.files = c.files || slices.Contains([]string{"FILE", "DIR", "PROGRAM", "LOG"}, choice)
		}
	case cargo.PurposeOf(verb).Compiles() && cargo.PurposeOf(verb) != cargo.Runs,
		slices.Contains([]string{"update", "tree", "metadata"}, verb):
		// no words of their own, or names that only the compiler knows
	default:
		c.files = true
	}
	return c
}

// values is what may stand behind a flag.
func values(m *session.Machine, f Flag, typed string, before []string) candidates {
	var c candidates
	head := typed[:strings.LastIndexByte(typed, ',')+1] // some flags take several, with commas
	switch f.key() {
	case "fail-on", "gpu-fail-on":
		for _, alert := range gpu.AlertKinds {
			c.add(head+alert, "")
		}
	case "features":
		given := strings.Split(head, ",")
		for _, p := range packages(m, before) {
			names := make([]string, 0, len(p.Features))
			for f := range p.Features {
				if !slices.Contains(given, f) && !strings.HasPrefix(f, "_") {
					names = append(names, f)
				}
			}
			sort.Strings(names)
			for _, f := range names {
				c.add(head+f, strings.TrimSpace(p.Name+" "+strings.Join(p.Features[f], " ")))
			}
		}
	case "package", "exclude":
		for _, p := range packages(m, nil) {
			c.add(p.Name, "")
		}
	case "color":
		c.words("", "auto", "always", "never")
	case "shell":
		c.words("", buildenv.Shells()...)
	case "gpu-arch", "arch":
		c.words("", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
	case "on", "gpu-on":
		c.words("", "ssh:", "slurm")
	case "gpu-toolkit", "toolkit":
		c.add("fetch", "get one into your cache, without admin rights")
		c.toolkits(m)
		c.files = true
	case "manifest-path", "target-dir", "artifact-dir", "config", "C":
		c.files = true
	default:
		if choices := strings.Split(f.Holder, "|"); len(choices) > 1 && f.Holder == strings.ToLower(f.Holder) {
			c.words("", choices...)
		} else if strings.Contains(f.Holder, "FILE") || strings.Contains(f.Holder, "PATH") {
			c.files = true
		}
	}
	return c
}

// packages are those of the project that the words speak of; no words: all. Without a manifest that can be read there are none.
func packages(m *session.Machine, before []string) []*manifest.Package {
	line, _, err := cargo.Split(append([]string{}, before...), nil)
	if err != nil {
		return nil
	}
	s, err := session.Open(m, line)
	if err != nil {
		return nil
	}
	if before == nil {
		return s.Project.Members
	}
	selected, _ := s.Project.Selection(s.Request())
	return selected
}
