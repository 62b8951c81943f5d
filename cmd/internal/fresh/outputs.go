package fresh

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/memo"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// sawBefore remembers which scripts had run before the build: what their OUT_DIRs hold may be left over from then.
func (s *State) sawBefore() {
	s.before = map[string]int64{}
	for _, out := range s.b.outDirs(s.scriptNames()...) {
		s.before[s.host.Clean(out)] = builddir.Ran(s.host, out)
	}
	s.began = time.Now().UnixNano()
}

// scriptNames are the packages whose build scripts run in this build.
func (s *State) scriptNames() []string {
	set := map[string]bool{}
	for _, list := range [][]features.ScriptUnit{s.gpu, s.scripts()} {
		for _, u := range list {
			set[u.Name] = true
		}
	}
	for _, p := range s.b.localScripts() {
		set[p.Name] = true
	}
	return sorted(set)
}

// outputs are those of the build, by cargo's messages.
func (s *State) outputs() []output {
	var out []output
	for _, m := range s.built.Messages {
		if m.Reason != cargo.ScriptExecuted {
			continue
		}
		u, ok := strictest(s.unitsOf(m.PackageID, m.OutDir))
		if ok && u.Inputs.NVCC && (s.b.Tools.Set.Toolkit != nil || !s.undeclared[u.PkgID]) {
			out = append(out, output{u, m.OutDir, m.Cfgs, s.libraries(u)})
		}
	}
	return out
}

// librariesKind names the cache entries about the libraries of units whose OUT_DIR holds no device code: which they are, only
// cargo says, and only when it builds.
const librariesKind = "libraries-1"

func (s *State) keepLibraries(o output) {
	data, err := json.Marshal(o.libraries)
	if err == nil {
		err = s.b.Machine.Memo().Put(librariesKind, memo.Key(o.outDir), nil, data)
	}
	if err != nil {
		s.shell.Detail("the libraries of %s are not kept: %v", o.unit.Name, err)
	}
}

func (s *State) keptLibraries(outDir string) []string {
	var list []string
	if data, ok := s.b.Machine.Memo().Get(librariesKind, memo.Key(outDir)); ok && json.Unmarshal(data, &list) != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(path string) bool { return !s.host.IsFile(path) })
}

// libraries are those that cargo made of a unit: what its script made elsewhere than in OUT_DIR ends there.
func (s *State) libraries(u features.ScriptUnit) []string {
	var out []string
	for _, m := range s.built.Messages {
		if m.Reason != cargo.Artifact || m.PackageID != u.PkgID || slices.Contains(m.Target.Kind, "custom-build") ||
			len(s.scriptSets()[u.PkgID]) > 1 && featureKey(m.Features) != featureKey(u.Features) {
			continue
		}
		for _, path := range m.Filenames {
			switch strings.ToLower(s.host.Ext(path)) {
			case ".rlib", ".a", ".lib", ".so", ".dll", ".dylib":
				out = append(out, path)
			}
		}
	}
	return out
}

// products are the programs of the build and the libraries that other programs load.
func (s *State) products() []string {
	var out []string
	for _, p := range s.built.Programs {
		if p.Kind != "test" || s.b.Line.Verb == "test" || s.b.Line.Verb == "bench" {
			out = append(out, p.Path)
		}
	}
	for _, m := range s.built.Messages {
		if m.Reason != cargo.Artifact || !slices.Contains(m.Target.CrateTypes, "cdylib") {
			continue
		}
		for _, path := range m.Filenames {
			switch strings.ToLower(s.host.Ext(path)) {
			case ".so", ".dll", ".dylib":
				out = append(out, path)
			}
		}
	}
	return out
}
