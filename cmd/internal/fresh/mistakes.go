package fresh

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/version"
	"gpubuild/features"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo/builddir"
)

func (s *State) mistakeOf(u features.ScriptUnit, outDir string) *mistake {
	return &mistake{unit: u, features: featureKey(u.Features), outDir: outDir, scriptRan: builddir.Ran(s.host, outDir)}
}

// mistakes holds the device code of outputs, and of programs made of them, against what was asked for.
func (s *State) mistakes(ctx context.Context, outputs []output, products []string) ([]*mistake, error) {
	var out []*mistake
	seen := map[string]bool{}
	code := map[string]holding{} // by OUT_DIR
	units := map[string]features.ScriptUnit{}
	for _, o := range outputs {
		u := o.unit
		if seen[o.outDir] || !u.Inputs.NVCC {
			continue
		}
		seen[o.outDir] = true
		f := s.mistakeOf(u, o.outDir)
		f.want = s.wanted(ctx, u.Inputs)
		if !u.Inputs.Arch { // it compiles nothing and asked nvcc for its version
			if was, is := scriptCUDA(o.cfgs), s.b.Tools.Set.Toolkit; was != "" && is != nil && was != is.Version.String() {
				made := stale.Make{NVCC: was}
				script := stale.Code{File: "its build script's words", Makes: []stale.Make{made}}
				f.list = []stale.Mismatch{{Code: script, By: stale.ByNVCC, Found: made}}
				f.told = fmt.Sprintf("%s was built for CUDA %s; the build asked for %s", u.Name, was, is.Version)
				out = append(out, f)
			}
			continue
		}
		held, err := s.holds(o.outDir)
		switch {
		case err != nil:
		case len(held.Code) > 0:
			code[o.outDir], units[o.outDir] = held, u
			s.mismatches(f, held)
		default:
			if held, err = s.inLibraries(o.libraries); err == nil {
				s.mismatches(f, held)
				s.leaveOwn(f)
				s.keepLibraries(o)
			}
		}
		if err != nil {
			s.shell.Detail("%s is not checked: %v", u.Name, err)
		}
		if len(f.list) > 0 {
			out = append(out, f)
		}
	}
	linked, err := s.olderInPrograms(code, units, products)
	if err != nil {
		return nil, err
	}
	return append(out, linked...), nil
}

// leaveOwn leaves of a mistake what is of kernels in the package's own sources: a library holds those of static libraries, too,
// which others compiled.
func (s *State) leaveOwn(f *mistake) {
	var list []stale.Mismatch
	var paths []string
	for i, m := range f.list {
		own, err := s.isOwn(f, m.Code, f.paths[i])
		if err != nil {
			s.shell.Detail("%s is not checked: %v", f.unit.Name, err)
		}
		if own {
			list, paths = append(list, m), append(paths, f.paths[i])
		}
	}
	f.list, f.paths = list, paths
}

// mismatches fills a mistake with the code of a holding that is not what was
// asked for. What cannot be decided is told only when verbose.
func (s *State) mismatches(f *mistake, held holding) {
	f.code = held.Code
	found := stale.Hold(held.Code, f.want)
	for _, m := range found.Mismatches {
		f.list, f.paths = append(f.list, m), append(f.paths, held.Path[m.At])
	}
	if n := len(found.Open); n > 0 {
		s.shell.Detail("%s is not checked in %d places: %s", f.unit.Name, n, found.Open[0])
	}
}

// linkedKind names the cache entries about programs that hold no older code than the OUT_DIRs of their packages.
const linkedKind = "linked-1"

// olderInPrograms looks for kernels that the packages' OUT_DIRs hold, and that a program holds only as made otherwise: it was
// linked before they were built again. Names alone are no proof, since other packages and NVIDIA's libraries may have a kernel of
// the same name; so a program is at fault only when it holds the kernel and none of it is as the packages have it.
func (s *State) olderInPrograms(code map[string]holding, units map[string]features.ScriptUnit, products []string) ([]*mistake, error) {
	var dirs, files []string
	for dir := range code {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	for _, dir := range dirs {
		files = append(files, slices.Compact(slices.Clone(code[dir].Path))...)
	}
	if len(dirs) == 0 {
		return nil, nil
	}
	var (
		out   []*mistake
		built map[string][]stale.Make // by kernel
		owner map[string]string       // OUT_DIR of a kernel
	)
	store := s.b.Machine.Memo()
	for _, path := range products {
		key := memo.Key(append([]string{version.Number(), path}, files...)...)
		if _, ok := store.Get(linkedKind, key); ok {
			continue
		}
		state := store.Watch(append([]string{path}, files...)...)
		if built == nil {
			var err error
			if built, owner, err = s.builtKernels(dirs, code); err != nil {
				return nil, err
			}
		}
		report, err := s.b.Scan(path)
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
				f = s.mistakeOf(units[dir], dir)
				f.linked = s.b.Machine.Shown(path)
				found[dir] = f
				out = append(out, f)
			}
			code := stale.Code{File: f.linked, Kernel: kernel, Kernels: 1, Makes: held}
			f.list = append(f.list, stale.Mismatch{Code: code, By: stale.ByNVCC, Found: held[0]})
			f.paths = append(f.paths, path)
		}
		if len(found) > 0 {
			continue
		}
		if err := store.Put(linkedKind, key, state, nil); err != nil {
			s.shell.Detail("what the program holds is not kept: %v", err)
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
func (s *State) builtKernels(dirs []string, code map[string]holding) (built map[string][]stale.Make, owner map[string]string, err error) {
	built, owner = map[string][]stale.Make{}, map[string]string{}
	for _, dir := range dirs {
		for i, path := range code[dir].Path {
			if i > 0 && path == code[dir].Path[i-1] {
				continue
			}
			report, err := s.b.Scan(path)
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

// agree says whether any of what a program holds of a kernel is what was built of it. Only what is told of both is compared;
// where nothing is, and where intermediate code becomes something else when it is linked, they agree.
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
