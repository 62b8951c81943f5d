package source

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/manifest"
)

// Limit bounds a source that is read, in bytes.
const Limit = 4 << 20

// Reader reads the sources and build scripts of packages, each once.
type Reader struct {
	h     buildenv.Host
	root  string // of the workspace; empty: none
	tests map[string]Tested
	rust  map[string][]part // by package directory; paths below that, with slashes
	calls map[string]scriptText
	plain map[string]*string // files without comments; nil: one cannot be read

	listed map[string]map[string]bool // see list
}

// NewReader prepares reading; root is the workspace's directory.
func NewReader(h buildenv.Host, root string) *Reader {
	return &Reader{h: h, root: root, tests: map[string]Tested{}, rust: map[string][]part{}, calls: map[string]scriptText{},
		plain: map[string]*string{}, listed: map[string]map[string]bool{}}
}

// Tested is where a package's own text tests a feature.
type Tested struct {
	Code  []Place // in its library and programs
	Tests []Place // in its tests, benches and examples
	// name of the build script, where that does, or reads variables of features by names that it puts together
	Script string
}

// Place is a line of a package's file.
type Place struct {
	File string // below the package, with slashes
	Line int
}

// TestsOf looks where a package tests one of its features: in a condition of Rust code, or in its build script. Comments do not count.
func (r *Reader) TestsOf(p *manifest.Package, feature string) Tested {
	key := p.Dir + "\x00" + feature
	if t, known := r.tests[key]; known {
		return t
	}
	var t Tested
	test, script := testOf(feature), map[string]bool{}
	gates := []string{"CARGO_FEATURE_" + EnvName(feature) + `"`, "CARGO_FEATURE_\"", "CARGO_FEATURE_{", "CARGO_CFG_FEATURE"}
	if p.BuildScript != "" {
		for _, m := range r.modules(p.BuildScript) {
			script[m.file] = true
			if test.MatchString(m.text) || slices.ContainsFunc(gates, func(s string) bool { return strings.Contains(m.text, s) }) {
				t.Script = r.h.Base(m.file)
			}
		}
	}
	for _, f := range r.rustOf(p.Dir) {
		if script[r.h.Join(p.Dir, f.file)] || !strings.Contains(f.text, `"`+feature+`"`) {
			continue
		}
		compiled := code(f.text)
		place := test.FindStringIndex(compiled)
		if place == nil {
			continue
		}
		at := Place{f.file, 1 + strings.Count(compiled[:place[0]], "\n")}
		switch top, _, _ := strings.Cut(f.file, "/"); top {
		case "tests", "benches", "examples":
			t.Tests = append(t.Tests, at)
		default:
			t.Code = append(t.Code, at)
		}
	}
	r.tests[key] = t
	return t
}

// rustOf reads the Rust files of a package that say "feature"; directories of other packages and of builds are left out.
func (r *Reader) rustOf(dir string) []part {
	if list, known := r.rust[dir]; known {
		return list
	}
	var out []part
	_, _ = r.h.Walk(dir, func(path, below string, e fs.DirEntry, isDir bool) bool { // what cannot be read tests nothing
		if !isDir && strings.HasSuffix(below, ".rs") {
			if data, err := r.h.ReadFile(path, Limit); err == nil && strings.Contains(string(data), "feature") {
				out = append(out, part{below, string(data)})
			}
		}
		return e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "target" && !r.h.IsFile(r.h.Join(path, manifest.FileName))
	})
	slices.SortFunc(out, func(a, b part) int { return strings.Compare(a.file, b.file) })
	r.rust[dir] = out
	return out
}

// EnvName is how cargo writes a feature in the name of its variable.
func EnvName(feature string) string { return strings.ToUpper(strings.ReplaceAll(feature, "-", "_")) }

// testOf finds tests of a feature in Rust text: feature = "cuda".
func testOf(feature string) *regexp.Regexp {
	return regexp.MustCompile(`\bfeature\s*=\s*"` + regexp.QuoteMeta(feature) + `"`)
}

// notCode are comments, raw strings and modules of tests, as rustfmt writes them. A `//` in an address and a `/*` in a pattern begin none.
var notCode = lazyregexp.New(`(?ms)(?:^|[\s;{}(,])(?:/\*.*?\*/|//[^\n]*)|r#+".*?"#+|^#\[cfg\(test\)\]\s*(?:pub\s+)?mod\s+\w+\s*` +
	`\{(?:[^\n]*\}[ \t\r]*$|.*?^\})`)

// code is Rust text without what is not compiled into a program. Lines stay where they are.
func code(text string) string {
	return notCode.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
}
