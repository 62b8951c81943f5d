package bundle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/loader"
)

// Collect lists the files of a bundle, the programs first, without making one.
func Collect(ctx context.Context, m *session.Machine, o Options) (Bundle, error) {
	c := &collector{m: m, o: o, dirs: proof.LibraryDirs(m, proof.Toolkits(m, o.Toolkit)), seen: map[string]bool{},
		b: Bundle{Version: version.Number(), Needs: []Need{}}}
	if m.Host.OS != buildenv.Windows && !o.Own {
		c.need(Need{Name: "/bin/sh", Why: "runs the start script"})
	}
	for _, program := range o.Programs {
		if err := c.program(ctx, proof.LookPath(m.Host, program)); err != nil {
			return c.b, err
		}
	}
	for read := 0; read < len(c.b.Files); read++ { // what is linked is in; each library that is loaded by name adds to them
		if err := c.named(ctx, c.b.Files[read]); err != nil {
			return c.b, err
		}
	}
	c.link()
	c.b.Glibc = c.glibc().Version
	c.prove()
	return c.b, nil
}

// collector finds what belongs into a bundle.
type collector struct {
	m    *session.Machine
	o    Options
	dirs []string
	seen map[string]bool
	b    Bundle
}

// links takes in the libraries that a file links.
func (c *collector) links(ctx context.Context, file string) error {
	libs, err := loader.Resolve(ctx, c.m.Host, c.m.Runner, file, c.dirs)
	for _, l := range libs {
		err = cmp.Or(err, c.add(ctx, l, false))
	}
	return err
}

// opens takes in what the loader finds for names that a file opens while it runs.
func (c *collector) opens(ctx context.Context, file string, names, dirs []string) error {
	libs, err := loader.Open(ctx, c.m.Host, c.m.Runner, file, names, dirs)
	for _, l := range libs {
		err = cmp.Or(err, c.add(ctx, l, true))
	}
	return err
}

// program takes one program in.
func (c *collector) program(ctx context.Context, program string) error {
	h := c.m.Host
	info, err := os.Stat(program)
	name := h.Base(program)
	place := c.place("bin", name)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return &exit.UsageError{What: program + " is not a file", Fix: "build it first, and name it: gpubuild bundle target/release/app"}
	case slices.Contains([]string{"lib", "bin", "prove", licenceName, manifestName}, name):
		return &exit.UsageError{What: "a bundle has a " + name + " of its own next to the program", Fix: "rename the program"}
	case slices.Contains(c.b.Programs, place):
		return &exit.UsageError{What: "two of the programs are called " + name, Fix: "put them into bundles of their own"}
	}
	c.b.Programs = append(c.b.Programs, place)
	c.b.Files = append(c.b.Files, File{Name: place, From: program})
	// What --with names comes first: a file that the user names is the one to take, also for what the program links.
	return cmp.Or(c.opens(ctx, program, c.o.With, c.dirs), c.links(ctx, program))
}

// place is where a file is in a bundle: on Windows next to the program, where it looks first.
func (c *collector) place(dir, name string) string {
	if c.m.Host.OS == buildenv.Windows {
		return name
	}
	return dir + "/" + name
}

// prove adds what proves the programs there.
func (c *collector) prove() {
	rt := c.o.Prove
	if rt.Probe.Library == "" {
		return
	}
	add := func(dir, from string) string {
		if from == "" {
			return ""
		}
		name := path.Join("prove", dir, c.m.Host.Base(from))
		licence, _ := known().permission(nameOf(c.m.Host.Base(from)))
		c.b.Files = append(c.b.Files, File{Name: name, From: from, Licence: licence.Title})
		return name
	}
	p := &Prove{
		Probe: add("", rt.Probe.Library), Control: add("", rt.Probe.Control), Watch: add("", rt.Probe.Watch), CUPTI: add("0", rt.CUPTI),
	}
	for i, other := range rt.Others {
		p.Others = append(p.Others, add(fmt.Sprint(i+1), other))
	}
	if !c.o.Own { // to a machine of the user's own gpubuild goes first; called as cargo-gpubuild, it is the same program
		c.b.Files = append(c.b.Files, File{Name: path.Join("prove", c.m.Host.Exe("gpubuild")), From: c.m.Self})
		for _, from := range ownLicences(c.m.Host, c.m.Self) {
			add("", from)
		}
	}
	p.Glibc = c.glibc()
	c.b.Prove = p
}

// ownLicences are the texts that an archive, a package or a wheel of gpubuild brought with the program; none of another way.
func ownLicences(h buildenv.Host, self string) (out []string) {
	own := h.Dir(h.Real(self))
	for _, below := range []string{".", "../share/doc/gpubuild", "../lib/python*/site-packages/gpubuild-*.dist-info/licenses",
		"../Lib/site-packages/gpubuild-*.dist-info/licenses"} {
		for _, dir := range h.Dirs(h.Join(append([]string{own}, strings.Split(below, "/")...)...)) {
			for _, names := range [][]string{{"copyright"}, {"THIRD-PARTY.txt", "LICENSE"}} {
				for _, name := range names {
					if !h.IsFile(h.Join(dir, name)) {
						break
					}
					out = append(out, h.Join(dir, name))
				}
				if len(out) > 0 {
					return out
				}
			}
		}
	}
	return nil
}

// glibc is the oldest C library that all files take.
func (c *collector) glibc() (out loader.Glibc) {
	for _, f := range c.b.Files {
		if needs := loader.NeedsGlibc(f.From); loader.Older(out.Version, needs) {
			out = loader.Glibc{Version: needs, By: path.Base(f.Name)}
		}
	}
	return out
}

// driversNeed notes that the other machine needs the driver's library.
func (c *collector) driversNeed() {
	name := "libcuda.so.1"
	if c.m.Host.OS == buildenv.Windows {
		name = "nvcuda.dll"
	}
	c.need(Need{Name: name, Why: driversOwn})
}

const driversOwn = "comes with the driver"

// add takes one library in with what it links, or notes why the other machine must have it itself.
func (c *collector) add(ctx context.Context, l loader.Library, byName bool) error {
	h := c.m.Host
	if c.seen[l.Name] {
		return nil
	}
	c.seen[l.Name], c.seen[h.Base(l.Name)] = true, true
	name, from := nameOf(h.Base(l.Name)), h.Real(l.Path)
	permission, allowed := known().permission(name)
	why, missing := "", false
	switch {
	case h.OS == buildenv.Windows && l.Path == "" && strings.HasPrefix(strings.ToLower(name), "api-ms-"),
		h.OS == buildenv.Windows && h.Below(l.Path, h.Env.Get("SystemRoot")),
		h.OS != buildenv.Windows && matches(known().Names["system"], name):
		return nil
	case matches(known().Names["driver"], name):
		why = driversOwn
	case strings.ContainsAny(l.Name, `/\`) && !byName:
		why = h.Base(l.By) + " names it by its path"
	case l.Kind != loader.OK && l.Kind != loader.Added:
		why, missing = l.Problem+proof.Remedy(l.Name), l.Kind != loader.Unknown && !byName && !l.Delayed
	case !allowed && !c.o.Own && matches(known().Names["nvidia"], name):
		why = "NVIDIA's, and in none of the lists of what its licences let you ship"
	}
	if why != "" {
		c.need(Need{l.Name, why, missing})
		return nil
	}
	c.b.Files = append(c.b.Files, File{
		Name: c.place("lib", h.Base(l.Name)), From: from, By: h.Base(l.By), ByName: byName, Licence: permission.Title,
	})
	return c.links(ctx, from)
}

// named takes in what a file loads by name: of NVIDIA's own by the table, of others each library of NVIDIA's whose name they have. That the
// name is there is no proof: one that is not here is noted.
func (c *collector) named(ctx context.Context, f File) error {
	h := c.m.Host
	if f.Licence != "" {
		c.driversNeed()
		name := nameOf(h.Base(f.Name))
		files := c.files(known().Opens[name]...)
		if name == "nvrtc" { // it loads the builtins of its own version only, and compiles nothing without them
			text, err := os.ReadFile(f.From)
			if err != nil {
				return err
			}
			files = builtinsName.FindAllString(string(text), 1)
		}
		return c.opens(ctx, f.From, files, append([]string{h.Dir(f.From)}, c.dirs...))
	}
	asked, err := known().asked(f.From, h.OS == buildenv.Windows)
	if err != nil {
		return err
	}
	for _, name := range asked {
		is := func(file string) bool { return nameOf(h.Base(file)) == name }
		files := c.files(name)
		switch {
		case name == "cuda":
			c.driversNeed()
			continue
		case is(f.From) || slices.ContainsFunc(slices.Collect(maps.Keys(c.seen)), is): // itself, linked, or loaded by another file already
			continue
		case len(files) == 0 && h.OS == buildenv.Windows:
			files = []string{name + ".dll"}
		case len(files) == 0:
			files = []string{"lib" + name + ".so"}
		}
		if err := c.opens(ctx, f.From, files, c.dirs); err != nil {
			return err
		}
	}
	return nil
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

// need notes once what the other machine must have.
func (c *collector) need(library Need) {
	if !slices.ContainsFunc(c.b.Needs, func(n Need) bool { return n.Name == library.Name }) {
		c.b.Needs = append(c.b.Needs, library)
	}
}

// files are the file names here of libraries that are loaded by name, with the version that a loader asks for, by patterns of their names:
// of each the first directory's.
func (c *collector) files(patterns ...string) (out []string) {
	h, found := c.m.Host, map[string]bool{}
	dirs := append(h.SplitList(h.Env.Get("LD_LIBRARY_PATH")), c.dirs...)
	for _, f := range c.b.Files {
		dirs = append(dirs, h.Dir(f.From)) // parts are in the directory of the library that loads them
	}
	for _, dir := range dirs {
		for _, file := range h.Names(dir) {
			name := nameOf(file)
			if versioned := h.OS == buildenv.Windows || majorVersion(file); versioned && matches(patterns, name) && !found[name] {
				found[name] = true
				out = append(out, file)
			}
		}
	}
	return out
}
