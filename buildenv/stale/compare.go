package stale

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// InPlace is shown as the new value of a file whose content changed while its path did not.
const InPlace = "other content at the same path"

// Reason is one input that differs from the one that a package was built with. An input that was not there, or is not any more, is empty.
type Reason struct {
	Package string `json:"package"`
	Input   string `json:"input"`
	Old     string `json:"old"`
	New     string `json:"new"`
}

func (r Reason) String() string { return r.change() + ": " + r.Package }

func (r Reason) change() string {
	switch {
	case r.New == InPlace && r.Old == r.Input:
		return r.Input + " changed"
	case r.New == InPlace:
		return fmt.Sprintf("%s %s → %s", r.Input, r.Old, r.New)
	case r.Old == "" && r.New == r.Input:
		return r.Input + " is new"
	case r.New == "" && r.Old == r.Input:
		return r.Input + " is gone"
	}
	was, is := brief(r.Old, r.New)
	return fmt.Sprintf("%s %s → %s", r.Input, was, is)
}

// brief shortens two values to their first words where these differ and are no paths, which may hold spaces.
func brief(a, b string) (string, string) {
	x, _, _ := strings.Cut(a, " ")
	y, _, _ := strings.Cut(b, " ")
	if x == y || x == "" || y == "" || strings.ContainsAny(x+y, `/\`) {
		return cmp.Or(a, "none"), cmp.Or(b, "none")
	}
	return x, y
}

// Pair is one input as it was and as it is.
type Pair struct {
	Input string `json:"input"`
	Was   string `json:"was"` // empty: it was not there
	Now   string `json:"now"` // empty: it is not there; InPlace: see there
	Same  bool   `json:"same"`
}

// Pairs compares two lists of inputs, in the order of their names.
func Pairs(old, now []Input) []Pair {
	was, is := byName(old), byName(now)
	both := maps.Clone(was)
	maps.Copy(both, is)
	out := make([]Pair, 0, len(both))
	for _, n := range slices.Sorted(maps.Keys(both)) {
		a, before := was[n]
		b, still := is[n]
		for _, in := range []*Input{&a, &b} {
			if in.Value != "" && slices.Contains(Hidden, n) {
				in.Value = fmt.Sprintf("sha256:%.6x", sha256.Sum256([]byte(in.Value)))
			}
		}
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

// Hidden lists variables of which no answer, log or message about a change has the value: it holds what a user did not mean to publish.
var Hidden = []string{"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CUDA_NVCC_FLAGS", "LD_LIBRARY_PATH"}

// Part makes the name of an input that is part of another, such as the ptxas of an nvcc.
func Part(of, name string) string { return of + "//" + name }

// PartName is the name under which an input is shown.
func PartName(input string) string {
	_, part, isPart := strings.Cut(input, "//")
	if isPart {
		return part
	}
	return input
}

// Differences lists what differs between the inputs that a package was built with and those of now. The parts of an input that is there
// in another version differ with it and are left out; where its parts changed in their places, they are named and it is not.
func Differences(pkg string, old, now []Input) []Reason {
	var out []Reason
	whole := map[string]bool{}
	pairs := Pairs(old, now)
	for _, p := range pairs {
		whole[p.Input] = !p.Same && p.Now != InPlace
	}
	for _, p := range pairs {
		if of, _, isPart := strings.Cut(p.Input, "//"); !p.Same && !(isPart && whole[of]) {
			out = append(out, Reason{pkg, PartName(p.Input), p.Was, p.Now})
		}
	}
	return out
}

// shown marks an input that exists and is empty, since one that does not exist is shown as nothing.
func shown(value string, there bool) string {
	if there && value == "" {
		return `""`
	}
	return value
}

func byName(inputs []Input) map[string]Input {
	m := make(map[string]Input, len(inputs))
	for _, in := range inputs {
		m[in.Name] = in
	}
	return m
}

// first is what a person looks for first.
var first = []string{"arch", "nvcc"}

// mostLines bounds Lines: a new directory may hold a million files.
const mostLines = 20

// Lines words reasons for a person, one line for each change with all packages that it touches: "nvcc 13.3 → 13.4: candle-kernels,
// cudarc". nvcc and the architecture come first.
func Lines(reasons []Reason) []string {
	var order []string
	packages := map[string][]string{}
	byRank := func(a, b Reason) int { return slices.Index(first, b.Input) - slices.Index(first, a.Input) }
	for _, r := range slices.SortedStableFunc(slices.Values(reasons), byRank) {
		c := r.change()
		if _, ok := packages[c]; !ok {
			order = append(order, c)
		}
		if !slices.Contains(packages[c], r.Package) {
			packages[c] = append(packages[c], r.Package)
		}
	}
	lines := make([]string, 0, len(order))
	for i, c := range order {
		if i == mostLines && len(order) > mostLines+1 {
			return append(lines, fmt.Sprintf("and %d more changes", len(order)-mostLines))
		}
		lines = append(lines, c+": "+strings.Join(packages[c], ", "))
	}
	return lines
}
