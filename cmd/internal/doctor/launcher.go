package doctor

import (
	"context"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/nvcc"
)

// Launcher is what the user has put in front of nvcc, and the first line of what it says of itself, if it is a compiler cache.
type Launcher struct{ How, Version string }

func launcher(ctx context.Context, m *session.Machine, set toolchain.Set) (l Launcher) {
	if set.Toolkit == nil || set.Toolkit.NVCC == "" {
		return l
	}
	l.How = nvcc.Launcher(m.Host, set.Toolkit.NVCC)
	for _, name := range []string{"sccache", "ccache"} {
		if !strings.Contains(l.How, name) {
			continue
		}
		path, err := m.Host.LookPath(name)
		if err != nil {
			return l
		}
		res, err := m.Runner.Run(ctx, buildenv.Cmd{Path: path, Args: []string{"--version"}, Env: m.Host.Env.Entries()})
		if err != nil {
			return l
		}
		l.Version, _, _ = strings.Cut(strings.TrimSpace(string(res.Stdout)), "\n")
		return l
	}
	return Launcher{}
}

// cacheVersion reads "ccache version 4.7.5" and "sccache 0.16.0".
var cacheVersion = lazyregexp.New(`^(s?ccache)(?: version)? (\d+)\.(\d+)`)

// checkLauncher warns of compiler caches that were seen to return wrong kernels, or to break nvcc's build.
func checkLauncher(f Facts) []Check {
	m := cacheVersion.FindStringSubmatch(f.Launcher.Version)
	if m == nil {
		return nil
	}
	is, err := gpu.ParseVersion(m[2] + "." + m[3])
	c := Check{
		ID: "nvcc.launcher", State: Warning, Says: f.Launcher.Version + " is in front of nvcc: " + f.Launcher.How,
		Fix: "take it away: gpubuild has a cache of its own for kernels (`gpubuild cache`)",
	}
	switch {
	case err != nil:
		return nil
	case m[1] == "ccache" && is.Compare(gpu.Version{Major: 4, Minor: 13}) <= 0:
		c.Breaks = "it returns old kernels after a change of a header that only the host or a second architecture includes, of " +
			"NVCC_APPEND_FLAGS, of -dc for -c, or of cicc and ptxas"
	case m[1] == "sccache" && is.Compare(gpu.Version{Minor: 16}) <= 0:
		c.Breaks = "with CUDA 13.4 every kernel ends with \"fatbinary fatal : Could not open input file\""
	default:
		return nil
	}
	return []Check{c}
}
