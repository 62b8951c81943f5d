package app

import (
	"context"

	"gpubuild/buildenv"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// probeCompiler chooses what builds the probe: on Windows Microsoft's newest toolset with its own environment, else, and elsewhere, the first gcc
// or clang. What nvcc thinks of it does not matter: the probe is plain C.
func (a *app) probeCompiler(ctx context.Context) probe.Compiler {
	if a.Host.OS == buildenv.Windows {
		if c, ok := visualFor(a.Host, msvc.Find(a.Host, a.Host.Arch)); ok {
			return c
		}
	}
	for _, c := range hostcc.Find(ctx, a.Host, a.Runner) {
		if c.Kind == hostcc.GCC || c.Kind == hostcc.Clang {
			return probe.Compiler{Path: c.Path}
		}
	}
	return probe.Compiler{}
}

// visualFor is the first toolset of use with the variables that cl reads; false where a part of it is missing.
func visualFor(h buildenv.Host, found msvc.Found) (probe.Compiler, bool) {
	sdk, ucrt := msvc.Best(found.SDKs), msvc.Best(found.UCRTs)
	if sdk == nil || ucrt == nil {
		return probe.Compiler{}, false
	}
	for _, t := range found.Toolsets {
		if t.Problem != "" || t.CL == "" {
			continue
		}
		s := t.Settings(h, *sdk, *ucrt)
		var d buildenv.Delta
		for i := len(s.Path) - 1; i >= 0; i-- {
			d.Add(buildenv.Prepend, "PATH", s.Path[i], t.Product)
		}
		d.Add(buildenv.Set, "INCLUDE", h.JoinList(s.Include...), t.Product)
		d.Add(buildenv.Set, "LIB", h.JoinList(s.Lib...), t.Product)
		return probe.Compiler{Path: t.CL, CL: true, Env: h.Apply(h.Env, d)}, true
	}
	return probe.Compiler{}, false
}
