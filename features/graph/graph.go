package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"gpubuild/buildenv/exit"
	"gpubuild/features/catalog"
)

// Graph is cargo's unit graph: what it will compile and run, and with which features.
type Graph struct {
	Version int    `json:"version"`
	Units   []Unit `json:"units"`
	Roots   []int  `json:"roots"`
}

// Unit is one run of the compiler or of a build script.
type Unit struct {
	PkgID        string    `json:"pkg_id"`
	Target       Target    `json:"target"`
	Platform     string    `json:"platform"` // triple; empty when none was asked for, for host and target alike
	Mode         string    `json:"mode"`     // build, check, test, run-custom-build, doc, doctest
	Features     []string  `json:"features"`
	Dependencies []UnitDep `json:"dependencies"`
}

// Target is what a unit is made of.
type Target struct {
	Kind    []string `json:"kind"` // lib, bin, custom-build, proc-macro, …
	Name    string   `json:"name"`
	SrcPath string   `json:"src_path"`
}

// UnitDep is one step from a unit to another.
type UnitDep struct {
	Index int    `json:"index"`
	Name  string `json:"extern_crate_name"` // what the source calls it; shows renames
}

// Parse reads the answer of `cargo build --unit-graph`. Another version than 1 is an error.
func Parse(r io.Reader) (*Graph, error) {
	g := &Graph{}
	data, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(data, g)
	}
	if err == nil && g.Version != 1 {
		err = fmt.Errorf("version %d, only 1 is understood", g.Version)
	}
	if err == nil && !g.whole() {
		err = errors.New("a unit has no package, or a number is that of no unit")
	}
	if err != nil {
		return nil, exit.Errorf(0, "this cargo's answer is not understood: use a stable cargo of 1.78 or newer", "unit graph: %w", err)
	}
	return g, nil
}

// whole reports whether every number is that of a unit.
func (g *Graph) whole() bool {
	bad := func(i int) bool { return i < 0 || i >= len(g.Units) }
	return !slices.ContainsFunc(g.Roots, bad) && !slices.ContainsFunc(g.Units, func(u Unit) bool {
		return u.PkgID == "" || slices.ContainsFunc(u.Dependencies, func(d UnitDep) bool { return bad(d.Index) })
	})
}

// Host reports whether the unit runs on the building machine and is no part of what it builds. `platform` does not show it: it is empty for
// both sides when no --target is given (measured with cargo 1.95).
func (u *Unit) Host() bool {
	return u.Mode == "run-custom-build" || slices.Contains(u.Target.Kind, "custom-build") || slices.Contains(u.Target.Kind, "proc-macro")
}

// Tests reports whether the unit is a test, benchmark or example, which has the dev-dependencies.
func (u *Unit) Tests() bool {
	return slices.Contains([]string{"test", "bench", "doctest"}, u.Mode) || catalog.Overlap(u.Target.Kind, []string{"test", "bench", "example"})
}

// Linked lists the units that become part of a root, the root first; host units are never entered. A root that is itself a host unit is
// followed only as a test (the test of a proc-macro is a program of its own).
func (g *Graph) Linked(root int) []int {
	if u := &g.Units[root]; u.Host() && u.Mode != "test" {
		return []int{root}
	}
	seen := map[int]bool{root: true}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		for _, d := range g.Units[list[i]].Dependencies {
			u := &g.Units[d.Index]
			// nightly's artifact dependencies are programs of their own, which are linked into nothing
			program := slices.Contains(u.Target.Kind, "bin") && u.PkgID != g.Units[list[i]].PkgID
			if !seen[d.Index] && !u.Host() && !program {
				seen[d.Index] = true
				list = append(list, d.Index)
			}
		}
	}
	return list
}

// Script is the run of the build script that a unit is, or that precedes it; -1 where there is none.
func (g *Graph) Script(unit int) int {
	for _, d := range append([]UnitDep{{Index: unit}}, g.Units[unit].Dependencies...) {
		if u := &g.Units[d.Index]; u.Mode == "run-custom-build" && u.PkgID == g.Units[unit].PkgID {
			return d.Index
		}
	}
	return -1
}

// ScriptUses lists what the build script of a unit's package is compiled with.
func (g *Graph) ScriptUses(unit int) []UnitDep {
	if run := g.Script(unit); run >= 0 {
		if compiled := g.Compiled(run); compiled >= 0 {
			return g.Units[compiled].Dependencies
		}
	}
	return nil
}

// Compiled returns the unit that compiles the script which run runs; -1 when the graph has none.
func (g *Graph) Compiled(run int) int {
	for _, d := range g.Units[run].Dependencies {
		if u := &g.Units[d.Index]; u.Mode != "run-custom-build" && slices.Contains(u.Target.Kind, "custom-build") {
			return d.Index
		}
	}
	return -1
}
