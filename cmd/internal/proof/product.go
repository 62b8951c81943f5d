package proof

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
)

// kernelInSource finds the names of kernels in CUDA sources without their bounds.
var (
	kernelInSource = lazyregexp.New(`__global__\s[\w\s]*?\b(\w+)\s*\(`)
	launchBounds   = lazyregexp.New(`__launch_bounds__\s*\([^()]*\)`)
)

// ProductProgram is the program of which it is known that it holds a matrix product, and by what: one that is built, by its device
// code or by cuBLAS, else the only program of a project that has a CUDA source of one.
func ProductProgram(s *session.Session, bins []string) (bin, why string) {
	h := s.Machine.Host
	for _, name := range bins {
		for _, profile := range []string{"release", "debug"} {
			path := h.Join(s.Project.Root, "target", profile, h.Exe(name))
			if !h.IsFile(path) {
				continue
			}
			r, err := Scan(s.Machine, path)
			if err != nil {
				continue // what cannot be read shows nothing
			}
			if i := slices.IndexFunc(r.Kernels(), verify.IsProduct); i >= 0 {
				return name, "it holds " + verify.Plain(r.Kernels()[i])
			}
			if i := slices.IndexFunc(r.Imports, func(l string) bool { return strings.Contains(strings.ToLower(l), "cublas") }); i >= 0 {
				return name, "it loads " + r.Imports[i]
			}
		}
	}
	if len(bins) != 1 {
		return "", ""
	}
	files := 0
	_ = filepath.WalkDir(s.Project.Root, func(path string, d fs.DirEntry, err error) error { // what cannot be read shows nothing
		switch {
		case err != nil:
			return nil
		case d.IsDir() && (d.Name() == "target" || strings.HasPrefix(d.Name(), ".") && path != s.Project.Root):
			return filepath.SkipDir
		case !strings.HasSuffix(d.Name(), ".cu"):
			return nil
		}
		if files++; files > 1000 {
			return filepath.SkipAll
		}
		data, err := h.ReadFile(path, 4<<20)
		if err != nil {
			return nil
		}
		for _, m := range kernelInSource.FindAllSubmatch(launchBounds.ReplaceAll(data, nil), -1) {
			if name := string(m[1]); verify.IsProduct(name) {
				bin, why = bins[0], d.Name()+" has "+name
				return filepath.SkipAll
			}
		}
		return nil
	})
	return bin, why
}
