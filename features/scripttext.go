package features

import (
	"regexp"
	"strings"
)

// script is where the text of a build script lies, as far as it is known.
type script struct {
	source  string   // its file
	helpers []string // packages that it uses: see helpersOf
	locals  []string // root files of the path packages that it uses, which are as much the user's own as the script
}

// part is one file of a script's text, without its comments.
type part struct{ file, text string }

// scriptText is everything that a build script may do, by file.
type scriptText struct {
	parts []part
	own   string // of the script and its modules
	all   string
}

// The most that is read of one script: far more than anybody writes, and little enough for a first look.
const (
	mostModules = 200
	mostCalled  = 1 << 20 // bytes of a file that a script calls
)

// textOf reads a build script with its modules, what of its local build-dependencies it uses, and the scripts and makefiles of its package that it
// names. A helper crate serves packages that compile no kernels, too, so of it only those items count that the script leads to by their names.
func (v *view) textOf(s script, dir string) scriptText {
	var t scriptText
	if s.source == "" {
		return t
	}
	t.parts = v.modules(s.source)
	for _, p := range t.parts {
		t.own += p.text
	}
	var library []part
	for _, root := range s.locals {
		library = append(library, v.modules(root)...)
	}
	t.parts = append(t.parts, usedItems(t.own, library)...)
	t.parts = append(t.parts, v.called(t.parts, dir)...)
	for _, p := range t.parts {
		t.all += p.text
	}
	return t
}

// file names the first part that a test holds of.
func (t scriptText) file(v *view, is func(text string) bool) string {
	for _, p := range t.parts {
		if is(p.text) {
			return v.h.Base(p.file)
		}
	}
	return v.h.Base(t.parts[0].file)
}

var (
	moduleLine   = regexp.MustCompile(`(?m)(?:#\[path\s*=\s*"([^"]+)"\]\s*)?^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+([A-Za-z_]\w*)\s*;`)
	includedFile = regexp.MustCompile(`\binclude!\(\s*"([^"]+)"\s*\)`)
)

// modules reads a Rust file and the files of its modules. Source: The Rust Reference, "Module Source Filenames"; modules inside of inline ones are not
// followed.
func (v *view) modules(root string) []part {
	type file struct{ path, below string } // below: where its modules lie
	h := v.h
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
		text := withoutComments(string(data))
		out = append(out, part{f.path, text})
		for _, m := range moduleLine.FindAllStringSubmatch(text, -1) {
			if m[1] != "" {
				path := absFrom(h, h.Dir(f.path), m[1])
				queue = append(queue, file{path, h.Dir(path)})
				continue
			}
			queue = append(queue, file{h.Join(f.below, m[2]+".rs"), h.Join(f.below, m[2])}, file{h.Join(f.below, m[2], "mod.rs"), h.Join(f.below, m[2])})
		}
		for _, m := range includedFile.FindAllStringSubmatch(text, -1) {
			queue = append(queue, file{absFrom(h, h.Dir(f.path), m[1]), f.below})
		}
	}
	return out
}

var (
	// rustItem is the head of an item; 'static and *const are none.
	rustItem = regexp.MustCompile(`(?:^|[^'*\w])(?:(?:const\s+|async\s+|unsafe\s+|extern\s+"C"\s+)*fn|const|static(?:\s+mut)?|struct|enum|trait|type|macro_rules!)\s+([A-Za-z_]\w*)`)
	rustName = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// usedItems answers what of a library's files a text leads to: the items that it names, those that they name, and so on. Names are not resolved, so that
// too much is taken rather than too little.
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

// called reads the scripts and makefiles below a package's directory that a build script names: a makefile lies in the directory that is named, or in the
// package's own where make is.
func (v *view) called(parts []part, dir string) []part {
	var out []part
	seen := map[string]bool{}
	read := func(path string) {
		if seen[path] || len(out) == mostModules || !v.h.Below(path, dir) || !v.h.IsFile(path) {
			return
		}
		seen[path] = true
		if data, err := v.h.ReadFile(path, mostCalled); err == nil && !strings.Contains(string(data), "\x00") {
			out = append(out, part{path, withoutHashes(string(data))})
		}
	}
	makefiles := func(in string) {
		for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // GNU make manual, "What Name to Give Your Makefile"
			read(v.h.Join(in, name))
		}
	}
	for _, p := range parts {
		if dir == "" || !strings.Contains(p.text, "Command") {
			continue
		}
		for _, m := range quotedWord.FindAllStringSubmatch(p.text, -1) {
			path := absFrom(v.h, dir, m[1])
			switch {
			case m[1] == "make" || m[1] == "gmake" || m[1] == "nmake":
				makefiles(dir)
			case strings.ContainsAny(m[1], ":*?"):
			case v.h.IsDir(path):
				makefiles(path)
			case !compiledSource[strings.ToLower(v.h.Ext(path))]:
				read(path)
			}
		}
	}
	return out
}

// compiledSource are the endings of files that a script names to have them compiled, not run.
var compiledSource = map[string]bool{".rs": true, ".cu": true, ".cuh": true, ".c": true, ".cc": true, ".cpp": true, ".h": true, ".hpp": true, ".toml": true, ".lock": true, ".md": true}

func withoutHashes(text string) string {
	var b strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// localsOf lists the root files of the path packages that the program of a build script is made of.
func (j *judge) localsOf(build int) []string {
	var out []string
	for _, i := range j.localNodes(build) {
		if src := j.graph.Units[i].Target.SrcPath; src != "" && !contains(out, src) {
			out = append(out, src)
		}
	}
	return out
}

// localNodes lists the path packages that a build script's program links, those of them first that it names itself.
func (j *judge) localNodes(build int) []int {
	if build < 0 {
		return nil
	}
	var out []int
	seen, queue := map[int]bool{build: true}, []int{build}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, d := range j.nodes[i].deps {
			if seen[d.to] || !j.nodes[d.to].local || j.graph != nil && j.graph.Units[d.to].Host() {
				continue
			}
			seen[d.to] = true
			queue, out = append(queue, d.to), append(out, d.to)
		}
	}
	return out
}

// manifestScript is the script of a package without a unit graph, by its manifest and those of its path dependencies.
func (j *judge) manifestScript(p *Package) script {
	s := script{source: p.BuildScript}
	seen := map[string]bool{}
	var walk func(p *Package, kind string)
	walk = func(p *Package, kind string) {
		for _, d := range p.Dependencies {
			if d.Kind != kind {
				continue
			}
			if !contains(s.helpers, d.Package) {
				s.helpers = append(s.helpers, d.Package)
			}
			if d.Path == "" || seen[d.Path] {
				continue
			}
			seen[d.Path] = true
			if local := j.localPackage(d); local != nil {
				s.locals = append(s.locals, j.h.Join(local.Dir, "src", "lib.rs"))
				walk(local, Normal)
			}
		}
	}
	walk(p, Build)
	return s
}

func (j *judge) localPackage(d Dependency) *Package {
	if j.project != nil {
		if p := j.project.Local(d.Path); p != nil {
			return p
		}
	}
	return j.readManifest(j.h.Join(d.Path, "Cargo.toml"), d.Package)
}
