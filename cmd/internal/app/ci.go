package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/install"
)

func runCI(a *app, ctx context.Context, o Options, l cargo.Line) error {
	a.speakLike(l)
	if len(l.Features) > 0 || l.AllFeatures || l.NoDefault {
		return &usageError{"ci takes no features: its rows have their own", "name feature sets in [matrix] of gpubuild.toml"}
	}
	word, rest := "matrix", []string(nil)
	if len(l.Positional) > 0 {
		word, rest = l.Positional[0], l.Positional[1:]
	}
	switch {
	case word == "matrix" && len(rest) == 0:
		return a.ciMatrix(ctx, o, l)
	case word == "run" && len(rest) == 1:
		return a.ciRun(ctx, o, l, rest[0])
	case word == "init" && len(rest) == 1:
		return a.ciInit(o, l, rest[0])
	case word == "run" && len(rest) == 0:
		return &usageError{"ci run needs the row", "gpubuild ci matrix lists the rows"}
	case word == "init" && len(rest) == 0:
		return &usageError{"ci init needs to know for whom", "gpubuild ci init github, or gpubuild ci init gitlab"}
	}
	return &usageError{fmt.Sprintf("ci does not understand %q", strings.Join(l.Positional, " ")), "gpubuild ci matrix, gpubuild ci run ROW, or gpubuild ci init github|gitlab"}
}

// ciPlan is a project's matrix, and what its rows are judged by.
type ciPlan struct {
	*journey
	matrix   ci.Matrix
	said     *config.Matrix
	catalog  *install.Catalog
	machines *ci.Machines
	loads    map[string]featureLoad // by feature set
}

// featureLoad is what a feature set asks of the toolchain, and what there is to compile.
type featureLoad struct {
	needs toolchain.Needs
	load  ci.Load
}

// threeLines is the smallest matrix, for those who have none yet.
const threeLines = "a matrix of three lines does, in gpubuild.toml:\n      [matrix]\n      features = [\"cuda\"]\n      arch = [\"sm_80\", \"sm_90\"]"

// openCI reads the project and its configuration, without asking cargo.
func (a *app) openCI(o Options, l cargo.Line) (*journey, error) {
	j := &journey{app: a, options: o, Line: l, Tools: tools.Tools{Env: a.Host.Env}}
	return j, j.openProject()
}

// planCI makes the matrix of a project. It depends on the project alone, never on the machine that it is made on: a row is the same everywhere.
func (a *app) planCI(ctx context.Context, o Options, l cargo.Line) (*ciPlan, error) {
	j, err := a.openCI(o, l)
	if err != nil {
		return nil, err
	}
	p := &ciPlan{journey: j, said: j.Config.Matrix.Value, loads: map[string]featureLoad{}}
	if p.said == nil {
		return nil, &config.Error{Path: j.Shown(j.Host.Join(j.Project.Root, "gpubuild.toml")), Problem: "there is no [matrix] here, nor in the metadata of the manifests", Fix: threeLines}
	}
	if p.catalog, err = install.DefaultCatalog(); err != nil {
		return nil, err
	}
	if p.machines, err = ci.KnownMachines(); err != nil {
		return nil, err
	}
	spec, err := p.spec(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range p.unknownProfiles(spec) {
		a.Shell.Warning("profile %q has no [profile.%s] in %s: cargo refuses its rows, unless your cargo configuration defines it on every runner", name, name, j.Shown(j.Project.RootManifest))
	}
	p.matrix, err = ci.Expand(spec, p.judgeRow)
	return p, err
}

// spec puts the configuration into ci's words, with what it leaves out.
func (p *ciPlan) spec(ctx context.Context) (ci.Spec, error) {
	m := p.said
	s := ci.Spec{Axes: ci.Axes(m.Axes), Toolkit: m.Toolkit, Args: m.CargoArgs, Images: m.Image, Runners: map[string][]string{
		"linux-x86_64": {"ubuntu-24.04"}, "linux-aarch64": {"ubuntu-24.04-arm"}, "windows-x86_64": {"windows-2022"}, "windows-aarch64": {"windows-11-arm"}}}
	for platform, labels := range m.Runner {
		s.Runners[platform] = labels
	}
	if s.Toolkit == "" {
		s.Toolkit = ci.Fetch
	}
	for _, d := range []struct {
		axis *[]string
		is   string
	}{{&s.Features, "cuda"}, {&s.CUDNN, ci.CUDNNAuto}, {&s.Platform, "linux-x86_64"}, {&s.Profile, "dev"}} {
		if len(*d.axis) == 0 {
			*d.axis = []string{d.is}
		}
	}
	for _, x := range m.Exclude {
		s.Excludes = append(s.Excludes, ci.Axes(x))
	}
	for _, x := range m.Include {
		s.Includes = append(s.Includes, ci.Axes(x))
	}
	for _, place := range m.Prove {
		words, err := splitWords(place.Wrapper)
		if err != nil {
			return s, &config.Error{Path: p.Config.Matrix.Origin, Problem: "matrix.prove.wrapper of " + place.Name + ": " + err.Error(), Fix: "quote it as a shell would"}
		}
		if len(place.Runner) == 0 {
			place.Runner = []string{"self-hosted", "linux", "gpu"}
		}
		s.Places = append(s.Places, ci.Place{Axes: ci.Axes(place.Axes), Name: place.Name, Runner: place.Runner, Wrapper: words, Driver: place.Driver, Capability: place.Capability, Toolkit: place.Toolkit, Args: place.Args})
	}
	if p.Project.HasLock {
		data, err := p.Host.ReadFile(p.Project.LockPath, 64<<20)
		if err != nil {
			return s, err
		}
		// A checkout on Windows may have other line ends.
		sum := sha256.Sum256(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
		s.Lock = hex.EncodeToString(sum[:6])
	}
	var newest gpu.Version
	for _, axes := range append([]ci.Axes{s.Axes}, s.Includes...) {
		for _, f := range axes.Features {
			if err := p.askAbout(ctx, f); err != nil {
				return s, err
			}
			if max := p.loads[f].needs.CudarcMax; !max.IsZero() && (newest.IsZero() || max.Compare(newest) < 0) {
				newest = max
			}
		}
	}
	if len(s.CUDA) == 0 {
		v := p.catalog.Newest("linux-x86_64", newest)
		if v.IsZero() {
			return s, &config.Error{Path: p.Config.Matrix.Origin, Problem: fmt.Sprintf("no CUDA that gpubuild fetches is known to the locked cudarc (up to %s)", newest), Fix: `name versions and their images: cuda = ["12.8"], image = { "12.8" = "…" }`}
		}
		s.CUDA = []string{v.String()}
	}
	return s, nil
}

// askAbout asks cargo what a feature set links, and so what it needs.
func (p *ciPlan) askAbout(ctx context.Context, set string) error {
	if _, known := p.loads[set]; known {
		return nil
	}
	words := []string{"build", "--manifest-path", p.Project.RootManifest}
	if set != "" {
		words = append(words, "--features="+set)
	}
	_, line, err := parseCargo(append(words, p.said.CargoArgs...)) // flags of ours may stand among them
	if err != nil {
		return err
	}
	tool, err := cargo.Find(p.Host, line)
	if err != nil {
		return err
	}
	j := &journey{app: p.app, options: p.options, Line: line, Tool: tool, Tools: tools.Tools{Env: p.Host.Env}}
	j.opened(p.session.With(line))
	if err := j.ask(ctx, session.Question{Places: true, Own: true}); err != nil {
		return err
	}
	if err := j.judge(); err != nil {
		return err
	}
	f := featureLoad{needs: tools.NeedsOf(j.reach), load: ci.Load{KernelsKnown: true}}
	if j.graph.Units != nil {
		f.load.Units = len(j.graph.Units.Units)
	}
	work := ci.KernelWork()
	for _, u := range j.reach.Units {
		if u.Inputs.Arch { // it compiles kernels
			seconds, timed := work[u.Name]
			f.load.KernelSeconds += seconds
			f.load.KernelsKnown = f.load.KernelsKnown && timed
		}
	}
	p.loads[set] = f
	return nil
}

// judgeRow says why a row cannot work, and fills in what its features decide. The rules are those of toolchain, on what is published of a release.
func (p *ciPlan) judgeRow(r *ci.Row) (string, error) {
	f := p.loads[r.Features]
	hosted := p.machines.Hosted(r.Runner)
	switch {
	case len(r.Runner) == 0:
		return "no runner is named for " + r.Platform + ": [matrix.runner]", nil
	case hosted != nil && hosted.Platform != r.Platform:
		return fmt.Sprintf("GitHub's runner %s is not %s", r.Runner[0], r.Platform), nil
	case r.Kind == ci.Proof && hosted != nil && len(r.Wrapper) == 0:
		return fmt.Sprintf("GitHub's runner %s has no GPU: [[matrix.prove]] needs the labels of a machine with one", r.Runner[0]), nil
	case f.needs.CUDNN && strings.HasPrefix(r.Container, "nvidia/cuda:") && !strings.Contains(r.Container, "cudnn"):
		return fmt.Sprintf("its features need cuDNN, and %s has none: NVIDIA's tags with it say cudnn", r.Container), nil
	case r.CUDNN == ci.CUDNNNone && f.needs.CUDNN:
		return "its features need cuDNN", nil
	case r.CUDNN != ci.CUDNNAuto && r.CUDNN != ci.CUDNNNone && !f.needs.CUDNN:
		return "none of its features needs cuDNN", nil
	}
	v, err := gpu.ParseVersion(r.CUDA)
	if err != nil {
		return "", err
	}
	planned := toolchain.Planned{CUDA: v}
	load := f.load
	switch r.Toolkit {
	case ci.Fetch:
		if !f.needs.Toolkit() {
			r.Toolkit = ci.None
			break
		}
		parts := install.Default()
		if f.needs.CUDNN {
			r.Parts = []string{"cudnn"}
			parts = append(parts, r.Parts...)
		}
		price, err := p.catalog.Price(r.Platform, v, parts)
		var none *install.NoFitError
		if errors.As(err, &none) {
			return none.Why(), nil
		}
		if err != nil {
			return "", err
		}
		if r.CUDNN != ci.CUDNNAuto && r.CUDNN != ci.CUDNNNone && !strings.HasPrefix(price.CUDNN+".", r.CUDNN+".") {
			return fmt.Sprintf("what gpubuild fetches of CUDA %s has cuDNN %s, not %s", v, price.CUDNN, r.CUDNN), nil
		}
		load.Fetch, load.Disk, planned.CUDNN = price.Fetch, price.Disk, price.CUDNN
	default:
		if r.CUDNN != ci.CUDNNAuto && r.CUDNN != ci.CUDNNNone {
			planned.CUDNN = r.CUDNN
		}
	}
	if r.Arch != "" {
		arch, err := gpu.ParseArch(r.Arch)
		if err != nil {
			return "", err
		}
		planned.Arch = arch.Capability
		if r.Capability != "" {
			device, err := gpu.ParseCapability(r.Capability)
			if err != nil {
				return "", err
			}
			arch.Virtual = f.needs.EmbedsPTX && arch.Suffix == "" // the driver compiles PTX for what is newer
			if ok, why := arch.Runs(device); !ok {
				return why + ", the capability of " + r.Place, nil
			}
		}
	}
	for _, c := range p.machines.Compilers(*r, p.said.Compilers) {
		compiler, err := p.compiler(c, r)
		if err != nil {
			return "", err
		}
		planned.Compilers = append(planned.Compilers, compiler)
	}
	if r.Driver != "" {
		system, _, _ := strings.Cut(r.Platform, "-")
		version := r.Driver
		if !strings.Contains(version, ".") {
			version += ".999" // a branch means its newest driver
		}
		planned.Driver = gpu.Driver{Version: r.Driver, CUDA: driver.Supports(system, version)}
	}
	if hosted != nil {
		load.CPUs = hosted.CPUs
	}
	load.Release = r.Profile != "dev"
	r.Estimate = load.Rate()
	return planned.Judge(f.needs)
}

// compiler puts "gcc 13" or "msvc 14.44" of a runner or an image into toolchain's words.
func (p *ciPlan) compiler(said string, r *ci.Row) (hostcc.Compiler, error) {
	kind, number, _ := strings.Cut(said, " ")
	where := r.Container
	if where == "" {
		where = strings.Join(r.Runner, ",")
	}
	v, err := gpu.ParseVersion(number) // two numbers with a dot, as a version of CUDA has
	if err != nil {
		return hostcc.Compiler{}, err
	}
	c := hostcc.Compiler{Path: said + " of " + where, CXX: said, Kind: kind, Version: number, Major: v.Major, Origin: where}
	if kind == hostcc.MSVC {
		c.Major = 1900 + v.Minor // _MSC_VER of toolset 14.NN
		if floor := p.machines.Toolset[number]; floor != "" {
			if c.MinCUDA, err = gpu.ParseVersion(floor); err != nil {
				return c, err
			}
			c.MinCUDAText = "STL1002"
		}
	}
	return c, nil
}

// workflow is what of the configuration a workflow needs.
func (j *journey) workflow() ci.Workflow {
	var w ci.Workflow
	if c := j.Config.CI.Value; c != nil {
		w.Install, w.Setup, w.Image = strings.TrimSpace(c.Install), strings.TrimSpace(c.Setup), c.Image
	}
	if root := j.repository(); root != "" {
		w.Dir = strings.TrimPrefix(j.Project.Root, root) // the repository lies above, and is named as the beginning of the same path
		if j.Host.OS == buildenv.Windows {
			w.Dir = strings.ReplaceAll(w.Dir, `\`, "/")
		}
		w.Dir = strings.Trim(w.Dir, "/")
	}
	return w
}

// repository is the directory above the project that holds .git; empty when there is none.
func (j *journey) repository() string {
	for dir := j.Project.Root; ; dir = j.Host.Dir(dir) {
		if _, err := j.Host.Files.Stat(j.Host.Join(dir, ".git")); err == nil {
			return dir
		}
		if j.Host.Dir(dir) == dir {
			return ""
		}
	}
}

func (a *app) ciMatrix(ctx context.Context, o Options, l cargo.Line) error {
	p, err := a.planCI(ctx, o, l)
	if err != nil {
		return err
	}
	if o.Format == "json" && o.JSON == nil {
		o.JSON = new(string)
	}
	if o.JSON != nil {
		if err := a.answer(o, "ci", p.matrix.Refuse() == nil, p.leftOutFindings(), p.matrix); err != nil {
			return err
		}
	}
	var out []byte
	if o.JSON == nil && (o.Format == "" || o.Format == "text") {
		out = ci.Text(p.matrix, report.Bytes)
		if _, err := a.Shell.Out.Write(out); err != nil {
			return err
		}
	}
	if err := p.matrix.Refuse(); err != nil {
		return err
	}
	switch {
	case o.JSON != nil, out != nil:
		return nil
	case o.Format == "github":
		out, err = ci.GitHubOutputs(p.matrix)
	default:
		out, err = ci.GitLabChild(p.matrix, p.workflow())
	}
	if err != nil {
		return err
	}
	if len(p.matrix.LeftOut) > 0 {
		a.Shell.Note("left out:\n%s", strings.TrimSuffix(ci.Reasons(p.matrix.LeftOut), "\n"))
	}
	_, err = a.Shell.Out.Write(out)
	return err
}

func (p *ciPlan) leftOutFindings() []finding.Finding {
	out := []finding.Finding{}
	for _, l := range p.matrix.LeftOut {
		out = append(out, finding.Finding{ID: "ci.left-out", Severity: finding.Note, Message: l.ID + ": " + l.Why})
	}
	return out
}

// unknownProfiles are those that are neither cargo's own nor the root manifest's.
func (p *ciPlan) unknownProfiles(s ci.Spec) []string {
	var out []string
	for _, axes := range append([]ci.Axes{s.Axes}, s.Includes...) {
		for _, name := range axes.Profile {
			switch name {
			case "dev", "release", "test", "bench":
				continue
			}
			if !contains(p.Project.Profiles, name) && !contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
