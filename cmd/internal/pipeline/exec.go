package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// CargoOf returns a command of `exec` that is cargo itself, and builds, as the command line that gpubuild runs in its place. What other
// programs that call cargo build is unknown: a note says so.
func CargoOf(m *session.Machine, words []string, o tools.Options) (c Command, ok bool, err error) {
	name := strings.TrimSuffix(m.Host.Base(words[0]), ".exe")
	line, _, wrong := cargo.Split(words[1:], nil)
	if at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "--gpu-") }); name == "cargo" && at > 0 &&
		!slices.Contains(words[:at], "--") {
		flag, _, _ := strings.Cut(words[at], "=")
		return c, false, exit.Usagef("gpubuild "+buildenv.Words(m.Host.OS, words[1:]...),
			"`%s` is gpubuild's own flag, which cargo does not have", flag)
	}
	_, nextest := line.NextestBuild()
	switch {
	case name == "cargo" && wrong == nil && (nextest || line.Purpose().Judged()) && !line.Has("--help", "--version", "--unit-graph"):
		tool, err := cargo.Find(m.Host, line)
		if strings.ContainsAny(words[0], `/\`) {
			tool.Path, tool.Origin = m.Host.Abs(words[0]), "exec"
		}
		return Command{Machine: m, Tool: tool, Line: line, Options: Options{Tools: o}, Typed: words[1:]}, true, err
	case name == "cargo" && wrong == nil && !line.Purpose().Compiles():
		name = "cargo " + line.Verb
	}
	if slices.Contains([]string{"cargo install", "cargo make", "cargo oxide", "cargo tauri", "cargo xtask", "maturin", "tauri",
		"cargo-tauri", "trunk", "cross", "wasm-pack", "just", "make", "sh", "bash", "dash", "zsh", "fish", "nu", "cmd", "pwsh",
		"powershell", "env"}, name) {
		m.Shell.Note("what %s builds is not checked for stale artifacts; `gpubuild stale --clean` with the same features does that", name)
	}
	return c, false, nil
}

// AnyTools are the tools that any CUDA crate needs, since what a command builds is unknown, and those of the build that the selection flags
// describe.
func AnyTools(ctx context.Context, m *session.Machine, o tools.Options, l cargo.Line) (tools.Tools, error) {
	s, err := session.Open(m, l)
	j := reach.Judged{Reach: &features.Reach{}}
	if errors.Is(err, manifest.ErrNotFound) && len(l.Args) == 0 {
		s, err = session.WithoutProject(m), nil
	} else if err == nil {
		if work, _ := s.GPUWork(); work {
			j, err = reach.Open(ctx, m, l, reach.Options{Places: true, AsIs: true})
		}
	}
	if err != nil {
		return tools.Tools{}, err
	}
	o.OneArch = true
	any := *j.Reach
	any.Needs.CUDA, any.Needs.NVCC, any.Needs.HostCXX, any.Needs.CUDALibs = true, true, true, true
	j.Reach, j.Tool = &any, cargo.Tool{} // cargo's [env] tables do not count for another program
	t, err := choose(ctx, s, j, o, false)
	return t.Tools, cmp.Or(err, t.Set.OneArch("exec compiles for one", "use `gpubuild build`"))
}
