package source

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
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
}

// part is one file of a script's text, without its comments.
type part struct{ file, text string }

// scriptText is everything that a build script may do, by file.
type scriptText struct {
	parts []part
	Own   string // of the script and its modules
	All   string
}

// The most that is read of one script: far more than anybody writes, and little enough for a first look.
const (
	mostModules = 200
	mostNamed   = 2000
	mostCalled  = 1 << 18 // bytes of a file that a script calls
)

// TextOf reads a build script with its modules, what of its local build-dependencies it uses, and
// what these name; see called. A helper crate serves packages that
// compile no kernels, too, so of it only those items count that the script leads to by their names.
func (r *Reader) TextOf(s Script, dir string) scriptText {
	key := fmt.Sprint(s, dir)
	t, read := r.calls[key]
	if read || s.Source == "" {
		return t
	}
	defer func() { r.calls[key] = t }()
	t.parts = r.modules(s.Source)
	for _, p := range t.parts {
		t.Own += p.text
	}
	var library []part
	for _, root := range s.Locals {
		library = append(library, r.modules(root)...)
	}
	t.parts = append(t.parts, usedItems(t.Own, library)...)
	if dir != "" {
		t.parts = append(t.parts, r.called(t.parts, dir, s.Locals)...)
	}
	var all strings.Builder
	for _, p := range t.parts {
		all.WriteString(p.text)
	}
	t.All = all.String()
	return t
}

// File names the first part that a test holds of.
func (t scriptText) File(r *Reader, is func(text string) bool) string {
	for _, p := range t.parts {
		if is(p.text) {
			return r.h.Base(p.file)
		}
	}
	return r.h.Base(t.parts[0].file)
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
	for len(queue) > 0 && len(out) < mostModules {
		f := queue[0]
		queue = queue[1:]
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

var (
	// rustItem is the head of an item; 'static and *const are none.
	rustItem = lazyregexp.New(`(?:^|[^'*\w])(?:(?:const\s+|async\s+|unsafe\s+|extern\s+"C"\s+)*fn|const|static(?:\s+mut)?|` +
		`struct|enum|trait|type|macro_rules!)\s+([A-Za-z_]\w*)`)
	rustName = lazyregexp.New(`[A-Za-z_]\w*`)
)

// usedItems answers what of a library's files a text leads to: the items that it names, those that they name, and so on. Names are not
// resolved, so that too much is taken rather than too little.
func usedItems(text string, library []part) []part {
	type piece struct {
		at   int // of library
		text string
	}
	items := map[string][]piece{}
	for at, p := range library {
		heads := rustItem.FindAllStringSubmatchIndex(p.text, -1)
		for i, head := range heads {
			end := len(p.text)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			name := p.text[head[2]:head[3]]
			items[name] = append(items[name], piece{at, p.text[head[0]:end]})
		}
	}
	delete(items, "main")
	used := make([]string, len(library))
	queue := []string{text}
	for len(queue) > 0 {
		names := rustName.FindAllString(queue[0], -1)
		queue = queue[1:]
		for _, name := range names {
			for _, p := range items[name] {
				if used[p.at] == "" { // what comes before the first item: what the file uses
					head := library[p.at].text
					if at := rustItem.FindStringIndex(head); at != nil {
						head = head[:at[0]]
					}
					used[p.at] = head + "\n"
				}
				used[p.at] += p.text + "\n"
				queue = append(queue, p.text)
			}
			delete(items, name)
		}
	}
	var out []part
	for at, text := range used {
		if text != "" {
			out = append(out, part{library[at].file, text})
		}
	}
	return out
}

var (
	quotedWord = lazyregexp.New(`"([^"\\\s{}]{1,200})"`)
	// includeFlag is a flag with a directory of headers; separateInclude says that such directories are words of their own.
	includeFlag     = lazyregexp.New(`(?:-I|-isystem)[ =]?([^\s"'$(){}\\,]+)`)
	separateInclude = lazyregexp.New(`"-I"|"-isystem"|\.include(?:_path)?s?\(`)
	// writtenRust and written are files that a program or script makes itself.
	writtenRust = lazyregexp.New(`\b(?:write|create)\(\s*"([^"\n]+)"`)
	written     = lazyregexp.New(`["']([^"'\n]+)["']\s*,\s*["'][wax][bt+]*["']|(?:^|[^-=<>])>>?\s*["']?([\w./-]+)`)
	runsMake    = lazyregexp.New(`\b(?:[cgn]?make|[CGN]?MAKE|CMake)\b`)
)

// makefiles are what make and CMake read by default (GNU make manual 3.2).
var makefiles = []string{"GNUmakefile", "makefile", "Makefile", "CMakeLists.txt"}

// namesIn lists what a text may name, and whether it is quoted as it stands, or marked as a directory. Of Rust text only literals count.
func namesIn(p part, rust bool) map[string]bool {
	text, out := p.text, map[string]bool{}
	if rust {
		text = literals(text)
		for line := range strings.Lines(text) {
			out[strings.Trim(line, "/ \n")] = true
		}
	} else {
		for line := range strings.Lines(text) {
			for _, name := range quotedIn(line) {
				out[strings.Trim(name, "/ ")] = true
			}
		}
	}
	for _, word := range strings.FieldsFunc(text, func(c rune) bool {
		return c < 0x80 && !wordByte(byte(c)) && !strings.ContainsRune("./+-", c)
	}) {
		word = strings.TrimLeft(word, "/") // $(dirname $0)/common.sh
		name, isDir := strings.CutSuffix(word, "/")
		out[name] = out[name] || isDir
		if _, rest, ok := strings.Cut(name, "/"); ok { // $DIR/x
			out[rest] = out[rest] || isDir
		}
	}
	var makes [][]string
	if rust {
		makes = writtenRust.FindAllStringSubmatch(p.text, -1)
	} else {
		for line := range strings.Lines(text) {
			if strings.Contains(line, ">") || strings.Contains(line, "open") { // the expression is slow, and texts are long
				makes = append(makes, written.FindAllStringSubmatch(line, -1)...)
			}
		}
	}
	for _, m := range makes {
		name := strings.Join(m[1:], "")
		delete(out, name)
		_, name, _ = strings.Cut(name, "/")
		delete(out, name)
	}
	delete(out, "")
	return out
}

// quotedIn lists what stands between quotes in a line.
func quotedIn(line string) (out []string) {
	for {
		open := strings.IndexAny(line, `"'`)
		if open < 0 {
			return out
		}
		end := strings.IndexByte(line[open+1:], line[open])
		if end < 0 { // an apostrophe
			line = line[open+1:]
			continue
		}
		if end > 0 && end <= 200 {
			out = append(out, line[open+1:open+1+end])
		}
		line = line[open+end+2:]
	}
}

// literals is what stands in the literals of Rust text, each on a line of its own.
func literals(text string) string {
	b, blanked := []byte(text), code(text)
	for i := range b {
		if b[i] == blanked[i] && b[i] != ' ' || b[i] == '\\' {
			b[i] = '\n'
		}
	}
	return string(b)
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
func (r *Reader) find(dir, name string, wantsDir bool) (path string, ok bool) {
	path, isDir := dir, true
	for _, step := range strings.Split(name, "/") {
		if !isDir {
			return "", false
		}
		switch step {
		case ".":
		case "..":
			path = r.h.Dir(path)
		default:
			if isDir, ok = r.list(path)[step]; !ok {
				return "", false
			}
			path = r.h.Join(path, step)
		}
	}
	return path, isDir == wantsDir
}

// spellings are the names that a file may mean, by their first step: the name of a module lacks the ending of the file that names it.
func spellings(named map[string]bool, ending string) map[string][]string {
	out := map[string][]string{}
	add := func(name string) {
		first, _, _ := strings.Cut(name, "/")
		out[first] = append(out[first], name)
	}
	for name := range named {
		add(name)
		if ending != "" {
			add(name + ending)
			if strings.Contains(name, ".") {
				add(strings.ReplaceAll(name, ".", "/") + ending)
			}
		}
	}
	return out
}

// meant lists which names begin with something that a directory holds: nearly all words of a script are no file's name.
func (r *Reader) meant(dir string, names map[string][]string) []string {
	out := slices.Concat(names["."], names[".."])
	for entry := range r.list(dir) {
		out = append(out, names[entry]...)
	}
	slices.Sort(out)
	return out
}

// called lists what is named by what runs: a build script, what of helper crates it uses, and the scripts, makefiles and modules that they
// name in turn. A name may be that of a file or a directory; it is looked for in the package, in each directory that was named, where the
// file that names it lies, in the directory above the package if ".." is named, and as a program of the user's own on PATH. What can run
// itself has its text.
func (r *Reader) called(parts []part, dir string, helpers []string) []part {
	queue, dirs, seen := slices.Clone(parts), []string{dir}, map[string]bool{}
	for _, p := range parts {
		seen[p.file] = true
	}
	add := func(p part) {
		if !seen[p.file] && len(queue) < len(parts)+mostNamed {
			seen[p.file] = true
			queue = append(queue, p)
		}
	}
	read := func(path string) {
		ending := strings.ToLower(r.h.Ext(path))
		if seen[path] || made[ending] {
			return
		}
		p := part{file: path}
		if data, err := r.h.ReadFile(path, mostCalled); !neverRuns[ending] && err == nil && !strings.Contains(string(data), "\x00") {
			p.text = withoutLines("#", string(data))
		}
		add(p)
	}
	for i := 0; i < len(queue); i++ {
		p, rust, ending := queue[i], i < len(parts), ".py" // python3 -m DIR.NAME
		if p.text == "" {
			continue
		}
		if !rust {
			ending = r.h.Ext(p.file)
		}
		at := []string{r.h.Dir(p.file)}
		if rust {
			at = nil
			for _, root := range helpers { // HELPER/src/lib.rs
				if helper := r.h.Dir(r.h.Dir(root)); r.h.Below(p.file, helper) {
					at = append(at, helper)
				}
			}
		}
		named := namesIn(p, rust)
		if _, up := named[".."]; up { // root.join("..").join("shared")
			at = append(at, r.h.Dir(dir))
		}
		names, bases := spellings(named, ending), dirs
		for _, isDir := range []bool{true, false} { // a file may lie in a directory that is named after it
			bases = slices.Concat(dirs, at)
			for _, base := range bases {
				for _, name := range r.meant(base, names) {
					path, found := r.find(base, name, isDir)
					switch {
					case !found:
					case !isDir:
						read(path)
					case !r.h.Below(dir, path):
						if !slices.Contains(dirs, path) {
							dirs = append(dirs, path)
						}
						if named[name] && r.h.Below(path, dir) {
							add(part{file: path})
						}
					}
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if path := r.ownPrograms()[name]; path != "" {
				add(part{file: path})
			}
		}
		var unnamed []string // makefiles, which make and CMake find by themselves
		for _, base := range bases {
			for _, name := range makefiles {
				if _, there := r.list(base)[name]; there && !seen[r.h.Join(base, name)] {
					unnamed = append(unnamed, r.h.Join(base, name))
				}
			}
		}
		if unnamed != nil && (slices.Contains(makefiles, r.h.Base(p.file)) || runsMake.MatchString(p.text)) {
			for _, path := range unnamed {
				read(path)
			}
		}
	}
	return queue[len(parts):]
}

// made are the endings of what scripts make, or what cargo watches; neverRuns those of files that scripts name to have them compiled or
// read.
var (
	made = map[string]bool{".rs": true, ".o": true, ".obj": true, ".a": true, ".lib": true, ".so": true, ".dll": true, ".d": true,
		".log": true}
	neverRuns = map[string]bool{".cu": true, ".cuh": true, ".c": true, ".cc": true, ".cpp": true, ".h": true, ".hpp": true, ".toml": true,
		".lock": true, ".md": true, ".ptx": true, ".cubin": true, ".fatbin": true, ".json": true}
)

// Unchanging says whether a file or directory is the operating system's, whose packages replace what lies there as a whole, or cargo's own
// copy of a package, which its version names.
func Unchanging(h buildenv.Host, path string) bool {
	places := []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/share",
		"/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt/rh"} // not /usr/src, which images keep projects in
	if h.OS == buildenv.Windows {
		places = []string{h.Env.Get("SystemRoot"), h.Env.Get("ProgramFiles"), h.Env.Get("ProgramFiles(x86)")}
	}
	if home := manifest.CargoHome(h); home != "" {
		places = append(places, h.Join(home, "registry"), h.Join(home, "git"))
	}
	return slices.ContainsFunc(places, func(place string) bool { return place != "" && h.Below(path, place) })
}

// ownPrograms are the programs on PATH that are neither the system's, nor a compiler's, which are inputs of their own.
func (r *Reader) ownPrograms() map[string]string {
	if r.programs != nil {
		return r.programs
	}
	r.programs = map[string]string{}
	for _, dir := range r.h.SplitList(r.h.Env.Get("PATH")) {
		if !r.h.IsAbs(dir) || Unchanging(r.h, dir) {
			continue
		}
		list := r.list(dir)
		compilers := slices.ContainsFunc([]string{"nvcc", "rustc", "cargo", "cl"}, func(name string) bool {
			_, is := list[r.h.Exe(name)]
			return is
		})
		for name, isDir := range list {
			if word := strings.TrimSuffix(name, ".exe"); !isDir && !compilers && r.programs[word] == "" {
				r.programs[word] = r.h.Join(dir, name)
			}
		}
	}
	return r.programs
}

func CompilesByCC(text string) bool { return strings.Contains(text, "cuda(true)") } // cc::Build::cuda

func NamesNvcc(text string) bool {
	return strings.Contains(text, "nvcc") || strings.Contains(text, "NVCC")
}

// LeadsOn says whether a build script may have other files run. It is asked of every script of a build, so that it is no expression.
func LeadsOn(text string) bool {
	return slices.ContainsFunc([]string{`"make`, `"gmake`, "cmake", `"sh"`, `"bash"`, "python", `.sh"`, `.py"`, `.mk"`, `.pl"`},
		func(sign string) bool { return strings.Contains(text, sign) })
}

var knownVersion = lazyregexp.New(`"(\d+)\.(\d+)"\s*=>\s*\(\d+,\s*\d+\)`)

// NewestKnown reads the list by which a build script turns nvcc's version into its own, and stops where it holds none. cudarc's first
// versions had it, and others copied it: mistralrs-quant 0.8.1 build.rs cuda_version_from_build_system.
func NewestKnown(text string) gpu.Version {
	var newest gpu.Version
	if !strings.Contains(text, "Unsupported cuda toolkit version") {
		return newest
	}
	for _, m := range knownVersion.FindAllStringSubmatch(text, -1) {
		major, _ := strconv.Atoi(m[1])
		minor, _ := strconv.Atoi(m[2])
		if v := (gpu.Version{Major: major, Minor: minor}); v.Compare(newest) > 0 {
			newest = v
		}
	}
	return newest
}

// Downloads says whether a script fetches anything: not every version of a crate does (mistralrs-quant 0.8.1 has no CUTLASS yet).
func Downloads(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"cutlass", "\"git\"", "download", "http", "ureq", "curl"},
		func(sign string) bool { return strings.Contains(text, sign) })
}

// LinksCUDA says whether a script links libraries of the toolkit.
func LinksCUDA(text string) bool {
	return strings.Contains(text, "rustc-link-lib") && (strings.Contains(text, "cudart") || strings.Contains(text, "cublas") ||
		strings.Contains(text, "=cuda") || NamesLibDir(text))
}

var libDir = lazyregexp.New(`\b(?:CUDA|CUBLAS|CUDNN|CUFFT|CURAND|CUSOLVER|CUSPARSE|NVRTC)_LIB_DIR\b`)

// NamesLibDir reports whether a script takes the directory of one of the toolkit's libraries from a variable of its own, as leaf's
// cublas-sys and cudnn-sys do. They have no feature: whoever links them needs a toolkit.
func NamesLibDir(text string) bool { return libDir.MatchString(text) }

var (
	// rustReads is a variable that Rust text reads. readsAny says that a text reads one whose name is a quoted word in capitals elsewhere,
	// or is put together of such words and others; readsAll that it reads all of them.
	rustReads = lazyregexp.New(`\bvar(?:_os)?\s*\(\s*&?"([A-Za-z_]\w*)"`)
	readsAny  = lazyregexp.New(`\bvar(?:_os)?\s*\(\s*(?:[^&"\s)]|&[^"])|\$\{!\w|\$[({]\$[({]|` +
		`\benviron(?:\[\s*[^"'\s]|\.get\(\s*[^"'\s])|\bgetenv\(\s*[^"'\s]`)
	readsAll    = lazyregexp.New(`\bvars(?:_os)?\s*\(\s*\)|\benviron\.(?:items|keys)\b`)
	quotedName  = lazyregexp.New(`["']((?:[A-Z0-9_]|\$?\{\w*\})*[A-Z]{2}(?:[A-Z0-9_]|\$?\{\w*\})*)["']`)
	placeholder = lazyregexp.New(`\$?\{\w*\}|^_|_$`)
	pythonEnv   = lazyregexp.New(`\b(?:environ|getenv)\b`)
	pythonReads = lazyregexp.New(`(?:environ(?:\.\w+)?|getenv)\s*[(\[]\s*["'](\w+)["']`)
	// shellReads is a variable that a shell, make or a batch file reads; shellSets one that it assigns itself.
	shellReads = lazyregexp.New(`\$\((?:origin|printenv)[ \t]+(\w+)|\b(?:ifn?def|printenv)[ \t]+(\w+)|` +
		`\$(?:ENV)?[{(]?([A-Za-z_]\w*)|\bENV\{(\w+)\}|%([A-Za-z_]\w*)%`)
	shellSets = lazyregexp.New(
		`(?m)^[ \t]*(?:export[ \t]+|set[ \t]+)?([A-Za-z_]\w*)[ \t]*[:+?]?=|\bfor[ \t]+([A-Za-z_]\w*)[ \t]+in\b|\bread[ \t]+([A-Za-z_]\w*)`,
	)
	// quotedCUDA is the name of a variable that is passed on as text.
	quotedCUDA = lazyregexp.New(`"((?:CUDA|NVCC|CUDNN|GPU)[A-Z0-9_]*)"`)
)

// given are variables that cargo sets for a build script or watches by itself (cargo reference, "Environment Variables"), and those
// that change nothing that is compiled.
func given(name string) bool {
	switch name {
	case "OUT_DIR", "TARGET", "HOST", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "DEBUG", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTC_WRAPPER",
		"RUSTC_LINKER", "RUSTC_WORKSPACE_WRAPPER",
		"PATH", "LD_LIBRARY_PATH", "HOME", "TERM", "LANG", "PWD", "OLDPWD", "IFS", "SHELL", "USER", "TMPDIR", "MAKE", "MAKEFLAGS":
		return true
	}
	return strings.HasPrefix(name, "CARGO_") || strings.HasPrefix(name, "DEP_") || strings.HasPrefix(name, "LC_")
}

// Unnamed is in the list of Variables where a text makes names of variables of nothing that could be read there.
const Unnamed = "*"

// Likely are the variables that count then.
func Likely(pkg string) []string {
	return []string{"*FLAGS", "*_ARCH", "*_ARCHS", "NVCC*", "CMAKE_*", strings.ToUpper(strings.ReplaceAll(pkg, "-", "_")) + "_*"}
}

// Variables lists the variables that the script of a package and what it calls read from outside; * in a name means any characters.
func (t scriptText) Variables(pkg string) []string {
	seen := map[string]bool{}
	any := slices.ContainsFunc(t.parts, func(p part) bool { return readsAny.MatchString(p.text) })
	all := slices.ContainsFunc(t.parts, func(p part) bool { return readsAll.MatchString(p.text) })
	found := false
	for _, p := range t.parts {
		sets := map[string]bool{}
		rust := strings.HasSuffix(p.file, ".rs")
		var reads []string
		for _, m := range append(rustReads.FindAllStringSubmatch(p.text, -1), pythonReads.FindAllStringSubmatch(p.text, -1)...) {
			reads = append(reads, m[1])
		}
		// A build script may hand lines to a shell, too; there only a name in capitals is a variable of the environment.
		for _, m := range shellReads.FindAllStringSubmatch(p.text, -1) {
			if name := strings.Join(m[1:], ""); !rust || name == strings.ToUpper(name) {
				reads = append(reads, name)
			}
		}
		if !rust {
			for _, m := range shellSets.FindAllStringSubmatch(p.text, -1) {
				sets[m[1]+m[2]+m[3]] = true
			}
		}
		if any || all || !rust && pythonEnv.MatchString(p.text) {
			for _, m := range quotedName.FindAllStringSubmatch(p.text, -1) {
				if name := placeholder.ReplaceAllString(m[1], "*"); !slices.Contains(reads, name) {
					found = found || !all || strings.Contains(name, "*")
					reads = append(reads, name)
				}
			}
		}
		for _, m := range quotedCUDA.FindAllStringSubmatch(p.text, -1) {
			reads = append(reads, m[1])
		}
		for _, name := range reads {
			if !given(name) && (!sets[name] || fromOutside(p.text, name)) {
				seen[name] = true
			}
		}
	}
	if (any || all) && !found {
		for _, name := range append(Likely(pkg), Unnamed) {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// fromOutside says whether a text that sets a variable takes the one from outside all the same: ${X:-default}, X ?= default, or where make
// asks first whether there is one.
func fromOutside(text, name string) bool {
	name = regexp.QuoteMeta(name)
	asks := `\$\{` + name + `:|^[ \t]*` + name + `[ \t]*\?=|\b(?:ifn?def|ifn?eq|origin)\b.*\b` + name + `\b`
	return regexp.MustCompile(`(?m)` + asks).MatchString(text)
}

// Sources lists what a script names that counts besides the kernels and headers of its package: see called; and the directories outside
// of the package, where headers for its kernels may lie.
func (r *Reader) Sources(t scriptText, dir string) []string {
	var out []string
	for _, p := range t.parts {
		if !strings.HasSuffix(p.file, ".rs") && !slices.Contains(out, p.file) {
			out = append(out, p.file)
		}
		flagged := separateInclude.MatchString(p.text)
		for _, m := range append(quotedWord.FindAllStringSubmatch(p.text, -1), includeFlag.FindAllStringSubmatch(p.text, -1)...) {
			word, include := strings.CutPrefix(m[1], "-I")
			path := r.h.From(dir, word)
			include = include || flagged || m[0] != `"`+m[1]+`"`
			outside := strings.Contains(word, "..") || (include || strings.HasSuffix(p.file, ".rs")) && !r.h.Below(path, dir)
			if r.h.IsAbs(word) && (!include || r.h.Below(path, "/usr") || r.h.Dir(r.h.Dir(path)) == r.h.Dir(path) ||
				r.h.IsFile(r.h.Join(path, "cuda.h")) || r.h.IsDir(r.h.Join(path, "nvvm"))) {
				continue // it may be anything, or is the system's or a toolkit's
			}
			if outside && !r.h.Below(dir, path) && r.h.IsDir(path) && !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	return out
}

// Text is a file's, without its comments; empty where it cannot be read.
func (r *Reader) Text(path string) string {
	text, _ := r.read(path)
	return text
}

// read is Text; false where the file cannot be read.
func (r *Reader) read(path string) (string, bool) {
	text, known := r.plain[path]
	if !known {
		if data, err := r.h.ReadFile(path, sourceLimit); err == nil {
			read := withoutLines("//", string(data))
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
