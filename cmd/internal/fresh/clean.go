package fresh

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Removal is what cargo's clean would remove: cargo's own list of it, looked at before anything goes.
type Removal struct {
	paths []string    // as cargo names them: everything that lies in a directory that goes; files that go by themselves are not in it
	Files int         `json:"files"` // cargo's own count
	Bytes int64       `json:"bytes"`
	Units []Directory `json:"directories"`
}

// Directory is one of cargo's directories below a profile, with what lies in it.
type Directory struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// removePackages has cargo remove what it built of some packages, for the profile and the platforms of this build and nothing
// else. It is the only way on which anything below a target directory is removed.
//
// Cargo takes its own lock on the directory, so nothing goes while another cargo builds there; what is waited for is said. Before
// that, every place is looked at: see guard and inside.
func (b *Build) removePackages(ctx context.Context, packages []string) (Removal, error) {
	r, err := b.planRemoval(ctx, packages)
	if err != nil {
		return r, err
	}
	for _, l := range b.otherVersions(packages) {
		b.Machine.Shell.Note("%s", l)
	}
	said, err := b.runCargo(ctx, cargo.Clean(b.Tool, b.Line, packages, b.platforms()), io.Discard)
	if err == nil {
		r.Files, r.Bytes = cargo.Cleaned(said)
	}
	return r, err
}

// planRemoval asks cargo what it would remove, and refuses where that is not cargo's own.
func (b *Build) planRemoval(ctx context.Context, packages []string) (Removal, error) {
	r := Removal{Units: []Directory{}}
	if err := b.guard(); err != nil {
		return r, err
	}
	var list bytes.Buffer
	said, err := b.runCargo(ctx, cargo.CleanPlan(b.Tool, b.Line, packages, b.platforms()), &list)
	if err != nil {
		return r, err
	}
	for _, line := range strings.Split(list.String(), "\n") {
		if p := strings.TrimRight(line, "\r"); b.Machine.Host.IsAbs(p) {
			r.paths = append(r.paths, p)
		}
	}
	if err := b.inside(r.paths); err != nil {
		return r, err
	}
	r.Files, r.Bytes = cargo.Cleaned(said)
	r.Units = b.measure(r.paths)
	return r, nil
}

// runCargo runs one of cargo's cleaning commands. What cargo says it waits for is passed on at once; its other words are told
// only with its error.
func (b *Build) runCargo(ctx context.Context, c buildenv.Cmd, stdout io.Writer) (said string, err error) {
	waiting := &waitTeller{tell: func(what string) {
		if strings.Contains(what, "package cache") {
			b.Machine.Shell.Status("Blocking", "%s, which another cargo holds", what)
			return
		}
		b.Machine.Shell.Status("Blocking", "%s: another cargo is at work in %s, and nothing is removed under it", what,
			b.Graph.Places.BuildDirectory)
	}}
	c.Stdout, c.Stderr = stdout, waiting
	_, err = b.Machine.Runner.Run(ctx, c)
	said = waiting.rest()
	if err != nil && said != "" && ctx.Err() == nil {
		err = &cleanFailedError{Words: said, Dir: b.Graph.Places.BuildDirectory, Err: err}
	}
	return said, err
}

// waitTeller passes on "Blocking waiting for file lock on …" as it comes and keeps everything else.
type waitTeller struct {
	tell func(what string)
	line []byte
	kept bytes.Buffer
}

var blocking = regexp.MustCompile(`Blocking(?:\x1b\[[0-9;]*m)* (waiting for .*)`)

func (w *waitTeller) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			w.line = append(w.line, b)
			continue
		}
		if m := blocking.FindSubmatch(w.line); m != nil {
			w.tell(strings.TrimRight(string(m[1]), "\r"))
		} else {
			w.kept.Write(append(w.line, '\n'))
		}
		w.line = w.line[:0]
	}
	return len(p), nil
}

func (w *waitTeller) rest() string {
	w.kept.Write(w.line)
	w.line = nil
	return strings.TrimSpace(w.kept.String())
}

// cleanFailedError is cargo's own word on why it could not remove something.
// What it had not removed yet is still there and still told stale.
type cleanFailedError struct {
	Words, Dir string
	Err        error
}

func (e *cleanFailedError) Error() string {
	return "cargo could not clean " + e.Dir + ":\n" + strings.TrimPrefix(e.Words, "error: ")
}
func (e *cleanFailedError) Unwrap() error { return e.Err }

// Hint says what to do about the commonest reasons.
func (e *cleanFailedError) Hint() string {
	switch {
	case strings.Contains(e.Words, "Read-only file system"), strings.Contains(e.Words, "ermission denied"),
		strings.Contains(e.Words, "Access is denied"):
		return "make " + e.Dir + " one that you may write to, or build into another directory with --target-dir"
	case strings.Contains(e.Words, "No space left"):
		return "free some space on the disk that holds " + e.Dir
	}
	return "nothing that is stale was taken for good; run it again when cargo's reason is gone"
}

// guard refuses to clean where a slip would cost a person more than build products: the root, the home directory and what it lies
// in, and a directory that holds a manifest. It looks at the directories that cargo itself names, through links: a target
// directory that is a link is common and fine, and what it leads to is judged.
func (b *Build) guard() error {
	for _, dir := range b.ownDirs() {
		if why := b.precious(b.Machine.Host.Real(dir)); why != "" {
			return refused(dir, b.Machine.Host.Real(dir), why)
		}
	}
	return nil
}

func refused(dir, real, why string) error {
	at := dir
	if real != dir {
		at += " (" + real + ")"
	}
	return &RefusedError{"nothing is removed in cargo's target directory " + at + ": " + why,
		"give the build a directory of its own: --target-dir, CARGO_TARGET_DIR or build.target-dir"}
}

// ownDirs are the directories that are cargo's own in this build.
func (b *Build) ownDirs() []string {
	p := b.Graph.Places
	if p.TargetDirectory == "" || b.Machine.Host.SamePath(p.TargetDirectory, p.BuildDirectory) {
		return []string{p.BuildDirectory}
	}
	return []string{p.TargetDirectory, p.BuildDirectory}
}

// precious says why a directory, given without links, is none to remove things from; empty when it is not.
func (b *Build) precious(dir string) string {
	h := b.Machine.Host
	home := h.Real(h.Home)
	switch {
	case !h.IsAbs(dir):
		return "it is not an absolute path"
	case h.Dir(dir) == h.Clean(dir):
		return "it is the root of the file system"
	case h.Home != "" && h.SamePath(dir, home):
		return "it is your home directory"
	case h.Home != "" && h.Below(home, dir):
		return "your home directory lies in it"
	case h.IsFile(h.Join(dir, manifest.FileName)):
		return "it holds a " + manifest.FileName + ", so it is a package's own directory"
	}
	return ""
}

// inside refuses when what cargo would remove, or a directory in which it would look for it, lies outside of cargo's own
// directories: a link below them leads there.
func (b *Build) inside(paths []string) error {
	var own []string
	for _, d := range b.ownDirs() {
		own = append(own, b.Machine.Host.Real(d))
	}
	dirs, seen := b.standing(), map[string]bool{}
	for _, p := range paths {
		dirs = append(dirs, b.Machine.Host.Dir(p)) // a link itself goes, not what it leads to
	}
next:
	for _, dir := range dirs {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		if !b.Machine.Host.IsDir(dir) {
			continue // gone since; what is not there cannot be resolved, either
		}
		real := b.Machine.Host.Real(dir)
		for _, o := range own {
			if b.Machine.Host.Below(real, o) {
				continue next
			}
		}
		return &RefusedError{fmt.Sprintf("nothing is removed: %s leads to %s, which is outside of cargo's target directory %s",
			dir, real, strings.Join(own, " and ")),
			"make the target directory itself the link, or set --target-dir"}
	}
	return nil
}

// standing lists cargo's directories of the profile and those directly in them:
// single files go from there without a word in cargo's list.
func (b *Build) standing() []string {
	var out []string
	for _, profile := range b.profileDirs() {
		dirs := []string{profile}
		if t := b.Graph.Places.TargetDirectory; t != "" && b.Machine.Host.Below(profile, b.Graph.Places.BuildDirectory) {
			dirs = append(dirs, b.Machine.Host.Join(t, strings.TrimPrefix(profile, b.Machine.Host.Clean(b.Graph.Places.BuildDirectory))))
		}
		for _, dir := range dirs {
			if b.Machine.Host.IsDir(dir) {
				out = append(out, dir)
			}
			for _, name := range b.Machine.Host.Names(dir) {
				if sub := b.Machine.Host.Join(dir, name); b.Machine.Host.IsDir(sub) {
					out = append(out, sub)
				}
			}
		}
	}
	return out
}

// measure counts what is there of the list and groups it by cargo's units, the largest first.
func (b *Build) measure(paths []string) []Directory {
	units := map[string]*Directory{}
	for _, p := range paths {
		fi, err := os.Lstat(p)
		if err != nil || fi.IsDir() {
			continue // gone since: it is not counted
		}
		at := b.unitPath(p)
		if units[at] == nil {
			units[at] = &Directory{Path: at}
		}
		units[at].Files++
		units[at].Bytes += fi.Size()
	}
	list := make([]Directory, 0, len(units))
	for _, u := range units {
		list = append(list, *u)
	}
	sort.Slice(list, func(a, b int) bool {
		return list[a].Bytes > list[b].Bytes || list[a].Bytes == list[b].Bytes && list[a].Path < list[b].Path
	})
	return list
}

// unitPath is the part of a path down to the unit that cargo keeps it for: <profile>/build/<package>-<hash>,
// <profile>/deps/<file>.
func (b *Build) unitPath(path string) string {
	for _, profile := range b.profileDirs() {
		if !b.Machine.Host.Below(path, profile) {
			continue
		}
		parts := strings.FieldsFunc(strings.TrimPrefix(path, profile), func(r rune) bool { return r == '/' || r == '\\' })
		if len(parts) > 2 {
			parts = parts[:2]
		}
		return b.Machine.Host.Join(append([]string{profile}, parts...)...)
	}
	return path
}

// otherVersions says which packages go along because cargo's clean does not tell versions of a name apart (measured: a version is
// ignored with a warning).
func (b *Build) otherVersions(packages []string) []string {
	versions := map[string]map[string]bool{}
	add := func(name, version string) {
		if versions[name] == nil {
			versions[name] = map[string]bool{}
		}
		versions[name][version] = true
	}
	if g := b.Graph.Units; g != nil { // what cannot be read judge has told
		for _, u := range g.Units {
			id := manifest.ParsePkgID(u.PkgID)
			add(id.Name, id.Version)
		}
	}
	for _, u := range b.Reach.Units { // without a graph: of the others with build scripts that matter
		add(u.Name, u.Version)
	}
	var out []string
	for _, p := range packages {
		if len(versions[p]) < 2 {
			continue
		}
		list := make([]string, 0, len(versions[p]))
		for v := range versions[p] {
			list = append(list, v)
		}
		sort.Strings(list)
		out = append(out, fmt.Sprintf("cargo's clean does not tell versions apart: %s goes in all of %s", p, strings.Join(list, ", ")))
	}
	return out
}

// tellUntold says of which packages nothing is said: without a unit graph their sources are not known.
func (s *State) tellUntold() {
	if len(s.b.Reach.Untold) == 0 {
		return
	}
	s.shell.Warning("%s: `cargo tree` and Cargo.lock do not tell which package that is, so nothing is known of what it was built with",
		strings.Join(s.b.Reach.Untold, ", "))
	s.shell.Hint("after a change of toolkit run " + s.b.cleanLine(s.b.Reach.Untold) +
		", or let cargo be asked for its unit graph (" + s.b.Graph.Reason + ")")
}

// cleanLine is the command with which a person removes packages.
func (b *Build) cleanLine(packages []string) string {
	return "cargo " + strings.Join(cargo.Clean(b.Tool, b.Line, packages, b.platforms()).Args, " ")
}
