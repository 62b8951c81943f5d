package tools

import (
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
)

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
