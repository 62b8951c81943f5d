// Package tools joins what the features need with what the machine has: it chooses the toolkit, the host compiler and cuDNN, and makes
// the environment of the build. It never starts a build.
package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// Tools is what was chosen for a build, and the environment that it makes.
type Tools struct {
	Needs toolchain.Needs
	Asked gpu.Arch // by the user; zero: nothing was
	Facts toolchain.Facts
	Set   toolchain.Set
	Delta buildenv.Delta // the changes to the user's environment, with their reasons
	Env   buildenv.Env   // the build's whole environment
	// RunEnv is the environment of the programs that were built: the user's, with what cargo's [env] tables set.
	RunEnv buildenv.Env
	Given  []cargo.Given // what cargo's [env] tables set
	// ExportFrom and Exported are the environment and the changes for another program than cargo: cargo's [env] tables, which only cargo
	// reads, are part of the changes there.
	ExportFrom buildenv.Env
	Exported   buildenv.Delta
	Guard      *Guard     // asks for the user's consent before a tool is started
	Cargo      cargo.Tool // the cargo to call, with Env
	Line       cargo.Line // the command line for it, with what overrides cargo's [env] tables
	Undeclared Undeclared // the package that a toolkit was chosen for although its sources do not ask for one
}

// announce prints in a line or two what was chosen, and what was rejected if verbose.
func (t Tools) announce(sh *console.Shell, h buildenv.Host) {
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
		sh.Status("Locating", "no toolkit: the GPU crates that gpubuild knows load the driver when they run")
	}
	if s.ROCm != nil {
		sh.Status("Locating", "%s (%s)", s.ROCm, s.ROCm.Origin)
	}
	if !s.Capability.IsZero() && t.Needs.NVCC {
		sh.Status("Targeting", "%s (%s)", gpu.Archs(s.Archs()), s.CapabilityOrigin)
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

// BuiltFor is the triple that rustc builds for: the command line's first target, or that of cargo itself; empty: not known.
func BuiltFor(ctx context.Context, m *session.Machine, tool cargo.Tool, l cargo.Line) string {
	if len(l.Target) > 0 && l.Target[0] != "host-tuple" {
		return cargo.Triple(l.Target[0], "")
	}
	if tool.Path == "" {
		return ""
	}
	res, err := m.Runner.Run(ctx, cargo.Version(tool, l))
	if err != nil {
		m.Shell.Detail("what rustc builds for is not known: %v", err)
	}
	v, _ := cargo.ParseVersion(res.Stdout)
	return v.Host
}

// Lacking has the target of each crate that downloads a library for CUDA and has none for it.
func Lacking(env buildenv.Env, list []features.Download, target string) map[string]string {
	out := map[string]string{}
	for _, d := range list {
		at := cmp.Or(d.Platform, target)
		set := slices.ContainsFunc(d.Unless, func(name string) bool { return env.Get(name) != "" })
		if at != "" && !set && !slices.Contains(d.Targets, at) {
			out[d.Crate] = at
		}
	}
	return out
}

// LackingIn is Lacking of a build that was judged.
func LackingIn(ctx context.Context, s *session.Session, tool cargo.Tool, list []features.Download) map[string]string {
	if len(list) == 0 {
		return nil
	}
	return Lacking(s.Machine.Host.Env, list, BuiltFor(ctx, s.Machine, tool, s.Line))
}

// WithoutArchive warns of each crate that downloads a library for CUDA and has none for the target: it takes one without CUDA, or fails.
func WithoutArchive(env buildenv.Env, list []features.Download, target string) (out []string) {
	lacking := Lacking(env, list, target)
	for _, d := range list {
		at := lacking[d.Crate]
		if at == "" {
			continue
		}
		instead := d.Instead
		if instead == "" {
			instead = d.Unless[len(d.Unless)-1] + " names a library of your own"
		}
		out = append(out, fmt.Sprintf("%s has nothing to download with CUDA for %s, and %s; %s", d.Crate, at, d.Else, instead))
	}
	return out
}

// NewerThanDriver warns of each cudarc whose bindings are for a newer CUDA than the driver's: it looks up functions that the driver may
// lack, and panics at the first one. Source: cudarc 0.19 src/driver/sys, loaded functions by version feature.
func NewerThanDriver(driver gpu.Version, list []catalog.Cudarc) []string {
	var out []string
	for _, c := range list {
		if !driver.IsZero() && c.Pin.Compare(driver) > 0 {
			out = append(out, fmt.Sprintf("cudarc %s is built for CUDA %s, and the driver supports CUDA %s: a function that the "+
				"driver lacks makes the program panic; use cudarc's feature cuda-%d0%d0", c.Version, c.Pin, driver, driver.Major,
				driver.Minor))
		}
	}
	return out
}
