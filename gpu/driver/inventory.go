package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// Timeout is how long nvidia-smi may be silent once it has answered.
const Timeout = 5 * time.Second

// findSMI is the path of nvidia-smi, which every driver brings; empty: it is not here. any: there is a trace of a driver all the same.
func findSMI(h buildenv.Host) (smi string, anything bool) {
	var at, traces []string
	switch h.OS {
	case buildenv.Darwin:
		return "", false
	case buildenv.Windows:
		root := h.Env.Get("SystemRoot")
		if !h.IsAbs(root) {
			root = `C:\Windows`
		}
		at, traces = []string{h.Join(root, "System32", "nvidia-smi.exe")}, []string{h.Join(root, "System32", "nvml.dll")}
	default:
		at, traces = []string{h.Join(wslDir, "nvidia-smi")}, []string{moduleDir, procDir}
	}
	if smi, err := h.LookPath("nvidia-smi"); err == nil {
		return smi, true
	}
	for _, p := range at {
		if h.IsFile(p) {
			return p, true
		}
	}
	for _, p := range traces {
		anything = anything || h.IsFile(p) || h.IsDir(p)
	}
	return "", anything
}

func noDriver(h buildenv.Host) string {
	if h.OS == buildenv.Windows {
		return "no NVIDIA driver here: neither nvml.dll nor nvidia-smi.exe in System32"
	}
	return "no NVIDIA driver here: no kernel module, no nvidia-smi"
}

// Inventory returns the driver and its GPUs, and in words how it was asked and what did not answer.
func Inventory(ctx context.Context, h buildenv.Host, run buildenv.Runner) (gpu.Driver, []gpu.Device, []string) {
	const name = "nvidia-smi"
	smi, anything := findSMI(h)
	if !anything {
		return gpu.Driver{}, nil, []string{noDriver(h)}
	}
	kernel := Version(h)
	if smi == "" {
		return kernel, nil, []string{name + ": not on PATH", "no GPU could be asked"}
	}
	a, err := askSMI(ctx, h, run, smi)
	switch {
	case ctx.Err() != nil:
		return kernel, nil, []string{name + ": interrupted"}
	case err != nil:
		return kernel, nil, []string{name + ": " + reason(err), "no GPU could be asked"}
	}
	d := gpu.Driver{Version: a.driver, CUDA: Supports(h.OS, a.driver), Origin: name}
	if d.Version == "" {
		d = kernel
	}
	var notes []string
	if kernel.Version != "" && kernel.Version != d.Version {
		notes = append(notes, fmt.Sprintf("the kernel has loaded driver %s (%s), %s speaks of %s: after an update, reboot",
			kernel.Version, kernel.Origin, name, d.Version))
	}
	notes = append(notes, fmt.Sprintf("%s: driver %s, %d GPU(s)", name, cmp.Or(d.Version, "of an unknown version"), len(a.devices)))
	return d, a.devices, append(notes, a.notes...)
}

// reason words an error in one line.
func reason(err error) string {
	if exit, ok := errors.AsType[*buildenv.ExitError](err); ok && exit.Result.TimedOut {
		return fmt.Sprintf("no answer in %s", exit.Cmd.Timeout)
	}
	return firstLine(err.Error(), 300)
}

func firstLine(s string, limit int) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		first, rest := s[:i], strings.TrimSpace(s[i:])
		if strings.HasSuffix(strings.TrimSpace(first), ":") { // "nvidia-smi: exit status 9:" and what it said
			first += " " + firstLine(rest, limit)
		}
		s = first
	}
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
