package proof

import (
	"context"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// ProbeCompiler chooses what builds the probe: on Windows Microsoft's newest toolset with its own environment, else, and elsewhere, the
// first gcc or clang. What nvcc thinks of it does not matter: the probe is plain C.
func ProbeCompiler(ctx context.Context, m *session.Machine) probe.Compiler {
	if m.Host.OS == buildenv.Windows {
		if c, ok := VisualCompiler(m.Host, msvc.Find(m.Host, m.Host.Arch)); ok {
			return c
		}
	}
	for _, c := range hostcc.Find(ctx, m.Host, m.Runner) {
		if (c.Kind == hostcc.GCC || c.Kind == hostcc.Clang) && !emulates(ctx, m, c.Path) {
			return probe.Compiler{Path: c.Path}
		}
	}
	return probe.Compiler{}
}

// emulates reports whether a compiler of Windows builds for MSYS or Cygwin, whose run-time library would come into the watched program with
// the probe. One that does not say is taken: it may fail to build.
func emulates(ctx context.Context, m *session.Machine, gcc string) bool {
	if m.Host.OS != buildenv.Windows {
		return false
	}
	res, err := m.Runner.Run(ctx, buildenv.Cmd{Path: gcc, Args: []string{"-dumpmachine"}, Env: m.Host.Env.Entries()})
	target := string(res.Stdout)
	return err == nil && (strings.Contains(target, "msys") || strings.Contains(target, "cygwin"))
}

// VisualCompiler is the first toolset of use with the variables that cl reads; false where a part of it is missing.
func VisualCompiler(h buildenv.Host, found msvc.Found) (probe.Compiler, bool) {
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
