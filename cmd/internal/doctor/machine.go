package doctor

import (
	"fmt"
	"strings"

	"gpubuild/gpu"
	"gpubuild/toolchain"
)

// target reports whether what rustc builds for goes with what nvcc compiles with.
func checkTarget(f Facts) Check {
	c := Check{ID: "rust.target", State: OK, Says: "rustc builds for " + f.Target,
		Breaks: "linking object files of nvcc, which are of another ABI; PTX and fatbins will do"}
	gnu := toolchain.GNU(f.Host, f.Target)
	switch {
	case f.Target == "":
		c.State, c.Says, c.Breaks = Info, "what rustc builds for is not known without cargo", ""
	case gnu != "":
		c.Says, c.Fix, c.State = c.Says+toolchain.MicrosoftOnly, gnu, Warning
		if !f.Needs.NVCC && !f.Needs.Libraries {
			c.State, c.Fix = Info, ""
			c.Breaks = "crates with kernels of their own; those that load the driver when they run are not touched"
		}
	case toolchain.Foreign(f.Host, f.Target) && (f.Needs.NVCC || f.Needs.Libraries):
		c.State, c.Says = Warning, c.Says+", and toolkit, host compiler and libraries are chosen for this machine's own processor"
		c.Breaks, c.Fix = "linking: nvcc's objects are for this machine's processor", "build on a machine with that processor"
	}
	if len(f.NoArchive) > 0 && c.State != Warning {
		c.State, c.Says, c.Breaks = Warning, c.Says+"; "+strings.Join(f.NoArchive, "; "), "computing on the GPU"
	}
	return c
}

// sdk says which Windows SDK and C run-time library are taken; nothing on other systems.
func checkSDK(f Facts) []Check {
	if f.Toolchain.MSVC == nil {
		return nil
	}
	c := Check{ID: "windows.sdk", Breaks: "linking, and every header of C"}
	if v := f.Chosen.MSVC; v != nil {
		c.State, c.Says = OK, fmt.Sprintf("%s in %s, C run-time library %s", v.SDK.Version, v.SDK.Root, v.UCRT.Version)
		return []Check{c}
	}
	for _, k := range f.Toolchain.MSVC.SDKs {
		says := k.Version + " in " + k.Root
		if k.Problem != "" {
			says += ": " + k.Problem
		}
		c.Places = append(c.Places, says)
	}
	switch {
	case !f.Needs.NVCC && !f.Needs.HostCompiler:
		c.State, c.Says, c.Breaks = Info, "none is needed", ""
	case len(f.Toolchain.MSVC.SDKs) == 0:
		c.State, c.Says, c.Fix = Missing, "no Windows SDK", toolchain.SDKFix(f.Toolchain)
	default:
		c.State, c.Says = Info, f.notChosen()
	}
	return []Check{c}
}

// capability holds what is built for against the GPUs that are here.
func checkCapability(f Facts) Check {
	built := f.Chosen.Capability
	c := Check{ID: "capability", State: Info, Says: "nothing is compiled for a GPU"}
	if built.IsZero() {
		if f.Needs.NVCC && f.Chosen.Toolkit == nil {
			c.Says = f.notChosen()
		}
		return c
	}
	c.State, c.Says = OK, fmt.Sprintf("%s, %s", gpu.Archs(f.Chosen.Archs()), f.Chosen.CapabilityOrigin)
	for _, d := range f.Toolchain.Devices {
		switch {
		case d.Capability.IsZero():
		case d.Capability.Compare(built) < 0:
			c.State = Misfit
			c.Places = append(c.Places, fmt.Sprintf("%s has compute capability %s", d.Name, d.Capability))
			c.Breaks = "running here: code for " + built.String() + " does not run on an older GPU"
			c.Fix = "gpubuild doctor --gpu-arch=" + d.Capability.Digits()
		}
	}
	return c
}
