package app

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/install"
)

// needsOf puts what the crates ask for into the toolchain's words; features and toolchain know nothing of each other.
func needsOf(a *features.Answer) toolchain.Needs {
	n := toolchain.Needs{
		NVCC: a.Needs.NVCC || a.Needs.NVCCVersion, HostCompiler: a.Needs.HostCXX, Libraries: a.Needs.CUDALibs, CUDNN: a.Needs.CUDNN,
		EmbedsPTX: a.Needs.EmbedsPTX, CUDA: a.Needs.CUDA, CudarcMax: a.CudarcMax, Pin: a.Pin,
	}
	for _, b := range a.Needs.Because {
		n.Because = append(n.Because, fmt.Sprintf("%s: %s (%s)", b.Need, b.Crate, b.Why))
	}
	return n
}

// chooseTools finds what is there, chooses what fits and makes the build's environment.
func (j *journey) chooseTools(ctx context.Context) error {
	j.needs = needsOf(j.reach)
	for _, b := range j.needs.Because {
		j.shell.Detail("needs %s", b)
	}
	wish, extra, err := j.wish(ctx)
	if err != nil {
		return err
	}
	j.gather(ctx, wish, extra)
	if j.set, err = toolchain.Choose(j.facts, j.needs, wish); err != nil {
		return err
	}
	j.delta = toolchain.Environment(j.host, j.set, j.needs)
	j.env = j.host.Apply(j.host.Env, j.delta)
	j.tool = j.tool.With(j.env)
	j.tellTools()
	return nil
}

// wish is what the user asked for, the strongest word first, and the toolkits that only we know of.
func (j *journey) wish(ctx context.Context) (toolchain.Wish, []cuda.Candidate, error) {
	w := toolchain.Wish{CUDA: j.options.Toolkit, CCBin: j.options.CCBin, Unchecked: toolchain.Unchecked(j.host.Env)}
	from := "--gpu-toolkit"
	if w.CUDA == "" {
		w.CUDA, from = j.host.Env.Get("GPUBUILD_CUDA"), "GPUBUILD_CUDA"
	}
	if w.CUDA == "" {
		w.CUDA, from = j.config.CUDA.Value, j.config.CUDA.Origin
	}
	w.Arch, w.ArchOrigin = toolchain.ArchWish(j.options.Arch, j.host.Env, j.config.Arch.Value, j.config.Arch.Origin)
	w.Previous = j.builtFor()
	var extra []cuda.Candidate
	if w.CUDA == "fetch" {
		root, err := j.fetch(ctx)
		if err != nil {
			return w, nil, err
		}
		if w.CUDA = root; root != "" {
			return w, []cuda.Candidate{{Root: root, Origin: from + "=fetch"}}, nil
		}
	}
	if strings.ContainsAny(w.CUDA, `/\`) {
		w.CUDA = j.host.Abs(w.CUDA)
		extra = append(extra, cuda.Candidate{Root: w.CUDA, Origin: from})
	}
	for _, in := range install.Installed(j.host, j.cacheDir) {
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: "gpubuild's cache"})
	}
	return w, extra, nil
}

// fetch gets a toolkit into the cache when the crates need one; the flag was the user's consent.
func (j *journey) fetch(ctx context.Context) (string, error) {
	if !j.needs.Toolkit() {
		j.shell.Note("nothing is fetched: these crates need a driver only")
		return "", nil
	}
	catalog, err := install.DefaultCatalog()
	if err != nil {
		return "", err
	}
	want := install.Want{LinkStubs: j.needs.Libraries}
	if j.needs.CUDNN {
		want.Parts = append(install.Default(), "cudnn")
	}
	limit := func(v gpu.Version, why string) {
		if !v.IsZero() && (want.MaxVersion.IsZero() || v.Compare(want.MaxVersion) < 0) {
			want.MaxVersion, want.MaxBecause = v, why
		}
	}
	limit(j.needs.CudarcMax, "the newest that the locked cudarc knows")
	if d := driver.Version(j.host); d.Version != "" && j.needs.EmbedsPTX {
		limit(d.CUDA, "the newest that driver "+d.Version+" takes PTX of")
	}
	plan, err := install.MakePlan(catalog, j.host, j.cacheDir, want)
	if err != nil {
		return "", err
	}
	return j.carryOut(ctx, plan)
}

// carryOut says what a plan means, and does it.
func (a *app) carryOut(ctx context.Context, plan install.Plan) (string, error) {
	if !plan.Installed {
		for i, l := range plan.Lines() {
			if i == 0 {
				a.shell.Status("Fetching", "%s", l)
			} else {
				a.shell.Status("", "%s", l)
			}
		}
	}
	return plan.Run(ctx, a.run, func(s string) { a.shell.Status("Installing", "%s", s) })
}

// gather finds what this machine has. A GPU is asked for only when it decides something: a driver's start costs a tenth of a second and more.
func (j *journey) gather(ctx context.Context, w toolchain.Wish, extra []cuda.Candidate) {
	j.facts.Driver = driver.Version(j.host)
	j.facts.LibCUDA = toolchain.DriverLibrary(j.host)
	if w.Arch == "" && w.Previous.IsZero() && (j.needs.NVCC || j.needs.Libraries) {
		j.takeInventory(ctx)
	}
	if !j.needs.Toolkit() && !j.needs.HostCompiler {
		return
	}
	j.facts.Toolkits = cuda.Find(j.host, extra)
	j.facts.Places = cuda.UsualPlaces(j.host)
	j.facts.Compilers = hostcc.Find(ctx, j.host, j.run)
	if j.needs.CUDNN {
		var roots []string
		for _, t := range j.facts.Toolkits {
			if t.Problem == "" {
				roots = append(roots, t.Root)
			}
		}
		j.facts.CUDNN = cudnn.Find(j.host, roots, nil)
	}
}

func (j *journey) takeInventory(ctx context.Context) {
	d, devices, notes := driver.Inventory(ctx, j.host, j.run, j.self)
	j.facts.Driver, j.facts.Devices = d, devices
	for _, n := range notes {
		j.shell.Detail("%s", n)
	}
}

// tellTools says in a line or two what was chosen; the losers when verbose.
func (j *journey) tellTools() {
	s := j.set
	switch {
	case s.Toolkit != nil:
		line := fmt.Sprintf("%s (%s)", s.Toolkit.Named(), s.Toolkit.Origin)
		if s.Compiler != nil {
			line += fmt.Sprintf(", %s %s (%s)", s.Compiler.Kind, s.Compiler.Version, s.Compiler.Path)
		}
		if s.CUDNN != nil {
			line += fmt.Sprintf(", cuDNN %s (%s)", s.CUDNN.Version, s.CUDNN.Origin)
		}
		j.shell.Status("Locating", "%s", line)
	case j.needs.CUDA:
		j.shell.Status("Locating", "no toolkit and no nvcc is needed: these crates load the driver when they run")
	}
	if !s.Capability.IsZero() && j.needs.NVCC {
		j.shell.Status("Targeting", "%s (%s)", gpu.Arch{Capability: s.Capability}, s.CapabilityOrigin)
	}
	for _, n := range s.Notes {
		j.shell.Warning("%s", n)
	}
	for _, l := range s.Losers {
		j.shell.Detail("not %s", l)
	}
	for _, c := range j.delta.Changes {
		j.shell.Detail("%s", changeLine(c))
	}
}

func changeLine(c buildenv.Change) string {
	switch c.Op {
	case buildenv.Unset:
		return fmt.Sprintf("unset %s: %s", c.Name, c.Reason)
	case buildenv.Prepend:
		return fmt.Sprintf("%s begins with %s: %s", c.Name, c.Value, c.Reason)
	case buildenv.Append:
		return fmt.Sprintf("%s ends with %s: %s", c.Name, c.Value, c.Reason)
	}
	return fmt.Sprintf("%s=%s: %s", c.Name, c.Value, c.Reason)
}
