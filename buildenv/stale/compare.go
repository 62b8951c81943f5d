package stale

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Unit is one package unit of the build to come.
type Unit struct {
	Key
	Package string
	Inputs  []Input // now
	// ScriptRan is when its build script last ran, in nanoseconds, read now; 0: it cannot be told, or it has never run.
	ScriptRan int64
}

// Entry is what is recorded of the unit once it was built.
func (u Unit) Entry() Entry {
	return Entry(u)
}

// InPlace stands for the new value of a file that was replaced where it was.
const InPlace = "other content at the same path"

// Reason is one input that differs from the one that a package was built with.
// An input that was not there, or is not any more, is empty.
type Reason struct {
	Package string `json:"package"`
	Input   string `json:"input"`
	Old     string `json:"old"`
	New     string `json:"new"`
}

func (r Reason) String() string { return r.change() + ": " + r.Package }

func (r Reason) change() string {
	if r.New == InPlace {
		return fmt.Sprintf("%s %s → %s", r.Input, r.Old, r.New)
	}
	was, is := brief(r.Old, r.New)
	return fmt.Sprintf("%s %s → %s", r.Input, was, is)
}

// brief cuts two values down to what tells them apart: the first words when these are no paths and differ, otherwise everything
// up to the first word that does.
func brief(a, b string) (string, string) {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) == 0 || len(y) == 0 {
		return or(strings.Join(x, " "), "none"), or(strings.Join(y, " "), "none")
	}
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	if n == 0 && strings.ContainsAny(x[0]+y[0], `/\`) {
		return strings.Join(x, " "), strings.Join(y, " ") // a path may hold spaces
	}
	was, is := strings.Join(x[:min(n+1, len(x))], " "), strings.Join(y[:min(n+1, len(y))], " ")
	if was == is { // they differ in white space alone
		return strconv.Quote(a), strconv.Quote(b)
	}
	return was, is
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Doubt is a unit of which it is not known what it was built with, and why not.
type Doubt struct {
	Unit
	Why     string
	Foreign bool // another workspace built it last, from sources of its own
}

// Result is what a comparison shows. Empty Reasons and no Unknown means that everything agrees.
type Result struct {
	Reasons []Reason // in the order of the units, and of their inputs' names
	Clean   []string // names of the packages with a reason, sorted, each once
	Unknown []Doubt  // units without a word on what they were built with; none of them has a reason
}

// Compare says for each unit whether its inputs are those that it was built with.
func Compare(old Record, now []Unit) Result {
	entries := make(map[Key]Entry, len(old.Entries))
	lastIn := make(map[string]Entry, len(old.Entries)) // by OUT_DIR
	for _, e := range old.Entries {                    // a later one is the newer one
		entries[e.Key.tidy()] = e
		lastIn[e.OutDir] = e
	}
	var res Result
	dirty := map[string]bool{}
	for _, u := range now {
		e, ok := entries[u.Key.tidy()]
		why, foreign := doubt(e, ok, u), false
		if by := lastIn[text(u.OutDir)]; why != "" && by.PkgID != text(u.PkgID) && by.ScriptRan == u.ScriptRan && u.ScriptRan != 0 {
			// cargo hashes a path package's place in its workspace: two
			// workspaces that share a target directory may share an OUT_DIR
			why, foreign = "built since for another workspace ("+by.PkgID+")", true
		}
		if why != "" {
			res.Unknown = append(res.Unknown, Doubt{Unit: u, Why: why, Foreign: foreign})
			continue
		}
		for _, r := range differences(e.Inputs, u.Inputs) {
			r.Package = u.Package
			res.Reasons = append(res.Reasons, r)
			dirty[u.Package] = true
		}
	}
	for name := range dirty {
		res.Clean = append(res.Clean, name)
	}
	sort.Strings(res.Clean)
	return res
}

// doubt says why an entry tells nothing of a unit; empty when it does. A time that went back is as bad as one that went forward:
// the directory was put there by something else, such as a cache of CI.
func doubt(e Entry, recorded bool, u Unit) string {
	switch {
	case !recorded:
		return "no earlier build of it is recorded"
	case e.ScriptRan != 0 && u.ScriptRan == 0:
		return "its build script's last run cannot be found"
	case e.ScriptRan == 0 && u.ScriptRan != 0:
		return "when its build script ran was not recorded"
	case e.ScriptRan != u.ScriptRan:
		return "its build script has run since without gpubuild"
	}
	return ""
}

// Pair is one input as it was and as it is.
type Pair struct {
	Input string `json:"input"`
	Was   string `json:"was"` // empty: it was not there
	Now   string `json:"now"` // empty: it is not there; InPlace: see there
	Same  bool   `json:"same"`
}

// Pairs holds what a unit was built with against what it would be built with now, input by input, in the order of their names.
func Pairs(old, now []Input) []Pair {
	was, is := byName(old), byName(now)
	names := make([]string, 0, len(was)+len(is))
	for n := range was {
		names = append(names, n)
	}
	for n := range is {
		if _, ok := was[n]; !ok {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	out := make([]Pair, 0, len(names))
	for _, n := range names {
		a, before := was[n]
		b, still := is[n]
		hashed := a.Hash != "" && b.Hash != ""
		switch {
		case before && still && (hashed && a.Hash == b.Hash || !hashed && a.Value == b.Value):
			out = append(out, Pair{n, shown(a.Value, true), shown(b.Value, true), true})
		case before && still && a.Value == b.Value:
			out = append(out, Pair{n, a.Value, InPlace, false})
		default:
			out = append(out, Pair{n, shown(a.Value, before), shown(b.Value, still), false})
		}
	}
	return out
}

func differences(old, now []Input) []Reason {
	var out []Reason
	for _, p := range Pairs(old, now) {
		if !p.Same {
			out = append(out, Reason{Input: p.Input, Old: p.Was, New: p.Now})
		}
	}
	return out
}

// shown tells an input that is there and says nothing from one that is not there.
func shown(value string, there bool) string {
	if there && value == "" {
		return `""`
	}
	return value
}

func byName(inputs []Input) map[string]Input {
	m := make(map[string]Input, len(inputs))
	for _, in := range tidy(inputs) {
		m[in.Name] = in
	}
	return m
}

// rank puts what a person looks for first.
func rank(input string) int {
	switch input {
	case "nvcc", "nvcc version":
		return 0
	case "arch":
		return 1
	}
	return 2
}

// Lines words reasons for a person, one line for each change with all packages that it touches: "nvcc 13.3 → 13.4:
// candle-kernels, cudarc". nvcc and the architecture come first.
func Lines(reasons []Reason) []string {
	var order []string
	packages := map[string][]string{}
	ranked := slices.Clone(reasons)
	sort.SliceStable(ranked, func(i, k int) bool { return rank(ranked[i].Input) < rank(ranked[k].Input) })
	for _, r := range ranked {
		c := r.change()
		if _, ok := packages[c]; !ok {
			order = append(order, c)
		}
		if !slices.Contains(packages[c], r.Package) {
			packages[c] = append(packages[c], r.Package)
		}
	}
	lines := make([]string, 0, len(order))
	for _, c := range order {
		lines = append(lines, c+": "+strings.Join(packages[c], ", "))
	}
	return lines
}
