package nvcc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/memo"
)

// listed begins the names of the lists next to a build script's OUT_DIR, one for each compilation: a later one with the same arguments
// replaces it. One that fails has read, too: its script may go on without what it was to make.
const listed = "gpubuild-read-"

const (
	// Absent is in place of the hash of a path that was looked for and was not there: a file, or a directory in which files were looked
	// for.
	Absent = "none"
	// Incomplete is in place of a path where a call read files that are not listed; its value says why.
	Incomplete = ""
	// InToolkit begins a path below the toolkit: a script that keeps what it made may be run with an equal toolkit in another place.
	InToolkit = "{toolkit}"
)

// record is what a call of nvcc read: the hash of each file by its path, or Absent, or why the record is Incomplete.
type record struct {
	run   *run
	files map[string]string
	there map[string]bool   // which paths exist
	real  map[string]string // directories without links
}

// list notes what a call of a build script reads, so that the check for stale artifacts need not guess: the source, every header, the
// system's and the toolkit's included, options files, and what was looked for in vain.
func (r *run) list(p *preprocessed, failed error) {
	out := r.host.Env.Get("OUT_DIR")
	if filepath.Base(out) != "out" || len(r.in) == 0 {
		return
	}
	list := record{run: r, files: map[string]string{}, there: map[string]bool{}, real: map[string]string{}}
	if failed != nil {
		list.files[Incomplete] = failed.Error()
	}
	for _, path := range slices.Concat(r.in, r.files) {
		list.add(path)
	}
	for path := range list.files { // PTX, objects, libraries: other programs may have compiled the sources
		if !r.compiles() {
			list.files[path] = ""
		}
	}
	if p != nil {
		list.addAll(p)
	}
	r.read = list.files
}

// keepList writes the list.
func (r *run) keepList() {
	if r.read == nil {
		return
	}
	call := memo.Key(fmt.Sprintf("%q %q %q", r.host.Cwd, r.args, r.words)) // words: with options files and NVCC_APPEND_FLAGS
	if data, err := json.Marshal(r.read); err == nil {
		dir := filepath.Dir(r.host.Env.Get("OUT_DIR"))
		_ = cache.Keep(filepath.Join(dir, listed+call+".json"), data, 0o644) // without it every file counts
	}
}

// MacroSuffix ends the name of the directory of a package in MacroOut.
const MacroSuffix = "-gpubuild"

// MacroOut is in place of the OUT_DIR of a package for which procedural macros ran nvcc while rustc compiled it.
func MacroOut(build, pkg string) string { return filepath.Join(build, pkg+MacroSuffix, "out") }

// begun makes it look like that of a build script that has run just now and declares what it reads; empty where that cannot be written.
func begun(out string) string {
	err := os.MkdirAll(out, 0o777)
	for _, name := range []string{"invoked.timestamp", "output"} {
		err = cmp.Or(err, os.WriteFile(filepath.Join(filepath.Dir(out), name), []byte("cargo:rerun-if-env-changed=\n"), 0o644))
	}
	if err != nil {
		return ""
	}
	return out
}

// compiles reports whether the call has a source.
func (r *run) compiles() bool {
	return slices.Contains(r.words, "-x") || slices.ContainsFunc(r.in, func(path string) bool {
		return slices.Contains(sourceEndings, filepath.Ext(path))
	})
}

var sourceEndings = []string{".cu", ".cpp", ".cc", ".cxx", ".c"}

// addAll adds the files that the preprocessor read, and where it looked for them and for others before. gcc's -v names the directories that
// it searches, in order, and drops one that is another one by a link: that may lead elsewhere one day.
func (l *record) addAll(p *preprocessed) {
	for _, dir := range slices.Concat(p.dirs, p.dropped) {
		if !l.exists(dir) {
			l.miss(dir)
		}
	}
	for _, tool := range p.tools { // what a script or a launcher in front of the host compiler leads to
		if !l.run.inToolkit(tool) {
			l.add(tool)
		}
	}
	dirs := slices.Concat(p.dropped, p.dirs)
	for _, path := range p.headers {
		l.add(path)
		for i, dir := range dirs { // by which of its names it was asked for is not known
			if name, below := strings.CutPrefix(path, dir+"/"); below {
				l.search(name, dirs[:i], len(p.dropped))
			}
		}
		l.addAsked(path, dirs)
	}
	before := ""
	for _, w := range l.run.words { // of -include, and what -D makes a name of
		for _, name := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(`=,<>"\`, r) }) {
			if strings.Contains(name, ".") || strings.Contains(before, "-include") {
				l.search(name, slices.Concat([]string{"."}, dirs), 0)
			}
		}
		before = w
	}
	l.search("cuda_runtime.h", []string{"."}, 0) // nvcc includes it as -include does
}

// directive finds the lines of a source that name files: in #if by __has_include, perhaps through a macro that #define makes.
var (
	directive = lazyregexp.New(`(?m)^[ \t]*#[ \t]*(?:include|include_next|import|embed|if|elif|define)\b(?:\\\r?\n|[^\n])*`)
	fileName  = lazyregexp.New(`<([\w./+-]*[A-Za-z_][\w./+-]*)>|"([^"\n\\]*[A-Za-z_][^"\n\\]*)"`)
)

// addAsked adds what a file asks for by name. In the system's and the toolkit's headers these are too many.
func (l *record) addAsked(path string, dirs []string) {
	if ofSystem(path) || l.run.inToolkit(path) {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return // it was there a moment ago
	}
	for _, line := range directive.FindAllSubmatch(text, -1) {
		l.searchEach(line[0], filepath.Dir(path), dirs)
	}
}

func (l *record) searchEach(line []byte, includer string, dirs []string) {
	for _, m := range fileName.FindAllSubmatch(line, -1) {
		where := dirs
		if m[2] != nil {
			where = slices.Concat([]string{includer}, dirs)
		} else if m[2] = m[1]; bytes.Contains(line, []byte("define")) && !bytes.ContainsAny(m[1], "./") {
			continue // #define CAST(x) static_cast<float>(x)
		}
		next := map[bool]int{true: len(where)} // of include_next and __has_include_next
		l.search(string(m[2]), where, next[bytes.Contains(line, []byte("_next"))])
	}
}

// search adds a file of a name that is looked for in directories, up to the first one that has it, but in the first all of them anyway.
func (l *record) search(name string, dirs []string, all int) {
	for i, dir := range dirs {
		path := dir + "/" + name
		if filepath.IsAbs(name) {
			path = name
		}
		if !l.exists(path) {
			l.miss(path)
		} else if l.add(path); i >= all {
			return
		}
	}
}

func (l *record) exists(path string) bool {
	is, known := l.there[path]
	if !known {
		_, err := os.Stat(path)
		is = err == nil
		l.there[path] = is
	}
	return is
}

// miss adds a path that is not there, or the first of its directories that is not: a toolkit has a thousand headers in crt.
func (l *record) miss(path string) {
	for dir := filepath.Dir(path); !l.exists(dir) && dir != path; dir = filepath.Dir(dir) {
		path = dir
	}
	l.files[l.absolute(path)] = Absent
}

// add adds a file. A directory is none: <experimental> may be one.
func (l *record) add(path string) {
	at := l.absolute(path)
	if l.files[at] != "" {
		return
	}
	if sum, err := l.run.content(path); err == nil {
		l.files[at] = sum
	}
}

// absolute is a path from the root, short where that is the same file: behind a link a/.. is another directory.
func (l *record) absolute(path string) string {
	dir, name := filepath.Split(path)
	real, known := l.real[dir]
	if !known {
		real = dir
		if !filepath.IsAbs(dir) {
			real = l.run.host.Cwd + "/" + dir
		}
		if short := filepath.Clean(real); l.run.host.Real(short) == l.run.host.Real(real) {
			real = short
		}
		l.real[dir] = real
	}
	path = strings.TrimRightFunc(real, func(r rune) bool { return r == '/' || r == filepath.Separator }) + string(filepath.Separator) + name
	if rest, in := strings.CutPrefix(path, filepath.Dir(filepath.Dir(l.run.real))+string(filepath.Separator)); in {
		return InToolkit + "/" + filepath.ToSlash(rest)
	}
	return path
}

func (r *run) inToolkit(path string) bool {
	return r.host.Below(r.host.Real(path), r.host.Real(filepath.Dir(filepath.Dir(r.real))))
}

// ofSystem reports whether a file comes with the system's packages; /usr/src and /usr/local may hold projects.
func ofSystem(path string) bool {
	of := []string{"/usr/include/", "/usr/lib", "/usr/bin/", "/lib/", "/lib64/"}
	return slices.ContainsFunc(of, func(p string) bool { return strings.HasPrefix(path, p) })
}

// prerequisite is a word of a rule of make; a blank in a name is escaped.
var prerequisite = lazyregexp.New(`(?:\\ |[^\s\\]|\\[^\n\s])+`)

// prerequisites lists the files of a rule of make, as nvcc -M and gcc -MD write it.
func prerequisites(rule string) (paths []string) {
	_, rule, _ = strings.Cut(rule, ": ")
	for _, word := range prerequisite.FindAllString(rule, -1) {
		paths = append(paths, strings.ReplaceAll(word, `\ `, " "))
	}
	return paths
}

// Read is what the lists of our nvcc say that was read for an OUT_DIR, in earlier runs of its build script, too: one that keeps what it
// compiled does not call nvcc again. Each path has the hash of what was seen, which is none of any content where that was not the same each
// time, and an empty one where other programs may have read it. What is Incomplete says so.
func Read(h buildenv.Host, outDir string) map[string]string {
	all, dir := map[string]string{}, h.Dir(outDir)
	for _, name := range h.Names(dir) {
		if !strings.HasPrefix(name, listed) {
			continue
		}
		var one map[string]string
		if data, err := h.ReadFile(h.Join(dir, name), 16<<20); err != nil || json.Unmarshal(data, &one) != nil {
			all[Incomplete] = name + " is damaged"
			continue
		}
		for path, sum := range one {
			switch was := all[path]; {
			case was == "" || was == Absent:
				all[path] = sum
			case sum != was && sum != Absent && sum != "":
				all[path] = "not the same each time"
			}
		}
	}
	return all
}
