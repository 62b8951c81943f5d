package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo/builddir"
)

// mistake is one package unit whose code is not what was asked for.
type mistake struct {
	unit      features.ScriptUnit
	features  string
	outDir    string
	scriptRan int64
	want      stale.Want
	code      []stale.Code // all that it holds
	list      []stale.Mismatch
	paths     []string // of the file of each
	linked    string   // the program that holds older code than the package; empty: the package itself
	told      string   // where the mismatches' own words do not fit
	beyond    bool     // of a package of which only its code shows that it compiles kernels
}

func (f *mistake) sum() string {
	sum := sha256.Sum256([]byte(f.linked + "\x00" + stale.Sum(f.list)))
	return hex.EncodeToString(sum[:12])
}

func (f *mistake) words() string {
	switch {
	case f.told != "":
		return f.told
	case f.linked != "":
		return fmt.Sprintf("%s holds %s of %s, which was built since", f.linked, f.list[0].Found, f.unit.Name)
	}
	return stale.Told(f.unit.Name, f.list, f.want)
}

// mistakes holds the device code of outputs, and of programs made of them, against what was asked for.
func (j *journey) mistakes(ctx context.Context, outputs []output, products []string) ([]*mistake, error) {
	r := j.openResults()
	defer r.keep(j.app)
	var out []*mistake
	seenDir := map[string]bool{}
	code := map[string]holding{} // by OUT_DIR
	units := map[string]features.ScriptUnit{}
	for _, o := range outputs {
		u := o.unit
		if seenDir[o.outDir] || !o.beyond && !u.Inputs.NVCC {
			continue
		}
		seenDir[o.outDir] = true
		f := &mistake{unit: u, features: featureKey(u.Features), outDir: o.outDir, scriptRan: builddir.Ran(j.Host, o.outDir), want: j.wanted(ctx, u.Inputs)}
		if !u.Inputs.Arch { // it compiles nothing and asked nvcc for its version
			if was, is := scriptCUDA(o.cfgs), j.Set.Toolkit; was != "" && is != nil && was != is.Version.String() {
				f.list = []stale.Mismatch{{Code: stale.Code{File: "its build script's words", Makes: []stale.Make{{NVCC: was}}}, By: stale.ByNVCC, Found: stale.Make{NVCC: was}}}
				f.told = fmt.Sprintf("%s was built for CUDA %s; the build asked for %s", u.Name, was, is.Version)
				out = append(out, f)
			}
			continue
		}
		held, err := j.holds(o.outDir)
		if err != nil {
			j.Shell.Detail("%s is not checked: %v", u.Name, err)
			continue
		}
		if len(held.code) > 0 {
			code[o.outDir], units[o.outDir] = held, u
			if o.beyond {
				j.holdBeyond(f, held)
			} else {
				j.mismatches(f, held)
			}
		} else if o.beyond {
			continue
		} else if held, err = j.inLibraries(o.libraries); err == nil {
			j.mismatches(f, held)
			j.leaveOwn(f)
			r.keepLibraries(o)
		}
		if err != nil {
			j.Shell.Detail("%s is not checked: %v", u.Name, err)
		}
		if len(f.list) > 0 {
			out = append(out, f)
		}
	}
	linked, err := j.olderInPrograms(code, units, products)
	if err != nil {
		return nil, err
	}
	return append(out, linked...), nil
}

// inLibraries reads the device code of a package's libraries.
func (j *journey) inLibraries(paths []string) (holding, error) {
	var out holding
	for _, path := range paths {
		s, err := j.codeOf(path)
		if err != nil {
			return out, err
		}
		out.add(path, s)
	}
	return out, nil
}

// leaveOwn leaves of a mistake what is of kernels in the package's own sources: a library holds those of static libraries, too, which others compiled.
func (j *journey) leaveOwn(f *mistake) {
	var list []stale.Mismatch
	var paths []string
	for i, m := range f.list {
		own, err := j.isOwn(f, m.Code, f.paths[i])
		if err != nil {
			j.Shell.Detail("%s is not checked: %v", f.unit.Name, err)
		}
		if own {
			list, paths = append(list, m), append(paths, f.paths[i])
		}
	}
	f.list, f.paths = list, paths
}

// mismatches fills a mistake with the code of a holding that is not what was asked for. What cannot be decided is told only when verbose.
func (j *journey) mismatches(f *mistake, held holding) {
	f.code = held.code
	found := stale.Hold(held.code, f.want)
	for _, m := range found.Mismatches {
		f.list, f.paths = append(f.list, m), append(f.paths, held.path[m.At])
	}
	if n := len(found.Open); n > 0 {
		j.Shell.Detail("%s is not checked in %d places: %s", f.unit.Name, n, found.Open[0])
	}
}

// olderInPrograms looks for kernels that the packages' OUT_DIRs hold, and that a program holds only as made otherwise: it was linked before they
// were built anew. Names alone are no proof, since other packages and NVIDIA's libraries may have a kernel of the same name; so a program is at fault
// only when it holds the kernel and none of it is as the packages have it.
func (j *journey) olderInPrograms(code map[string]holding, units map[string]features.ScriptUnit, products []string) ([]*mistake, error) {
	r := j.openResults()
	var dirs []string
	sum := sha256.New()
	for dir := range code {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	for _, dir := range dirs {
		for _, path := range code[dir].path {
			fmt.Fprintln(sum, path, r.Files[path].Is)
		}
	}
	state := hex.EncodeToString(sum.Sum(nil)[:12])
	var (
		out   []*mistake
		built map[string][]stale.Make // by kernel
		owner map[string]string       // OUT_DIR of a kernel
	)
	for _, path := range products {
		is := j.Memo().State(path) + " " + state
		if len(dirs) == 0 || r.Programs[path] == is {
			continue
		}
		if built == nil {
			var err error
			if built, owner, err = j.builtKernels(dirs, code); err != nil {
				return nil, err
			}
		}
		report, err := j.scan(path)
		if err != nil {
			return nil, err
		}
		found := map[string]*mistake{}
		kernels := byKernel(report.Images)
		for _, kernel := range sortedNames(kernels) {
			held := kernels[kernel]
			if kernel == "" || len(built[kernel]) == 0 || agree(held, built[kernel]) {
				continue
			}
			dir := owner[kernel]
			f := found[dir]
			if f == nil {
				u := units[dir]
				f = &mistake{unit: u, features: featureKey(u.Features), outDir: dir, scriptRan: builddir.Ran(j.Host, dir), linked: j.Shown(path)}
				found[dir] = f
				out = append(out, f)
			}
			f.list = append(f.list, stale.Mismatch{Code: stale.Code{File: f.linked, Kernel: kernel, Kernels: 1, Makes: held}, By: stale.ByNVCC, Found: held[0]})
			f.paths = append(f.paths, path)
		}
		if len(found) == 0 {
			r.Programs[path], r.dirty = is, true
		}
	}
	return out, nil
}

func sortedNames(kernels map[string][]stale.Make) []string {
	names := make([]string, 0, len(kernels))
	for k := range kernels {
		names = append(names, k)
	}
	sort.Strings(names)
	return names
}

// builtKernels lists every kernel of the OUT_DIRs with all the ways in which it was made there, and one OUT_DIR that holds it.
func (j *journey) builtKernels(dirs []string, code map[string]holding) (built map[string][]stale.Make, owner map[string]string, err error) {
	built, owner = map[string][]stale.Make{}, map[string]string{}
	for _, dir := range dirs {
		for i, path := range code[dir].path {
			if i > 0 && path == code[dir].path[i-1] {
				continue
			}
			report, err := j.scan(path)
			if err != nil {
				return nil, nil, err
			}
			for kernel, makes := range byKernel(report.Images) {
				built[kernel], owner[kernel] = append(built[kernel], makes...), dir
			}
		}
	}
	return built, owner, nil
}

// agree says whether any of what a program holds of a kernel is what was built of it. Only what is told of both is compared; where nothing is, and
// where intermediate code becomes something else when it is linked, they agree.
func agree(held, built []stale.Make) bool {
	compared := false
	for _, b := range built {
		if b.Kind == fatbin.LTO {
			return true
		}
		for _, h := range held {
			var same bool
			switch {
			case h.NVCC != "" && b.NVCC != "":
				same = h.NVCC == b.NVCC
			case h.PTX != "" && b.PTX != "":
				same = h.PTX == b.PTX
			default:
				continue
			}
			if same && h.Arch.Capability == b.Arch.Capability {
				return true
			}
			compared = true
		}
	}
	return !compared
}
