package ci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/install"
)

// Parser takes words apart where the command line's flags are known.
type Parser struct {
	Line  func(words []string) (cargo.Line, error) // of a cargo command
	Words func(text string) ([]string, error)      // as a shell would
}

// Plan is a project's matrix, and what its rows are judged by.
type Plan struct {
	Matrix   Matrix
	session  *session.Session
	parser   Parser
	said     *config.Matrix
	catalog  *install.Catalog
	machines *Machines
	loads    map[string]featureLoad // by feature set
}

// featureLoad is what a feature set asks of the toolchain, and what there is to compile.
type featureLoad struct {
	needs toolchain.Needs
	load  Load
}

// ThreeLines is the smallest matrix, for those who have none yet.
const ThreeLines = "a matrix of three lines does, in gpubuild.toml:\n      [matrix]\n      features = [\"cuda\"]\n" +
	"      arch = [\"sm_80\", \"sm_90\"]"

// Make makes the matrix of a project. It depends on the project alone, never on
// the machine that it is made on: a row is the same everywhere.
func Make(ctx context.Context, session *session.Session, parser Parser) (*Plan, error) {
	p := &Plan{session: session, parser: parser, said: session.Config.Matrix.Value, loads: map[string]featureLoad{}}
	m := session.Machine
	if p.said == nil {
		return nil, &config.Error{
			Path:    m.Shown(m.Host.Join(session.Project.Root, "gpubuild.toml")),
			Problem: "there is no [matrix] here, nor in the metadata of the manifests", Fix: ThreeLines,
		}
	}
	var err error
	if p.catalog, err = install.DefaultCatalog(); err != nil {
		return nil, err
	}
	if p.machines, err = KnownMachines(); err != nil {
		return nil, err
	}
	spec, err := p.spec(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range p.unknownProfiles(spec) {
		m.Shell.Warning("profile %q has no [profile.%s] in %s: cargo refuses its rows, unless your cargo configuration defines it on "+
			"every runner",
			name, name, m.Shown(session.Project.RootManifest))
	}
	p.Matrix, err = Expand(spec, p.judgeRow)
	return p, err
}

// spec puts the configuration into ci's words, with what it leaves out.
func (p *Plan) spec(ctx context.Context) (Spec, error) {
	m := p.said
	s := Spec{Axes: Axes(m.Axes), Toolkit: m.Toolkit, Args: m.CargoArgs, Images: m.Image, Runners: hostedLabels()}
	for platform, labels := range m.Runner {
		s.Runners[platform] = labels
	}
	if s.Toolkit == "" {
		s.Toolkit = Fetch
	}
	for _, d := range []struct {
		axis *[]string
		is   string
	}{{&s.Features, "cuda"}, {&s.CUDNN, CUDNNAuto}, {&s.Platform, "linux-x86_64"}, {&s.Profile, "dev"}} {
		if len(*d.axis) == 0 {
			*d.axis = []string{d.is}
		}
	}
	for _, x := range m.Exclude {
		s.Excludes = append(s.Excludes, Axes(x))
	}
	for _, x := range m.Include {
		s.Includes = append(s.Includes, Axes(x))
	}
	for _, place := range m.Prove {
		words, err := p.parser.Words(place.Wrapper)
		if err != nil {
			return s, p.wrong("matrix.prove.wrapper of "+place.Name+": "+err.Error(), "quote it as a shell would")
		}
		if len(place.Runner) == 0 {
			place.Runner = []string{"self-hosted", "linux", "gpu"}
		}
		s.Places = append(s.Places, Place{
			Axes: Axes(place.Axes), Name: place.Name, Runner: place.Runner, Wrapper: words, Driver: place.Driver,
			Capability: place.Capability,
			Toolkit:    place.Toolkit, Args: place.Args,
		})
	}
	if p.session.Project.HasLock {
		data, err := p.session.Machine.Host.ReadFile(p.session.Project.LockPath, 64<<20)
		if err != nil {
			return s, err
		}
		// A checkout on Windows may have other line ends.
		sum := sha256.Sum256(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
		s.Lock = hex.EncodeToString(sum[:6])
	}
	var newest gpu.Version
	for _, axes := range append([]Axes{s.Axes}, s.Includes...) {
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
			return s, p.wrong(fmt.Sprintf("no CUDA that gpubuild fetches is known to the locked cudarc (up to %s)", newest),
				`name versions and their images: cuda = ["12.8"], image = { "12.8" = "…" }`)
		}
		s.CUDA = []string{v.String()}
	}
	return s, nil
}

// wrong says what is wrong with the matrix as it is configured.
func (p *Plan) wrong(problem, fix string) error {
	return &config.Error{Path: p.session.Config.Matrix.Origin, Problem: problem, Fix: fix}
}

// askAbout asks cargo what a feature set links, and so what it needs.
func (p *Plan) askAbout(ctx context.Context, set string) error {
	if _, known := p.loads[set]; known {
		return nil
	}
	words := []string{"build", "--manifest-path", p.session.Project.RootManifest}
	if set != "" {
		words = append(words, "--features="+set)
	}
	line, err := p.parser.Line(append(words, p.said.CargoArgs...)) // flags of ours may stand among them
	if err != nil {
		return err
	}
	asked := p.session.With(line)
	tool, err := cargo.Find(asked.Machine.Host, line)
	if err != nil {
		return err
	}
	graph, err := asked.Graph(ctx, tool, session.Question{Places: true, Own: true})
	if err != nil {
		return err
	}
	in, err := asked.Input(graph, false)
	if err != nil {
		return err
	}
	answer, err := features.Judge(asked.Machine.Host, in)
	if err != nil {
		return err
	}
	f := featureLoad{needs: tools.NeedsOf(answer), load: Load{KernelsKnown: true}}
	if graph.Units != nil {
		f.load.Units = len(graph.Units.Units)
	}
	work := KernelWork()
	for _, u := range answer.Units {
		if u.Inputs.Arch { // it compiles kernels
			seconds, timed := work[u.Name]
			f.load.KernelSeconds += seconds
			f.load.KernelsKnown = f.load.KernelsKnown && timed
		}
	}
	p.loads[set] = f
	return nil
}

// judgeRow says why a row cannot work, and fills in what its features decide.
// The rules are those of toolchain, on what is published of a release.
func (p *Plan) judgeRow(r *Row) (string, error) {
	f := p.loads[r.Features]
	hosted := p.machines.Hosted(r.Runner)
	switch {
	case len(r.Runner) == 0:
		return "no runner is named for " + r.Platform + ": [matrix.runner]", nil
	case hosted != nil && hosted.Platform != r.Platform:
		return fmt.Sprintf("GitHub's runner %s is not %s", r.Runner[0], r.Platform), nil
	case r.Kind == Proof && hosted != nil && len(r.Wrapper) == 0:
		return fmt.Sprintf("GitHub's runner %s has no GPU: [[matrix.prove]] needs the labels of a machine with one", r.Runner[0]), nil
	case f.needs.CUDNN && strings.HasPrefix(r.Container, "nvidia/cuda:") && !strings.Contains(r.Container, "cudnn"):
		return fmt.Sprintf("its features need cuDNN, and %s has none: NVIDIA's tags with it say cudnn", r.Container), nil
	case r.CUDNN == CUDNNNone && f.needs.CUDNN:
		return "its features need cuDNN", nil
	case r.CUDNN != CUDNNAuto && r.CUDNN != CUDNNNone && !f.needs.CUDNN:
		return "none of its features needs cuDNN", nil
	}
	v, err := gpu.ParseVersion(r.CUDA)
	if err != nil {
		return "", err
	}
	planned := toolchain.Planned{CUDA: v}
	load := f.load
	switch r.Toolkit {
	case Fetch:
		if !f.needs.Toolkit() {
			r.Toolkit = None
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
		if r.CUDNN != CUDNNAuto && r.CUDNN != CUDNNNone && !strings.HasPrefix(price.CUDNN+".", r.CUDNN+".") {
			return fmt.Sprintf("what gpubuild fetches of CUDA %s has cuDNN %s, not %s", v, price.CUDNN, r.CUDNN), nil
		}
		load.Fetch, load.Disk, planned.CUDNN = price.Fetch, price.Disk, price.CUDNN
	default:
		if r.CUDNN != CUDNNAuto && r.CUDNN != CUDNNNone {
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
func (p *Plan) compiler(said string, r *Row) (hostcc.Compiler, error) {
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

// LeftOutFindings says of each row that is left out why.
func (m Matrix) LeftOutFindings() []finding.Finding {
	out := []finding.Finding{}
	for _, l := range m.LeftOut {
		out = append(out, finding.Finding{ID: "left-out", Severity: finding.Note, Message: l.ID + ": " + l.Why})
	}
	return out
}

// unknownProfiles are those that are neither cargo's own nor the root manifest's.
func (p *Plan) unknownProfiles(s Spec) []string {
	var out []string
	for _, axes := range append([]Axes{s.Axes}, s.Includes...) {
		for _, name := range axes.Profile {
			switch name {
			case "dev", "release", "test", "bench":
				continue
			}
			if !slices.Contains(p.session.Project.Profiles, name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
