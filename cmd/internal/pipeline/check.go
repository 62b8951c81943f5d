package pipeline

import (
	"errors"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/nvcc"
)

// newestKnown is the release of the stand-in where no crate limits it.
const newestKnown = "13.0"

// lacksToolkit reports whether an error of tools.Choose is that no toolkit, or nothing that fits it, is here.
func lacksToolkit(err error) bool {
	var missing *toolchain.MissingError
	var misfit *toolchain.MisfitError
	return errors.As(err, &missing) || errors.As(err, &misfit)
}

// checkOnly is the environment of a type check with a stand-in for the toolkit.
func checkOnly(s *session.Session, j reach.Judged) (tools.Tools, error) {
	m := s.Machine
	t := ambient(m, j.Tool)
	t.Needs, t.Line = tools.LikelyNeeds(j.Reach), s.Line
	release := standInRelease(t.Needs)
	root, err := nvcc.StandIn(m.Host, m.CacheDir, release, m.Self)
	if err != nil { // the cache cannot be written to, or is full
		m.Shell.Detail("the stand-in is not kept in the cache: %v", err)
		root, err = nvcc.StandIn(m.Host, m.Host.Join(j.Graph.Places.TargetDirectory, nvcc.CheckDirectory), release, m.Self)
	}
	if err != nil {
		return t, err
	}
	t.Delta = nvcc.CheckEnvironment(m.Host, root, j.Graph.Places.TargetDirectory)
	t.Delta.Add(buildenv.Set, "CUDA_LIBRARY_PATH", root, "find_cuda_helper finds a toolkit outside of /usr/local by this variable alone")
	t.Env = m.Host.Apply(m.Host.Env, t.Delta)
	t.Cargo, t.ExportFrom, t.Exported = j.Tool.With(t.Env), m.Host.Env, t.Delta
	t.Line = s.Line.WithDirectories(t.Env.Get("CARGO_TARGET_DIR"))
	m.Shell.Status("Checking", "without a CUDA toolkit: a stand-in of release %s compiles no kernels (target directory %s)", release,
		m.Shown(t.Env.Get("CARGO_TARGET_DIR")))
	return t, nil
}

// standInRelease is what the stand-in says it is: the release that a crate is pinned to, else the newest that every crate knows.
func standInRelease(n toolchain.Needs) string {
	switch most := n.CudarcMax; {
	case !n.Pin.IsZero():
		return n.Pin.String()
	case !most.IsZero() && most.Compare(gpu.Version{Major: 13}) < 0:
		return most.String()
	}
	return newestKnown
}
