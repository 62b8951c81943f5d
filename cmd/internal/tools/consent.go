package tools

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/rocm"
)

// Guard starts compilers, and refuses one that lies in the repository unless the user agrees: whoever wrote the repository also wrote that
// program, and gpubuild runs compilers even for what builds nothing. It looks at the path that is about to run, whatever text of a
// configuration file led there. Only the user agrees, by a flag or in their own configuration. What the user's environment, PATH and flags
// lead to is not asked about.
type Guard struct {
	host    buildenv.Host   // with the user's own environment
	project string          // its directory, which the user may trust
	roots   []string        // what lies below these directories is the repository's
	named   []string        // what the repository's files say about tools, for the message
	foreign []cargo.Given   // variables that the repository's files set
	own     func() []string // what the user's own environment and flags lead to
	mu      sync.Mutex      // discovery asks several programs at a time
	refused error           // the first program that was not started
}

// guard is made of everything that files of the repository say: [env] tables of cargo's configuration, and the toolkit in gpubuild.toml.
func guard(ctx context.Context, s *session.Session, o Options, tables []cargo.Given, w wish) (*Guard, error) {
	m := s.Machine
	h := m.Host
	g := &Guard{host: h}
	root := h.Real(h.Cwd)
	if s.Project != nil {
		root = h.Real(s.Project.Root)
	}
	project, root := cmp.Or(h.Repository(root), root), h.Checkout(root)
	g.project = project
	for _, t := range tables {
		isFile := h.IsFile(t.Origin)
		if !isFile && !s.Line.AliasConfig || isFile && cargo.UsersConfig(h, o.Cargo, t.Origin, h.Cwd, root) {
			continue // the user's own: --config that no alias brought, or CARGO_HOME outside of the repository
		}
		g.foreign = append(g.foreign, t)
		if !toolchain.SelectsToolchain(h, t.Name) {
			continue
		}
		// Whoever wrote the file wrote what is below its directory, in a repository or an unpacked archive.
		dir := h.Real(h.Cwd)
		if isFile {
			dir = h.Dir(h.Dir(h.Real(t.Origin)))
		}
		g.roots = append(g.roots, above(h, dir, t.Written), above(h, h.Real(h.Cwd), t.Written), root)
		g.named = append(g.named, fmt.Sprintf("%s in the [env] table of %s", t.Name, t.Origin))
	}
	file := s.Config.CUDA.Origin
	fromProject := w.from == file && strings.ContainsAny(w.CUDA, `/\`)
	if fromProject {
		g.roots = append(g.roots, root, above(h, h.Real(h.Cwd), s.Config.CUDA.Value))
		g.named = append(g.named, "toolchain.cuda in "+file)
	}
	if len(g.foreign) == 0 && len(g.roots) == 0 || o.TrustProject {
		return &Guard{host: h}, nil
	}
	if len(g.roots) > 0 { // a dependency brings what it likes to cargo's home, and /proc has everything by another name
		home := cargo.Home(h, o.Cargo)
		g.roots = append(g.roots, h.Join(home, "registry"), h.Join(home, "git"), "/proc")
	}
	user, err := User(h)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(user.Trust, func(dir string) bool { return h.Below(project, h.Real(dir)) }) {
		return &Guard{host: h}, nil
	}
	mine := slices.DeleteFunc(slices.Clone(w.extra), func(c cuda.Candidate) bool { return c.Origin == file })
	g.own = sync.OnceValue(func() []string { return ownTools(ctx, m, mine, o.CCBin) })
	if fromProject {
		return g, g.check(w.CUDA) // it would be taken, or be the reason for another error
	}
	return g, nil
}

// above is a directory, or the one above it that a relative path in a value may lead to by "..".
func above(h buildenv.Host, dir, value string) string {
	for range strings.Count(value, "..") {
		dir = h.Dir(dir)
	}
	return dir
}

// ownTools lists what the user's own environment and flags lead to. It starts nothing of it.
func ownTools(ctx context.Context, m *session.Machine, extra []cuda.Candidate, ccbin string) (paths []string) {
	h := m.Host
	found, _ := compilers(ctx, m, h, nil, ccbin)
	for _, c := range found {
		paths = append(paths, c.Path, c.CXX)
	}
	var roots []string
	for _, t := range cuda.Find(h, extra) {
		roots = append(roots, t.Root)
		paths = append(paths, t.Root, t.NVCC)
	}
	for _, c := range cudnn.Find(h, roots) {
		paths = append(paths, c.Root, c.Include, c.Lib)
	}
	for _, r := range rocm.Find(h) {
		paths = append(paths, r.Root)
	}
	return slices.Concat(paths, h.LookPathAll("nvcc"), []string{h.Env.Get("NVCC"), h.Env.Get("CUDACXX")})
}

// Over is a runner of tools that asks the guard before each start. A tool gets the user's own values of the variables that the repository's
// files set: of what it is asked, none depends on them, and LD_PRELOAD or COMPILER_PATH would name a program, too.
func (g *Guard) Over(r session.Runner) session.Runner {
	if g == nil {
		return r
	}
	return guarded{g, r}
}

type guarded struct {
	guard  *Guard
	runner session.Runner
}

func (r guarded) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	g := r.guard
	if err := g.check(c.Path); err != nil {
		return buildenv.Result{}, err
	}
	if len(g.foreign) > 0 {
		c.Env = g.ownValues(buildenv.NewEnv(g.host.OS, c.Env)).Entries()
	}
	return r.runner.Run(ctx, c)
}

// ownValues is an environment without what the repository's files set.
func (g *Guard) ownValues(env buildenv.Env) buildenv.Env {
	for _, t := range g.foreign {
		if is, set := env.Lookup(t.Name); !set || is != t.Value {
			continue
		}
		if mine, set := g.host.Env.Lookup(t.Name); set {
			env = env.Set(t.Name, mine)
		} else {
			env = env.Unset(t.Name)
		}
	}
	return env
}

// check returns an error if a program or a directory is the repository's, and the user has not agreed to it.
func (g *Guard) check(paths ...string) error {
	h := g.host
	for _, path := range paths {
		for _, dir := range g.roots {
			if path == "" || !inside(h, path, dir) && !inside(h, h.Real(path), dir) {
				continue
			}
			if slices.ContainsFunc(g.own(), func(own string) bool { return own != "" && h.SamePath(h.Abs(own), path) }) {
				break
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.refused == nil {
				if !h.Below(g.project, dir) && !h.Below(dir, g.project) {
					dir = g.project
				}
				g.refused = untrusted(path, dir, g.named)
			}
			return g.refused
		}
	}
	return nil
}

// inside reports whether a path lies in a directory: by its name, or because one of the directories above it is that one by another name (a
// mount, another letter case, \\?\C:). Other paths that begin with \\ are not understood, and count as lying in it.
func inside(h buildenv.Host, path, dir string) bool {
	if h.Below(path, dir) || h.OS == buildenv.Windows && strings.HasPrefix(h.Clean(path), `\\`) {
		return true
	}
	is, err := h.Files.Stat(dir)
	for d := range h.Upwards(path) {
		if at, there := h.Files.Stat(d); err == nil && there == nil && os.SameFile(is, at) {
			return true
		}
	}
	return false
}

// Check is for what was found and chosen: cargo starts it later. It also returns the refusal of a program that would have been asked.
func (g *Guard) Check(s toolchain.Set) error {
	g.mu.Lock()
	refused := g.refused
	g.mu.Unlock()
	if refused != nil {
		return refused
	}
	var paths []string
	if t := s.Toolkit; t != nil {
		paths = append(paths, t.Root, t.NVCC)
	}
	if c := s.Compiler; c != nil {
		paths = append(paths, c.Path, c.CXX)
	}
	if c := s.CUDNN; c != nil {
		paths = append(paths, c.Root, c.Include, c.Lib)
	}
	if r := s.ROCm; r != nil {
		paths = append(paths, r.Root)
	}
	return g.check(append(paths, s.Launchers...)...)
}

// untrusted says that a repository wants its own compiler or toolkit to be used; by lists what its files say about tools.
func untrusted(path, root string, by []string) error {
	fix := fmt.Sprintf("if you trust it: --gpu-trust-project, or trust = [%q] in your own configuration (`gpubuild help config`); else "+
		"remove the setting", root)
	return exit.Errorf(exit.Config, fix,
		"%s is in the repository, and only the repository names it (%s): gpubuild runs no tool of a repository without your consent",
		path, strings.Join(by, "; "))
}
