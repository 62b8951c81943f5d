package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/nvcc"
)

// noopKind names the cache entries of noopBuild; the number changes whenever what is kept does.
const noopKind = "repeat-2"

// noopBuild is a build that had nothing to do. It is kept with every path that was looked at for it, by its command line and environment:
// as long as all of these are the same, a build prints the same lines, and runs the same cargo between them.
type noopBuild struct {
	Plain    bool                    `json:"plain,omitempty"` // there is no GPU work: cargo runs as the user called it
	Before   string                  `json:"before"`          // what is printed before cargo runs
	After    string                  `json:"after"`
	Places   cargo.Places            `json:"places"`
	Cargo    string                  `json:"cargo"`
	Dir      string                  `json:"dir"`
	Set      map[string]string       `json:"set"` // the variables that cargo is run with and the user's environment does not have
	Unset    []string                `json:"unset"`
	Mode     string                  `json:"mode"` // of the kernel cache
	Scripts  map[string]fresh.Before `json:"scripts"`
	Programs map[string]string       `json:"programs"` // with what each was
}

// recording is what a build that may become a noopBuild is made of.
type recording struct {
	key   string
	files *memo.Recorder
	text  [2]strings.Builder // before cargo runs, and after
	ran   atomic.Int64       // processes
	puts  atomic.Int64
}

// counted counts the processes that are run.
type counted struct {
	session.Runner
	n *atomic.Int64
}

func (r counted) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	r.n.Add(1)
	return r.Runner.Run(ctx, c)
}

// mayBeNoop reports whether a command line may be one with nothing to do: a plain build, of which nothing is read by a program.
func (c Command) mayBeNoop() bool {
	o, line := c.Options, c.Line
	plain := !o.Audit && !o.Watch && !o.Proof.Wanted && !o.Proof.Required && o.Proof.On.Name == "" && !o.Files.Wanted() &&
		!o.Fresh.ForceClean
	return plain && (line.Verb == "build" || line.Verb == "check") && !line.WantsJSON() && c.Machine.Host.OS != buildenv.Windows &&
		c.Machine.NoCache == nil && c.Machine.Host.Env.Get("GITHUB_ACTIONS") == ""
}

// unread are the variables that differ from shell to shell and decide nothing.
var unread = []string{"PWD", "OLDPWD", "SHLVL", "_", nvcc.LogVariable}

func (c Command) noopKey() (string, error) {
	m := c.Machine
	self, err := cache.Identify(m.Self)
	if err != nil {
		return "", err
	}
	parts := []string{version.Number(), self.String(), m.Host.Cwd, c.Tool.Path, c.Tool.Dir, fmt.Sprint(m.Shell.Colour, m.Shell.ErrTerminal)}
	parts = append(append(parts, c.Line.Words()...), c.Args...)
	for _, name := range m.Host.Env.Names() {
		if !slices.Contains(unread, name) {
			parts = append(parts, name+"="+m.Host.Env.Get(name))
		}
	}
	return memo.Key(parts...), nil
}

// recorded is the command on a machine that records what is looked at.
func (c Command) recorded(key string) Command {
	r := &recording{key: key}
	m, shell := *c.Machine, *c.Machine.Shell
	m.Host, r.files = c.Machine.Memo().Record()
	m.Puts, m.Asking, m.Runner = &r.puts, m.Runner, counted{m.Runner, &r.ran}
	shell.OnLine = func(line string) { r.text[min(1, r.ran.Load())].WriteString(line) }
	m.Shell, c.Machine, c.watching = &shell, &m, r
	return c
}

// keep keeps a build that ended well, if it had nothing to do and nothing was learned in it.
func (r *recording) keep(c Command, done Result) error {
	m, b := c.Machine, done.Built
	compiled := func(msg cargo.Message) bool { return msg.Reason == cargo.Artifact && !msg.Fresh }
	if m.Silent != nil && m.Silent.Load() != nil && done.Proof.NotProven != "" {
		return nil // the driver may answer the next time
	}
	if done.Stale == nil || len(b.Messages) == 0 || slices.ContainsFunc(b.Messages, compiled) || b.Waited ||
		len(done.Stale.Cleaned()) > 0 ||
		len(done.Proof.Proofs) > 0 || r.ran.Load() != 1 || r.puts.Load() > 0 || !slices.Equal(done.Tools.Line.Words(), c.Line.Words()) {
		return nil
	}
	places := done.Features.Graph.Places
	e := noopBuild{Before: r.text[0].String(), After: r.text[1].String(), Places: places, Mode: done.kernels.mode,
		Cargo: done.Tools.Cargo.Path, Dir: done.Tools.Cargo.Dir, Set: map[string]string{}, Scripts: done.Stale.Before(), Programs: programs(b)}
	was, is := m.Host.Env, done.Tools.Cargo.With(done.kernels.env).Env
	for _, name := range is.Names() {
		if old, set := was.Lookup(name); name != nvcc.LogVariable && (!set || old != is.Get(name)) {
			e.Set[name] = is.Get(name)
		}
	}
	for _, name := range was.Names() {
		if _, set := is.Lookup(name); !set {
			e.Unset = append(e.Unset, name)
		}
	}
	for _, msg := range b.Messages {
		if !manifest.ParsePkgID(msg.PackageID).Local() { // never changes
			continue
		}
		for _, file := range compiledFrom(m, done.Session.Project.Root, msg) {
			_, _ = m.Host.Files.Stat(file)
		}
	}
	for _, dir := range m.Host.SplitList(is.Get("PATH")) { // our nvcc is still there
		m.Host.IsFile(m.Host.Join(dir, "nvcc"))
	}
	return r.put(m, e)
}

func (r *recording) put(m *session.Machine, e noopBuild) error {
	own := []string{"memo", "locks", "cargo"}
	for i, name := range own {
		own[i] = m.Host.Join(m.CacheDir, name)
	}
	inputs, old := r.files.Inputs(own...)
	if !old {
		return nil // the next build will know them by their times
	}
	return m.Memo().PutJSON(noopKind, r.key, inputs, e)
}

// savePlainNoop keeps that there is no GPU work, before cargo takes gpubuild's place.
func (c Command) savePlainNoop() {
	if r := c.watching; r != nil && r.ran.Load() == 0 && r.puts.Load() == 0 {
		if err := r.put(c.Machine, noopBuild{Plain: true, Before: r.text[0].String()}); err != nil { // costs time only
			c.Machine.Shell.Detail("the next build checks everything again: %v", err)
		}
	}
}

// saveNoop keeps a build that ended well for the next one like it.
func (c Command) saveNoop(done Result, err error) {
	if err != nil || c.watching == nil {
		return
	}
	if err = c.watching.keep(c, done); err != nil { // costs time only
		c.Machine.Shell.Detail("the next build checks everything again: %v", err)
	}
}

// tryNoop runs cargo as the last time, if nothing has changed since. With nothing to do for cargo either that is the whole build;
// otherwise the command goes on as if nothing had been tried: cargo runs a second time, and repeats its errors. What cargo compiles is
// among the inputs, so that this is rare: a file that is saved in between, a source that a package outside of this workspace includes.
func (c Command) tryNoop(ctx context.Context, key string) (done bool, err error) {
	m := c.Machine
	store := m.Memo()
	data, inputs, ok := store.Load(noopKind, key)
	var e noopBuild
	if !ok || json.Unmarshal(data, &e) != nil {
		return false, nil
	}
	if !e.Plain {
		unlock, err := fresh.Lock(ctx, m, e.Places)
		if err != nil {
			return false, nil
		}
		defer unlock()
	}
	if !store.Unchanged(inputs) {
		return false, nil
	}
	if e.Plain {
		m.Shell.Reprint(e.Before)
		return true, c.cargo(ctx, m.Host.Env)
	}
	m.Shell.Detail("nothing has changed since the last build of this command line")
	m.Shell.Reprint(e.Before)
	env := m.Host.Env
	for name, value := range e.Set {
		env = env.Set(name, value)
	}
	for _, name := range e.Unset {
		env = env.Unset(name)
	}
	k := kernels{mode: e.Mode, env: env}.logged(m)
	defer k.end(m)
	tool := cargo.Tool{Path: e.Cargo, Dir: e.Dir, Env: k.env}
	built, err := cargorun.Build(ctx, &session.Session{Machine: m, Line: c.Line}, tool, cargorun.Output{Other: m.Shell.Out})
	switch {
	case err == nil && e.same(m, built):
		m.Shell.Reprint(e.After)
		return true, nil
	case built.Interrupted:
		return true, err
	}
	if err := store.Remove(noopKind, key); err != nil { // costs time only
		m.Shell.Detail("the next build tries this again: %v", err)
	}
	return false, nil
}

// compiledFrom lists the files that rustc read for a package, and those that its build script named, by the list that cargo leaves next to
// what it made.
func compiledFrom(m *session.Machine, root string, msg cargo.Message) (out []string) {
	if msg.Reason != cargo.Artifact {
		return nil
	}
	for _, made := range msg.Filenames {
		dir, name := filepath.Split(made)
		name = strings.TrimSuffix(name, filepath.Ext(name))
		for _, list := range []string{name, strings.TrimPrefix(name, "lib")} {
			data, err := os.ReadFile(filepath.Join(dir, list+".d")) // not an input itself: each build writes it again
			if err != nil {
				continue
			}
			_, files, _ := strings.Cut(strings.SplitN(string(data), "\n", 2)[0], ": ")
			for _, f := range strings.Fields(strings.ReplaceAll(files, `\ `, "\x00")) {
				out = append(out, m.Host.From(root, strings.ReplaceAll(f, "\x00", " ")))
			}
		}
	}
	return out
}

// same reports whether cargo, too, had nothing to do.
func (e noopBuild) same(m *session.Machine, built cargorun.Built) bool {
	compiled := func(msg cargo.Message) bool { return msg.Reason == cargo.Artifact && !msg.Fresh }
	ran := func(msg cargo.Message) bool {
		was, known := e.Scripts[m.Host.Clean(msg.OutDir)]
		return msg.Reason == cargo.ScriptExecuted && known && builddir.Ran(m.Host, msg.OutDir) != was.Ran
	}
	return !built.Waited && !slices.ContainsFunc(built.Messages, compiled) && !slices.ContainsFunc(built.Messages, ran) &&
		maps.Equal(e.Programs, programs(built))
}

// programs are those of a build, each with what shows that it is the same.
func programs(built cargorun.Built) map[string]string {
	list := map[string]string{}
	for _, p := range built.Programs {
		fi, err := os.Stat(p.Path)
		if err != nil {
			continue
		}
		if id, err := cache.IdentityOf(p.Path, fi); err == nil {
			list[p.Path] = fmt.Sprint(id, cache.StateTimeOf(fi))
		}
	}
	return list
}

// logged is the kernel cache with a file for what our nvcc does.
func (k kernels) logged(m *session.Machine) kernels {
	if log, err := os.CreateTemp(filepath.Join(m.CacheDir, nvcc.Views), ".log-*"); err == nil { // it only counts
		k.log = log.Name()
		_ = log.Close()
		k.env = k.env.Set(nvcc.LogVariable, k.log)
	}
	return k
}
