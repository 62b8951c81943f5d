package fresh

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/toolchain/nvcc"
)

// Macros is what our nvcc has to know where a procedural macro calls it; see nvcc.MacrosVariable.
func (s *State) Macros() string {
	return s.builtWith() + " " + s.b.macroDir()
}

// macroDir is where the lists are: next to what cargo knows of a package, so that a cache of a CI service loses both or none.
func (b *Build) macroDir() string {
	return b.Machine.Host.Join(b.profileDir(append(b.Platforms(), "")[0]), ".fingerprint")
}

// builtWith is all that kernels are made with besides the files that nvcc reads, in one word.
func (s *State) builtWith() string { return cache.Name(fmt.Sprint(s.read.inputs[noted{arch: true}])) }

// compareMacros compares what procedural macros had nvcc read, by its own lists: there is no OUT_DIR, so no stamp.
func (s *State) compareMacros() error {
	if s.b.Graph.Units == nil {
		return nil
	}
	h, ids := s.b.Machine.Host, map[string]string{}
	for _, u := range s.b.Graph.Units.Units {
		ids[manifest.ParsePkgID(u.PkgID).Name] = u.PkgID
	}
	for _, name := range h.Names(s.b.macroDir()) {
		pkg, is := strings.CutSuffix(name, nvcc.MacroSuffix)
		if id := ids[pkg]; is && id != "" {
			o := out{dir: h.Join(s.b.macroDir(), name, "out"), stamped: true, stamp: stale.Stamp{Read: map[string]string{}}, state: agrees}
			o.pkg.ScriptUnit = features.ScriptUnit{PkgID: id, Name: pkg, Dir: manifest.ParsePkgID(id).Dir(h), Inputs: compiling}
			list, err := nvcc.Read(h, o.dir, "", 0)
			if err != nil {
				return err
			}
			with := list[nvcc.BuiltWith]
			delete(list, nvcc.BuiltWith)
			for path, sum := range list {
				if place := s.place(o, path); sum != "" && path != nvcc.Incomplete && place != "" {
					o.stamp.Read[place] = sum[:min(32, len(sum))]
				}
			}
			was, now, err := s.stillRead(o)
			if err != nil {
				return err
			}
			if o.reasons = stale.Differences(pkg, was, now); len(o.reasons) > 0 {
				o.state = differs
			} else if with != s.builtWith() {
				o.state, o.why = unknown, "its procedural macro ran nvcc with another toolkit, compiler, architecture or variable"
			}
			s.outs = append(s.outs, o)
		}
	}
	return nil
}

// MacroWithNvcc is a procedural macro of a build whose text, or that of a library that it uses, names nvcc; empty: none.
func MacroWithNvcc(b Build) string {
	if b.Graph.Units == nil {
		return ""
	}
	read := newReader(b)
	for i, u := range b.Graph.Units.Units {
		id := manifest.ParsePkgID(u.PkgID)
		if !slices.Contains(u.Target.Kind, "proc-macro") || inCatalog(id.Name) {
			continue
		}
		local, foreign := b.libraries(i)
		if id.Local() {
			local = append(local, u.Target.SrcPath)
		} else {
			foreign = append(foreign, u.Target.SrcPath)
		}
		names := func(root string) bool { return source.NamesNvcc(read.hashes.Modules(root)) }
		if slices.ContainsFunc(local, names) || len(read.hashes.NamesNvcc(foreign)) > 0 {
			return id.Name
		}
	}
	return ""
}
