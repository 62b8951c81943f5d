package app

import (
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// beyond answers, for a path package whose build script ran, the unit that it is if it compiled kernels although nothing in its sources shows that. What
// was read of a script is never the whole: it may run any program. Of packages of registries the sources tell enough, and their code is not the
// user's own. Without a chosen toolkit there is nothing that code could be held against.
func (j *journey) beyond(m cargo.Message) (features.ScriptUnit, bool) {
	id := features.ParsePkgID(m.PackageID)
	if !id.Local() || j.set.Toolkit == nil {
		return features.ScriptUnit{}, false
	}
	u := features.ScriptUnit{PkgID: m.PackageID, Name: id.Name, Version: id.Version, Dir: id.Dir(j.host), Inputs: features.Inputs{NVCC: true, Host: true, Arch: true}}
	for _, a := range j.messages {
		if a.Reason == cargo.Artifact && a.PackageID == m.PackageID && contains(a.Target.Kind, "custom-build") {
			u.Features = a.Features
		}
	}
	return u, true
}

// beyondThere are the outputs of such packages as earlier builds left them. Of several OUT_DIRs of one package the last that was written counts.
func (j *journey) beyondThere() []output {
	if j.set.Toolkit == nil {
		return nil
	}
	compiles := map[string]bool{}
	for _, u := range j.reach.Units {
		compiles[u.Name] = compiles[u.Name] || u.Inputs.NVCC
	}
	var out []output
	for _, list := range [][]*features.Package{j.project.Members, j.project.Locals} {
		for _, p := range list {
			if p.BuildScript == "" || compiles[p.Name] {
				continue
			}
			if newest := j.newestOut(p.Name); newest != "" {
				u := features.ScriptUnit{PkgID: p.PathID(j.host), Name: p.Name, Version: p.Version, Dir: p.Dir, Inputs: features.Inputs{NVCC: true, Host: true, Arch: true}}
				out = append(out, output{unit: u, outDir: newest, beyond: true})
			}
		}
	}
	return out
}

// localNames are the packages of which beyond may speak.
func (j *journey) localNames() map[string]bool {
	out := map[string]bool{}
	for _, list := range [][]*features.Package{j.project.Members, j.project.Locals} {
		for _, p := range list {
			if p.BuildScript != "" {
				out[p.Name] = true
			}
		}
	}
	return out
}

// sourceDirs are where the sources of a package's kernels may lie: in its own directory and, where nothing shows how they come to it, in those of the
// other packages of the project, which are the user's own as well.
func (j *journey) sourceDirs(f *mistake) []string {
	dirs := []string{f.unit.Dir}
	if !f.beyond {
		return dirs
	}
	add := func(dir string) {
		for _, d := range dirs {
			if j.host.Below(dir, d) {
				return
			}
		}
		dirs = append(dirs, dir)
	}
	add(j.project.Root)
	for _, list := range [][]*features.Package{j.project.Members, j.project.Locals} {
		for _, p := range list {
			add(p.Dir)
		}
	}
	return dirs
}

// holdBeyond judges the OUT_DIR of a package of which nothing shows that it compiles kernels. Only kernels that are the user's own count, and none that
// came compiled: what a script unpacked or fetched was made by whoever made it.
func (j *journey) holdBeyond(f *mistake, held holding) {
	f.beyond = true
	j.mismatches(f, held)
	if j.leaveOwn(f); len(f.list) > 0 && j.allShipped(f) {
		f.list, f.paths = nil, nil
	}
}
