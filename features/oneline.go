package features

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

const toldOfALine = 3 // faults that one line has, in words

// PerLine makes one finding of all that are about one feature of one manifest, with every edge that it lacks: several hints for a line
// contradict each other. What was judged goes before what only compares names. Findings that no edge of a manifest mends stay as they are.
func PerLine(p *manifest.Project, list []Finding) []Finding {
	var out []Finding
	groups := map[string][]Finding{}
	for _, f := range list {
		f.line = f.wants()
		if len(f.line.edges) == 0 || f.Path == "" || f.Severity == Note && f.ID != IDPropagation {
			out = append(out, f)
			continue
		}
		key := f.Path + "\x00" + f.line.feature
		if len(groups[key]) == 0 {
			out = append(out, Finding{Finding: finding.Finding{Path: key}}) // its place
		}
		groups[key] = append(groups[key], f)
	}
	for i := range out {
		if g := groups[out[i].Path]; out[i].ID == "" && len(g) > 0 {
			out[i] = oneOf(p, g)
		}
	}
	return out
}

// SameHint gives all faults of one feature of one manifest the same hint, with every edge that the line lacks: of several that contradict
// each other only the last that is typed would count. The findings stay as they are otherwise.
func SameHint(p *manifest.Project, list []Finding) {
	edges, of := map[string][]string{}, map[int]string{}
	for i := range list {
		f := &list[i]
		at := f.wants()
		if len(at.edges) == 0 || f.Path == "" || f.Fix == "" || f.Severity == Note {
			continue
		}
		key := f.Path + "\x00" + at.feature
		edges[key], of[i] = manifest.Union(edges[key], at.edges), key
	}
	for i, key := range of {
		f := &list[i]
		at := f.wants()
		if pkg := p.Package(f.Path); pkg != nil && len(edges[key]) > len(at.edges) {
			f.Fix = edit.WithEdges(pkg, at.feature, edges[key]...)
		}
	}
}

// wants answers the edges that the line lacks at which the finding points.
func (f *Finding) wants() lineAt {
	for _, e := range f.Edits {
		if e.Manifest == f.Path {
			return lineAt{feature: e.Feature, edges: e.Add}
		}
	}
	return f.line
}

// oneOf makes one finding of a line's.
func oneOf(p *manifest.Project, list []Finding) Finding {
	judged := list[:0:0]
	for _, f := range list {
		if f.ID != IDPropagation {
			judged = append(judged, f)
		}
	}
	names := len(judged) == 0
	if names {
		judged = list
	}
	one := judged[0]
	for _, f := range judged { // the worst, and of equals what is said of the package itself
		if r, best := rank(f.Severity), rank(one.Severity); r > best || r == best && one.beside && !f.beside {
			one = f
		}
	}
	var edges, said []string
	for _, f := range list {
		if f.ID == IDPropagation && !names && f.Severity == Note {
			continue
		}
		edges = manifest.Union(edges, f.line.edges)
	}
	switch {
	case names:
		one.Message = propagationMessage(list)
	default:
		said = []string{one.Message}
		for _, f := range judged {
			if !f.beside || one.beside {
				said = append(said, f.Message)
			}
		}
		said = manifest.Union(said)
		if more := len(said) - toldOfALine; more > 0 {
			said = append(said[:toldOfALine], fmt.Sprintf("and %d more", more))
		}
		one.Message = strings.Join(said, "; ")
	}
	if pkg := p.Package(one.Path); pkg != nil {
		one.Fix = edit.WithEdges(pkg, one.line.feature, edges...)
	}
	return one
}

func rank(severity string) int {
	switch severity {
	case Error:
		return 2
	case Warning:
		return 1
	}
	return 0
}

// propagationMessage words to what a feature is not passed on.
func propagationMessage(list []Finding) string {
	var to []string
	for _, f := range list {
		to = manifest.Union(to, f.line.to)
	}
	f := &list[0]
	switch names := strings.Join(to, ", "); {
	case len(to) == 0:
		return f.Message
	case f.undeclared:
		return fmt.Sprintf("%s has no `%s` by which that of %s could be turned on", f.Root, f.line.feature, names)
	case len(to) > 1:
		return fmt.Sprintf("`%s` of %s is not passed on to %s, which have it, too", f.line.feature, f.Root, names)
	default:
		return fmt.Sprintf("`%s` of %s is not passed on to %s, which has it, too", f.line.feature, f.Root, names)
	}
}
