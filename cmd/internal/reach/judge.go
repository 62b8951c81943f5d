// Package reach asks cargo what command lines build and has features judge the answers. Besides judging one build it has Fix for the
// missing lines of manifests, and Lint for the features of every member.
//
// It builds nothing. Only Fix writes: manifests of the workspace, and the Cargo.lock that belongs to them.
package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Judged is a build, cargo's answer about it, and what features makes of that.
type Judged struct {
	Session *session.Session // its line is the build's
	Tool    cargo.Tool
	Graph   session.Graph
	Facts   features.Facts
	Reach   *features.Reach
}

// Judge has features judge cargo's answer about the session's line. o.Strict counts in addition to the configuration's.
func Judge(ctx context.Context, s *session.Session, tool cargo.Tool, g session.Graph, o Options) Judged {
	s = s.Knowing(g.Project)
	in := s.Input(g, o.Strict)
	in.Lint = o.lint
	in.Target = func() string { return session.BuiltFor(ctx, s.Machine, tool, s.Line) }
	j := decide(s, in)
	j.Tool, j.Graph = tool, g
	for i := range j.Reach.Findings { // features to request become a command
		f := &j.Reach.Findings[i]
		if f.Fix == "" && len(f.Ask) == 0 && len(f.Lacks) > 0 { // no change of the user's helps: this shows who is involved
			tree := s.Line.AsTree(f.Lacks[0].Crate + "@" + f.Lacks[0].Version)
			f.Fix = buildenv.Words(s.Machine.Host.OS, append([]string{"cargo"}, tree...)...)
		}
		if len(f.Ask) == 0 || f.Fix != "" {
			continue
		}
		if line, err := s.Line.Change(cargo.Change{Features: f.Ask}); err == nil {
			f.Fix = buildenv.Words(s.Machine.Host.OS, append([]string{"gpubuild"}, line.Words()...)...)
		}
	}
	return j
}

// decide gathers what a question takes, and answers it.
func decide(s *session.Session, in features.Input) Judged {
	j := Judged{Session: s, Facts: features.Gather(s.Machine.Host, in)}
	j.Reach = features.Judge(&j.Facts)
	return j
}

// Options say how a build is looked at for one of our own verbs.
type Options struct {
	Strict bool
	Places bool // it is to be known where cargo builds, too
	Write  bool // a Cargo.lock that is missing or out of date is written
	AsIs   bool // where cargo needs another Cargo.lock to answer, it gets a copy to change
	Edges  bool // edges for which cargo refuses the build are findings, not an error

	lint bool
}

// manifestFault is cargo's refusal of a manifest, or of the workspace that manifests make.
var manifestFault = lazyregexp.New("failed to (parse|load) manifest|failed to read `[^`]*Cargo\\.toml`|cyclic |" +
	"Cargo\\.toml` was not valid|does not have (that|these) feature|error: [^\n]*\n *--> [^\n]*Cargo\\.toml")

// Open opens the project of a command line and asks cargo about it, writing nothing of the user's.
func Open(ctx context.Context, m *session.Machine, line cargo.Line, o Options) (Judged, error) {
	tool, err := cargo.Find(m.Host, line)
	if err != nil {
		return Judged{}, err
	}
	s, err := session.Open(m, line)
	if err != nil {
		return Judged{}, err
	}
	var g session.Graph
	other := o.AsIs && !s.Project.HasLock // cargo could only refuse, once it has updated its index
	if !other {
		g, err = s.Graph(ctx, tool, session.Question{Places: o.Places, Own: !o.Write})
		refused, ok := errors.AsType[*cargo.RefusedError](err)
		other = ok && refused.Locked && o.AsIs
	}
	if other {
		g, err = s.Graph(ctx, tool, session.Question{Places: o.Places, Apart: true})
	}
	if refused, ok := errors.AsType[*cargo.RefusedError](err); ok &&
		(manifestFault.Match(refused.Stderr) || refused.Code == cargoFailed && !parses(ctx, s, tool)) {
		err = exit.Errorf(exit.Config, "", "%w", refused)
	} else if ok && refused.Unfetched != "" { // a build prints cargo's own words
		brief := *refused
		brief.Stderr, brief.Fix = []byte("error: "+refused.Unfetched+"\n"), "cargo fetch"
		err = &brief
	}
	if err == nil {
		return Judge(ctx, s, tool, g, o), nil
	}
	refused := func(f features.Finding) bool { return f.ID == features.IDRefused }
	if edges := suspected(ctx, s, err); o.Edges && slices.ContainsFunc(edges, refused) {
		return Judged{Session: s, Reach: &features.Reach{Via: "unknown", Unknown: cargo.FirstLine(err), Findings: edges, Stops: true,
			Roots: []features.Root{}, Units: []features.ScriptUnit{}}}, nil
	}
	return Judged{}, WithMissingFeature(ctx, s, err)
}

// cargoFailed is the code of cargo's own errors; rustup has another.
const cargoFailed = 101

// parses reports whether cargo can read the workspace's manifests, whatever is to be built of them.
func parses(ctx context.Context, s *session.Session, tool cargo.Tool) bool {
	_, refused := s.Packages(ctx, tool, true)
	return refused == ""
}

// FromManifests judges each selected package by metadata, as if it was built alone: cargo, if asked for more, would write a Cargo.lock.
// missing are features that count as declared and empty.
func FromManifests(ctx context.Context, m *session.Machine, line cargo.Line, missing []string) (list []Judged, err error) {
	s, err := session.Open(m, line)
	if err == nil {
		s, err = s.WithMetadata(ctx, !s.Project.HasLock)
	}
	if err != nil {
		return nil, err
	}
	selected, known := s.Project.Selection(s.Request())
	if !known || len(selected) == 0 {
		return nil, errors.New("no package is selected")
	}
	for _, p := range selected {
		in := s.Input(session.Graph{}, false)
		in.Missing, in.Alone = missing, p
		list = append(list, decide(s, in))
	}
	return list, nil
}

// WithMissingFeature adds to cargo's refusal the command that corrects it: by declaring a GPU feature that no selected package has, or by
// the right spelling of an edge.
func WithMissingFeature(ctx context.Context, s *session.Session, err error) error {
	var refused *cargo.RefusedError
	if !errors.As(err, &refused) || refused.Fix != "" {
		return err
	}
	for _, f := range suspected(ctx, s, err) {
		if len(f.Edits) > 0 {
			first, _, more := strings.Cut(strings.TrimPrefix(f.Fix, "[features]\n"), "\n")
			first += map[bool]string{true: " and more"}[more]
			suggested := *refused
			suggested.Code = exit.Of(err) // for a manifest's fault the caller has put its own code around cargo's
			suggested.Fix = buildenv.Words(s.Machine.Host.OS, append([]string{"gpubuild"}, s.Line.As("features", "--fix")...)...) +
				"\n      writes " + first
			return &suggested
		}
	}
	return err
}

// suspected lists what cargo may have refused a build for: edges that it accepts in no manifest, or else what
// the build lacks with the GPU features that no selected package declares.
func suspected(ctx context.Context, s *session.Session, refusal error) (list []features.Finding) {
	for _, m := range s.Project.Members {
		list = append(list, features.RefusedEdges(s.Project, m, refusal.Error())...)
	}
	r := s.Request()
	selected, known := s.Project.Selection(r)
	asked := manifest.ParseRequest(r)
	missing := slices.DeleteFunc(asked.Plain, func(f string) bool {
		return !known || slices.ContainsFunc(selected, func(p *manifest.Package) bool { return p.Declares(f) })
	})
	line, err := s.Line.Change(cargo.Change{Without: missing})
	others := slices.ContainsFunc(missing, func(f string) bool { // cargo refuses these, or names the one that was meant
		return !asked.IsBackend(f) || slices.ContainsFunc(selected, func(p *manifest.Package) bool {
			return slices.ContainsFunc(p.FeatureNames(), func(is string) bool { return strings.EqualFold(is, f) })
		})
	})
	if len(list) > 0 || len(missing) == 0 || others || err != nil {
		return list
	}
	judged, err := FromManifests(ctx, s.Quiet().Machine, line, missing)
	if err != nil {
		s.Machine.Shell.Detail("%v", err)
	}
	for _, j := range judged {
		list = append(list, j.Reach.Findings...)
	}
	return list
}

// Shown are the findings that a person should read: notes only when all are wanted, when no GPU code is linked, which they explain, or
// when the build decides.
func (j Judged) Shown(all bool) []finding.Finding {
	all = all || !j.Reach.Stops && !slices.ContainsFunc(j.Reach.Roots, func(r features.Root) bool { return r.Reached })
	return shown(j.Session, slices.DeleteFunc(slices.Clone(j.Reach.Findings), func(f features.Finding) bool {
		return f.Severity == features.Note && !all && !f.Later
	}), "features", "--fix")
}

// Findings are those of the answer, with paths as people read them.
func (j Judged) Findings() []finding.Finding {
	return shown(j.Session, j.Reach.Findings, "features", "--fix")
}

// Fixable reports whether --fix can write what is missing.
func (j Judged) Fixable() bool {
	return slices.ContainsFunc(j.Reach.Findings, func(f features.Finding) bool {
		return f.Severity == features.Error && fixable(j.Session.Project, f)
	})
}

// fixable reports whether all edits of a finding are in manifests of the workspace.
func fixable(p *manifest.Project, f features.Finding) bool {
	return len(f.Edits) > 0 && !slices.ContainsFunc(f.Edits, func(e edit.Edit) bool { return !p.IsMember(p.Package(e.Manifest)) })
}

// shown are findings with paths as people read them, and with the command that writes a fix of many lines.
func shown(s *session.Session, list []features.Finding, fixes ...string) []finding.Finding {
	const most = 2 // lines of a fix that are printed
	var out []finding.Finding
	for _, f := range list {
		f.Path = s.Machine.Shown(f.Path)
		if f.Else != "" {
			f.Fix += "\n# " + f.Else
		}
		if lines := strings.SplitN(f.Fix, "\n", most+1); len(f.Edits) > most && fixable(s.Project, f) {
			f.Brief = fmt.Sprintf("%s\n# and more: `gpubuild %s` writes them", strings.Join(lines[:most], "\n"),
				buildenv.Words(s.Machine.Host.OS, s.Line.As(fixes...)...))
		}
		out = append(out, f.Finding)
	}
	return out
}

// NoteUnasked says that the answer is about the default features where none was asked for.
func (j Judged) NoteUnasked() {
	r, shell := j.Facts.Input.Request, j.Session.Machine.Shell
	switch {
	case j.Reach.Via == "unknown":
		return
	case len(j.Reach.Roots) == 0:
		shell.Note("this command line builds no program and no library")
		return
	}
	if strings.Trim(strings.Join(r.Features, ""), ", \t") != "" || r.AllFeatures {
		return
	}
	what := "the default features"
	if r.NoDefault {
		what = "no features at all"
	}
	shell.Note("no --features were given: this is the build with %s", what)
	j.HintFeature("features")
}

// HintFeature names a command that asks for a GPU feature which is off, if a selected package has one.
func (j Judged) HintFeature(called string) {
	r, p := j.Facts.Input.Request, j.Session.Project
	selected, _ := p.Selection(r)
	for _, q := range p.Questions(r.GPUFeatures) {
		on := slices.ContainsFunc(j.Reach.Roots, func(r features.Root) bool {
			return r.Package == q.Package.Name && slices.Contains(r.Asked, q.Feature)
		})
		if slices.Contains(selected, q.Package) && !on {
			words := []string{"gpubuild", called}
			if len(selected) > 1 || q.Package != p.Selected {
				words = append(words, "-p", q.Package.Name)
			}
			j.Session.Machine.Shell.Hint(buildenv.Words(j.Session.Machine.Host.OS, append(words, "--features", q.Feature)...))
			return
		}
	}
}
