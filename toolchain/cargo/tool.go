package cargo

import (
	"bytes"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// Tool is the cargo that is called, and from where.
type Tool struct {
	Path   string       // cargo's absolute path
	Origin string       // why this one
	Env    buildenv.Env // the environment of every call
	Dir    string       // the directory of every call: cargo's configuration follows it
}

// Find says which cargo a command line means: $CARGO, which cargo sets for its subcommands, else the one on PATH. With +toolchain it is
// always the one on PATH, since $CARGO names a toolchain's own cargo and only rustup's proxy understands the word.
//
// A project in which cargo or rustup would read for ever, or until no memory is left, is an error, and so is a cargo that is gpubuild, by a
// link or a script: each would start the next one without end.
func Find(h buildenv.Host, l Line) (Tool, error) {
	t := Tool{Env: h.Env, Dir: h.Cwd}
	if level(h.Env) >= maxLevel {
		return t, exit.Errorf(exit.Missing, "let CARGO, or the first cargo of PATH, be the real cargo",
			"no cargo: each cargo that gpubuild starts is gpubuild again")
	}
	if err := readable(h, t, l); err != nil {
		return t, exit.Errorf(exit.Config, "put a regular file of a sensible size in its place", "%w", err)
	}
	if v := h.Env.Get("CARGO"); v != "" && l.Toolchain == "" {
		if !h.IsAbs(v) {
			v = h.Abs(v)
		}
		if !h.IsFile(v) {
			return Tool{}, exit.Errorf(exit.Missing, "unset CARGO, or set it to a cargo that is there",
				"no cargo: CARGO names %s, which is no file", v)
		}
		t.Path, t.Origin = v, "CARGO"
		return t, nil
	}
	p, err := h.LookPath("cargo")
	if err != nil {
		why, fix := "it is in no directory of PATH", "install Rust (https://rustup.rs) or add cargo's directory to PATH"
		// A service, a cron job, an IDE started from a menu: the shell's profile, in which rustup puts it, was not read.
		if dir := h.Join(Home(h, t), "bin"); h.ProgramIn(dir, "cargo") != "" {
			why, fix = "it lies in "+dir+", which PATH does not have here", "add "+dir+" to PATH"
		}
		return Tool{}, exit.Errorf(exit.Missing, fix, "no cargo: %s", why)
	}
	t.Path, t.Origin = p, "PATH"
	return t, nil
}

// readable checks the files that cargo and rustup look for in the directories from the current one, and that of the manifest, upwards.
func readable(h buildenv.Host, t Tool, l Line) error {
	for _, path := range ConfigFiles(h, t, l) {
		if err := h.Check(path, buildenv.Config); err != nil {
			return err
		}
	}
	cwd := l.cwd(h, t)
	starts := []string{cwd}
	if l.ManifestPath != "" {
		starts = append(starts, h.Dir(h.From(cwd, l.ManifestPath)))
	}
	for _, start := range starts {
		below := false // there was a manifest: only one with a workspace may have the Cargo.lock
		for dir := range h.Upwards(start) {
			kinds := []buildenv.Kind{buildenv.Manifest, buildenv.Toolchain}
			text, err := h.ReadFile(h.Join(dir, buildenv.ManifestFile), buildenv.Manifest)
			if err == nil && (!below || bytes.Contains(text, []byte("workspace"))) {
				kinds = append(kinds, buildenv.Lock)
			}
			below = below || err == nil
			for _, kind := range kinds {
				for _, name := range kind.Names {
					if err := h.Check(h.Join(dir, name), kind); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// With returns the tool with another environment.
func (t Tool) With(env buildenv.Env) Tool { t.Env = env; return t }

// levelVar counts how many gpubuild stand one in another: in each cargo's environment, one more than in its gpubuild's. A few are honest: cargo
// run starts a program that calls gpubuild.
const (
	levelVar = "GPUBUILD_LEVEL"
	maxLevel = 8
)

func level(env buildenv.Env) int {
	n, _ := strconv.Atoi(env.Get(levelVar)) // nobody else sets it; anything but a number is none
	return n
}

func (t Tool) cmd(env buildenv.Env, args []string) buildenv.Cmd {
	env = env.Set(levelVar, strconv.Itoa(level(t.Env)+1))
	return buildenv.Cmd{Path: t.Path, Args: args, Dir: t.Dir, Env: env.Entries()}
}

// question is the environment for a call that only asks: nothing of it hides cargo's own words from us or wakes unstable settings.
func (t Tool) question() buildenv.Env {
	e := t.Env.Asking()
	for _, n := range t.unstableVars() {
		e = e.Unset(n)
	}
	return e.Set("CARGO_TERM_QUIET", "false").Set("CARGO_TERM_VERBOSE", "false") // over a file's term.quiet, too
}

// unstableVars lists variables that set [unstable] keys.
func (t Tool) unstableVars() []string {
	var out []string
	for _, n := range t.Env.Names() {
		if strings.HasPrefix(strings.ToUpper(n), "CARGO_UNSTABLE_") {
			out = append(out, n)
		}
	}
	return out
}

// VersionInfo is what cargo says of itself.
type VersionInfo struct {
	Text    string // first line: "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"
	Release string // "1.95.0", "1.97.0-nightly"
	Host    string // the triple that is built for without --target
	Minor   int    // 95; 0 when it could not be read
}

// Nightly reports whether unstable settings are in force with this cargo.
func (v VersionInfo) Nightly() bool {
	return strings.HasSuffix(v.Release, "-nightly") || strings.HasSuffix(v.Release, "-dev")
}

// Version asks cargo for its version and the host triple.
func Version(t Tool, l Line) buildenv.Cmd { return t.cmd(t.Env.Asking(), l.prefixed("-Vv")) }

// ParseVersion reads the answer to Version; rustc -vV is answered in the same form.
func ParseVersion(out []byte) (VersionInfo, bool) {
	var v VersionInfo
	for i, line := range bytes.Split(out, []byte("\n")) {
		s := strings.TrimSpace(string(line))
		if i == 0 {
			v.Text = s
		}
		if r, ok := strings.CutPrefix(s, "release: "); ok {
			v.Release = r
			if parts := strings.SplitN(r, ".", 3); len(parts) == 3 {
				if n, err := strconv.ParseUint(parts[1], 10, 16); err == nil {
					v.Minor = int(n)
				}
			}
		}
		if h, ok := strings.CutPrefix(s, "host: "); ok {
			v.Host = h
		}
	}
	return v, v.Host != ""
}

// prefixed puts the toolchain word before the others.
func (l Line) prefixed(words ...string) []string {
	if l.Toolchain == "" {
		return words
	}
	return append([]string{"+" + l.Toolchain}, words...)
}
