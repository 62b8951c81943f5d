package inputs

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/features/source"
)

// Sources is the input whose parts are the kernels, headers and build files of a package.
const Sources = "source"

// Unit is a GPU package of which the inputs are asked.
type Unit struct {
	features.ScriptUnit
	Script source.Script // without its Source: not known
	// All says that every file of the package counts: its script declares nothing, or nobody knows which headers nvcc read.
	All bool
	// Unknown says that nobody knows which headers nvcc read: the toolkit's count, too.
	Unknown bool
}

// compiledFrom are the endings of files that nvcc, CMake or make read without telling cargo: of C++ as GCC and the usual libraries of
// templates name it, and of compiled kernels.
var (
	compiledFrom = append([]string{".cu", ".c", ".cc", ".cpp", ".cxx", ".cmake", ".ptx", ".cubin", ".fatbin"}, headers...)
	headers      = []string{".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp", ".tcc", ".txx", ".impl", ".def"}
)

// Compiled reports whether a file is a source by its name alone.
func Compiled(h buildenv.Host, path string) bool {
	return slices.Contains(compiledFrom, strings.ToLower(h.Ext(path))) || h.Base(path) == "CMakeLists.txt"
}

// mostNamed bounds the files that are looked at in a directory that a variable or a script names, or where every file counts.
const mostNamed = 5000

// SourcesOf lists the files of a package that count whoever reads them, each with the name of its input: its C, C++ and CUDA files, what
// its script names, and if all files count, those. Those in cargo's own home are left out: cargo never changes a package there, and its
// version names it; so is what cargo builds in.
func (n *Hashes) SourcesOf(u Unit) (names, paths []string) {
	h := n.m.Host
	if u.Dir == "" || !u.Inputs.Arch {
		return nil, nil
	}
	built := slices.DeleteFunc(slices.Clone(n.built), func(b string) bool { return h.Below(u.Dir, b) })
	seen := map[string]bool{}
	add := func(path string) {
		if !seen[path] && !source.Unchanging(h, path) {
			seen[path] = true
			names, paths = append(names, NameOf(h, u.Dir, path)), append(paths, path)
		}
	}
	walk := func(dir string, counts func(path string) bool, enter func(dir string) bool, most int) {
		if !source.Unchanging(h, dir) && !Below(h, dir, built) {
			for _, path := range n.filesBelow(dir, built, most, enter, counts) {
				add(path)
			}
		}
	}
	compiled := func(path string) bool { return Compiled(h, path) }
	var crates map[string]bool // what rustc compiles of the package, which cargo knows
	listed := func(path string) bool {
		if crates == nil && h.Ext(path) == ".rs" {
			crates = n.reader.Files(u.Script.Crates)
		}
		return !source.Ignored(path) && !crates[path]
	}
	walk(u.Dir, compiled, func(dir string) bool {
		return !slices.Contains([]string{"docs", "doc", "tests", "target", "node_modules"}, h.Base(dir))
	}, buildenv.MostEntries)
	if u.All {
		walk(u.Dir, func(path string) bool { return !source.Ignored(path) && h.Ext(path) != ".rs" }, anywhere, mostNamed)
		if u.Script.Source != "" {
			add(u.Script.Source)
		}
	}
	text := n.reader.TextOf(u.Script, u.Dir)
	for _, path := range text.Files {
		if h.IsFile(path) && !Below(h, path, built) {
			add(path)
		}
	}
	dirs := slices.Clone(text.Dirs)
	for _, root := range u.Script.Locals { // HELPER/src/lib.rs
		dirs = append(dirs, h.Dir(h.Dir(root)))
	}
	for _, dir := range dirs {
		switch {
		case h.Below(u.Dir, dir): // the package's own, or above it
		case h.Below(dir, u.Dir): // all that is in a directory of the package that is named may be read
			walk(dir, listed, anywhere, mostNamed)
		default:
			walk(dir, compiled, anywhere, mostNamed)
		}
	}
	return names, paths
}

// compiler is what a script runs that compiles C or C++: by its name, or as a crate.
var compiler = lazyregexp.New(`\b(cc|CC|CXX|[\w-]*(gcc|g\+\+|c\+\+|clang)|clang\+\+|cl|[cgn]?make|CMake|MAKE|ninja|meson|bazel|scons|zig|tcc|autotools)(\b|\W)`)

// NamesCompiler reports whether a script, or what it runs, may run a compiler of C or C++.
func (n *Hashes) NamesCompiler(u Unit) bool {
	return u.Script.Source == "" || compiler.MatchString(n.reader.TextOf(u.Script, u.Dir).All)
}

// ReadByNobody reports whether a file of a package is C or C++ that its script does not name and, as a source, not of a kind that nvcc
// compiled: a script may list those.
func (n *Hashes) ReadByNobody(u Unit, path string, read map[string]bool) bool {
	h, ending := n.m.Host, strings.ToLower(n.m.Host.Ext(path))
	source := slices.Contains([]string{".c", ".cc", ".cpp", ".cxx"}, ending)
	if !source && !slices.Contains(headers, ending) || !h.Below(path, u.Dir) {
		return false
	}
	for name := range read {
		if source && strings.HasPrefix(name, stale.Part(Sources, "")) && h.Ext(name) == ending {
			return false
		}
	}
	text := n.reader.TextOf(u.Script, u.Dir)
	return !slices.Contains(text.Files, path) && !slices.ContainsFunc(text.Dirs, func(dir string) bool { return h.Below(path, dir) && !h.Below(u.Dir, dir) })
}

func anywhere(string) bool { return true }

// filesBelow lists the files below a directory that count, at most so many, without what is a build directory.
func (n *Hashes) filesBelow(dir string, built []string, most int, enter, counts func(path string) bool) (list []string) {
	complete, err := n.m.Host.Walk(dir, func(path, _ string, _ fs.DirEntry, isDir bool) bool {
		if !isDir && counts(path) && len(list) <= most {
			list = append(list, path)
		}
		return isDir && Own(n.m.Host, path, built) && enter(path)
	})
	if !complete || len(list) > most || err != nil && !errors.Is(err, fs.ErrPermission) { // no tool of the user's reads that
		n.tooMany(dir)
	}
	return list[:min(len(list), most)]
}

// NameOf is how a source of a package is called.
func NameOf(h buildenv.Host, dir, path string) string {
	if dir != "" && path != dir && h.Below(path, dir) {
		return strings.ReplaceAll(path[len(dir)+1:], `\`, "/")
	}
	return path
}

// Own reports whether a directory may hold a package's own sources: no build directory of cargo (one that is known, or any other, by its
// mark), repository, or what Python compiled of its own.
func Own(h buildenv.Host, dir string, built []string) bool {
	return !slices.Contains([]string{".git", "__pycache__"}, h.Base(dir)) && !Below(h, dir, built) && !h.IsFile(h.Join(dir, "CACHEDIR.TAG"))
}

// Below reports whether a path lies in one of some directories.
func Below(h buildenv.Host, path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && h.Below(path, dir) })
}
