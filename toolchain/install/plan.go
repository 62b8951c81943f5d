package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/install/wheel"
)

// Want is what a caller asks for.
type Want struct {
	Parts      []string                 // groups or parts; empty: Default
	MaxVersion gpu.Version              // newest version that the driver and the locked crates allow; zero: no limit
	MaxBecause string                   // whose limit that is, for Plan.Lines: "the driver supports CUDA 13.0"
	Exact      gpu.Version              // that very version; zero: the newest that fits
	Release    string                   // as it was asked for, where those are not two numbers: 13.2.1, or 13 for the newest of that major version
	Refuses    func(gpu.Version) string // why the machine or the crates do not take a version; empty: they do
	Pin        gpu.Version              // that version or a later one of the same major: what a feature of cudarc fixes its bindings to; zero: any
}

// asked is the version as the user wrote it.
func (w Want) asked() string { return cmp.Or(w.Release, w.Exact.String()) }

// refuses says why a release may not be taken; empty: it may.
func (w Want) refuses(v gpu.Version, release string) string {
	switch {
	case w.Release != "" && !strings.HasPrefix(release+".", w.Release+"."), w.Release == "" && !w.Exact.IsZero() && v != w.Exact:
		return fmt.Sprintf(" is not the %s asked for", w.asked())
	case !w.MaxVersion.IsZero() && v.Compare(w.MaxVersion) > 0 && w.MaxBecause != "":
		return fmt.Sprintf(" is newer than %s (%s)", w.MaxVersion, w.MaxBecause)
	case !w.MaxVersion.IsZero() && v.Compare(w.MaxVersion) > 0:
		return fmt.Sprintf(" is newer than %s, the newest that may be used here", w.MaxVersion)
	case !w.Pin.IsZero() && (v.Major != w.Pin.Major || v.Compare(w.Pin) < 0):
		return fmt.Sprintf(" has not all of what a feature fixes cudarc's bindings to (CUDA %d from %s on)", w.Pin.Major, w.Pin)
	case w.Refuses != nil:
		if why := w.Refuses(v); why != "" {
			return ": " + why
		}
	}
	return ""
}

// Takes reports whether a version may be taken.
func (w Want) Takes(v gpu.Version) bool { return w.refuses(v, v.String()) == "" }

// Redist says where the redistributables are taken from. The user names it, or it is NVIDIA's own server; never a cloned repository.
type Redist struct {
	Base   string // URL or directory; empty: redist.Home
	Origin string // who named it, for Plan.Lines
}

// Plan is what Run will do.
type Plan struct {
	Root      string // where the toolkit will be, or is
	Installed bool   // all of it is there already: Run has nothing to do
	CUDA      gpu.Version
	Release   string // 13.4.3
	Platform  string // linux-x86_64
	Items     []Item // what is added
	Fetch     int64  // bytes to fetch
	Disk      int64  // bytes on disk once it is installed
	Licences  []Licence
	Notes     []string // why newer versions were rejected

	adds   bool           // a toolkit is there, and the items are what it lacks
	source *redist.Source // nil: pip fetches wheels
	origin string         // who named the source
	host   buildenv.Host
	cache  string
}

// Item is one archive of a plan.
type Item struct {
	tree.Archive
	Have string // a file of that name and size, to be checked; empty: it will be fetched
}

// Platform names the host as the pins do: linux-x86_64.
func Platform(h buildenv.Host) string {
	return h.OS + "-" + cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[h.Arch], h.Arch)
}

// offer is a release that could be installed.
type offer struct {
	cuda     gpu.Version
	release  string
	archives []tree.Archive
	rejected []string // newer ones, and why
	source   *redist.Source
	origin   string
}

// store is what the cache has.
type store struct {
	host      buildenv.Host
	cache     string
	installed []Installation
	have      func(tree.Archive) string // a file of an archive's name and size, or ""
}

// MakePlan picks the newest set of wheels that fits and says what installing it means. It changes nothing.
func MakePlan(c *Catalog, h buildenv.Host, cacheDir string, w Want) (Plan, error) {
	parts, err := c.expand(Platform(h), w.Parts)
	if err != nil {
		return Plan{}, err
	}
	set, rejected := c.choose(Platform(h), parts, w)
	if set == nil {
		return Plan{}, &NoFitError{Platform: Platform(h), Want: w, Newest: c.Sets[0].CUDA, Pinned: c.Releases(Platform(h)),
			Losers: rejected}
	}
	o := offer{cuda: set.CUDA, release: set.Release, rejected: rejected}
	for _, part := range parts {
		if a := set.Platform[Platform(h)][part]; a.File != "" {
			o.archives = append(o.archives, a)
		}
	}
	return decide(c, w, o, openStore(h, cacheDir, nil))
}

// MakeRedistPlan plans to take a toolkit from NVIDIA's redistributable archives: CUDA 12, of which no wheel has nvcc, releases of
// CUDA 13 that are not pinned, and all of them where there is no pip. It reads the index over the network, so the caller has the user's
// consent already. If a toolkit that fits is installed, nothing is read.
func MakeRedistPlan(ctx context.Context, c *Catalog, h buildenv.Host, cacheDir string, w Want, from Redist) (Plan, error) {
	parts, err := c.expand(Platform(h), w.Parts)
	if err != nil {
		return Plan{}, err
	}
	platform := redist.Platform(Platform(h))
	none := &NoFitError{Platform: Platform(h), Want: w}
	if platform == "" {
		return Plan{}, none
	}
	for _, in := range Installed(h, cacheDir) {
		has := !slices.ContainsFunc(parts, func(p string) bool { return redist.Component(p, in.CUDA) != "" && !in.Has(p) })
		if in.Platform == Platform(h) && w.refuses(in.CUDA, in.Release) == "" && has &&
			(w.Release == "" || strings.Contains(w.Release, ".")) { // of 13 the newest is asked for
			return decide(c, w, offer{cuda: in.CUDA, release: in.Release}, openStore(h, cacheDir, nil))
		}
	}
	if from.Base == "" {
		from = Redist{Base: redist.Home, Origin: "NVIDIA's server"}
	}
	source, err := redist.Open(h, from.Base)
	if err != nil {
		return Plan{}, err
	}
	releases, err := source.Releases(ctx)
	if err != nil {
		return Plan{}, err
	}
	for _, r := range releases {
		why := w.refuses(r.CUDA(), r.String())
		switch {
		case !w.Exact.IsZero() && why != "":
			continue
		case why != "":
			none.Losers = append(none.Losers, "CUDA "+r.String()+why)
			continue
		case len(none.Losers) > 20:
			return Plan{}, none
		}
		archives, err := source.Archives(ctx, r, platform, parts)
		if bad, is := errors.AsType[*redist.IndexError](err); is && w.Exact.IsZero() {
			none.Losers = append(none.Losers, bad.Error())
			continue
		}
		if err != nil {
			return Plan{}, err
		}
		for i := range archives {
			archives[i].Licence = c.part(archives[i].Part).Licence
		}
		o := offer{cuda: r.CUDA(), release: r.String(), archives: archives, rejected: none.Losers, source: source, origin: from.Origin}
		return decide(c, w, o, openStore(h, cacheDir, source))
	}
	if len(releases) > 0 {
		none.Newest = releases[0].CUDA()
	}
	return Plan{}, none
}

// openStore looks into the cache, and into a source that is a directory.
func openStore(h buildenv.Host, cacheDir string, source *redist.Source) store {
	return store{h, cacheDir, Installed(h, cacheDir), func(a tree.Archive) string {
		files := []string{h.Join(cacheDir, wheelsDir, a.File)}
		if source != nil {
			files = append(files, source.File(a.Path)) // empty, of a server
		}
		for _, file := range files {
			if fi, err := h.Files.Stat(file); err == nil && fi.Mode().IsRegular() && fi.Size() == a.Size {
				return file
			}
		}
		return ""
	}}
}

// decide says what installing a release means. It is pure but for the store's have.
func decide(c *Catalog, w Want, o offer, s store) (Plan, error) {
	p := Plan{CUDA: o.cuda, Release: o.release, Platform: Platform(s.host), source: o.source, origin: o.origin,
		host: s.host, cache: s.cache}
	if w.Exact.IsZero() { // else the user knows why
		p.Notes = o.rejected
	}
	p.Root = s.host.Join(s.cache, toolkitsDir, fmt.Sprintf("cuda-%s-%s", p.CUDA, p.Platform))
	var have Installation
	is := func(in Installation) bool { return in.CUDA == p.CUDA && in.Platform == p.Platform }
	if i := slices.IndexFunc(s.installed, is); i >= 0 {
		have, p.Root, p.adds = s.installed[i], s.installed[i].Root, true
	}
	if p.adds && strings.Contains(w.Release, ".") && have.Release != o.release {
		return p, exit.Errorf(exit.Misfit, "gpubuild toolchain remove "+p.CUDA.String(),
			"CUDA %s is installed as %s, and there is one toolkit of each version", p.CUDA, have.Release)
	}
	seen := map[string]bool{}
	for _, a := range o.archives {
		if have.Has(a.Part) {
			continue
		}
		it := Item{a, s.have(a)}
		p.Items = append(p.Items, it)
		if it.Have == "" {
			p.Fetch += it.Size
		}
		p.Disk += it.Unpacked
		if !seen[a.Licence] {
			seen[a.Licence] = true
			p.Licences = append(p.Licences, c.Licences[a.Licence])
		}
	}
	p.Installed = p.unneeded(have)
	return p, nil
}

// unneeded reports whether a toolkit has all that the plan would add.
func (p Plan) unneeded(in Installation) bool {
	return in.Schema > 0 && in.Problem == "" && (in.LinkStubs || p.host.OS != buildenv.Linux) &&
		!slices.ContainsFunc(p.Items, func(it Item) bool { return !in.Has(it.Part) })
}

// with is what the marker of a toolkit will say.
func (p Plan) with(in Installation) Installation {
	if in.Schema == 0 {
		in = Installation{CUDA: p.CUDA, Release: p.Release, Platform: p.Platform}
	}
	in.LinkStubs = p.host.OS == buildenv.Linux
	in.Parts = slices.Clone(in.Parts)
	for _, it := range p.Items {
		in.Parts = slices.DeleteFunc(in.Parts, func(old tree.InstalledPart) bool { return old.Name == it.Part })
		in.Parts = append(in.Parts,
			tree.InstalledPart{Name: it.Part, Package: it.Package, Version: it.Version, SHA256: it.SHA256, Licence: it.Licence})
	}
	return in
}

// FindPip returns a *NoPipError if the plan needs pip and there is none.
func (p Plan) FindPip(ctx context.Context, run buildenv.Runner) error {
	fetches := slices.ContainsFunc(p.Items, func(it Item) bool { return it.Have == "" })
	if p.Installed || !fetches || p.source != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "gpubuild-pip-") // an empty directory: nothing there can pass for a module
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_, err = wheel.Find(ctx, p.host, run, dir)
	return err
}

// Lines says for a person what Run would do: what, how large, under whose licence, where to.
func (p Plan) Lines() []string {
	if p.Installed {
		return []string{fmt.Sprintf("CUDA %s is already in %s", p.Release, p.Root)}
	}
	by, about := "by your own pip", ""
	if p.source != nil {
		by, about = "from "+p.source.Show("")+" ("+p.origin+")", "about "
	}
	first := fmt.Sprintf("CUDA %s for %s: fetch %s %s, %s%s on disk",
		p.Release, p.Platform, tree.Size(p.Fetch), by, about, tree.Size(p.Disk))
	lines := []string{first}
	for _, it := range p.Items {
		from := tree.Size(it.Size)
		if it.Have != "" {
			from = "have it"
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", it, from))
	}
	for _, l := range p.Licences {
		lines = append(lines, fmt.Sprintf("licence: %s, %s", l.Name, l.URL))
	}
	lines = append(lines, "into "+p.Root)
	for _, n := range p.Notes {
		lines = append(lines, "not taken: "+n)
	}
	return lines
}

// kept is where a fetched archive stays until the toolkit is complete.
func (p Plan) kept(a tree.Archive) string { return filepath.Join(p.cache, wheelsDir, a.File) }

// NoPipError is the error for which a caller falls back to the redistributables.
type NoPipError = wheel.NoPipError

// NoFitError says that no pinned set may be used here, and why each one lost.
type NoFitError struct {
	Platform string
	Want     Want
	Newest   gpu.Version // that can be fetched; zero: not known
	Pinned   []string    // what pip can fetch
	Losers   []string    // one line a set
}

func (e *NoFitError) Error() string {
	what := "no CUDA toolkit to fetch"
	if !e.Want.Exact.IsZero() {
		what = "no CUDA " + e.Want.asked() + " to fetch"
	}
	if len(e.Losers) == 0 {
		return what + " for " + e.Platform
	}
	return what + " for " + e.Platform + ":\n  " + strings.Join(e.Losers, "\n  ")
}

// ExitCode is exit.Usage for a version that is nowhere, and exit.Misfit for one that something here does not allow.
func (e *NoFitError) ExitCode() int {
	if exact := e.Want.Exact; !exact.IsZero() && (e.Want.MaxVersion.IsZero() || exact.Compare(e.Want.MaxVersion) <= 0) {
		return exit.Usage
	}
	return exit.Misfit
}

func (e *NoFitError) Hint() string {
	exact, limit := e.Want.Exact, e.Want.MaxVersion
	switch {
	case !limit.IsZero() && exact.Compare(limit) > 0:
		return fmt.Sprintf("ask for CUDA %s or older, or update the driver and the crates that set this limit", limit)
	case !limit.IsZero() && limit.Major < 13:
		return fmt.Sprintf("fetch CUDA %s from NVIDIA's redistributable archives (gpubuild toolchain install %[1]s), "+
			"install it by NVIDIA's installer and name it with --gpu-toolkit, or update the driver", limit)
	case !exact.IsZero() && !e.Newest.IsZero() && len(e.Losers) == 0:
		return fmt.Sprintf("the newest is CUDA %s: gpubuild toolchain install %[1]s", e.Newest)
	case len(e.Losers) == 0:
		return "install CUDA by NVIDIA's installer and name its directory with --gpu-toolkit"
	}
	if e.Want.Refuses != nil && !e.Newest.IsZero() {
		return fmt.Sprintf("change what the newest line says; `gpubuild toolchain install %s` installs that one all the same", e.Newest)
	}
	return "ask for one of the versions listed"
}

// RedistError says that NVIDIA's redistributables did not help where pip could not.
type RedistError struct {
	First error // why the wheels were not taken; nil: they were not asked for
	Err   error
}

func (e *RedistError) Error() string {
	if e.First == nil {
		return e.Err.Error()
	}
	var wheels, archives *NoFitError
	if errors.As(e.First, &wheels) && errors.As(e.Err, &archives) && len(wheels.Losers)+len(archives.Losers) == 0 {
		return e.First.Error() // neither has such a version
	}
	var fetch *redist.FetchError
	if errors.As(e.First, &wheels) && len(wheels.Losers) == 0 && errors.As(e.Err, &fetch) && fetch.Offline {
		return fmt.Sprintf("%v\n  pip has %s\n  NVIDIA's redistributable archives, which have others, cannot be reached: %s",
			e.First, cmp.Or(strings.Join(wheels.Pinned, ", "), "none"), fetch.Address)
	}
	return e.First.Error() + "\nand of NVIDIA's redistributable archives: " + e.Err.Error()
}

func (e *RedistError) Unwrap() []error { return []error{e.First, e.Err} }

// ExitCode is that of what the archives answered: where they cannot be reached, nothing is known of the version.
func (e *RedistError) ExitCode() int { return exit.Of(e.Err) }

func (e *RedistError) Hint() string {
	var none, wheels *NoFitError
	var hinted interface{ Hint() string }
	if errors.As(e.Err, &none) && len(none.Losers) == 0 && e.First != nil && errors.As(e.First, &hinted) || errors.As(e.Err, &hinted) {
		if pip, is := errors.AsType[*NoPipError](e.First); is {
			return "install pip (" + pip.Install + "); or " + hinted.Hint()
		}
		if errors.As(e.First, &wheels) && len(wheels.Losers) == 0 && none == nil {
			return "ask for one that pip has; or " + hinted.Hint()
		}
		return hinted.Hint()
	}
	return "name another place by --redist or GPUBUILD_REDIST"
}
