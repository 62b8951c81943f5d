package tools

import (
	"context"
	"slices"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/install"
)

// Options is what a choice depends on beside the project: the user's flags, and what earlier builds left.
type Options struct {
	Toolkit string // a version, a root, or fetch
	Arch    string
	CCBin   string
	Backend string
	// Cargo is the cargo that will build. With none another program runs, and cargo's [env] tables do not count.
	Cargo    cargo.Tool
	BuiltFor gpu.Arch // what this target directory's GPU packages were last built for; zero: not known
	// Undeclared looks for a package whose build script compiles kernels although its sources do not show it. It is called where no other
	// package needs a toolkit, with the flag or the variable that asked for one.
	Undeclared func(asked string) (Undeclared, error)
	// NoMemory asks every compiler for its version, as if nothing were cached.
	NoMemory bool
}

// Choose finds what is there, chooses what fits and makes the build's
// environment. What it finds before an error is returned beside the error.
func Choose(ctx context.Context, s *session.Session, graph session.Graph, reach *features.Answer, o Options) (Tools, error) {
	m := s.Machine
	t := Tools{Env: m.Host.Env, RunEnv: m.Host.Env, Cargo: o.Cargo, Line: s.Line}
	if err := cache.Closed(m.CacheDir); err != nil { // toolkits in it are run
		return t, err
	}
	declared := NeedsOf(reach)
	declared.Reads = readers(graph, reach)
	var err error
	if t.Needs, t.Undeclared, err = undeclared(s, reach, declared, o); err != nil {
		return t, err
	}
	for _, b := range t.Needs.Because {
		m.Shell.Detail("needs %s", b)
	}
	host := m.Host
	var tables []cargo.Given
	if o.Cargo.Path != "" {
		tables = cargo.ConfigEnv(host, o.Cargo, s.Line)
		host.Env = importConfigEnv(host, tables)
		t.RunEnv = host.Env
	}
	wish, err := wishOf(s, host.Env, o)
	if err != nil {
		return t, err
	}
	wish.previous(o.BuiltFor, archUnset(m, graph.Places.BuildDirectory))
	wish.previous(t.Undeclared.Arch, true) // no record of ours tells it
	if wish.CUDA == "fetch" {
		root, err := fetch(ctx, m, t.Needs)
		if err != nil {
			return t, err
		}
		wish.fetched(root)
	}
	d := discovery{machine: m, host: host, needs: t.Needs, wish: wish, noMemory: o.NoMemory}
	t.Facts, t.DriverNotes = d.run(ctx)
	t.Set, err = toolchain.Choose(t.Facts, t.Needs, wish.Wish)
	if err != nil && t.Undeclared.Package != "" {
		m.Shell.Warning("no toolkit is set up for %s, and kernels that it may compile are not checked (%s): %v",
			t.Undeclared.Package, t.Undeclared.Why, err)
		t.Needs, t.Undeclared = declared, Undeclared{}
		t.Set, err = toolchain.Choose(t.Facts, t.Needs, wish.Wish)
	}
	if err != nil {
		return t, err
	}
	if err := joinCUDNN(m, &t.Set); err != nil {
		return t, err
	}
	if err := toolchain.Planted(host, t.Set, compilesIn(host.Cwd, reach)); err != nil {
		return t, err
	}
	for _, note := range toolchain.Unreadable(host, t.Needs, graph.Places.TargetDirectory) {
		m.Shell.Warning("%s", note)
	}
	t.Delta = toolchain.Environment(host, t.Set, t.Needs)
	over := overrideConfigEnv(host, host.Apply(host.Env, t.Delta), t.Set, tables, s.Line)
	t.Delta.Changes = append(t.Delta.Changes, over.Delta.Changes...)
	t.Env = host.Apply(host.Env, t.Delta)
	t.Cargo, t.Line = o.Cargo.With(t.Env), over.Line
	// A shell or a file is given what [env] tables hold, too: only cargo reads those, and the file may take their place.
	t.ExportFrom, t.Exported = m.Host.Env, toolchain.Environment(m.Host, t.Set, t.Needs)
	t.Exported.Changes = append(t.Exported.Changes, over.Delta.Changes...)
	for _, w := range over.Warnings {
		m.Shell.Warning("%s", w)
	}
	t.tell(m.Shell, host)
	if v := s.Line.Verb; t.Needs.Libraries && v != "check" && v != "clippy" && s.Line.Links() {
		t.tellUnlinkable(m.Shell, Unlinkable(s, t.Cargo, reach, t.Set, t.Env))
	}
	return t, nil
}

// joinCUDNN gives a cuDNN whose parts lie apart one root, in our cache.
func joinCUDNN(m *session.Machine, set *toolchain.Set) error {
	if set.CUDNN == nil || !set.CUDNN.Split {
		return nil
	}
	c := *set.CUDNN
	root, err := install.Overlay(m.Host, m.CacheDir, c.Version, c.Include, c.Lib)
	if err != nil {
		return err
	}
	c.Root, c.Real = root, m.Host.Real(root)
	set.CUDNN = &c
	return nil
}

// compilesIn lists the directories in which nvcc will be run: cargo runs a package's build script in the directory of its manifest.
func compilesIn(cwd string, reach *features.Answer) []string {
	dirs := []string{cwd}
	for _, u := range reach.Units {
		if u.Inputs.NVCC && u.Dir != "" && !slices.Contains(dirs, u.Dir) {
			dirs = append(dirs, u.Dir)
		}
	}
	return dirs
}
