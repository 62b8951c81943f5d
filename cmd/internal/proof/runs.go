package proof

import (
	"context"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/runs"
	"gpubuild/toolchain/loader"
)

// Here lists the GPUs of this machine with their driver, and why there is none.
func Here(ctx context.Context, m *session.Machine) (gpus []runs.Target, notes []string) {
	d, devices, notes := m.Driver().Inventory(ctx)
	if d.Version == "" {
		return nil, notes
	}
	return Targets(m.Host, d, devices), notes
}

// Targets are GPUs of a machine with its driver.
func Targets(h buildenv.Host, d gpu.Driver, devices []gpu.Device) (gpus []runs.Target) {
	system := h.OS
	if h.IsWSL() {
		system = buildenv.Windows
	}
	for _, g := range devices {
		gpus = append(gpus, runs.Target{GPU: g.Capability, Name: g.Name, Driver: d.Version, OS: system})
	}
	return gpus
}

// RunsOn answers for each GPU whether the device code of a file runs there; here: the machine's C library counts, too.
func RunsOn(m *session.Machine, file string, r *fatbin.Report, gpus []runs.Target, here bool) (out []runs.Verdict, err error) {
	opens, err := fatbin.Opens(m.Host, file, slices.Concat(r.Imports, r.Delayed))
	if err != nil {
		return nil, err
	}
	for _, t := range gpus {
		if t.OS == "" {
			if t.OS = buildenv.Linux; r.Format == fatbin.PE {
				t.OS = buildenv.Windows
			}
		}
		v := runs.Judge(r, opens, t)
		if why := (loader.Glibc{Version: loader.NeedsGlibc(file), By: path.Base(file)}).TooOld(m.Host, "this machine"); here && why != "" {
			v.Answer, v.Why = gpu.No, append(v.Why, why)
		}
		out = append(out, v)
	}
	return out, nil
}

// withoutKernels are the libraries that bring no kernels of their own.
var withoutKernels = lazyregexp.New(`^(ld-linux.*|lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|cuda|cudart|nvidia-ml)(\.|$))`)

// NoKernelRuns is why a program certainly launches no kernel on any of these GPUs, and what helps; empty: it may. One kernel that runs is
// enough, and so is a library with kernels of its own.
func NoKernelRuns(m *session.Machine, file string, gpus []runs.Target) (why, fix string, err error) {
	r, err := Scan(m, file)
	if err != nil {
		return "", "", err
	}
	list, err := RunsOn(m, file, r, gpus, false)
	for _, v := range list {
		if len(v.Kernels) == 0 || slices.ContainsFunc(v.Kernels, func(k runs.Kernel) bool { return k.Answer != gpu.No }) ||
			slices.ContainsFunc(slices.Concat(r.Imports, v.Libraries), func(l string) bool { return !withoutKernels.MatchString(l) }) ||
			len(r.Notes) > 0 {
			return "", "", err
		}
		why, fix = "no kernel of "+m.Shown(file)+" runs on "+strings.TrimPrefix(v.Name+", "+v.Target.String(), ", ")+": "+v.Kernels[0].Why, v.Kernels[0].Fix
	}
	return why, fix, err
}
