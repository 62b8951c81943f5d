// Package doctor checks a machine and a project, part by part: Gather finds out what is there, and Run judges that. Each check has a
// stable id, a state, where was looked, what to do, and what breaks without it. It changes nothing and fetches nothing.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/runs"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
)

// State is what a check shows.
type State string

// States.
const (
	OK      State = "ok"
	Warning State = "warning"
	Missing State = "missing"
	Misfit  State = "misfit"
	Info    State = "info" // not needed here
)

// Check is one judged part of the machine.
type Check struct {
	ID     string   `json:"id"`
	State  State    `json:"state"`
	Says   string   `json:"says"`
	Places []string `json:"places,omitempty"` // where was looked
	Fix    string   `json:"fix,omitempty"`
	Breaks string   `json:"breaks,omitempty"` // what does not work without it
	Absent bool     `json:"-"`                // it is not there, and a proof needs it
	Unsure string   `json:"-"`                // why doctor cannot promise that the build works
}

// Mark is the sign before a check.
func (c Check) Mark() string {
	return cmp.Or(map[State]string{OK: "✓", Warning: "⚠", Info: "-"}[c.State], "✗")
}

// Facts is what the checks look at.
type Facts struct {
	Cargo        string // its version; empty when there is none
	NoCargo      Reason // why there is none
	Unread       bool   // it may be there, and is not asked: a file that it reads is no regular file
	Target       string // what rustc builds for: --target, else the host's triple
	Host         buildenv.Host
	Project      string // the manifest; empty without one
	ProjectName  string
	NoLock       bool   // there is no Cargo.lock yet: the project is judged by its manifests
	Unfetched    string // which dependency was never fetched, and why it is not now; judged by its manifests, too
	Stops        *Stop  // nil: a build with these features is not stopped
	NoProject    Reason
	ProjectBad   bool   // there is one, and it could not be looked at
	Assumed      string // the feature of the project that it is checked with although the command line has none
	Install      string // the command that installs a toolkit for the project; empty: none is known
	Cache        string // our own cache
	NoCache      Reason // why it cannot be used: every build ends
	BadConfig    Reason // why the user's own configuration cannot be read: every build ends
	Unkept       Reason // why nothing can be kept in it: builds go through
	Toolchain    toolchain.Facts
	Needs        toolchain.Needs
	Chosen       toolchain.Set
	ChooseErr    error
	Command      string // the build that is checked for, as the user would write it; flags may follow
	Prove        bool   // judged for proving, not only for building
	CUPTI        string
	Run          RunTime
	WSL          bool
	Compiler     string // for the probe
	Carried      bool   // the probe is a part of this gpubuild
	Notes        []string
	Pinned       []string // which cudarc is built for a newer CUDA than the driver's
	NoArchive    []string // which crate has no library with CUDA to download for the target
	NoBuildTools Reason   // of what build scripts need apart from the toolkit

	Vulkan   *Vulkan // nil: the project does not use it
	Programs []Program
}

// Program is one that is built, with the answer for each GPU of this machine.
type Program struct {
	File string
	On   []runs.Verdict
}

// OnlyManifests reports whether cargo gave no graph of the build for a reason that is no fault of the project's.
func (f Facts) OnlyManifests() bool { return f.NoLock || f.Unfetched != "" }

// Stop is why a build is stopped before it compiles, and the command that says more.
type Stop struct {
	finding.Finding
	Fix string
}

// RunTime is what the project's programs need to run, and the directories of the chosen toolkit and cuDNN that have it.
type RunTime struct {
	Libraries []RunLibrary
	Dirs      []string
	Stubs     []string // directories of link stubs on the loader's path
}

// Reason is why something is missing, and what to do about it.
type Reason struct{ Why, Fix string }

func reasonOf(err error) Reason { return Reason{err.Error(), exit.Hint(err)} }

// Vulkan is what there is for programs on wgpu, ash or Vulkan.
type Vulkan struct {
	Devices []probe.Device
	Why     string // why there is no device
}

// Run makes the checks, in the order in which a user should fix them.
func Run(f Facts) []Check {
	checks := []Check{checkCargo(f), checkTarget(f), checkCache(f), checkProject(f), checkToolkit(f), checkHostCompiler(f)}
	checks = append(checks, checkSDK(f)...)
	if bad := f.BadConfig; bad.Why != "" {
		checks = slices.Insert(checks, 3, Check{ID: "config.wrong", State: Misfit, Says: "your own configuration is wrong: " + bad.Why,
			Breaks: "every build of GPU code", Fix: bad.Fix})
	}
	if lack := f.NoBuildTools; lack.Why != "" {
		checks = append(checks, Check{ID: "build.tools", State: Missing, Says: lack.Why, Breaks: "the build", Fix: lack.Fix})
	}
	checks = append(checks, checkSet(f), checkCapability(f), checkCUDNN(f), checkROCm(f), checkDriver(f), checkDevices(f), checkCUPTI(f),
		checkProbe(f), checkStubs(f), checkLoaderPath(f))
	checks = f.blame(checks)
	switch {
	case f.Needs.CUDA || f.Needs.Toolkit():
	case f.Needs.ROCm:
		checks = withoutNVIDIA(checks, "gpubuild builds for ROCm, and proves nothing there")
	case f.Vulkan != nil:
		checks = withoutNVIDIA(checks, "")
	case f.Project != "" && f.Stops == nil && !f.OnlyManifests():
		checks = withoutNVIDIA(checks, "no crate that gpubuild knows uses a GPU in this build")
	}
	if f.Vulkan != nil {
		checks = append(checks, checkVulkan(*f.Vulkan))
	}
	checks = append(checks, checkPrograms(f)...)
	if f.WSL {
		checks = append(checks, Check{ID: "wsl", State: Warning,
			Says: "this is WSL2: the driver is Windows'; proofs say that they are untested on hardware"})
	}
	return checks
}

// blamed is the check that says why nothing was chosen; empty where something was.
func (f Facts) blamed() string {
	switch {
	case f.ChooseErr == nil:
		return ""
	case f.Toolchain.MSVC == nil && toolchain.AtFault(f.ChooseErr) == toolchain.PartSDK:
		return "cuda.set"
	}
	return cmp.Or(string(toolchain.AtFault(f.ChooseErr)), "cuda.set")
}

// notChosen is what the other checks say then.
func (f Facts) notChosen() string { return "not chosen (see " + f.blamed() + ")" }

// blame puts the reason why nothing was chosen on the check of the part that is at fault.
func (f Facts) blame(checks []Check) []Check {
	for i, c := range checks {
		if c.ID != f.blamed() || c.State == Missing || c.State == Misfit {
			continue
		}
		says := strings.ReplaceAll(f.ChooseErr.Error(), "\n  ", "\n")
		checks[i] = Check{ID: c.ID, State: Misfit, Says: says, Places: c.Places, Fix: f.chooseFix(), Breaks: "the build"}
		if _, ok := errors.AsType[*toolchain.MissingError](f.ChooseErr); ok {
			checks[i].State = Missing
		}
	}
	return checks
}

// chooseFix is the hint of the build, with commands that can be pasted.
func (f Facts) chooseFix() string {
	fix := strings.ReplaceAll(exit.Hint(f.ChooseErr), toolchain.Fetch, cmp.Or(f.Install, "gpubuild toolchain install"))
	return strings.ReplaceAll(fix, "`--gpu-", "`"+cmp.Or(f.Command, "gpubuild build")+" --gpu-")
}

// withoutNVIDIA leaves out what concerns NVIDIA's GPUs alone, and says why nothing can be proven.
func withoutNVIDIA(checks []Check, why string) []Check {
	nvidia := []string{"cuda.toolkit", "cuda.set", "capability", "cudnn", "driver", "devices", "cupti", "loader.stubs", "loader.path"}
	checks = slices.DeleteFunc(checks, func(c Check) bool { return slices.Contains(nvidia, c.ID) })
	for i, c := range checks {
		if c.ID == "probe" && why != "" {
			checks[i] = Check{ID: c.ID, State: Info, Says: why, Absent: true}
		}
	}
	return checks
}

// Worst answers Missing before Misfit before everything else.
func Worst(checks []Check) State {
	for _, state := range []State{Missing, Misfit, Warning} {
		if slices.ContainsFunc(checks, func(c Check) bool { return c.State == state }) {
			return state
		}
	}
	return OK
}

func checkCargo(f Facts) Check {
	if f.Unread {
		return Check{ID: "cargo", State: Misfit, Says: "a file for cargo is unreadable: " + f.NoCargo.Why, Fix: f.NoCargo.Fix, Breaks: "every build"}
	}
	if f.Cargo == "" {
		return Check{ID: "cargo", State: map[bool]State{true: Info, false: Missing}[f.Prove], // to prove what was built elsewhere
			Absent: true, Says: "no cargo: " + strings.TrimPrefix(f.NoCargo.Why, "no cargo: "), Breaks: "every build",
			Fix: cmp.Or(f.NoCargo.Fix, "install Rust (https://rustup.rs)")}
	}
	return Check{ID: "cargo", State: OK, Says: f.Cargo}
}

func checkCache(f Facts) Check {
	if f.NoCache.Why != "" {
		return Check{ID: "cache", State: Misfit, Says: "gpubuild's " + f.NoCache.Why, Fix: f.NoCache.Fix, Breaks: "every build through gpubuild"}
	}
	if f.Unkept.Why != "" {
		says := "gpubuild's " + f.Unkept.Why + ": builds go through and keep nothing"
		return Check{ID: "cache", State: Info, Says: says, Fix: f.Unkept.Fix}
	}
	return Check{ID: "cache", State: OK, Says: f.Cache}
}

func checkProject(f Facts) Check {
	if f.ProjectBad {
		return Check{ID: "project", State: Misfit, Says: f.NoProject.Why, Breaks: "every build of it", Fix: f.NoProject.Fix}
	}
	if f.Project == "" {
		return Check{ID: "project", State: Info, Says: "no project (" + f.NoProject.Why + "): checked for crates that compile kernels"}
	}
	c := Check{ID: "project", State: OK, Says: f.Project}
	if f.Assumed != "" {
		c.Says += ", checked as with `--features " + f.Assumed + "`"
	}
	if f.OnlyManifests() {
		c.State = Info
		c.Unsure = "not all crates are known without a Cargo.lock (after `cargo generate-lockfile` they are)"
		if f.NoLock {
			c.Says += "; it has no Cargo.lock yet, which the first build writes"
		}
		if f.Unfetched != "" {
			c.Says += "; " + f.Unfetched + ". `cargo fetch` or a build fetches it"
			c.Unsure = "not all crates are known before they are fetched (after `cargo fetch` they are)"
		}
		c.Says += ": checked as far as the manifests show"
	}
	if f.Stops != nil {
		c.State, c.Breaks, c.Fix = Misfit, "every build with these features", f.Stops.Fix
		c.Says += fmt.Sprintf(": %s [%s]", f.Stops.Message, f.Stops.ID)
	}
	return c
}

func checkToolkit(f Facts) Check {
	c := Check{ID: "cuda.toolkit", Breaks: map[bool]string{true: "crates with kernels of their own do not build (nvcc), or do not link",
		false: "crates that link CUDA's libraries, or ask nvcc for its version, do not build"}[f.Needs.NVCC]}
	var usable []string
	for _, t := range f.Toolchain.Toolkits {
		if t.Problem == "" {
			usable = append(usable, t.Named()+" ("+t.Origin+")")
		}
	}
	switch {
	case f.Chosen.Toolkit != nil:
		c.State, c.Says = OK, f.Chosen.Toolkit.Named()+" ("+f.Chosen.Toolkit.Origin+")"
		if len(f.Chosen.Toolkit.Missing) > 0 {
			c.State, c.Says = Warning, c.Says+", without "+strings.Join(f.Chosen.Toolkit.Missing, ", ")
			c.Fix = toolchain.InstallCommand(f.Chosen.Toolkit.Version)
		}
		for _, t := range f.Toolchain.Toolkits {
			if on := t.From(cuda.OnPath); t.Problem == "" && len(on) > 0 && t.Root != f.Chosen.Toolkit.Root &&
				!slices.Contains(on, "NVCC") {
				c.Says += fmt.Sprintf("; the nvcc on PATH is of CUDA %s (%s), which plain cargo would use", t.Version, t.Root)
			}
		}
		for _, l := range f.Chosen.Losers {
			says := l.Where + " is not used: " + l.Why
			if l.What == "CUDA toolkit" && l.Where == cuda.AdminLink && !slices.Contains(f.Chosen.Notes, says) {
				c.Says += "; " + says
			}
		}
	case !f.Needs.Toolkit() && f.Stops != nil:
		c.State, c.Says, c.Breaks = Info, "what the build needs is not known (see project)", ""
	case !f.Needs.Toolkit() && !f.Needs.CUDA && f.OnlyManifests():
		c.State, c.Says, c.Breaks = Info, "whether one is needed is not known yet: no crate that the manifests name needs one", ""
	case !f.Needs.Toolkit() && !f.Needs.CUDA:
		c.State, c.Says, c.Breaks = Info, "no toolkit is needed: no crate of this build uses CUDA", ""
	case !f.Needs.Toolkit():
		c.State, c.Says, c.Breaks = Info, "no toolkit is needed: these crates load the driver when they run", ""
	case len(usable) == 0:
		c.State, c.Says, c.Places = Missing, "no CUDA toolkit", toolkitPlaces(f)
		c.Fix = f.Install
		if missing, ok := errors.AsType[*toolchain.MissingError](f.ChooseErr); ok && missing.Part == toolchain.PartToolkit {
			c.Says, c.Fix = "no "+missing.What, f.chooseFix()
		}
		for _, t := range f.Toolchain.Toolkits {
			c.Says += "; " + t.Root + ": " + t.Problem
		}
	case f.blamed() == c.ID:
		c.Places = usable
	default:
		c.State, c.Breaks, c.Says = Info, "", strings.Join(usable, ", ")+"; "+f.notChosen()
	}
	return c
}

// toolkitPlaces lists where was looked for a toolkit: what the environment could name, then the usual places.
func toolkitPlaces(f Facts) []string {
	named := append(cuda.RootVariables(), "NVCC", "CONDA_PREFIX", "VIRTUAL_ENV")
	return append([]string{strings.Join(named, ", "), "nvcc on PATH"}, f.Toolchain.Places...)
}

func checkHostCompiler(f Facts) Check {
	c := Check{ID: "host.compiler", Breaks: "nvcc compiles nothing without a C++ compiler that it accepts"}
	if f.Chosen.Compiler != nil {
		c.State, c.Says = OK, f.Chosen.Compiler.Named()
		for _, k := range f.Toolchain.Compilers {
			if k.Word != "" && k.Problem != "" {
				c.State, c.Says = Warning, c.Says+fmt.Sprintf("; %s=%s: %s", k.Word, k.Path, k.Problem)
				c.Fix, c.Breaks = "unset it, or name a compiler that is there", "crates that compile C or C++ by that variable"
			}
		}
		return c
	}
	if !f.Needs.NVCC && !f.Needs.HostCompiler {
		return Check{ID: c.ID, State: Info, Says: "none is needed"}
	}
	var usable []string
	for _, k := range f.Toolchain.Compilers {
		if k.Problem == "" {
			usable = append(usable, k.Named())
		} else {
			c.Places = append(c.Places, k.Path+" ("+k.Origin+"): "+k.Problem)
		}
	}
	if f.Toolchain.MSVC != nil {
		c.Places = append(c.Places, f.Toolchain.MSVC.Problems...)
	}
	switch {
	case len(usable) == 0:
		c.State, c.Says, c.Fix = Missing, "no C++ compiler", toolchain.CompilerFix(f.Toolchain)
	case f.blamed() == c.ID:
	case f.ChooseErr != nil:
		c = Check{ID: c.ID, State: Info, Says: strings.Join(usable, ", ") + "; " + f.notChosen()}
	default:
		c = Check{ID: c.ID, State: Info, Says: "the toolkit decides which (see cuda.toolkit): " + strings.Join(usable, ", ")}
	}
	return c
}

func checkSet(f Facts) Check {
	c := Check{ID: "cuda.set", State: OK, Says: "toolkit, host compiler, driver and architecture fit together"}
	switch {
	case f.Chosen.Toolkit == nil:
		c.State, c.Says = Info, "nothing has to fit: these crates need no toolkit"
	case f.OnlyManifests():
		c.State, c.Says = Info, c.Says+"; whether the crates take CUDA "+f.Chosen.Toolkit.Version.String()+" is not known yet (see project)"
	}
	switch {
	case f.ChooseErr != nil:
		c.State, c.Says = Info, f.notChosen()
	default:
		if notes := slices.Concat(f.Chosen.Notes, toolchain.Unreadable(f.Host, f.Needs, f.Chosen.Toolkit, "")); len(notes) > 0 {
			c.State, c.Says = Warning, strings.Join(notes, "; ")
		}
	}
	return c
}

func checkCUDNN(f Facts) Check {
	switch {
	case f.Chosen.CUDNN != nil:
		return Check{ID: "cudnn", State: OK, Says: f.Chosen.CUDNN.String() + " (" + f.Chosen.CUDNN.Origin + ")"}
	case !f.Needs.CUDNN && f.Needs.RunCUDNN:
		return Check{ID: "cudnn", State: Info, Says: "none is needed to build; to run see loader.path"}
	case !f.Needs.CUDNN:
		return Check{ID: "cudnn", State: Info, Says: "no crate here needs cuDNN"}
	}
	c := Check{ID: "cudnn", State: Missing, Says: "no cuDNN that fits", Fix: f.Install, Breaks: "the feature cudnn"}
	if toolchain.AtFault(f.ChooseErr) == toolchain.PartCUDNN {
		c.Fix = f.chooseFix()
	}
	usable := false
	for _, i := range f.Toolchain.CUDNN {
		place := i.String() + " (" + i.Origin + ")"
		if i.Problem != "" {
			place += ": " + i.Problem
		}
		usable = usable || i.Problem == ""
		c.Places = append(c.Places, place)
	}
	if len(c.Places) == 0 {
		c.Places = []string{cudnn.Places(f.Toolchain.MSVC != nil)}
	}
	if usable {
		c.State, c.Says, c.Fix = Info, "a cuDNN is here; "+f.notChosen(), ""
	}
	return c
}

// rocm reports whether AMD's stack is there, which backend is chosen, and why.
func checkROCm(f Facts) Check {
	c := Check{ID: "rocm", State: Info, Breaks: "crates that build with HIP"}
	var found []string
	for _, i := range f.Toolchain.ROCm {
		if i.Problem == "" {
			found = append(found, i.String())
		} else {
			c.Places = append(c.Places, i.Root+": "+i.Problem)
		}
	}
	backends := strings.Join(f.Chosen.Backends, " and ")
	switch {
	case f.Chosen.ROCm != nil:
		c.State, c.Says = OK, f.Chosen.ROCm.String()+" ("+f.Chosen.ROCm.Origin+"); "+backends+": "+f.Chosen.BackendWhy
	case f.Needs.ROCm && len(found) == 0:
		c.State, c.Says = Missing, "no ROCm, and a crate of this build needs it"
		c.Fix = "install ROCm with HIP, and point ROCM_PATH at its root if it is not /opt/rocm"
	case len(found) > 0 && backends != "":
		c.Says = strings.Join(found, ", ") + " is here and not used; " + backends + ": " + f.Chosen.BackendWhy
	case len(found) > 0:
		c.Says = strings.Join(found, ", ") + " is here and not used"
	default:
		c.Says, c.Breaks = "no ROCm, and no crate here needs it", ""
	}
	return c
}

func checkDriver(f Facts) Check {
	if f.Toolchain.Driver.Version != "" {
		c := Check{ID: "driver", State: OK,
			Says: fmt.Sprintf("%s, %s (%s)", f.Toolchain.Driver.Version, f.Toolchain.Driver.Supports(), f.Toolchain.Driver.Origin)}
		if len(f.Pinned) > 0 {
			c.State, c.Breaks, c.Says = Warning, "running", c.Says+"; "+strings.Join(f.Pinned, "; ")
		}
		if have, t := f.Toolchain.Driver.CUDA, f.Chosen.Toolkit; t != nil && !have.IsZero() && t.Version.Major > have.Major {
			c.State, c.Absent, c.Breaks, c.Fix = Warning, true, "running and proving", "a newer driver"
			c.Says = fmt.Sprintf("driver %s runs CUDA up to %s (%s), not what CUDA %s builds", f.Toolchain.Driver.Version,
				have, f.Toolchain.Driver.Origin, t.Version)
			if have.Major >= 12 && f.Needs.Pin.Compare(have) <= 0 {
				c.Fix = fmt.Sprintf("gpubuild toolchain install %s, or a newer driver", have)
			}
		}
		return c
	}
	c := Check{ID: "driver", State: Info, Says: absent(f, "no NVIDIA driver"), Places: f.Notes, Breaks: "running and proving", Absent: true}
	fix := "install NVIDIA's driver, or prove on a machine that has one"
	switch {
	case f.WSL: // the driver is that of Windows
		fix = "update NVIDIA's driver of Windows, then: wsl.exe --shutdown"
	case len(f.Notes) > 0 && !strings.HasPrefix(f.Notes[0], "no NVIDIA driver"): // something of one is there
		c.State, c.Says = Warning, "an NVIDIA driver is here and does not answer"
		fix = "`nvidia-smi` says why"
	}
	if f.Prove {
		c.State, c.Fix = Missing, fix
	}
	return c
}

// absent says what only a proof needs; a check for proofs says so in its own line.
func absent(f Facts, what string) string {
	if f.Prove {
		return what
	}
	return what + "; needed to run and prove, not to build"
}

// readable is CUDA_VISIBLE_DEVICES up to the first number that no GPU here has: CUDA reads no further.
func (f Facts) readable(devices string) string {
	numbers := len(f.Toolchain.Devices)
	if slices.ContainsFunc(f.Notes, func(n string) bool { return strings.HasPrefix(n, "GPU ") }) { // one did not answer
		return devices
	}
	for _, d := range f.Toolchain.Devices {
		if numbers = max(numbers, d.Index+1); len(d.MIG) > 0 { // slices have numbers, too
			return devices
		}
	}
	all := strings.Split(devices, ",")
	for i, d := range all {
		if n, err := strconv.Atoi(strings.TrimSpace(d)); err == nil && n >= numbers {
			return strings.Join(all[:i], ",")
		}
	}
	return devices
}

func checkDevices(f Facts) Check {
	var names, hidden []string
	devices, isSet := f.Host.Env.Lookup("CUDA_VISIBLE_DEVICES")
	visible := gpu.Visible(f.readable(devices), isSet, f.Host.Env.Get("CUDA_DEVICE_ORDER"))
	for _, d := range f.Toolchain.Devices {
		name := fmt.Sprintf("%s (%s, capability %s)", d.Name, d.UUID, d.Capability)
		for _, m := range d.MIG {
			name += fmt.Sprintf(", its slice %s (%s)", m.Name, m.UUID)
		}
		if visible(gpu.Sample{Index: d.Index, UUID: d.UUID}) {
			names = append(names, name)
		} else {
			hidden = append(hidden, name)
		}
	}
	if len(names) == 0 && len(hidden) > 0 {
		return f.lacks(Check{ID: "devices", Says: "CUDA_VISIBLE_DEVICES=" + devices + " hides all GPUs", Places: hidden,
			Breaks: "running and proving", Fix: "unset CUDA_VISIBLE_DEVICES, or name one of these GPUs by its UUID"})
	}
	if len(names) > 0 {
		c := Check{ID: "devices", State: OK, Says: strings.Join(names, ", ") + "; listed by " + f.Toolchain.Driver.Origin}
		for _, n := range f.Notes {
			if strings.HasPrefix(n, "GPU ") { // "GPU 0: this driver is too old to report its compute capability"
				c.State, c.Breaks = Warning, "the architecture of such a GPU must be named: --gpu-arch"
				c.Places = append(c.Places, n)
			}
		}
		return c
	}
	c := f.lacks(Check{ID: "devices", Says: absent(f, "no GPU is visible"), Places: f.Notes, Breaks: "running and proving"})
	if f.Prove {
		c.Fix = "prove on a machine with a GPU; in a container give it the device (--gpus all)"
	}
	return c
}

func checkCUPTI(f Facts) Check {
	if f.CUPTI != "" {
		return Check{ID: "cupti", State: OK, Says: f.CUPTI}
	}
	library := "libcupti"
	if f.Host.OS == buildenv.Windows {
		library = "cupti64_*.dll"
	}
	c := f.lacks(Check{ID: "cupti", Says: "no " + library, Breaks: "a proof: the driver's kernel records come through it",
		Fix: "gpubuild toolchain install"})
	if f.Chosen.Toolkit != nil {
		c.Fix = toolchain.InstallCommand(f.Chosen.Toolkit.Version)
	}
	return c
}

// lacks is the check of something that is not there, and that only a proof needs.
func (f Facts) lacks(c Check) Check {
	c.State, c.Absent = Info, true
	if f.Prove {
		c.State = Missing
	}
	return c
}

func checkProbe(f Facts) Check {
	if f.Unkept.Why != "" {
		return f.lacks(Check{ID: "probe", Says: "there is no place to build the probe (see cache)", Breaks: "a proof", Fix: f.Unkept.Fix})
	}
	if f.Carried {
		return Check{ID: "probe", State: OK, Says: "part of this gpubuild"}
	}
	if f.Compiler != "" {
		return Check{ID: "probe", State: OK, Says: "can be built by " + f.Compiler}
	}
	return f.lacks(Check{ID: "probe", Says: "no C compiler to build the probe with", Breaks: "a proof",
		Fix: "install gcc, on Windows Microsoft's C++ build tools, or give a library with prove --probe FILE"})
}

// checkPrograms reports whether what is built runs here. The next build may change it, so it stops nothing.
func checkPrograms(f Facts) (out []Check) {
	for _, p := range f.Programs {
		for _, v := range p.On {
			if len(v.Kernels) == 0 {
				continue // what it runs is in libraries
			}
			c := Check{ID: "program", State: OK, Says: fmt.Sprintf("%s on %s", p.File, v), Places: v.Why}
			switch no := slices.IndexFunc(v.Kernels, func(k runs.Kernel) bool { return k.Answer == gpu.No }); {
			case no >= 0:
				c.State, c.Breaks, c.Fix = Warning, "these kernels: "+v.Kernels[no].Why, v.Kernels[no].Fix
			case v.Answer == gpu.No:
				c.State, c.Breaks = Warning, "running it"
			case v.Answer == gpu.Unknown:
				c.State = Info
			}
			out = append(out, c)
		}
	}
	return out
}

func checkStubs(f Facts) Check {
	if len(f.Run.Stubs) == 0 {
		return Check{ID: "loader.stubs", State: OK, Says: "no link stub is on the loader's path"}
	}
	return Check{ID: "loader.stubs", State: Misfit, Says: "link stubs are on the loader's path: " + strings.Join(f.Run.Stubs, ", "),
		Fix:    "take them out of LD_LIBRARY_PATH (of /etc/ld.so.conf.d, then ldconfig, where ld.so.cache has them): stubs are for linking",
		Breaks: "every CUDA program: it finds the stub instead of the driver (CUDA error 34)"}
}
