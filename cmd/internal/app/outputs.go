package app

import (
	"strings"
	"time"

	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// sawBefore remembers which scripts had run before the build: what their OUT_DIRs hold may be left over from then.
func (j *journey) sawBefore() {
	j.before = map[string]int64{}
	for _, u := range j.reach.Units {
		for _, out := range j.outDirs(u.Name) {
			j.before[j.Host.Clean(out)] = builddir.Ran(j.Host, out)
		}
	}
	for _, out := range j.outDirsOf(j.localNames()) {
		j.before[j.Host.Clean(out)] = builddir.Ran(j.Host, out)
	}
	j.buildBegan = time.Now()
}

// output is what there is of one unit of a GPU package.
type output struct {
	unit      features.ScriptUnit
	outDir    string
	cfgs      []string // that its script told rustc
	libraries []string
	beyond    bool // of a package of which only its code shows that it compiles kernels
}

// outputs are those of the build, by cargo's word.
func (j *journey) outputs() []output {
	var out []output
	for _, m := range j.messages {
		if m.Reason != cargo.ScriptExecuted {
			continue
		}
		u, ok := strictest(j.unitsOf(m.PackageID, m.OutDir))
		beyond := false
		if !ok || !u.Inputs.NVCC {
			if u, beyond = j.beyond(m); !beyond {
				continue
			}
			j.keepTook(u, m.OutDir)
		}
		out = append(out, output{u, m.OutDir, m.Cfgs, j.libraries(u), beyond})
	}
	return out
}

// libraries are those that cargo made of a unit: what its script made elsewhere than in OUT_DIR ends there.
func (j *journey) libraries(u features.ScriptUnit) []string {
	var out []string
	for _, m := range j.messages {
		if m.Reason != cargo.Artifact || m.PackageID != u.PkgID || contains(m.Target.Kind, "custom-build") ||
			len(j.scriptSets()[u.PkgID]) > 1 && featureKey(m.Features) != featureKey(u.Features) {
			continue
		}
		for _, path := range m.Filenames {
			switch strings.ToLower(j.Host.Ext(path)) {
			case ".rlib", ".a", ".lib", ".so", ".dll", ".dylib":
				out = append(out, path)
			}
		}
	}
	return out
}

// products are the programs of the build and the libraries that other programs load.
func (j *journey) products() []string {
	var out []string
	for _, p := range j.programs {
		if p.Kind != "test" || j.Line.Verb == "test" || j.Line.Verb == "bench" {
			out = append(out, p.Path)
		}
	}
	for _, m := range j.messages {
		if m.Reason != cargo.Artifact || !contains(m.Target.CrateTypes, "cdylib") {
			continue
		}
		for _, path := range m.Filenames {
			switch strings.ToLower(j.Host.Ext(path)) {
			case ".so", ".dll", ".dylib":
				out = append(out, path)
			}
		}
	}
	return out
}
