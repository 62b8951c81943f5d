// Package bundle puts a program and the libraries that it loads into one directory that starts on a machine without CUDA.
//
// It copies what the loader would load here, except the C library and the driver's, which every machine must have itself, and of NVIDIA's
// libraries only those that its licences let you ship (libraries.toml). It changes nothing that it copies but the program's search path.
// A library of NVIDIA's that a file loads by name is found by that name or by a function that its users look up.
// Limits: a name that the program makes itself (a library other than NVIDIA's, UTF-16 on Windows) is not seen; --with adds the library.
package bundle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/otiai10/copy"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/loader"
)

// Schema names the form of the manifest.
const Schema = "gpubuild/bundle-manifest/1"

// manifestName is the manifest's file in a bundle, of which maxManifest bytes are read.
const (
	manifestName = "gpubuild-bundle.json"
	maxManifest  = 16 << 20
	maxLicence   = 4 << 20
)

// Options say what is bundled and where to.
type Options struct {
	Program string        // as the user named it
	Dir     string        // the new directory
	With    []string      // further libraries by file name, which the program loads by a name that it makes itself
	Without []string      // libraries by file name that the other machine has itself
	Toolkit *cuda.Toolkit // the one that a build would take, whose libraries come first; nil: none in particular
	DryRun  bool          // nothing is written
	Own     bool          // for a machine of the user's own: no licence is asked for, and what is missing is left to that machine
}

// File is one file of a bundle.
type File struct {
	Name    string `json:"name"`                   // in the bundle, with slashes: lib/libcublas.so.13
	From    string `json:"from,omitempty"`         // the file that was copied; not in the manifest, and empty of what gpubuild wrote itself
	By      string `json:"by,omitempty"`           // the file that loads it; empty for the program
	ByName  bool   `json:"by_name,omitempty"`      // while it runs: By does not link it
	Link    string `json:"link,omitempty"`         // a symbolic link to it in the bundle: lib/libcublas.so, which cudarc asks for
	Licence string `json:"licence,omitempty"`      // that lets it be shipped; empty where gpubuild knows none: it is not NVIDIA's
	Text    string `json:"licence_text,omitempty"` // the file of the bundle that has that licence's text
	Size    int64  `json:"size"`                   // bytes
	SHA256  string `json:"sha256,omitempty"`       // as it is in the bundle; empty of a dry run
}

// Need is what the other machine must have itself.
type Need struct {
	Name string `json:"name"` // a library's, or the path of a program
	Why  string `json:"why"`
}

// manifest is the file in a bundle that lists its content.
type manifest struct {
	Schema string `json:"schema"`
	Bundle
}

// Bundle is what was made.
type Bundle struct {
	Version  string   `json:"gpubuild"`
	Start    string   `json:"start"`              // what to start, in the bundle
	Launcher bool     `json:"launcher,omitempty"` // Start is a script that sets LD_LIBRARY_PATH: there was no patchelf
	Files    []File   `json:"files"`
	Needs    []Need   `json:"needs"`
	Glibc    string   `json:"glibc,omitempty"` // the oldest version of the C library with which all files load
	Licences []string `json:"licences"`        // files of licence texts, in the bundle
}

// Size is what the files take, in bytes.
func (b Bundle) Size() (n int64) {
	for _, f := range b.Files {
		n += f.Size
	}
	return n
}

// libraryError is a library that keeps the bundle from being made: exit.Missing for one that is not here, exit.Misfit for one that cannot
// be shipped.
func libraryError(code int, library, by, why, fix string) error {
	return exit.Errorf(code, fix, "%s, which %s loads, %s", library, by, why)
}

// Make makes a bundle, whole or not at all.
func Make(ctx context.Context, m *session.Machine, o Options) (Bundle, error) {
	if m.Host.OS != buildenv.Linux && m.Host.OS != buildenv.Windows {
		return Bundle{}, &exit.UsageError{What: "bundle works on Linux and Windows", Fix: "run it on the system that the program is for"}
	}
	c, program, err := newCollector(m, o)
	if err != nil {
		return Bundle{}, err
	}
	b, err := c.collect(program)
	if err != nil {
		return b, err
	}
	dir, err := behindLinks(m.Host.Abs(o.Dir))
	if err != nil {
		return b, err
	}
	if err := mayReplace(m.Host, dir); err != nil {
		return b, err
	}
	parent := filepath.Dir(dir)
	for _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != filepath.Dir(parent); _, err = os.Stat(parent) {
		parent = filepath.Dir(parent) // those below it are made in the end
	}
	if o.DryRun {
		parent = "" // the system's for temporary files, to try the program in
	}
	made, remove, err := m.Temp.MkdirTemp(parent, ".gpubuild-bundle-")
	if err != nil {
		return b, err
	}
	defer remove() // its own directory, and nothing but copies in it
	if err := b.write(ctx, m, made, o.DryRun); err != nil {
		return b, fmt.Errorf("the bundle %s is not made: %w", o.Dir, err)
	}
	if o.DryRun {
		return b, nil
	}
	if err := b.check(m, made, o.Without); err != nil {
		return b, err
	}
	if err := mayReplace(m.Host, dir); err != nil { // copying takes long enough to put something there
		return b, err
	}
	return b, replace(dir, made)
}

// Libraries lists what a bundle of a program would have, without making one.
func Libraries(m *session.Machine, o Options) (Bundle, error) {
	c, program, err := newCollector(m, o)
	if err != nil {
		return Bundle{}, err
	}
	return c.collect(program)
}

func newCollector(m *session.Machine, o Options) (*collector, string, error) {
	named := map[string]bool{}
	for _, name := range slices.Concat(o.With, o.Without) {
		base := m.Host.Base(name)
		twice := named[base]
		if named[base] = true; name == "" || twice {
			what := fmt.Sprintf("--with and --without: the name %q is empty or given twice", name)
			return nil, "", &exit.UsageError{What: what, Fix: "name one as --dry-run lists it"}
		}
	}
	program := proof.LookPath(m.Host, o.Program)
	c := &collector{m: m, o: o, table: known(), toolkits: proof.Toolkits(m, o.Toolkit), seen: map[string]bool{}}
	c.dirs = proof.LibraryDirs(m, c.toolkits)
	return c, program, nil
}

// collector finds what belongs into a bundle.
type collector struct {
	m        *session.Machine
	o        Options
	table    table
	toolkits []cuda.Toolkit
	dirs     []string
	seen     map[string]bool
	unread   []string // files of the bundle in which the names of libraries are yet to be looked for
	b        Bundle
}

// want is a library that a file loads: it links it, or loads it by name while it runs.
type want struct {
	loader.Library
	byName bool
}

// wants marks those of names as loaded by name; others they link.
func wants(libs []loader.Library, names []string) (out []want) {
	for _, l := range libs {
		out = append(out, want{l, slices.Contains(names, l.Name)})
	}
	return out
}

func (c *collector) collect(program string) (Bundle, error) {
	info, err := os.Stat(program)
	if err != nil || !info.Mode().IsRegular() {
		problem := program + " is not a file"
		if err != nil {
			problem = err.Error()
		}
		return c.b, &exit.UsageError{What: problem, Fix: "build the program first, and name it: gpubuild bundle target/release/app"}
	}
	name := filepath.Base(program)
	if slices.Contains([]string{"lib", "bin", "licenses", manifestName}, name) {
		return c.b, &exit.UsageError{What: "a bundle has a " + name + " of its own next to the program", Fix: "rename the program"}
	}
	if err := c.mayShip(program); err != nil && !c.o.Own {
		return c.b, err
	}
	c.b = Bundle{Version: version.Number(), Start: name, Needs: []Need{}, Licences: []string{}}
	c.b.Files = []File{{Name: name, From: program, Size: info.Size()}}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		c.m.Shell.Note("the copy of %s is neither setuid nor setgid: for such a program the loader takes no library from a bundle", name)
	}
	libs, err := loader.Resolve(c.m.Host, program, c.dirs)
	if err != nil {
		return c.b, err
	}
	opened, err := loader.Open(c.m.Host, program, c.o.With, c.dirs)
	if err != nil {
		return c.b, err
	}
	c.unread = []string{program}
	byName := slices.DeleteFunc(slices.Clone(c.o.With), func(name string) bool {
		return slices.ContainsFunc(libs, func(l loader.Library) bool { return l.Name == c.m.Host.Base(name) })
	})
	// What --with names comes first: a file that the user names is the one to take, also for what the program links.
	for queue := append(wants(opened, byName), wants(libs, nil)...); len(queue) > 0 || len(c.unread) > 0; {
		var more []want
		if len(queue) > 0 {
			more, err = c.add(queue[0])
			queue = queue[1:]
		} else { // whatever is linked is known now
			more, err = c.named(c.unread[0])
			c.unread = c.unread[1:]
		}
		if err != nil {
			return c.b, err
		}
		queue = append(queue, more...)
	}
	c.leaveOutCompilers()
	c.link()
	if c.b.Glibc, err = c.b.versions(); err != nil {
		return c.b, err
	}
	if err := c.drivers(); err != nil {
		return c.b, err
	}
	for _, name := range c.o.Without {
		if !c.seen[name] {
			return c.b, &exit.UsageError{
				What: "--without " + name + ": no library of that name is loaded", Fix: "name one as --dry-run lists it",
			}
		}
	}
	return c.b, nil
}

// leaveOutCompilers leaves out the libraries of the compiler where they would need a newer C library than everything else: systems have them,
// and a program that was built for an old system must keep running there.
func (c *collector) leaveOutCompilers() {
	rest, theirs := "", map[string]string{}
	for _, f := range c.b.Files {
		needs := Needs(f.From)
		if name := filepath.Base(f.Name); name == "libgcc_s.so.1" || name == "libstdc++.so.6" {
			theirs[f.Name] = needs
		} else if Older(rest, needs) {
			rest = needs
		}
	}
	c.b.Files = slices.DeleteFunc(c.b.Files, func(f File) bool {
		needs, is := theirs[f.Name]
		out := is && Older(rest, needs) && !slices.Contains(c.o.With, filepath.Base(f.Name))
		if out {
			c.need(filepath.Base(f.Name), fmt.Sprintf("the one here needs glibc %s, the program only %s", needs, cmp.Or(rest, "any")))
		}
		return out
	})
}

// mayShip refuses a program that is none, and NVIDIA's, which are on no list.
func (c *collector) mayShip(program string) error {
	h, real := c.m.Host, c.m.Host.Real(program)
	theirs, err := find(program, nvidiaProgram)
	switch {
	case err != nil:
		return &exit.UsageError{What: err.Error(), Fix: "name a file that you may read"}
	case isLibrary(program):
		what := program + " is a shared library, which cannot be started"
		return &exit.UsageError{What: what, Fix: "name the program that loads it: gpubuild bundle target/release/app"}
	case theirs != "" && !isGpubuild(program) || inToolkit(h, program) || inToolkit(h, real):
		return exit.Errorf(exit.Misfit, "install the CUDA toolkit there", "%s %s", program, notShipped)
	}
	return nil
}

const notShipped = "may not be shipped: it is NVIDIA's and in none of the lists that its licences give"

// drivers adds the driver's library where a file loads it by name, as the CUDA runtime does.
func (c *collector) drivers() error {
	windows := c.m.Host.OS == buildenv.Windows
	name := map[bool]string{false: "libcuda.so.1", true: "nvcuda.dll"}[windows]
	for _, f := range c.b.Files {
		if c.seen[name] {
			return nil
		}
		found, err := find(f.From, driverName[windows])
		if err != nil {
			return err
		}
		if found != "" {
			c.seen[name] = true
			c.need(name, driversOwn)
		}
	}
	return nil
}

const driversOwn = "comes with NVIDIA's driver"

// add takes one library in, and answers what it loads by name itself.
func (c *collector) add(l want) ([]want, error) {
	h := c.m.Host
	if c.seen[l.Name] {
		return nil, nil
	}
	c.seen[l.Name], c.seen[h.Base(l.Name)] = true, true
	name, by := nameOf(h.Base(l.Name)), h.Base(l.By)
	fail := func(code int, why, fix string) error { return libraryError(code, h.Base(l.Name), by, why, fix) }
	switch {
	case system(h, h.Base(l.Name), l.Path):
		return nil, nil
	case driver(name):
		c.need(l.Name, driversOwn)
		return nil, nil
	case graphics(name):
		c.need(l.Name, "belongs to the graphics of the system")
		return nil, nil
	case slices.Contains(c.o.Without, h.Base(l.Name)):
		c.need(l.Name, "left out by --without")
		return nil, nil
	case c.o.Own && (l.Kind == loader.Stub || l.Kind == loader.Missing || l.Kind == loader.Broken || h.Base(l.Name) != l.Name):
		c.need(l.Name, "not found here: "+l.Problem)
		return nil, nil
	case l.Kind == loader.Stub:
		return nil, fail(exit.Missing, "is a link stub here ("+l.Path+"): every call of it fails", "gpubuild toolchain install --parts run")
	case l.Kind == loader.Missing || l.Kind == loader.Broken:
		remedy := strings.TrimPrefix(proof.Remedy(l.Name, c.toolkits), "; ")
		return nil, fail(exit.Missing, "cannot be bundled: "+l.Problem,
			cmp.Or(remedy, "install it")+", or leave it to the other machine: --without "+l.Name)
	}
	if base := h.Base(l.Name); base != l.Name && !slices.Contains(c.o.With, l.Name) {
		return nil, fail(exit.Missing, "is named there by its path ("+l.Name+"), so a copy in the bundle would not be taken",
			fmt.Sprintf("link it by its name: a soname without a path, or patchelf --replace-needed %s %s %s and LD_LIBRARY_PATH=%s",
				l.Name, base, l.By, h.Dir(l.Path)))
	}
	permission, allowed := c.table.permission(name)
	from := h.Real(l.Path)
	if !allowed && !c.o.Own && (nvidia(name) || nvidia(nameOf(soname(from))) || inToolkit(h, l.Path) || inToolkit(h, from)) {
		return nil, fail(exit.Misfit, notShipped,
			"leave it to the other machine: --without "+h.Base(l.Name))
	}
	if slices.Contains(c.o.With, l.Name) && !isLibrary(from) {
		return nil, fail(exit.Misfit, "is a program and no library", "bundle it by itself: gpubuild bundle "+l.Path)
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	place := "lib/" + h.Base(l.Name)
	if h.OS == buildenv.Windows {
		place = h.Base(l.Name)
	}
	c.b.Files = append(c.b.Files, File{Name: place, From: from, By: by, ByName: l.byName, Licence: permission.Title, Size: info.Size()})
	inner, err := loader.Resolve(h, from, c.dirs)
	if err != nil {
		return nil, err
	}
	if !allowed {
		c.unread = append(c.unread, from)
	}
	files := c.files(c.table.opens(name))
	if name == "nvrtc" { // it loads the builtins of its own version only
		builtins, err := find(from, builtinsName)
		if err != nil {
			return nil, err
		}
		if builtins = strings.TrimSuffix(builtins, "\x00"); strings.Contains(builtins, ".so") {
			builtins = "lib" + builtins
		}
		if builtins != "" {
			files = []string{builtins}
		}
	}
	parts, err := loader.Open(h, from, files, append([]string{h.Dir(from)}, c.dirs...))
	return slices.Concat(wants(inner, nil), wants(parts, files), wants(c.missing(l.Library, files), nil)), err
}

// named are NVIDIA's libraries that a file loads by name, as the loader or else the toolkit has them. That the name is there is no proof,
// so the user can leave one out.
func (c *collector) named(file string) (out []want, err error) {
	h := c.m.Host
	if isGpubuild(file) {
		return nil, nil
	}
	asked, err := c.table.asked(file, h.OS == buildenv.Windows)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		is := func(file string) bool { return nameOf(h.Base(file)) == name }
		if is(file) || is(soname(file)) || slices.ContainsFunc(slices.Collect(maps.Keys(c.seen)), is) {
			continue // itself, linked, or loaded by another file already
		}
		if i := slices.IndexFunc(c.o.Without, is); i >= 0 {
			c.seen[c.o.Without[i]] = true
			c.need(c.o.Without[i], "left out by --without")
			continue
		}
		var tried, paths []string
		plain := false // it asks for the name without a version
		for _, f := range asked[name] {
			m := soName.FindStringSubmatch(f)
			switch {
			case f == "": // a function's
			case h.Base(f) != f:
				paths = append(paths, f)
			case m != nil && m[2] == "":
				plain = true
			default:
				tried = append(tried, f)
			}
		}
		if len(paths) > 0 && len(tried) == 0 && !plain && c.o.Own {
			continue // it opens that very path, there
		}
		if len(paths) > 0 && len(tried) == 0 && !plain {
			f := h.Base(paths[0])
			return nil, libraryError(exit.Missing, f, h.Base(file),
				"is named there by its path ("+paths[0]+"), so a copy in the bundle would not be taken",
				fmt.Sprintf("--without %s if the program works without it, --with %[1]s if it tries the name alone, too", f))
		}
		if h.OS == buildenv.Windows && len(tried) == 0 {
			tried = append(c.files([]string{name}), name+".dll")
		} else if plain || len(tried) == 0 { // as cudarc does: without a version, then with one
			tried = slices.Concat([]string{"lib" + name + ".so"}, tried, c.files([]string{name}))
			for n := 20; n >= 0; n-- {
				tried = append(tried, fmt.Sprintf("lib%s.so.%d", name, n))
			}
		}
		libs, err := loader.Open(h, file, tried, c.dirs)
		if err != nil {
			return nil, err
		}
		i := max(0, slices.IndexFunc(libs, func(l loader.Library) bool { return is(l.Name) && l.Kind != loader.Missing }))
		l := &libs[i]
		if m := soName.FindStringSubmatch(l.Name); l.Kind == loader.Missing {
			l.Problem += " (" + h.Base(file) + " has its name or one of its functions' in it)"
		} else if m != nil && m[2] == "" {
			l.Name = cmp.Or(soname(l.Path), l.Name)
		}
		out = append(out, want{*l, true})
	}
	return out, err
}

// link gives NVIDIA's libraries the name without a version, too: cudarc and others that load them themselves ask for that.
func (c *collector) link() {
	used := map[string]bool{}
	for _, f := range c.b.Files {
		used[f.Name] = true
	}
	for i, f := range c.b.Files {
		plain, is := strings.CutPrefix(f.Name, "lib/")
		if link := "lib/lib" + nameOf(plain) + ".so"; is && f.Licence != "" && !used[link] {
			used[link], c.b.Files[i].Link = true, link
		}
	}
}

// missing are the parts of a library that are not among the files here. It notes those without which the library works for some programs.
func (c *collector) missing(l loader.Library, files []string) (out []loader.Library) {
	file := c.m.Host.Base(l.Name)
	needed, useful := c.table.parts(file)
	var noted []string
	for i, part := range slices.Concat(needed, useful) {
		if slices.ContainsFunc(files, func(f string) bool { return nameOf(f) == part }) {
			continue
		}
		name := strings.Replace(file, nameOf(file), part, 1)
		if soName.MatchString(part) { // a file that has no version
			name = part
		}
		if i >= len(needed) && !slices.Contains(c.o.Without, name) {
			noted = append(noted, name)
			continue
		}
		problem := "not found, and " + file + " does not work without it"
		out = append(out, loader.Library{Name: name, By: l.Path, Kind: loader.Missing, Problem: problem})
	}
	if len(noted) > 0 {
		c.m.Shell.Note("not in the bundle: %s; those functions of %s that need them fail", strings.Join(noted, ", "), file)
	}
	return out
}

func (c *collector) need(library, why string) {
	c.b.Needs = append(c.b.Needs, Need{library, why})
}

// files are the file names here of libraries that are loaded by name: of each the first directory's.
func (c *collector) files(names []string) []string {
	var out []string
	found := map[string]bool{}
	dirs := c.dirs
	for _, f := range c.b.Files {
		dirs = append(dirs, c.m.Host.Dir(f.From)) // parts are in the directory of the library that loads them
	}
	for _, dir := range dirs {
		here := map[string]bool{}
		for _, file := range c.m.Host.Names(dir) {
			m, numbers := soName.FindStringSubmatch(file), 1 // a loader asks for the name with the major version
			if nameOf(file) == "nvrtc-builtins" {
				numbers = 2 // "failed to open libnvrtc-builtins.so.13.4", in libnvrtc.so.13
			}
			if c.m.Host.OS != buildenv.Windows && (m == nil || strings.Count(m[2], ".") != numbers) {
				continue
			}
			if name := nameOf(file); name != file && matches(names, name) && !found[name] {
				here[name] = true
				out = append(out, file)
			}
		}
		for name := range here {
			found[name] = true
		}
	}
	return out
}

// launcher is the same for every program, whose name it takes from its own, so that no name can be read as a part of it. It needs readlink
// only if it is started by a link, and nothing else but the shell.
const launcher = `#!/bin/sh
# Starts the program of the same name in bin with the libraries in lib. Made by gpubuild bundle.
self=$0
[ ! -h "$self" ] || self=$(readlink -f -- "$self") || exit
case $self in /*) ;; *) self=$PWD/$self ;; esac
here=${self%/*}
case $here in *[:\;]*)
	echo "$self: does not start from a directory with a colon or semicolon in its path, which LD_LIBRARY_PATH cannot hold" >&2
	exit 126 ;;
esac
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/bin/${self##*/}" "$@"
`

// write puts the bundle into a directory; a dry run only what gpubuild makes itself, whose names and sizes nobody knows before.
func (b *Bundle) write(ctx context.Context, m *session.Machine, dir string, dry bool) error {
	if err := b.writeStart(ctx, m, dir); err != nil {
		return err
	}
	for i, f := range b.Files {
		if f.Licence == "" {
			continue
		}
		text, name := licenceText(m.Host, f)
		b.Files[i].Text = "licenses/" + name
		if !slices.Contains(b.Licences, b.Files[i].Text) {
			b.Licences = append(b.Licences, b.Files[i].Text)
			if err := b.writeText(dir, b.Files[i].Text, text, 0o644); err != nil {
				return err
			}
		}
	}
	if dry {
		return nil
	}
	for i, f := range b.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if i > 0 && f.From != "" {
			if err := copyFile(f.From, to, false); err != nil {
				return err
			}
		}
		info, err := os.Stat(to)
		if err != nil {
			return err
		}
		b.Files[i].Size = info.Size()
		if b.Files[i].SHA256, err = cache.Hash(to); err != nil {
			return err
		}
		if f.Link != "" {
			if err := os.Symlink(filepath.Base(f.Name), filepath.Join(dir, filepath.FromSlash(f.Link))); err != nil {
				return err
			}
		}
	}
	kept := manifest{Schema, *b}
	kept.Files = slices.Clone(b.Files)
	for i := range kept.Files {
		kept.Files[i].From = ""
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), append(text, '\n'), 0o644)
}

// writeText adds a file that gpubuild writes itself.
func (b *Bundle) writeText(dir, name string, text []byte, mode fs.FileMode) error {
	b.Files = append(b.Files, File{Name: name, Size: int64(len(text))})
	to := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, mode)
}

// writeStart copies the program and makes it find its libraries: by patchelf, or else by a script.
func (b *Bundle) writeStart(ctx context.Context, m *session.Machine, dir string) error {
	program := filepath.Join(dir, b.Start)
	if err := copyFile(b.Files[0].From, program, true); err != nil || m.Host.OS != buildenv.Linux || len(b.Files) == 1 {
		return err
	}
	if patchelf, _ := m.Host.LookPath("patchelf"); patchelf != "" {
		why, err := b.patch(ctx, m, patchelf, program)
		if err != nil || why == "" {
			return err
		}
		m.Shell.Note("%s, so a script starts %s", why, b.Start)
	}
	b.Launcher, b.Files[0].Name = true, "bin/"+b.Start
	b.Needs = append(b.Needs, Need{"/bin/sh", "runs the script that starts the program"})
	if err := copyFile(b.Files[0].From, filepath.Join(dir, "bin", b.Start), true); err != nil { // patchelf may have changed the other one
		return err
	}
	return b.writeText(dir, b.Start, []byte(launcher), 0o755)
}

// copyFile copies a file that everybody may read, and run if it is the program or its owner may, and the owner may write.
func copyFile(from, to string, program bool) error {
	if err := copy.Copy(from, to, copy.Options{OnSymlink: func(string) copy.SymlinkAction { return copy.Deep }}); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if program || info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return os.Chmod(to, mode)
}

// patch makes the copy of the program look for libraries in its own directory, or says why a script must. RPATH is written, not RUNPATH: it
// holds for the libraries' own libraries and for what they load by name, too, and NVIDIA's files may not be changed (section 2.3 of its
// agreement).
func (b *Bundle) patch(ctx context.Context, m *session.Machine, patchelf, program string) (string, error) {
	args := []string{"--force-rpath", "--set-rpath", "$ORIGIN/lib", program}
	if _, err := m.Runner.Run(ctx, buildenv.Cmd{Path: patchelf, Args: args, Env: m.Host.Env.Entries()}); err != nil {
		return "patchelf cannot change " + b.Start, ctx.Err() // a file without section headers
	}
	before, err := dynamic(b.Files[0].From, elf.DT_NEEDED)
	if err != nil {
		return "", err
	}
	// patchelf overwrites the old search path with XXXX, and a linker may have put a name into the same bytes.
	if after, err := dynamic(program, elf.DT_NEEDED); err != nil || !slices.Equal(before, after) {
		return "patchelf would change the names of the libraries that " + b.Start + " needs", err
	}
	for _, f := range b.Files[1:] {
		// To the loader the RUNPATH of a library is in place of the program's RPATH, not in addition to it.
		paths, err := dynamic(f.From, elf.DT_RUNPATH)
		if err != nil {
			return "", err
		}
		own := slices.ContainsFunc(strings.Split(strings.Join(paths, ":"), ":"), func(p string) bool {
			p = strings.TrimSuffix(p, "/")
			return p == "$ORIGIN" || p == "${ORIGIN}"
		})
		if len(paths) > 0 && !own { // what it loads by name is not known
			return filepath.Base(f.Name) + " has a search path of its own", nil
		}
	}
	return "", nil
}

// dynamic are the texts of a tag in an ELF file's dynamic section.
func dynamic(file string, tag elf.DynTag) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.DynString(tag)
}

// soname is the name by which an ELF library is loaded; empty where it has none.
func soname(file string) string {
	if names, err := dynamic(file, elf.DT_SONAME); err == nil && len(names) > 0 {
		return names[0]
	}
	return ""
}

// licenceText looks for the text in the directories above a library: an installed toolkit has EULA.txt, one of gpubuild's and pip's have
// a License.txt for each package, and the manifest of a bundle names it.
func licenceText(h buildenv.Host, f File) ([]byte, string) {
	library := nameOf(h.Base(f.From))
	permission, _ := known().permission(library)
	stem := strings.ToLower(library)
	if i := strings.IndexAny(stem, "_-"); i > 0 {
		stem = stem[:i]
	}
	for start, part := range known().Packages {
		if strings.HasPrefix(stem, start) {
			stem = part
		}
	}
	patterns := []string{"EULA.txt", "licenses/*" + stem + "*/License.txt", "*" + stem + "*.dist-info/licenses/License.txt",
		"*" + stem + "*.dist-info/License.txt", "LICENSE.txt", "LICENSE"}
	if permission.Address == known().Licence[0].Address { // one agreement for every part of the toolkit
		patterns = append(patterns, "licenses/nvidia-cuda-*/License.txt")
	}
	text, form := []byte(permission.Title+"\n"+permission.Address+"\n"), "NVIDIA-%s-address.txt"
search:
	for dir, up := h.Dir(f.From), 0; up < 5 && dir != h.Dir(dir); dir, up = h.Dir(dir), up+1 {
		for _, g := range readManifest(h, dir).Files {
			if filepath.Join(dir, g.Name) == f.From && filepath.IsLocal(filepath.FromSlash(g.Text)) {
				patterns = []string{g.Text}
			}
		}
		for _, pattern := range patterns {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(found) == 0 {
				continue
			}
			if read, err := h.ReadFile(found[0], maxLicence); err == nil && bytes.Contains(read, []byte("NVIDIA")) {
				text, form = read, "NVIDIA-%s.txt"
				break search
			}
		}
	}
	sum := sha256.Sum256(text)
	return text, fmt.Sprintf(form, hex.EncodeToString(sum[:4]))
}

// check asks the loader what the bundle would load on a machine without CUDA: everything but the system's and the driver's from itself.
func (b Bundle) check(m *session.Machine, dir string, without []string) error {
	h := m.Host
	h.Env = h.Env.Unset("LD_LIBRARY_PATH")
	if b.Launcher {
		h.Env = h.Env.Set("LD_LIBRARY_PATH", filepath.Join(dir, "lib"))
	}
	if h.OS == buildenv.Windows {
		h.Env = h.Env.Set("PATH", h.Join(h.Env.Get("SystemRoot"), "system32"))
	}
	for _, f := range b.Files {
		if f.From == "" { // no program and no library
			continue
		}
		libs, err := loader.Resolve(h, filepath.Join(dir, filepath.FromSlash(f.Name)), nil)
		if err != nil {
			return err
		}
		for _, l := range libs {
			name := h.Base(l.Name)
			if system(h, name, l.Path) || driver(nameOf(name)) || slices.Contains(without, name) || h.Below(l.Path, dir) ||
				slices.ContainsFunc(b.Needs, func(n Need) bool { return n.Name == name }) {
				continue
			}
			if f.Name != b.Files[0].Name && b.has(name) {
				continue // found by the program's search path or by what is loaded already; alone the library does not find it
			}
			return libraryError(exit.Missing, name, h.Base(l.By), "would not be taken from the bundle but from "+cmp.Or(l.Path, "nowhere"),
				"link it without a search path of its own; for the program it is enough if patchelf is installed and can replace that")
		}
	}
	return nil
}

func (b Bundle) has(library string) bool {
	return slices.ContainsFunc(b.Files, func(f File) bool { return filepath.Base(f.Name) == library })
}

// behindLinks is the directory that the user's name for it leads to: a link of the user's stays as it is.
func behindLinks(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if _, none := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && errors.Is(none, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", elsewhere(dir + " is a link that leads to no directory: " + err.Error())
	}
	return real, nil
}

func elsewhere(what string) error {
	return &exit.UsageError{What: what, Fix: "name another directory: -o DIR"}
}

// readManifest reads a bundle's; without one it is empty.
func readManifest(h buildenv.Host, dir string) (m manifest) {
	text, err := h.ReadFile(filepath.Join(dir, manifestName), maxManifest)
	if err != nil || json.Unmarshal(text, &m) != nil || m.Schema != Schema {
		return manifest{}
	}
	return m
}

// mayReplace says whether a directory may be written: it does not exist, is empty, or holds a bundle of ours, unchanged, and nothing else.
func mayReplace(h buildenv.Host, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return elsewhere(err.Error())
	}
	old := readManifest(h, dir)
	if old.Schema == "" {
		return elsewhere(dir + " exists and is no bundle of gpubuild")
	}
	hashes, links := map[string]string{}, map[string]string{}
	for _, f := range old.Files {
		hashes[f.Name], links[f.Link] = f.SHA256, path.Base(f.Name)
	}
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, file)
		if err = errors.Join(err, relErr); err != nil || d.IsDir() {
			return err
		}
		name, ours := filepath.ToSlash(rel), false
		switch {
		case d.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(file)
			ours = to != "" && to == links[name]
		case d.Type().IsRegular() && hashes[name] != "":
			sum, err := cache.Hash(file)
			if err != nil {
				return err
			}
			ours = sum == hashes[name]
		default:
			ours = name == manifestName && d.Type().IsRegular()
		}
		if !ours {
			return elsewhere(fmt.Sprintf("%s holds %s, which is not part of the bundle there or was changed since", dir, rel))
		}
		return nil
	})
}

// replace puts a finished directory in the place of an older bundle.
func replace(dir, made string) error {
	if err := errors.Join(os.Chmod(made, 0o755), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return err
	}
	old := made + "-old"
	err := os.Rename(dir, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return os.RemoveAll(old) // mayReplace saw that it holds nothing but a bundle
}
