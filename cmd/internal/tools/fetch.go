package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/tree"
)

// Plan plans with the pinned wheels, and where none fits or there is no pip with NVIDIA's redistributable archives. Their address is
// the user's word: the flag, or the environment.
func Plan(ctx context.Context, m *session.Machine, want install.Want, redist string) (install.Plan, error) {
	catalog, err := install.DefaultCatalog()
	if err != nil {
		return install.Plan{}, err
	}
	from, err := redistOf(m, redist)
	if err != nil {
		return install.Plan{}, err
	}
	var first error
	noPip := false
	if redist == "" {
		var plan install.Plan
		if plan, first = install.MakePlan(catalog, m.Host, m.CacheDir, want); first == nil {
			first = plan.FindPip(ctx, m.Runner)
		}
		_, noPip = errors.AsType[*install.NoPipError](first)
		_, none := errors.AsType[*install.NoFitError](first)
		tooNew := !want.Exact.IsZero() && !want.MaxVersion.IsZero() && want.Exact.Compare(want.MaxVersion) > 0 // of whatever source
		if first == nil || tooNew || from.Base == "never" || !none && !noPip {
			return plan, first
		}
	}
	plan, err := install.MakeRedistPlan(ctx, catalog, m.Host, m.CacheDir, want, from)
	if ctx.Err() != nil {
		return plan, ctx.Err()
	}
	if err != nil {
		return plan, &install.RedistError{First: first, Err: err}
	}
	switch {
	case plan.Installed:
	case noPip:
		m.Shell.Note("there is no pip here: CUDA %s comes from NVIDIA's redistributable archives", plan.Release)
	case first != nil:
		m.Shell.Note("no wheels of CUDA %s are pinned: it comes from NVIDIA's redistributable archives", plan.Release)
	}
	return plan, nil
}

// redistOf is where the redistributable archives are taken from: the flag, the environment, the user's own configuration.
func redistOf(m *session.Machine, flag string) (install.Redist, error) {
	if flag != "" {
		return install.Redist{Base: flag, Origin: "--redist"}, nil
	}
	if v := m.Host.Env.Get("GPUBUILD_REDIST"); v != "" {
		return install.Redist{Base: v, Origin: "GPUBUILD_REDIST"}, nil
	}
	u, err := User(m.Host)
	return install.Redist{Base: u.Redist, Origin: u.Path}, err
}

// Available lists the releases that can be installed, newest first, each with where it comes from. Where NVIDIA's server does not answer,
// the pinned ones are listed all the same.
func Available(ctx context.Context, m *session.Machine) (list []string, err error) {
	catalog, err := install.DefaultCatalog()
	if err != nil {
		return nil, err
	}
	source, err := redistOf(m, "")
	var archives []string
	if err == nil && source.Base != "never" {
		archives, err = install.Available(ctx, m.Host, source)
	}
	from := map[string]string{}
	for _, r := range archives {
		from[r] = "from NVIDIA's redistributable archives"
	}
	for _, r := range catalog.Releases(install.Platform(m.Host)) {
		from[r] = "by pip"
	}
	for _, r := range slices.SortedFunc(maps.Keys(from), func(a, b string) int { return slices.Compare(gpu.Numbers(b), gpu.Numbers(a)) }) {
		list = append(list, fmt.Sprintf("%-8s %s", r, from[r]))
	}
	return list, err
}

// ToFetch is what toolchain.Choose would take of all that can be fetched.
func ToFetch(f toolchain.Facts, n toolchain.Needs, w toolchain.Wish, os string) install.Want {
	want := install.Want{Refuses: func(v gpu.Version) string { return toolchain.Refuses(f, n, w, v) }}
	d := f.Driver
	if parts := partsFor(n, os); len(parts) > 0 {
		want.Parts = append(install.Default(), parts...)
	}
	limit := func(v gpu.Version, why string) {
		if !v.IsZero() && (want.MaxVersion.IsZero() || v.Compare(want.MaxVersion) < 0) {
			want.MaxVersion, want.MaxBecause = v, why
		}
	}
	switch {
	case !n.Pin.IsZero() && n.Libraries:
		want.Pin = n.Pin
	case n.Pin.IsZero():
		limit(n.CudarcMax, "the newest that the locked "+cmp.Or(n.MaxBy, "cudarc")+" knows")
	}
	if d.Version != "" && n.EmbedsPTX {
		limit(d.CUDA, "the newest that driver "+d.Version+" takes PTX of")
	}
	return want
}

// partsFor lists what the crates need of a toolkit beyond its default parts.
func partsFor(n toolchain.Needs, os string) (parts []string) {
	if n.CUDNN {
		parts = append(parts, "cudnn")
	}
	switch {
	case os == buildenv.Linux:
		parts = append(parts, n.Parts...)
	case os == buildenv.Windows && n.Libraries: // there are no link stubs: the import libraries come with what runs
		parts = append(parts, "run")
	}
	return parts
}

// InstallCommand installs a toolkit that the crates and the machine accept, with the parts that they need; empty: no command does.
func InstallCommand(m *session.Machine, f toolchain.Facts, n toolchain.Needs, w toolchain.Wish) string {
	want := ToFetch(f, n, w, m.Host.OS)
	catalog, err := install.DefaultCatalog()
	if err != nil {
		return ""
	}
	command := func(v gpu.Version) string { return toolchain.InstallCommand(v, partsFor(n, m.Host.OS)...) }
	plan, err := install.MakePlan(catalog, m.Host, m.CacheDir, want)
	var none *install.NoFitError
	switch {
	case err == nil:
		return command(plan.CUDA)
	case errors.As(err, &none) && redist.Platform(install.Platform(m.Host)) != "":
		for _, r := range slices.Backward(cuda.Releases()) {
			if want.Takes(r.Version) && r.Version.Major > 11 { // from NVIDIA's redistributable archives
				return command(r.Version)
			}
		}
	}
	return ""
}

// fetch gets a toolkit into the cache when the crates need one; the flag was the user's consent, unless another forbids it.
func fetch(ctx context.Context, m *session.Machine, l cargo.Line, n toolchain.Needs, f toolchain.Facts, w toolchain.Wish) (string, error) {
	if l.Has("--offline", "--frozen") {
		m.Shell.Note("nothing is fetched (--offline): a toolkit must be installed")
		return "", nil
	}
	if !n.Toolkit() {
		m.Shell.Note("nothing is fetched: these crates need a driver only")
		return "", nil
	}
	plan, err := Plan(ctx, m, ToFetch(f, n, w, m.Host.OS), "")
	if err != nil {
		return "", err
	}
	return Install(ctx, m, plan)
}

// Install says what a plan means, and does it; it answers the toolkit's root.
func Install(ctx context.Context, m *session.Machine, plan install.Plan) (string, error) {
	if !plan.Installed {
		verb := "Fetching"
		for _, l := range plan.Lines() {
			m.Shell.Status(verb, "%s", l)
			verb = ""
		}
	}
	shown := &progress{shell: m.Shell, total: plan.Fetch}
	root, err := plan.Run(ctx, m.Runner, shown.show)
	if shown.end(); err != nil && ctx.Err() != nil && shown.fetched {
		m.Shell.Note("files that were downloaded completely are kept: the next install continues with them")
	}
	return root, err
}

// progress shows an installation: each step and each file on a line, and on a terminal a bar over all files.
type progress struct {
	shell   *console.Shell
	total   int64 // bytes to download
	before  int64 // those of the files before the current one
	size    int64 // of the current file
	fetched bool
	set     func(int64)
	finish  func()
}

func (p *progress) show(e tree.Event) {
	switch {
	case e.Total == 0:
		p.end()
		p.shell.Status("Installing", "%s", e.Text)
	case e.Done == 0:
		p.before, p.size, p.fetched = p.before+p.size, e.Total, true
		if !p.shell.ErrTerminal {
			p.shell.Status("Fetching", "%s (%s)", e.Text, tree.Size(e.Total))
		} else if p.set == nil {
			p.set, p.finish = p.shell.Download(p.total)
		}
	case p.set != nil:
		p.set(p.before + e.Done)
	}
}

func (p *progress) end() {
	if p.finish != nil {
		p.finish()
		p.set, p.finish = nil, nil
	}
}
