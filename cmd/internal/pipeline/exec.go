package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// CheckCommand cleans what is stale before a cargo that builds. What other programs that call cargo build is unknown.
func CheckCommand(ctx context.Context, m *session.Machine, o tools.Options, words []string) error {
	name := strings.TrimSuffix(m.Host.Base(words[0]), ".exe")
	line, _, err := cargo.Split(words[1:], nil)
	if name == "cargo" && err == nil && !line.Builds() {
		name = line.Verb // a plugin
	}
	switch {
	case name == "cargo" && err == nil: // else cargo says best what is wrong with its arguments
		checked, err := CheckTarget(ctx, m, line, Options{Tools: o})
		var verdict exit.Code
		if checked || errors.As(err, &verdict) {
			return err
		}
		m.Shell.Warning("stale artifacts are not looked for: %v", err)
	case slices.Contains([]string{"maturin", "tauri", "cargo-tauri", "trunk", "cross", "wasm-pack", "just", "make",
		"sh", "bash", "dash", "zsh", "fish", "nu", "cmd", "pwsh", "powershell", "env"}, name):
		m.Shell.Note("what %s builds is not checked for stale artifacts; `gpubuild clean --minimal` with the same features does that", name)
	}
	return nil
}

// AnyTools are the tools that any CUDA crate needs, since what a command builds is unknown, and those of the build that the selection flags
// describe.
func AnyTools(ctx context.Context, m *session.Machine, o tools.Options, l cargo.Line) (tools.Tools, error) {
	any := &features.Answer{Needs: features.Needs{CUDA: true, NVCC: true, HostCXX: true, CUDALibs: true}}
	s, err := session.Open(m, l)
	var none *manifest.NotFoundError
	switch {
	case errors.As(err, &none) && len(l.Args) == 0:
		return tools.Choose(ctx, session.WithoutProject(m), session.Graph{}, any, o)
	case err != nil:
		return tools.Tools{}, err
	}
	if work, _ := s.GPUWork(); !work {
		return tools.Choose(ctx, s, session.Graph{}, any, o)
	}
	looked, err := featurecheck.Open(ctx, m, l, featurecheck.Options{Places: true, Write: true}) // a build would write Cargo.lock, too
	if err != nil {
		return tools.Tools{}, err
	}
	answer := *looked.Answer
	answer.Needs.CUDA, answer.Needs.NVCC, answer.Needs.HostCXX, answer.Needs.CUDALibs = true, true, true, true
	return tools.Choose(ctx, s, looked.Graph, &answer, o)
}
