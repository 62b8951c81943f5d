package source

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/manifest"
)

// Gating is where a package's own text tests a feature.
type Gating struct {
	Files  []string // below the package, sorted by the walk
	Script bool     // the build script does
	Calls  bool     // the build script mentions nvcc
}

func (g Gating) Any() bool { return len(g.Files) > 0 || g.Script }

const (
	maxSources  = 4000
	sourceLimit = 4 << 20
)

// sourceText is one file of a package.
type sourceText struct{ path, text string }

// sources is what of a package's own text is searched: of what is linked, the files that say "feature", and its build script.
type sources struct{ files, script []sourceText }

// Reader reads the sources and build scripts of packages, each once.
type Reader struct {
	h     buildenv.Host
	root  string // of the workspace; empty: none
	gates map[string]Gating
	texts map[string]*sources
	calls map[string]scriptText
	lists map[string][]string   // by directory: its Rust files
	files map[string]sourceFile // of the lists
	plain map[string]*string    // files without comments; nil: one cannot be read

	listed   map[string]map[string]bool // see list
	programs map[string]string          // see ownPrograms
}

// sourceFile is what of a file counts: its text, if it says "feature", and the files that are part of it.
type sourceFile struct {
	text  string
	parts []string
}

func NewReader(h buildenv.Host, root string) *Reader {
	return &Reader{h: h, root: root, gates: map[string]Gating{}, texts: map[string]*sources{}, calls: map[string]scriptText{},
		lists: map[string][]string{}, files: map[string]sourceFile{}, plain: map[string]*string{},
		listed: map[string]map[string]bool{}}
}

// sourcesOf reads a package's own sources and build script, once. Binaries are left out but for the one whose source file is main: what
// another program of the package does is no part of this one.
func (r *Reader) sourcesOf(dir, script, lib, main string) *sources {
	key := dir + "\x00" + main
	if s, ok := r.texts[key]; ok {
		return s
	}
	s := &sources{}
	r.texts[key] = s
	budget := maxSources
	src := r.h.Join(dir, "src")
	seen := map[string]bool{}
	var add func(list *[]sourceText, f string, all bool)
	add = func(list *[]sourceText, f string, all bool) {
		if seen[f] {
			return
		}
		seen[f] = true
		file, known := r.files[f]
		if !known || all {
			file = r.file(f, all)
			r.files[f] = file
		}
		if file.text != "" {
			*list = append(*list, sourceText{f, file.text})
		}
		for _, part := range file.parts {
			add(list, part, all)
		}
	}
	list, known := r.lists[src]
	if !known {
		list = rustFiles(r.h, src, &budget)
		r.lists[src] = list
	}
	for _, f := range list {
		if !binary(r.h, src, f) || sameProgram(r.h, src, f, main) {
			add(&s.files, f, false)
		}
	}
	// an example, a test, a [[bin]] or a [lib] with a path of its own; its modules are next to it and below
	for _, root := range []string{lib, main} {
		if root != "" && !r.h.Below(root, src) {
			for _, f := range r.nearby(dir, root, &budget) {
				add(&s.files, f, false)
			}
		}
	}
	if script != "" {
		for _, f := range r.nearby(dir, script, &budget) {
			add(&s.script, f, true)
		}
	}
	return s
}

// file reads a source file; all keeps a text that does not say "feature", too.
func (r *Reader) file(path string, all bool) sourceFile {
	var out sourceFile
	data, err := r.h.ReadFile(path, sourceLimit)
	if err != nil {
		return out
	}
	if all || bytes.Contains(data, []byte("feature")) {
		out.text = string(data)
	}
	if !bytes.Contains(data, []byte("include!")) && !bytes.Contains(data, []byte("#[path")) {
		return out
	}
	for _, m := range namedFile.FindAllStringSubmatch(withoutLines("//", string(data)), -1) {
		for _, p := range r.modules(r.h.From(r.h.Dir(path), m[1])) {
			out.parts = append(out.parts, p.file)
		}
	}
	return out
}

// namedFile is a file that is part of another one wherever it lies.
var namedFile = lazyregexp.New(`(?:#\[path\s*=|\binclude!\()\s*"([^"]+)"`)

// gate searches a package's own sources and build script for tests of a feature.
func (r *Reader) gate(p *manifest.Package, feature, main string, b Build) Gating {
	key := strings.Join([]string{p.Dir, feature, main, b.OS, strings.Join(b.Features, " ")}, "\x00")
	key += fmt.Sprint(b.Features == nil, b.Choices)
	if g, ok := r.gates[key]; ok {
		return g
	}
	g := r.search(p.Dir, r.sourcesOf(p.Dir, p.BuildScript, p.Lib, main), feature, b)
	r.gates[key] = g
	return g
}

func (r *Reader) search(dir string, s *sources, feature string, b Build) Gating {
	var g Gating
	tests, script := testOf(feature), b
	script.Choices = true
	for _, f := range s.files {
		if gatesCode(f.text, tests, b) {
			g.Files = append(g.Files, strings.TrimPrefix(r.h.Clean(f.path), r.h.Clean(dir)+r.h.Clean("/")))
		}
	}
	// Its variable, or the prefix of all of them: the script then chooses by names that it reads elsewhere.
	variable := regexp.MustCompile(`\bCARGO_FEATURE_(?:` + regexp.QuoteMeta(EnvName(feature)) + `\b|["{])`)
	for _, f := range s.script {
		// The variable's name is in a string, which code would blank.
		g.Script = g.Script || variable.MatchString(f.text) && variable.MatchString(withoutLines("//", f.text)) ||
			gatesCode(f.text, tests, script)
		g.Calls = g.Calls || strings.Contains(f.text, "nvcc") && strings.Contains(withoutLines("//", f.text), "nvcc")
	}
	return g
}

// nearby lists a root source file with what may be its modules: everything below its directory, unless that is the package's own, where
// other programs lie: then the modules that it names.
func (r *Reader) nearby(dir, file string, budget *int) []string {
	own := r.h.Dir(file)
	if r.h.SamePath(own, dir) || !r.h.Below(file, dir) {
		var files []string
		for _, p := range r.modules(file) {
			files = append(files, p.file)
		}
		return files
	}
	return rustFiles(r.h, own, budget)
}

// GateOf is gate for a feature with every feature of the package that it turns on: what `gpu` gates, `cuda = ["gpu"]` gates. What is on
// without it, by the defaults or otherwise, is no part of it.
func (r *Reader) GateOf(p *manifest.Package, f string, b Build, main string) Gating {
	own, _ := p.Closure([]string{f})
	on := b.Features
	if on != nil {
		b.Features = manifest.Union(on, slices.Sorted(maps.Keys(own)))
	}
	always := map[string]bool{}
	if slices.Contains(on, "default") {
		always, _ = p.Closure([]string{"default"})
	}
	var all Gating
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if name != f && (always[name] || !slices.Contains(on, f) && slices.Contains(on, name)) {
			continue
		}
		g := r.gate(p, name, main, b)
		for _, file := range g.Files {
			if !slices.Contains(all.Files, file) {
				all.Files = append(all.Files, file)
			}
		}
		all.Script, all.Calls = all.Script || g.Script, all.Calls || g.Calls
	}
	return all
}

func EnvName(feature string) string { return strings.ToUpper(strings.ReplaceAll(feature, "-", "_")) }

// binary says whether a file below src belongs to a program rather than to the library.
func binary(h buildenv.Host, src, file string) bool {
	return h.SamePath(file, h.Join(src, "main.rs")) || h.Below(file, h.Join(src, "bin"))
}

// sameProgram says whether a program's file belongs to the program that begins at main.
func sameProgram(h buildenv.Host, src, file, main string) bool {
	if main == "" {
		return false
	}
	if h.SamePath(file, main) {
		return true
	}
	dir := h.Dir(main)
	return !h.SamePath(dir, src) && !h.SamePath(dir, h.Join(src, "bin")) && h.Below(file, dir)
}

func rustFiles(h buildenv.Host, dir string, budget *int) []string {
	var out []string
	queue := []string{dir}
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		entries, err := h.Files.ReadDir(d)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if *budget--; *budget < 0 {
				return out
			}
			p := h.Join(d, e.Name())
			switch {
			case e.IsDir():
				queue = append(queue, p)
			case strings.HasSuffix(e.Name(), ".rs"):
				out = append(out, p)
			}
		}
	}
	return out
}

// featureTest finds tests of a feature in Rust text: feature = "cuda". A regular expression takes several times as long, and this is most
// of what a check of every member does.
type featureTest struct{ quoted string }

func testOf(feature string) featureTest { return featureTest{`"` + feature + `"`} }

func (t featureTest) in(text string) bool { return len(t.places(text, 1)) > 0 }

// places lists where tests begin and end, at most n of them; all for a negative n.
func (t featureTest) places(text string, n int) (found [][2]int) {
	const word, space = "feature", " \t\r\n"
	for end := 0; len(found) != n; {
		at := strings.Index(text[end:], t.quoted)
		if at < 0 {
			return found
		}
		at, end = end+at, end+at+len(t.quoted)
		name, assigned := strings.CutSuffix(strings.TrimRight(text[:at], space), "=")
		name, tested := strings.CutSuffix(strings.TrimRight(name, space), word)
		if assigned && tested && !identifier(name) {
			found = append(found, [2]int{len(name), end})
		}
	}
	return found
}

// identifier says whether a text ends in the middle of a Rust name.
func identifier(text string) bool {
	if text == "" {
		return false
	}
	c := text[len(text)-1]
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// gatesCode says whether a text compiles code only with, or only without, a feature, in a build. Comments, documentation marks, modules of
// tests and a lone compile_error! do not count, nor does cfg!, whose code is compiled either way, unless choices count, nor an
// attribute that names no file and no library. What macro_rules! expand to is not read.
func gatesCode(whole string, test featureTest, b Build) bool {
	if !test.in(whole) {
		return false
	}
	feature := strings.Trim(test.quoted, `"`)
	text := code(whole, feature)
	for _, at := range test.places(text, -1) {
		in := conditionAt(text, at[0])
		rest := strings.TrimLeft(text[max(in.end, at[1]):], ")] \t\r\n")
		line, _, _ := strings.Cut(rest, "\n")
		switch {
		case in.doc || in.kind == "cfg!" && !b.Choices || strings.Contains(line, "compile_error!"):
			continue
		case in.kind == "":
			return true
		}
		c := condition{text: text[:in.end], whole: whole, feature: feature, on: true, build: b}
		with, behind := c.holds(in.from)
		c.on = false
		without, _ := c.holds(in.from)
		if with != without && (in.kind != "cfg_attr" || compiledAttribute.MatchString(text[behind:in.end]) ||
			b.Choices && ignoredTest.MatchString(text[behind:in.end])) {
			return true
		}
	}
	return false
}

// compiledAttribute is an attribute by which other code is compiled or linked: cfg_attr(feature = "cuda", path = "gpu.rs").
var compiledAttribute = lazyregexp.New(`^\s*,(?:.*,)?\s*(?:path\s*=|link\s*\()`)

// ignoredTest is cfg_attr(not(feature = "cuda"), ignore): the feature chooses which tests run.
var ignoredTest = lazyregexp.New(`^\s*,(?:.*,)?\s*ignore\b`)

// TestsBoth says whether one line of a package's sources tests two features together.
func (r *Reader) TestsBoth(dir, a, b string) []string {
	ta, tb := testOf(a), testOf(b)
	budget := maxSources
	var files []string
	for _, f := range rustFiles(r.h, r.h.Join(dir, "src"), &budget) {
		data, err := r.h.ReadFile(f, sourceLimit)
		text := string(data)
		if err != nil || !strings.Contains(text, ta.quoted) || !strings.Contains(text, tb.quoted) {
			continue
		}
		for _, line := range strings.Split(text, "\n") {
			if ta.in(line) && tb.in(line) && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				files = append(files, strings.TrimPrefix(r.h.Clean(f), r.h.Clean(dir)+r.h.Clean("/")))
				break
			}
		}
	}
	return files
}

// TestsFeature says whether a text tests a feature anywhere.
func TestsFeature(text, feature string) bool { return testOf(feature).in(text) }
