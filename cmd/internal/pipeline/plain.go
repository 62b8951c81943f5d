package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// cargoSays lets cargo report what is wrong with a project that we could not read; our own reason is added only if cargo sees none.
func cargoSays(ctx context.Context, c Command, ours error) error {
	if errors.Is(ours, buildenv.ErrUnbounded) {
		return ours // cargo would read it for ever, or whole
	}
	m := c.Machine
	err := cargorun.Run(ctx, m, c.Line, m.Host.Env)
	if err != nil {
		if errors.Is(ours, manifest.ErrNotFound) && c.Line.Known() && exit.Of(err) != exit.Other { // which is a flag that cargo refuses
			m.Shell.Hint(exit.Hint(ours))
		}
		return err
	}
	m.Shell.Warning("built by plain cargo, unchecked: %v", ours)
	return nil
}

// passThrough runs a subcommand of cargo whose result is not judged: doc, publish, a plugin. Where there is a project with GPU work it runs
// in the environment of the build; where that cannot be made it says so and runs in the user's own.
func passThrough(ctx context.Context, c Command) error {
	env, line := c.Machine.Host.Env, c.Line
	if l := c.line(); l.Verb != "clean" && !l.Has("--help", "--version") && l.Verb != "" {
		t, ok, err := environment(ctx, c)
		if err != nil {
			return err
		}
		if ok {
			env = t.Env
		}
		if t.standIn {
			line = t.Line
		}
	}
	c.Line = line
	return c.cargo(ctx, env)
}

// environment is what a build of the project would get; not ok where there is no project, no GPU work, or no such environment.
func environment(ctx context.Context, c Command) (t chosen, ok bool, err error) {
	s, err := session.Open(c.Machine, c.line())
	if err != nil {
		return t, false, nil //nolint:nilerr // cargo says what is wrong with it
	}
	if work, _ := s.GPUWork(); !work {
		return t, false, nil
	}
	if !s.Line.Builds() { // publish, package, a plugin: cargo cannot be asked about them, so what a build would need is set
		line, err := asBuild(s)
		if err != nil {
			return t, false, nil //nolint:nilerr // cargo says what is wrong with it
		}
		s = s.With(line)
	}
	t, ok, err = buildEnvironment(ctx, c, s)
	asked := manifest.ParseRequest(s.Request())
	var wrong *exit.UsageError
	switch {
	case errors.As(err, &wrong):
		return t, false, err
	case err != nil && !asked.RequestsGPU(): // nobody misses it
		return t, false, nil
	case err != nil:
		c.Machine.Shell.Warning("runs in your own environment: %v", err)
		return t, false, nil
	}
	return t, ok, nil
}

// buildEnvironment is not ok where cargo's graph shows no GPU work.
func buildEnvironment(ctx context.Context, c Command, s *session.Session) (t chosen, ok bool, err error) {
	graph, err := s.Graph(ctx, c.Tool, session.Question{Places: true})
	if err != nil {
		return chosen{}, false, err
	}
	judged := reach.Judge(s, c.Tool, graph, reach.Options{Strict: c.Options.Strict})
	if c.withoutGPU(s, judged.Reach) {
		return chosen{}, false, nil
	}
	t, err = c.choose(ctx, s, judged)
	return t, err == nil, err
}

// asBuild is the `cargo build` that needs what a subcommand that builds nothing by itself would need.
func asBuild(s *session.Session) (cargo.Line, error) {
	typed := s.Line
	if test, ok := typed.NextestBuild(); ok {
		test.Toolchain, test.Dir = typed.Toolchain, typed.Dir
		return test, nil
	}
	words := []string{"build", "--manifest-path", s.Project.Manifest}
	if len(typed.Features) > 0 {
		words = append(words, "--features", strings.Join(typed.Features, ","))
	}
	if typed.AllFeatures {
		words = append(words, "--all-features")
	}
	if typed.NoDefault {
		words = append(words, "--no-default-features")
	}
	line, _, err := cargo.Split(words, nil)
	line.Toolchain, line.Dir = typed.Toolchain, typed.Dir
	return line, err
}

// install is `cargo install`: with --path it is judged like any other build, before and after cargo installs what it made. Nothing of a
// registry or a repository is here before cargo fetched it, and cargo fetches and builds in one go.
func install(ctx context.Context, c Command, trace *finding.Trace) (r Result, err error) {
	m := c.Machine
	in, ok := c.Line.Install()
	if !ok || in.List {
		return r, cargorun.Run(ctx, m, c.Line, m.Host.Env)
	}
	if in.Path == "" {
		for _, f := range []string{"cuda", "cudnn"} {
			if slices.Contains(in.Features, f) {
				m.Shell.Note("not checked whether `%s` enables the GPU: `cargo install` fetches the sources itself; "+
					"`gpubuild install --path DIR` checks those in DIR", f)
				break
			}
		}
		return r, passThrough(ctx, c)
	}
	s, err := session.Open(m, in.Build)
	if err != nil {
		return r, cargoSays(ctx, c, err)
	}
	if s.Project.Selected == nil { // a virtual manifest: cargo installs packages
		return r, cargorun.Run(ctx, m, c.Line, m.Host.Env)
	}
	if !s.Project.HasLock {
		s = s.With(in.Unlocked)
	}
	if work, _ := s.GPUWork(); !work {
		return r, cargorun.Run(ctx, m, c.Line, m.Host.Env)
	}
	r, err = Build(ctx, c, s, trace)
	var refused *cargo.RefusedError
	if r.Features.Reach == nil && errors.As(err, &refused) { // install words it in its own way, or does not mind
		err = cargorun.Run(ctx, m, c.Line, m.Host.Env)
		if err == nil {
			m.Shell.Warning("installed without a check of its features: cargo refuses the question: %s", cargo.FirstLine(refused))
		}
	}
	return r, err
}
