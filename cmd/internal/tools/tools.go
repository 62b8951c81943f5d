// Package tools joins what the features need with what the machine has: it chooses the toolkit, the host compiler and cuDNN, and makes
// the environment of the build. It never starts a build.
package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// Tools is what was chosen for a build, and the environment that it makes.
type Tools struct {
	Needs toolchain.Needs
	Asked gpu.Arch // by the user; zero: nothing was
	Facts toolchain.Facts
	Set   toolchain.Set
	Delta buildenv.Delta // the changes to the user's environment, with their reasons
	Env   buildenv.Env   // the build's whole environment
	// RunEnv is the environment of the programs that were built: the user's, with what cargo's [env] tables set.
	RunEnv buildenv.Env
	Given  []cargo.Given // what cargo's [env] tables set
	// ExportFrom and Exported are the environment and the changes for another program than cargo: cargo's [env] tables, which only cargo
	// reads, are part of the changes there.
	ExportFrom buildenv.Env
	Exported   buildenv.Delta
	Guard      *Guard     // asks for the user's consent before a tool is started
	Cargo      cargo.Tool // the cargo to call, with Env
	Line       cargo.Line // the command line for it, with what overrides cargo's [env] tables
	Undeclared Undeclared // the package that a toolkit was chosen for although its sources do not ask for one
}

// announce prints in a line or two what was chosen, and what was rejected if verbose.
func (t Tools) announce(sh *console.Shell, h buildenv.Host) {
	s := t.Set
	switch {
	case s.Toolkit != nil:
		line := fmt.Sprintf("%s (%s)", s.Toolkit.Named(), s.Toolkit.Origin)
		if s.Compiler != nil {
			line += fmt.Sprintf(", %s %s (%s)", s.Compiler.Kind, s.Compiler.Version, s.Compiler.Path)
		}
		if s.CUDNN != nil {
			line += fmt.Sprintf(", cuDNN %s (%s)", s.CUDNN.Version, s.CUDNN.Origin)
		}
		sh.Status("Locating", "%s", line)
	case s.ROCm != nil:
	case t.Needs.CUDA:
		sh.Status("Locating", "no toolkit: the GPU crates that gpubuild knows load the driver when they run")
	}
	if s.ROCm != nil {
		sh.Status("Locating", "%s (%s)", s.ROCm, s.ROCm.Origin)
	}
	if !s.Capability.IsZero() && t.Needs.NVCC {
		sh.Status("Targeting", "%s (%s)", gpu.Archs(s.Archs()), s.CapabilityOrigin)
	}
	for _, n := range s.Notes {
		sh.Warning("%s", n)
	}
	for _, target := range t.Line.Target {
		if toolchain.Foreign(h, target) && (t.Needs.NVCC || t.Needs.Libraries) {
			sh.Warning("rustc builds for %s, and toolkit, host compiler and libraries are chosen for this machine's own processor: "+
				"nvcc's objects and CUDA's libraries will not link there; PTX is the same everywhere", target)
		}
	}
	for _, l := range s.Losers {
		sh.Detail("not %s", l)
	}
	for _, c := range t.Delta.Changes {
		sh.Detail("%s", changeLine(c))
	}
}

func changeLine(c buildenv.Change) string {
	return fmt.Sprintf(map[buildenv.Op]string{buildenv.Set: "%[1]s=%[2]s: %[3]s", buildenv.Unset: "unset %[1]s: %[3]s",
		buildenv.Prepend: "%[1]s begins with %[2]s: %[3]s", buildenv.Append: "%[1]s ends with %[2]s: %[3]s"}[c.Op], c.Name, c.Value, c.Reason)
}

// NewerThanDriver warns of each cudarc whose bindings are for a newer CUDA than the driver's: it looks up functions that the driver may
// lack, and panics at the first one. Source: cudarc 0.19 src/driver/sys, loaded functions by version feature.
func NewerThanDriver(driver gpu.Version, list []catalog.Cudarc) []string {
	var out []string
	for _, c := range list {
		if !driver.IsZero() && c.Pin.Compare(driver) > 0 {
			out = append(out, fmt.Sprintf("cudarc %s is built for CUDA %s, and the driver supports CUDA %s: a function that the "+
				"driver lacks makes the program panic; use cudarc's feature cuda-%d0%d0", c.Version, c.Pin, driver, driver.Major,
				driver.Minor))
		}
	}
	return out
}

// Options is what a choice depends on apart from the project: the user's flags, and what earlier builds left.
type Options struct {
	Prefix  string // of these flags as the user writes them: --gpu- on cargo's verbs, -- on ours
	Toolkit string // a version, a root, or fetch
	Arch    string
	CCBin   string
	Backend string
	// TrustProject: the user agrees to tools of the repository.
	TrustProject bool
	// Cargo is the cargo that will build. With none another program runs, and cargo's [env] tables do not count.
	Cargo    cargo.Tool
	Fetching *console.Shell // says what is downloaded; nil: the machine's, which is quiet where the choice is no part of the answer
	BuiltFor []gpu.Arch     // what this target directory's GPU packages were last built for; none: not known
	OneArch  bool           // another program than gpubuild compiles, for one architecture: of several in BuiltFor the first counts
	// Undeclared looks for a package whose build script compiles kernels although its sources do not show it. It is called where no other
	// package needs a toolkit, with the flag or the variable that asked for one.
	Undeclared func(asked string) (Undeclared, error)
}

// Commands are those that remove what a line's `stale` found, with its flags, for the end of a hint; empty where there are no flags.
func (o Options) Commands(os string, l cargo.Line) string {
	build := append(l.Words(), o.Flags("--gpu-")...)
	if len(build) == 1 {
		return ""
	}
	clean := append(l.Words(), o.Flags("--")...)
	at := slices.Index(clean, "build")
	clean = slices.Replace(clean, at, at+1, "stale", "--clean")
	return "; with the same flags:\n      gpubuild " + buildenv.Words(os, build...) + "\n      gpubuild " + buildenv.Words(os, clean...)
}

// Fetching is the command line that was typed with the flag that downloads a toolkit, put at a place among the words: instead of another
// toolkit, in either spelling, and of what forbids a download. Empty: the flag was typed, and to do the same again is no help.
func Fetching(os string, words []string, at int, verb, flag string) string {
	line := slices.DeleteFunc([]string{"gpubuild", verb}, func(w string) bool { return w == "" })
	line = append(append(line, words[:at]...), flag+"=fetch")
	for i := at; i < len(words); i++ {
		switch name, value, _ := strings.Cut(words[i], "="); {
		case name == "--":
			return buildenv.Words(os, append(line, words[i:]...)...)
		case words[i] == flag || words[i] == "--gpu-toolkit":
			if i++; i < len(words) && words[i] == "fetch" {
				return ""
			}
		case value == "fetch" && (name == flag || name == "--gpu-toolkit"):
			return ""
		case name != flag && name != "--gpu-toolkit" && name != "--offline" && name != "--frozen":
			line = append(line, words[i])
		}
	}
	return buildenv.Words(os, line...)
}

// Flags are the options as a command line has them, each flag with that prefix.
func (o Options) Flags(prefix string) (out []string) {
	for _, f := range [][2]string{{"toolkit", o.Toolkit}, {"arch", o.Arch}, {"ccbin", o.CCBin}, {"backend", o.Backend}} {
		if f[1] != "" {
			out = append(out, prefix+f[0]+"="+f[1])
		}
	}
	if o.TrustProject {
		out = append(out, prefix+"trust-project")
	}
	return out
}

// Choose finds what is installed, chooses what works together and makes the build's environment. What it finds before an error is returned
// with the error.
func Choose(ctx context.Context, s *session.Session, graph session.Graph, reach *features.Reach, o Options) (Tools, error) {
	m := s.Machine
	t := Tools{Env: m.Host.Env, RunEnv: m.Host.Env, Cargo: o.Cargo, Line: s.Line}
	declared := NeedsOf(reach)
	declared.Reads = Readers(graph, reach)
	var err error
	if t.Needs, t.Undeclared, err = undeclared(s, reach, declared, o); err != nil {
		return t, err
	}
	for _, b := range t.Needs.Because {
		m.Shell.Detail("needs %s", b)
	}
	host, tables := configured(s, o)
	t.RunEnv, t.Given = host.Env, tables
	finished := finishedIn(s, graph)
	if err := AbsentTools(scriptHost(host, tables), graph, reach, finished); err != nil {
		return t, err
	}
	wish, err := wishOf(s, host.Env, tables, o)
	if err != nil {
		return t, err
	}
	if list, err := gpu.ParseArchs(wish.Arch); err == nil { // else it is one of the choice
		t.Asked = list[0]
	}
	if t.Guard, err = guard(ctx, s, o, tables, wish); err != nil {
		return t, err
	}
	wish.previous(o.BuiltFor, archUnset(m, graph.Places.BuildDirectory))
	wish.previous(t.Undeclared.Archs, true) // not in our record
	d := discovery{machine: m, host: host, needs: t.Needs, wish: wish, guard: t.Guard}
	t.Facts, _ = d.run(ctx)
	if wish.CUDA == "fetch" {
		if t.Needs.NVCC || t.Needs.HostCompiler { // before anything is downloaded
			if err := toolchain.NoToolkitHelps(t.Facts, wish.Wish); err != nil {
				return t, err
			}
		}
		loud := *m
		loud.Shell = cmp.Or(o.Fetching, m.Shell)
		root, err := fetch(ctx, &loud, s.Line, t.Needs, t.Facts, wish.Wish)
		if err != nil {
			return t, err
		}
		if wish.CUDA = root; root != "" { // else none is needed
			wish.extra = []cuda.Candidate{{Root: root, Origin: wish.from + "=fetch"}}
		}
		d.wish = wish
		t.Facts.Toolkits, t.Facts.CUDNN = d.installed(ctx)
	}
	if t, err = t.withSet(ctx, s, declared, wish.Wish); err != nil {
		return t, err
	}
	if err := toolchain.Planted(host, t.Set, compilesIn(host.Cwd, reach)); err != nil {
		return t, err
	}
	for _, note := range toolchain.Unreadable(host, t.Needs, t.Set.Toolkit, graph.Places.TargetDirectory) {
		m.Shell.Warning("%s", note)
	}
	if t, err = t.withEnvironment(ctx, s, host); err != nil {
		return t, err
	}
	t.announce(m.Shell, host)
	for _, w := range NewerThanDriver(t.Facts.Driver.CUDA, reach.Cudarc) {
		m.Shell.Warning("%s", w)
	}
	if len(s.Line.Target) > 0 || host.OS == buildenv.Windows && (t.Needs.NVCC || t.Needs.Libraries) {
		target := session.BuiltFor(ctx, m, o.Cargo, s.Line)
		if fix := toolchain.GNU(host, target); fix != "" && (t.Needs.NVCC || t.Needs.Libraries) {
			m.Shell.Warning("rustc builds for %s%s: object files of nvcc will not link, PTX and fatbins will do", target, toolchain.MicrosoftOnly)
			m.Shell.Hint(fix)
		}
	}
	return t, nil
}

// withSet has the tools that work together. Where none do, and only an undeclared package would need them, those of the declared needs:
// unless the user names an architecture that those here do not compile for, or it likely needs them and the user names a toolkit, or a type
// check can do with a stand-in.
func (t Tools) withSet(ctx context.Context, s *session.Session, declared toolchain.Needs, wish toolchain.Wish) (Tools, error) {
	m, purpose := s.Machine, s.Line.Purpose()
	var err error
	t.Set, err = Working(ctx, m, t.Guard.Over(m.Runner), t.Facts, t.Needs, wish)
	likely, anyArch := t.Undeclared.Likely, wish
	stops := likely && (wish.CUDA != "" || slices.Contains(t.Needs.Reads, toolchain.PassesCXX)) ||
		(likely || t.Undeclared.Named) && (purpose == cargo.Checks || purpose == cargo.Documents)
	if refused := t.Guard.Check(t.Set); refused != nil {
		return t, refused
	}
	if anyArch.Arch = ""; err != nil && wish.Arch != "" && (likely || !t.Undeclared.Open) {
		_, other := Working(ctx, m, t.Guard.Over(m.Runner), t.Facts, t.Needs, anyArch)
		stops = stops || other == nil
	}
	if err != nil && t.Undeclared.Package != "" && !stops {
		say := m.Shell.Warning
		_, missing := errors.AsType[*toolchain.MissingError](err)
		quiet := missing && t.Undeclared.Open && (!likely || t.Undeclared.Quiet) // most such builds need none
		if quiet {
			say = m.Shell.Detail
		}
		say("no toolkit is set up for %s, and kernels that it may compile are not checked (%s): %v",
			t.Undeclared.Package, t.Undeclared.Why, err)
		if missing && !quiet && likely {
			m.Shell.Hint(exit.Hint(err))
		}
		t.Needs, t.Undeclared = declared, Undeclared{}
		t.Set, err = Working(ctx, m, t.Guard.Over(m.Runner), t.Facts, t.Needs, wish)
	}
	if err != nil {
		return t, err
	}
	if err := t.Guard.Check(t.Set); err != nil {
		return t, err
	}
	if t.Needs.CUDNN {
		err = joinCUDNN(m, &t.Set)
	}
	return t, err
}

// withEnvironment has what the chosen tools mean for the build: its environment, its cargo and command line, and what a shell is given.
func (t Tools) withEnvironment(ctx context.Context, s *session.Session, host buildenv.Host) (Tools, error) {
	m := s.Machine
	t.Delta = toolchain.Environment(host, t.Set, t.Needs)
	if t.Set.Launchers = t.launchers(ctx, m, host); len(t.Set.Launchers) > 0 {
		t.Delta = toolchain.Environment(host, t.Set, t.Needs)
	}
	if err := t.Guard.Check(t.Set); err != nil {
		return t, err
	}
	over := overrideConfigEnv(host, host.Apply(host.Env, t.Delta), t.Set, t.Given, s.Line)
	t.Delta.Changes = append(t.Delta.Changes, over.Delta.Changes...)
	t.Env = host.Apply(host.Env, t.Delta)
	t.Cargo, t.Line = t.Cargo.With(t.Env), over.Line
	// A shell or a file is given what [env] tables hold, too: only cargo reads those, and the file may take their place.
	t.ExportFrom, t.Exported = m.Host.Env, toolchain.Environment(m.Host, t.Set, t.Needs)
	t.Exported.Changes = append(t.Exported.Changes, over.Delta.Changes...)
	for _, w := range over.Warnings {
		m.Shell.Warning("%s", w)
	}
	return t, nil
}

// finishedIn says of a crate whether its build script finished in this target directory before.
func finishedIn(s *session.Session, graph session.Graph) func(crate string) bool {
	h := s.Machine.Host
	profiles := builddir.Profiles(h, graph.Places.BuildDirectory, s.Line.ProfileName(), s.Line.Target)
	return func(crate string) bool {
		outs := builddir.Outs(h, profiles, map[string]bool{crate: true})
		return slices.ContainsFunc(outs, func(out builddir.Out) bool { return builddir.Finished(h, out.Dir) })
	}
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
func compilesIn(cwd string, reach *features.Reach) []string {
	dirs := []string{cwd}
	for _, u := range reach.Units {
		if u.Inputs.NVCC && u.Dir != "" && !slices.Contains(dirs, u.Dir) {
			dirs = append(dirs, u.Dir)
		}
	}
	return dirs
}
