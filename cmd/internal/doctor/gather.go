package doctor

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/runs"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/hostcc"
)

// Options say what the machine is to be good for.
type Options struct {
	Tools tools.Options // the toolkit, the architecture and the compiler that the user asks for
	Prove bool          // proofs, too
}

// OfProject is what the crates of the project need, where there is one and what it needs can be found out.
func OfProject(ctx context.Context, m *session.Machine) (Facts, error) {
	f := Facts{}
	l, _, err := cargo.Split([]string{"build"}, nil)
	if err == nil {
		_, _, _, err = f.lookAtProject(ctx, m, l)
	}
	return f, err
}

// lookAtProject fills in what cargo and the project's files say, and answers with the cargo, the line, which may have got a feature, and
// the project.
func (f *Facts) lookAtProject(ctx context.Context, m *session.Machine, l cargo.Line) (cargo.Tool, cargo.Line, reach.Judged, error) {
	tool := f.findCargo(ctx, m, l)
	p := reach.Judged{Session: session.WithoutProject(m),
		Reach: &features.Reach{Needs: features.Needs{CUDA: true, NVCC: true, HostCXX: true}}}
	f.NoProject.Why = "there is no cargo to ask"
	if f.Cargo != "" {
		opened, err := f.open(ctx, m, l)
		if own := ownFeature(m, l); own != "" && (err != nil || !opened.Reach.Needs.CUDA) {
			if l, err = l.Change(cargo.Change{Features: []string{own}}); err != nil {
				return tool, l, p, err
			}
			f.Assumed = own
			opened, err = f.open(ctx, m, l)
		}
		if errors.Is(err, context.Canceled) {
			return tool, l, p, err
		}
		if err == nil {
			p = opened
			p.Session.WarnUnmatched()
			f.Project, f.ProjectName = m.Shown(p.Session.Project.Manifest), p.Session.Project.Name()
			if f.Needs = tools.LikelyNeeds(p.Reach); f.OnlyManifests() {
				f.takeNamed(p)
			}
			if p.Reach.Stops {
				at := slices.IndexFunc(p.Reach.Findings, func(f features.Finding) bool { return f.Severity == features.Error })
				fix := "gpubuild " + buildenv.Words(m.Host.OS, p.Session.Line.As("features", "--fix")...)
				stop := p.Reach.Findings[max(at, 0)]
				if stop.ID == features.IDFileCPU { // no line of a manifest helps
					fix = stop.Fix
				}
				f.Stops = &Stop{stop.Finding, fix}
			}
		} else {
			f.notOpened(err)
		}
	}
	return tool, l, p, nil
}

// Gather finds out what the checks look at. A part that cannot be found out is a fact, too: doctor completes on a bare machine.
func Gather(ctx context.Context, m *session.Machine, l cargo.Line, o Options) (Facts, error) {
	f := Facts{Prove: o.Prove, WSL: m.Host.IsWSL(), Host: m.Host, Cache: m.CacheDir}
	if m.NoCache != nil {
		f.NoCache = reasonOf(m.NoCache)
	}
	if _, err := tools.User(m.Host); err != nil { // all else is looked at without it
		f.BadConfig = reasonOf(err)
		without := *m
		without.Host.Env = m.Host.Env.Set(config.UserVariable, os.DevNull)
		m = &without
	}
	f.Needs = toolchain.Needs{CUDA: true, NVCC: true, HostCompiler: true}
	tool, l, p, err := f.lookAtProject(ctx, m, l)
	if err != nil {
		return f, err
	}
	if t := o.Tools.Toolkit; t == "fetch" || t == "" && m.Host.Env.Get("GPUBUILD_CUDA") == "fetch" {
		return f, &exit.UsageError{What: "doctor fetches nothing", Fix: "gpubuild toolchain install"}
	}
	s, wanted := p.Session.With(l), o.Tools
	wanted.Cargo = tool
	wanted.BuiltFor = fresh.BuiltFor(fresh.Build{Machine: m, Line: l, Graph: p.Graph, Reach: p.Reach, Named: s.Config.GPUPackages.Value})
	found, err := tools.Discover(ctx, s, p.Graph, p.Reach, wanted)
	if err != nil {
		return f, err
	}
	given := o.Tools
	given.Arch = "" // a fix names another one
	f.Command = "gpubuild " + buildenv.Words(m.Host.OS, append(l.As("build"), given.Flags("--gpu-")...)...)
	f.Toolchain, f.Notes = found.Facts, found.DriverNotes
	f.Pinned = tools.NewerThanDriver(found.Facts.Driver.CUDA, p.Reach.Cudarc)
	f.NoArchive = p.Reach.NoArchive
	f.Install = tools.InstallCommand(m, found.Facts, f.Needs, found.Wish)
	if f.OnlyManifests() && f.Install != "" && found.Wish.CUDA == "" { // a locked cudarc may not know the newest CUDA
		f.Install = f.Command + " --gpu-toolkit=fetch"
	}
	f.Needs.Reads = tools.Readers(p.Graph, p.Reach)
	f.Chosen, f.ChooseErr = tools.Working(ctx, m, found.Guard.Over(m.Runner), f.Toolchain, f.Needs, found.Wish)
	if refused := found.Guard.Check(f.Chosen); refused != nil {
		return f, refused
	}
	if err := tools.AbsentTools(found.Host, p.Graph, p.Reach, func(string) bool { return false }); err != nil {
		f.NoBuildTools = reasonOf(err)
	}
	first := f.Chosen.Toolkit
	if t, err := toolchain.First(f.Toolchain.Toolkits, found.Wish.CUDA); first == nil && o.Tools.Toolkit != "" && err == nil {
		first = &t
	}
	usable := proof.Toolkits(m, first)
	running := usable // what builds without a toolkit may need one to run
	if f.ChooseErr != nil {
		running = nil
	}
	f.Run = runTime(ctx, m, proof.Opened(m.Host, f.Chosen.Toolkit, p.Reach.Needs.Run), running)
	if all := proof.CUPTIs(usable); len(all) > 0 {
		f.CUPTI = all[0]
	}
	f.Carried = probe.Carried(f.Host.OS)
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
	f.Vulkan = lookAtVulkan(ctx, m, p.Reach)
	f.Programs, err = builtPrograms(m, l, p, proof.Targets(m.Host, f.Toolchain.Driver, f.Toolchain.Devices))
	return f, err
}

// builtPrograms answers for the programs that are built already whether their device code runs on the GPUs here.
func builtPrograms(m *session.Machine, l cargo.Line, p reach.Judged, gpus []runs.Target) (out []Program, err error) {
	for _, dir := range builddir.Profiles(m.Host, p.Graph.Places.TargetDirectory, l.ProfileName(), l.Target) {
		for _, root := range p.Reach.Roots {
			file := m.Host.Join(dir, root.Target) + map[string]string{buildenv.Windows: ".exe"}[m.Host.OS]
			if root.Kind != "bin" || root.Mode != "build" || len(gpus) == 0 || gpus[0].Driver == "" || !m.Host.IsFile(file) {
				continue
			}
			r, err := proof.Scan(m, file)
			if err != nil {
				return nil, err
			}
			on, err := proof.RunsOn(m, file, r, gpus, true)
			if err != nil {
				return nil, err
			}
			out = append(out, Program{m.Shown(file), on})
		}
	}
	return out, nil
}

// open opens the project, which need not have a Cargo.lock yet, nor dependencies that were ever fetched: its first build writes the one
// and fetches the others.
func (f *Facts) open(ctx context.Context, m *session.Machine, l cargo.Line) (reach.Judged, error) {
	var refused *cargo.RefusedError
	if !f.OnlyManifests() { // else cargo is not asked again: each attempt updates its index, and takes many seconds without a network
		opened, err := reach.Open(ctx, m, l, reach.Options{Places: true})
		if errors.As(err, &refused) {
			f.NoLock, f.Unfetched = refused.Locked, refused.Unfetched
		}
		if !f.OnlyManifests() {
			return opened, err
		}
	}
	list, err := reach.FromManifests(ctx, m, l, nil)
	if err != nil {
		return reach.Judged{}, err
	}
	f.NoLock = !list[0].Session.Project.HasLock
	if !f.OnlyManifests() { // a lock file that is out of date: cargo before 1.85 says so of a missing one, too
		return reach.Judged{}, refused
	}
	return list[0], nil
}

// takeNamed takes what the GPU crates in the manifests may need as needed. Without cargo's graph nobody knows more: one is taken
// to compile kernels, unless only other backends of it are asked for.
func (f *Facts) takeNamed(p reach.Judged) {
	var n toolchain.Needs
	asked := manifest.ParseRequest(p.Session.Request())
	for _, m := range p.Session.Project.Members {
		_, edges := m.Closure(asked.Of(m))
		for _, d := range m.Dependencies {
			c, on := catalog.Default().Crate(d.Package), slices.Clone(d.Features)
			for _, e := range edges {
				if e.Dep == d.Key {
					on = append(on, e.Feature)
				}
			}
			if c.CUDA() || c != nil && c.Backend == "rocm" {
				n.ROCm = n.ROCm || slices.Contains(append(c.Other(on), c.Backend), "rocm")
				n.CUDA = n.CUDA || c.CUDA() && (len(c.Other(on)) == 0 || c.On(on))
				n.NVCC, n.HostCompiler = n.CUDA, n.CUDA
				f.Needs = n
			}
		}
	}
}

// TryCache makes the cache's directory.
func (f *Facts) TryCache() {
	if err := cache.Make(f.Cache); err != nil && f.NoCache.Why == "" {
		f.Unkept = reasonOf(err)
	}
}

// rustupFix is the command that rustup's proxy names where it has no cargo to start.
var rustupFix = lazyregexp.New(`rustup (default|toolchain install) [\w.-]+`)

// findCargo finds cargo, its version, and what it builds for.
func (f *Facts) findCargo(ctx context.Context, m *session.Machine, l cargo.Line) cargo.Tool {
	tool, err := cargo.Find(m.Host, l)
	if err != nil {
		f.NoCargo, f.Unread = reasonOf(err), errors.Is(err, buildenv.ErrUnbounded)
	} else if res, err := m.Runner.Run(ctx, cargo.Version(tool, l)); err != nil {
		f.NoCargo = Reason{err.Error(), rustupFix.FindString(string(res.Stderr))}
	} else if v, ok := cargo.ParseVersion(res.Stdout); ok {
		f.Cargo = v.Text + " (" + tool.Origin + " " + tool.Path + ")"
		f.Target = v.Host
	}
	if len(l.Target) > 0 {
		f.Target = cargo.Triple(l.Target[0], f.Target)
	}
	return tool
}

// ownFeature is the feature that a GPU build of the project needs and the command line does not ask for: the build without it is no test of
// the machine. Empty: there is none, or features are asked for.
func ownFeature(m *session.Machine, l cargo.Line) string {
	if len(l.Features) > 0 || l.AllFeatures {
		return ""
	}
	s, err := session.Open(m, l)
	if err != nil {
		return "" // and so says whoever asks cargo
	}
	selected, _ := s.Project.Selection(s.Request())
	asked := manifest.ParseRequest(s.Request())
	for _, want := range []func(string) bool{
		func(f string) bool { return f == "cuda" },
		func(f string) bool { return !strings.Contains(f, "cudnn") && asked.IsCUDA(f) },
		func(f string) bool { return f == "rocm" || f == "hip" },
	} {
		for _, pkg := range selected {
			for _, f := range slices.Sorted(maps.Keys(pkg.Features)) {
				if want(f) {
					return f
				}
			}
		}
	}
	return ""
}

// notOpened says why there is no project to look at.
func (f *Facts) notOpened(err error) {
	if errors.Is(err, manifest.ErrNotFound) {
		f.NoProject.Why = err.Error()
		return
	}
	f.NoProject, f.ProjectBad = Reason{withoutPasswords(err.Error()), exit.Hint(err)}, true
	refused, ok := errors.AsType[*cargo.RefusedError](err)
	if ok && f.NoProject.Fix == "" && strings.Contains(string(refused.Stderr), "--> ") {
		f.NoProject.Fix = "correct the line that cargo shows"
	}
}

// urlUser is the user and the password of a URL.
var urlUser = lazyregexp.New(`\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]+@`)

// withoutPasswords is cargo's text as a bug report may hold it: cargo repeats the address of a git dependency with its password.
func withoutPasswords(text string) string { return urlUser.ReplaceAllString(text, "${1}…@") }
