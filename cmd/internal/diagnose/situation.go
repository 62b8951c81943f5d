// Package diagnose says what a failure means: of a build or a program that gpubuild ran with what the stages found on this machine, of a
// log with the rules of toolchain/explain alone. It reads and prints, and changes nothing.
package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/explain"
)

// situation is what an explanation may say of this machine and this build.
type situation struct {
	os          string
	again, rest []string // the arguments of the command line, up to -- and behind it
	facts       toolchain.Facts
	set         toolchain.Set
	cudarc      []catalog.Cudarc
	cudarcMax   gpu.Version
	binary      string
	images      string
	find        func(library string) string // the directory here that holds a library; empty: none
}

// words fills a rule's texts in with what is known here.
func (s situation) words(f explain.Found) explain.Words {
	facts := s.factsFor(f)
	w := f.Words(facts)
	const typical = " --features cuda" // of a log the command line is not known
	if log, is := strings.CutSuffix(w.Command, typical); is && len(s.again) > 0 && strings.HasSuffix(f.Command, typical) {
		w.Command = strings.Replace(log, "gpubuild", facts[explain.Again], 1)
	}
	if len(s.rest) > 0 && len(s.again) > 0 && strings.Contains(w.Command, facts[explain.Again]) {
		w.Command += " -- " + buildenv.Words(s.os, s.rest...) // of a flag that stands twice before it the last one counts
	}
	return w
}

// factsFor names what is known for one rule; the library's place depends on what its line said.
func (s situation) factsFor(f explain.Found) explain.Facts {
	facts := explain.Facts{explain.Again: buildenv.Words(s.os, s.again...), explain.Binary: s.binary, explain.Images: s.images}
	if t := s.set.Toolkit; t != nil {
		facts[explain.CUDA], facts[explain.Toolkit] = cmp.Or(t.Label, t.Version.String()), t.Root
		if t.MinArch != (gpu.Arch{}) && t.MaxArch != (gpu.Arch{}) {
			facts[explain.ArchRange] = fmt.Sprintf("%s to %s", t.MinArch, t.MaxArch)
		}
	}
	if d := s.facts.Driver; d.Version != "" {
		facts[explain.Driver] = d.Version
		if !d.CUDA.IsZero() {
			facts[explain.DriverCUDA] = d.CUDA.String()
		}
	} else {
		facts[explain.NoDriver] = "there is no NVIDIA driver here"
	}
	s.devices(facts)
	if c := s.set.Capability; !c.IsZero() {
		facts[explain.Target], facts[explain.TargetOrigin] = gpu.Archs(s.set.Archs()), s.set.CapabilityOrigin
	}
	if len(s.cudarc) == 1 {
		facts[explain.Cudarc] = s.cudarc[0].Version
	}
	if !s.cudarcMax.IsZero() {
		facts[explain.CudarcMax] = s.cudarcMax.String()
	}
	if c := s.set.CUDNN; c != nil {
		facts[explain.CUDNN], facts[explain.CUDNNRoot] = c.Version, c.Root
	} else if len(s.facts.CUDNN) > 0 && s.facts.CUDNN[0].Problem == "" {
		facts[explain.CUDNN], facts[explain.CUDNNRoot] = s.facts.CUDNN[0].Version, s.facts.CUDNN[0].Root
	}
	if lib := f.Values["library"]; lib != "" && s.find != nil {
		facts[explain.LibraryDir] = s.find(lib)
	}
	return facts
}

// devices names the GPU with the lowest capability, which decides what is built, and the arch with which the toolkit serves it: its own, or
// the toolkit's newest, whose PTX a newer GPU takes.
func (s situation) devices(facts explain.Facts) {
	devices := s.facts.Devices
	if len(devices) == 0 {
		devices = s.set.Devices
	}
	if len(devices) == 0 {
		return
	}
	low := slices.MinFunc(devices, func(a, b gpu.Device) int { return a.Capability.Compare(b.Capability) })
	if low.Capability.IsZero() {
		return
	}
	facts[explain.GPU] = fmt.Sprintf("%s (compute capability %s)", low.Name, low.Capability)
	arch := gpu.Arch{Capability: low.Capability}
	if t := s.set.Toolkit; t != nil && t.MaxArch != (gpu.Arch{}) {
		switch {
		case arch.Capability.Compare(t.MaxArch.Capability) > 0:
			arch = gpu.Arch{Capability: t.MaxArch.Capability}
		case arch.Capability.Compare(t.MinArch.Capability) < 0:
			return
		}
	}
	facts[explain.GPUArch] = arch.String()
}

// Collected is what the stages of a build found, for the failures that came of it.
type Collected struct {
	Machine  *session.Machine
	Typed    []string // the command line
	Facts    toolchain.Facts
	Set      toolchain.Set
	Reach    *features.Reach    // nil: cargo has not answered
	Programs []cargorun.Program // that were built
}

// here says what the stages found, as far as a cause that was found speaks of it.
func (c Collected) here(ctx context.Context, found explain.Found) situation {
	m := c.Machine
	s := situation{
		os: m.Host.OS, again: append([]string{"gpubuild"}, c.Typed...), facts: c.Facts, set: c.Set,
		find: func(library string) string { return libraryDir(m, library) },
	}
	if i := slices.Index(s.again, "--"); i >= 0 {
		s.again, s.rest = slices.Clip(s.again[:i]), s.again[i+1:]
	}
	if c.Reach != nil {
		s.cudarc, s.cudarcMax = c.Reach.Cudarc, c.Reach.CudarcMax
	}
	if len(c.Programs) == 1 {
		s.binary = m.Shown(c.Programs[0].Path)
		if r, err := proof.Scan(m, c.Programs[0].Path); err == nil {
			s.images = proof.Line(r)
		}
	}
	if s.facts.Driver.Version == "" {
		s.facts.Driver = m.Driver().Version(ctx)
	}
	names := found.Names()
	if len(s.facts.Devices) == 0 && (slices.Contains(names, explain.GPU) || slices.Contains(names, explain.GPUArch)) {
		_, s.facts.Devices, _ = m.Driver().Inventory(ctx)
	}
	return s
}

// libraryDir finds a library that a failure names, such as cudart,
// libcudart.so.13 or nvrtc-builtins64_129.dll, in the toolkits and cuDNNs here.
func libraryDir(m *session.Machine, library string) string {
	toolkits := proof.Toolkits(m, nil)
	dirs := proof.LibraryDirs(m, toolkits)
	for _, t := range toolkits {
		dirs = append(dirs, t.Bin)
	}
	for _, name := range []string{library, "lib" + library + ".so", library + ".lib", "lib" + library + ".a", library + ".dll"} {
		for _, d := range dirs {
			if d != "" && m.Host.IsFile(m.Host.Join(d, name)) {
				return d
			}
		}
	}
	return ""
}
