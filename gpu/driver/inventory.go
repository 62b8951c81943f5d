package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/memo"
	"gpubuild/gpu"
)

// Timeout is how long a source may be silent once it has answered.
const Timeout = 5 * time.Second

// findSMI is the path of nvidia-smi, which every driver brings; empty: it is not here. any: there is a trace of a driver all the same.
func findSMI(h buildenv.Host) (smi string, anything bool) {
	var at, traces []string
	switch h.OS {
	case buildenv.Darwin:
		return "", false
	case buildenv.Windows:
		system := systemDir(h)
		at, traces = []string{h.Join(system, "nvidia-smi.exe")}, []string{h.Join(system, "nvml.dll"), h.Join(system, "nvcuda.dll")}
	default:
		at, traces = []string{h.Join(wslDir, "nvidia-smi")}, []string{moduleDir, procDir, h.Join(wslDir, "libcuda.so.1")}
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

func systemDir(h buildenv.Host) string {
	root := h.Env.Get("SystemRoot")
	if !h.IsAbs(root) {
		root = `C:\Windows`
	}
	return h.Join(root, "System32")
}

func noDriver(h buildenv.Host) string {
	if h.OS == buildenv.Windows {
		return "no NVIDIA driver here: neither nvml.dll nor nvidia-smi.exe in System32"
	}
	return "no NVIDIA driver here: no kernel module, no nvidia-smi"
}

// Machine is whose driver is asked.
type Machine struct {
	Host   buildenv.Host
	Runner buildenv.Runner
	Self   string      // this program, which asks NVML in a child; empty: nvidia-smi is asked
	Memo   *memo.Store // keeps the version; nil: nothing is kept
	// Silent keeps for the life of the process that the driver hangs, and what was said of that; nil: it is asked each time.
	Silent *atomic.Pointer[[]string]
}

// source lists GPUs and samples them. Each is a process of its own, which can be given up where the driver hangs.
type source interface {
	name() string
	list(ctx context.Context, run buildenv.Runner) (reply, error)
	watch() buildenv.Cmd // writes samples until it is stopped
	samples(line []byte) ([]gpu.Sample, error)
}

// sources are those that can be asked, NVML first; anything: there is a trace of a driver.
func (m Machine) sources() (list []source, anything bool) {
	h := m.Host
	smi, anything := findSMI(h)
	if hasNVML && m.Self != "" {
		for _, dir := range h.SplitList(h.Env.Get("LD_LIBRARY_PATH")) {
			anything = anything || h.IsFile(h.Join(dir, libraryName))
		}
		list = append(list, nvmlSource{h, m.Self})
	}
	if smi != "" {
		list = append(list, smiSource{h, smi})
	}
	return list, anything
}

// Look looks at what changes when the driver's answer does: its files, the GPUs that the kernel lists, and that the system was started. Where
// files are recorded, as those of a build with nothing to do, the answer holds as long as these are the same.
func (m Machine) Look() {
	smi, anything := findSMI(m.Host)
	paths := []string{smi}
	for _, dir := range m.Host.SplitList(m.Host.Env.Get("LD_LIBRARY_PATH")) {
		paths = append(paths, m.Host.Join(dir, libraryName))
	}
	if m.Host.OS == buildenv.Linux && anything {
		paths = append(paths, bootID)
		_, _ = m.Host.Files.ReadDir(procDir + "/gpus")
	}
	for _, path := range paths {
		if path != "" {
			_, _ = m.Host.Files.Stat(path)
		}
	}
}

// Inventory returns the driver and its GPUs, and in words how it was asked and what did not answer.
func (m Machine) Inventory(ctx context.Context) (gpu.Driver, []gpu.Device, []string) {
	sources, anything := m.sources()
	if !anything {
		return gpu.Driver{}, nil, []string{noDriver(m.Host)}
	}
	kernel := Kernel(m.Host)
	if m.Silent != nil && m.Silent.Load() != nil {
		return m.unasked(kernel), nil, slices.Clone(*m.Silent.Load())
	}
	var notes []string
	hangs := false
	for _, s := range sources {
		a, err := s.list(ctx, m.Runner)
		switch {
		case ctx.Err() != nil:
			return kernel, nil, append(notes, s.name()+": interrupted")
		case err == nil:
			return m.describe(s.name(), kernel, a, notes)
		case err.Error() != noLibrary:
			notes = append(notes, s.name()+": "+reason(err))
		}
		if hangs = strings.HasPrefix(reason(err), noAnswer); hangs {
			break // another source would ask the same driver
		}
	}
	if len(notes) == 0 {
		notes = []string{"nvidia-smi: not on PATH"}
	}
	notes = append(notes, "no GPU could be asked")
	if hangs && m.Silent != nil {
		said := slices.Clone(notes)
		m.Silent.Store(&said)
	}
	return m.unasked(kernel), nil, notes
}

// describe puts what a source says and what the kernel has loaded together, and keeps the driver for Version.
func (m Machine) describe(source string, kernel gpu.Driver, a reply, notes []string) (gpu.Driver, []gpu.Device, []string) {
	d := gpu.Driver{Version: a.Driver, CUDA: a.CUDA, Origin: source}
	if d.CUDA.IsZero() {
		d.CUDA, d.AtLeast = Supports(tableOf(m.Host), a.Driver)
	}
	if d.Version == "" {
		d = kernel
	}
	if a.Driver == "" && len(a.Devices) > 0 {
		d.Origin = strings.TrimPrefix(kernel.Origin+", "+source, ", ")
	}
	if kernel.Version != "" && kernel.Version != d.Version {
		notes = append(notes, fmt.Sprintf("the kernel has loaded driver %s (%s), %s speaks of %s: after an update, reboot",
			kernel.Version, kernel.Origin, source, d.Version))
	}
	m.keep(d)
	notes = append(notes, fmt.Sprintf("%s: driver %s, %d GPU(s)", source, cmp.Or(d.Version, "of an unknown version"), len(a.Devices)))
	return d, a.Devices, append(notes, a.Notes...)
}

func reason(err error) string {
	exit, ok := errors.AsType[*buildenv.ExitError](err)
	if ok && exit.Result.TimedOut {
		return noAnswer + exit.Cmd.Timeout.String()
	} else if ok && slices.Contains(exit.Cmd.Args, ChildWord) { // what it printed is Go's trace
		return fmt.Sprintf("the driver's library ended it, with exit status %d", exit.Result.Code)
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
