package source

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"gpubuild/buildenv"
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

// sources is what of a package's own text is searched: what is linked, and its build script.
type sources struct{ files, script []sourceText }

// Reader reads the sources and build scripts of packages, each once.
type Reader struct {
	h     buildenv.Host
	root  string // of the workspace; empty: none
	gates map[string]Gating
	texts map[string]*sources
}

func NewReader(h buildenv.Host, root string) *Reader {
	return &Reader{h: h, root: root, gates: map[string]Gating{}, texts: map[string]*sources{}}
}

// sourcesOf reads a package's own sources and build script, once. Binaries are left out but for the one whose source file is main: what
// another program of the package does is no part of this one.
func (r *Reader) sourcesOf(dir, script, main string) *sources {
	key := dir + "\x00" + main
	if s, ok := r.texts[key]; ok {
		return s
	}
	s := &sources{}
	r.texts[key] = s
	budget := maxSources
	src := r.h.Join(dir, "src")
	add := func(list *[]sourceText, f string) {
		if data, err := r.h.ReadFile(f, sourceLimit); err == nil {
			*list = append(*list, sourceText{f, string(data)})
		}
	}
	for _, f := range rustFiles(r.h, src, &budget) {
		if !binary(r.h, src, f) || sameProgram(r.h, src, f, main) {
			add(&s.files, f)
		}
	}
	// an example, a test, a [[bin]] or a [lib] with a path of its own; its modules lie beside and below
	if main != "" && !r.h.Below(main, src) {
		for _, f := range r.beside(dir, main, &budget) {
			add(&s.files, f)
		}
	}
	if script != "" {
		for _, f := range r.beside(dir, script, &budget) {
			add(&s.script, f)
		}
	}
	return s
}

// gate searches a package's own sources and build script for tests of a feature.
func (r *Reader) gate(p *manifest.Package, feature, main string) Gating {
	key := p.Dir + "\x00" + feature + "\x00" + main
	if g, ok := r.gates[key]; ok {
		return g
	}
	g := r.search(p.Dir, r.sourcesOf(p.Dir, p.BuildScript, main), feature)
	r.gates[key] = g
	return g
}

func (r *Reader) search(dir string, s *sources, feature string) Gating {
	var g Gating
	tests := testOf(feature)
	for _, f := range s.files {
		if gatesCode(f.text, tests) {
			g.Files = append(g.Files, strings.TrimPrefix(r.h.Clean(f.path), r.h.Clean(dir)+r.h.Clean("/")))
		}
	}
	variable := regexp.MustCompile(`\bCARGO_FEATURE_` + EnvName(feature) + `\b`)
	for _, f := range s.script {
		// The variable's name stands in a string, which code would blank.
		g.Script = g.Script || variable.MatchString(f.text) && variable.MatchString(withoutLines("//", f.text)) || gatesCode(f.text, tests)
		g.Calls = g.Calls || strings.Contains(f.text, "nvcc") && strings.Contains(withoutLines("//", f.text), "nvcc")
	}
	return g
}

// beside lists a root source file with what may be its modules: everything below its directory, unless that is the package's own, where
// other programs lie.
func (r *Reader) beside(dir, file string, budget *int) []string {
	own := r.h.Dir(file)
	if r.h.SamePath(own, dir) || !r.h.Below(file, dir) {
		return []string{file}
	}
	return rustFiles(r.h, own, budget)
}

// GateOf is gate for a feature with every feature of the package that it turns on: what `gpu` gates, `cuda = ["gpu"]` gates. What is on
// without it, by the defaults or otherwise, is no part of it.
func (r *Reader) GateOf(p *manifest.Package, f string, on []string, main string) Gating {
	own, _ := p.Closure([]string{f})
	always := map[string]bool{}
	if slices.Contains(on, "default") {
		always, _ = p.Closure([]string{"default"})
	}
	var all Gating
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if name != f && (always[name] || !slices.Contains(on, f) && slices.Contains(on, name)) {
			continue
		}
		g := r.gate(p, name, main)
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

// featureTest finds tests of a feature in Rust text. The quoted name alone is looked for first: most files do not have it, and a search for
// plain bytes is many times as fast as one for a pattern.
type featureTest struct {
	quoted  string
	pattern *regexp.Regexp
}

func testOf(feature string) featureTest {
	return featureTest{`"` + feature + `"`, regexp.MustCompile(`\bfeature\s*=\s*"` + regexp.QuoteMeta(feature) + `"`)}
}

func (t featureTest) in(text string) bool {
	return strings.Contains(text, t.quoted) && t.pattern.MatchString(text)
}

func (t featureTest) at(line string) []int {
	if !strings.Contains(line, t.quoted) {
		return nil
	}
	return t.pattern.FindStringIndex(line)
}

// gatesCode says whether a text compiles code only with, or only without, a feature. Comments, documentation marks, modules of tests and a
// lone compile_error! do not count. What macro_rules! expand to is not read.
func gatesCode(text string, test featureTest) bool {
	if !test.in(text) {
		return false
	}
	if text = code(text, strings.Trim(test.quoted, `"`)); !test.in(text) {
		return false
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		at := test.at(line)
		if at == nil {
			continue
		}
		if before := line[:at[0]]; strings.Contains(before, "doc(cfg(") || strings.Contains(before, "cfg_attr(docsrs") {
			continue
		}
		if strings.Contains(line[at[1]:], "compile_error!") {
			continue
		}
		next := ""
		for _, l := range lines[i+1 : min(i+4, len(lines))] {
			if next = strings.TrimSpace(l); next != "" {
				break
			}
		}
		if strings.HasPrefix(next, "compile_error!") || strings.HasPrefix(next, "std::compile_error!") {
			continue
		}
		return true
	}
	return false
}

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
