package fresh

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/nvcc"
)

// Macros is what our nvcc has to know where a procedural macro calls it: all that kernels are made with besides the files that nvcc reads,
// in one word, and the directory of the lists. That is next to what cargo knows of a package, so that a cache of a CI service loses both.
func (s *State) Macros() string {
	return cache.Name(fmt.Sprint(s.read.inputs[noted{arch: true}])) + " " + s.b.macroDir()
}

func (b *Build) macroDir() string {
	return b.Machine.Host.Join(b.profileDir(append(b.Platforms(), "")[0]), ".fingerprint")
}

// compareMacros compares what procedural macros had nvcc read, by its own lists: there is no OUT_DIR, so no stamp.
func (s *State) compareMacros() error {
	h, ids := s.b.Machine.Host, map[string]string{}
	if s.b.Graph.Units == nil {
		return nil
	}
	for _, u := range s.b.Graph.Units.Units {
		ids[manifest.ParsePkgID(u.PkgID).Name+nvcc.MacroSuffix] = u.PkgID
	}
	for _, name := range h.Names(s.b.macroDir()) {
		if ids[name] == "" {
			continue
		}
		o := out{dir: h.Join(s.b.macroDir(), name, "out"), stamped: true, stamp: stale.Stamp{Read: map[string]string{}}, state: agrees}
		id := manifest.ParsePkgID(ids[name])
		o.pkg.ScriptUnit = features.ScriptUnit{PkgID: ids[name], Name: id.Name, Dir: id.Dir(h), Inputs: compiling}
		list, err := nvcc.Read(h, o.dir, "", 0)
		if err != nil {
			return err
		}
		for path, sum := range list {
			if place := s.place(o, s.path(o, path)); sum != "" && h.IsAbs(s.path(o, path)) && place != "" {
				o.stamp.Read[place] = sum[:min(32, len(sum))]
			}
		}
		was, now, err := s.stillRead(o)
		if err != nil {
			return err
		}
		if o.reasons = stale.Differences(id.Name, was, now); len(o.reasons) > 0 {
			o.state = differs
		} else if with, _, _ := strings.Cut(s.Macros(), " "); with != list[nvcc.BuiltWith] {
			o.state, o.why = unknown, "its procedural macro ran nvcc with another toolkit, compiler, architecture or variable"
		}
		s.outs = append(s.outs, o)
	}
	return nil
}
