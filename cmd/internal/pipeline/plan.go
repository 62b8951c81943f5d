package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/elsewhere"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// way is how a command line is carried out.
type way int

const (
	plainCargo    way = iota // cargo as the user called it
	cargoDecides             // the same, because the project could not be read or cargo could not be asked; cargo reports the error
	withoutGPU               // the same, because there is no GPU work; a proof that was requested is missing
	inEnvironment            // cargo in the environment of a build; nothing is judged
	judged                   // all stages
)

// Plan is what is decided about a command line before a tool is chosen and before anything is built; no later stage decides it again. A
// plan that failed holds what was known until then.
type Plan struct {
	Command
	Way      way
	Session  *session.Session    // nil: no project is open. Its line is that of the build, for nextest and install too
	Why      string              // withoutGPU: why there is no GPU work
	LeftOff  []manifest.Question // withoutGPU: GPU features that are off, to be named once
	Unread   error               // cargoDecides: the warning if cargo itself finds nothing wrong
	Targets  []cargorun.Target   // those of the workspace, if the configuration names some
	Features reach.Judged        // cargo's answer, and what it means
	Place    *proof.Place        // where programs run; nil: here

	asked bool // cargo was asked what it will build
}

// result is what the plan found, for a command that ends with it.
func (p Plan) result() Result {
	r := Result{Judged: p.asked && p.Way != withoutGPU, Session: p.Session}
	if r.Judged {
		if r.Features = p.Features; r.Features.Reach != nil {
			r.Findings = r.Features.Findings()
		}
	}
	return r
}

// carryOut does what was planned.
func (p Plan) carryOut(ctx context.Context, trace *finding.Trace) (Result, error) {
	switch p.Way {
	case cargoDecides:
		return p.result(), p.deferToCargo(ctx)
	case withoutGPU:
		return p.runWithoutGPU(ctx)
	case inEnvironment:
		return p.result(), p.runInEnvironment(ctx)
	case judged:
		return p.build(ctx, trace)
	}
	return p.result(), cargorun.Run(ctx, p.Machine, p.Command.Line, p.Machine.Host.Env)
}

// plan decides how a command line is carried out: by its arguments, then by the manifests, then by cargo's graph. It stops at the first
// that decides, since a build without GPU work must not wait for cargo's answer.
func (c Command) plan(ctx context.Context, trace *finding.Trace) (p Plan, err error) {
	p.Command = c
	line := c.line()
	installs := line.Purpose() == cargo.Installs
	switch {
	case installs:
		in, ok := c.Line.Install()
		if !ok || in.List {
			return p, nil
		}
		if in.Path == "" {
			c.noteNotFetched(in)
			p.Way = inEnvironment
			return p, nil
		}
		line = in.Build
	case !line.Known(), line.Has("--help", "--version", "--unit-graph"), line.Verb == "":
		p.Way = inEnvironment
		return p, nil
	}
	if p.Session, err = session.Open(c.Machine, line); err != nil {
		_, wrong := errors.AsType[*config.Error](err)
		if wrong && line.Purpose() == cargo.Other { // tree, metadata, clean, publish: nothing in it is about them
			c.Machine.Shell.Warning("%v", err)
			p.Way = plainCargo
			return p, nil
		}
		if wrong || errors.Is(err, buildenv.ErrUnbounded) { // cargo would read it without end, or whole
			return p, err
		}
		p.Way, p.Session = cargoDecides, nil // cargo's error about a manifest is the better one
		p.Unread = fmt.Errorf("built by plain cargo, unchecked: %w", err)
		return p, nil
	}
	if installs {
		return p.planInstall(ctx, trace)
	}
	s := p.Session
	if p.Place, err = elsewhere.Resolve(s, c.Options.Proof, c.Options.Tools.TrustProject, "--gpu-"); err != nil {
		return p, err
	}
	judges := line.Purpose().Judged()
	if judges {
		s.WarnUnmatched()
	}
	work, why := s.GPUWork()
	if asked := c.Options.Tools.Requested(); !work && asked != "" && judges {
		work, why = true, asked+" is given"
	}
	switch {
	case !work && !p.asksForVulkan() && p.Place == nil:
		p.Way, p.Why = withoutGPU, why
		return p, nil
	case !judges:
		p.Way = inEnvironment
		return p, nil
	case c.nextest() != nil && strings.Contains(" "+strings.Join(c.Line.Args, " "), " --archive-file"):
		return p, exit.Usagef(
			"gpubuild prove --child "+buildenv.Words(c.Machine.Host.OS, append([]string{"*-*", "--", "cargo"}, c.Line.Words()...)...),
			"nextest's archive was built before, and gpubuild judges what it builds")
	}
	return p.ask(ctx, trace)
}

// ask asks cargo what it will build, and decides by the answer.
func (p Plan) ask(ctx context.Context, trace *finding.Trace) (_ Plan, err error) {
	s := p.Session
	p.Way, p.asked = judged, true
	if p.Targets, err = markedTargets(ctx, p.Command, s); err != nil {
		return p, err
	}
	p.Features, err = stage(trace, report.CheckReach, func() (reach.Judged, error) {
		graph, err := p.graph(ctx, s)
		if err != nil {
			return reach.Judged{}, err
		}
		return judgeFeatures(ctx, p.Command, s, graph)
	})
	request := manifest.ParseRequest(s.Request())
	no, refused := errors.AsType[*cargo.RefusedError](err)
	switch a := p.Features.Reach; {
	case a == nil && refused && bytes.Contains(no.Stderr, []byte("unknown `-Z` flag")): // a nightly's words, whichever cargo is asked
		p.Way = plainCargo
		return p, nil
	case a == nil && refused && !request.RequestsGPU() && len(s.Config.GPUPackages.Value) == 0: // cargo says so itself
		p.Way, p.Why = withoutGPU, "cargo refuses the build"
		return p, nil
	case a != nil && p.lacksGPU(s, p.Features):
		p.Way, p.Why, p.LeftOff = withoutGPU, "no GPU crate is linked", p.leftOff(p.Features.Session)
		return p, nil
	case err == nil && cargorun.RefusedRun(s, a.Roots):
		p.Way = plainCargo
	}
	return p, err
}

// planInstall plans `cargo install --path`, which is judged like any other build, before and after cargo installs what it made.
func (p Plan) planInstall(ctx context.Context, trace *finding.Trace) (Plan, error) {
	in, _ := p.Line.Install()
	if p.Session.Project.Selected == nil { // a virtual manifest: cargo installs packages
		return p, nil
	}
	if !p.Session.Project.HasLock {
		p.Session = p.Session.With(in.Unlocked)
	}
	if work, _ := p.Session.GPUWork(); !work {
		return p, nil
	}
	p, err := p.ask(ctx, trace)
	refused, is := errors.AsType[*cargo.RefusedError](err)
	if is && p.Features.Reach == nil { // install reports it in its own way, or does not mind
		p.Way = cargoDecides
		p.Unread = fmt.Errorf("installed without a check of its features: cargo refuses the question: %s", cargo.FirstLine(refused))
		return p, nil
	}
	return p, err
}

// noteNotFetched: nothing of a registry or a repository is here before cargo has fetched it, and cargo fetches and builds in one go.
func (c Command) noteNotFetched(in cargo.Install) {
	for _, f := range []string{"cuda", "cudnn"} {
		if slices.Contains(in.Features, f) {
			c.Machine.Shell.Note("not checked whether `%s` enables the GPU: `cargo install` fetches the sources itself; "+
				"`gpubuild install --path DIR` checks those in DIR", f)
			return
		}
	}
}
