package featurecheck

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Routed is what came of looking for a command line that enables what another one does not.
type Routed struct {
	Already bool             `json:"already"` // the command line does as it is
	Routes  []Route          `json:"routes"`  // smallest first
	Asked   int              `json:"asked"`   // command lines that cargo was asked about
	Blocks  []features.Block `json:"blocks"`  // where none was found: why
	Diff    string           `json:"diff,omitempty"`

	TOML string `json:"-"` // the lines of the diff as they stand in the manifest afterwards

	Gaps []features.Gap `json:"-"`
}

// Found says whether there is a command line.
func (r Routed) Found() bool { return r.Already || len(r.Routes) > 0 }

// Route is a command line that by cargo's answer enables the GPU crates.
type Route struct {
	Command   string   `json:"command"`
	Words     []string `json:"words"`
	Features  []string `json:"features"` // added
	Packages  []string `json:"packages"` // added
	Workspace bool     `json:"workspace"`
	Via       string   `json:"via"` // cargo's answer that says so
}

// Limits of a search: command lines that cargo is asked about, each of which
// costs as much as a build with nothing to do, and routes that are enough.
type Limits struct{ Ask, Enough int }

// The limits of the verb, and of a build that stops, for its hint.
var (
	WholeSearch = Limits{Ask: 40, Enough: 3}
	HintSearch  = Limits{Ask: 3, Enough: 1}
)

// Undeclared is a build without the GPU features that no selected package declares, and what they were meant to turn on.
type Undeclared struct {
	Judged
	Gaps []features.Gap
}

// OpenWithout opens a build for which cargo refuses GPU features that no selected package declares, without them; any other refusal stands.
func OpenWithout(ctx context.Context, m *session.Machine, line cargo.Line, o Options, refusal error) (Undeclared, error) {
	var out Undeclared
	text := refusal.Error()
	if !strings.Contains(text, "this feature") && !strings.Contains(text, "these features") {
		return out, refusal
	}
	s, err := session.Open(m, line)
	if err != nil {
		return out, refusal
	}
	var without []string
	for _, f := range append([]string{"cuda", "cudnn"}, s.Config.GPUFeatures.Value...) {
		if slices.Contains(line.Features, f) {
			without = append(without, f)
		}
	}
	plain, err := line.Change(cargo.Change{Without: without})
	if err != nil || len(without) == 0 {
		return out, refusal
	}
	if out.Judged, err = Open(ctx, m, plain, o); err != nil {
		return out, refusal
	}
	for _, f := range without {
		gaps, err := features.GapsWithout(m.Host, out.Input, f)
		if err != nil {
			return out, err
		}
		out.Gaps = append(out.Gaps, gaps...)
	}
	if len(out.Gaps) == 0 {
		return out, refusal
	}
	return out, nil
}

// FindRoutes asks cargo about the command lines that could close the gaps of a build, the smallest first, until enough are found. more are
// gaps in addition to those of the build's own answer.
func FindRoutes(ctx context.Context, j Judged, more []features.Gap, limits Limits) (Routed, error) {
	found := Routed{Routes: []Route{}, Blocks: []features.Block{}, Gaps: append(features.Gaps(j.Answer), more...)}
	m := j.Session.Machine
	if len(found.Gaps) == 0 {
		if !slices.ContainsFunc(j.Answer.Roots, func(r features.Root) bool { return r.Reached }) {
			return found, &exit.UsageError{
				What: "nothing in this command line leads to a GPU crate, so there is no missing edge to go around",
				Fix:  "name the feature that is meant: gpubuild features --route --features cuda",
			}
		}
		found.Already = !j.Answer.Stops
		return found, nil
	}
	list, err := features.Routes(m.Host, j.Input, found.Gaps)
	if err != nil {
		return found, err
	}
	for _, r := range list {
		if found.Asked == limits.Ask || len(found.Routes) == limits.Enough {
			break
		}
		if covered(found.Routes, r) {
			continue
		}
		line, err := j.Session.Line.Change(cargo.Change{Features: r.Features, Packages: r.Packages, Workspace: r.Workspace})
		if err != nil {
			return found, err
		}
		found.Asked++
		after, err := Open(ctx, j.Session.Quiet().Machine, line, j.again())
		if _, ok := errors.AsType[*cargo.RefusedError](err); ok {
			continue
		}
		if err != nil {
			return found, err
		}
		closed, err := features.Closed(m.Host, after.Input, found.Gaps)
		if err != nil {
			return found, err
		}
		if !closed || after.Answer.Stops {
			continue
		}
		found.Routes = append(found.Routes, Route{
			Command: command(line), Words: append([]string{"gpubuild"}, line.Words()...), Features: append([]string{}, r.Features...),
			Packages:  append([]string{}, r.Packages...),
			Workspace: r.Workspace, Via: after.Answer.Via,
		})
	}
	return found, nil
}

// covered says whether a route that was found is part of another one, which then asks for more than it must.
func covered(list []Route, r features.Route) bool {
	within := func(small, large []string) bool {
		return !slices.ContainsFunc(small, func(s string) bool { return !slices.Contains(large, s) })
	}
	return slices.ContainsFunc(list, func(have Route) bool {
		return within(have.Features, r.Features) && within(have.Packages, r.Packages) && (!have.Workspace || r.Workspace)
	})
}

// Explain says why no command line closes the gaps, and which lines of a manifest would, if cargo agrees.
func (r Routed) Explain(ctx context.Context, j Judged) (Routed, error) {
	m := j.Session.Machine
	var err error
	if r.Blocks, err = features.Blocked(m.Host, j.Input, r.Gaps); err != nil {
		return r, err
	}
	var edits []edit.Edit
	for _, b := range r.Blocks {
		if b.Manifest != "" {
			edits = append(edits, edit.Edit{Manifest: b.Manifest, Feature: b.Feature, Add: []string{b.Key + "/" + b.Lack.Feature},
				Key: b.Key, Value: b.Line})
		}
	}
	if len(edits) == 0 {
		return r, nil
	}
	t, err := j.try(ctx, edits)
	if err != nil {
		m.Shell.Detail("a dependency of the package's own does not help: %v", err)
		return r, ctx.Err()
	}
	if closed, err := features.Closed(m.Host, t.Input, r.Gaps); err != nil || !closed {
		return r, err
	}
	for _, path := range t.order {
		old, err := m.Host.ReadFile(path, manifestLimit)
		if err != nil {
			return r, err
		}
		r.Diff += edit.Diff(diffName(m.Host, j.Session.Project, path), old, t.texts[path])
	}
	if len(t.order) == 1 {
		r.TOML = "[dependencies]\n"
		var add []string
		for _, e := range edits {
			r.TOML, add = r.TOML+edit.Key(e.Key)+" = "+e.Value+"\n", append(add, e.Add...)
		}
		p := j.Session.Project.Package(t.order[0])
		r.TOML += "[features]\n" + edit.FeatureLine(edits[0].Feature, manifest.Union(p.Features[edits[0].Feature], add))
	}
	return r, nil
}

// Lacked words what the gaps lack.
func (r Routed) Lacked() string {
	var parts []string
	for _, g := range r.Gaps {
		var what []string
		for _, l := range g.Lacks {
			what = append(what, l.Crate+"/"+l.Feature)
		}
		if len(what) == 0 {
			what = []string{"a GPU crate"}
		}
		parts = append(parts, g.Root+" gets "+strings.Join(what, ", "))
	}
	return strings.Join(parts, ", ")
}

// Fixable says whether Fix would write something for a build.
func (j Judged) Fixable() bool {
	return slices.ContainsFunc(j.Answer.Findings, func(f features.Finding) bool { return fixable(j.Session.Project, f) })
}

func fixable(p *manifest.Project, f features.Finding) bool {
	return len(f.Edits) > 0 && !slices.ContainsFunc(f.Edits, func(e edit.Edit) bool { return !p.Member(e.Manifest) })
}
