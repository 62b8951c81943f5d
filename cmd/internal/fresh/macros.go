package fresh

import (
	"slices"
	"strings"

	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/nvcc"
)

// Macros is where our nvcc lists what it read where a procedural macro called it: among what build scripts left, so that a cache of a CI
// service keeps or loses both.
func (s *State) Macros() string {
	return s.b.Machine.Host.Join(s.b.profileDir(append(s.b.Platforms(), "")[0]), "build")
}

// macros are the units for which procedural macros ran nvcc. What it left looks like the OUT_DIR of a build script that the unit has not.
func (s *State) macros() (list []features.ScriptUnit) {
	ofScript := func(name string) bool { return !strings.HasSuffix(name, nvcc.MacroSuffix) }
	h := s.b.Machine.Host
	made := slices.DeleteFunc(h.Names(s.Macros()), ofScript)
	if s.b.Graph.Units == nil || len(made) == 0 {
		return nil
	}
	for _, u := range s.b.Graph.Units.Units {
		id := manifest.ParsePkgID(u.PkgID)
		if u.Mode != runsScript && !u.Host() && slices.Contains(made, id.Name+nvcc.MacroSuffix) {
			list = append(list, features.ScriptUnit{PkgID: u.PkgID, Name: id.Name, Version: id.Version, Features: u.Features,
				Dir: h.Dir(h.Dir(u.Target.SrcPath)), Platform: u.Platform})
		}
	}
	return list
}

// ofMacro reports whether an OUT_DIR is that of a package's procedural macros: it is there because nvcc ran.
func (s *State) ofMacro(o outDir) bool { return o.dir == nvcc.MacroOut(s.Macros(), o.pkg.Name) }

// macrosBuilt is what cargo would say of macros if they were build scripts.
func (s *State) macrosBuilt() (list []cargo.Message) {
	for _, u := range s.macros() {
		list = append(list, cargo.Message{Reason: cargo.ScriptExecuted, PackageID: u.PkgID, OutDir: nvcc.MacroOut(s.Macros(), u.Name)})
	}
	return list
}
