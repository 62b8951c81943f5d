package tools

import (
	"context"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/rocm"
)

// discovery is a look at a machine for what a build needs.
type discovery struct {
	machine    *session.Machine
	host       buildenv.Host // the machine's, with the environment that counts
	needs      toolchain.Needs
	wish       wish
	everything bool // whether it is needed or not
	noMemory   bool // see Options
}

// run finds what this machine has, and how the driver was asked. A GPU is asked for only when it decides something: a driver's start
// costs a tenth of a second and more.
func (d discovery) run(ctx context.Context) (f toolchain.Facts, driverNotes []string) {
	m, h := d.machine, d.host
	f.Driver = driver.Version(h)
	f.LibCUDA = toolchain.DriverLibrary(h)
	if d.everything || d.wish.Arch == "" && d.wish.Previous.IsZero() && (d.needs.NVCC || d.needs.Libraries) {
		f.Driver, f.Devices, driverNotes = driver.Inventory(ctx, h, m.Runner, m.Self)
		for _, n := range driverNotes {
			m.Shell.Detail("%s", n)
		}
	}
	if d.everything || d.needs.ROCm {
		f.ROCm = rocm.Find(h)
	}
	if !d.everything && !d.needs.Toolkit() && !d.needs.HostCompiler {
		return f, driverNotes
	}
	f.Toolkits, f.CodePage = cuda.Find(h, d.wish.extra), h.CodePage()
	f.Places = cuda.UsualPlaces(h)
	var asked []string
	if d.wish.CCBin != "" {
		asked = []string{d.wish.CCBin}
	}
	f.Compilers, f.MSVC = compilers(ctx, m, h, d.noMemory, asked...)
	if d.needs.CUDNN {
		var roots []string
		for _, t := range f.Toolkits {
			if t.Problem == "" {
				roots = append(roots, t.Root)
			}
		}
		f.CUDNN = cudnn.Find(h, roots, nil)
	}
	return f, driverNotes
}

// Machine is everything that a machine has for builds of a project, and what the user asks for.
type Machine struct {
	Facts       toolchain.Facts
	Wish        toolchain.Wish
	DriverNotes []string // how the driver was asked
}

// Discover finds everything, whether the needs ask for it or not, except a cuDNN. It chooses nothing and fetches nothing.
func Discover(ctx context.Context, s *session.Session, graph session.Graph, needs toolchain.Needs, o Options) (Machine, error) {
	h := s.Machine.Host
	w, err := wishOf(s, h.Env, o)
	if err != nil {
		return Machine{}, err
	}
	w.previous(o.BuiltFor, archUnset(s.Machine, graph.Places.BuildDirectory))
	d := discovery{machine: s.Machine, host: h, needs: needs, wish: w, everything: true, noMemory: o.NoMemory}
	found := Machine{Wish: w.Wish}
	found.Facts, found.DriverNotes = d.run(ctx)
	return found, nil
}
