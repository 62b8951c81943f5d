package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/version"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Graph is what cargo answered of a command line: what it builds, and where. It is kept in cargo's own JSON.
type Graph struct {
	Units    *graph.Graph       `json:"graph,omitempty"`  // nil where cargo gave no unit graph
	Reason   string             `json:"reason,omitempty"` // why it gave none
	Places   cargo.Places       `json:"places"`           // empty unless asked for
	Metadata *manifest.Metadata `json:"metadata,omitempty"`
	// the project as cargo's metadata has it; the session's own where there is no GPU work, or cargo gives none
	Project *manifest.Project `json:"-"`
}

// Question is how cargo is asked.
type Question struct {
	Places bool // where cargo builds is to be known, too: a question of its own
	Own    bool // for a verb of ours, which never writes a Cargo.lock; the build itself would, and so may its question
	Apart  bool // cargo may need another Cargo.lock: it gets a copy, and the user's stays as it is
	Known  bool // the project is known from cargo's metadata, and cargo is not asked for that again
}

// graphKind names the cache entries of Graph; the number changes whenever the meaning of what is kept or watched does.
const graphKind = "graph-6"

// Graph asks cargo what the command line builds, or takes the answer that is kept.
func (s *Session) Graph(ctx context.Context, tool cargo.Tool, q Question) (g Graph, err error) {
	g, err = s.graph(ctx, tool, q)
	if refused, ok := errors.AsType[*cargo.RefusedError](err); ok && refused.NoPrivateLock {
		q.Apart = false
		err = s.KeepLock(func() error {
			g, err = s.graph(ctx, tool, q)
			return err
		})
	}
	return g, err
}

func (s *Session) graph(ctx context.Context, tool cargo.Tool, q Question) (Graph, error) {
	return s.answer(tool, s.graphKey(tool, q), func(private cargo.Private) (g Graph, keep bool, err error) {
		m := s.Machine
		if q.Apart {
			var remove func()
			if private.Lock, remove, err = s.copyLock(private.Root); err != nil {
				return Graph{}, false, err
			}
			defer remove()
		}
		got, err := cargo.Graph(ctx, m.Host, m.Runner, tool, cargo.Request{
			Line: s.Line, Asking: cargo.Asking{Private: private, Colour: m.Shell.Colour, NoLockWrite: q.Own},
			Notice: func(text string) {
				if m.Waited == nil || m.Waited.CompareAndSwap(false, true) { // one command asks cargo often
					m.Shell.Note("cargo: %s", text)
				}
			},
			Status: m.Shell.Cargo,
			Mkdir:  cache.Make,
		})
		if g.Reason = got.Reason; err == nil && len(got.Graph) > 0 {
			g.Units, err = graph.Parse(bytes.NewReader(got.Graph))
		}
		if err == nil && q.Places {
			g.Places, err = cargo.Locate(ctx, m.Host, m.Runner, tool, s.Line)
		}
		if err != nil {
			return Graph{}, false, err
		}
		if work, _ := s.GPUWork(); work && !q.Known { // nobody else pays a second question
			g.Metadata, _ = s.metadata(ctx, tool, private, false)
		}
		return g, true, nil
	})
}

// Packages is the project by cargo's metadata alone, kept as Graph is; workspace leaves out what is not of the workspace. Where cargo
// refuses to say what belongs to the build, its words are the second answer, and nothing is kept: it may have read any file.
func (s *Session) Packages(ctx context.Context, tool cargo.Tool, workspace bool) (p *manifest.Project, refused string) {
	key := memo.Key(s.graphKey(tool, Question{}), "metadata", fmt.Sprint(workspace))
	g, err := s.answer(tool, key, func(private cargo.Private) (g Graph, keep bool, err error) {
		g.Metadata, refused = s.metadata(ctx, tool, private, workspace)
		return g, refused == "" && g.Metadata != nil, nil
	})
	if err != nil {
		s.Machine.Shell.Detail("cargo is not asked for its packages: %v", err)
	}
	return cmp.Or(g.Project, s.Project), refused
}

// WithMetadata is the session with the project as cargo's metadata has it; workspace leaves out what is not of the workspace.
func (s *Session) WithMetadata(ctx context.Context, workspace bool) (*Session, error) {
	tool, err := cargo.Find(s.Machine.Host, s.Line)
	if err != nil {
		return nil, err
	}
	p, refused := s.Packages(ctx, tool, workspace)
	if p == s.Project {
		return nil, exit.Errorf(exit.Config, "", "cargo refuses the workspace: %s",
			strings.TrimPrefix(strings.TrimSpace(refused), "error: "))
	}
	return s.Knowing(p), nil
}

func (s *Session) metadata(ctx context.Context, tool cargo.Tool, private cargo.Private, workspace bool) (*manifest.Metadata, string) {
	data, refused := cargo.Packages(ctx, s.Machine.Host, s.Machine.Runner, tool, s.Line, private, workspace)
	if data == nil {
		return nil, refused
	}
	m, err := manifest.ParseMetadata(data)
	if err != nil {
		s.Machine.Shell.Detail("%v", err)
		return nil, refused
	}
	return m, refused
}

// answer takes the answer of cargo's that is kept, or asks. It is kept with everything that cargo looked at for it, what did not exist
// included: a question costs as much as a build with nothing to do.
func (s *Session) answer(tool cargo.Tool, key string, ask func(cargo.Private) (Graph, bool, error)) (g Graph, err error) {
	store := s.Machine.Memo()
	if store.GetJSON(graphKind, key, &g) {
		g.Project = s.Project.With(g.Metadata)
		return g, nil
	}
	inputs := s.watchProject(tool) // before cargo is asked: what changes while it answers is no part of the answer
	root, err := s.Machine.Scratch("cargo", cache.Name(s.Machine.Host.Real(s.Project.Root)))
	if err != nil {
		return Graph{}, err
	}
	g, keep, err := ask(cargo.Private{Root: root})
	if err != nil {
		return Graph{}, err
	}
	s.Project.Refresh()
	g.Project = s.Project.With(g.Metadata)
	if !keep {
		return g, nil
	}
	var ids []string
	if g.Units != nil {
		for i := range g.Units.Units {
			ids = append(ids, g.Units.Units[i].PkgID)
		}
	}
	if g.Metadata != nil {
		for i := range g.Metadata.Packages {
			ids = append(ids, g.Metadata.Packages[i].ID)
		}
	}
	if err := store.PutJSON(graphKind, key, append(inputs, s.watchLocals(ids)...), g); err != nil { // costs time only
		s.Machine.Shell.Detail("cargo's answer is not kept: %v", err)
	}
	return g, nil
}

// graphKey names the question: the arguments, where they were given, and every variable that cargo, rustup or rustc reads.
func (s *Session) graphKey(tool cargo.Tool, q Question) string {
	parts := []string{version.Number(), tool.Path, tool.Dir, s.Project.Manifest, fmt.Sprint(q)}
	parts = append(parts, s.Line.Words()...)
	if rustc, err := s.Machine.Host.LookPath("rustc"); err == nil { // another one may come first on the same PATH
		parts = append(parts, rustc)
	}
	read := []string{"CARGO", "RUST", "HOME", "USERPROFILE", "PATH", "CC", "CFG_", "TARGET", "HOST"}
	for _, e := range tool.Env.Entries() {
		name, _, _ := strings.Cut(strings.ToUpper(e), "=")
		if slices.ContainsFunc(read, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			parts = append(parts, e)
		}
	}
	return memo.Key(parts...)
}

// watchProject lists what cargo looks at: every local manifest, the directories in which targets and members are discovered, the lock file,
// the configuration and toolchain files of every directory above, and the programs themselves.
func (s *Session) watchProject(tool cargo.Tool) []memo.Input {
	h, w := s.Machine.Host, watchList{host: s.Machine.Host, seen: map[string]bool{}}
	w.local(s.Project.RootManifest)
	w.local(s.Project.Manifest)
	for _, p := range slices.Concat(s.Project.Members, s.Project.Locals) {
		w.local(p.Manifest)
	}
	w.add(s.Project.LockPath)
	w.add(s.Project.Globbed...)
	for _, t := range s.Line.Target {
		if strings.HasSuffix(t, ".json") { // a target of the user's own
			w.add(h.Abs(t))
		}
	}
	at := h.Abs(s.Line.Dir)
	for _, start := range []string{h.Cwd, h.Real(h.Cwd), at, h.Real(at)} {
		for dir := range h.Upwards(start) {
			w.add(h.Join(dir, ".cargo", "config.toml"), h.Join(dir, ".cargo", "config"), h.Join(dir, "rust-toolchain"),
				h.Join(dir, "rust-toolchain.toml"))
		}
	}
	cargoHome := manifest.CargoHome(h)
	rustupHome := cmp.Or(h.Env.Get("RUSTUP_HOME"), h.Join(h.Home, ".rustup"))
	w.add(h.Join(cargoHome, "config.toml"), h.Join(cargoHome, "config"), h.Join(rustupHome, "settings.toml"),
		h.Join(rustupHome, "toolchains"), tool.Path)
	for _, name := range h.Names(h.Join(rustupHome, "toolchains")) { // rustup update changes them in place
		bin := h.Join(rustupHome, "toolchains", name, "bin")
		w.add(h.Join(bin, h.Exe("cargo")), h.Join(bin, h.Exe("rustc")))
	}
	for _, c := range s.Line.Config {
		if !strings.Contains(c, "=") {
			w.add(h.Abs(c))
		}
	}
	w.add(cargo.ConfigFiles(h, tool, s.Line)...) // with those that they include
	if rustc, err := h.LookPath("rustc"); err == nil {
		w.add(rustc)
	}
	return w.watch(s.Machine.Memo())
}

// watchLocals lists the local packages that only cargo's answer names. Registry and git packages never change; the lock file names them.
func (s *Session) watchLocals(ids []string) []memo.Input {
	h, w := s.Machine.Host, watchList{host: s.Machine.Host, seen: map[string]bool{}}
	slices.Sort(ids)
	for _, pkg := range slices.Compact(ids) {
		if id := manifest.ParsePkgID(pkg); id.Local() {
			w.local(h.Join(id.Dir(h), manifest.FileName))
		}
	}
	return w.watch(s.Machine.Memo())
}

// copyLock copies Cargo.lock, where there is one, to a place of our own, from which remove takes it. Whatever ends us, nothing is left of
// it in the project.
func (s *Session) copyLock(root string) (path string, remove func(), err error) {
	h := s.Machine.Host
	for _, name := range h.Names(root) { // what a gpubuild left that was killed
		at := h.Join(root, name)
		if fi, err := h.Files.Stat(at); err == nil && strings.HasPrefix(name, "lock-") && time.Since(fi.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(at) // else the next time
		}
	}
	dir, remove, err := s.Machine.Temp.MkdirTemp(root, "lock-")
	if err != nil {
		return "", nil, err
	}
	path = h.Join(dir, "Cargo.lock")
	data, err := h.ReadFile(s.Project.LockPath, buildenv.Lock)
	if err == nil {
		err = cache.Keep(path, data, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}

// KeepLock does something that lets cargo write Cargo.lock, and puts that back as it was, or takes it away again.
func (s *Session) KeepLock(do func() error) error {
	restore, err := s.LockFile()
	if err != nil {
		return err
	}
	err = do()
	if e := restore(); e != nil {
		err = errors.Join(err, e)
	}
	return err
}

// LockFile remembers Cargo.lock; restore puts it back as it was, or takes it away again.
func (s *Session) LockFile() (restore func() error, err error) {
	h := s.Machine.Host
	path := h.Real(s.Project.LockPath)
	old, missing := h.ReadFile(path, buildenv.Lock)
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return nil, missing
	}
	mode := fs.FileMode(0o644)
	if fi, err := h.Files.Stat(path); err == nil {
		mode = fi.Mode().Perm()
	}
	return func() error {
		switch now, gone := h.ReadFile(path, buildenv.Lock); {
		case missing != nil && gone == nil:
			return os.Remove(path)
		case missing == nil && !bytes.Equal(old, now):
			return cache.WriteFile(path, old, mode)
		}
		return nil
	}, nil
}

// BuiltFor is the triple that rustc builds for: the command line's first target, or that of cargo itself; empty: not known.
func BuiltFor(ctx context.Context, m *Machine, tool cargo.Tool, l cargo.Line) string {
	if len(l.Target) > 0 && l.Target[0] != "host-tuple" {
		return cargo.Triple(l.Target[0], "")
	}
	if tool.Path == "" {
		return ""
	}
	res, err := m.Runner.Run(ctx, cargo.Version(tool, l))
	if err != nil {
		m.Shell.Detail("what rustc builds for is not known: %v", err)
	}
	v, _ := cargo.ParseVersion(res.Stdout)
	return v.Host
}
