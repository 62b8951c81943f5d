package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// runner is all that taking the inventory asks of the world.
type runner interface {
	Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error)
}

// Timeout is how long NVML, and then nvidia-smi, may take. A driver that has to wake its GPUs takes about a second for each.
const Timeout = 5 * time.Second

const library = "libnvidia-ml.so.1"

// standardDirs are searched by the loader itself or hold nothing but the driver's libraries; the latter are added for the child.
var standardDirs = []struct {
	dir   string
	extra bool
}{
	{"/usr/lib/x86_64-linux-gnu", false},
	{"/usr/lib/aarch64-linux-gnu", false},
	{"/usr/lib64", false},
	{"/usr/lib", false},
	{wslDir, true},
	{"/usr/local/nvidia/lib64", true},                  // container runtimes
	{"/usr/local/nvidia/lib", true},                    //
	{"/run/opengl-driver/lib", true},                   // NixOS
	{"/usr/lib/x86_64-linux-gnu/nvidia/current", true}, // Debian
	{"/usr/lib64/nvidia", true},
	{"/usr/lib/nvidia", true},
}

// traces is what of a driver can be seen without a process.
type traces struct {
	any bool
	lib string // directory of libnvidia-ml, if the loader may not find it
	smi string // path of nvidia-smi
}

func look(h buildenv.Host) traces {
	var t traces
	if h.OS == buildenv.Darwin {
		return t
	}
	if smi, err := h.LookPath("nvidia-smi"); err == nil {
		t.smi = smi
	}
	if h.OS == buildenv.Windows {
		root := h.Env.Get("SystemRoot")
		if !h.IsAbs(root) {
			root = `C:\Windows`
		}
		if p := h.Join(root, "System32", "nvidia-smi.exe"); t.smi == "" && h.IsFile(p) {
			t.smi = p
		}
		t.any = t.smi != "" || h.IsFile(h.Join(root, "System32", "nvml.dll"))
		return t
	}
	if p := h.Join(wslDir, "nvidia-smi"); t.smi == "" && h.IsFile(p) {
		t.smi = p
	}
	t.any = t.smi != "" || h.IsDir(moduleDir) || h.IsDir(procDir)
	for _, dir := range h.SplitList(h.Env.Get("LD_LIBRARY_PATH")) {
		if h.IsAbs(dir) && h.IsFile(h.Join(dir, library)) {
			t.any = true
			return t
		}
	}
	for _, d := range standardDirs {
		if h.IsFile(h.Join(d.dir, library)) {
			t.any = true
			if d.extra {
				t.lib = d.dir
			}
			break
		}
	}
	return t
}

func noDriver(h buildenv.Host) string {
	if h.OS == buildenv.Windows {
		return "no NVIDIA driver here: neither nvml.dll nor nvidia-smi.exe in System32"
	}
	return "no NVIDIA driver here: no kernel module, no " + library + ", no nvidia-smi"
}

// Inventory answers the driver and its GPUs, and in words how it was asked and what did not answer. self is the path of the running
// program, which calls ChildMain when its first argument is ChildArg.
func Inventory(ctx context.Context, h buildenv.Host, run runner, self string) (gpu.Driver, []gpu.Device, []string) {
	t := look(h)
	if !t.any {
		return gpu.Driver{}, nil, []string{noDriver(h)}
	}
	kernel := Version(h)
	var notes []string
	type source struct {
		name string
		ask  func() (answer, error)
	}
	var sources []source
	if builtIn && self != "" {
		sources = append(sources, source{"NVML", func() (answer, error) { return askChild(ctx, run, ChildCmd(h, self, t.lib)) }})
	} else {
		notes = append(notes, "NVML: not asked, this gpubuild was built without cgo")
	}
	if t.smi != "" {
		sources = append(sources, source{"nvidia-smi", func() (answer, error) { return askSMI(ctx, h, run, t.smi) }})
	} else {
		notes = append(notes, "nvidia-smi: not on PATH")
	}
	for _, s := range sources {
		a, err := s.ask()
		if ctx.Err() != nil {
			return kernel, nil, append(notes, s.name+": interrupted")
		}
		if err != nil {
			notes = append(notes, s.name+": "+reason(err))
			continue
		}
		d := gpu.Driver{Version: a.Driver, CUDA: gpu.VersionOf(a.CUDA), Origin: s.name}
		if d.CUDA.IsZero() {
			d.CUDA = Supports(h.OS, d.Version)
		}
		if d.Version == "" {
			d = kernel
		}
		if kernel.Version != "" && kernel.Version != d.Version {
			notes = append(notes, fmt.Sprintf("the kernel has loaded driver %s (%s), %s speaks of %s: after an update, reboot",
				kernel.Version, kernel.Origin, s.name, d.Version))
		}
		notes = append(notes, fmt.Sprintf("%s: driver %s, %d GPU(s)", s.name, cmp.Or(d.Version, "of an unknown version"), len(a.Devices)))
		return d, a.devices(), append(notes, a.Notes...)
	}
	return kernel, nil, append(notes, "no GPU could be asked")
}

// reason words an error in one line: what a child wrote before it ended, or how it ended.
func reason(err error) string {
	var exit *buildenv.ExitError
	if errors.As(err, &exit) && exit.Result.TimedOut {
		return fmt.Sprintf("no answer in %s", exit.Cmd.Timeout)
	}
	if exit != nil {
		// Go's run time in our child says first what happened and then a screen of registers. Source: runtime/signal_unix.go, sighandler.
		if m := crash.FindSubmatch(exit.Result.Stderr); m != nil {
			return "the driver's library crashed: " + string(m[1])
		}
	}
	return firstLine(err.Error(), 300)
}

var crash = lazyregexp.New(`(?m)^(SIG[A-Z]{2,6}(?:: [\w ]+)?|fatal error: [^\n]{1,200})$`)

// answer is what the child prints and what nvidia-smi's answer is turned into.
type answer struct {
	Schema  string        `json:"schema"`
	Driver  string        `json:"driver,omitempty"`
	CUDA    int           `json:"cuda,omitempty"` // major*1000 + minor*10
	Devices []childDevice `json:"devices,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
	Error   string        `json:"error,omitempty"`
}

type childDevice struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid,omitempty"`
	Name   string `json:"name,omitempty"`
	Major  int    `json:"major,omitempty"`
	Minor  int    `json:"minor,omitempty"`
	Memory uint64 `json:"memory,omitempty"`
}

func (a answer) devices() []gpu.Device {
	var out []gpu.Device
	for _, d := range a.Devices {
		out = append(out, gpu.Device{
			Index:      d.Index,
			UUID:       d.UUID,
			Name:       d.Name,
			Memory:     d.Memory,
			Capability: gpu.Capability{Major: d.Major, Minor: d.Minor},
		})
	}
	slices.SortStableFunc(out, func(a, b gpu.Device) int { return a.Index - b.Index })
	return out
}
