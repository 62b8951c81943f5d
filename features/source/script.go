package source

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
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
	mostCalled  = 1 << 20 // bytes of a file that a script calls
)

// TextOf reads a build script with its modules, what of its local build-dependencies it uses, and
// the scripts and makefiles of its package that it names. A helper crate serves packages that
// compile no kernels, too, so of it only those items count that the script leads to by their names.
func (r *Reader) TextOf(s Script, dir string) scriptText {
	var t scriptText
	if s.Source == "" {
		return t
	}
	t.parts = r.modules(s.Source)
	for _, p := range t.parts {
		t.Own += p.text
	}
	var library []part
	for _, root := range s.Locals {
		library = append(library, r.modules(root)...)
	}
	t.parts = append(t.parts, usedItems(t.Own, library)...)
	t.parts = append(t.parts, r.called(t.parts, dir)...)
	for _, p := range t.parts {
		t.All += p.text
	}
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
	moduleLine   = regexp.MustCompile(`(?m)(?:#\[path\s*=\s*"([^"]+)"\]\s*)?^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+([A-Za-z_]\w*)\s*;`)
	includedFile = regexp.MustCompile(`\binclude!\(\s*"([^"]+)"\s*\)`)
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
		data, err := h.ReadFile(f.path, sourceLimit)
		if err != nil {
			continue
		}
		text := withoutLines("//", string(data))
		out = append(out, part{f.path, text})
		for _, m := range moduleLine.FindAllStringSubmatch(text, -1) {
			if m[1] != "" {
				path := absFrom2(h, h.Dir(f.path), m[1])
				queue = append(queue, file{path, h.Dir(path)})
				continue
			}
			queue = append(queue, file{h.Join(f.below, m[2]+".rs"), h.Join(f.below, m[2])},
				file{h.Join(f.below, m[2], "mod.rs"), h.Join(f.below, m[2])})
		}
		for _, m := range includedFile.FindAllStringSubmatch(text, -1) {
			queue = append(queue, file{absFrom2(h, h.Dir(f.path), m[1]), f.below})
		}
	}
	return out
}

var (
	// rustItem is the head of an item; 'static and *const are none.
	rustItem = regexp.MustCompile(`(?:^|[^'*\w])(?:(?:const\s+|async\s+|unsafe\s+|extern\s+"C"\s+)*fn|const|static(?:\s+mut)?|` +
		`struct|enum|trait|type|macro_rules!)\s+([A-Za-z_]\w*)`)
	rustName = regexp.MustCompile(`[A-Za-z_]\w*`)
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
				if used[p.at] == "" { // what stands before the first item: what the file uses
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

var quotedWord = regexp.MustCompile(`"([^"\\\s{}]{1,200})"`)

// called reads the scripts and makefiles below a package's directory that a build script names: a makefile lies in the directory that is
// named, or in the package's own where make is.
func (r *Reader) called(parts []part, dir string) []part {
	var out []part
	seen := map[string]bool{}
	read := func(path string) {
		if seen[path] || len(out) == mostModules || !r.h.Below(path, dir) || !r.h.IsFile(path) {
			return
		}
		seen[path] = true
		if data, err := r.h.ReadFile(path, mostCalled); err == nil && !strings.Contains(string(data), "\x00") {
			out = append(out, part{path, withoutLines("#", string(data))})
		}
	}
	makefiles := func(in string) {
		for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // GNU make manual, "What Name to Give Your Makefile"
			read(r.h.Join(in, name))
		}
	}
	for _, p := range parts {
		if dir == "" || !strings.Contains(p.text, "Command") {
			continue
		}
		for _, m := range quotedWord.FindAllStringSubmatch(p.text, -1) {
			path := absFrom2(r.h, dir, m[1])
			switch {
			case m[1] == "make" || m[1] == "gmake" || m[1] == "nmake":
				makefiles(dir)
			case strings.ContainsAny(m[1], ":*?"):
			case r.h.IsDir(path):
				makefiles(path)
			case !compiledSource[strings.ToLower(r.h.Ext(path))]:
				read(path)
			}
		}
	}
	return out
}

// compiledSource are the endings of files that a script names to have them compiled, not run.
var compiledSource = map[string]bool{".rs": true, ".cu": true, ".cuh": true, ".c": true, ".cc": true, ".cpp": true, ".h": true,
	".hpp": true, ".toml": true, ".lock": true, ".md": true}

func CompilesByCC(text string) bool { return strings.Contains(text, "cuda(true)") } // cc::Build::cuda

func NamesNvcc(text string) bool {
	return strings.Contains(text, "nvcc") || strings.Contains(text, "NVCC")
}

var knownVersion = regexp.MustCompile(`"(\d+)\.(\d+)"\s*=>\s*\(\d+,\s*\d+\)`)

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
	for _, sign := range []string{"cutlass", "\"git\"", "download", "http", "ureq", "curl"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// LinksCUDA says whether a script links libraries of the toolkit.
func LinksCUDA(text string) bool {
	return strings.Contains(text, "rustc-link-lib") && (strings.Contains(text, "cudart") || strings.Contains(text, "cublas") ||
		strings.Contains(text, "=cuda"))
}

// variableName is a variable as Rust text names it, or as a shell, make or a batch file does.
var variableName = regexp.MustCompile(`"((?:CUDA|NVCC|CUDNN|GPU)[A-Z0-9_]*)"|[$%][{(]?((?:CUDA|NVCC|CUDNN|GPU)[A-Z0-9_]*)\b`)

func Variables(text string) []string {
	seen := map[string]bool{}
	for _, m := range variableName.FindAllStringSubmatch(text, -1) {
		seen[m[1]+m[2]] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Text is a file's, without its comments; empty where it cannot be read.
func (r *Reader) Text(path string) string {
	data, err := r.h.ReadFile(path, sourceLimit)
	if path == "" || err != nil {
		return ""
	}
	return withoutLines("//", string(data))
}

func absFrom2(h buildenv.Host, dir, path string) string {
	if h.IsAbs(path) {
		return path
	}
	return h.Join(dir, path)
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
