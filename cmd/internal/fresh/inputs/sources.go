package inputs

import (
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
)

// Sources is the input whose parts are the kernels, headers and build files of a package.
const Sources = "source"

// compiledFrom are the endings of files that nvcc, CMake or make read without telling cargo: of C++ as GCC and the usual libraries of
// templates name it, of scripts, and of compiled kernels.
var compiledFrom = []string{
	".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp", ".tcc", ".txx", ".impl",
	".def", ".cmake", ".mk", ".sh", ".ptx", ".cubin", ".fatbin",
}

// compiledNames are such files without an ending of their own.
var compiledNames = []string{"CMakeLists.txt", "Makefile", "makefile", "GNUmakefile"}

// pythonCache is where Python keeps what it compiled of the modules next to it.
const pythonCache = "__pycache__"

// Compiled says whether a file is a source by its name alone.
func Compiled(h buildenv.Host, path string) bool {
	return slices.Contains(compiledFrom, strings.ToLower(h.Ext(path))) || slices.Contains(compiledNames, h.Base(path))
}

// SourcesOf lists the files of a package that compiles kernels (or has its own directory among its sources), of the directories that its
// script names, and those that it names itself, each with the name of its input. Those in cargo's own home are left out: cargo never
// changes a package there, and its version names it; so is what cargo builds in. Cut are the directories that hold more than
// buildenv.MostEntries, of which some are missing.
func SourcesOf(h buildenv.Host, u features.ScriptUnit, built []string) (names, paths, cut []string, err error) {
	if u.Dir == "" || !u.Inputs.Arch && !slices.Contains(u.Inputs.Sources, u.Dir) {
		return nil, nil, nil, nil
	}
	built = slices.DeleteFunc(slices.Clone(built), func(b string) bool { return h.Below(u.Dir, b) })
	seen := map[string]bool{}
	add := func(path, name string) {
		if h.Below(path, u.Dir) {
			name = NameOf(h, u, path)
		}
		if seen[path] || h.Base(h.Dir(path)) == pythonCache {
			return
		}
		if seen[name] { // two directories of one name
			name = path
		}
		seen[path], seen[name] = true, true
		names, paths = append(names, name), append(paths, path)
	}
	for _, d := range manifest.Union([]string{u.Dir}, u.Inputs.Sources) {
		whole := d != u.Dir && h.Below(d, u.Dir) // all that lies in a directory of the package that is named may be read
		switch {
		case source.Unchanging(h, d) || d != u.Dir && Below(h, d, built):
		case h.IsFile(d):
			add(d, d)
		default:
			complete, err := h.Walk(d, func(path, rel string, _ fs.DirEntry, isDir bool) bool {
				if !isDir && (Compiled(h, path) || whole && h.Ext(path) != ".rs") {
					add(path, h.Base(d)+"/"+rel)
				}
				return isDir && Own(h, path, built)
			})
			if err != nil {
				return nil, nil, nil, err
			}
			if !complete {
				cut = append(cut, d)
			}
		}
	}
	return names, paths, cut, nil
}

// NameOf is how a source of a package is called.
func NameOf(h buildenv.Host, u features.ScriptUnit, path string) string {
	if path != u.Dir && h.Below(path, u.Dir) {
		return strings.ReplaceAll(path[len(u.Dir)+1:], `\`, "/")
	}
	return path
}

// Own says whether a directory may hold a package's own sources: no build directory of cargo (one that is known, or any other, by its
// mark), repository, node's modules or what Python compiled of its own.
func Own(h buildenv.Host, dir string, built []string) bool {
	name := h.Base(dir)
	return !slices.Contains([]string{".git", "node_modules", pythonCache}, name) && !Below(h, dir, built) &&
		!h.IsFile(h.Join(dir, "CACHEDIR.TAG"))
}

// Below says whether a path lies in one of some directories.
func Below(h buildenv.Host, path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && h.Below(path, dir) })
}
