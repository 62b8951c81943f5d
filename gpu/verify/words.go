package verify

import (
	"fmt"
	"strings"
	"time"

	"gpubuild/buildenv"
)

const namesShown = 3

// lines explains a verdict in at most five lines: what ran, where, how long and against which names, what is missing.
func lines(e Evidence, r Rules, s summary, v Verdict) []string {
	var out []string
	switch {
	case s.matched > 0:
		out = append(out, fmt.Sprintf("ran: %s of %s, %s on the device", launchesText(s.matched), shown(s.kernels, true), spent(s.matchedTotal)))
	case s.launches > 0:
		out = append(out, fmt.Sprintf("ran: %s of other kernels: %s", launchesText(s.launches), shown(s.kernels, false)))
	case !e.Ran:
		out = append(out, "ran: nothing")
	default:
		out = append(out, "ran: no kernel was recorded; the program "+e.Exit.String())
	}
	switch {
	case s.device != nil:
		out = append(out, fmt.Sprintf("where: %s (%s, capability %s), driver %s", s.device.Name, s.device.UUID, s.device.Capability, driverText(e)))
	case e.Control.UUID != "":
		out = append(out, fmt.Sprintf("where: here are %s (%s), driver %s", e.Control.Device, e.Control.UUID, driverText(e)))
	case e.Hidden != "":
		out = append(out, "where: "+e.Hidden+" hides every device")
	default:
		out = append(out, "where: no device was found"+prefixed(": ", e.Control.Why))
	}
	out = append(out, "asked for: "+asked(e, r)+alsoAsked(r))
	control := "control: gpubuild's own kernel ran and was recorded"
	if e.Control.Outcome != ControlRecorded {
		control = "control: " + orElse(string(e.Control.Outcome), "not run") + prefixed(", ", e.Control.Why)
	}
	if a := e.After; a != nil && e.Control.Outcome == ControlRecorded {
		if a.Outcome == ControlRecorded {
			control += ", before the program and after it"
		} else {
			control += ", but not once more after the program: " + orElse(a.Why, string(a.Outcome))
		}
	}
	out = append(out, control)
	switch {
	case v.Kind == Proved && len(s.notes) > 0:
		out = append(out, "note: "+strings.Join(s.notes, "; "))
	case v.Kind == Unproved:
		out = append(out, "missing: "+v.Why+prefixed(". ", remedy(e, s, v)))
	case v.Kind == OtherKernels:
		out = append(out, "if one of these is the kernel, name it: --kernel REGEX")
	case v.Kind == NoDevice:
		out = append(out, "missing: "+v.Why+"; prove on a machine with a GPU")
	}
	return out
}

// remedy says how to get what is missing, where that is known.
func remedy(e Evidence, s summary, v Verdict) string {
	why := v.Why
	switch {
	case strings.Contains(why, "LD_PRELOAD="), strings.Contains(why, "LD_AUDIT="):
		return "Run it without that variable"
	case e.OS == buildenv.Windows && strings.Contains(why, "whether the driver was opened"):
		return "Windows does not tell: of a program that never calls the driver it cannot be proven that it did not use the GPU"
	case e.OS == buildenv.Windows && e.Control.Outcome == ControlUnrecorded && strings.Contains(why, "load:"):
		return "Install CUPTI (cupti64_*.dll, of the toolkit's extras\\CUPTI\\lib64), or name it with --cupti"
	case e.Control.Outcome == ControlUnrecorded && strings.Contains(why, "load:"):
		return "Install CUPTI (libcupti, of the toolkit's extras/CUPTI or the wheel nvidia-cuda-cupti)"
	case e.Control.Outcome == ControlUnrecorded && strings.Contains(why, "INSUFFICIENT_PRIVILEGES"):
		return "Ask an administrator for NVreg_RestrictProfilingToAdminUsers=0"
	case e.Control.Outcome == ControlUnrecorded && strings.Contains(why, "MULTIPLE_SUBSCRIBERS"):
		return "End the other profiler"
	case e.Control.Outcome == ControlUnrecorded && strings.Contains(why, "NOT_INITIALIZED"):
		return "This CUPTI may be newer than the driver: use an older one"
	case s.childRecorded != "" && s.selfLaunches == 0:
		return "Prove the program that does the work instead"
	case strings.Contains(why, "has lost the variable"):
		return "Prove that program itself, or keep the environment"
	}
	return ""
}

func launchesText(n uint64) string {
	if n == 1 {
		return "1 launch"
	}
	return fmt.Sprintf("%d launches", n)
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

// shown names the first few kernels.
func shown(kernels []KernelSummary, matching bool) string {
	var names []string
	more := 0
	for _, k := range kernels {
		if matching && !k.Counted {
			continue
		}
		name := orElse(k.Plain, k.Name)
		if len(name) > 80 {
			name = name[:77] + "..."
		}
		if k.Child {
			name += " (in a child)"
		}
		switch {
		case contains(names, name):
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

func driverText(e Evidence) string {
	l := e.Control.Loaded
	for _, p := range e.Processes {
		if p.Self && p.LibCUDA != "" {
			l = p.Loaded
			break
		}
	}
	return orElse(l.Version, orElse(l.Real, orElse(l.LibCUDA, "unknown")))
}

func asked(e Evidence, r Rules) string {
	switch {
	case r.Kernel != nil:
		return "kernels called " + r.Kernel.String()
	case r.Mode == Exec && len(e.Own) > 0:
		return fmt.Sprintf("a matrix product, or one of the %d kernels that the binary holds", len(e.Own))
	}
	return "a matrix product"
}

// alsoAsked words what is asked beside the name.
func alsoAsked(r Rules) string {
	var more string
	if r.Min > 1 {
		more += fmt.Sprintf(", at least %d launches", r.Min)
	}
	if r.Device != "" {
		more += ", on device " + r.Device
	}
	if r.Child != "" {
		more += ", from the binary or a child called " + r.Child
	}
	return more
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
