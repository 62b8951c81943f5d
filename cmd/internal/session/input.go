package session

import (
	"cmp"

	"gpubuild/features"
)

// Input is what features judges of this command line: the project, what is requested, and cargo's answer. The answer is strict if strict is
// set or the configuration says so.
func (s *Session) Input(g Graph, strict bool) features.Input {
	return features.Input{
		Project: cmp.Or(g.Project, s.Project), Request: s.Request(),
		Strict: strict || s.Config.Strict.Value, Graph: g.Units, Unknown: g.Reason,
		Named: s.Config.GPUPackages.Value,
	}
}
