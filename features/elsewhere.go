package features

import (
	"fmt"
	"strings"

	"gpubuild/buildenv"
)

const maxElsewhere = 20 // packages of a build that are looked at alone

// Elsewhere says what of an answer hangs on more than the packages' own edges: on where cargo is called and what is built together, on the unification of
// resolver 1, on copies that are not linked. It is found from manifests and told only where these decide; no cargo is asked.
func Elsewhere(h buildenv.Host, in Input, a *Answer) ([]Finding, error) {
	if in.Project == nil || a.Unsure {
		return nil, nil
	}
	e := &elsewhere{h: h, in: in, p: in.Project, a: a}
	for _, look := range []func() error{e.whole, e.alone, e.resolver1, e.hostCopies} {
		if err := look(); err != nil {
			return nil, err
		}
	}
	return e.out, nil
}

type elsewhere struct {
	h   buildenv.Host
	in  Input
	p   *Project
	a   *Answer
	out []Finding
}

// judged is the answer of another plan with the same features; nil where manifests do not decide it.
func (e *elsewhere) judged(list []*Package, current *Package, unify bool) (*Answer, error) {
	r := e.in.Request
	r.Packages, r.Excludes, r.Workspace = nil, nil, false
	plan := e.p.plan(list, current, r, unify)
	if len(plan.Open) > 0 {
		return nil, nil
	}
	return Judge(e.h, Input{Project: e.p, Request: r, Catalog: e.in.Catalog, Graph: plan.Graph})
}

// arrives says whether a package of an answer links CUDA code, and whether it is built there at all.
func (a *Answer) arrives(pkg string) (arrives, built bool) {
	for _, r := range a.Roots {
		if r.Package == pkg {
			built = true
			arrives = arrives || r.Reached
		}
	}
	return arrives, built
}

// whole looks at packages that do not reach: would they, built with the rest of the workspace?
func (e *elsewhere) whole() error {
	if !e.a.Stops || e.in.Request.Workspace || len(e.p.Members) < 2 {
		return nil
	}
	root := e.p.byPath[e.p.RootManifest]
	current := root
	if e.p.Virtual {
		current = nil
	}
	tries := []struct {
		what    string
		list    []*Package
		current *Package
	}{{"from the workspace root " + e.p.Root, e.p.rootDefaults(root), current}, {"with --workspace", e.p.Members, e.p.Selected}}
	for _, r := range e.a.Roots {
		if r.Reached || len(r.Asked) == 0 {
			continue
		}
		for _, try := range tries {
			other, err := e.judged(try.list, try.current, e.p.Resolver == "1")
			if err != nil {
				return err
			}
			if other == nil {
				continue
			}
			if arrives, built := other.arrives(r.Package); arrives && built && !other.Stops {
				e.find(IDElsewhere, r.Package, fmt.Sprintf("the same command %s reaches: there %s is built together with %s, whose features unify with its own", try.what, r.Package, others(try.list, r.Package)))
				break
			}
		}
	}
	return nil
}

// alone looks at packages that reach only by what is built beside them.
func (e *elsewhere) alone() error {
	looked := map[string]bool{}
	for _, f := range e.a.Findings {
		pkg, _, _ := strings.Cut(f.Root, " (")
		if f.ID != IDBorrowed || looked[pkg] || len(looked) >= maxElsewhere {
			continue
		}
		looked[pkg] = true
		var member *Package
		together := map[string]bool{}
		for _, r := range e.a.Roots {
			together[r.Package] = true
		}
		for _, m := range e.p.Members {
			if m.Name == pkg {
				member = m
			}
		}
		if member == nil || len(together) < 2 {
			continue
		}
		own, err := e.judged([]*Package{member}, member, e.p.Resolver == "1")
		if err != nil {
			return err
		}
		if own == nil {
			continue
		}
		if arrives, built := own.arrives(pkg); built && !arrives {
			delete(together, pkg)
			e.find(IDElsewhere, pkg, fmt.Sprintf("the same command with `-p %s`, or in its directory, does not reach: here it is built together with %s, whose features unify with its own", pkg, few(sortedKeys(together))))
		}
	}
	return nil
}

// resolver1 says where CUDA is on only because resolver 1 has one set of features for build scripts, tests and programs.
func (e *elsewhere) resolver1() error {
	if e.p.Resolver != "1" || e.a.Stops {
		return nil
	}
	doubtful := false
	for _, f := range e.a.Findings {
		doubtful = doubtful || f.ID == IDForced || f.ID == IDBorrowed
	}
	list, known := e.p.selection(e.in.Request)
	if !doubtful || !known {
		return nil
	}
	apart, err := e.judged(list, e.p.Selected, false)
	if err != nil || apart == nil {
		return err
	}
	for _, r := range e.a.Roots {
		if arrives, built := apart.arrives(r.Package); r.Reached && built && !arrives {
			e.find(IDResolver1, r.Package, fmt.Sprintf("CUDA is on in %s only because resolver 1 unifies its features with those of build scripts, proc-macros, tests or other platforms: with resolver 2 it would be off", r.Package))
		}
	}
	return nil
}

// hostCopies names crates whose feature only a build script's or proc-macro's copy has.
func (e *elsewhere) hostCopies() error {
	if e.in.Graph == nil {
		return nil
	}
	v := newView(e.h, e.p, e.in.Catalog, e.in.Graph, nil)
	linked := map[int]bool{}
	for _, r := range v.roots {
		for _, i := range r.linked {
			linked[i] = true
		}
	}
	for _, f := range e.a.Findings {
		for _, l := range f.Lacks {
			if f.Severity != Error {
				continue
			}
			for i := range v.nodes {
				if n := &v.nodes[i]; !linked[i] && n.name == l.Crate && n.version == l.Version && contains(n.features, l.Feature) {
					pkg, _, _ := strings.Cut(f.Root, " (")
					e.find(IDHostCopy, pkg, fmt.Sprintf("%s %s has `%s` in this build, but only in a copy for build scripts or proc-macros, which is not linked into %s", l.Crate, l.Version, l.Feature, pkg))
					break
				}
			}
		}
	}
	return nil
}

func (e *elsewhere) find(id, pkg, message string) {
	f := Finding{ID: id, Severity: Note, Message: message, Root: pkg, Evidence: "manifests and Cargo.lock"}
	for _, m := range e.p.Members {
		if m.Name == pkg {
			f.Path, f.Line = m.Manifest, m.FeatureLine("cuda")
		}
	}
	for _, have := range e.out {
		if have.ID == f.ID && have.Message == f.Message {
			return
		}
	}
	e.out = append(e.out, f)
}

// rootDefaults is what cargo builds in the root's directory.
func (p *Project) rootDefaults(root *Package) []*Package {
	saved := p.Default
	defer func() { p.Default = saved }()
	p.Default = nil
	p.findDefaults(root, root)
	return p.Default
}

func others(list []*Package, but string) string {
	var names []string
	for _, p := range list {
		if p.Name != but {
			names = append(names, p.Name)
		}
	}
	return few(names)
}

// few names at most three.
func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
