package help

import (
	"cmp"
	_ "embed"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// Each shell gets a script that asks `gpubuild completion words -- WORD…` what may stand where the cursor is; one answer serves them all.
var (
	//go:embed completion/gpubuild.bash
	completionBash string
	//go:embed completion/gpubuild.zsh
	completionZsh string
	//go:embed completion/gpubuild.fish
	completionFish string
	//go:embed completion/gpubuild.ps1
	completionPwsh string
)

// Script answers a shell's completion script, or the manual page.
func (p Pages) Script(name string) (string, bool) {
	switch name {
	case "bash":
		return completionBash, true
	case "zsh":
		return completionZsh, true
	case "fish":
		return completionFish, true
	case "pwsh", "powershell":
		return completionPwsh, true
	case "man":
		return p.Manual(), true
	}
	return "", false
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

// text is what the scripts read: a candidate a line, its meaning behind a tab, and ":files" at the end.
func (c candidates) text() string {
	var b strings.Builder
	for _, e := range c.list {
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

// switchOf is a flag as completion knows it: cargo's or ours.
type switchOf struct {
	name, about string
	short       string // with its hyphen
	takes       bool   // a value follows
	attached    bool   // the value stands behind =, if there is one
	holder      string // of ours: what help calls the value
}

// switchesOf lists the flags of a verb; "" is the place before any verb, where both a verb and the flags of build may stand.
func (p Pages) switchesOf(word string) []switchOf {
	var out []switchOf
	addCargo := func(verb string) {
		for _, n := range cargo.Names(verb) {
			s := switchOf{takes: n.Value, attached: n.Attached}
			if n.Long != "" {
				s.name = "--" + n.Long
			}
			if n.Short != 0 {
				s.short = "-" + string(n.Short)
			}
			out = append(out, s)
		}
	}
	addOwn := func(flags []Flag) {
		for _, f := range flags {
			out = append(out, switchOf{
				name: "--" + f.Name, about: f.Meaning, takes: f.Kind != cargo.Switch, attached: f.Kind == cargo.Optional, holder: f.Holder,
			})
		}
	}
	if v, ok := p.Find(word); ok {
		addOwn(v.Flags)
		for _, sub := range v.Verbs {
			addOwn(sub.Flags)
		}
		out = append(out, switchOf{name: "--help", short: "-h", about: "print help"})
		if v.Project {
			addCargo("build")
		}
		return out
	}
	if word == "" {
		addCargo("")
		word = "build"
	}
	addOwn(p.Cargo)
	addCargo(word)
	return out
}

// Complete answers, in the form that the scripts read, what may stand at the cursor. words are those after gpubuild; the last one is being
// typed and may be empty.
func (p Pages) Complete(m *session.Machine, words []string) string {
	return p.complete(m, words).text()
}

func (p Pages) complete(m *session.Machine, words []string) candidates {
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
	verb, rest, previous := "", 0, switchOf{}
	known := p.switchesOf("")
	for _, w := range before {
		if w == "--" {
			return candidates{files: true}
		}
		if previous.takes {
			previous = switchOf{}
			continue
		}
		if strings.HasPrefix(w, "-") {
			if s, ok := findSwitch(known, w); ok && !s.attached && !strings.Contains(w, "=") {
				previous = s
			}
			continue
		}
		if verb == "" {
			verb = w
			if verb == "cargo" && rest == 0 { // gpubuild cargo …: the next word is cargo's verb
				verb, rest = "", -1
				continue
			}
			known = p.switchesOf(verb)
			continue
		}
		rest++
	}
	if previous.takes {
		return values(m, previous, typed, before).starting(typed)
	}
	if name, value, ok := strings.Cut(typed, "="); ok && strings.HasPrefix(name, "--") {
		s, known := findSwitch(known, name)
		if !known || !s.takes {
			return candidates{}
		}
		out := values(m, s, value, before).starting(value)
		for i := range out.list {
			out.list[i].word = name + "=" + out.list[i].word
		}
		return out
	}
	var out candidates
	if strings.HasPrefix(typed, "-") {
		for _, s := range known {
			if s.name != "" {
				out.add(s.name, s.about)
			}
			if s.short != "" && !strings.HasPrefix(typed, "--") {
				out.add(s.short, s.about)
			}
		}
		return out.starting(typed)
	}
	if verb == "" {
		if rest == 0 {
			for _, v := range p.Verbs {
				out.add(v.Name, v.Usage)
			}
			out.add("cargo", "plain cargo, whatever the words are")
			out.add("help", "what gpubuild knows of a verb or a topic")
		}
		out.words("cargo", cargo.VerbNames()...)
		return out.starting(typed)
	}
	return p.positional(verb, rest).starting(typed)
}

func findSwitch(known []switchOf, word string) (switchOf, bool) {
	name, _, _ := strings.Cut(word, "=")
	for _, s := range known {
		if s.name == name || s.short == name {
			return s, true
		}
	}
	return switchOf{}, false
}

// positional is what may stand as a verb's own word.
func (p Pages) positional(verb string, n int) candidates {
	var c candidates
	if v, ok := p.Find(verb); ok && len(v.Verbs) > 0 && n == 0 {
		for _, sub := range v.Verbs {
			c.add(sub.Name, sub.Usage)
		}
		return c
	}
	switch verb {
	case "completion":
		c.words("", "bash", "zsh", "fish", "pwsh", "man")
	case "help":
		c.words("topic", topics...)
		for _, v := range p.Verbs {
			c.add(v.Name, v.Usage)
		}
	case "explain":
		c.files = true
		if rules, err := explain.Default(); err == nil {
			for _, r := range rules.All {
				c.add(r.ID, r.Stage)
			}
		}
	case "build", "check", "doc", "features", "doctor", "env", "stale", "init", "cache", "ci", "version", "update", "tree",
		"metadata", "test", "bench":
		// no words of their own, or names that only the compiler knows
	default:
		c.files = true
	}
	return c
}

// values is what may stand behind a flag.
func values(m *session.Machine, s switchOf, typed string, before []string) candidates {
	var c candidates
	name := cmp.Or(s.name, s.short)
	switch name {
	case "--features":
		// cargo takes several behind one flag, with commas
		head := ""
		if i := strings.LastIndexByte(typed, ','); i >= 0 {
			head = typed[:i+1]
		}
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
	case "--package", "--exclude":
		for _, p := range packages(m, nil) {
			c.add(p.Name, "")
		}
	case "--color":
		c.words("", "auto", "always", "never")
	case "--message-format":
		c.words("", "human", "short", "json", "json-diagnostic-short", "json-diagnostic-rendered-ansi", "json-render-diagnostics")
	case "--profile":
		c.words("", "dev", "release", "test", "bench")
	case "--shell":
		c.words("", append(buildenv.Shells(), "vscode-tasks")...)
	case "--gpu-arch", "--arch":
		c.words("", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
	case "--gpu-toolkit", "--toolkit":
		c.add("fetch", "get one into your cache, without admin rights")
		c.files = true
	case "--manifest-path", "--target-dir", "--artifact-dir", "--config", "-C":
		c.files = true
	default:
		if choices := strings.Split(s.holder, "|"); len(choices) > 1 && s.holder == strings.ToLower(s.holder) {
			c.words("", choices...)
		} else if strings.Contains(s.holder, "FILE") || strings.Contains(s.holder, "PATH") {
			c.files = true
		}
	}
	return c
}

// packages are those of the project that the words speak of: the chosen one where -p names one, else all. Without a manifest that can be
// read there is nothing to complete.
func packages(m *session.Machine, before []string) []*manifest.Package {
	file, wanted := "", ""
	for i, w := range before {
		next := ""
		if i+1 < len(before) {
			next = before[i+1]
		}
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			value = next
		}
		switch name {
		case "--manifest-path":
			file = m.Host.Abs(value)
		case "-p", "--package":
			wanted = value
		}
	}
	if file == "" {
		var err error
		if file, err = manifest.Find(m.Host, m.Host.Dir(m.Host.Abs("x"))); err != nil {
			return nil
		}
	}
	p, err := manifest.Load(m.Host, file)
	if err != nil {
		return nil
	}
	if wanted == "" && p.Selected != nil && before != nil {
		return []*manifest.Package{p.Selected}
	}
	var out []*manifest.Package
	for _, m := range p.Members {
		if wanted == "" || m.Name == wanted {
			out = append(out, m)
		}
	}
	return out
}
