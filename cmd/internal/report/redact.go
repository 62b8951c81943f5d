package report

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/receipt"
)

// withArgs is the flag by which the user has arguments of programs stored, on our own verbs and on cargo's.
var withArgs = []string{"--with-args", "--gpu-with-args"}

// Redact leaves of a command line what may be stored: of --config NAME=VALUE, which may be a registry's token, the name, and of a program's
// arguments their hash, unless the user wants them to be stored.
func Redact(words []string) []string {
	own, program := programArgs(words)
	out := make([]string, 0, len(words))
	value, store := false, slices.ContainsFunc(own, func(w string) bool { return slices.Contains(withArgs, w) })
	for _, w := range own {
		name, args, _ := strings.Cut(w, "=")
		switch {
		case value:
			w, value = redacted(w), false
		case w == "--config":
			value = true
		case name == "--config":
			w = "--config=" + redacted(args)
		case !store && args != "" && (name == "--gpu-prove" || name == "--gpu-audit"):
			w = name + "=" + receipt.Hidden([]string{args})[0]
		}
		out = append(out, w)
	}
	if store {
		return append(out, program...)
	}
	return append(out, receipt.Hidden(program)...)
}

// valued are flags that stand before the arguments of `run` and whose value is the next word. One that is missing here hides more.
var valued = strings.Fields("-p --package --bin --example -F --features -j --jobs --profile --target --target-dir --manifest-path " +
	"--message-format --color --config -Z -C --lockfile-path --gpu-toolkit --gpu-arch --gpu-ccbin --gpu-backend --gpu-kernel " +
	"--gpu-expect-exit --gpu-device --gpu-child --gpu-expect --gpu-timeout --gpu-probe --gpu-cupti --gpu-receipt --gpu-sarif " +
	"--gpu-junit --gpu-fail-on")

// programArgs separates gpubuild's and cargo's words from those of the program: behind --, and with run from the first that is no flag.
func programArgs(words []string) (own, program []string) {
	verb, value := "", false
	for i, w := range words {
		switch {
		case w == "--":
			return words[:i+1], words[i+1:]
		case i == 0 || value: // our own name
			value = false
		case strings.HasPrefix(w, "-"):
			value = slices.Contains(valued, w)
		case strings.HasPrefix(w, "+") && i == 1:
		case verb == "":
			verb = w
		case verb == "run" || verb == "r":
			return words[:i], words[i:]
		}
	}
	return words, nil
}

// redactor does the same for texts that repeat the command line or a variable: the commands in findings, what is stale and why.
func redactor(words []string, env buildenv.Env) *strings.Replacer {
	var pairs []string
	own, program := programArgs(words)
	for i, w := range Redact(own) {
		if was, is := strings.TrimPrefix(own[i], "--config="), strings.TrimPrefix(w, "--config="); was != is {
			pairs = append(pairs, was, is)
		}
	}
	if slices.ContainsFunc(own, func(w string) bool { return slices.Contains(withArgs, w) }) {
		return strings.NewReplacer(pairs...)
	}
	if len(program) > 0 {
		pairs = append(pairs, "-- "+buildenv.PosixWords(program...), "-- …", "-- "+strings.Join(program, " "), "-- …",
			"-- "+buildenv.Words(buildenv.Windows, program...), "-- …")
	}
	for _, name := range stale.Hidden {
		if value := env.Get(name); len(value) > 3 { // a shorter one is a part of other words
			pairs = append(pairs, value, receipt.Hidden([]string{value})[0])
		}
	}
	return strings.NewReplacer(pairs...)
}

// redact leaves of a result what may be stored.
func (r Result) redact(words []string, env buildenv.Env) Result {
	texts := redactor(words, env)
	r.Findings, r.Stale = slices.Clone(r.Findings), slices.Clone(r.Stale)
	for i, f := range r.Findings {
		g := &r.Findings[i]
		g.Message, g.Fix, g.Evidence = texts.Replace(f.Message), texts.Replace(f.Fix), texts.Replace(f.Evidence)
	}
	for i, line := range r.Stale {
		r.Stale[i] = texts.Replace(line)
	}
	return r
}

func redacted(setting string) string {
	if key, _, ok := strings.Cut(setting, "="); ok {
		return key + "=…"
	}
	return setting
}
