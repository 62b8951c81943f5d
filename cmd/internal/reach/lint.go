package reach

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// mostQuestions bounds the features of one member, each of which cargo may be asked about: crates.io accepts 300 of any kind.
const mostQuestions = 300

// Question is whether a feature of a member enables what it should, and its answer.
type Question struct {
	Package string `json:"package"`
	Feature string `json:"feature"`
	Stops   bool   `json:"stops"`
	By      string `json:"by"` // manifests, or what cargo answered with

	findings []features.Finding
	request  manifest.Request
	member   *manifest.Package
	below    int // how many packages of the workspace it is built of
}

// Checked are the questions about a workspace with their answers.
type Checked struct {
	Session   *session.Session
	Questions []*Question
	Suspects  []*Question // of which something can be fixed
	Refused   string      // why cargo cannot load the workspace
	Unfetched string      // why cargo could not be asked, such as which dependency was never fetched: what is judged is judged by the manifests of the workspace
}

// Lint asks the rules of features.Judge about every member's GPU features, each as if built alone: by manifests, and if asks is set by
// cargo's unit graph where these show a fault, or would without edges that not every build has. It never writes a Cargo.lock.
func Lint(ctx context.Context, m *session.Machine, line cargo.Line, strict, asks bool) (Checked, error) {
	var out Checked
	s, err := session.Open(m, line)
	if err != nil {
		return out, err
	}
	tool, err := cargo.Find(m.Host, line)
	if err != nil {
		return out, err
	}
	project, refused := s.Packages(ctx, tool, !asks)
	broken := project == s.Project // not even the metadata of the workspace alone
	s = s.Knowing(project)
	out.Session = s
	in := s.Input(session.Graph{}, strict)
	in.Lint, in.Sources = true, features.NewSources(m.Host, s.Project)
	if out.Questions, err = questions(s); err != nil {
		return out, err
	}
	unsure := false // the last member that was looked at has edges that not every build has
	look := func(q *Question, sure bool) []features.Finding {
		in.Request, in.Alone, in.Sure = q.request, q.member, sure
		j := decide(s, in)
		unsure = j.Facts.Unsure
		return j.Reach.Findings
	}
	twoVersions := func(f features.Finding) bool { return f.ID == features.IDPins }
	grave := func(f features.Finding) bool { return f.Severity != features.Note }
	found, ask := false, asks && s.Project.HasLock && !broken
	if out.Unfetched = cargo.Unfetched(refused); out.Unfetched != "" {
		refused = ""
	}
	refusedEdges := map[*manifest.Package][]features.Finding{}
	for _, q := range out.Questions {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if _, known := refusedEdges[q.member]; !known {
			refusedEdges[q.member] = features.RefusedEdges(in.Project, q.member, refused)
		}
		unsure = true
		if q.findings = refusedEdges[q.member]; len(q.findings) == 0 && !broken {
			q.findings = look(q, false)
			// A feature that chooses another CUDA version than the default ones do is for builds without these.
			if slices.ContainsFunc(q.findings, twoVersions) {
				usual, other := *q, *q
				usual.request.Features, other.request.NoDefault = nil, true
				usually, found := slices.ContainsFunc(look(&usual, false), twoVersions), look(&other, false)
				if !usually && !slices.ContainsFunc(found, twoVersions) {
					q.request, q.findings = other.request, found
				}
			}
		}
		for _, f := range q.findings {
			q.Stops = q.Stops || f.Severity == features.Error || f.Severity == features.Warning && in.Strict
		}
		found = found || len(q.findings) > 0
		certain := slices.ContainsFunc(q.findings, grave)
		doubt := !certain && asks && !broken && unsure && slices.ContainsFunc(look(q, true), grave)
		if doubt && !s.Project.HasLock {
			out.Unfetched = cmp.Or(out.Unfetched, "there is no Cargo.lock")
		}
		if q.By = "manifests"; !certain && !(ask && doubt) {
			continue
		}
		if out.Suspects = append(out.Suspects, q); !ask {
			continue
		}
		alone, err := q.line(line)
		if err != nil {
			return out, err
		}
		member, err := s.Alone(q.member, alone)
		if err != nil {
			return out, err
		}
		g, err := member.Graph(ctx, tool, session.Question{Own: true, Known: true})
		if refused, ok := errors.AsType[*cargo.RefusedError](err); ok { // what manifests show stands
			if refused.Unfetched != "" { // nor does cargo know more of the next feature
				ask, out.Unfetched = false, refused.Unfetched
			}
			continue
		}
		if err != nil {
			return out, err
		}
		j := Judge(ctx, member, tool, g, Options{Strict: strict, lint: true})
		q.Stops, q.By, q.findings = j.Reach.Stops, j.Reach.Via, j.Reach.Findings
	}
	words := strings.TrimPrefix(strings.TrimSpace(refused), "error: ")
	if broken && asks && !found {
		return out, exit.Errorf(exit.Config, "", "%s", words)
	}
	if broken || manifestFault.MatchString(refused) {
		out.Refused = words
	}
	return out, nil
}

// questions lists the GPU features of the members, those only that the command line selects and names where it does.
func questions(s *session.Session) ([]*Question, error) {
	var list []*Question
	r, p := s.Request(), s.Project
	selected, known := p.Selection(r)
	if !known {
		return nil, &exit.UsageError{
			What: "-p names no member of the workspace: " + strings.Join(r.Packages, ", "),
			Fix:  "see the members in " + s.Machine.Shown(p.RootManifest),
		}
	}
	typed, of, below := manifest.ParseRequest(r), map[*manifest.Package]int{}, map[*manifest.Package]int{}
	for _, q := range p.Questions(r.GPUFeatures) {
		if len(r.Features) > 0 && !typed.Names(q.Package.Name, q.Feature) ||
			(len(r.Packages) > 0 || r.Workspace) && !slices.Contains(selected, q.Package) {
			continue
		}
		if of[q.Package]++; of[q.Package] > mostQuestions {
			return nil, exit.Errorf(exit.Config, "give --features with those that matter", "%s has more than %d GPU features", q.Package.Name, mostQuestions)
		}
		if below[q.Package] == 0 {
			below[q.Package] = len(builtOf(p, q.Package, map[*manifest.Package]bool{}))
		}
		one := manifest.Request{Features: []string{q.Feature}, GPUFeatures: r.GPUFeatures, NoDefault: r.NoDefault}
		list = append(list, &Question{Package: q.Package.Name, Feature: q.Feature, request: one, member: q.Package, below: below[q.Package]})
	}
	return list, nil
}

// builtOf collects the packages of the workspace that one links, itself included.
func builtOf(p *manifest.Project, pkg *manifest.Package, seen map[*manifest.Package]bool) map[*manifest.Package]bool {
	seen[pkg] = true
	for _, d := range pkg.Dependencies {
		if to := p.Declaring(pkg, d); d.Kind == manifest.Normal && p.IsMember(to) && !seen[to] {
			builtOf(p, to, seen)
		}
	}
	return seen
}

// Summary joins the findings of all answers, each once; notes are left out, unless all are asked for.
func (c Checked) Summary(notes bool) (findings []finding.Finding, stops bool) {
	var all []features.Finding
	for _, q := range c.Questions {
		for _, f := range q.findings {
			if f.Severity != features.Note || notes {
				all = append(all, f)
			}
		}
		stops = stops || q.Stops
	}
	return shown(c.Session, features.OneOfACause(all), "features", "--lint", "--fix"), stops
}

// line builds the member alone: its own manifest is named, because resolver 1 gives --features to that package only.
func (q *Question) line(l cargo.Line) (cargo.Line, error) {
	return l.Change(cargo.Change{Alone: q.member.Manifest, Features: []string{q.Feature}, NoDefault: q.request.NoDefault})
}

// FixEach fixes the features of members, each as it would be built alone: before a member that depends on others these, and before a feature
// that enables others these. What is above may lack nothing then.
func (f *Fixer) FixEach(ctx context.Context, line cargo.Line, list []*Question) error {
	enables := func(q *Question) int {
		within, _ := q.member.Closure([]string{q.Feature})
		return len(within)
	}
	order := func(a, b *Question) int { return cmp.Or(a.below-b.below, enables(a)-enables(b)) }
	for _, q := range slices.SortedStableFunc(slices.Values(list), order) {
		alone, err := q.line(line)
		if err == nil {
			_, err = f.Fix(ctx, alone)
		}
		if _, refused := errors.AsType[*cargo.RefusedError](err); err != nil && !refused { // a refusal is what the next look reports
			return err
		}
	}
	return nil
}

// FixMembers fixes a build, and then each of several selected members as it would be built alone: together one member's edges can hide
// that another has none.
func FixMembers(ctx context.Context, f *Fixer, line cargo.Line) (Judged, error) {
	j, err := f.Fix(ctx, line)
	if err != nil {
		return j, err
	}
	if selected, _ := j.Session.Project.Selection(j.Session.Request()); len(selected) < 2 {
		return j, nil
	}
	list, err := questions(j.Session)
	if err != nil {
		return j, err
	}
	fixed := len(f.fixes)
	if err := f.FixEach(ctx, line, list); err != nil || len(f.fixes) == fixed || f.options.DryRun {
		return j, err
	}
	return Open(ctx, f.machine, line, Options{Strict: f.options.Strict})
}
