package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
func Collect(m *session.Machine, o Options) (Bundle, error) {
	c := &collector{m: m, o: o, table: known(), toolkits: proof.Toolkits(m, o.Toolkit), seen: map[string]bool{}}
	c.dirs = proof.LibraryDirs(m, c.toolkits)
	c.b = Bundle{Version: version.Number(), Needs: []Need{}, Licences: []string{}}
	named := map[string]bool{"": true}
	for _, name := range slices.Concat(o.With, o.Without) {
		base := m.Host.Base(name)
		if name == "" || named[base] {
			what := fmt.Sprintf("--with and --without: the name %q is empty or given twice", name)
			return c.b, &exit.UsageError{What: what, Fix: "name one as --dry-run lists it"}
		}
		named[base] = true
	}
	for _, program := range o.Programs {
		if err := c.program(proof.LookPath(m.Host, program)); err != nil {
			return c.b, err
		}
	}
	if m.Host.OS != buildenv.Windows && !o.Own {
		c.need("/bin/sh", "runs the start script")
	}
	if err := c.libraries(); err != nil {
		return c.b, err
	}
	c.leaveOutCompilers()
	c.link()
	c.b.Glibc = c.glibc().Version
	if err := c.drivers(); err != nil {
		return c.b, err
	}
	for _, name := range o.Without {
		if !c.seen[name] {
			return c.b, &exit.UsageError{
				What: "--without " + name + ": no library of that name is loaded", Fix: "name one as --dry-run lists it",
			}
		}
	}
	return c.b, c.prove()
}

// collector finds what belongs into a bundle.
type collector struct {
	m        *session.Machine
	o        Options
	table    table
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

// want queues libraries; those of names are loaded by name.
func (c *collector) want(libs []loader.Library, names []string) {
	for _, l := range libs {
		c.queue = append(c.queue, want{l, slices.Contains(names, l.Name)})
	}
}

// program takes one program in.
func (c *collector) program(program string) error {
	info, err := os.Stat(program)
	if err != nil || !info.Mode().IsRegular() {
		problem := program + " is not a file"
		if err != nil {
			problem = err.Error()
		}
		return &exit.UsageError{What: problem, Fix: "build the program first, and name it: gpubuild bundle target/release/app"}
	}
	name := filepath.Base(program)
	if slices.Contains([]string{"lib", "bin", "prove", "licenses", manifestName}, name) {
		return &exit.UsageError{What: "a bundle has a " + name + " of its own next to the program", Fix: "rename the program"}
	}
	if slices.Contains(c.b.Start, name) {
		return &exit.UsageError{What: "two of the programs are called " + name, Fix: "put them into bundles of their own"}
	}
	if err := c.mayShip(program); err != nil && !c.o.Own {
		return err
	}
	place := name
	if c.m.Host.OS != buildenv.Windows {
		place = "bin/" + name
	}
	c.b.Start, c.b.Programs = append(c.b.Start, name), append(c.b.Programs, place)
	c.b.Files = append(c.b.Files, File{Name: place, From: program, Size: info.Size()})
	c.unread = append(c.unread, program)
	libs, err := loader.Resolve(c.m.Host, program, c.dirs)
	if err != nil {
		return err
	}
	// What --with names comes first: a file that the user names is the one to take, also for what the program links.
	opened, err := loader.Open(c.m.Host, program, c.o.With, c.dirs)
	c.want(opened, slices.DeleteFunc(slices.Clone(c.o.With), func(name string) bool {
		return slices.ContainsFunc(libs, func(l loader.Library) bool { return l.Name == c.m.Host.Base(name) })
	}))
	c.want(libs, nil)
	return err
}

// libraries takes in what is queued, and what that loads: first what is linked, then what is loaded by name.
func (c *collector) libraries() error {
	for len(c.queue) > 0 || len(c.unread) > 0 {
		var err error
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			err = c.add(next)
		} else {
			next := c.unread[0]
			c.unread = c.unread[1:]
			err = c.named(next)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		licence, _ := c.table.permission(nameOf(c.m.Host.Base(from)))
		c.b.Files = append(c.b.Files, File{Name: name, From: from, Licence: licence.Title, Size: info.Size()})
		return name, nil
	}
	p := &Prove{}
	for _, part := range []struct {
		to        *string
		dir, from string
	}{{&p.Probe, "", rt.Probe.Library}, {&p.Control, "", rt.Probe.Control}, {&p.Watch, "", rt.Probe.Watch}, {&p.CUPTI, "0", rt.CUPTI}} {
		var err error
		if *part.to, err = add(part.dir, part.from); err != nil {
			return err
		}
	}
	for i, other := range rt.Others {
		name, err := add(fmt.Sprint(i+1), other)
		if err != nil {
			return err
		}
		p.Others = append(p.Others, name)
	}
	if !c.o.Own { // to a machine of the user's own gpubuild goes first
		if _, err := add("", c.m.Self); err != nil {
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

// add takes one library in, and queues what it loads itself.
func (c *collector) add(l want) error {
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
	case l.Kind == loader.Missing || l.Kind == loader.Broken:
		remedy := strings.TrimPrefix(proof.Remedy(l.Name, c.toolkits), "; ")
		return fail(exit.Missing, "cannot be bundled: "+l.Problem,
			cmp.Or(remedy, "install it")+", or leave it to the other machine: --without "+l.Name)
	}
	permission, allowed := c.table.permission(name)
	from := h.Real(l.Path)
	if !allowed && !c.o.Own && (nvidia(name) || nvidia(nameOf(soname(from))) || inToolkit(h, l.Path) || inToolkit(h, from)) {
		return fail(exit.Misfit, notShipped,
			"leave it to the other machine: --without "+h.Base(l.Name))
	}
	if slices.Contains(c.o.With, l.Name) && !isLibrary(from) {
		return fail(exit.Misfit, "is a program and no library", "bundle it by itself: gpubuild bundle "+l.Path)
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
	inner, err := loader.Resolve(h, from, c.dirs)
	if err != nil {
		return err
	}
	if !allowed {
		c.unread = append(c.unread, from)
	}
	files := c.files(c.table.opens(name))
	if name == "nvrtc" { // it loads the builtins of its own version only
		builtins, err := find(from, builtinsName)
		if err != nil {
			return err
		}
		if builtins = strings.TrimSuffix(builtins, "\x00"); strings.Contains(builtins, ".so") {
			builtins = "lib" + builtins
		}
		if builtins != "" {
			files = []string{builtins}
		}
	}
	parts, err := loader.Open(h, from, files, append([]string{h.Dir(from)}, c.dirs...))
	c.want(inner, nil)
	c.want(parts, files)
	c.want(c.missing(l.Library, files), nil)
	return err
}

// named queues NVIDIA's libraries that a file loads by name, as the loader or else the toolkit has them. That the name is there is no
// proof, so the user can leave one out.
func (c *collector) named(file string) error {
	h := c.m.Host
	if isGpubuild(file) {
		return nil
	}
	asked, err := c.table.asked(file, h.OS == buildenv.Windows)
	if err != nil {
		return err
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
		libs, err := loader.Open(h, file, tried, c.dirs)
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

// missing are the parts without which a library does not work, and that are not among the files here.
func (c *collector) missing(l loader.Library, files []string) (out []loader.Library) {
	file := c.m.Host.Base(l.Name)
	for _, part := range c.table.parts(file) {
		if !slices.ContainsFunc(files, func(f string) bool { return nameOf(f) == part }) {
			problem := "not found, and " + file + " does not work without it"
			out = append(out, loader.Library{Name: strings.Replace(file, nameOf(file), part, 1), By: l.Path, Kind: loader.Missing,
				Problem: problem})
		}
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

// licenceText looks for the text in the directories above a library: an installed toolkit has EULA.txt, one of gpubuild's and pip's have
// a License.txt for each package. Without one the text is the agreement's address.
func licenceText(h buildenv.Host, f File) ([]byte, string) {
	library := nameOf(h.Base(f.From))
	permission, _ := known().permission(library)
	stem, _, _ := strings.Cut(strings.ToLower(library), "_")
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
