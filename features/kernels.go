package features

import (
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// Endings of CUDA's and ROCm's device code, and of what else may hold device code.
var (
	cudaFiles  = []string{".cu", ".cuh", ".hip", ".ptx", ".cubin", ".fatbin"}
	otherFiles = []string{".a", ".lib", ".so", ".dylib", ".dll", ".wgsl", ".metal", ".spv", ".comp", ".cl"}
)

// demos are directories whose device code is seldom that of the library.
var demos = []string{"target", "tests", "test", "benches", "examples", "samples", "docs", "doc"}

// holds reports whether a directory has files with one of these endings, down to a depth and outside of some directories, of hidden ones, and
// of other packages that have a file, such as a build script to compile theirs. Nothing is read.
func (s *Sources) holds(dir string, deep int, without []string, theirs string, endings ...string) (holds bool) {
	_, _ = s.host.Walk(dir, func(path, below string, e fs.DirEntry, isDir bool) bool { // what cannot be listed holds nothing
		holds = holds || !isDir && slices.Contains(endings, strings.ToLower(s.host.Ext(below)))
		return isDir && !holds && strings.Count(below, "/") < deep && !strings.HasPrefix(e.Name(), ".") &&
			!slices.Contains(without, e.Name()) && !(s.host.IsFile(s.host.Join(path, theirs)) && s.host.IsFile(s.host.Join(path, manifest.FileName)))
	})
	return holds
}

// holdsDeviceCode reports whether a package has files that are device code, or may hold it, or some that belong to no package lie at the
// root of its workspace or in the directory above, unless the package is the root of a git repository.
func (s *Sources) holdsDeviceCode(p *manifest.Package) bool {
	holds, known := s.device[p]
	if !known {
		files := slices.Concat(cudaFiles, otherFiles)
		holds = s.holds(p.Dir, buildenv.MostDepth, demos[:1], "build.rs", files...) || s.holds(s.project.Root, 2, demos, manifest.FileName, files...) ||
			!slices.Contains(s.host.Names(p.Dir), ".git") && s.holds(s.host.Dir(p.Dir), 2, demos, manifest.FileName, cudaFiles...)
		s.device[p] = holds
	}
	return holds
}

// Leads reports whether a member brings CUDA code into a build with these features, by manifests alone.
func Leads(h buildenv.Host, p *manifest.Project, member *manifest.Package, noDefault bool, with ...string) bool {
	r := manifest.Request{NoDefault: noDefault, Features: with}
	asked := manifest.ParseRequest(r)
	facts := Gather(h, Input{Project: p, Request: r, Alone: member})
	return slices.ContainsFunc(with, asked.IsCUDA) || slices.ContainsFunc(facts.Roots[0].Linked, func(i int) bool {
		c := facts.Crate(i)
		return facts.CUDAOn(i) || c != nil && c.Role == catalog.ByFile
	})
}
