package loader

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// systemLoaders are the paths at which systems have their loaders: glibc's, then musl's. Source: the processors' ABI supplements, and
// musl's ldso names.
var systemLoaders = map[elf.Machine][]string{
	elf.EM_X86_64:  {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"},
	elf.EM_AARCH64: {"/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"},
}

// systemLoader is the loader to be asked for a program or library, or why there is none. A file's own PT_INTERP is never started: it is a
// name in a file that anybody can write.
func systemLoader(h buildenv.Host, o *object) (path, why string) {
	here := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[h.Arch]
	if h.OS != buildenv.Linux || o.machine != here {
		return "", "the loader was not asked: it is for another machine (" + o.kind() + ")"
	}
	if o.audited {
		return "", "the loader was not asked: it would run an audit library that the file names"
	}
	for _, l := range systemLoaders[o.machine] {
		if o.interp == l || h.IsFile(l) && (o.interp == "" || h.Real(o.interp) == h.Real(l)) {
			return l, ""
		}
	}
	return "", "the loader was not asked: it has a loader of its own (" + cmp.Or(o.interp, "none of the system's is here") + ")"
}

var errSilent = errors.New("the loader gave no list")

// What loaders print. Source: glibc's elf/rtld.c, elf/dl-version.c and elf/dl-load.c, musl's ldso/dynlink.c.
var (
	loadedLine   = lazyregexp.New(`^\t(\S.*?)(?: => (.*?))?(?: \(0x[0-9a-f]+\))?$`) // without "=>": named by its path
	notPreloaded = lazyregexp.New(`object '(.+)' from LD_PRELOAD cannot be preloaded(?: \((.*)\))?`)
	lacksVersion = lazyregexp.New(`^[^:]+: (.+): (version .* not found \(required by .*\))$`)
	cannotLoad   = lazyregexp.New(`(?:error while loading shared libraries:|Error loading shared library) (.+?): (.+)`)
)

// noSuchFile matches what a loader says of a library that is not there. Where only files for another processor are, glibc says the same.
var noSuchFile = lazyregexp.New(`^$|cannot open shared object file|No such file`)

// trace asks the loader what it would load, as ldd(1) does: it runs nothing of the program. names nil asks for what the program needs.
func trace(ctx context.Context, h buildenv.Host, r buildenv.Runner, loader string, o *object, names, dirs []string) ([]Library, error) {
	c, loose := question(h, loader, o, names, dirs)
	res, err := r.Run(ctx, c)
	if _, exited := errors.AsType[*buildenv.ExitError](err); err != nil && !exited {
		return nil, cmp.Or(ctx.Err(), errSilent)
	}
	var libs []Library
	for line := range strings.Lines(string(res.Stdout)) {
		m := loadedLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case m == nil, m[1] == "linux-vdso.so.1", m[1] == "statically linked", m[2] == "" && h.Base(m[1]) == h.Base(loader):
		case m[2] == "not found":
			libs = append(libs, Library{Name: m[1], Kind: Missing, Problem: "not found"})
		default:
			libs = append(libs, Library{Name: m[1], Path: shown(h, cmp.Or(m[2], m[1]))})
		}
	}
	failed := func(name, problem string) {
		l := Library{Name: h.Base(name), Kind: Missing, Problem: "not found"}
		if !noSuchFile.MatchString(problem) {
			l.Kind, l.Problem = Broken, problem
			if strings.Contains(name, "/") {
				l.Path = shown(h, name)
			}
		}
		libs = append(libs, l)
	}
	for line := range strings.SplitSeq(string(res.Stderr), "\n") {
		if m := notPreloaded.FindStringSubmatch(line); m != nil {
			failed(m[1], m[2])
		} else if m := cannotLoad.FindStringSubmatch(line); m != nil {
			failed(m[1], m[2])
		} else if m := lacksVersion.FindStringSubmatch(line); m != nil {
			for i, l := range libs {
				if l.Path == shown(h, m[1]) {
					libs[i].Kind, libs[i].Problem = Broken, m[2]
				}
			}
		}
	}
	if len(libs) == 0 && names == nil { // it crashes on a library that is cut off
		return nil, fmt.Errorf("%w (it ended with %s)", errSilent, cmp.Or(res.Signal, fmt.Sprint(res.Code)))
	}
	if names != nil {
		libs = slices.DeleteFunc(libs, func(l Library) bool { return !slices.Contains(loose, l.Name) })
		for _, n := range names {
			switch isMusl := strings.Contains(loader, "ld-musl-"); { // which says nothing of what it cannot preload
			case strings.Contains(n, "/") && h.IsFile(h.Abs(n)):
				libs = append(libs, Library{Name: n, Path: h.Abs(n)})
			case strings.Contains(n, "/"), isMusl && !slices.ContainsFunc(libs, func(l Library) bool { return l.Name == n }):
				libs = append(libs, Library{Name: n, Kind: Missing, Problem: "not found"})
			}
		}
	}
	by := map[string]string{}
	need := func(names []string, file string) {
		for _, n := range names {
			by[n] = cmp.Or(by[n], file)
		}
	}
	need(slices.Concat(names, o.needed), o.path)
	for i, l := range libs {
		if inner, err := open(h, l.Path); err == nil {
			need(inner.needed, l.Path)
		}
		if why := stubProblem(h, l.Path); why != "" && l.Kind == OK {
			libs[i].Kind, libs[i].Problem = Stub, why
		}
	}
	for i, l := range libs {
		libs[i].By = cmp.Or(by[l.Name], o.path)
	}
	if names != nil { // in their order
		slices.SortStableFunc(libs, func(a, b Library) int { return cmp.Compare(slices.Index(names, a.Name), slices.Index(names, b.Name)) })
	}
	return libs, nil
}

// question is the command that makes a loader print its list, and those of the names that it searches for.
func question(h buildenv.Host, loader string, o *object, names, dirs []string) (c buildenv.Cmd, loose []string) {
	c = buildenv.Cmd{Path: loader, Args: []string{h.Abs(o.asked)}, Dir: h.Cwd, Timeout: 20 * time.Second}
	if strings.Contains(loader, "ld-musl-") {
		c.Args = []string{"--list", h.Abs(o.asked)}
	}
	for _, e := range h.Env.Entries() {
		if !strings.HasPrefix(e, "LD_") {
			c.Env = append(c.Env, e)
		}
	}
	// Not --list: glibc's stops at the first library that it does not find. Not --preload: that came with glibc 2.30.
	c.Env = append(c.Env, "LC_ALL=C", "LD_TRACE_LOADED_OBJECTS=1")
	if set := h.Env.Get(libraryPath); set != "" {
		dirs = append([]string{set}, dirs...)
	}
	if len(dirs) > 0 {
		c.Env = append(c.Env, libraryPath+"="+strings.Join(dirs, ":"))
	}
	for _, n := range names {
		if !strings.Contains(n, "/") {
			loose = append(loose, n)
		}
	}
	if len(loose) > 0 {
		c.Env = append(c.Env, "LD_PRELOAD="+strings.Join(loose, ":"))
	}
	return c, loose
}

// shown is a path as a person reads it, where that is the same file: behind a link "lib64/../lib" is another directory than "lib".
func shown(h buildenv.Host, file string) string {
	if !h.IsAbs(file) {
		file = h.Cwd + "/" + file
	}
	if clean := h.Clean(file); h.Real(clean) == h.Real(file) {
		return clean
	}
	return file
}
