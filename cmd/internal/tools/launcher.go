package tools

import (
	"context"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
)

// Working is toolchain.Choose without the toolkits whose nvcc does not start: the facts say of each of them why. A file of that name may
// be of another processor, or only half there.
func Working(ctx context.Context, m *session.Machine, run session.Runner, f toolchain.Facts, n toolchain.Needs, w toolchain.Wish,
) (toolchain.Set, error) {
	for {
		set, err := toolchain.Choose(f, n, w)
		if err != nil || set.Toolkit == nil || !n.NVCC && !n.NVCCVersion {
			return set, err
		}
		problem := startNVCC(ctx, m, run, set.Toolkit.NVCC)
		if problem == "" {
			return set, nil
		}
		set.Toolkit.Problem = toolchain.NVCCFails + problem // Choose points into the facts
	}
}

// startNVCC starts an nvcc for its version, and returns what went wrong. That a file starts is remembered.
func startNVCC(ctx context.Context, m *session.Machine, run session.Runner, nvcc string) (problem string) {
	const kind = "nvcc-starts-1"
	store, key := m.Memo(), memo.Key(nvcc)
	if _, starts := store.Get(kind, key); starts || nvcc == "" {
		return ""
	}
	res, err := run.Run(ctx, buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Env: m.Host.Env.Entries(), Timeout: time.Minute})
	switch {
	case err != nil:
		return strings.TrimPrefix(strings.TrimRight(err.Error(), ": \n"), nvcc+": ")
	case !strings.Contains(string(res.Stdout), "release"):
		return "`nvcc --version` names no release"
	}
	if err := store.Put(kind, key, store.Watch(nvcc), nil); err != nil {
		m.Shell.Detail("cannot record that %s starts: %v", nvcc, err)
	}
	return ""
}

var nvccRelease = lazyregexp.New(`Cuda compilation tools, release (\d+\.\d+), V(\d+\.\d+\.\d+)`)

// launchers lists the programs that stand in front of the chosen nvcc, such as ccache or a script: what NVCC or CUDACXX names, and the
// nvcc that is first on PATH, where they are no other toolkit's own. One that answers `--version` as the chosen nvcc does is kept, since
// that is what it calls; of any other it is said that it is not used.
func (chosen Tools) launchers(ctx context.Context, m *session.Machine, h buildenv.Host) []string {
	t, run, env := chosen.Set.Toolkit, chosen.Guard.Over(m.Runner), h.Apply(h.Env, chosen.Delta)
	if t == nil || t.NVCC == "" {
		return nil
	}
	own := []string{h.Real(t.NVCC)}
	for _, other := range chosen.Facts.Toolkits {
		real := h.Real(other.NVCC)
		program := strings.TrimSuffix(h.Base(real), ".exe") == "nvcc" && machineCode(h, real) // of a toolkit that is not whole
		if other.NVCC != "" && (program || other.Problem == "" && !other.Version.IsZero()) {  // a directory with a script alone is none
			own = append(own, real)
		}
	}
	type candidate struct{ from, path string }
	list := []candidate{{"NVCC", h.Env.Get("NVCC")}, {"CUDACXX", h.Env.Get("CUDACXX")}}
	if onPath := h.LookPathAll("nvcc"); len(onPath) > 0 {
		list = append(list, candidate{"PATH", onPath[0]})
	}
	version := func(path string) string {
		res, err := run.Run(ctx, buildenv.Cmd{Path: path, Args: []string{"--version"}, Env: env.Entries()})
		if err != nil {
			m.Shell.Detail("%s --version: %v", path, err)
		}
		if v := nvccRelease.FindSubmatch(res.Stdout); v != nil {
			return string(v[2])
		}
		return "unknown"
	}
	var kept []string
	answered := ""
	for _, c := range list {
		if !h.IsAbs(c.path) || !h.IsFile(c.path) || slices.Contains(own, h.Real(c.path)) || slices.Contains(kept, c.path) {
			continue
		}
		if answered == "" {
			answered = version(t.NVCC)
		}
		if is := version(c.path); is == answered && is != "unknown" {
			kept = append(kept, c.path)
		} else {
			m.Shell.Note("%s (%s) is not used: it is nvcc %s, and %s has nvcc %s", c.path, c.from, is, t.Named(), answered)
		}
	}
	return kept
}
