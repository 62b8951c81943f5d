// Package tools joins what the features need with what the machine has: it chooses the toolkit, the host compiler and cuDNN, and makes
// the environment of the build. It never starts a build.
package tools

import (
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/console"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// Tools is what was chosen for a build, and the environment that it makes.
type Tools struct {
	Needs toolchain.Needs
	Facts toolchain.Facts
	Set   toolchain.Set
	Delta buildenv.Delta // the changes to the user's environment, with their reasons
	Env   buildenv.Env   // the build's whole environment
	// RunEnv is the environment of the programs that were built: the user's, with what cargo's [env] tables set.
	RunEnv buildenv.Env
	// ExportFrom and Exported are the environment and the changes for another program than cargo: cargo's [env] tables, which only cargo
	// reads, are part of the changes there.
	ExportFrom  buildenv.Env
	Exported    buildenv.Delta
	Cargo       cargo.Tool // the cargo to call, with Env
	Line        cargo.Line // the command line for it, with what overrides cargo's [env] tables
	Undeclared  Undeclared // the package that a toolkit was chosen for although its sources do not ask for one
	DriverNotes []string   // how the driver was asked; nil when it was not
}

// tell says in a line or two what was chosen; the losers when verbose.
func (t Tools) tell(sh *console.Shell, h buildenv.Host) {
	s := t.Set
	switch {
	case s.Toolkit != nil:
		line := fmt.Sprintf("%s (%s)", s.Toolkit.Named(), s.Toolkit.Origin)
		if s.Compiler != nil {
			line += fmt.Sprintf(", %s %s (%s)", s.Compiler.Kind, s.Compiler.Version, s.Compiler.Path)
		}
		if s.CUDNN != nil {
			line += fmt.Sprintf(", cuDNN %s (%s)", s.CUDNN.Version, s.CUDNN.Origin)
		}
		sh.Status("Locating", "%s", line)
	case s.ROCm != nil:
	case t.Needs.CUDA:
		sh.Status("Locating", "no toolkit and no nvcc is needed: these crates load the driver when they run")
	}
	if s.ROCm != nil {
		sh.Status("Locating", "%s (%s)", s.ROCm, s.ROCm.Origin)
	}
	if !s.Capability.IsZero() && t.Needs.NVCC {
		sh.Status("Targeting", "%s (%s)", gpu.Arch{Capability: s.Capability, Suffix: s.Suffix}, s.CapabilityOrigin)
	}
	for _, n := range s.Notes {
		sh.Warning("%s", n)
	}
	for _, target := range t.Line.Target {
		if toolchain.Foreign(h, target) && (t.Needs.NVCC || t.Needs.Libraries) {
			sh.Warning("rustc builds for %s, and toolkit, host compiler and libraries are chosen for this machine's own processor: "+
				"nvcc's objects and CUDA's libraries will not link there; PTX is the same everywhere", target)
		}
	}
	if left := toolchain.LeftOut(t.Delta); left != "" {
		sh.Warning("%s", left)
	}
	for _, l := range s.Losers {
		sh.Detail("not %s", l)
	}
	for _, c := range t.Delta.Changes {
		sh.Detail("%s", changeLine(c))
	}
}

func changeLine(c buildenv.Change) string {
	switch c.Op {
	case buildenv.Unset:
		return fmt.Sprintf("unset %s: %s", c.Name, c.Reason)
	case buildenv.Prepend:
		return fmt.Sprintf("%s begins with %s: %s", c.Name, c.Value, c.Reason)
	case buildenv.Append:
		return fmt.Sprintf("%s ends with %s: %s", c.Name, c.Value, c.Reason)
	}
	return fmt.Sprintf("%s=%s: %s", c.Name, c.Value, c.Reason)
}

// tellUnlinkable warns of libraries that the linker will not find, before everything is compiled to find that out.
func (t Tools) tellUnlinkable(sh *console.Shell, missing []string) {
	if len(missing) > 0 {
		sh.Warning("the linker will not find %s: neither %s has them nor a directory where it looks by itself",
			strings.Join(missing, ", "), t.Set.Toolkit.Named())
		sh.Hint(toolchain.LinkFix)
	}
}
