package source

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
)

// Script is where the text of a build script lies, as far as it is known.
type Script struct {
	Source  string   // its file
	Helpers []string // packages that it uses: see helpersOf
	Locals  []string // root files of the path packages that it uses, which are as much the user's own as the script
	Crates  []string // root files of what cargo compiles of its package
}

// part is one file of a script's text, without its comments.
type part struct{ file, text string }

// scriptText is everything that a build script may do, by file.
type scriptText struct {
	parts []part
	All   string
	Files []string // that it names, or what it runs
	Dirs  []string // the same
}

// The most that is read of one script: far more than anybody writes, and little enough for a first look.
const (
	mostModules = 200
	mostNamed   = 2000
	mostCalled  = 1 << 18 // bytes of a file that a script calls
)

// TextOf reads a build script with its modules, what of its local build-dependencies it uses, and what these name; see called. A helper
// crate serves packages that compile no kernels, too, so of it only those items count that the script leads to by their names.
func (r *Reader) TextOf(s Script, dir string) scriptText {
	key := fmt.Sprint(s, dir)
	t, read := r.calls[key]
	if read || s.Source == "" {
		return t
	}
	defer func() { r.calls[key] = t }()
	t.parts = r.modules(s.Source)
	var library []part
	for _, root := range s.Locals {
		library = append(library, r.modules(root)...)
	}
	t.parts = append(t.parts, usedItems(joined(t.parts), library)...)
	if dir != "" {
		var more []part
		more, t.Dirs = r.called(t.parts, dir, s.Locals)
		for _, p := range more {
			t.Files = append(t.Files, p.file)
		}
		t.parts = append(t.parts, more...)
	}
	t.All = joined(t.parts)
	return t
}

func joined(parts []part) string {
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.text)
	}
	return all.String()
}

var (
	moduleLine = lazyregexp.New(`(?m)^[ \t]*(?:#\[path\s*=\s*"([^"]+)"\]\s*)?(?:#\[[^\]\n]*\]\s*)*` +
		`(?:pub(?:\([^)]*\))?\s+)?mod\s+([A-Za-z_]\w*)\s*;`)
	includedFile = lazyregexp.New(`\binclude!\(\s*(?:(concat!\(\s*env!\(\s*"CARGO_MANIFEST_DIR"\s*\)\s*,)\s*)?"([^"]+)"`)
)

// modules reads a Rust file and the files of its modules. Source: The Rust Reference, "Module Source Filenames"; modules inside of inline
// ones are not followed.
func (r *Reader) modules(root string) []part {
	type file struct{ path, below string } // below: where its modules lie
	h := r.h
	queue, seen := []file{{root, h.Dir(root)}}, map[string]bool{}
	var out []part
	for ; len(queue) > 0 && len(out) < mostModules; queue = queue[1:] {
		f := queue[0]
		if seen[f.path] {
			continue
		}
		seen[f.path] = true
		text, ok := r.read(f.path)
		if !ok {
			continue
		}
		out = append(out, part{f.path, text})
		for _, m := range moduleLine.FindAllStringSubmatch(text, -1) {
			if m[1] != "" {
				path := h.From(h.Dir(f.path), m[1])
				queue = append(queue, file{path, h.Dir(path)})
				continue
			}
			queue = append(queue, file{h.Join(f.below, m[2]+".rs"), h.Join(f.below, m[2])},
				file{h.Join(f.below, m[2], "mod.rs"), h.Join(f.below, m[2])})
		}
		for _, m := range includedFile.FindAllStringSubmatch(text, -1) {
			path := h.From(h.Dir(f.path), m[2])
			if m[1] != "" {
				path = h.Join(h.Dir(root), m[2])
			}
			queue = append(queue, file{path, f.below})
		}
	}
	return out
}

// Files lists some Rust files with those of their modules.
func (r *Reader) Files(roots []string) map[string]bool {
	files := map[string]bool{}
	for _, root := range roots {
		for _, p := range r.modules(root) {
			files[p.file] = true
		}
	}
	return files
}

// Modules is the text of a Rust file and of its modules.
func (r *Reader) Modules(root string) string { return joined(r.modules(root)) }

var (
	// rustItem is the head of an item; 'static and *const are none.
	rustItem = lazyregexp.New(`(?:^|[^'*\w])(?:(?:const\s+|async\s+|unsafe\s+|extern\s+"C"\s+)*fn|const|static(?:\s+mut)?|` +
		`struct|enum|trait|type|macro_rules!)\s+([A-Za-z_]\w*)`)
	rustName = lazyregexp.New(`[A-Za-z_]\w*`)
)

// usedItems returns the items of a library's files that a text leads to: those that it names, those that they name, and so on. Names are
// not resolved, so that too much is taken rather than too little.
func usedItems(text string, library []part) (out []part) {
	items := map[string][]part{}
	for _, p := range library {
		end := len(p.text)
		for _, head := range slices.Backward(rustItem.FindAllStringSubmatchIndex(p.text, -1)) {
			name := p.text[head[2]:head[3]]
			items[name] = append(items[name], part{p.file, p.text[head[0]:end] + "\n"})
			end = head[0]
		}
	}
	delete(items, "main")
	for queue := []string{text}; len(queue) > 0; queue = queue[1:] {
		for _, name := range rustName.FindAllString(queue[0], -1) {
			for _, p := range items[name] {
				out, queue = append(out, p), append(queue, p.text)
			}
			delete(items, name)
		}
	}
	return out
}

var (
	// literal is a string of Rust text, fileName what may be a path in it or in a script.
	literal  = lazyregexp.New(`"((?:[^"\\\n]|\\.){1,200})"`)
	fileName = lazyregexp.New(`/?[\w.+-]+(?:/[\w.+-]+)*`)
	runsMake = lazyregexp.New(`\b(?:[cgn]?make|[CGN]?MAKE|CMake)\b`)
	// variable is a word in capitals, or what Rust and Python read as a variable.
	variable = lazyregexp.New(`\b_?[A-Z][A-Z0-9_]+\b|(?:\bvar(?:_os)?|getenv|environ(?:\.get)?)\s*[(\[]\s*["'](\w+)["']`)
)

// makefiles are what make and CMake read by default (GNU make manual 3.2).
var makefiles = []string{"GNUmakefile", "makefile", "Makefile", "CMakeLists.txt"}

// namesIn lists what in a text may be the name of a file; of Rust text only literals count. Python leaves out the ending of a module.
func namesIn(text string, rust bool, ending string) map[string]bool {
	out := map[string]bool{}
	add := func(text string) {
		for _, name := range fileName.FindAllString(text, -1) {
			out[name] = true
			name = WithoutFlag(strings.TrimPrefix(name, "/")) // {}/x
			out[name] = true
			if !strings.Contains(name, "/") {
				out[strings.ReplaceAll(name, ".", "/")+ending] = true
			}
			if _, rest, ok := strings.Cut(name, "/"); ok { // $DIR/x
				out[rest] = true
			}
		}
	}
	if !rust {
		add(text)
	}
	for _, m := range literal.FindAllStringSubmatch(text, -1) {
		add(m[1])
		out[strings.Trim(m[1], "/")] = true // one with a blank
	}
	delete(out, "")
	return out
}

// WithoutFlag is a word without the compiler's flag for a directory in front of it.
func WithoutFlag(word string) string {
	for _, flag := range []string{"-isystem", "-iquote", "-I", "-L"} {
		word = strings.TrimPrefix(word, flag)
	}
	return word
}

// list is what a directory holds, and what of it is a directory; each is read once.
func (r *Reader) list(dir string) map[string]bool {
	names, read := r.listed[dir]
	if !read {
		names = map[string]bool{}
		entries, _ := r.h.Files.ReadDir(dir) // one that cannot be read holds nothing that a script could read
		for _, e := range entries {
			names[e.Name()] = e.IsDir() || e.Type()&fs.ModeSymlink != 0 && r.h.IsDir(r.h.Join(dir, e.Name()))
		}
		r.listed[dir] = names
	}
	return names
}

// find looks for a file or directory by its name below a directory.
func (r *Reader) find(dir, name string) (path string, isDir, ok bool) {
	first, _, _ := strings.Cut(name, "/")
	if _, is := r.list(dir)[first]; !is && first != "" && first[0] != '.' && !strings.Contains(first, `\`) {
		return "", false, false // as most of thousands of names in dozens of directories: a joined path for each takes seconds
	}
	path = r.h.Join(dir, name)
	isDir, ok = r.list(r.h.Dir(path))[r.h.Base(path)]
	return path, isDir, ok && path != dir
}

// called lists what is named by what runs: a build script, helper crates, and the scripts, makefiles and modules that they name in turn. A
// name is looked for in the package, in each directory that was named, and where the file that names it is; a file by its whole path, too.
// What can run itself has its text. dirs are the directories.
func (r *Reader) called(parts []part, dir string, helpers []string) (out []part, dirs []string) {
	queue, seen := slices.Clone(parts), map[string]bool{}
	for _, p := range parts {
		seen[p.file] = true
	}
	read := func(path string) {
		ending := strings.ToLower(r.h.Ext(path))
		if seen[path] || Ignored(path) || len(queue) >= len(parts)+mostNamed {
			return
		}
		if ending == ".rs" { // which rustc compiles, perhaps
			for _, p := range r.modules(path) {
				if !seen[p.file] {
					seen[p.file], queue = true, append(queue, p)
				}
			}
			return
		}
		seen[path] = true
		p := part{file: path}
		if text, ok := r.read(path); ok && !neverRuns[ending] && len(text) < mostCalled && !strings.Contains(text, "\x00") {
			p.text = withoutLines("#", text)
		}
		queue = append(queue, p)
	}
	for i := 0; i < len(queue); i++ {
		p, rust, ending := queue[i], i < len(parts) || r.h.Ext(queue[i].file) == ".rs", ".py" // python3 -m DIR.NAME
		if p.text == "" {
			continue
		}
		bases := []string{dir}
		if !rust {
			ending = strings.Replace(r.h.Ext(p.file), ".pl", ".pm", 1)
		}
		if i >= len(parts) {
			bases = append(bases, r.h.Dir(p.file))
		}
		for _, root := range helpers { // HELPER/src/lib.rs
			if helper := r.h.Dir(r.h.Dir(root)); rust && r.h.Below(p.file, helper) {
				bases = append(bases, helper)
			}
		}
		named := namesIn(p.text, rust, ending)
		if named[".."] { // root.join("..").join("shared")
			bases = append(bases, r.h.Dir(dir))
		}
		if slices.Contains(makefiles, r.h.Base(p.file)) || runsMake.MatchString(p.text) {
			for _, name := range makefiles {
				named[name] = true
			}
		}
		bases = append(bases, dirs...)
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(named)), func(name string) bool {
			below, whole := strings.CutPrefix(name, "/")
			if path, isDir, found := r.find("/", below); whole && found && !isDir && !Unchanging(r.h, path) {
				read(path)
			}
			return whole
		})
		for at := 0; at < len(bases); at++ { // a file may be in a directory that is named after it
			for _, name := range names {
				path, isDir, found := r.find(bases[at], name)
				switch {
				case !found || r.h.Below(dir, path):
				case !isDir:
					if read(path); strings.HasSuffix(name, "/"+manifest.FileName) { // cargo run --manifest-path
						read(r.h.Join(r.h.Dir(path), "src", "main.rs"))
					}
				case !slices.Contains(bases, path):
					bases, dirs = append(bases, path), append(dirs, path)
				}
			}
		}
	}
	return queue[len(parts):], dirs
}

// neverRuns are the endings of files that scripts name to have them compiled or read.
var neverRuns = map[string]bool{".cu": true, ".cuh": true, ".c": true, ".cc": true, ".cpp": true, ".h": true, ".hpp": true, ".s": true,
	".asm": true, ".toml": true, ".lock": true, ".md": true, ".ptx": true, ".cubin": true, ".fatbin": true, ".json": true}

// Ignored reports whether a file is no input of any build by its name: texts for people, what an editor (.#NAME is Emacs' lock) or a tool
// keeps, and what scripts write and nobody reads.
func Ignored(path string) bool {
	at := strings.LastIndexByte(path, '.')
	return strings.HasPrefix(filepath.Base(path), ".#") || at >= 0 &&
		slices.Contains([]string{".md", ".log", ".lock", ".orig", ".rej", ".swp", ".pyc", ".d"}, strings.ToLower(path[at:]))
}

// Unchanging reports whether a file or directory is the operating system's, whose packages replace what lies there as a whole, or cargo's
// own copy of a package, which its version names.
func Unchanging(h buildenv.Host, path string) bool {
	places := []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/share",
		"/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt/rh", "/proc", "/sys", "/dev"} // not /usr/src, which images keep projects in
	if h.OS == buildenv.Windows {
		places = []string{h.Env.Get("SystemRoot"), h.Env.Get("ProgramFiles"), h.Env.Get("ProgramFiles(x86)")}
	}
	if home := manifest.CargoHome(h); home != "" {
		places = append(places, h.Join(home, "registry"), h.Join(home, "git"))
	}
	return slices.ContainsFunc(places, func(place string) bool { return place != "" && h.Below(path, place) })
}

// PassesCXX reports whether the cc crate passes the compiler of C++ sources to nvcc, which checks it: Build::ccbin turns off the one, a
// flag of nvcc's the other.
func PassesCXX(text string) bool {
	return strings.Contains(text, "cuda(true)") && !strings.Contains(text, "ccbin") && !strings.Contains(text, "allow-unsupported-compiler")
}

// NamesNvcc reports whether a text names the compiler of CUDA.
func NamesNvcc(text string) bool {
	return strings.Contains(text, "nvcc") || strings.Contains(text, "NVCC")
}

var knownVersion = lazyregexp.New(`"(\d+\.\d+)"\s*=>\s*\(\d+,\s*\d+\)`)

// NewestKnown reads the list by which a build script turns nvcc's version into its own, and stops where it holds none. cudarc's first
// versions had it, and others copied it: mistralrs-quant 0.8.1 build.rs cuda_version_from_build_system.
func NewestKnown(text string) gpu.Version {
	var newest gpu.Version
	if !strings.Contains(text, "Unsupported cuda toolkit version") {
		return newest
	}
	for _, m := range knownVersion.FindAllStringSubmatch(text, -1) {
		if v, err := gpu.ParseVersion(m[1]); err == nil && v.Compare(newest) > 0 {
			newest = v
		}
	}
	return newest
}

// Words lists the words in capitals of what the script of a package runs, and of the makefiles and scripts in its directory, which it may
// run by a name that it puts together: each may be a variable, whatever reads it. One that begins or ends with _ may be a part of names.
func (r *Reader) Words(t scriptText, dir string) []string {
	if dir != "" {
		_, _ = r.h.Walk(dir, func(path, _ string, e fs.DirEntry, isDir bool) bool { // what cannot be read is read by no script
			name := e.Name()
			if !isDir && (slices.Contains(makefiles, name) || slices.Contains([]string{".mk", ".sh", ".py", ".cmake"}, r.h.Ext(name))) {
				t.parts = append(slices.Clip(t.parts), part{path, r.Text(path)})
			}
			return isDir && !strings.HasPrefix(name, ".") && name != "target" && name != "node_modules" &&
				!r.h.IsFile(r.h.Join(path, "CACHEDIR.TAG"))
		})
	}
	return t.matches(variable)
}

// matches lists what a pattern's first group that took part matched, or all of the match.
func (t scriptText) matches(pattern *lazyregexp.Regexp) []string {
	seen := map[string]bool{}
	for _, p := range t.parts {
		for _, m := range pattern.FindAllStringSubmatch(p.text, -1) {
			seen[cmp.Or(append(m[1:], m[0])...)] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// comment is one between /* and */; a `/*` in a pattern of files begins none.
var comment = lazyregexp.New(`(?s)(^|[\s;{}(,])/\*.*?\*/`)

// Text is a file's, without its comments; empty where it cannot be read.
func (r *Reader) Text(path string) string {
	text, _ := r.read(path)
	return text
}

// read is Text; false where the file cannot be read.
func (r *Reader) read(path string) (string, bool) {
	text, known := r.plain[path]
	if !known {
		if data, err := r.h.ReadFile(path, buildenv.Source); err == nil {
			read := withoutLines("//", string(data))
			if r.h.Ext(path) == ".rs" && strings.Contains(read, "/*") {
				read = comment.ReplaceAllString(read, "$1 ")
			}
			text = &read
		}
		r.plain[path] = text
	}
	if text == nil {
		return "", false
	}
	return *text, true
}

// withoutLines is a text without the lines that begin with a mark, such as that of a comment.
func withoutLines(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), mark) {
			b.WriteString(line)
		}
	}
	return b.String()
}
