package tools

import (
	"cmp"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// None is the word in place of a toolkit that asks for a type check without one.
const None = "none"

// wish is what the user asked for, and the toolkits that only we know of.
type wish struct {
	toolchain.Wish
	extra []cuda.Candidate
	from  string // who named the toolkit
}

// wishOf takes the strongest word of each kind first: a flag, the environment, the project, the user's own configuration.
func wishOf(s *session.Session, env buildenv.Env, tables []cargo.Given, o Options) (wish, error) {
	h := s.Machine.Host
	w := wish{Wish: toolchain.Wish{CUDA: o.Toolkit, CCBin: o.CCBin, Unchecked: toolchain.Unchecked(env)}, from: o.Prefix + "toolkit"}
	w.EnvFiles = map[string]string{}
	for _, g := range tables {
		if env.Get(g.Name) == g.Value && h.Env.Get(g.Name) != g.Value {
			w.EnvFiles[g.Name] = g.Origin
		}
	}
	problem, path := "", strings.ContainsAny(o.CCBin, `/\`)
	if c := h.Abs(o.CCBin); path && !h.IsFile(c) && !h.IsDir(c) {
		problem = "it does not exist"
	} else if !path && o.CCBin != "" && h.OS != buildenv.Windows && len(h.LookPathAll(o.CCBin)) == 0 {
		problem = "it is not on PATH"
	}
	if problem != "" {
		return w, exit.Usagef("name a compiler that is there, or leave the flag out", "%sccbin %s: %s", o.Prefix, o.CCBin, problem)
	}
	if w.CUDA == None {
		return w, &exit.UsageError{What: "toolkit=none is for check, clippy, doc and `gpubuild env --shell vscode`", Fix: "leave it out"}
	}
	if w.CUDA == "" {
		w.CUDA, w.from = env.Get("GPUBUILD_CUDA"), "GPUBUILD_CUDA"
	}
	if w.CUDA == "" {
		w.CUDA, w.from = s.Config.CUDA.Value, s.Config.CUDA.Origin
	}
	if w.CUDA == "" {
		u, err := User(h)
		if err != nil {
			return w, err
		}
		w.CUDA, w.from = u.CUDA, byUse
	}
	if w.CUDA != "" {
		w.CUDAOrigin = w.from
	}
	w.Backend, w.BackendOrigin = toolchain.BackendWish(o.Backend, o.Prefix+"backend", env)
	w.Arch, w.ArchOrigin = toolchain.ArchWish(o.Arch, o.Prefix+"arch", env, s.Config.Arch.Value, s.Config.Arch.Origin)
	if name := w.ArchOrigin; w.Arch != "" && env.Get(name) == w.Arch { // a variable
		if w.ArchOrigin += " in the environment"; h.Env.Get(name) != w.Arch {
			w.ArchOrigin = name + " in an [env] table of cargo's configuration"
		}
	}
	if strings.ContainsAny(w.CUDA, `/\`) {
		w.CUDA = h.Abs(w.CUDA)
		w.extra = append(w.extra, cuda.Candidate{Root: w.CUDA, Origin: w.from})
	}
	installed, leftovers := install.Toolkits(h, s.Machine.CacheDir)
	for _, in := range leftovers {
		s.Machine.Shell.Warning("%s", in.Unusable())
	}
	for _, in := range installed {
		origin := inCache
		if w.CUDAOrigin == byUse && w.CUDA == in.CUDA.String() {
			origin += ", " + byUse
		}
		w.extra = append(w.extra, cuda.Candidate{Root: in.Root, Origin: origin})
	}
	return w, nil
}

// previous has the architecture stay what it was where nobody asks for another.
func (w *wish) previous(archs []gpu.Arch, unset bool) {
	if len(w.Previous) == 0 && len(archs) > 0 && !archs[0].Capability.IsZero() {
		w.Previous, w.PreviousUnset = archs, unset
	}
}

// archUnsetKind names the entries of the cache that say that a build directory's kernels were built without CUDA_COMPUTE_CAP, because
// nvidia-smi answers the same. Setting the variable in a later build, when no GPU is asked any more, would make cargo rebuild them all.
const archUnsetKind = "arch-unset-1"

func archUnset(m *session.Machine, buildDir string) bool {
	_, unset := m.Memo().Get(archUnsetKind, memo.Key(buildDir))
	return unset
}

// KeepArchUnset remembers after a build whether its kernels were built without CUDA_COMPUTE_CAP.
func (t Tools) KeepArchUnset(m *session.Machine, buildDir string) {
	_, set := t.Env.Lookup("CUDA_COMPUTE_CAP")
	was := archUnset(m, buildDir)
	var err error
	switch is := !set && !t.Set.Capability.IsZero(); {
	case is && !was:
		err = m.Memo().Put(archUnsetKind, memo.Key(buildDir), nil, nil)
	case !is && was:
		err = m.Memo().Remove(archUnsetKind, memo.Key(buildDir))
	}
	if err != nil {
		m.Shell.Detail("cannot record that the architecture was a default: %v", err)
	}
}

// configured is the machine with what cargo's [env] tables say of tools, and the tables.
func configured(s *session.Session, o Options) (buildenv.Host, []cargo.Given) {
	host := s.Machine.Host
	if o.Cargo.Path == "" {
		return host, nil
	}
	tables := cargo.ConfigEnv(host, o.Cargo, s.Line)
	env, warnings := importConfigEnv(host, tables)
	for _, w := range warnings {
		s.Machine.Shell.Warning("%s", w)
	}
	host.Env = env
	return host, tables
}

// importConfigEnv is the user's environment with what the [env] tables of cargo's configuration say of tools: build scripts see it, so it
// counts as what the user set. Where it is forced over another value, a warning says so.
func importConfigEnv(h buildenv.Host, tables []cargo.Given) (env buildenv.Env, warnings []string) {
	env = h.Env
	for _, g := range tables {
		own, set := env.Lookup(g.Name)
		if !toolchain.SelectsToolchain(h, g.Name) || set && !g.Force {
			continue
		}
		if own != "" && own != g.Value {
			warnings = append(warnings, fmt.Sprintf("the [env] of %s forces %s=%s in place of the %s of your environment",
				g.Origin, g.Name, g.Value, own))
		}
		env = env.Set(g.Name, g.Value)
	}
	return env, warnings
}

// ScriptEnv is the environment of build scripts: the build's, and what only cargo's [env] tables set.
func (t Tools) ScriptEnv(h buildenv.Host) buildenv.Env {
	env := t.Env
	for _, g := range t.Given {
		_, set := env.Lookup(g.Name)
		if (!set || g.Force) && g.Name != "PATH" && !toolchain.SelectsToolchain(h, g.Name) { // tools are the build's, see overrideConfigEnv
			env = env.Set(g.Name, g.Value)
		}
	}
	return env
}

// scriptHost is a machine as build scripts see it.
func scriptHost(h buildenv.Host, tables []cargo.Given) buildenv.Host {
	h.Env = Tools{Env: h.Env, Given: tables}.ScriptEnv(h)
	return h
}

// override is what keeps the [env] tables from taking the chosen tools away from build scripts.
type override struct {
	Delta    buildenv.Delta // what has to be set because cargo would set it otherwise
	Line     cargo.Line     // the command line, which overrules values that are forced
	Warnings []string
}

// overrideConfigEnv returns what must be added to the environment and the command line of a build: a table that forces its value is
// overruled on the command line, and what was unset gets a value.
func overrideConfigEnv(h buildenv.Host, env buildenv.Env, set toolchain.Set, tables []cargo.Given, line cargo.Line) override {
	o := override{Line: line}
	for _, g := range tables {
		isPath := g.Name == "PATH" || h.OS == buildenv.Windows && strings.EqualFold(g.Name, "PATH")
		if !isPath && !toolchain.SelectsToolchain(h, g.Name) {
			continue
		}
		want, isSet := env.Lookup(g.Name)
		if isSet && want == g.Value || isPath && (!g.Force || samePrograms(h, env, env.Set("PATH", g.Value))) {
			continue
		}
		if !isSet {
			want = toolchain.InPlace(set, g.Name)
			o.Delta.Add(buildenv.Set, g.Name, want, "cargo would set it by the [env] of "+g.Origin)
		}
		if !g.Force {
			continue // the environment is stronger
		}
		o.Line = o.Line.WithEnv(g.Name, want)
		o.Warnings = append(o.Warnings, fmt.Sprintf(
			"the [env] of %s forces %s=%s, and build scripts are given %s; a build by plain cargo takes the other",
			g.Origin, g.Name, g.Value, cmp.Or(want, "nothing")))
	}
	return o
}

// samePrograms reports whether the PATHs of two environments lead to the same compilers.
func samePrograms(h buildenv.Host, a, b buildenv.Env) bool {
	one, other := h, h
	one.Env, other.Env = a, b
	for _, tool := range []string{"nvcc", "cl", "gcc", "g++"} {
		x, _ := one.LookPath(tool) // none is no error
		y, _ := other.LookPath(tool)
		if x != y && (tool != "cl" || h.OS == buildenv.Windows) {
			return false
		}
	}
	return true
}
