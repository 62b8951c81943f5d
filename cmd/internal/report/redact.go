package report

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/toolchain/cargo"
)

// withArgs is the flag by which the user has arguments of programs stored, on our own verbs and on cargo's.
var withArgs = []string{"--with-args", "--gpu-with-args"}

// Redact leaves of a command line what may be stored: of --config NAME=VALUE, which may be a registry's token, the name; and of a program's
// arguments their hash, unless the user wants them to be stored. Of a line that could not be parsed (no parts) only the subcommand is left.
func Redact(words []string, parts []cargo.Part) []string {
	out := []string{"gpubuild"}
	if parts == nil {
		at := verbs(words)
		return append(append(out, words[:at]...), receipt.Hidden(words[at:])...)
	}
	var program []string
	store := storesArgs(parts)
	for _, p := range parts {
		if p.Kind == cargo.ProgramPart && !store {
			program = append(program, p.Words...)
			continue
		}
		out, program = append(out, receipt.Hidden(program)...), nil
		out = append(out, redacted(p, store)...)
	}
	return append(out, receipt.Hidden(program)...)
}

// verbs is 1 where a line begins with its subcommand, and 0 otherwise.
func verbs(words []string) int {
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") && !strings.HasPrefix(words[0], "+") {
		return 1
	}
	return 0
}

func storesArgs(parts []cargo.Part) bool {
	return slices.ContainsFunc(parts, func(p cargo.Part) bool { return p.Kind == cargo.OwnPart && slices.Contains(withArgs, p.Words[0]) })
}

// redacted is a part that is no argument of a program.
func redacted(p cargo.Part, store bool) []string {
	words, last := slices.Clone(p.Words), len(p.Words)-1
	name, value, _ := strings.Cut(words[0], "=")
	switch {
	case p.Kind == cargo.SettingPart && name == words[last]: // --config alone
	case p.Kind == cargo.SettingPart, strings.HasSuffix(name, "send-env"): // which takes a name alone
		flag, setting := "", words[last]
		if last == 0 {
			flag, setting = name+"=", value
		}
		if key, _, is := strings.Cut(setting, "="); is {
			words[last] = flag + key + "=…"
		}
	case p.Kind == cargo.OwnPart && !store && value != "" && (name == "--gpu-prove" || name == "--gpu-audit"): // arguments of the program
		words[0] = name + "=" + receipt.Hidden([]string{value})[0]
	}
	for i := range words {
		words[i] = withoutUser(words[i])
	}
	return words
}

// userinfo and a query of this length are where a password or a token may stand in a URL.
var (
	userinfo = lazyregexp.New(`://[^/?#\s"'\\]*@`)
	query    = lazyregexp.New(`(://[^?#\s"'\\]*\?)[^#\s"'\\]{12,}`)
)

// withoutUser hides who reads the URLs of a text.
func withoutUser(text string) string {
	return query.ReplaceAllString(userinfo.ReplaceAllString(text, "://…@"), "${1}…")
}

// redactor does the same for texts that repeat the command line or a variable: the commands in findings, what is stale and why.
func redactor(parts []cargo.Part, env buildenv.Env) *strings.Replacer {
	var pairs, program []string
	before := "" // the argument before the program's
	for _, p := range parts {
		if p.Kind == cargo.ProgramPart {
			program = append(program, p.Words...)
			continue
		}
		if len(program) == 0 {
			before = p.Words[len(p.Words)-1]
		}
		for i, is := range redacted(p, false) {
			if was := p.Words[i]; was != is {
				pairs = append(pairs, strings.TrimPrefix(was, "--config="), strings.TrimPrefix(is, "--config="))
			}
		}
	}
	if storesArgs(parts) {
		return strings.NewReplacer(pairs...)
	}
	if len(program) > 0 {
		for _, front := range []string{"--", before} {
			for _, typed := range []string{buildenv.PosixWords(program...), strings.Join(program, " "),
				buildenv.Words(buildenv.Windows, program...)} {
				pairs = append(pairs, front+" "+typed, front+" …")
			}
		}
	}
	for _, name := range stale.Hidden {
		if value := env.Get(name); len(value) > 3 { // a shorter one is a part of other words
			pairs = append(pairs, value, receipt.Hidden([]string{value})[0])
		}
	}
	return strings.NewReplacer(pairs...)
}

// unparsed hides all arguments that are not the names of subcommands or of long flags.
func unparsed(words []string) *strings.Replacer {
	var pairs []string
	for _, w := range words {
		if strings.HasPrefix(w, "--") {
			_, w, _ = strings.Cut(w, "=")
		}
		if len(w) > 3 && !slices.Contains(cargo.VerbNames(), w) { // a shorter one is a part of other words
			pairs = append(pairs, w, "…")
		}
	}
	return strings.NewReplacer(pairs...)
}

// redact leaves of a result what may be stored, and of long lines their beginning. Of a line that nobody has parsed, a text may repeat any argument.
func (r Result) redact(words []string, parts []cargo.Part, env buildenv.Env) Result {
	texts, rest := redactor(parts, env), strings.NewReplacer()
	if parts == nil {
		rest = unparsed(words[verbs(words):])
	}
	hide := func(list ...*string) {
		for _, t := range list {
			*t = console.Short(withoutUser(rest.Replace(texts.Replace(*t))))
		}
	}
	r.Findings, r.Checks, r.Stale = slices.Clone(r.Findings), slices.Clone(r.Checks), slices.Clone(r.Stale)
	for i := range r.Findings {
		hide(&r.Findings[i].Message, &r.Findings[i].Fix, &r.Findings[i].Evidence)
	}
	for i := range r.Checks {
		hide(&r.Checks[i].Message, &r.Checks[i].Detail)
	}
	for i := range r.Stale {
		hide(&r.Stale[i])
	}
	return r
}
