package ci

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
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
	sets     map[string]featureSet // by the text of the set
}

// featureSet is what a feature set asks of the toolchain.
type featureSet struct {
	needs    toolchain.Needs
	compiles bool // kernels, for an architecture
	metal    bool // it links Apple's Metal
	gpu      bool // it may run a CUDA kernel
}

// Make makes the matrix of a project. It depends on the project alone, never on
// the machine that it is made on: a row is the same everywhere.
func Make(ctx context.Context, session *session.Session, parser Parser) (*Plan, error) {
	p := &Plan{session: session, parser: parser, said: session.Config.Matrix.Value, sets: map[string]featureSet{}}
	m := session.Machine
	if p.said == nil {
		return nil, &config.Error{
			Path:    m.Shown(m.Host.Join(session.Project.Root, "gpubuild.toml")),
			Problem: "there is no [matrix] here, nor in the metadata of the manifests",
			Fix: "add to gpubuild.toml:\n      " +
				strings.ReplaceAll(strings.TrimSpace(MatrixLines(session.Project)), "\n", "\n      "),
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
	if p.Matrix, err = Expand(spec, p.judgeRow); err != nil {
		return nil, err
	}
	for _, n := range p.Matrix.idle {
		m.Shell.Warning("[[matrix.exclude]] number %d excludes nothing: no row of the matrix has its values", n)
	}
	return p, nil
}

// spec puts the configuration into ci's words, with what it leaves out.
func (p *Plan) spec(ctx context.Context) (Spec, error) {
	m := p.said
	s := Spec{Axes: Axes(m.Axes), Toolkit: m.Toolkit, Args: m.CargoArgs, Images: m.Image, Runners: hostedLabels(), Uses: p.uses}
	maps.Copy(s.Runners, m.Runner)
	s.Toolkit = cmp.Or(s.Toolkit, Fetch)
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
		s.Places = append(s.Places, Place{Axes: Axes(place.Axes), Name: place.Name, Runner: place.Runner, Wrapper: words,
			Driver: place.Driver, Capability: place.Capability, Args: place.Args})
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
			if max := p.sets[f].needs.CudarcMax; !max.IsZero() && (newest.IsZero() || max.Compare(newest) < 0) {
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
	if _, known := p.sets[set]; known {
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
	f := featureSetOf(answer)
	if graph.Units != nil && p.session.Machine.Host.OS != buildenv.Darwin { // there, cargo lists what other systems do not build
		for _, u := range graph.Units.Units {
			f.metal = f.metal || slices.Contains(appleOnly, manifest.ParsePkgID(u.PkgID).Name)
		}
	}
	p.sets[set] = f
	return nil
}

// appleOnly are the crates that link Apple's Metal framework. A build elsewhere that has one, behind no cfg of its target, does not link.
var appleOnly = []string{"metal", "objc2-metal", "mlx-sys"}

func featureSetOf(answer *features.Answer) featureSet {
	f := featureSet{needs: tools.NeedsOf(answer)}
	for _, u := range answer.Units {
		f.compiles = f.compiles || u.Inputs.Arch
	}
	f.gpu = f.needs.CUDA || f.needs.Toolkit()
	for _, r := range answer.Roots {
		f.gpu = f.gpu || r.Reached
	}
	for _, found := range answer.Findings {
		switch found.ID {
		case features.IDUndecided, features.IDByFile, features.IDLoadDynamic: // only a run shows
			f.gpu = true
		}
	}
	return f
}

// uses says which axes matter to the build of a feature set.
func (p *Plan) uses(set string) Uses {
	f := p.sets[set]
	return Uses{CUDA: f.needs.Toolkit(), CUDNN: f.needs.CUDNN, Arch: f.compiles || f.needs.EmbedsPTX}
}

// judgeRow says why a row cannot work, and fills in what its features decide.
// The rules are those of toolchain, on what is published of a release.
func (p *Plan) judgeRow(r *Row) (string, error) {
	f := p.sets[r.Features]
	hosted := p.machines.Hosted(r.Runner)
	switch {
	case f.metal && !strings.HasPrefix(r.Platform, "macos-"):
		return "its features use Metal, which only macOS has", nil
	case f.gpu && strings.HasPrefix(r.Platform, "macos-"):
		return "its features use CUDA, which does not exist for macOS", nil
	case r.Kind == Proof && !f.gpu:
		return "its build links no CUDA code, so no CUDA kernel can run", nil
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
	}
	if r.CUDA == "" {
		r.Toolkit = None
		return "", nil
	}
	v, err := gpu.ParseVersion(r.CUDA)
	if err != nil {
		return "", err
	}
	planned := toolchain.Planned{CUDA: v}
	switch {
	case r.Kind == Proof: // what compiled it has been judged
		r.Toolkit = None
	case r.Toolkit == Fetch:
		parts := install.Default()
		if f.needs.CUDNN {
			r.Parts = []string{"cudnn"}
			parts = append(parts, r.Parts...)
		}
		price, err := p.catalog.Price(r.Platform, v, parts)
		if none, ok := errors.AsType[*install.NoFitError](err); ok {
			return none.Why(), nil
		}
		if err != nil {
			return "", err
		}
		if r.CUDNN != CUDNNAuto && r.CUDNN != CUDNNNone && !strings.HasPrefix(price.CUDNN+".", r.CUDNN+".") {
			return fmt.Sprintf("what gpubuild fetches of CUDA %s has cuDNN %s, not %s", v, price.CUDNN, r.CUDNN), nil
		}
		r.Download, planned.CUDNN = price.Fetch, price.CUDNN
	case r.CUDNN != CUDNNAuto && r.CUDNN != CUDNNNone:
		planned.CUDNN = r.CUDNN
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
	var compilers []string
	if r.Kind == Compile {
		compilers = p.machines.Compilers(*r, p.said.Compilers)
	}
	for _, c := range compilers {
		compiler, err := p.compiler(c, r)
		if err != nil {
			return "", err
		}
		planned.Compilers = append(planned.Compilers, compiler)
	}
	if r.Driver != "" {
		planned.Driver = gpu.Driver{Version: r.Driver, CUDA: driverSupports(*r)}
	}
	return planned.Judge(f.needs)
}

// driverSupports is the newest CUDA that the driver of a row takes.
func driverSupports(r Row) gpu.Version {
	system, _, _ := strings.Cut(r.Platform, "-")
	version := r.Driver
	if !strings.Contains(version, ".") {
		version += ".999" // a branch means its newest driver
	}
	return driver.Supports(system, version)
}

// compiler puts "gcc 13" or "msvc 14.44" of a runner or an image into toolchain's words.
func (p *Plan) compiler(said string, r *Row) (hostcc.Compiler, error) {
	kind, number, _ := strings.Cut(said, " ")
	where := cmp.Or(r.Container, strings.Join(r.Runner, ","))
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
