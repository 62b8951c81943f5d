package cargo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// RunnerVar names the variable that puts a runner in front of what cargo run, test and bench start for a target.
func RunnerVar(triple string) string { return variable("target", triple, "runner") }

// Triple is the name by which configuration knows a --target: a specification file counts by its name without .json, "host-tuple" and
// nothing are the host.
func Triple(target, host string) string {
	if target == "" || target == "host-tuple" {
		return host
	}
	if base, ok := strings.CutSuffix(target, ".json"); ok {
		return base[strings.LastIndexAny(base, `/\`)+1:]
	}
	return target
}

// RustcVersion asks rustc for its version and host: what cargo builds for without --target. ParseVersion reads the answer.
func RustcVersion(h buildenv.Host, t Tool, l Line) (buildenv.Cmd, error) {
	return rustc(h, t, l, "-vV")
}

// rustc is $RUSTC or the one on PATH. A build.rustc of the configuration is not looked at.
func rustc(h buildenv.Host, t Tool, l Line, args ...string) (buildenv.Cmd, error) {
	if p := t.Env.Get("RUSTC"); p != "" && strings.ContainsAny(p, `/\`) {
		return buildenv.Cmd{Path: l.absolute(h, t, p), Args: args, Dir: t.Dir, Env: t.Env.Asking().Entries()}, nil
	}
	h.Env = t.Env
	p, err := h.LookPath("rustc")
	if err != nil {
		return buildenv.Cmd{}, exit.Errorf(exit.Missing, "install Rust (https://rustup.rs) or add rustc's directory to PATH",
			"no cargo: rustc is in no directory of PATH")
	}
	return buildenv.Cmd{Path: p, Args: l.prefixed(args...), Dir: t.Dir, Env: t.Env.Asking().Entries()}, nil
}

// Runner is the user's own runner for a target, which ours must call in its turn.
type Runner struct {
	Words []string // empty: none. A program with a directory in its name is absolute

	origin     string // configuration file, "--config", or empty
	text       bool   // written as one string, which cargo splits at white space
	cli        bool   // given by --config, itself or in a file that it names: beats the variable
	textBeside string // a configuration that holds a string for this target, whether it counts or not: a list cannot be added to it
}

// UserRunner says which runner cargo would use for a target: --config, then the variable, then files; a target's own table before a
// cfg(…) one.
func UserRunner(ctx context.Context, h buildenv.Host, run buildenv.Runner, t Tool, l Line, triple string) (Runner, error) {
	c := readConfig(h, t, l)
	text := ""
	for _, is := range c {
		if _, isText := is.get("target", triple, "runner").(string); isText && is.origin != "" {
			text = cmp.Or(text, is.origin)
		}
	}
	if v, is := c.find("target", triple, "runner"); v != nil {
		return runnerOf(h, l.cwd(h, t), v, is, text), nil
	}
	found := map[string]Runner{}
	for _, is := range c {
		tables, _ := is.table["target"].(map[string]any)
		for key := range tables {
			if v, is := c.find("target", key, "runner"); v != nil && strings.HasPrefix(key, "cfg(") {
				found[key] = runnerOf(h, l.cwd(h, t), v, is, "")
			}
		}
	}
	if len(found) == 0 {
		return Runner{}, nil
	}
	cmd, err := rustc(h, t, l, "--print", "cfg", "--target", triple)
	if err != nil {
		return Runner{}, err
	}
	res, err := ask(ctx, run, cmd, Request{})
	if err != nil {
		return Runner{}, err
	}
	cfgs, by := parseCfgs(res.Stdout), ""
	for _, key := range slices.Sorted(maps.Keys(found)) {
		fits, err := cfgs.match(key)
		switch {
		case err != nil:
			return Runner{}, fmt.Errorf("%s: target table %w", found[key].origin, err)
		case fits && by != "":
			return Runner{}, exit.Usagef("keep one of them, as cargo asks for too, or set "+RunnerVar(triple),
				"two runners fit %s: target.'%s' and target.'%s'", triple, by, key)
		case fits:
			by = key
		}
	}
	return found[by], nil
}

// runnerOf makes the program's path absolute by cargo's rule: relative to the directory that holds .cargo, or to where cargo works. One
// without a separator is looked for on PATH, by cargo and by us.
func runnerOf(h buildenv.Host, cwd string, v any, is layer, textBeside string) Runner {
	r := Runner{origin: is.origin, textBeside: textBeside, cli: is.cli}
	if r.Words, r.text = command(v); len(r.Words) == 0 {
		return r
	}
	if word := r.Words[0]; strings.Contains(word, "/") || h.OS == buildenv.Windows && strings.Contains(word, `\`) {
		r.Words[0] = h.From(cmp.Or(is.root, cwd), word)
	}
	return r
}

// WithRunner puts our runner in front: words are ours and then the user's own. The variable does where it can; a word with white space
// needs a list, which only --config can hold, and one that the user set by --config can only be beaten by a later one. Cargo does not
// merge a list with a string, so that a string in a file together with white space in our words is an *exit.UsageError.
func WithRunner(t Tool, l Line, triple string, words []string, user Runner) (Tool, Line, error) {
	spaced := slices.ContainsFunc(words, func(w string) bool { return w == "" || strings.ContainsAny(w, " \t\r\n\v\f") })
	if !spaced && !user.cli {
		t.Env = t.Env.Set(RunnerVar(triple), strings.Join(words, " "))
		return t, l, nil
	}
	if spaced && user.textBeside != "" {
		return t, l, exit.Usagef(`write it as a list there: runner = ["program", "argument"]`,
			"the runner of %s in %s is a string, and ours has spaces in its path", triple, user.textBeside)
	}
	value := buildenv.TOMLString(strings.Join(words, " "))
	if !user.text || spaced {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = buildenv.TOMLString(w)
		}
		value = "[" + strings.Join(quoted, ", ") + "]"
	}
	// the variable would only be in the way of what stands in --config
	t.Env = t.Env.Unset(RunnerVar(triple))
	return t, l.WithConfig("target." + buildenv.TOMLString(triple) + ".runner=" + value), nil
}
