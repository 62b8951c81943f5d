package tools

import (
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
