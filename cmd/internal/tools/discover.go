package tools

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
	"gpubuild/toolchain/rocm"
)

// discovery is a look at a machine for what a build needs.
type discovery struct {
	machine    *session.Machine
	host       buildenv.Host // the machine's, with the environment that counts
	needs      toolchain.Needs
	wish       wish
	guard      *Guard
	everything bool // whether it is needed or not
}

// run finds what this machine has, and how the driver was asked. A GPU is asked for only when it decides something: a driver's start
// costs a tenth of a second and more.
func (d discovery) run(ctx context.Context) (f toolchain.Facts, driverNotes []string) {
	m, h := d.machine, d.host
	f.LibCUDA = toolchain.DriverLibrary(h)
	from := m.Driver()
	from.Host, from.Runner = h, cmp.Or(m.Asking, m.Runner)
	from.Look()
	if d.everything || d.wish.Arch == "" && len(d.wish.Previous) == 0 && (d.needs.NVCC || d.needs.Libraries) {
		f.Driver, f.Devices, driverNotes = from.Inventory(ctx)
		for _, n := range driverNotes {
			m.Shell.Detail("%s", n)
		}
	} else {
		f.Driver = from.Version(ctx)
	}
	if d.everything || d.needs.ROCm {
		f.ROCm = rocm.Find(h)
	}
	if !d.everything && !d.needs.Toolkit() && !d.needs.HostCompiler && !d.needs.RunCUDNN {
		return f, driverNotes
	}
	run := d.guard.Over(m.Runner)
	var compilersFound sync.WaitGroup // toolkits and compilers take the longest, and do not depend on each other
	compilersFound.Go(func() { f.Compilers, f.MSVC = compilers(ctx, m, h, run, d.wish.CCBin) })
	f.Toolkits, f.CUDNN = d.installed(ctx)
	f.Places, f.GXX = cuda.UsualPlaces(h), h.InstallCommand(buildenv.GXX)
	compilersFound.Wait()
	return f, driverNotes
}

// installed finds the toolkits, and the cuDNNs where they are needed.
func (d discovery) installed(ctx context.Context) (toolkits []cuda.Toolkit, cudnns []cudnn.Install) {
	toolkits = findToolkits(ctx, d.host, d.guard.Over(d.machine.Runner), d.wish.extra)
	if d.needs.CUDNN || d.needs.RunCUDNN {
		var roots []string
		for _, t := range toolkits {
			if t.Problem == "" {
				roots = append(roots, t.Root)
			}
		}
		cudnns = cudnn.Find(d.host, roots)
	}
	return toolkits, cudnns
}

// Before is what decides which release is fetched for some needs where nothing is asked for: GPUs, driver and host compilers.
func Before(ctx context.Context, m *session.Machine, n toolchain.Needs) (toolchain.Facts, toolchain.Wish) {
	w := toolchain.Wish{Unchecked: toolchain.Unchecked(m.Host.Env)}
	w.Arch, w.ArchOrigin = toolchain.ArchWish("", "", m.Host.Env, "", "")
	f, _ := discovery{machine: m, host: m.Host, needs: n, wish: wish{Wish: w}}.run(ctx)
	return f, w
}

// topLine is nvcc's own word for where it is, two levels above its program.
var topLine = lazyregexp.New(`(?m)^#\$ TOP=(.+?)[/\\]bin[/\\]\.\.\s*$`)

// findToolkits finds the machine's toolkits. Where the nvcc on PATH is a script of the user's with no toolkit around it, nvcc is asked for
// the one that the script starts: plain cargo would build with that.
func findToolkits(ctx context.Context, h buildenv.Host, run session.Runner, extra []cuda.Candidate) []cuda.Toolkit {
	found := cuda.Find(h, extra)
	for i, t := range found {
		switch {
		case len(t.From(cuda.OnPath)) == 0:
		case t.Problem == "" && t.Include != "":
			return found
		case t.NVCC != "" && h.IsFile(t.NVCC) && !machineCode(h, t.NVCC):
			args := []string{"--dryrun", "-x", "cu", "-c", "-o", os.DevNull, os.DevNull}
			res, err := run.Run(ctx, buildenv.Cmd{Path: t.NVCC, Args: args, Env: h.Env.Entries(), Timeout: 10 * time.Second})
			if m := topLine.FindSubmatch(res.Stderr); err == nil && m != nil {
				origin := "the script " + t.NVCC
				whole := cuda.Find(h, append(slices.Clip(extra), cuda.Candidate{Root: string(m[1]), Origin: origin, Kind: cuda.OnPath}))
				return slices.DeleteFunc(whole, func(f cuda.Toolkit) bool { return f.NVCC == t.NVCC && f.Root == t.Root })
			}
			found[i].Problem = "nvcc is a script there, and `nvcc --dryrun` of it names no toolkit"
			if err != nil {
				found[i].Problem = "nvcc is a script there, and it fails: " + strings.TrimSpace(err.Error())
			}
		}
	}
	return found
}

// Machine is everything that a machine has for builds of a project, and what the user asks for.
type Machine struct {
	Host        buildenv.Host // as build scripts see it
	Facts       toolchain.Facts
	Wish        toolchain.Wish
	DriverNotes []string // how the driver was asked
	Guard       *Guard
}

// Discover finds everything, whether the needs ask for it or not, except a cuDNN. It chooses nothing and fetches nothing.
func Discover(ctx context.Context, s *session.Session, graph session.Graph, reach *features.Reach, o Options) (Machine, error) {
	host, tables := configured(s, o)
	w, err := wishOf(s, host.Env, tables, o)
	if err != nil {
		return Machine{}, err
	}
	g, err := guard(ctx, s, o, tables, w)
	if err != nil {
		return Machine{}, err
	}
	w.previous(o.BuiltFor, archUnset(s.Machine, graph.Places.BuildDirectory))
	d := discovery{machine: s.Machine, host: host, needs: NeedsOf(reach), wish: w, guard: g, everything: true}
	found := Machine{Host: scriptHost(host, tables), Wish: w.Wish, Guard: g}
	found.Facts, found.DriverNotes = d.run(ctx)
	for _, launcher := range []string{host.Env.Get("NVCC"), host.Env.Get("CUDACXX")} { // a build would ask it for its version
		if host.IsAbs(launcher) && host.IsFile(launcher) {
			_ = g.check(launcher) // Check returns the refusal
		}
	}
	return found, nil
}

// compilers lists the host compilers: Visual Studio's on Windows, where nvcc takes no other, else gcc and clang, what was asked for first.
// Without a runner it starts none.
func compilers(ctx context.Context, m *session.Machine, h buildenv.Host, run session.Runner, asked string,
) ([]hostcc.Compiler, *msvc.Found) {
	if h.OS != buildenv.Windows {
		return hostcc.Find(ctx, h, run, asked), nil
	}
	found := msvc.Find(h, h.Arch)
	for _, p := range found.Problems {
		m.Shell.Detail("%s", p)
	}
	return toolchain.Compilers(h, found), &found
}

// machineCode reports whether a file is a program of machine code, ELF or PE.
func machineCode(h buildenv.Host, path string) bool {
	f, err := h.Files.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var mark [4]byte
	if _, err := io.ReadFull(f, mark[:]); err != nil {
		return false
	}
	return string(mark[:]) == "\x7fELF" || string(mark[:2]) == "MZ"
}
