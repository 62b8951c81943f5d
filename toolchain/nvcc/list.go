package nvcc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/stale"
	"gpubuild/toolchain/cargo/builddir"
)

// listed begins the names of the records next to a build script's OUT_DIR, one for each call. One that fails has read, too: its script may
// go on without what it was to make.
const listed = "gpubuild-read-"

const (
	// Absent is in place of the hash of a path that was looked for and was not there: a file, or a directory in which files were looked
	// for.
	Absent = "none"
	// InToolkit begins a path below the toolkit: a script that keeps what it made may be run with an equal toolkit in another place.
	InToolkit = "{toolkit}"
)

// record is what a call of nvcc read and made.
type record struct {
	Call     string            `json:"call"` // its directory and arguments
	Ran      int64             `json:"ran"`  // when the run of the script began that made the call
	Compiles bool              `json:"compiles"`
	Partial  string            `json:"partial,omitempty"` // why not all that was read is known
	Once     bool              `json:"once,omitempty"`    // of an input that can be read only once
	In       []string          `json:"in,omitempty"`      // hashes of its inputs; of an archive, of its objects
	Made     []string          `json:"made,omitempty"`    // hashes of what it wrote
	Read     map[string]string `json:"read"`              // the hash of each file by its path, or Absent
}

// list collects what a call read.
type list struct {
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
	list := list{run: r, files: map[string]string{}, there: map[string]bool{}, real: map[string]string{}}
	r.record = &record{Ran: builddir.Ran(r.host, out), Compiles: r.compiles(), Once: p != nil && len(p.single) > 0, Read: list.files}
	if failed != nil {
		r.record.Partial = failed.Error()
	} else if r.record.Once {
		r.record.Partial = onlyOnce + p.single[0]
	}
	for _, path := range slices.Concat(r.in, r.files) {
		list.add(path)
	}
	if p != nil {
		list.addAll(p)
	}
	for _, path := range r.in {
		in := []string{list.files[list.absolute(path)]}
		if !r.record.Compiles { // what is taken from an archive are its objects with device code: cc has one linked by --device-link
			if objects, archive := r.linked(r.host, r.host.Abs(path), in[0]); archive {
				in = objects
			}
		}
		r.record.In = append(r.record.In, in...)
	}
}

// keepRecord writes it, under a name of its own: calls run side by side.
func (r *run) keepRecord(succeeded bool) {
	if r.record == nil {
		return
	}
	if r.refused && !succeeded { // as cc asks for a flag (flag_if_supported)
		r.record.Partial = ""
	}
	for _, path := range r.outputs() {
		if sum, err := cache.Hash(path); err == nil && succeeded {
			r.record.Made = append(r.record.Made, sum)
		}
	}
	r.record.Call = memo.Key(fmt.Sprintf("%q %q %q", r.host.Cwd, r.args, r.words)) // words: with options files and NVCC_APPEND_FLAGS
	data, err := json.Marshal(r.record)
	f, failed := os.CreateTemp(filepath.Dir(r.host.Env.Get("OUT_DIR")), listed+"*.json") // without it every file counts
	if err != nil || failed != nil {
		return
	}
	_, err = f.Write(data)
	_ = f.Chmod(0o644)
	if cmp.Or(err, f.Close()) != nil {
		_ = os.Truncate(f.Name(), 0) // it is damaged, and says so
	}
}

// MacroSuffix ends the name of the directory of a package in MacroOut.
const MacroSuffix = "-gpubuild"

// MacroOut is in place of the OUT_DIR of a package for which procedural macros ran nvcc while rustc compiled it.
func MacroOut(build, pkg string) string { return filepath.Join(build, pkg+MacroSuffix, "out") }

// begun makes it look like that of a build script that began with the first of a build's calls and declares what it reads; empty where that
// cannot be written. A build is known by its log.
func begun(out, log string) string {
	text := "cargo:rerun-if-env-changed=" + log + "\n"
	printed := filepath.Join(filepath.Dir(out), "output")
	if was, err := os.ReadFile(printed); err == nil && string(was) == text {
		return out
	}
	err := os.MkdirAll(out, 0o777)
	for _, path := range []string{filepath.Join(filepath.Dir(out), "invoked.timestamp"), printed} {
		err = cmp.Or(err, os.WriteFile(path, []byte(text), 0o644))
	}
	if err != nil {
		return ""
	}
	return out
}

// compiles reports whether the call has a source.
func (r *run) compiles() bool {
	return slices.ContainsFunc(r.words, language.MatchString) || slices.ContainsFunc(r.in, func(path string) bool {
		return slices.Contains(sourceEndings, filepath.Ext(path))
	})
}

var language = lazyregexp.New(`^-+x(=|$)`)

var sourceEndings = []string{".cu", ".cpp", ".cc", ".cxx", ".c"}

// addAll adds the files that the preprocessor read, and where it looked for them and for others before. gcc's -v names the directories that
// it searches, in order, and drops one that is another one by a link: that may lead elsewhere one day.
func (l *list) addAll(p *preprocessed) {
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
				before := slices.Clone(dirs[:i])
				if ofSystem(path) { // whose packages agree among themselves
					before = slices.DeleteFunc(before, ofSystem)
				}
				l.search(name, before, true)
			}
		}
		l.addAsked(path, dirs)
	}
	before := ""
	for _, w := range l.run.words { // of -include, and what -D makes a name of
		for _, name := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(`=,<>"\`, r) }) {
			if strings.Contains(name, ".") || strings.Contains(before, "-include") {
				l.search(name, slices.Concat([]string{"."}, dirs), false)
			}
		}
		before = w
	}
	l.search("cuda_runtime.h", []string{"."}, false) // nvcc includes it as -include does
}

// directive finds the lines of a source that name files: in #if by __has_include, perhaps through a macro that #define makes.
var (
	directive = lazyregexp.New(`(?m)^[ \t]*#[ \t]*(?:include|include_next|import|embed|if|elif|define)\b(?:\\\r?\n|[^\n])*`)
	fileName  = lazyregexp.New(`<([\w./+-]*[A-Za-z_][\w./+-]*)>|"([^"\n\\]*[A-Za-z_][^"\n\\]*)"`)
)

// addAsked adds what a file asks for by name. In the system's and the toolkit's headers these are too many.
func (l *list) addAsked(path string, dirs []string) {
	if ofSystem(path) || l.run.inToolkit(path) {
		return
	}
	text, err := l.run.host.ReadFile(path, buildenv.Program)
	if err != nil {
		return // it was there a moment ago, or is a pipe
	}
	for _, whole := range directive.FindAllSubmatch(text, -1) {
		line := whole[0]
		for _, m := range fileName.FindAllSubmatch(line, -1) {
			where := dirs
			if m[2] != nil {
				where = slices.Concat([]string{filepath.Dir(path)}, dirs)
			} else if m[2] = m[1]; bytes.Contains(line, []byte("define")) && !bytes.ContainsAny(m[1], "./") {
				continue // #define CAST(x) static_cast<float>(x)
			}
			l.search(string(m[2]), where, bytes.Contains(line, []byte("_next")))
		}
	}
}

// search adds a file of a name that is looked for in directories, up to the first one that has it, or in each of them.
func (l *list) search(name string, dirs []string, each bool) {
	for _, dir := range dirs {
		path := dir + "/" + name
		if filepath.IsAbs(name) {
			path = name
		}
		if !l.exists(path) {
			l.miss(path)
		} else if l.add(path); !each {
			return
		}
	}
}

func (l *list) exists(path string) bool {
	is, known := l.there[path]
	if !known {
		_, err := os.Stat(path)
		is = err == nil
		l.there[path] = is
	}
	return is
}

// miss adds a path that is not there, or the first of its directories that is not: a toolkit has a thousand headers in crt.
func (l *list) miss(path string) {
	if strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/") {
		return
	}
	for dir := filepath.Dir(path); !l.exists(dir) && dir != path; dir = filepath.Dir(dir) {
		path = dir
	}
	l.files[l.absolute(path)] = Absent
}

// add adds a file that others can read, too. A directory is none: <experimental> may be one.
func (l *list) add(path string) {
	at := l.absolute(path)
	if l.files[at] != "" || readOnce(path) {
		return
	}
	if sum, err := l.run.content(path); err == nil {
		l.files[at] = sum
	}
}

// absolute is a path from the root, for JSON, short where that is the same file: behind a link a/.. is another directory.
func (l *list) absolute(path string) string {
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
		path = InToolkit + "/" + filepath.ToSlash(rest)
	}
	return stale.Text(path)
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

// Known is what the records of our nvcc say of an OUT_DIR, those of earlier runs of its build script included: one that keeps what it
// compiled does not call nvcc again.
type Known struct {
	Calls, Compiled int      // how many there are, and how many compiled a source
	Newest          int      // how many of the newest run did
	Partial         []string // why not all that was read is known
	// Read has each path with the hash of what was seen, or Absent: several, in order and with a blank in between, where that was not
	// the same each time.
	Read     map[string]string
	Made     map[string]bool // hashes of what was compiled from what is in Read
	Once     map[string]bool // those of it that were made of an input that can be read only once
	Replaced []string        // files of the records in whose place others came
	Failed   []string        // files of the records of this run whose calls made nothing
}

// Read reads the records next to an OUT_DIR.
func Read(h buildenv.Host, outDir string) Known {
	k := Known{Read: map[string]string{}, Made: map[string]bool{}, Once: map[string]bool{}}
	dir, ran, again := h.Dir(outDir), builddir.Ran(h, outDir), map[string]bool{}
	all := map[string]record{}
	for _, name := range h.Names(dir) {
		if !strings.HasPrefix(name, listed) {
			continue
		}
		var one record
		if data, err := h.ReadFile(h.Join(dir, name), buildenv.Record); err != nil || json.Unmarshal(data, &one) != nil {
			k.Partial = append(k.Partial, name+" is damaged")
			continue
		}
		all[h.Join(dir, name)] = one
		again[one.Call] = again[one.Call] || one.Ran == ran
	}
	seen := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		one := all[path]
		if one.Ran != ran && again[one.Call] {
			k.Replaced = append(k.Replaced, path)
			delete(all, path)
			continue
		}
		k.Calls++
		if one.Ran == ran && one.Made == nil {
			k.Failed = append(k.Failed, path)
		}
		if one.Compiles {
			if k.Compiled++; one.Ran == ran {
				k.Newest++
			}
		}
		if one.Partial != "" && !slices.Contains(k.Partial, one.Partial) {
			k.Partial = append(k.Partial, one.Partial)
		}
		for text, sum := range one.Read {
			path := stale.Bytes(text)
			seen[path] = append(seen[path], sum)
		}
	}
	for path, sums := range seen {
		slices.Sort(sums)
		if sums = slices.Compact(sums); len(sums) > 1 { // it was there once
			sums = slices.DeleteFunc(sums, func(sum string) bool { return sum == Absent })
		}
		k.Read[path] = strings.Join(sums, " ")
	}
	k.trace(all)
	return k
}

// trace finds what was compiled: by calls with a source, and from nothing but what such calls made.
func (k Known) trace(all map[string]record) {
	for before := -1; before < len(k.Made); {
		before = len(k.Made)
		for _, one := range all {
			if one.Compiles || len(one.In) > 0 && !slices.ContainsFunc(one.In, func(sum string) bool { return !k.Made[sum] }) {
				for _, sum := range one.Made {
					k.Made[sum] = true
					k.Once[sum] = k.Once[sum] || one.Once
				}
			}
		}
	}
}
