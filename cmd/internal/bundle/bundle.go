// Package bundle puts programs, the libraries that they load and what proves them into one directory, which starts on a machine without
// CUDA. The directory is what --on sends: bin, lib, prove, and for people a start script, the names of NVIDIA's licences and a manifest.
//
// It copies what the loader would load here, except the C library and the driver's, which every machine must have itself, and of NVIDIA's
// libraries only those that its licences let you ship (libraries.toml). It changes nothing that it copies, and writes into no directory
// that is there.
// A library of NVIDIA's that a file loads by name is found by that name or by a function that its users look up.
// Limits: a name that the program makes itself (a library other than NVIDIA's, UTF-16 on Windows) is not seen; --with adds the library.
package bundle

import (
	"cmp"
	"context"
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
	"syscall"

	"github.com/otiai10/copy"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/loader"
)

// Schema names the form of the manifest.
const Schema = "gpubuild/bundle-manifest/1"

// The manifest's file in a bundle, and that of the licences.
const (
	manifestName = "gpubuild-bundle.json"
	licenceName  = "NVIDIA-licences.txt"
)

// Options say what is bundled and where to.
type Options struct {
	Programs []string      // as the user named them
	Dir      string        // the new directory
	With     []string      // further libraries by file name, which a program loads by a name that it makes itself
	Toolkit  *cuda.Toolkit // the one that a build would take, whose libraries come first; nil: none in particular
	Own      bool          // for a machine of the user's own: no licence is asked for, and what is missing is left to that machine
	Prove    proof.Runtime // what proves the programs there: the probe and every CUPTI; none: nothing
}

// File is one file of a bundle.
type File struct {
	Name    string `json:"name"`              // in the bundle, with slashes: lib/libcublas.so.13
	From    string `json:"from,omitempty"`    // the file that was copied; not in the manifest, and empty of what gpubuild wrote itself
	By      string `json:"by,omitempty"`      // the file that loads it; empty for a program
	ByName  bool   `json:"by_name,omitempty"` // while it runs: By does not link it
	Link    string `json:"link,omitempty"`    // a symbolic link to it in the bundle: lib/libcublas.so, which cudarc asks for
	Licence string `json:"licence,omitempty"` // that lets it be shipped; empty where gpubuild knows none: it is not NVIDIA's
	Size    int64  `json:"size"`              // bytes
	SHA256  string `json:"sha256,omitempty"`  // as it is in the bundle
}

// Need is what the other machine must have itself.
type Need struct {
	Name    string `json:"name"` // a library's, or the path of a program
	Why     string `json:"why"`
	Missing bool   `json:"missing,omitempty"` // it was to be copied and could not be, and a program does not start without it
}

// Prove names the files of a bundle with which its programs are proven.
type Prove struct {
	Probe   string       `json:"probe"`
	Control string       `json:"control,omitempty"`
	Watch   string       `json:"watch,omitempty"`
	CUPTI   string       `json:"cupti,omitempty"`
	Others  []string     `json:"others,omitempty"` // further CUPTIs, for a driver that is older than the first
	Glibc   loader.Glibc `json:"glibc"`            // of all files, those that prove included
}

// manifest is the file in a bundle that lists its content.
type manifest struct {
	Schema string `json:"schema"`
	Bundle
}

// Bundle is what was made.
type Bundle struct {
	Version  string   `json:"gpubuild"`
	Programs []string `json:"programs"` // in the bundle; the start script of bin/app is app
	Files    []File   `json:"files"`
	Needs    []Need   `json:"needs"`
	Glibc    string   `json:"glibc,omitempty"` // the oldest version of the C library with which the programs and libraries load
	Prove    *Prove   `json:"prove,omitempty"`
}

// Incomplete names the libraries without which a program does not start and that could not be copied; nil: the bundle has all that it can.
func (b Bundle) Incomplete() error {
	var names []string
	for _, n := range b.Needs {
		if n.Missing {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return exit.Errorf(exit.Missing, "install it here and bundle again, or see to it that the other machine has it",
		"the bundle lacks %s", strings.Join(names, ", "))
}

// Make makes a bundle, whole or not at all.
func Make(ctx context.Context, m *session.Machine, o Options) (Bundle, error) {
	dir := m.Host.Abs(o.Dir)
	if _, err := os.Lstat(dir); err == nil {
		return Bundle{}, &exit.UsageError{What: o.Dir + " exists", Fix: "remove it, or name a new directory: -o DIR"}
	}
	b, err := Collect(ctx, m, o)
	if err != nil {
		return b, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return b, err
	}
	made, remove, err := m.Temp.MkdirTemp(filepath.Dir(dir), ".gpubuild-bundle-")
	if err != nil {
		return b, err
	}
	defer remove() // its own directory, and nothing but copies in it
	if err := b.write(ctx, made); err != nil {
		fix := ""
		if errors.Is(err, syscall.ENOSPC) {
			fix = (&cache.WriteError{Path: dir, Err: err}).Hint()
		}
		return b, exit.Errorf(0, fix, "the bundle %s is not made: %w", o.Dir, err)
	}
	return b, errors.Join(os.Chmod(made, 0o755), os.Rename(made, dir))
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

// write puts the bundle into a directory.
func (b *Bundle) write(ctx context.Context, dir string) error {
	texts := map[string]string{licenceName: licenceText(b.Files)}
	for _, program := range b.Programs {
		if start := path.Base(program); start != program {
			texts[start] = launcher
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if texts[name] != "" {
			b.Files = append(b.Files, File{Name: name})
		}
	}
	for i, f := range b.Files {
		to, err := filepath.Join(dir, filepath.FromSlash(f.Name)), ctx.Err()
		switch {
		case err != nil:
		case f.From == "":
			err = os.WriteFile(to, []byte(texts[f.Name]), 0o755)
		default:
			err = copy.Copy(f.From, to, copy.Options{OnSymlink: func(string) copy.SymlinkAction { return copy.Deep }})
		}
		mode := fs.FileMode(0o755) // everybody may read it, and run what is started
		if strings.HasPrefix(f.Name, "lib/") || f.Name == licenceName {
			mode = 0o644
		}
		if err := cmp.Or(err, os.Chmod(to, mode)); err != nil {
			return err
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

// licenceText names the licences that let files be shipped, each with its address and what it is for.
func licenceText(files []File) (out string) {
	for _, l := range known().Licence {
		var names []string
		for _, f := range files {
			if f.Licence == l.Title {
				names = append(names, path.Base(f.Name))
			}
		}
		if len(names) > 0 {
			out += l.Title + "\n" + l.Address + "\n" + strings.Join(names, ", ") + "\n\n"
		}
	}
	return out
}

// Open opens the bundle that a path names: its directory, or one of its start scripts. rt is what the program is proven with here, as far
// as the bundle has it, and the environment in which it finds its libraries. No program: the path names no bundle.
func Open(h buildenv.Host, file string) (program string, rt proof.Runtime, err error) {
	dir, name := h.Real(file), ""
	if !h.IsDir(dir) {
		dir, name = h.Dir(dir), h.Base(dir)
	}
	text, err := h.ReadFile(h.Join(dir, manifestName), buildenv.Record)
	if errors.Is(err, buildenv.ErrUnbounded) {
		return "", rt, err
	}
	var m manifest
	if err != nil || json.Unmarshal(text, &m) != nil || m.Schema != Schema || len(m.Programs) == 0 {
		return "", rt, nil
	}
	i := slices.IndexFunc(m.Programs, func(program string) bool { return path.Base(program) == name })
	switch {
	case name != "" && i < 0:
		return "", rt, nil
	case name == "" && len(m.Programs) > 1:
		what := fmt.Sprintf("%s has %d programs: %s", file, len(m.Programs), strings.Join(m.Programs, ", "))
		return "", rt, &exit.UsageError{What: what,
			Fix: "name one: gpubuild prove " + buildenv.Words(h.OS, h.Join(file, path.Base(m.Programs[0])))}
	}
	if err := m.unchanged(dir); err != nil {
		return "", rt, exit.Errorf(exit.Usage, "make the bundle again", "%s was changed since it was made: %w", dir, err)
	}
	in := func(name string) string {
		if name == "" {
			return ""
		}
		return h.Join(dir, filepath.FromSlash(name))
	}
	program = m.Programs[max(i, 0)]
	needs := loader.Glibc{Version: m.Glibc, By: program}
	if p := m.Prove; p != nil {
		rt.Probe.Library, rt.CUPTI, needs = in(p.Probe), in(p.CUPTI), p.Glibc
		for _, other := range p.Others {
			rt.Others = append(rt.Others, in(other))
		}
	}
	if why := needs.TooOld(h, "this machine"); why != "" {
		return "", rt, exit.Errorf(exit.Misfit, "build on a system as old as this one", "%s", why)
	}
	rt.Env = h.Env
	if h.OS != buildenv.Windows {
		rt.Env = h.Env.Set("LD_LIBRARY_PATH", strings.TrimSuffix(in("lib")+":"+h.Env.Get("LD_LIBRARY_PATH"), ":"))
	}
	return in(program), rt, nil
}

// unchanged is an error where a bundle's directory lacks a file or link of the manifest, or holds one that is not the manifest's: the
// loader would take a library that was added. What is started must be one of the files, too.
func (b Bundle) unchanged(dir string) error {
	left := map[string]File{}
	for _, f := range b.Files {
		left[f.Name] = File{SHA256: f.SHA256, Size: f.Size}
		if f.Link != "" {
			left[f.Link] = File{Link: path.Base(f.Name)}
		}
	}
	started := slices.Clone(b.Programs)
	if p := b.Prove; p != nil {
		started = append(append(started, p.Probe, p.Control, p.Watch, p.CUPTI), p.Others...)
	}
	for _, name := range started {
		if name != "" && left[name].SHA256 == "" {
			return fmt.Errorf("%s is none of its files", name)
		}
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == manifestName {
			return err
		}
		is, file := File{}, filepath.Join(dir, filepath.FromSlash(name))
		if d.Type() == fs.ModeSymlink {
			is.Link, err = os.Readlink(file)
		} else if info, noInfo := d.Info(); noInfo == nil && info.Size() == left[name].Size { // else not read: it may be of any size
			is.Size = info.Size()
			is.SHA256, err = cache.Hash(file)
		}
		if err != nil || is == (File{}) || is != left[name] {
			return errors.New(name)
		}
		delete(left, name)
		return nil
	})
	for name := range left {
		err = cmp.Or(err, fmt.Errorf("it lacks %s", name))
	}
	return err
}
