package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"gpubuild/features/manifest"
)

// named is a crate as a user calls it: NAME, NAME@VERSION, a dependency's key in a manifest, with hyphens or underscores.
type named struct {
	name    string // the package's
	version string // whole or its beginning: 0.11; empty: any
	note    string // where name is not what was typed
}

// fits says whether a version is the one that was asked for: 0.11 includes 0.11.1.
func (n named) fits(version string) bool {
	return n.version == "" || version == n.version || strings.HasPrefix(version, n.version+".") ||
		strings.HasPrefix(version, n.version+"-") || strings.HasPrefix(version, n.version+"+")
}

// call finds the package that a user means by a word.
func (x *explainer) call(word string) named {
	var n named
	n.name, n.version, _ = strings.Cut(word, "@")
	n.version = strings.TrimPrefix(n.version, "v")
	if x.known(n.name) {
		return n
	}
	for _, r := range x.Roots {
		for _, i := range r.Linked {
			p := x.ManifestOf(i)
			if p == nil {
				continue
			}
			for _, d := range p.Dependencies {
				if sameCrate(d.Key, n.name) && d.Package != d.Key {
					n.note = fmt.Sprintf("%s calls it `%s`%s", p.Name, d.Key, x.at(p, p.DependencyLine(d)))
					n.name = d.Package
					return n
				}
			}
		}
	}
	for _, have := range x.names() {
		if sameCrate(have, n.name) {
			n.name = have
			return n
		}
	}
	return n
}

// sameCrate: sources write underscores where a package's name has hyphens.
func sameCrate(a, b string) bool {
	return strings.ReplaceAll(a, "-", "_") == strings.ReplaceAll(b, "-", "_")
}

// names lists every package that this build or Cargo.lock knows.
func (x *explainer) names() []string {
	seen := map[string]bool{}
	for i := range x.Nodes {
		seen[x.Nodes[i].Name] = true
	}
	if x.Project != nil {
		for i := range x.Project.Lock {
			seen[x.Project.Lock[i].Name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (x *explainer) known(name string) bool { return slices.Contains(x.names(), name) }

// unknown words that no package of that name is to be had at all, with the one that was most likely meant.
func (x *explainer) unknown(name string) string {
	what := "no package of this build is called " + name
	if x.Project != nil && x.Project.HasLock {
		what = "neither this build nor Cargo.lock has a package called " + name
	}
	best, bestAt := "", 1+len(name)/4
	for _, have := range x.names() {
		if d := smetrics.WagnerFischer(have, name, 1, 1, 1); d < bestAt {
			best, bestAt = have, d
		}
	}
	if best != "" {
		what += "; there is " + best
	}
	return what
}

// notLinked says of a copy that is part of the build and of none of the roots' programs for what it is there.
func (x *explainer) notLinked(i int) string {
	for r := range x.Roots {
		if x.Roots[r].Set[i] {
			return fmt.Sprintf("%s is linked into %s, another root of this build", x.name(i), x.Nodes[x.Roots[r].Node].Name)
		}
	}
	who := x.hostFor(i)
	if who == "" {
		return x.name(i) + " is part of this build, but not linked into it (a build script, a proc-macro or another root has it)"
	}
	return fmt.Sprintf("%s is a host copy only: %s, which runs while building, uses it, and it is not linked", x.name(i), who)
}

// hostFor names the build script or proc-macro for which a unit is built; empty where the graph shows none.
func (x *explainer) hostFor(unit int) string {
	if x.Graph == nil {
		return ""
	}
	users := map[int][]int{}
	for i := range x.Graph.Units {
		for _, d := range x.Graph.Units[i].Dependencies {
			users[d.Index] = append(users[d.Index], i)
		}
	}
	queue, seen := []int{unit}, map[int]bool{}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if seen[i] {
			continue
		}
		seen[i] = true
		switch u := &x.Graph.Units[i]; {
		case slices.Contains(u.Target.Kind, "proc-macro") && i != unit:
			return "the proc-macro " + x.Nodes[i].Name
		case slices.Contains(u.Target.Kind, "custom-build") && u.Mode != "run-custom-build" && i != unit:
			return "the build script of " + x.Nodes[i].Name
		}
		queue = append(queue, users[i]...)
	}
	return ""
}

// below says by which dev- or build-dependency of a root's package a crate is
// in Cargo.lock, where its other dependencies do not lead to it.
func (x *explainer) below(r *Root, crate named) string {
	p := x.ManifestOf(r.Node)
	if p == nil || x.Project == nil {
		return ""
	}
	leads := func(from string) bool {
		seen := map[string]bool{}
		queue := []string{from}
		for len(queue) > 0 {
			name := queue[0]
			queue = queue[1:]
			if name == crate.name {
				return true
			}
			if seen[name] {
				continue
			}
			seen[name] = true
			for i := range x.Project.Lock {
				if lp := &x.Project.Lock[i]; lp.Name == name {
					for _, d := range lp.Dependencies {
						dep, _, _ := strings.Cut(d, " ")
						queue = append(queue, dep)
					}
				}
			}
		}
		return false
	}
	said := ""
	for _, d := range p.Dependencies {
		if d.Package == crate.name || !leads(d.Package) {
			continue
		}
		if d.Kind == manifest.Normal {
			return ""
		}
		if said == "" {
			said = fmt.Sprintf("%s: %s leads to it%s", onlyAs(d.Kind), d.Key, x.at(p, p.DependencyLine(d)))
		}
	}
	return said
}

// onlyAs words what a dependency of another kind than normal is for.
func onlyAs(kind string) string {
	switch kind {
	case manifest.Dev:
		return "a dev-dependency only, for tests, benches and examples"
	case manifest.Build:
		return "a build-dependency only, which the build script uses (host copy)"
	}
	return ""
}
