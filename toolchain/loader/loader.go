package loader

import (
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// Kind is what is the matter with a library.
type Kind string

// The kinds, from nothing to worst.
const (
	OK      Kind = ""
	Added   Kind = "added"   // a bare start would lack it: it is only in a directory that gpubuild adds
	Stub    Kind = "stub"    // a link stub: every call of it fails
	Broken  Kind = "broken"  // the loader will take this file, and stop at it
	Missing Kind = "missing" // the program will not start
)

// Library is one shared library that a program needs, itself or through another.
type Library struct {
	Name string `json:"name"`           // as it is asked for: libcudart.so.13
	Path string `json:"path,omitempty"` // the file that the loader takes; empty when there is none
	By   string `json:"by"`             // the file that asks for it first
	// why the loader looks there: "RUNPATH of …", "LD_LIBRARY_PATH", "ld.so.cache", "added by gpubuild"
	Origin  string `json:"origin,omitempty"`
	Kind    Kind   `json:"kind,omitempty"`    //
	Problem string `json:"problem,omitempty"` // Kind in words, with what was seen
	Delayed bool   `json:"delayed,omitempty"` // Windows: loaded at the first call of one of its functions, not at the start
}

// maxObjects bounds one resolution; the largest real programs load a few hundred.
const maxObjects = 4096

// Resolve lists every library that the loader will load for binary, in its order, when dirs stand at the end of LD_LIBRARY_PATH, or on
// Windows of PATH. A binary that cannot be read or is none of this host is an error; a library that cannot is a Problem.
func Resolve(h buildenv.Host, binary string, dirs []string) ([]Library, error) {
	return resolve(h, binary, nil, dirs)
}

// Open answers for names what dlopen(3) or LoadLibrary, called by binary, would find: for libraries that a program opens by itself.
func Open(h buildenv.Host, binary string, names, dirs []string) ([]Library, error) {
	return resolve(h, binary, append([]string{}, names...), dirs)
}

// resolve answers for names, or where they are nil for what binary needs itself.
func resolve(h buildenv.Host, binary string, names, dirs []string) ([]Library, error) {
	if windows, err := isPE(h, binary); err != nil {
		return nil, err
	} else if windows {
		return resolveWindows(h, binary, names, dirs)
	}
	main, err := open(h, binary)
	if err != nil {
		return nil, err
	}
	if names != nil {
		return compare(h, main, names, dirs), nil
	}
	libs := compare(h, main, main.needed, dirs)
	if main.interp != "" && !h.IsFile(main.interp) {
		first := Library{
			Name:    main.interp,
			By:      main.path,
			Kind:    Missing,
			Problem: "not found: it is the loader of the program, which does not start without it (\"No such file or directory\")",
		}
		libs = append([]Library{first}, libs...)
	}
	return libs, nil
}

// compare resolves twice, as gpubuild starts the program and as a bare start would.
func compare(h buildenv.Host, main *object, needed, dirs []string) []Library {
	sys := readSystem(h, main)
	bare := (&search{h: h, main: main, sys: sys}).run(needed)
	return added(h, bare, func() []Library { return (&search{h: h, main: main, sys: sys, added: dirs}).run(needed) }, dirs, libraryPath)
}

// added marks what full finds only because dirs are searched, too. Without dirs the bare answer is the whole one.
func added(h buildenv.Host, bare []Library, full func() []Library, dirs []string, variable string) []Library {
	if len(dirs) == 0 {
		return bare
	}
	libs := full()
	found := map[string]Library{}
	for _, b := range bare {
		found[b.Name] = b
	}
	for i, l := range libs {
		b, asked := found[l.Name]
		if l.Kind == OK && l.Origin == originAdded && (!asked || b.Kind == Missing) {
			libs[i].Kind = Added
			libs[i].Problem = "only in " + h.Dir(l.Path) + ", which gpubuild adds to " + variable + ": a bare start lacks it"
		}
	}
	return libs
}

const (
	originAdded = "added by gpubuild"
	libraryPath = "LD_LIBRARY_PATH"
)

// search is one resolution.
type search struct {
	h     buildenv.Host
	main  *object
	sys   system
	added []string

	opened map[string]*object // by path; nil: cannot be read
	errs   map[string]error
	seen   []string // for one name: files that were passed over, and why
}

func (s *search) run(needed []string) []Library {
	s.opened, s.errs = map[string]*object{}, map[string]error{}
	type need struct {
		name string
		by   *object
	}
	var queue []need
	for _, n := range needed {
		queue = append(queue, need{n, s.main})
	}
	loaded := map[string]bool{s.main.soname: true} // by the name that was asked for, and by soname
	files := map[string]bool{s.h.Real(s.main.path): true}
	var out []Library
	for i := 0; i < len(queue) && len(out) < maxObjects; i++ {
		n := queue[i]
		if n.name == "" || loaded[n.name] {
			continue
		}
		loaded[n.name] = true
		o, l := s.find(n.name, n.by)
		out = append(out, l)
		if o == nil {
			continue
		}
		if o.soname != "" {
			loaded[o.soname] = true
		}
		if real := s.h.Real(o.path); files[real] {
			continue // one file of two names is loaded once
		} else {
			files[real] = true
		}
		o.parent = n.by
		for _, name := range o.needed {
			queue = append(queue, need{name, o})
		}
	}
	return out
}

// muslOwn matches the names that musl's loader takes for itself: its C library
// is all of them. Source: musl's ldso/dynlink.c, load_library.
var muslOwn = lazyregexp.New(`^lib(c|pthread|rt|m|dl|util|xnet)\.`)

// musl says whether the program is started by musl's loader.
func (s *search) musl() bool { return strings.Contains(s.main.interp, "ld-musl-") }

// place is a directory and why it is searched.
type place struct{ dir, origin string }

// find answers the file that the loader takes for a name that by needs.
func (s *search) find(name string, by *object) (*object, Library) {
	l := Library{Name: name, By: s.shown(by.path)}
	s.seen = nil
	if strings.Contains(name, "/") {
		for _, p := range s.expand(name, by) {
			if o := s.take(&l, s.abs(p), "named by its path"); o != nil || l.Kind == Broken {
				return o, l
			}
		}
		return nil, s.missing(l)
	}
	if s.musl() && muslOwn.MatchString(name) {
		if o := s.take(&l, s.main.interp, s.sys.origin); o != nil || l.Kind == Broken {
			return o, l
		}
		return nil, s.missing(l)
	}
	before, after := s.places(by)
	for _, p := range before {
		if o := s.take(&l, p.dir+"/"+name, p.origin); o != nil || l.Kind == Broken {
			return o, l
		}
	}
	if !by.noDef {
		for _, file := range s.sys.cache[name] {
			if o := s.take(&l, file, s.sys.origin); o != nil || l.Kind == Broken {
				return o, l
			}
		}
	}
	for _, p := range after {
		if o := s.take(&l, p.dir+"/"+name, p.origin); o != nil || l.Kind == Broken {
			return o, l
		}
	}
	return nil, s.missing(l)
}

func (s *search) missing(l Library) Library {
	l.Kind, l.Problem = Missing, "not found"
	if len(s.seen) > 0 {
		l.Problem += "; passed over: " + strings.Join(s.seen, ", ")
	}
	return l
}

// take looks at one candidate. A file for another machine is passed over, one
// that is no ELF file stops the loader ("invalid ELF header").
func (s *search) take(l *Library, file, origin string) *object {
	o, looked := s.opened[file]
	err := s.errs[file]
	if !looked {
		if fi, e := s.h.Files.Stat(file); e != nil || fi.IsDir() {
			s.opened[file] = nil
			return nil
		} else if fi.Mode().IsRegular() {
			o, err = open(s.h, file)
		} else { // the loader would wait for somebody to write to a FIFO
			err = errors.New(s.shown(file) + " is not a regular file")
		}
		s.opened[file], s.errs[file] = o, err
	}
	if o == nil {
		if err != nil {
			l.Path, l.Origin, l.Kind, l.Problem = s.shown(file), origin, Broken, err.Error()
		}
		return nil
	}
	if !s.main.fits(o) && s.musl() { // it takes the first file of that name (dynlink.c, path_open)
		l.Path, l.Origin, l.Kind = s.shown(file), origin, Broken
		l.Problem = fmt.Sprintf("%s is for another machine (%s), and musl's loader looks no further", s.shown(file), o.kind())
		return nil
	}
	if !s.main.fits(o) {
		s.seen = append(s.seen, fmt.Sprintf("%s (%s)", s.shown(file), o.kind()))
		return nil
	}
	l.Path, l.Origin = s.shown(file), origin
	if why := s.isStub(o, file); why != "" {
		l.Kind, l.Problem = Stub, why
	}
	return o
}

// abs answers a path as the loader opens it. It is not cleaned: behind a link "lib64/../lib" is another directory than "lib".
func (s *search) abs(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return s.h.Cwd + "/" + p
}

// shown is a path as a person reads it, where that is the same file.
func (s *search) shown(file string) string {
	clean := s.h.Clean(file)
	if clean == file || s.h.Real(clean) == s.h.Real(file) {
		return clean
	}
	return file
}

func (s *search) isStub(o *object, file string) string {
	for _, p := range []string{file, s.h.Real(file)} {
		if IsStubDir(s.h, s.h.Dir(p)) {
			return "a link stub (in " + s.h.Dir(p) + "): every call of it fails"
		}
	}
	if o.stub {
		return "a link stub that gpubuild made: every call of it fails"
	}
	return ""
}

// places lists the directories that are searched before and after the cache. Source: glibc's elf/dl-load.c, _dl_map_object.
func (s *search) places(by *object) (before, after []place) {
	musl := s.musl()
	add := func(list *[]place, dirs []string, of *object, origin string) {
		for _, d := range dirs {
			if d == "" && musl { // dynlink.c, path_open: separators that follow each other are one
				continue
			}
			if d == "" { // ld.so(8): the current directory
				d = "."
			}
			all := []string{d}
			if !musl || origin != libraryPath { // musl's takes this variable as it is
				all = s.expand(d, of)
			}
			for _, e := range all {
				if e = s.abs(e); e != "/" {
					e = strings.TrimRight(e, "/")
				}
				for _, c := range s.sys.caps {
					*list = append(*list, place{e + "/glibc-hwcaps/" + c, origin})
				}
				*list = append(*list, place{e, origin})
			}
		}
	}
	rpath := func(o *object) {
		if len(o.runpath) == 0 {
			add(&before, o.rpath, o, "RPATH of "+s.shown(o.path))
		}
	}
	if len(by.runpath) == 0 && !musl {
		last := by
		for o := by; o != nil; o = o.parent {
			rpath(o)
			last = o
		}
		if last != s.main {
			rpath(s.main)
		}
	}
	if v, ok := s.h.Env.Lookup(libraryPath); ok && v != "" {
		add(&before, strings.Split(strings.ReplaceAll(v, ";", ":"), ":"), s.main, libraryPath)
	}
	add(&before, s.added, s.main, originAdded)
	if !musl {
		add(&before, by.runpath, by, "RUNPATH of "+s.shown(by.path))
	}
	for o := by; o != nil && musl; o = o.parent { // to musl both are one, RUNPATH the stronger, and hold for what libraries need in turn
		if len(o.runpath) > 0 {
			add(&before, o.runpath, o, "RUNPATH of "+s.shown(o.path))
		} else {
			add(&before, o.rpath, o, "RPATH of "+s.shown(o.path))
		}
	}
	if !by.noDef {
		add(&after, s.sys.dirs, s.main, "default directory")
	}
	return before, after
}

// expand replaces $ORIGIN, $LIB and $PLATFORM. $LIB has one value on Debian and another on Fedora: both are tried.
func (s *search) expand(dir string, of *object) []string {
	if !strings.Contains(dir, "$") {
		return []string{dir}
	}
	arch := triple(s.main.machine)
	cpu, _, _ := strings.Cut(arch, "-")
	file := s.abs(of.path)
	if of == s.main { // the kernel names a program without links, a library's directory is the one in which it was found (elf/dl-object.c)
		file = s.h.Real(file)
	}
	origin := file[:max(1, strings.LastIndexByte(file, '/'))]
	dir = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin, "${PLATFORM}", cpu, "$PLATFORM", cpu, "${LIB}", "$LIB").Replace(dir)
	if !strings.Contains(dir, "$LIB") {
		return []string{dir}
	}
	var out []string
	for _, lib := range []string{"lib/" + arch, "lib64", "lib"} {
		out = append(out, strings.ReplaceAll(dir, "$LIB", lib))
	}
	return out
}
