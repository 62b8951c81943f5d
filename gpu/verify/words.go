package verify

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu/probe"
)

const namesShown = 3

// lines explains a verdict in at most six lines: what ran, in which processes, where, how long and
// against which names, what to do next. The reason is given elsewhere.
func lines(e Evidence, r Rules, s summary, v Verdict) []string {
	ran, where := "no kernel was recorded; the program "+e.Exit.String(), "no device was found"
	switch {
	case s.matched > 0:
		ran = fmt.Sprintf("%s of %s, %s on the device%s", launchesText(s.matched), shown(s.kernels, true), spent(s.matchedTotal),
			prefixed(", waited for by its own ", s.waitedBy))
	case s.unwaited > 0:
		ran = fmt.Sprintf("%s of %s, for which nothing waited", launchesText(s.unwaited), shown(s.kernels, true))
	case s.launches > 0 && s.uncounted > 0:
		ran = fmt.Sprintf("%s, of which none counts: %s", launchesText(s.launches), shown(s.kernels, false))
	case s.launches > 0:
		ran = fmt.Sprintf("%s of other kernels: %s", launchesText(s.launches), shown(s.kernels, false))
	case !e.Ran:
		ran = "nothing"
	}
	switch d := s.device; {
	case d != nil && e.Backend == probe.Vulkan:
		where = fmt.Sprintf("%s (%s, %s), driver %s", d.Name, d.UUID, d.Type, driverText(e))
	case d != nil:
		where = fmt.Sprintf("%s (%s, capability %s), driver %s", d.Name, d.UUID, d.Capability, driverText(e))
	case e.Control.UUID != "":
		where = fmt.Sprintf("this machine has %s (%s), driver %s", e.Control.Device, e.Control.UUID, driverText(e))
	case e.Control.Device != "":
		where = fmt.Sprintf("this machine has %s, driver %s", e.Control.Device, driverText(e))
	}
	control := "gpubuild's own kernel ran and was recorded"
	if e.Control.Outcome != ControlRecorded {
		control = cmp.Or(string(e.Control.Outcome), "not run")
		if e.Control.Outcome == ControlNoLibrary {
			control = "not run, no CUDA driver"
		}
		if !strings.Contains(v.Why, strings.TrimPrefix(e.Control.Why, "load: ")) { // a reason is given once
			control += prefixed(", ", e.Control.Why)
		}
	}
	if a := e.After; a != nil && e.Control.Outcome == ControlRecorded {
		if a.Outcome == ControlRecorded {
			control += ", before the program and after it"
		} else {
			control += ", but not once more after the program: " + cmp.Or(a.Why, string(a.Outcome))
		}
	}
	out := []string{"ran: " + ran, "where: " + where, "looked for: " + Asked(e, r), "self-test of the recorder: " + control}
	next := ""
	switch {
	case v.Kind == OtherKernels && s.elsewhere != "":
		return append(out, "if that device is right, ask for it, or for none: --gpu-device")
	case v.Kind == OtherKernels:
		return append(out, nameOne(s.own))
	case v.Kind == Unproved:
		next = remedy(e, s, v)
	case v.Kind == NotUsed && s.noUse.software > 0:
		next = "install the Vulkan driver of the GPU (vulkaninfo --summary lists it then), or let the program choose its device"
	case v.Kind == NotUsed && e.Backend == probe.Vulkan:
		next = "see whether the program's gpu feature is enabled (gpubuild features), and make the program use the GPU"
	case v.Kind == NotUsed && s.refused != "":
		next = "find out why the driver refused that: the program went on without the GPU"
	case v.Kind == NotUsed:
		next = "check that CUDA is enabled (gpubuild features) and that the program is asked to use it (such as -- --device cuda)"
	case v.Kind == NoDevice && e.Hidden != "":
		next = "run it without that setting"
	case v.Kind == NoDevice:
		next = "prove on a machine with a GPU"
	}
	if next == "" {
		return out
	}
	return append(out, "next: "+next)
}

// remedy says how to get what is missing, where that is known.
func remedy(e Evidence, s summary, v Verdict) string {
	why := v.Why
	unrecorded := e.Control.Outcome == ControlUnrecorded
	switch {
	case e.OS == buildenv.Windows && strings.Contains(why, "whether a GPU was opened"):
		return "Windows does not report that: a program that never calls the driver cannot be proven not to use the GPU"
	case e.OS == buildenv.Windows && unrecorded && strings.Contains(why, "load:"):
		return "Install CUPTI (cupti64_*.dll, of the toolkit's extras\\CUPTI\\lib64), or name it with --cupti"
	case e.Control.Outcome == ControlFailed:
		for _, r := range refusals {
			if strings.Contains(why, r.what) {
				return r.remedy
			}
		}
		return ""
	case s.noEnd != "" && strings.HasSuffix(why, s.noEnd) && strings.Contains(why, "orderly"):
		return "Let it return from main or call exit"
	case e.Exit.TimedOut:
		return "Give it more time with --timeout (--gpu-timeout on cargo's verbs), or less to do"
	case e.Exit.Signal == "" && strings.Contains(why, ", expected was "):
		return fmt.Sprintf("The exit code %d is the program's own, and no verdict. If it is to end so: "+
			"--expect-exit %[1]d (--gpu-expect-exit on cargo's verbs)", e.Exit.Code)
	}
	for _, r := range remedies {
		if strings.Contains(why, r.part) && (unrecorded || !r.unrecorded) {
			return strings.ReplaceAll(r.remedy, "--child NAME", "--child "+buildenv.Words(e.OS, cmp.Or(s.childName, "NAME")))
		}
	}
	return ""
}

// remedies are those of reasons that hold this part; unrecorded: only where the control was not recorded.
var remedies = []struct {
	part, remedy string
	unrecorded   bool
}{
	{", not from the driver", "Run it without the library that replaces that function (LD_PRELOAD)", false},
	{"LD_AUDIT is set", "Run it without that variable", false},
	{"load:", "Install CUPTI (libcupti, of the toolkit's extras/CUPTI or the wheel nvidia-cuda-cupti)", true},
	{"INSUFFICIENT_PRIVILEGES", "Ask an administrator for NVreg_RestrictProfilingToAdminUsers=0", true},
	{"MULTIPLE_SUBSCRIBERS", "End the other profiler (nsys, ncu, compute-sanitizer)", true},
	{"MULTIPLE_SUBSCRIBERS", ownProfiler, false},
	{"a profiler of its own", ownProfiler, false},
	{"it has brought CUPTI", "Let it return from main or call exit, and run it without its own profiler", false},
	{"(33)", "Prove on a GPU that is not virtual (vGPU), or ask the administrator to allow CUPTI there", true},
	{"(40)", "Ask the hypervisor's administrator to allow profiling (vGPU: enable_profiling = 1)", true},
	{"(41)", "Prove on a machine without confidential computing: CUPTI records nothing in that mode", true},
	{"(43)", "Prove on a whole GPU, or on a MIG slice with one compute instance", true},
	{"(45)", "Prove on Windows or Linux itself, or update WSL2 and the Windows driver", true},
	{"NOT_INITIALIZED", "This CUPTI may be newer than the driver: use an older one (--cupti)", true},
	{"became another program", "Prove that program, or let it count: --child NAME (--gpu-child on cargo's verbs)", false},
	{"children started", "Prove that program itself: how one ends that a daemon started is not seen", false},
	{"by a child", "Prove the program that does the work instead, or let it count: --child NAME (--gpu-child on cargo's verbs)", false},
	{lostRecords, "Make room, or set GPUBUILD_CACHE to a directory on another disk", false},
	{cutOff, "Prove a shorter run, of fewer processes", false},
	{"records could not be read", "Leave the directory that " + probe.DirVariable + " names alone", false},
	{"ran no kernel that matches", "See what that process did in place of its kernel, or let --child name only those that compute", false},
	{"(--min-children)", "See why the others ran none, or ask for fewer", false},
	{"(--min-", "Let it compute more than a warm-up, or ask for less", false},
	{"has lost the variable", "Prove that program itself, or keep the environment", false},
	{"the probe never started", "Keep the environment of what it starts, and run it while nothing else uses the GPU", false},
	{"another API", "Only kernels of CUDA, or with --backend vulkan those of Vulkan, are recorded", false},
	{"it called vkCmd", "Only compute pipelines that vkCmdDispatch starts are recorded", false},
	{"indirect or conditional", "Let it dispatch the pipeline once with vkCmdDispatch (dispatch_workgroups of wgpu)", false},
	{"did not load the layer", "Unset VK_LOADER_LAYERS_DISABLE, or update the Vulkan loader (libvulkan1)", true},
	{"nothing waited for them", "Let it wait for its kernels (cuCtxSynchronize) before it resets the device or ends", false},
	{"after the last kernel that matches", "See why the driver refused that, and what the program did then", false},
	{"while it ended", "Launch no kernels from exit handlers, destructors or threads that outlive main", false},
	{"a second driver", "Load one driver only, by the name libcuda.so.1", false},
	{"a root or mounts of its own", "Prove the program that runs in there by itself", false},
	{"it started other processes", "Prove the program that computes by itself, or start no process before the program has its context", false},
	{"time namespace", "Run it without a time namespace of its own", false},
	{"it left a running process", "Prove the program that computes without the one that starts it", false},
}

const ownProfiler = "Run it without its own profiler (PyTorch: no torch.profiler, and KINETO_USE_DAEMON unset)"

// refusals are the answers of cuInit for which what is loaded is to blame: cuda.h, CUresult.
var refusals = map[int]struct{ what, remedy string }{
	34: {"a stub of the toolkit, which is for linking only",
		"Take the stub's directory out of LD_LIBRARY_PATH and of the program's run path"},
	803: {"the driver library and the kernel module are of different versions",
		"Start the machine again after an update of the driver; in a container, update the host's"},
	804: {"this device knows no forward compatibility", "Take the cuda-compat directory out of LD_LIBRARY_PATH, or update the driver"},
}

func launchesText(n uint64) string { return counted(n, "launch", "launches") }

func counted(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func spent(ns uint64) string {
	d := time.Duration(min(ns, 1<<62))
	switch {
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

func shown(kernels []KernelSummary, matching bool) string {
	var names []string
	more := 0
	for _, k := range kernels {
		if matching && !k.Counted {
			continue
		}
		name := cmp.Or(k.Plain, k.Name)
		if len(name) > 80 {
			name = name[:77] + "..."
		}
		if k.Child {
			name += " (in a child)"
		}
		switch {
		case slices.Contains(names, name):
		case len(names) < namesShown:
			names = append(names, name)
		default:
			more++
		}
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// nameOne says how to name the kernel that counts, with the exact words for each of those that ran longest.
func nameOne(kernels []KernelSummary) string {
	which, flags, key := "one of them", []string{"--kernel 'REGEX'"}, "REGEX"
	for i, k := range kernels[:min(len(kernels), namesShown)] {
		pattern := "^" + regexp.QuoteMeta(cmp.Or(k.Plain, k.Name)) + "$"
		if i == 0 {
			flags, key = nil, pattern
		}
		flags = append(flags, "--kernel '"+pattern+"'")
	}
	if len(kernels) == 1 {
		which = shown(kernels, false)
	}
	return "if " + which + " is the kernel, name it: " + strings.Join(flags, " or ") + " (--gpu-kernel on cargo's verbs), or for those " +
		"in gpubuild.toml, below [prove], [test] or [bench]: kernel = '" + key + "'"
}

func driverText(e Evidence) string {
	l := e.Control.Loaded
	for _, p := range e.Processes {
		if p.Self && p.LibCUDA != "" {
			l = p.Loaded
			break
		}
	}
	return cmp.Or(l.Version, l.Real, l.LibCUDA, "unknown")
}

// Asked words what is asked of the evidence.
func Asked(e Evidence, r Rules) string {
	what := "any matrix product"
	switch {
	case r.Kernel != nil:
		what = "kernels called " + r.Kernel.String()
	case e.Backend == probe.Vulkan:
		what = "any compute pipeline of the program"
	}
	if r.Device != "" {
		what += ", on device " + r.Device
	}
	if r.MinLaunches > 0 {
		what += ", at least " + counted(r.MinLaunches, "launch", "launches")
	}
	if r.MinTime > 0 {
		what += ", for at least " + r.MinTime.String()
	}
	if r.MinChildren > 0 {
		what += ", in at least " + counted(uint64(r.MinChildren), "process", "processes")
	}
	if r.Child != "" {
		what += ", from the binary or a child called " + r.Child
	}
	return what
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// fallback finds words in which programs say that they go on without the GPU. Many an honest program writes them, too (a reference product,
// the name of a test): they are shown as a note, and decide nothing.
var fallback = lazyregexp.New(`(?i)\b(fall(s|ing)?|fell|revert(s|ing)?|switch(es|ing)?|default(s|ing)?) ?back\W+(to|on)\W+(the )?cpu\b|` +
	`\bfall(s|ing)?[ -]?back\W+to\W+cpu\b|\bcpu fallback\b|` +
	`\b(us(es|ing)|runs?|running|comput(es|ing)|execut(es|ing)) (on |with )?(the )?cpu\b|` +
	`\bno (usable |available |compatible |cuda[ -](capable )?)*(gpu|cuda|device)s?( device)?s? (was |were )?(found|detected|available)\b|` +
	`\b(cuda|gpu) (is |was )?(not available|unavailable|disabled)\b|\boffloaded 0/\d+ layers\b`)

// LineAboutCPU returns the first line in which a program says that it goes on without the GPU, shortened, or nothing.
func LineAboutCPU(output []byte) string {
	for line := range bytes.Lines(output) {
		cargo := bytes.HasPrefix(bytes.TrimSpace(line), []byte("Running `")) // its line with the program's arguments
		if !cargo && fallback.Match(line) {
			said := strings.TrimSpace(strings.ToValidUTF8(string(line), "?"))
			return strings.ToValidUTF8(said[:min(len(said), 160)], "") // not half a letter
		}
	}
	return ""
}
