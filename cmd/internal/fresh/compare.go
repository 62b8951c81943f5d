package fresh

import (
	"context"
	"slices"

	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// compare holds what is recorded of the GPU packages against what they would be built with now. Which units there are is known
// from the record itself: an entry is about one OUT_DIR, and a package that was never built has nothing that could be stale.
func (s *State) compare(ctx context.Context) error {
	s.findUnits()
	s.units = nil
	seen := map[stale.Key]bool{}
	for _, u := range s.gpu {
		if s.undeclared[u.PkgID] && s.b.Tools.Set.Toolkit == nil {
			continue // there is nothing that its code could be held against
		}
		inputs, err := s.look(u)
		if err != nil {
			return err
		}
		entries := s.entriesOf(u)
		for _, e := range entries {
			if seen[e.Key] {
				continue // on another platform
			}
			seen[e.Key] = true
			ran := builddir.Ran(s.host, e.OutDir)
			if ran == 0 && !s.host.IsDir(e.OutDir) {
				continue // cleaned since: it will be built
			}
			linked, err := s.stillLinked(e)
			if err != nil {
				return err
			}
			now := append(slices.Clip(inputs), linked...)
			s.units = append(s.units, stale.Unit{Key: e.Key, Package: u.Name, Inputs: now, ScriptRan: ran})
		}
		if len(entries) > 0 {
			continue
		}
		for _, out := range s.unrecorded(u) {
			if k := (stale.Key{PkgID: u.PkgID, Features: featureKey(u.Features), OutDir: out}); !seen[k] {
				seen[k] = true
				s.units = append(s.units, stale.Unit{Key: k, Package: u.Name, Inputs: inputs, ScriptRan: builddir.Ran(s.host, out)})
			}
		}
	}
	if s.b.Tools.Set.Toolkit != nil && s.b.Tools.Needs.NVCC { // one may compile its first kernels in this build
		if _, err := s.look(features.ScriptUnit{Inputs: compiles}); err != nil {
			return err
		}
	}
	s.compared = stale.Compare(s.record, s.units)
	s.adopt(ctx)
	return nil
}

// look notes what a unit would be built with now.
func (s *State) look(u features.ScriptUnit) ([]stale.Input, error) {
	inputs, err := inputs.Now(s.host, s.b.Tools, u.Inputs, s.hashes)
	s.inputs[u.PkgID+" "+featureKey(u.Features)] = inputs
	return inputs, err
}

// looked are the inputs of a unit as they were before the build: what was replaced while cargo ran is another thing at the next
// one. For a package of which the build itself showed that it compiles kernels they are those of any that does, if somebody
// looked at them.
func (s *State) looked(u features.ScriptUnit) []stale.Input {
	inputs, known := s.inputs[u.PkgID+" "+featureKey(u.Features)]
	any := s.inputs[" "]
	if !known {
		return any
	}
	if !u.Inputs.Arch {
		return inputs
	}
	out := slices.Clip(inputs)
	for _, in := range any {
		if !slices.ContainsFunc(inputs, func(old stale.Input) bool { return old.Name == in.Name }) {
			out = append(out, in)
		}
	}
	return out
}

// unseen says whether a unit that cargo took as it lay there was compared with nothing: of its package and features another
// OUT_DIR is recorded, and plain cargo made this one (another toolchain, other RUSTFLAGS, another selection of the workspace).
func (s *State) unseen(m cargo.Message) bool {
	ran := s.before[s.host.Clean(m.OutDir)]
	if ran == 0 || ran != builddir.Ran(s.host, m.OutDir) {
		return false
	}
	return !slices.ContainsFunc(s.units, func(u stale.Unit) bool { return s.host.SamePath(u.OutDir, m.OutDir) })
}

// compareRest compares what cargo took and what was not compared before the build, since only cargo knows which OUT_DIRs it
// takes. It answers the packages of it that are stale.
func (s *State) compareRest(ctx context.Context) (packages []string, err error) {
	var rest []stale.Unit
	for _, m := range s.built.Messages {
		if m.Reason != cargo.ScriptExecuted || !s.unseen(m) {
			continue
		}
		for _, u := range s.unitsOf(m.PackageID, m.OutDir) {
			inputs, err := s.look(u)
			if err != nil {
				return nil, err
			}
			key := stale.Key{PkgID: u.PkgID, Features: featureKey(u.Features), OutDir: m.OutDir}
			rest = append(rest, stale.Unit{Key: key, Package: u.Name, Inputs: inputs, ScriptRan: builddir.Ran(s.host, m.OutDir)})
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	s.earlier = s.Lines()
	s.compared = stale.Compare(s.record, rest)
	s.adopt(ctx)
	s.units = append(s.units, rest...)
	return s.stalePackages(), nil
}
