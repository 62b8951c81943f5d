package bundle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/loader"
)

// Collect lists the files of a bundle, the programs first, without making one.
func Collect(ctx context.Context, m *session.Machine, o Options) (Bundle, error) {
	c := &collector{m: m, o: o, toolkits: proof.Toolkits(m, o.Toolkit), seen: map[string]bool{}}
	c.dirs = proof.LibraryDirs(m, c.toolkits)
	c.b = Bundle{Version: version.Number(), Needs: []Need{}}
	for _, program := range o.Programs {
		if err := c.program(ctx, proof.LookPath(m.Host, program)); err != nil {
			return c.b, err
		}
	}
	if m.Host.OS != buildenv.Windows && !o.Own {
		c.need("/bin/sh", "runs the start script")
	}
	for len(c.queue) > 0 || len(c.unread) > 0 { // first what is linked, then what is loaded by name
		var err error
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			err = c.add(ctx, next)
		} else {
			next := c.unread[0]
			c.unread = c.unread[1:]
			err = c.named(ctx, next)
		}
		if err != nil {
			return c.b, err
		}
	}
	c.leaveOutCompilers()
	c.link()
	c.b.Glibc = c.glibc().Version
	for _, name := range o.Without {
		if !c.seen[name] {
			return c.b, &exit.UsageError{What: "--without " + name + ": no library of that name is loaded", Fix: "name one of the bundle"}
		}
	}
	return c.b, c.prove()
}

// collector finds what belongs into a bundle.
type collector struct {
	m        *session.Machine
	o        Options
	toolkits []cuda.Toolkit
	dirs     []string
	seen     map[string]bool
	queue    []want   // libraries that are yet to be taken in
	unread   []string // files of the bundle in which the names of libraries are yet to be looked for
	b        Bundle
}

// want is a library that a file loads: it links it, or loads it by name while it runs.
type want struct {
	loader.Library
	byName bool
}

// needs queues the libraries that a file links.
func (c *collector) needs(ctx context.Context, file string) error {
	libs, err := loader.Resolve(ctx, c.m.Host, c.m.Runner, file, c.dirs)
	for _, l := range libs {
		c.queue = append(c.queue, want{l, false})
	}
	return err
}

// opens are what the loader finds for names that a file opens while it runs.
func (c *collector) opens(ctx context.Context, file string, names, dirs []string) ([]loader.Library, error) {
	return loader.Open(ctx, c.m.Host, c.m.Runner, file, names, dirs)
}

// program takes one program in.
func (c *collector) program(ctx context.Context, program string) error {
	h := c.m.Host
	info, err := os.Stat(program)
	if err != nil || !info.Mode().IsRegular() {
		problem := program + " is not a file"
		if err != nil {
			problem = err.Error()
		}
		return &exit.UsageError{What: problem, Fix: "build the program first, and name it: gpubuild bundle target/release/app"}
	}
	name := filepath.Base(program)
	place := name
	if h.OS != buildenv.Windows {
		place = "bin/" + name
	}
	switch {
	case slices.Contains([]string{"lib", "bin", "prove", licenceName, manifestName}, name):
		return &exit.UsageError{What: "a bundle has a " + name + " of its own next to the program", Fix: "rename the program"}
	case slices.Contains(c.b.Programs, place):
		return &exit.UsageError{What: "two of the programs are called " + name, Fix: "put them into bundles of their own"}
	case !c.o.Own && (inToolkit(h, program) || inToolkit(h, h.Real(program))):
		return exit.Errorf(exit.Misfit, "install the CUDA toolkit there", "%s %s", program, notShipped)
	}
	c.b.Programs = append(c.b.Programs, place)
	c.b.Files = append(c.b.Files, File{Name: place, From: program, Size: info.Size()})
	c.unread = append(c.unread, program)
	// What --with names comes first: a file that the user names is the one to take, also for what the program links.
	opened, err := c.opens(ctx, program, c.o.With, c.dirs)
	for _, l := range opened {
		c.queue = append(c.queue, want{l, true})
	}
	if err != nil {
		return err
	}
	return c.needs(ctx, program)
}

// prove adds what proves the programs there.
func (c *collector) prove() error {
	rt := c.o.Prove
	if rt.Probe.Library == "" {
		return nil
	}
	add := func(dir, from string) (string, error) {
		if from == "" {
			return "", nil
		}
		info, err := os.Stat(from)
		if err != nil {
			return "", err
		}
		name := path.Join("prove", dir, c.m.Host.Base(from))
		licence, _ := known().permission(nameOf(c.m.Host.Base(from)))
		c.b.Files = append(c.b.Files, File{Name: name, From: from, Licence: licence.Title, Size: info.Size()})
		return name, nil
	}
	p := &Prove{Others: make([]string, len(rt.Others))}
	type part struct {
		to        *string
		dir, from string
	}
	parts := []part{{&p.Probe, "", rt.Probe.Library}, {&p.Control, "", rt.Probe.Control}, {&p.Watch, "", rt.Probe.Watch},
		{&p.CUPTI, "0", rt.CUPTI}}
	for i, other := range rt.Others {
		parts = append(parts, part{&p.Others[i], fmt.Sprint(i + 1), other})
	}
	if !c.o.Own { // to a machine of the user's own gpubuild goes first
		parts = append(parts, part{new(string), "", c.m.Self})
	}
	for _, part := range parts {
		var err error
		if *part.to, err = add(part.dir, part.from); err != nil {
			return err
		}
	}
	p.Glibc = c.glibc()
	c.b.Prove = p
	return nil
}

// glibc is the oldest C library that all files take.
func (c *collector) glibc() (out Glibc) {
	for _, f := range c.b.Files {
		if needs := Needs(f.From); Older(out.Version, needs) {
			out = Glibc{needs, filepath.Base(f.Name)}
		}
	}
	return out
}

// leaveOutCompilers leaves out the libraries of the compiler where they would need a newer C library than everything else: systems have
// them, and a program that was built for an old system must keep running there.
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

const notShipped = "may not be shipped: it is NVIDIA's and in none of the lists that its licences give"

// driversNeed notes that the other machine needs the driver's library.
func (c *collector) driversNeed() {
	name := "libcuda.so.1"
	if c.m.Host.OS == buildenv.Windows {
		name = "nvcuda.dll"
	}
	if !c.seen[name] {
		c.seen[name] = true
		c.need(name, driversOwn)
	}
}

const driversOwn = "comes with NVIDIA's driver"

// add takes one library in, and queues what it loads itself.
func (c *collector) add(ctx context.Context, l want) error {
	h := c.m.Host
	if c.seen[l.Name] {
		return nil
	}
	c.seen[l.Name], c.seen[h.Base(l.Name)] = true, true
	name, by := nameOf(h.Base(l.Name)), h.Base(l.By)
	fail := func(code int, why, fix string) error { return libraryError(code, h.Base(l.Name), by, why, fix) }
	switch {
	case system(h, h.Base(l.Name), l.Path):
		return nil
	case driver(name):
		c.need(l.Name, driversOwn)
		return nil
	case graphics(name):
		c.need(l.Name, "belongs to the graphics of the system")
		return nil
	case slices.Contains(c.o.Without, h.Base(l.Name)):
		c.need(l.Name, "left out by --without")
		return nil
	case c.o.Own && l.Kind != loader.OK && l.Kind != loader.Added:
		c.need(l.Name, "not found here: "+l.Problem)
		return nil
	case l.Kind == loader.Stub:
		return fail(exit.Missing, "is a link stub here ("+l.Path+"): every call of it fails", "gpubuild toolchain install --parts run")
	case l.Kind != loader.OK && l.Kind != loader.Added:
		remedy := strings.TrimPrefix(proof.Remedy(l.Name, c.toolkits), "; ")
		return fail(exit.Missing, "cannot be bundled: "+l.Problem,
			cmp.Or(remedy, "install it")+", or leave it to the other machine: --without "+l.Name)
	}
	permission, allowed := known().permission(name)
	from := h.Real(l.Path)
	if !allowed && !c.o.Own && (nvidia(name) || nvidia(nameOf(soname(from))) || inToolkit(h, l.Path) || inToolkit(h, from)) {
		return fail(exit.Misfit, notShipped, "leave it to the other machine: --without "+h.Base(l.Name))
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	place := "lib/" + h.Base(l.Name)
	if h.OS == buildenv.Windows {
		place = h.Base(l.Name)
	}
	c.b.Files = append(c.b.Files, File{Name: place, From: from, By: by, ByName: l.byName, Licence: permission.Title, Size: info.Size()})
	if err := c.needs(ctx, from); err != nil {
		return err
	}
	if !allowed {
		c.unread = append(c.unread, from)
		return nil
	}
	c.driversNeed()
	files := c.files(known().Opens[name])
	if name == "nvrtc" { // it loads the builtins of its own version only, and compiles nothing without them
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		files = []string{strings.Replace(h.Base(l.Name), "nvrtc", "nvrtc-builtins", 1)}
		if builtins := builtinsName.FindString(string(text)); strings.Contains(builtins, ".so") {
			files[0] = "lib" + strings.TrimSuffix(builtins, "\x00")
		} else if builtins != "" {
			files[0] = strings.TrimSuffix(builtins, "\x00")
		}
	}
	parts, err := c.opens(ctx, from, files, append([]string{h.Dir(from)}, c.dirs...))
	for _, part := range parts {
		c.queue = append(c.queue, want{part, true})
	}
	return err
}

// named queues NVIDIA's libraries that a file loads by name, as the loader or else the toolkit has them. That the name is there is no
// proof, so the user can leave one out.
func (c *collector) named(ctx context.Context, file string) error {
	h := c.m.Host
	asked, err := known().asked(file, h.OS == buildenv.Windows)
	if err != nil {
		return err
	}
	if _, is := asked["cuda"]; is || asked["nvcuda"] != nil {
		c.driversNeed()
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		is := func(file string) bool { return nameOf(h.Base(file)) == name }
		if driver(name) || is(file) || is(soname(file)) || slices.ContainsFunc(slices.Collect(maps.Keys(c.seen)), is) {
			continue // the driver's, itself, linked, or loaded by another file already
		}
		if i := slices.IndexFunc(c.o.Without, is); i >= 0 {
			c.seen[c.o.Without[i]] = true
			c.need(c.o.Without[i], "left out by --without")
			continue
		}
		tried := slices.DeleteFunc(slices.Clone(asked[name]), func(f string) bool {
			m := soName.FindStringSubmatch(f)
			return f == "" || m != nil && m[2] == "" // a function's, and the name without a version
		})
		if h.OS == buildenv.Windows && len(tried) == 0 {
			tried = append(c.files([]string{name}), name+".dll")
		} else if len(tried) < len(asked[name]) { // as cudarc does: without a version, then with one
			tried = slices.Concat([]string{"lib" + name + ".so"}, tried, c.files([]string{name}))
			for n := 20; n >= 0; n-- {
				tried = append(tried, fmt.Sprintf("lib%s.so.%d", name, n))
			}
		}
		libs, err := c.opens(ctx, file, tried, c.dirs)
		if err != nil {
			return err
		}
		i := max(0, slices.IndexFunc(libs, func(l loader.Library) bool { return is(l.Name) && l.Kind != loader.Missing }))
		l := libs[i]
		if m := soName.FindStringSubmatch(l.Name); l.Kind == loader.Missing {
			l.Problem += " (" + h.Base(file) + " has its name or one of its functions' in it)"
		} else if m != nil && m[2] == "" {
			l.Name = cmp.Or(soname(l.Path), l.Name)
		}
		c.queue = append(c.queue, want{l, true})
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

func (c *collector) need(library, why string) {
	c.b.Needs = append(c.b.Needs, Need{library, why})
}

// files are the file names here of libraries that are loaded by name, by patterns of their names: of each the first directory's.
func (c *collector) files(names []string) []string {
	var out []string
	found := map[string]bool{}
	dirs := slices.Clone(c.dirs)
	for _, f := range c.b.Files {
		dirs = append(dirs, c.m.Host.Dir(f.From)) // parts are in the directory of the library that loads them
	}
	for _, dir := range dirs {
		for _, file := range c.m.Host.Names(dir) {
			m := soName.FindStringSubmatch(file) // a loader asks for the name with the major version
			if c.m.Host.OS != buildenv.Windows && (m == nil || strings.Count(m[2], ".") != 1) {
				continue
			}
			if name := nameOf(file); name != file && matches(names, name) && !found[name] {
				found[name] = true
				out = append(out, file)
			}
		}
	}
	return out
}
