package pipeline

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/toolchain/nvcc"
)

// kernels is the kernel cache of one build.
type kernels struct {
	mode string
	env  buildenv.Env // of the build: our nvcc is first on PATH where the cache is used
	log  string       // what our nvcc did
	list []gpu.Arch   // what is built for
}

// startKernels puts gpubuild before the toolkit's nvcc, for cargo alone: every check sees the real toolkit.
func startKernels(m *session.Machine, asked string, t tools.Tools) (k kernels, err error) {
	k = kernels{mode: asked, env: t.Env, list: t.Set.Archs()}
	if k.mode == "" {
		k.mode = t.Env.Get(nvcc.Variable)
	}
	switch k.mode {
	case "":
		k.mode = "on"
	case "on", "off", "read":
	default:
		return k, exit.Usagef("set it to one of these", "%s=%s is none of on, off, read", nvcc.Variable, k.mode)
	}
	toolkit := t.Set.Toolkit
	k.env = k.env.Set(nvcc.Variable, k.mode)
	if !t.Needs.NVCC || toolkit == nil || toolkit.NVCC == "" {
		return k, nil
	}
	without := func(why, fix string) (kernels, error) {
		m.Shell.Detail("%s", why)
		return k, t.Set.OneArch("gpubuild's nvcc, which compiles for all of them, is not used: "+why, fix)
	}
	if k.mode == "off" {
		return without("the kernel cache is off", "use the cache")
	}
	h := m.Host
	h.Env = t.Env
	if own := nvcc.Launcher(h, toolkit.NVCC); own != "" {
		return without("kernels do not come from gpubuild's cache: "+own, "remove it")
	}
	bin, err := nvcc.View(h, m.CacheDir, toolkit.Root, toolkit.NVCC, m.Self)
	if err != nil {
		return without(fmt.Sprintf("no kernel cache: %v", err), "fix that")
	}
	if h.OS == buildenv.Windows {
		if err := starts(m, h, bin); err != nil {
			return without(fmt.Sprintf("the headers that nvcc reads are not recorded: %v", err), "fix that")
		}
	}
	k = k.logged(m)
	var d buildenv.Delta
	d.Add(buildenv.Prepend, "PATH", bin, "the kernel cache")
	if k.env = h.Apply(k.env, d); len(t.Set.Further) > 0 {
		k.env = k.env.Set(nvcc.ArchsVariable, gpu.Archs(k.list))
	}
	return k, nil
}

// starts tries our nvcc once: a policy may forbid to start a program of the cache.
func starts(m *session.Machine, h buildenv.Host, bin string) error {
	program := h.Join(bin, h.Exe("nvcc"))
	is, err := cache.Identify(program)
	if err != nil {
		return err
	}
	started := h.Join(h.Dir(bin), "started")
	if was, err := os.ReadFile(started); err == nil && string(was) == is.String() {
		return nil
	}
	if _, err := m.Runner.Run(context.Background(), buildenv.Cmd{Path: program, Args: []string{"--version"},
		Env: h.Env.Entries()}); err != nil {
		return err
	}
	return cache.Keep(started, []byte(is.String()), 0o644)
}

// end says what came from the cache.
func (k kernels) end(m *session.Machine) {
	if k.log == "" {
		return
	}
	use := nvcc.ReadLog(k.log)
	defer os.Remove(k.log)
	for _, only := range use.Only {
		word, name, _ := strings.Cut(only, " ")
		arch, _ := gpu.ParseArch(word)
		if bad := slices.DeleteFunc(slices.Clone(k.list), func(a gpu.Arch) bool {
			runs, _ := arch.Runs(a.Capability)
			return runs != gpu.No
		}); len(bad) > 0 {
			m.Shell.Warning("%s compiles code for %s alone: it does not run on %s", name, arch, gpu.Archs(bad))
		} else {
			m.Shell.Note("%s compiles code for %s alone: it runs on the whole list", name, arch)
		}
	}
	if k.mode == "on" {
		if err := nvcc.End(m.CacheDir, k.log, nvcc.Limit); err != nil {
			m.Shell.Warning("kernel cache: %v", err)
		}
	}
	if all := use.Hits + use.Misses + use.Uncached; use.Hits > 0 {
		m.Shell.Status("Reused", "%d of %d kernels (saved %s)", use.Hits, all, use.Saved.Round(100*time.Millisecond))
	} else if all > 0 {
		m.Shell.Detail("kernel cache: %d compiled, %d not cached", use.Misses, use.Uncached)
	}
}
