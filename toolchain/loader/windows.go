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
	return cmp.Or(map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "x64", pe.IMAGE_FILE_MACHINE_ARM64: "ARM64"}[m], fmt.Sprintf("machine 0x%x", m))
}

// parseImage reads the imports of a PE file. debug/pe is not made for hostile files: its panics are errors here.
func parseImage(path string, r io.ReaderAt) (im *module, err error) {
	defer func() {
		if p := recover(); p != nil {
			im, err = nil, notPE(path, fmt.Errorf("%v", p))
		}
	}()
	var magic [2]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(magic[:]) != "MZ" {
		return nil, notPE(path, errors.New("it does not begin as one"))
	}
	f, err := pefile.NewFile(r)
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
	machine uint16
	windows string // %SystemRoot%
	places  []place
}

// wants are the DLLs that a module imports; delayed: those that the module is loaded for only then.
func (m *module) wants(delayed bool) (out []want) {
	for _, name := range m.imports.Needed {
		out = append(out, want{name, m.path, delayed})
	}
	for _, name := range m.imports.Delayed {
		out = append(out, want{name, m.path, true})
	}
	return out
}

func newWinSearch(h buildenv.Host, main *module, added []string) *winSearch {
	s := &winSearch{h: h, machine: main.machine, windows: cmp.Or(h.Env.Get("SystemRoot"), h.Env.Get("windir"), `C:\Windows`)}
	s.places = []place{{h.Dir(h.Abs(main.path)), "the program's directory"}, {h.Join(s.windows, "System32"), "the system directory"},
		{s.windows, "the Windows directory"}, {h.Cwd, "the current directory"}}
	for _, d := range h.SplitList(h.Env.Get("PATH")) {
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
			out[j].Delayed = out[j].Delayed && n.delayed // somebody may need it at once
			continue
		}
		at[key] = len(out)
		im, l := s.find(n)
		out = append(out, l)
		if im != nil && !s.h.Below(im.path, s.windows) {
			queue = append(queue, im.wants(n.delayed)...)
		}
	}
	for i, l := range out {
		if l.Kind == Missing && l.Delayed {
			out[i].Problem += "; it is loaded at the first call only: the program starts, and stops there (0xc06d007e)"
		}
	}
	return out
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
	if file := s.h.Abs(name); strings.ContainsAny(name, `\/`) && s.h.IsFile(file) {
		return s.take(l, file, "named by its path")
	}
	for _, p := range s.places {
		if file := s.h.Join(p.dir, name); !strings.ContainsAny(name, `\/`) && s.h.IsFile(file) {
			return s.take(l, file, p.origin)
		}
	}
	l.Kind, l.Problem = Missing, "not found"
	return nil, l
}

// take looks at the first file of a name, which is the one that is loaded: one for another machine stops the program (0xc000007b).
func (s *winSearch) take(l Library, file, origin string) (*module, Library) {
	l.Path, l.Origin = file, origin
	im, err := openImage(s.h, file)
	switch {
	case err != nil:
		l.Kind, l.Problem = Broken, err.Error()
		return nil, l
	case im.machine != s.machine:
		l.Kind, l.Problem = Broken, fmt.Sprintf("%s is for %s, the program for %s (0xc000007b)", file, machineName(im.machine),
			machineName(s.machine))
		return nil, l
	case IsStubDir(s.h, s.h.Dir(file)):
		l.Kind, l.Problem = Stub, "a link stub (in "+s.h.Dir(file)+"): every call of it fails"
	case origin == originAdded: // these come last
		l.Kind, l.Problem = Added, onlyIn(s.h, file, "PATH")
	}
	return im, l
}

func openImage(h buildenv.Host, path string) (*module, error) {
	r, err := openAt(h, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return parseImage(path, r)
}

// resolveWindows is Resolve for a PE file; names nil means its own imports.
func resolveWindows(h buildenv.Host, path string, names, dirs []string) ([]Library, error) {
	main, err := openImage(h, path)
	if err != nil {
		return nil, err
	}
	var queue []want
	if names == nil {
		queue = main.wants(false)
	}
	for _, n := range names {
		queue = append(queue, want{n, main.path, false})
	}
	if main.machine == pe.IMAGE_FILE_MACHINE_I386 { // it sees other directories, and no CUDA since 10 is for it
		names = nil
		for _, w := range queue {
			names = append(names, w.name)
		}
		return unknown(path, names, "a 32-bit program"), nil
	}
	return newWinSearch(h, main, dirs).run(queue), nil
}

// IsStubDir reports whether a directory is one of link stubs, which must never be on a run path (huggingface/candle issues 2449, 2175).
func IsStubDir(h buildenv.Host, dir string) bool {
	return strings.EqualFold(h.Base(dir), "stubs")
}

// RunDirs returns the directories of the DLLs of toolkits on Windows: each of places is such a directory, or a root that has some. Stubs are
// never among them, nor one directory twice.
func RunDirs(h buildenv.Host, places ...string) (out []string) {
	seen := map[string]bool{}
	for _, p := range places {
		for _, b := range []string{"bin/x64", "bin/x86_64", "bin", ""} {
			dir := h.Join(p, b)
			real := h.Real(dir)
			isDLL := func(name string) bool { return strings.EqualFold(h.Ext(name), ".dll") }
			if h.IsAbs(p) && !seen[real] && !IsStubDir(h, dir) && !IsStubDir(h, real) && slices.ContainsFunc(h.Names(dir), isDLL) {
				seen[real] = true
				out = append(out, dir)
			}
		}
	}
	return out
}
