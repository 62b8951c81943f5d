package pipeline

import (
	"context"

	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// Planned is a project whose tools are chosen, for one of our own verbs: nothing is built.
type Planned struct {
	Features reach.Judged
	Tools    tools.Tools
	StandIn  bool // for the toolkit: the tools compile no kernels
}

// Prepare opens the project of a command line, asks cargo what it builds and where, writing nothing of the user's, and chooses the tools
// that a build would take; checks: those of a type check.
func Prepare(ctx context.Context, m *session.Machine, line cargo.Line, o tools.Options, checks bool) (Planned, error) {
	judged, err := reach.Open(ctx, m, line, reach.Options{Places: true, AsIs: true})
	if err != nil {
		return Planned{}, err
	}
	if o.Fetching = m.Shell; m.Shell.Verbose { // else what was chosen is no part of the verb's answer
		o.Fetching = nil
	}
	t, err := choose(ctx, judged.Session, judged, o, checks)
	return Planned{judged, t.Tools, t.standIn}, err
}

// Fresh is the build as package fresh takes it.
func (p Planned) Fresh(o fresh.Options) fresh.Build {
	return freshBuild(p.Features.Session, p.Features, p.Tools, o)
}

// toolset are the tools of a build; standIn says that they compile no kernels, for a type check.
type toolset struct {
	tools.Tools
	standIn bool
}

// choose chooses what the build needs of the machine. A type check does without a toolkit where none fits, or where the user wants none.
func choose(ctx context.Context, s *session.Session, j reach.Judged, o tools.Options, checks bool) (toolset, error) {
	if checks && o.Toolkit == tools.None {
		t, err := checkOnly(s, j)
		return toolset{t, true}, err
	}
	from, now := s, freshBuild(s, j, ambient(s.Machine, j.Tool), fresh.Options{})
	if o.Fetching != nil {
		from = s.Quiet()
	}
	if o.Cargo, o.BuiltFor = j.Tool, fresh.BuiltFor(now); o.OneArch && len(o.BuiltFor) > 1 {
		o.BuiltFor = o.BuiltFor[:1]
	}
	o.Undeclared = func(asked string) (tools.Undeclared, error) {
		if name := s.MacroWithNvcc(); name != "" {
			return tools.Undeclared{Package: name, Why: "a procedural macro that runs nvcc"}, nil
		}
		return fresh.Undeclared(now, asked), nil
	}
	t, err := tools.Choose(ctx, from, j.Graph, j.Reach, o)
	if checks && o.Toolkit == "" && lacksToolkit(err) && (tools.LikelyNeeds(j.Reach).Toolkit() || t.Undeclared.Named) {
		s.Machine.Shell.Note("%v", err)
		t, err = checkOnly(s, j)
		return toolset{t, true}, err
	}
	return toolset{t, false}, err
}

// ambient is the user's own environment.
func ambient(m *session.Machine, tool cargo.Tool) tools.Tools {
	return tools.Tools{Env: m.Host.Env, RunEnv: m.Host.Env, Cargo: tool}
}

func freshBuild(s *session.Session, j reach.Judged, t tools.Tools, o fresh.Options) fresh.Build {
	return fresh.Build{
		Machine: s.Machine, Tool: t.Cargo, Line: s.Line, Project: s.Project, Graph: j.Graph, Reach: j.Reach, Tools: t, Options: o,
		Named: s.Config.GPUPackages.Value,
	}
}
