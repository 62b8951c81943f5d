package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/version"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/loader"
)

// keptScan is a scan's report and the identity of the file that it is about.
type keptScan struct {
	Version string         `json:"version"`
	Is      string         `json:"is"`
	Report  *fatbin.Report `json:"report"`
}

// scan answers what a file holds; a file that has not changed is not read again.
func (a *app) scan(path string) (*fatbin.Report, error) {
	path = a.Host.Abs(path)
	id, err := cache.Identify(path)
	if err != nil {
		return fatbin.ScanFile(a.Host, path) // says what is wrong with it
	}
	is := fmt.Sprintf("%s %d %d %d %d", path, id.Size, id.MTime, id.Inode, id.Device)
	kept := a.Host.Join(a.CacheDir, "scans", cache.Name(path)+".json")
	if data, err := a.Host.ReadFile(kept, 64<<20); err == nil {
		var old keptScan
		if json.Unmarshal(data, &old) == nil && old.Is == is && old.Version == version.Number() && old.Report != nil {
			return old.Report, nil
		}
	}
	r, err := fatbin.ScanFile(a.Host, path)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(keptScan{version.Number(), is, r})
	if err == nil {
		if err = cache.Make(filepath.Dir(kept)); err == nil {
			err = cache.WriteFile(kept, data, 0o600)
			prune(filepath.Dir(kept), keptScans)
		}
	}
	if err != nil {
		a.Shell.Detail("the scan is not kept: %v", err)
	}
	return r, nil
}

// scanPrograms shows what device code each program holds.
func (j *journey) scanPrograms() error {
	gpu, seen := false, 0
	for _, p := range j.programs {
		if p.Kind == "test" && j.Line.Verb != "test" && j.Line.Verb != "bench" {
			continue
		}
		r, err := j.scan(p.Path)
		if err != nil {
			return err
		}
		j.Shell.Status("Scanned", "%s: %s", j.Shown(p.Path), scanLine(r))
		seen++
		gpu = gpu || len(r.Images) > 0 || slices.ContainsFunc(append(append([]string{}, r.Imports...), r.Delayed...), isCUDALibrary)
	}
	if seen == 0 || gpu {
		return nil
	}
	return j.decideByCode()
}

// decideByCode answers what the feature check left to the binary: a feature that leaves every GPU crate off, and gates code of the user's own, which may
// be kernels. Where none of the programs holds device code or loads a library of CUDA, nothing shows that it does anything on the GPU.
func (j *journey) decideByCode() error {
	for _, f := range j.reach.Findings {
		if f.ID != features.IDUndecided {
			continue
		}
		found := finding.Finding{ID: "features.no-device-code", Severity: finding.Warning, Path: j.Shown(f.Path), Line: f.Line, Fix: f.Fix,
			Message: "the feature leaves the GPU crates off, and nothing shows that what was built uses the GPU: no device code, no CUDA library"}
		stops := j.options.Strict && !j.options.AllowUnreached
		if stops {
			found.Severity = finding.Error
		}
		j.findings = append(j.findings, found)
		j.Shell.Finding(found)
		if stops {
			return exit.Code(exit.Unreached)
		}
		return nil
	}
	return nil
}

// scanLine says in one line what device code a file holds.
func scanLine(r *fatbin.Report) string {
	if len(r.Images) == 0 {
		var cudaLibs []string
		for _, l := range append(append([]string{}, r.Imports...), r.Delayed...) {
			if isCUDALibrary(l) {
				cudaLibs = append(cudaLibs, l)
			}
		}
		if len(cudaLibs) > 0 {
			return "no device code; loads " + strings.Join(cudaLibs, ", ")
		}
		return "no device code (code that is made at run time is not seen)"
	}
	count := map[string]int{}
	var order []string
	for _, im := range r.Images {
		kind := im.Kind
		if kind == fatbin.PTXText {
			kind = fatbin.PTX
		}
		key := kind + " " + im.Arch.String()
		if kind == fatbin.PTX && im.PTXVersion != "" {
			key += " (PTX " + im.PTXVersion + ")"
		}
		if im.Toolkit != "" && kind == fatbin.Cubin { // of PTX its own version says more
			key += " (nvcc " + im.Toolkit + ")"
		}
		if count[key] == 0 {
			order = append(order, key)
		}
		count[key]++
	}
	sort.Strings(order)
	var parts []string
	for _, key := range order {
		parts = append(parts, fmt.Sprintf("%d %s", count[key], key))
	}
	return strings.Join(parts, ", ")
}

// stage is everything that a proven program runs with.
type stage struct {
	probe  probe.Probe
	cupti  string
	others []string // further CUPTIs, for a driver that is older than the first
	env    buildenv.Env
	lacks  []string // what a bare start would lack
	// missing are the libraries that are nowhere.
	missing []string
}

// dirsOf lists where run-time libraries are: never a stub's directory.
func dirsOf(h buildenv.Host, toolkits []cuda.Toolkit, dnn []cudnn.Install) []string {
	var dirs []string
	for _, t := range toolkits {
		switch {
		case t.Problem != "":
		case h.OS == buildenv.Windows: // Lib holds import libraries
			dirs = append(dirs, loader.RunDirs(h, t.Root, t.Bin)...)
		default:
			dirs = append(dirs, append([]string{t.Lib}, t.Libs...)...)
		}
	}
	for _, c := range dnn {
		if h.OS == buildenv.Windows {
			dirs = append(dirs, c.Bin)
		} else {
			dirs = append(dirs, c.Lib)
		}
	}
	out := dirs[:0]
	for _, d := range dirs {
		if d != "" && !contains(out, d) && h.IsDir(d) {
			out = append(out, d)
		}
	}
	return out
}

// setStage prepares the probe and the run-time environment for a program. The toolkit of the build comes first where there is one.
func (a *app) setStage(ctx context.Context, o Options, first *cuda.Toolkit, env buildenv.Env, binary string) (stage, error) {
	st, err := a.libraryStage(first, env, binary)
	if err != nil {
		return st, err
	}
	if st.probe, err = a.getProbe(ctx, o); err != nil {
		return st, err
	}
	switch st.cupti = o.CUPTI; {
	case st.cupti == "":
		toolkits := a.toolkits(first)
		st.cupti = pickCUPTI(toolkits, driver.Version(a.Host).CUDA)
		for _, t := range toolkits {
			if t.CUPTI != "" && t.CUPTI != st.cupti && !contains(st.others, t.CUPTI) {
				st.others = append(st.others, t.CUPTI)
			}
		}
	case !a.Host.IsFile(a.Host.Abs(st.cupti)):
		return st, &usageError{"no libcupti at " + st.cupti, "give the path of a libcupti.so"}
	default:
		st.cupti = a.Host.Abs(st.cupti)
	}
	return st, nil
}

// toolkits lists the toolkits of this machine that can be used, the build's own first.
func (a *app) toolkits(first *cuda.Toolkit) []cuda.Toolkit {
	var out []cuda.Toolkit
	if first != nil {
		out = append(out, *first)
	}
	var extra []cuda.Candidate
	for _, in := range install.Installed(a.Host, a.CacheDir) {
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: "gpubuild's cache"})
	}
	for _, t := range cuda.Find(a.Host, extra) {
		if t.Problem == "" {
			out = append(out, t)
		}
	}
	return out
}

// libraryDirs are the directories of the toolkits' run-time libraries and of the cuDNNs that belong to them.
func (a *app) libraryDirs(toolkits []cuda.Toolkit) []string {
	var roots []string
	for _, t := range toolkits {
		roots = append(roots, t.Root)
	}
	return dirsOf(a.Host, toolkits, cudnn.Find(a.Host, roots, nil))
}

// libraryStage finds the run-time libraries of a program: what the loader finds by itself, what must be added, what is not there.
func (a *app) libraryStage(first *cuda.Toolkit, env buildenv.Env, binary string) (stage, error) {
	st := stage{env: env}
	toolkits := a.toolkits(first)
	libraries, err := loader.Resolve(a.Host, a.Host.Abs(binary), a.libraryDirs(toolkits))
	if err != nil {
		return st, err
	}
	for _, l := range libraries {
		switch l.Kind {
		case loader.OK:
		case loader.Added:
			st.lacks = append(st.lacks, l.Name+" is "+l.Problem)
		default:
			st.lacks = append(st.lacks, l.Name+": "+l.Problem+remedyFor(l.Name, toolkits))
			if !l.Delayed {
				st.missing = append(st.missing, l.Name)
			}
		}
		if l.Kind == loader.Added {
			st.env = a.Host.Apply(st.env, appendLibraries(a.Host, a.Host.Dir(l.Path)))
		}
	}
	if why := loader.Mixed(libraries); why != "" {
		st.lacks = append(st.lacks, why)
	}
	return st, nil
}

// remedyFor says where a library that is not there comes from.
func remedyFor(name string, toolkits []cuda.Toolkit) string {
	lower := strings.ToLower(name)
	has := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(lower, p) {
				return true
			}
		}
		return false
	}
	if major := loader.CUDAMajor(name); major != 0 {
		var here []string
		for _, t := range toolkits {
			if t.Version.Major == major {
				here = nil
				break
			}
			here = append(here, t.Version.String())
		}
		if len(here) > 0 {
			get := fmt.Sprintf("install one of CUDA %d", major)
			if major == 12 {
				get = "`gpubuild toolchain install 12.9 --parts run`"
			}
			return fmt.Sprintf("; the program was linked to CUDA %d, here is %s: build it again with the toolkit of now, or %s", major, strings.Join(here, ", "), get)
		}
	}
	switch {
	case has("libcuda.so", "nvcuda.dll"):
		return "; it comes with NVIDIA's driver"
	case has("vcruntime", "msvcp", "concrt", "vcomp"):
		return "; it comes with the Visual C++ Redistributable (https://aka.ms/vs/17/release/vc_redist.x64.exe)"
	case has("libcudnn", "cudnn"):
		return "; `gpubuild toolchain install --parts run,cudnn` fetches it"
	case isCUDALibrary(name):
		version := ""
		if loader.CUDAMajor(name) == 12 { // those of CUDA 13 do not serve
			version = "12.9 "
		}
		return "; `gpubuild toolchain install " + version + "--parts run` fetches it"
	}
	return ""
}

// libraryVariable is where the loader looks beside its own places.
func libraryVariable(h buildenv.Host) string {
	if h.OS == buildenv.Windows {
		return "PATH"
	}
	return "LD_LIBRARY_PATH"
}

func appendLibraries(h buildenv.Host, dir string) buildenv.Delta {
	var d buildenv.Delta
	d.Add(buildenv.Append, libraryVariable(h), dir, "the program's CUDA libraries are in no directory that the loader searches by itself")
	return d
}

// pickCUPTI takes the first toolkit's CUPTI that is not newer than the driver: a newer one does not start (CUPTI documentation 12.8, 13.4).
func pickCUPTI(toolkits []cuda.Toolkit, limit gpu.Version) string {
	for _, t := range toolkits {
		if t.CUPTI != "" && (limit.IsZero() || t.Version.Compare(limit) <= 0) {
			return t.CUPTI
		}
	}
	for _, t := range toolkits {
		if t.CUPTI != "" && t.Version.Major == limit.Major {
			return t.CUPTI // within one major version it may work; the control will tell
		}
	}
	return ""
}

// getProbe takes the given probe or builds ours.
func (a *app) getProbe(ctx context.Context, o Options) (probe.Probe, error) {
	if o.Probe != "" {
		return probe.FromFile(a.Host, o.Probe)
	}
	if err := cache.Make(a.CacheDir); err != nil {
		return probe.Probe{}, err
	}
	return probe.Build(ctx, a.Host, a.Runner, a.CacheDir, a.probeCompiler(ctx))
}

// proof is one program's run under the probe and what it showed.
type proof struct {
	Program  string           `json:"program"`
	Args     []string         `json:"args,omitempty"`
	Verdict  verify.Verdict   `json:"verdict"`
	Evidence verify.Evidence  `json:"evidence"`
	Receipt  *receipt.Receipt `json:"-"` // where one is asked for
}

// prove runs a program under the probe and judges what was recorded.
func (a *app) prove(ctx context.Context, o verify.Options) (proof, error) {
	o.Real = a.Real(a.Host)
	if a.Nodes != nil {
		o.Nodes = a.Nodes(a.Host)
	}
	o.RunDir = a.Host.Join(a.CacheDir, "runs")
	e, err := verify.Run(ctx, a.Host, a.Runner, o)
	if err != nil {
		return proof{}, err
	}
	return proof{Program: o.Binary, Args: o.Args, Verdict: verify.Judge(e, o.Rules()), Evidence: e}, nil
}

// verdictCode is the exit code that belongs to a verdict, when the program itself ended as expected.
func verdictCode(k verify.Kind) int {
	switch k {
	case verify.Proved:
		return exit.Done
	case verify.NotUsed:
		return exit.NotUsed
	case verify.OtherKernels:
		return exit.OtherKernels
	}
	return exit.Unproved
}

// tellVerdict words a verdict: its line, then at most five that explain it.
func (a *app) tellVerdict(p proof) {
	name := a.Shown(p.Program)
	v := p.Verdict
	switch v.Kind {
	case verify.Proved:
		a.Shell.Status("Proved", "%s ran its kernel on %s (%s)", name, v.Device, v.UUID)
	case verify.NotUsed:
		a.Shell.Loud("Not used", "%s: %s", name, v.Why)
	case verify.OtherKernels:
		a.Shell.Loud("Other", "%s: %s", name, v.Why)
	case verify.NoDevice:
		a.Shell.Loud("Unproved", "%s: not proven: %s", name, v.Why)
	default:
		a.Shell.Loud("Unproved", "%s: not proven: %s", name, v.Why)
	}
	for _, l := range v.Lines {
		a.Shell.Status("", "%s", l)
	}
	for _, c := range v.Conflicts {
		if c != v.Why { // a reason is given once
			a.Shell.Warning("%s", c)
		}
	}
	for _, n := range v.Notes {
		a.Shell.Note("%s", n)
	}
}

// hasDevice says whether this machine has an NVIDIA device; without one, nothing is run to be proven. NVML and nvidia-smi can be missing where CUDA
// works, so where they know of none and there is a device node the control is asked.
func (a *app) hasDevice(ctx context.Context, o Options) bool {
	if _, devices, _ := driver.Inventory(ctx, a.Host, a.Runner, a.Self); len(devices) > 0 {
		return true
	}
	if !verify.HasNode(a.Host) {
		return false
	}
	p, err := a.getProbe(ctx, o)
	return err != nil || verify.HasDevice(ctx, a.Host, a.Runner, verify.Options{Env: a.Host.Env, Probe: p, RunDir: a.Host.Join(a.CacheDir, "runs")})
}

// chosenProgram is the one program that the build made, or of several the one that the [prove] table names; nil: it is not clear which.
func (j *journey) chosenProgram() *cargorun.Program {
	var p *cargorun.Program
	for i := range j.programs {
		if k := j.programs[i].Kind; k == "bin" || k == "example" {
			if want := j.Config.Prove.Value; want != nil && want.Bin != "" && want.Bin != j.programs[i].Name {
				continue
			}
			if p != nil {
				return nil
			}
			p = &j.programs[i]
		}
	}
	return p
}

// proveBuilt is the end of `build`: the proof where it is asked for, else a line that says how.
func (j *journey) proveBuilt(ctx context.Context) error {
	p := j.chosenProgram()
	asked := j.options.Prove || j.options.RequireProof || j.Config.Prove.Value != nil
	args := j.options.ProveArgs
	if want := j.Config.Prove.Value; want != nil && len(args) == 0 {
		args = want.Args
	}
	switch {
	case len(j.programs) == 0 && !j.options.Prove && !j.options.RequireProof:
		return nil // a library: there is nothing to run
	case p == nil && !j.options.Prove && !j.options.RequireProof && j.Config.Prove.Value != nil && j.Config.Prove.Value.Bin != "":
		j.notProven = j.whyNone()
		j.Shell.Loud("Unproved", "not proven: %s", j.notProven) // another member of the workspace was built
		return nil
	case p == nil && asked:
		// A proof was asked for and there is none: that must not end as success does.
		j.notProven = j.whyNone()
		j.Shell.Loud("Unproved", "not proven: %s", j.notProven)
		return exit.Code(exit.Unproved)
	case p == nil:
		j.Shell.Status("Unproved", "not proven: nothing was run; prove a program with `gpubuild prove BIN -- ARGS`")
		return nil
	}
	how := strings.TrimSpace(fmt.Sprintf("gpubuild prove %s -- %s", j.Shown(p.Path), strings.Join(args, " ")))
	how = strings.TrimSuffix(how, " --")
	if !asked {
		j.Shell.Status("Unproved", "not proven: nothing was run; to prove it: %s", how)
		return nil
	}
	if !j.hasDevice(ctx, j.options) {
		j.notProven = "no GPU here"
		j.Shell.Loud("Unproved", "not proven: no GPU here; on a machine with one run: %s", how)
		if j.options.RequireProof {
			return exit.Code(exit.Unproved)
		}
		return nil
	}
	o, err := j.proveOptions(ctx, p.Path, args)
	if err != nil {
		return err
	}
	watch := j.watchProgram(o.Stdout, j.Line.Verb)
	o.Stdout, o.Stderr = watch.stdout, watch.stderr
	got, err := j.proveSealed(ctx, j.options, o)
	if err != nil {
		return err
	}
	j.tellVerdict(got)
	j.noteProof(got)
	j.findings = append(j.findings, j.explainProgram(ctx, watch, j.ending(ctx, got, o.ExpectExit, p.Path))...)
	if j.options.ExpectCPU {
		return outcomeCPU(got, o.ExpectExit)
	}
	return outcome(got, o.ExpectExit)
}

// whyNone says why no program of the build could be taken for the one to be proven.
func (j *journey) whyNone() string {
	want := j.Config.Prove.Value
	switch {
	case len(j.programs) == 0:
		return "the build made no program; choose one with --bin"
	case want != nil && want.Bin != "" && len(j.programs) > 0:
		return fmt.Sprintf("the build made no program %s, which the [prove] table names", want.Bin)
	}
	return "the build made several programs; choose one with --bin, or with bin in the [prove] table"
}

// outcome is the exit code of a proof: the program's own where it failed, else the verdict's. The status of a program that was ended for its time is
// that of our own signal.
func outcome(p proof, expected int) error {
	if p.Evidence.Ran && !p.Evidence.Exit.TimedOut && p.Evidence.Exit.Code != expected && p.Evidence.Exit.Code != 0 {
		return exit.Code(p.Evidence.Exit.Code)
	}
	if code := verdictCode(p.Verdict.Kind); code != exit.Done {
		return exit.Code(code)
	}
	return nil
}

// proveOptions gathers what a proof of a built program needs.
func (j *journey) proveOptions(ctx context.Context, binary string, args []string) (verify.Options, error) {
	r, err := j.scan(binary)
	if err != nil {
		return verify.Options{}, err
	}
	o := verify.Options{
		Binary: binary, Args: args, Kernel: j.options.Kernel, ExpectExit: j.options.ExpectExit, Timeout: j.options.Timeout,
		Min: j.options.Min, Device: j.options.Device, Child: j.options.Child, Counterfactual: j.options.Counterfactual,
		Stdin: j.Stdin, Stdout: j.Shell.Out, Stderr: j.Shell.Err, Own: r.Kernels(),
	}
	if want := j.Config.Prove.Value; want != nil {
		if o.Kernel == nil && len(want.Kernel) > 0 {
			if o.Kernel, err = regexp.Compile(want.Kernel.Expression()); err != nil {
				return o, err
			}
		}
		if o.ExpectExit == 0 {
			o.ExpectExit = want.ExpectExit
		}
	}
	st, err := j.setStage(ctx, j.options, j.Set.Toolkit, j.RunEnv, binary)
	if err != nil {
		return o, err
	}
	j.tellLacks(st)
	o.Env, o.Probe, o.CUPTI, o.Others = st.env, st.probe, st.cupti, st.others
	return o, nil
}

func (a *app) tellLacks(st stage) {
	for _, l := range st.lacks {
		a.Shell.Note("to start it: %s", l)
	}
}

func isInterrupted(err error) bool { return errors.Is(err, context.Canceled) }
