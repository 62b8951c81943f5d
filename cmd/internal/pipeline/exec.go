package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// BuildCommand builds what a command that is cargo itself would build, as `gpubuild build` does: a stamp says afterwards what it was built
// with. It returns what is left to run: the program or the tests, or the command as it is; no Path where nothing is left. What other
// programs that call cargo build is unknown.
func BuildCommand(ctx context.Context, m *session.Machine, o tools.Options, c buildenv.Cmd) (left buildenv.Cmd, err error) {
	name := strings.TrimSuffix(m.Host.Base(c.Path), ".exe")
	line, _, err := cargo.Split(c.Args, nil)
	if name == "cargo" && err == nil && !line.Builds() {
		name = "cargo " + line.Verb
	}
	switch {
	case name == "cargo" && err == nil: // else cargo says best what is wrong with its arguments
		if !Judged(line.Verb) || line.Has("--help", "--version", "--unit-graph") {
			return c, nil // no kernel goes into what it makes
		}
		p, err := prepareAny(ctx, m, line, o)
		var verdict exit.Code
		if err == nil || errors.As(err, &verdict) {
			if err == nil {
				left, err = p.build(ctx, c)
			}
			return left, err
		}
		m.Shell.Warning("stale artifacts are not looked for: %v", err)
	case slices.Contains([]string{"cargo install", "cargo make", "cargo nextest", "cargo tauri", "cargo xtask", "maturin", "tauri",
		"cargo-tauri", "trunk", "cross", "wasm-pack", "just", "make", "sh", "bash", "dash", "zsh", "fish", "nu", "cmd", "pwsh",
		"powershell", "env"}, name):
		m.Shell.Note("what %s builds is not checked for stale artifacts; `gpubuild stale --clean` with the same features does that", name)
	}
	return c, nil
}

// likeBuild looks at a project as a build does, which writes a missing Cargo.lock.
var likeBuild = featurecheck.Options{Places: true, Write: true}

// prepareAny is Prepare with the tools that any CUDA crate needs, whatever the features enable.
func prepareAny(ctx context.Context, m *session.Machine, line cargo.Line, o tools.Options) (Prepared, error) {
	judged, err := featurecheck.Open(ctx, m, line, likeBuild)
	p := Prepared{Features: judged, Tools: unchosen(m, judged.Tool)}
	if err != nil {
		return p, err
	}
	p.Features.Answer = withAny(p.Features.Answer)
	s := p.Features.Session
	if !m.Shell.Verbose { // AnyTools said it
		s = s.Quiet()
	}
	p.Tools, err = choose(ctx, s, p.Features, o)
	return p, err
}

// build cleans what is stale, builds what a command would build, and records it.
func (p Prepared) build(ctx context.Context, c buildenv.Cmd) (left buildenv.Cmd, err error) {
	s := p.Features.Session.With(p.Tools.Line)
	m, line, tool := s.Machine, s.Line, p.Tools.Cargo
	tool.Path = c.Path
	left = c
	plain := cargo.Plain(tool, line)
	left.Args, left.Env = plain.Args, plain.Env
	if cargorun.AmbiguousRun(s, p.Features.Answer.Roots) {
		return left, nil
	}
	unlock, err := fresh.Lock(ctx, m, p.Features.Graph.Places)
	if err != nil {
		return left, err
	}
	defer unlock() // before the program runs
	state, err := cleanStale(ctx, p.Fresh(fresh.Options{}))
	if err != nil {
		return left, err
	}
	cache, err := startKernels(m, "", p.Tools)
	if err != nil {
		return left, err
	}
	defer cache.end(m)
	tool = tool.With(cache.env)
	runs := Command{Line: line}.runs()
	out := cargorun.Output{Other: c.Stdout}
	if line.WantsJSON() && !runs {
		out.Messages = console.JSONLines(c.Stdout)
	}
	build := func(ctx context.Context) (cargorun.Built, error) { return cargorun.Build(ctx, s, tool, out) }
	built, err := build(ctx)
	_, _, err = state.Settle(ctx, built, err, build)
	var failed *buildenv.ExitError
	if runs && (err == nil || line.WantsJSON() && errors.As(err, &failed)) { // its messages are those of the command itself
		return left, nil
	}
	return buildenv.Cmd{}, err
}

// withAny is an answer with what any CUDA crate needs.
func withAny(a *features.Reach) *features.Reach {
	any := *a
	any.Needs.CUDA, any.Needs.NVCC, any.Needs.HostCXX, any.Needs.CUDALibs = true, true, true, true
	return &any
}

// AnyTools are the tools that any CUDA crate needs, since what a command builds is unknown, and those of the build that the selection flags
// describe.
func AnyTools(ctx context.Context, m *session.Machine, o tools.Options, l cargo.Line) (tools.Tools, error) {
	any := withAny(&features.Reach{})
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
	looked, err := featurecheck.Open(ctx, m, l, likeBuild)
	if err != nil {
		return tools.Tools{}, err
	}
	return tools.Choose(ctx, s, looked.Graph, withAny(looked.Answer), o)
}
