package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// journey is one walk down the road: each step reads what earlier ones found and adds its own.
type journey struct {
	*app
	tools.Tools
	options Options
	Line    cargo.Line
	Tool    cargo.Tool

	Project  *manifest.Project
	Config   config.Config
	session  *session.Session
	graph    session.Graph
	checked  featurecheck.Judged // where reach is from
	reach    *features.Answer
	findings []finding.Finding

	fresh *fresh.State

	messages       []cargo.Message
	passed         *cargorun.Stream // to a user who asked for them
	nextest        *cargo.Line      // what was typed, where line is the `cargo test` that builds the same
	programs       []cargorun.Program
	audited        []audit.Outcome
	auditedProgram string
	endedByAudit   bool
	workspace      []cargorun.Target // known where the configuration marks programs
	missed         []string          // what the configuration marks and this run left out
	gathered
}

// road is what a cargo verb does: walk it as far as the verb asks.
func (a *app) road(ctx context.Context, o Options, line cargo.Line) (err error) {
	tool, err := cargo.Find(a.Host, line)
	if err != nil {
		return err
	}
	line, given, err := cargo.Alias(ctx, a.Host, a.Runner, tool, line, ownFlags())
	if err != nil {
		return err
	}
	if err := o.apply(given); err != nil {
		return err
	}
	j := &journey{app: a, options: o, Line: line, Tool: tool, Tools: tools.Tools{Env: a.Host.Env}}
	j.trace = finding.NewTrace(time.Now)
	if test, ok := line.Nextest(); ok {
		j.Line, j.nextest = test, &line
	}
	if err := o.checkResults(line); err != nil {
		return err
	}
	defer func() {
		if told := j.tellTimings(err == nil); err == nil {
			err = told
		}
	}()
	j.sink = report.NewSink(a.Machine, a.words, o.files(), j.Line.WantsJSON())
	end := j.travel(ctx)
	if !j.sink.Wants(j.walked, end) {
		return end
	}
	return j.sink.Finish(j.result(), j.seal, end)
}

// travel finds out what the road must do for a verb, and does it.
func (j *journey) travel(ctx context.Context) error {
	line := j.Line
	j.trace.Phase("manifests")
	if line.Verb == "install" {
		return j.install(ctx)
	}
	if !line.Known() || line.Help || line.Version || line.UnitGraph || line.Verb == "" {
		return j.otherVerb(ctx)
	}
	if err := j.openProject(); err != nil {
		var conf *config.Error
		if errors.As(err, &conf) {
			return err
		}
		// Without a manifest that can be read there is nothing of ours to do, and cargo says best what is wrong with it.
		return j.cargoSays(ctx, err)
	}
	work, why := j.Project.GPUWork(j.request())
	if !work {
		j.Shell.Detail("no GPU work: %s", why)
		j.trace.Phase(report.PhaseCargo)
		err := j.plainCargo(ctx, j.asTyped(), j.Host.Env)
		if err == nil && j.judged() && (j.options.Prove || j.options.RequireProof || j.options.Audit) {
			// A proof was asked for and there is none: that must not end as success does.
			j.Shell.Loud("Unproved", "not proven: no GPU work: %s", why)
			return exit.Code(exit.Unproved)
		}
		return err
	}
	if !j.judged() {
		return j.otherVerb(ctx)
	}
	return j.walk(ctx, why)
}

// asTyped is the line that cargo gets in the end.
func (j *journey) asTyped() cargo.Line {
	if j.nextest != nil {
		return *j.nextest
	}
	return j.Line
}

// judged says whether a verb's result is one that the road can judge; every other cargo word runs in our environment, unjudged.
func (j *journey) judged() bool {
	switch j.Line.Verb {
	case "build", "check", "run", "test", "bench", "clippy", "rustc":
		return true
	}
	return false
}

// walk goes from the feature to the verdict.
func (j *journey) walk(ctx context.Context, why string) error {
	j.Shell.Detail("GPU work: %s", why)
	j.trace.Phase("features")
	if err := j.checkMarks(ctx); err != nil {
		return err
	}
	if err := j.step(ctx, report.CheckReach, func(ctx context.Context) error {
		if err := j.askCargo(ctx); err != nil {
			return err
		}
		err := j.checkReach()
		if errors.Is(err, exit.Code(exit.Unreached)) {
			j.hintRoute(ctx)
		}
		return err
	}); err != nil {
		return err
	}
	if cargorun.AmbiguousRun(j.session.With(j.Line), j.reach.Roots) {
		return j.plainCargo(ctx, j.Line, j.Host.Env)
	}
	j.trace.Phase("toolchain")
	if err := j.step(ctx, report.CheckToolchain, j.chooseTools); err != nil {
		return err
	}
	j.trace.Phase("waiting")
	release, err := fresh.Lock(ctx, j.Machine, j.graph.Places)
	if err != nil {
		return err
	}
	defer release()
	j.trace.Phase("stale check")
	if err := j.step(ctx, report.CheckStale, j.cleanStale); err != nil {
		return err
	}
	j.trace.Phase(report.PhaseCargo)
	err = j.buildRight(ctx)
	if j.Line.WantsJSON() {
		j.stream().End(err == nil)
	}
	if err != nil {
		return err
	}
	cargorun.PrintExecutables(j.Machine, j.Line, j.programs)
	if j.Line.Verb == "check" || j.Line.Verb == "clippy" {
		return nil
	}
	j.trace.Phase("scan")
	if err := j.scanPrograms(); err != nil {
		return err
	}
	release()
	switch j.Line.Verb {
	case "run", "test", "bench":
		if j.Line.NoRun {
			return nil
		}
		j.trace.Phase("run, proof")
		return j.step(ctx, report.CheckRun, j.runProven)
	}
	var audited error
	if j.options.Audit {
		j.trace.Phase("audit")
		var code exit.Code
		if audited = j.auditBuilt(ctx); audited != nil && !errors.As(audited, &code) {
			j.endedByAudit = audited != nil
			return audited
		}
	}
	j.trace.Phase("proof")
	if err := j.proveBuilt(ctx); err != nil {
		return err
	}
	j.endedByAudit = audited != nil
	return audited
}

// buildRight builds, and builds once more what turns out not to be what was asked for.
func (j *journey) buildRight(ctx context.Context) error {
	if err := j.step(ctx, report.CheckBuild, j.build); err != nil {
		return j.settleBuild(ctx, err)
	}
	j.trace.Phase("records")
	j.KeepArchUnset(j.Machine, j.graph.Places.BuildDirectory)
	return j.step(ctx, report.CheckCode, func(ctx context.Context) error { return j.settleBuild(ctx, nil) })
}

// cargoSays lets cargo report what is wrong with a project that we could not read; our own reason is added only if cargo sees none.
func (j *journey) cargoSays(ctx context.Context, ours error) error {
	err := j.plainCargo(ctx, j.asTyped(), j.Host.Env)
	if err != nil {
		var none *manifest.NotFoundError
		if errors.As(ours, &none) {
			j.Shell.Hint(none.Hint())
		}
		return err
	}
	j.Shell.Warning("built by plain cargo, unchecked: %v", ours)
	return nil
}

// otherVerb runs a cargo word that is not judged: doc, install, a plugin. Where there is a project with GPU work it runs in the environment of
// the build; where the environment cannot be made it says so and runs in the user's own.
func (j *journey) otherVerb(ctx context.Context) error {
	env := j.Host.Env
	if !j.Line.Help && !j.Line.Version && j.Line.Verb != "" {
		if e, ok := j.environmentIfAny(ctx); ok {
			env = e
		}
	}
	return j.plainCargo(ctx, j.Line, env)
}

func (j *journey) environmentIfAny(ctx context.Context) (buildenv.Env, bool) {
	if j.Project == nil {
		if err := j.openProject(); err != nil {
			return buildenv.Env{}, false
		}
	}
	if work, _ := j.Project.GPUWork(j.request()); !work {
		return buildenv.Env{}, false
	}
	if !j.Line.Builds() { // publish, package, a plugin: cargo cannot be asked about them, so what a build would need is set
		typed := j.Line
		defer func() { j.Line = typed }()
		words := []string{"build", "--manifest-path", j.Project.Manifest}
		if len(typed.Features) > 0 {
			words = append(words, "--features", strings.Join(typed.Features, ","))
		}
		if typed.AllFeatures {
			words = append(words, "--all-features")
		}
		if typed.NoDefault {
			words = append(words, "--no-default-features")
		}
		plain, _, err := cargo.Split(words, nil)
		if err != nil {
			return buildenv.Env{}, false
		}
		plain.Toolchain, plain.Dir = typed.Toolchain, typed.Dir
		if test, ok := typed.NextestBuild(); ok {
			plain = test
		}
		j.Line = plain
	}
	steps := []func(context.Context) error{j.askCargo, func(context.Context) error { return j.judge() }, j.chooseTools}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			j.Shell.Warning("runs in your own environment: %v", err)
			return buildenv.Env{}, false
		}
	}
	return j.Env, true
}

// openProject reads the manifests and the configuration.
func (j *journey) openProject() error {
	s, err := session.Open(j.Machine, j.Line)
	if s != nil {
		j.opened(s)
	}
	return err
}

func (j *journey) opened(s *session.Session) {
	j.session, j.Project, j.Config = s, s.Project, s.Config
	j.options.Strict = j.options.Strict || s.Config.Strict.Value
}

// askCargo asks what the command line builds, and where.
func (j *journey) askCargo(ctx context.Context) error {
	if j.session == nil {
		if err := j.openProject(); err != nil {
			return err
		}
	}
	return j.ask(ctx, session.Question{Places: true})
}

func (j *journey) ask(ctx context.Context, q session.Question) (err error) {
	j.graph, err = j.session.With(j.Line).Graph(ctx, j.Tool, q)
	return err
}

// request is what the command line asks of the features.
func (j *journey) request() manifest.Request { return j.session.With(j.Line).Request() }
