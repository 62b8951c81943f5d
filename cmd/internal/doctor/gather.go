package doctor

import (
	"context"
	"errors"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/saved"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/hostcc"
)

// Options say what the machine is to be good for.
type Options struct {
	Tools tools.Options // the toolkit, the architecture and the compiler that the user asks for
	Prove bool          // proofs, too
}

// Gather finds out what the checks look at. A part that cannot be found out is a fact, too: doctor completes on a bare machine.
func Gather(ctx context.Context, m *session.Machine, l cargo.Line, o Options) (Facts, error) {
	f := Facts{Prove: o.Prove, WSL: m.Host.IsWSL(), Host: m.Host, Cache: m.CacheDir}
	tool := f.findCargo(ctx, m, l)
	f.Needs = toolchain.Needs{CUDA: true, NVCC: true, HostCompiler: true}
	p := featurecheck.Judged{
		Session: &session.Session{Machine: m},
		Answer:  &features.Answer{Needs: features.Needs{CUDA: true, NVCC: true, HostCXX: true}},
	}
	f.ProjectWhy = "there is no cargo to ask"
	if f.Cargo != "" {
		opened, err := featurecheck.Open(ctx, m, l, featurecheck.Options{Places: true})
		if errors.Is(err, context.Canceled) {
			return f, err
		}
		if err == nil {
			p = opened
			f.Project, f.Needs = m.Shown(p.Session.Project.Manifest), tools.NeedsOf(p.Answer)
		} else {
			f.notOpened(m, err)
		}
	}
	if t := o.Tools.Toolkit; t == "fetch" || t == "" && m.Host.Env.Get("GPUBUILD_CUDA") == "fetch" {
		return f, &exit.UsageError{What: "doctor fetches nothing", Fix: "gpubuild toolchain install"}
	}
	s, wanted := p.Session.With(l), o.Tools
	wanted.BuiltFor = fresh.BuiltFor(m, p.Graph.Places)
	_, wanted.NoMemory = m.Runner.(hearing) // what is saved of a machine is what its programs say
	found, err := tools.Discover(ctx, s, p.Graph, f.Needs, wanted)
	if err != nil {
		return f, err
	}
	f.Toolchain, f.Notes = found.Facts, found.DriverNotes
	f.FreeDisk = freeDisk(m, p)
	f.Chosen, f.ChooseErr = toolchain.Choose(f.Toolchain, f.Needs, found.Wish)
	var notes []string
	f.RunLibraries, f.RunDirs, notes = runLibraries(m, p.Answer, f.Chosen)
	for _, n := range notes {
		m.Shell.Detail("%s", n)
	}
	f.CUPTI = proof.PickCUPTI(proof.Toolkits(m, f.Chosen.Toolkit), f.Toolchain.Driver.CUDA)
	for _, c := range f.Toolchain.Compilers {
		if c.Problem == "" && f.Compiler == "" && c.Kind != hostcc.MSVC {
			f.Compiler = c.Named()
		}
	}
	if f.Toolchain.MSVC != nil {
		if c, ok := proof.VisualCompiler(m.Host, *f.Toolchain.MSVC); ok {
			f.Compiler = c.Path
		}
	}
	f.StubsOn = stubsOnPath(m)
	f.Linked = tools.LinkedLibraries(p.Answer)
	f.Unlinkable = tools.Unlinkable(s, tool, p.Answer, f.Chosen, m.Host.Env)
	return f, nil
}

// TryCache makes the cache's directory: a project may not have been looked at, or only parts of the cache.
func (f *Facts) TryCache() {
	if err := cache.Make(f.Cache); err != nil && f.CacheWhy == "" {
		f.CacheWhy, f.CacheFix = err.Error(), exit.Hint(err)
	}
}

// findCargo finds cargo, its version, and what it builds for.
func (f *Facts) findCargo(ctx context.Context, m *session.Machine, l cargo.Line) cargo.Tool {
	tool, err := cargo.Find(m.Host, l)
	if err != nil {
		f.CargoWhy, f.CargoFix = err.Error(), exit.Hint(err)
	} else if res, err := m.Runner.Run(ctx, cargo.Version(tool, l)); err != nil {
		f.CargoWhy = err.Error()
	} else if v, ok := cargo.ParseVersion(res.Stdout); ok {
		f.Cargo = v.Text + " (" + tool.Origin + " " + tool.Path + ")"
		f.Target = v.Host
	}
	if len(l.Target) > 0 {
		f.Target = cargo.Triple(l.Target[0], f.Target)
	}
	return tool
}

// notOpened says why there is no project to look at.
func (f *Facts) notOpened(m *session.Machine, err error) {
	var none *manifest.NotFoundError
	if errors.As(err, &none) {
		f.ProjectWhy = err.Error()
		return
	}
	// In cargo's words, which repeat the address of a git dependency with its password.
	f.ProjectWhy, f.ProjectFix, f.ProjectBad = saved.Text(m.Host.Env, err.Error()), exit.Hint(err), true
	var unwritable *cache.ReadOnlyError
	var open *cache.OpenError
	switch {
	case errors.As(err, &unwritable):
		f.CacheWhy, f.CacheFix = unwritable.Error(), unwritable.Hint()
	case errors.As(err, &open):
		f.CacheWhy, f.CacheFix = open.Error(), open.Hint()
	default:
		return
	}
	f.ProjectWhy, f.ProjectFix = "cargo's answers have no place (see cache)", ""
}

// freeDisk looks at the file system on which cargo will build.
func freeDisk(m *session.Machine, p featurecheck.Judged) uint64 {
	dir := m.Host.Cwd
	if p.Session.Project != nil {
		dir = p.Session.Project.Root
	}
	if built := p.Graph.Places.BuildDirectory; built != "" && m.Host.IsDir(built) {
		dir = built
	}
	return local.FreeSpace(dir)
}
