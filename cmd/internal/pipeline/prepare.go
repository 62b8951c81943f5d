package pipeline

import (
	"context"

	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// Prepared is a project whose tools are chosen, for one of our own verbs: nothing is built.
type Prepared struct {
	Features reach.Judged
	Tools    tools.Tools // the user's own environment where they were not chosen
}

// Look opens the project of a command line and asks cargo what it builds and where, writing nothing of the user's.
func Look(ctx context.Context, m *session.Machine, line cargo.Line, strict bool) (Prepared, error) {
	judged, err := reach.Open(ctx, m, line, reach.Options{Strict: strict, Places: true})
	return Prepared{Features: judged, Tools: unchosen(m, judged.Tool)}, err
}

// Prepare is Look with the tools that a build would take.
func Prepare(ctx context.Context, m *session.Machine, line cargo.Line, strict bool, o tools.Options) (Prepared, error) {
	p, err := Look(ctx, m, line, strict)
	if err != nil {
		return p, err
	}
	s := p.Features.Session
	if !m.Shell.Verbose { // what was chosen is no part of the verb's answer
		s, o.Fetching = s.Quiet(), m.Shell
	}
	p.Tools, err = choose(ctx, s, p.Features, o)
	return p, err
}

// Fresh is the build as package fresh takes it.
func (p Prepared) Fresh(o fresh.Options) fresh.Build {
	return freshBuild(p.Features.Session, p.Features, p.Tools, o)
}

// choose chooses what the build needs of the machine.
func choose(ctx context.Context, s *session.Session, j reach.Judged, o tools.Options) (tools.Tools, error) {
	unchosen := freshBuild(s, j, unchosen(s.Machine, j.Tool), fresh.Options{})
	o.Cargo, o.BuiltFor = j.Tool, fresh.BuiltFor(unchosen)
	o.Undeclared = func(asked string) (tools.Undeclared, error) {
		if name := s.MacroWithNvcc(); name != "" {
			return tools.Undeclared{Package: name, Why: "a procedural macro that runs nvcc"}, nil
		}
		return fresh.Undeclared(unchosen, asked), nil
	}
	return tools.Choose(ctx, s, j.Graph, j.Reach, o)
}

// unchosen is the user's own environment.
func unchosen(m *session.Machine, tool cargo.Tool) tools.Tools {
	return tools.Tools{Env: m.Host.Env, RunEnv: m.Host.Env, Cargo: tool}
}

func freshBuild(s *session.Session, j reach.Judged, t tools.Tools, o fresh.Options) fresh.Build {
	return fresh.Build{
		Machine: s.Machine, Tool: t.Cargo, Line: s.Line, Project: s.Project, Graph: j.Graph, Reach: j.Reach, Tools: t, Options: o,
		Named: s.Config.GPUPackages.Value,
	}
}
