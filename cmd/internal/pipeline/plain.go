package pipeline

import (
	"context"
	"errors"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// deferToCargo lets cargo report what is wrong with a project that gpubuild could not read, and adds its own reason only if cargo finds
// nothing wrong.
func (p Plan) deferToCargo(ctx context.Context) error {
	m, line := p.Machine, p.Command.Line
	err := cargorun.Run(ctx, m, line, m.Host.Env)
	if err != nil {
		if errors.Is(p.Unread, manifest.ErrNotFound) && line.Known() && exit.Of(err) != exit.Other { // which is a flag that cargo refuses
			m.Shell.Hint(exit.Hint(p.Unread))
		}
		return err
	}
	m.Shell.Warning("%v", p.Unread)
	return nil
}

// runInEnvironment runs a subcommand of cargo whose result is not judged: doc, publish, a plugin. Where there is a project with GPU work it
// runs in the environment of the build; where that cannot be made it says so and runs in the user's own.
func (p Plan) runInEnvironment(ctx context.Context) error {
	c := p.Command
	env := c.Machine.Host.Env
	if l := c.line(); l.Verb != "clean" && !l.Has("--help", "--version") && l.Verb != "" {
		t, err := c.environment(ctx)
		if err != nil {
			return err
		}
		if t != nil {
			env = t.Env
		}
		if t != nil && t.standIn {
			c.Line = t.Line
		}
	}
	return c.cargo(ctx, env)
}

// environment is what a build of the project would get; nil where there is no project, no GPU work, or no such environment.
func (c Command) environment(ctx context.Context) (*toolset, error) {
	s, err := session.Open(c.Machine, c.line())
	if errors.Is(err, buildenv.ErrUnbounded) {
		return nil, err // cargo would read it for ever, or whole
	}
	if err != nil {
		return nil, nil //nolint:nilerr // cargo says what is wrong with it
	}
	if work, _ := s.GPUWork(); !work {
		return nil, nil
	}
	if !s.Line.Purpose().Compiles() { // publish, package, a plugin: cargo cannot be asked about them, so what a build would need is set
		line, err := asBuild(s)
		if err != nil {
			return nil, nil //nolint:nilerr // cargo says what is wrong with it
		}
		s = s.With(line)
	}
	t, err := c.ofGraph(ctx, s)
	_, compiles := c.Line.NextestBuild()
	asked := manifest.ParseRequest(s.Request())
	var wrong *exit.UsageError
	switch {
	case err == nil:
		return t, nil
	case compiles, errors.As(err, &wrong): // nextest list, as any build
		return nil, err
	case asked.RequestsGPU(): // else nobody misses it
		c.Machine.Shell.Warning("runs in your own environment: %v", err)
	}
	return nil, nil
}

// ofGraph are the tools that a build needs by cargo's graph; nil where that shows no GPU work.
func (c Command) ofGraph(ctx context.Context, s *session.Session) (*toolset, error) {
	graph, err := c.graph(ctx, s)
	if err != nil {
		return nil, err
	}
	judged := reach.Judge(ctx, s, c.Tool, graph, reach.Options{Strict: c.Options.Strict})
	if c.lacksGPU(s, judged) {
		c.warnNoFeature(s)
		return nil, nil
	}
	t, err := c.choose(ctx, s, judged)
	return &t, err
}

// choose chooses the tools of the command line's purpose.
func (c Command) choose(ctx context.Context, s *session.Session, j reach.Judged) (toolset, error) {
	purpose := s.Line.Purpose()
	return choose(ctx, s, j, c.Options.Tools, purpose == cargo.Checks || purpose == cargo.Documents)
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
