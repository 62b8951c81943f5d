package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// cargoSays lets cargo report what is wrong with a project that we could not read; our own reason is added only if cargo sees none.
func cargoSays(ctx context.Context, c Command, ours error) error {
	m := c.Machine
	err := cargorun.Plain(ctx, m, c.Line, m.Host.Env)
	if err != nil {
		var none *manifest.NotFoundError
		if errors.As(ours, &none) {
			m.Shell.Hint(none.Hint())
		}
		return err
	}
	m.Shell.Warning("built by plain cargo, unchecked: %v", ours)
	return nil
}

// unjudged runs a subcommand of cargo whose result is not judged: doc, publish, a plugin. Where there is a project with GPU work it runs
// in the environment of the build; where that cannot be made it says so and runs in the user's own.
func unjudged(ctx context.Context, c Command) error {
	env := c.Machine.Host.Env
	if l := c.line(); !l.Help && !l.Version && l.Verb != "" {
		if of, ok := environment(ctx, c); ok {
			env = of
		}
	}
	return cargorun.Plain(ctx, c.Machine, c.Line, env)
}

// environment is what a build of the project would get; false where there is no project, no GPU work, or no such environment.
func environment(ctx context.Context, c Command) (buildenv.Env, bool) {
	s, err := session.Open(c.Machine, c.line())
	if err != nil {
		return buildenv.Env{}, false
	}
	if work, _ := s.GPUWork(); !work {
		return buildenv.Env{}, false
	}
	if !s.Line.Builds() { // publish, package, a plugin: cargo cannot be asked about them, so what a build would need is set
		line, err := asBuild(s)
		if err != nil {
			return buildenv.Env{}, false
		}
		s = s.With(line)
	}
	env, err := buildEnvironment(ctx, c, s)
	if err != nil {
		c.Machine.Shell.Warning("runs in your own environment: %v", err)
		return buildenv.Env{}, false
	}
	return env, true
}

func buildEnvironment(ctx context.Context, c Command, s *session.Session) (buildenv.Env, error) {
	graph, err := s.Graph(ctx, c.Tool, session.Question{Places: true})
	if err != nil {
		return buildenv.Env{}, err
	}
	judged, err := featurecheck.Judge(s, c.Tool, graph, c.Options.Strict)
	if err != nil {
		return buildenv.Env{}, err
	}
	t, err := choose(ctx, s, judged, c.Options.Tools)
	return t.Env, err
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

// install is `cargo install`: with --path the features are judged as in any other build before cargo installs what it made. Nothing of a
// registry or a repository is here before cargo fetched it, and cargo fetches and builds in one go.
func install(ctx context.Context, c Command, trace *finding.Trace, sink *report.Sink) (r Result, err error) {
	m := c.Machine
	in, ok := c.Line.Install()
	if !ok || in.List {
		return r, cargorun.Plain(ctx, m, c.Line, m.Host.Env)
	}
	if in.Path == "" {
		for _, f := range []string{"cuda", "cudnn"} {
			if slices.Contains(in.Features, f) {
				m.Shell.Note("not judged here whether `%s` reaches: `cargo install` fetches the sources itself; "+
					"`gpubuild install --path DIR` judges those in DIR", f)
				break
			}
		}
		return r, unjudged(ctx, c)
	}
	s, err := session.Open(m, in.Build)
	if err != nil {
		return r, cargoSays(ctx, c, err)
	}
	if s.Project.Selected == nil { // a virtual manifest: cargo installs packages
		return r, cargorun.Plain(ctx, m, c.Line, m.Host.Env)
	}
	if !s.Project.HasLock {
		s = s.With(in.Unlocked)
	}
	work, why := s.GPUWork()
	if !work {
		m.Shell.Detail("no GPU work: %s", why)
		return r, cargorun.Plain(ctx, m, c.Line, m.Host.Env)
	}
	m.Shell.Detail("GPU work: %s", why)
	r = Result{Judged: true, Session: s}
	stage := func(phase, id string, do func() error) error {
		trace.Phase(phase)
		err := trace.Check(id, do)
		sink.TellCheck(id, r.stages(c, trace))
		return err
	}
	err = stage("features", report.CheckReach, func() error {
		var graph session.Graph
		// cargo install reads no lock file without --locked, and writes none.
		_, err := s.KeepLock(func() (err error) {
			graph, err = s.Graph(ctx, c.Tool, session.Question{Places: true})
			return err
		})
		if err != nil {
			return err
		}
		r.Features, r.Findings, err = enabled(ctx, c, s, graph)
		return err
	})
	var refused *cargo.RefusedError
	if errors.As(err, &refused) { // install words it in its own way, or does not mind
		err := cargorun.Plain(ctx, m, c.Line, m.Host.Env)
		if err == nil {
			m.Shell.Warning("installed without a check of its features: cargo refuses the question: %s", cargo.FirstLine(refused))
		}
		return r, err
	}
	if err != nil {
		return r, err
	}
	err = stage("toolchain", report.CheckToolchain, func() (err error) {
		r.Tools, err = choose(ctx, s, r.Features, c.Options.Tools)
		return err
	})
	if err != nil {
		return r, err
	}
	err = stage(report.PhaseCargo, report.CheckBuild, func() error { return cargorun.Plain(ctx, m, c.Line, r.Tools.Env) })
	return r, err
}
