package session

import (
	"cmp"
	"strconv"

	"gpubuild/buildenv/memo"
	"gpubuild/features"
)

// Input is what features judges of this command line: the project, what is requested, and cargo's answer. The answer is strict if strict is
// set or the configuration says so.
func (s *Session) Input(g Graph, strict bool) features.Input {
	return features.Input{
		Project: cmp.Or(g.Project, s.Project), Request: s.Request(),
		Strict: strict || s.Config.Strict.Value, Graph: g.Units, Unknown: g.Reason,
		Named: s.Config.GPUPackages.Value, Once: s.once,
	}
}

// once keeps answers about directories that never change.
func (s *Session) once(dir string, ask func() bool) bool {
	const kind = "runs-nvcc-1"
	store, key := s.Machine.Memo(), memo.Key(dir)
	if data, known := store.Get(kind, key); known {
		return string(data) == "true"
	}
	is := ask()
	if err := store.Put(kind, key, nil, strconv.AppendBool(nil, is)); err != nil {
		s.Machine.Shell.Detail("the build script in %s is read again next time: %v", dir, err)
	}
	return is
}
