package session

import (
	"cmp"

	"gpubuild/buildenv/memo"
	"gpubuild/features"
	"gpubuild/features/manifest"
)

// Input is what features judges of this command line: the project, what is requested, and cargo's answer. The answer is strict if strict is
// set or the configuration says so.
func (s *Session) Input(g Graph, strict bool) features.Input {
	return features.Input{
		Project: cmp.Or(g.Project, s.Project), Request: s.Request(),
		Strict: strict || s.Config.Strict.Value, Graph: g.Units, Unknown: g.Reason,
		Named: s.Config.GPUPackages.Value, Compiled: s.compiled,
	}
}

// compiledKind names the entries of packages for whose build scripts our nvcc compiled kernels.
const compiledKind = "compiled-1"

func (s *Session) compiled(p *manifest.Package) bool {
	_, is := s.Machine.Memo().Get(compiledKind, s.compiledKey(p.Dir))
	return is
}

func (s *Session) compiledKey(dir string) string { return memo.Key(s.Machine.Host.Real(dir)) }

// KeepCompiled keeps that our nvcc compiled kernels for the build script of the package in a directory.
func (s *Session) KeepCompiled(dir string) {
	store, key := s.Machine.Memo(), s.compiledKey(dir)
	if _, known := store.Get(compiledKind, key); known {
		return
	}
	if err := store.Put(compiledKind, key, nil, []byte{'1'}); err != nil {
		s.Machine.Shell.Detail("that kernels were compiled in %s is not kept: %v", dir, err)
	}
}
