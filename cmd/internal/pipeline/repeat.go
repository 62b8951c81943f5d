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
	"gpubuild/cmd/internal/tools"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/nvcc"
)

// repeatKind names the cache entries of repeat; the number changes whenever what is kept does.
const repeatKind = "repeat-1"

// repeat is a build that had nothing to do. It is kept with every path that was looked at for it, by its command line and environment: as
// long as all of these are the same, a build prints the same lines, and runs the same cargo between them.
type repeat struct {
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

// recording is what a build that may become a repeat is made of.
type recording struct {
	key     string
	files   *memo.Recorder
	text    [2]strings.Builder // before cargo runs, and after
	ran     atomic.Int64       // processes
	puts    atomic.Int64
	kernels kernels
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

// repeatable reports whether a command line may be a repeat: a plain build, of which nothing is read by a program.
func (c Command) repeatable() bool {
	o, line := c.Options, c.Line
	plain := !o.Audit && !o.Watch && !o.Proof.Wanted && !o.Proof.Required && o.Proof.On.Name == "" && !o.Files.Wanted() &&
		!o.Fresh.ForceClean
	return plain && (line.Verb == "build" || line.Verb == "check") && !line.WantsJSON() && c.Machine.Host.OS != buildenv.Windows &&
		c.Machine.NoCache == nil && c.Machine.Host.Env.Get("GITHUB_ACTIONS") == ""
}

// unread are the variables that differ from shell to shell and decide nothing.
var unread = []string{"PWD", "OLDPWD", "SHLVL", "_", nvcc.LogVariable}

func (c Command) repeatKey() (string, error) {
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
	m.Puts, m.Runner = &r.puts, counted{m.Runner, &r.ran}
	shell.Heard = func(line string) { r.text[min(1, r.ran.Load())].WriteString(line) }
	m.Shell, c.Machine, c.record = &shell, &m, r
	return c
}

// keep keeps a build that ended well, if it had nothing to do and nothing was learned in it.
func (r *recording) keep(c Command, done Result) error {
	m, b := c.Machine, done.Built
	compiled := func(msg cargo.Message) bool { return msg.Reason == cargo.Artifact && !msg.Fresh }
	if done.Stale == nil || len(b.Messages) == 0 || slices.ContainsFunc(b.Messages, compiled) || b.Waited ||
		len(done.Stale.Cleaned()) > 0 ||
		len(done.Proof.Proofs) > 0 || r.ran.Load() != 1 || r.puts.Load() > 0 || !slices.Equal(done.Tools.Line.Words(), c.Line.Words()) {
		return nil
	}
	places := done.Features.Graph.Places
	e := repeat{Before: r.text[0].String(), After: r.text[1].String(), Places: places, Mode: r.kernels.mode, Cargo: done.Tools.Cargo.Path,
		Dir: done.Tools.Cargo.Dir, Set: map[string]string{}, Scripts: done.Stale.Before(), Programs: programs(b)}
	was, is := m.Host.Env, done.Tools.Cargo.With(r.kernels.env).Env
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
	for _, dir := range m.Host.SplitList(is.Get("PATH")) { // our nvcc is still there
		m.Host.IsFile(m.Host.Join(dir, "nvcc"))
	}
	return r.put(m, e)
}

func (r *recording) put(m *session.Machine, e repeat) error {
	own := []string{"memo", "locks", "cargo"}
	for i, name := range own {
		own[i] = m.Host.Join(m.CacheDir, name)
	}
	inputs, old := r.files.Inputs(own...)
	if !old {
		return nil // the next build will know them by their times
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return m.Memo().Put(repeatKind, r.key, inputs, data)
}

// keepPlain keeps that there is no GPU work, before cargo takes gpubuild's place.
func (c Command) keepPlain() {
	if r := c.record; r != nil && r.ran.Load() == 0 && r.puts.Load() == 0 {
		if err := r.put(c.Machine, repeat{Plain: true, Before: r.text[0].String()}); err != nil { // costs time only
			c.Machine.Shell.Detail("the next build checks everything again: %v", err)
		}
	}
}

// earlier is what cargo did before anything was checked, since nothing had changed.
type earlier struct {
	repeat  repeat
	key     string
	kernels kernels
	unlock  func()
	built   cargorun.Built
	err     error
	taken   bool
}

// keepRepeat keeps a build that ended well for the next one like it.
func (c Command) keepRepeat(done Result, err error) {
	switch {
	case err != nil:
		return
	case c.earlier != nil:
		err = c.Machine.Memo().Remove(repeatKind, c.earlier.key) // the next build looks at everything again
	case c.record != nil:
		err = c.record.keep(c, done)
	}
	if err != nil { // costs time only
		c.Machine.Shell.Detail("the next build checks everything again: %v", err)
	}
}

// endEarlier ends what a command that ran cargo first began.
func (c Command) endEarlier() {
	if c.earlier != nil {
		c.earlier.unlock()
		c.Machine.Shell.Muted = false
	}
}

// lock locks the target directory, unless that is done.
func (c Command) lock(ctx context.Context, places cargo.Places) (func(), error) {
	if c.earlier != nil {
		return c.earlier.unlock, nil
	}
	return fresh.Lock(ctx, c.Machine, places)
}

// cleanStale cleans what is stale; nothing was, where cargo ran first.
func (c Command) cleanStale(ctx context.Context, target fresh.Build) (*fresh.State, error) {
	if c.earlier == nil {
		return fresh.Inspect(target).Clean(ctx)
	}
	return fresh.Inspect(target).Begun(c.earlier.repeat.Scripts), nil
}

func (c Command) startKernels(t tools.Tools, state *fresh.State) (k kernels, err error) {
	if c.earlier != nil {
		return c.earlier.kernels, nil
	}
	if k, err = startKernels(c.Machine, c.Options.Cache, t); k.log != "" {
		k.env = k.env.Set(nvcc.MacrosVariable, state.Macros())
	}
	if c.record != nil {
		c.record.kernels = k
	}
	return k, err
}

// takeEarlier takes what cargo did, once; nil: it has to be run.
func (c Command) takeEarlier() *earlier {
	if c.earlier == nil || c.earlier.taken {
		return nil
	}
	c.earlier.taken, c.Machine.Shell.Muted = true, false
	return c.earlier
}

// tryRepeat runs cargo as the last time, if nothing has changed since. With nothing to do for cargo either that is the whole build;
// otherwise the command goes on with what cargo did.
func (c Command) tryRepeat(ctx context.Context, key string) (next Command, done bool, err error) {
	m := c.Machine
	store := m.Memo()
	data, inputs, ok := store.Load(repeatKind, key)
	var e repeat
	if !ok || json.Unmarshal(data, &e) != nil {
		return c, false, nil
	}
	if e.Plain {
		if !store.Unchanged(inputs) {
			return c, false, nil
		}
		m.Shell.Again(e.Before)
		return c, true, c.cargo(ctx, m.Host.Env)
	}
	unlock, err := fresh.Lock(ctx, m, e.Places)
	if err != nil {
		return c, false, nil
	}
	if !store.Unchanged(inputs) {
		unlock()
		return c, false, nil
	}
	m.Shell.Detail("nothing has changed since the last build of this command line")
	m.Shell.Again(e.Before)
	env := m.Host.Env
	for name, value := range e.Set {
		env = env.Set(name, value)
	}
	for _, name := range e.Unset {
		env = env.Unset(name)
	}
	k := kernels{mode: e.Mode, env: env}.logged(m)
	tool := cargo.Tool{Path: e.Cargo, Dir: e.Dir, Env: k.env}
	built, err := cargorun.Build(ctx, &session.Session{Machine: m, Line: c.Line}, tool, cargorun.Output{Other: m.Shell.Out})
	if err == nil && e.same(m, built) {
		k.end(m)
		unlock()
		m.Shell.Again(e.After)
		return c, true, nil
	}
	if built.Interrupted {
		k.end(m)
		unlock()
		return c, true, err
	}
	// A file of the machine that changed meanwhile may be in what was built, or not.
	built.Waited = built.Waited || !store.Unchanged(memo.Outside(inputs, e.Places.BuildDirectory))
	c.earlier = &earlier{repeat: e, key: key, kernels: k, unlock: unlock, built: built, err: err}
	m.Shell.Muted = true
	return c, false, nil
}

// same reports whether cargo, too, had nothing to do.
func (e repeat) same(m *session.Machine, built cargorun.Built) bool {
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
