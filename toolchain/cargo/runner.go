package cargo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// RunnerVar names the variable that puts a runner in front of what cargo run, test and bench start for a target.
func RunnerVar(triple string) string {
	return "CARGO_TARGET_" + strings.ToUpper(strings.ReplaceAll(triple, "-", "_")) + "_RUNNER"
}

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

// PrintCfg asks which cfg conditions hold for a target.
func PrintCfg(h buildenv.Host, t Tool, l Line, triple string) (buildenv.Cmd, error) {
	return rustc(h, t, l, "--print", "cfg", "--target", triple)
}

// rustc is $RUSTC or the one on PATH. A build.rustc of the configuration is not looked at.
func rustc(h buildenv.Host, t Tool, l Line, args ...string) (buildenv.Cmd, error) {
	if p := t.Env.Get("RUSTC"); p != "" && strings.ContainsAny(p, `/\`) {
		return buildenv.Cmd{Path: l.absolute(h, t, p), Args: args, Dir: t.Dir, Env: t.Env.Entries()}, nil
	}
	h.Env = t.Env
	p, err := h.LookPath("rustc")
	if err != nil {
		return buildenv.Cmd{}, exit.Errorf(exit.Missing, "install Rust (https://rustup.rs) or add rustc's directory to PATH",
			"no cargo: rustc is in no directory of PATH")
	}
	return buildenv.Cmd{Path: p, Args: l.prefixed(args...), Dir: t.Dir, Env: t.Env.Entries()}, nil
}

// Runner is the user's own runner for a target, which ours must call in its turn.
type Runner struct {
	Words  []string // empty: none. A program with a directory in its name is absolute
	Origin string   // variable, configuration file or "--config"
	Text   bool     // written as one string, which cargo splits at white space

	cli        bool   // given by --config, itself or in a file that it names: beats the variable
	textBeside string // a configuration that holds a string for this target even if something else beats it: a list cannot be added to it
}

// UserRunner says which runner cargo would use for a target: --config, then the variable, then files; a target's own table before a
// cfg(…) one. Cargo is asked (config get, unstable, so under RUSTC_BOOTSTRAP=1; it writes nothing) only if a configuration speaks of a
// runner at all.
func UserRunner(ctx context.Context, h buildenv.Host, run runner, t Tool, l Line, triple string) (Runner, error) {
	name := RunnerVar(triple)
	var fromEnv Runner
	if v := strings.Fields(t.Env.Get(name)); len(v) > 0 {
		v[0] = program(h, l.cwd(h, t), v[0])
		fromEnv = Runner{Words: v, Origin: name, Text: true}
	}
	if mayHold(h, t, l, "runner", "") == "" {
		return fromEnv, nil
	}
	cmd := configGet(t, l, "target", false)
	out, set, err := configValue(ctx, run, cmd)
	if err != nil {
		return Runner{}, err
	}
	if !set {
		return fromEnv, nil
	}
	tables, err := parseRunners(out)
	if err != nil {
		return Runner{}, misunderstood(cmd, "no configuration", err)
	}
	own, has := tables[triple]
	if has && own.Text {
		own.textBeside, fromEnv.textBeside = own.Origin, own.Origin
	}
	for _, c := range l.Config {
		own.cli = own.cli || own.Origin == "--config" ||
			!strings.Contains(c, "=") && h.SamePath(l.absolute(h, t, c), l.absolute(h, t, own.Origin))
	}
	switch {
	case has && own.cli:
		return own.resolved(h, l.cwd(h, t)), nil
	case len(fromEnv.Words) > 0:
		return fromEnv, nil
	case has:
		return own.resolved(h, l.cwd(h, t)), nil
	}
	return cfgRunner(ctx, h, run, t, l, triple, tables)
}

// cfgRunner finds the runner among cfg(…) tables.
func cfgRunner(ctx context.Context, h buildenv.Host, run runner, t Tool, l Line, triple string, tables map[string]Runner) (Runner, error) {
	var keys []string
	for k := range tables {
		if strings.HasPrefix(k, "cfg(") {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return Runner{}, nil
	}
	sort.Strings(keys)
	cmd, err := PrintCfg(h, t, l, triple)
	if err != nil {
		return Runner{}, err
	}
	res, err := ask(ctx, run, cmd, Request{})
	if err != nil {
		return Runner{}, err
	}
	cfgs := ParseCfgs(res.Stdout)
	var found Runner
	var by string
	for _, k := range keys {
		ok, err := cfgs.Match(k)
		if err != nil {
			return Runner{}, fmt.Errorf("%s: target table %w", tables[k].Origin, err)
		}
		if ok && by != "" {
			return Runner{}, exit.Usagef("keep one of them, as cargo asks for too, or set "+RunnerVar(triple),
				"two runners fit %s: target.'%s' and target.'%s'", triple, by, k)
		}
		if ok {
			found, by = tables[k].resolved(h, l.cwd(h, t)), k
		}
	}
	return found, nil
}

// resolved makes the program's path absolute by cargo's rule: relative to the directory that holds .cargo, or to where cargo works.
func (r Runner) resolved(h buildenv.Host, cwd string) Runner {
	if len(r.Words) == 0 {
		return r
	}
	if r.Origin != "--config" {
		if cwd = h.Dir(h.Dir(h.Join(cwd, r.Origin))); h.IsAbs(r.Origin) {
			cwd = h.Dir(h.Dir(r.Origin))
		}
	}
	r.Words = slices.Clone(r.Words)
	r.Words[0] = program(h, cwd, r.Words[0])
	return r
}

// program is a runner's first word: one with a separator is a path, another is looked for on PATH by cargo and by us.
func program(h buildenv.Host, root, word string) string {
	if strings.Contains(word, "/") || h.OS == buildenv.Windows && strings.Contains(word, `\`) {
		return h.From(root, word)
	}
	return word
}

// parseRunners reads `cargo config get --show-origin target`: TOML with each value's file in a comment.
func parseRunners(out []byte) (map[string]Runner, error) {
	var doc struct {
		Target map[string]map[string]any `toml:"target"`
	}
	if _, err := toml.Decode(string(out), &doc); err != nil {
		return nil, err
	}
	origins := map[string]string{}
	key := ""
	for _, line := range strings.Split(string(out), "\n") {
		if i := strings.Index(line, ".runner = "); i > 0 {
			key = line[:i+len(".runner")]
		} else if !strings.HasPrefix(line, " ") {
			key = ""
		}
		if i := strings.LastIndex(line, " # "); i > 0 && key != "" && origins[key] == "" {
			origins[key] = strings.TrimSpace(line[i+3:])
		}
	}
	found := map[string]Runner{}
	for name, table := range doc.Target {
		var r Runner
		switch v := table["runner"].(type) {
		case string:
			r = Runner{Words: strings.Fields(v), Text: true}
		case []any:
			for _, w := range v {
				s, ok := w.(string)
				if !ok {
					return nil, errors.New("a runner's words are not all text")
				}
				r.Words = append(r.Words, s)
			}
		default:
			continue
		}
		for k, o := range origins {
			var probe struct {
				Target map[string]map[string]any `toml:"target"`
			}
			if _, err := toml.Decode(k+" = 0", &probe); err == nil && probe.Target[name] != nil {
				r.Origin = o
			}
		}
		if r.Origin == "" || strings.HasPrefix(r.Origin, "--config") {
			r.Origin = "--config"
		}
		found[name] = r
	}
	return found, nil
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
	if !user.Text || spaced {
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

// WithDirectories has cargo build in a directory where the environment alone would not: --target-dir and --config go before it.
func (l Line) WithDirectories(dir string) Line {
	n := l
	n.items = slices.Clone(l.items)
	for i, it := range n.items {
		if it.has("--target-dir") {
			n.items[i] = item{words: []string{"--target-dir", dir}, flags: []Flag{{"--target-dir", dir, true}}}
			n.TargetDir = dir
		}
	}
	n.Args = nil
	for _, it := range n.items {
		n.Args = append(n.Args, it.words...)
	}
	if slices.ContainsFunc(l.Config, func(c string) bool { return strings.Contains(c, "build-dir") || !strings.Contains(c, "=") }) {
		n = n.WithConfig("build.build-dir=" + buildenv.TOMLString(dir))
	}
	return n
}

// WithConfig adds a --config that beats all others of the line. Cargo forgets
// those before the verb when one stands after it, so they come along.
func (l Line) WithConfig(setting string) Line {
	at := 0
	for i, it := range l.items {
		if it.has("--config") {
			at = i + 1
		}
	}
	settings := []string{setting}
	if at == 0 {
		settings = append(slices.Clone(l.Config), setting)
	}
	var added []item
	for _, s := range settings {
		added = append(added, item{words: []string{"--config", s}, flags: []Flag{{"--config", s, true}}})
	}
	n := l
	n.items = slices.Concat(l.items[:at], added, l.items[at:])
	n.Args, n.Config = nil, nil
	for _, it := range n.items {
		n.Args = append(n.Args, it.words...)
	}
	for _, f := range n.flags() {
		if f.Name == "--config" {
			n.Config = append(n.Config, f.Value)
		}
	}
	return n
}
