package loader

import (
	"cmp"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/pefile"
)

// module is what matters of one PE file.
type module struct {
	path    string
	machine uint16
	imports pefile.Imports
}

func machineName(m uint16) string {
	switch m {
	case pe.IMAGE_FILE_MACHINE_AMD64:
		return "x64"
	case pe.IMAGE_FILE_MACHINE_ARM64:
		return "ARM64"
	case pe.IMAGE_FILE_MACHINE_I386:
		return "x86, 32 bit"
	}
	return fmt.Sprintf("machine 0x%x", m)
}

// parseImage reads the imports of a PE file. debug/pe is not made for hostile files: its panics are errors here.
func parseImage(path string, r io.ReaderAt) (im *module, err error) {
	defer func() {
		if p := recover(); p != nil {
			im, err = nil, notPE(path, fmt.Errorf("%v", p))
		}
	}()
	var magic [8]byte
	n, err := r.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(magic[:min(n, 2)]) != "MZ" {
		what := cmp.Or(other(magic[:n]), "a Linux program or library (ELF)")
		return nil, notPE(path, errors.New("it is "+what))
	}
	f, err := pe.NewFile(r)
	if err != nil {
		return nil, notPE(path, err)
	}
	for _, part := range f.Sections {
		if part.Offset != 0 && !reaches(r, uint64(part.Offset), uint64(part.Size)) { // 0: memory that is zero at the start, as .bss
			return nil, notPE(path, fmt.Errorf("it is cut off: %s ends behind the end of the file", part.Name))
		}
	}
	imports, err := pefile.ReadImports(f)
	if err != nil {
		return nil, notPE(path, err)
	}
	return &module{path, f.Machine, imports}, nil
}

// notPE says that a file is no Windows program or DLL that can be read.
func notPE(path string, err error) error {
	return exit.Errorf(0, `build it again; name the program that cargo built, such as target\release\app.exe`,
		"%s: not a Windows program or DLL that can be read: %w", path, err)
}

// maxObjects bounds one resolution; the largest real programs load a few hundred.
const maxObjects = 4096

// place is a directory and why it is searched.
type place struct{ dir, origin string }

const originSet = "Windows itself (API set)"

// winSearch is one resolution by the rules of LoadLibrary for a desktop program.
// Source: "Dynamic-link library search order", Microsoft Learn.
type winSearch struct {
	h       buildenv.Host
	main    *module
	system  string          // the system directory of the program's own architecture
	windows string          // %SystemRoot%
	known   map[string]bool // KnownDLLs, lower case
	places  []place

	opened map[string]*module // by path, lower case
	errs   map[string]error
}

const sessionManager = `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager`

func newWinSearch(h buildenv.Host, main *module, added []string) *winSearch {
	s := &winSearch{h: h, main: main, known: map[string]bool{}, opened: map[string]*module{}, errs: map[string]error{}}
	s.windows = `C:\Windows`
	for _, name := range []string{"SystemRoot", "windir"} {
		if v, ok := h.Env.Lookup(name); ok && h.IsAbs(v) {
			s.windows = v
			break
		}
	}
	s.system = h.Join(s.windows, "System32")
	if main.machine == pe.IMAGE_FILE_MACHINE_I386 && h.IsDir(h.Join(s.windows, "SysWOW64")) {
		s.system = h.Join(s.windows, "SysWOW64") // what a 32-bit program sees as System32
	}
	if h.Registry != nil {
		names, _ := h.Registry.Values(sessionManager+`\KnownDLLs`, 64) // unreadable: the system directory is searched early anyway
		for _, n := range names {
			if dll, err := h.Registry.String(sessionManager+`\KnownDLLs`, n, 64); err == nil {
				s.known[strings.ToLower(dll)] = true
			}
		}
	}
	cwd := place{h.Cwd, "the current directory"}
	s.places = append(s.places, place{h.Dir(h.Abs(main.path)), "the program's directory"})
	safe := true
	if h.Registry != nil {
		if v, err := h.Registry.String(sessionManager, "SafeDllSearchMode", 64); err == nil && v == "0" {
			safe = false
		}
	}
	if !safe {
		s.places = append(s.places, cwd)
	}
	s.places = append(
		s.places,
		place{s.system, "the system directory"},
		place{h.Join(s.windows, "System"), "the 16-bit system directory"},
		place{s.windows, "the Windows directory"},
	)
	if safe {
		s.places = append(s.places, cwd)
	}
	path, _ := h.Env.Lookup("PATH")
	for _, d := range h.SplitList(path) {
		s.places = append(s.places, place{h.Abs(d), "PATH"})
	}
	for _, d := range added {
		s.places = append(s.places, place{h.Abs(d), originAdded})
	}
	return s
}

// want is a DLL that somebody imports.
type want struct {
	name    string
	by      string
	delayed bool // through delay-load imports on the whole way from the program, or on its last step
}

// run resolves what the program needs, and what those DLLs need. Windows' own
// are not followed: they are complete, or Windows would not run.
func (s *winSearch) run(queue []want) []Library {
	at := map[string]int{} // index in out, by lower-case name
	var out []Library
	for i := 0; i < len(queue) && len(out) < maxObjects; i++ {
		n := queue[i]
		key := strings.ToLower(n.name)
		if j, ok := at[key]; ok {
			if out[j].Delayed && !n.delayed {
				out[j].Delayed = false // somebody needs it at once
				s.word(&out[j])
			}
			continue
		}
		at[key] = len(out)
		im, l := s.find(n)
		s.word(&l)
		out = append(out, l)
		if im == nil || s.h.Below(im.path, s.windows) {
			continue
		}
		for _, name := range im.imports.Needed {
			queue = append(queue, want{name, im.path, n.delayed})
		}
		for _, name := range im.imports.Delayed {
			queue = append(queue, want{name, im.path, true})
		}
	}
	return out
}

// word says what a missing DLL means.
func (s *winSearch) word(l *Library) {
	if l.Kind != Missing {
		return
	}
	l.Problem = "not found"
	if l.Delayed {
		l.Problem += "; it is loaded at the first call only: the program starts, and stops there (0xc06d007e)"
	}
}

func (s *winSearch) find(n want) (*module, Library) {
	l := Library{Name: n.name, By: n.by, Delayed: n.delayed}
	name := n.name
	if !strings.Contains(s.h.Base(name), ".") {
		name += ".dll"
	}
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "api-ms-win-") || strings.HasPrefix(lower, "ext-ms-") {
		// The name of a set of functions: Windows maps it, and reports a missing one itself. Source: "Windows API sets", Microsoft Learn.
		l.Origin = originSet
		return nil, l
	}
	if strings.ContainsAny(name, `\/`) {
		im := s.take(&l, s.h.Abs(name), "named by its path")
		if im == nil && l.Kind == OK {
			l.Kind = Missing
		}
		return im, l
	}
	if s.known[lower] {
		if im := s.take(&l, s.h.Join(s.system, name), "the system directory (KnownDLLs)"); im != nil || l.Kind != OK {
			return im, l
		}
	}
	for _, p := range s.places {
		if im := s.take(&l, s.h.Join(p.dir, name), p.origin); im != nil || l.Kind != OK {
			return im, l
		}
	}
	l.Kind = Missing
	return nil, l
}

// take looks at one candidate. The first file of the name is the one that is
// loaded: one for another machine stops the program (0xc000007b).
func (s *winSearch) take(l *Library, file, origin string) *module {
	key := strings.ToLower(file)
	im, looked := s.opened[key]
	if !looked {
		if !s.h.IsFile(file) {
			s.opened[key] = nil
			return nil
		}
		var err error
		if im, err = openImage(s.h, file); err != nil {
			s.errs[key] = err
		}
		s.opened[key] = im
	}
	if err := s.errs[key]; err != nil {
		l.Path, l.Origin, l.Kind, l.Problem = file, origin, Broken, err.Error()
		return nil
	}
	if im == nil {
		return nil
	}
	l.Path, l.Origin = file, origin
	if im.machine != s.main.machine {
		l.Kind, l.Problem = Broken, fmt.Sprintf(
			"%s is for %s, the program for %s (0xc000007b)",
			file, machineName(im.machine), machineName(s.main.machine),
		)
		return nil
	}
	if IsStubDir(s.h, s.h.Dir(file)) {
		l.Kind, l.Problem = Stub, "a link stub (in "+s.h.Dir(file)+"): every call of it fails"
	}
	return im
}

func openImage(h buildenv.Host, path string) (*module, error) {
	r, done, err := readerAt(h, path)
	if err != nil {
		return nil, err
	}
	defer done()
	return parseImage(path, r)
}

// isPE says whether a file begins like a Windows program, on Windows. Elsewhere no loader can be asked for one: it goes on to be refused
// as no ELF file.
func isPE(h buildenv.Host, path string) (bool, error) {
	if h.OS != buildenv.Windows {
		return false, nil
	}
	r, done, err := readerAt(h, path)
	if err != nil {
		return false, err
	}
	defer done()
	var magic [2]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(magic[:]) == "MZ", nil
}

// resolveWindows is Resolve for a PE file; names nil means its own imports.
func resolveWindows(h buildenv.Host, path string, names, dirs []string) ([]Library, error) {
	main, err := openImage(h, path)
	if err != nil {
		return nil, err
	}
	var queue []want
	if names == nil {
		for _, n := range main.imports.Needed {
			queue = append(queue, want{n, main.path, false})
		}
		for _, n := range main.imports.Delayed {
			queue = append(queue, want{n, main.path, true})
		}
	}
	for _, n := range names {
		queue = append(queue, want{n, main.path, false})
	}
	bare := newWinSearch(h, main, nil).run(slices.Clone(queue))
	if len(dirs) == 0 {
		return bare, nil
	}
	libs := newWinSearch(h, main, dirs).run(queue)
	for i, l := range libs {
		at := slices.IndexFunc(bare, func(b Library) bool { return b.Name == l.Name })
		if l.Kind == OK && l.Origin == originAdded && (at < 0 || bare[at].Kind == Missing) {
			libs[i].Kind, libs[i].Problem = Added, onlyIn(h, l.Path, "PATH")
		}
	}
	return libs, nil
}
