package app

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/toolchain/cargo"
)

// routed is what came of looking for a command line that reaches.
type routed struct {
	Already bool             `json:"already"` // the command line reaches as it is
	Routes  []route          `json:"routes"`  // smallest first
	Asked   int              `json:"asked"`   // command lines that cargo was asked about
	Blocks  []features.Block `json:"blocks"`  // where none was found: why
	Diff    string           `json:"diff,omitempty"`

	gaps []features.Gap
	in   features.Input
}

// route is a command line that cargo says reaches.
type route struct {
	Command   string   `json:"command"`
	Words     []string `json:"words"`
	Features  []string `json:"features"` // added
	Packages  []string `json:"packages"` // added
	Workspace bool     `json:"workspace"`
	Via       string   `json:"via"` // cargo's answer that says so
}

const (
	routesAsked = 40 // command lines that --route asks cargo about; each costs as much as a build with nothing to do
	routesTold  = 3
	hintAsked   = 3 // … and a build that stops, for its hint
)

// runRoute is features --route: a command line that carries the feature to where it stops, found without a change to any manifest.
func (a *app) runRoute(ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.lookAt(ctx, o, l)
	var refused *cargo.RefusedError
	if errors.As(err, &refused) {
		if j, l, err = a.lookWithout(ctx, o, l, err); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	found, err := j.findRoutes(ctx, l, routesAsked, routesTold)
	if err != nil {
		return err
	}
	if len(found.Routes) == 0 && !found.Already {
		if err := j.explainBlocks(found); err != nil {
			return err
		}
	}
	ok := found.Already || len(found.Routes) > 0
	if o.JSON != nil {
		if err := a.answer(o, "features-route", ok, j.findings, found); err != nil {
			return err
		}
	} else if err := j.tellRoutes(found); err != nil {
		return err
	}
	if !ok {
		return exit.Code(exit.Unreached)
	}
	return nil
}

// lookWithout looks at a build without the GPU features that cargo refused because no selected package declares them; any other refusal stands.
func (a *app) lookWithout(ctx context.Context, o Options, l cargo.Line, refusal error) (*journey, cargo.Line, error) {
	text := refusal.Error()
	if !strings.Contains(text, "this feature") && !strings.Contains(text, "these features") {
		return nil, l, refusal
	}
	j := &journey{app: a, options: o, Line: l}
	if err := j.openProject(); err != nil {
		return nil, l, refusal
	}
	var without []string
	for _, f := range append([]string{"cuda", "cudnn"}, j.Config.GPUFeatures.Value...) {
		if contains(l.Features, f) {
			without = append(without, f)
		}
	}
	plain, err := l.Change(cargo.Change{Without: without})
	if err != nil || len(without) == 0 {
		return nil, l, refusal
	}
	if j, err = a.lookAt(ctx, o, plain); err != nil {
		return nil, l, refusal
	}
	in, err := j.heard()
	if err != nil {
		return nil, l, err
	}
	for _, f := range without {
		gaps, err := features.GapsWithout(j.Host, in, f)
		if err != nil {
			return nil, l, err
		}
		j.undeclared = append(j.undeclared, gaps...)
	}
	if len(j.undeclared) == 0 {
		return nil, l, refusal
	}
	return j, plain, nil
}

// findRoutes asks cargo about the command lines that could reach, the smallest first, until enough are found.
func (j *journey) findRoutes(ctx context.Context, l cargo.Line, asked, enough int) (*routed, error) {
	found := &routed{Routes: []route{}, Blocks: []features.Block{}, gaps: append(features.Gaps(j.reach), j.undeclared...)}
	if len(found.gaps) == 0 {
		reached := slices.ContainsFunc(j.reach.Roots, func(r features.Root) bool { return r.Reached })
		if !reached {
			return nil, &usageError{"nothing in this command line leads to a GPU crate, so there is no missing edge to go around", "name the feature that is meant: gpubuild features --route --features cuda"}
		}
		found.Already = !j.reach.Stops
		return found, nil
	}
	var err error
	if found.in, err = j.heard(); err != nil {
		return nil, err
	}
	list, err := features.Routes(j.Host, found.in, found.gaps)
	if err != nil {
		return nil, err
	}
	silent, machine, shell := *j.app, *j.Machine, *j.Shell
	shell.Quiet = true
	machine.Shell = &shell
	silent.Machine = &machine
	for _, r := range list {
		if found.Asked == asked || len(found.Routes) == enough {
			break
		}
		if covered(found.Routes, r) {
			continue
		}
		line, err := l.Change(cargo.Change{Features: r.Features, Packages: r.Packages, Workspace: r.Workspace})
		if err != nil {
			return nil, err
		}
		found.Asked++
		after, err := silent.lookAt(ctx, j.options, line)
		var refused *cargo.RefusedError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in, err := after.heard()
		if err != nil {
			return nil, err
		}
		closed, err := features.Closed(j.Host, in, found.gaps)
		if err != nil {
			return nil, err
		}
		if !closed || after.reach.Stops || after.reach.Unsure {
			continue
		}
		words := append([]string{"gpubuild"}, line.Words()...)
		found.Routes = append(found.Routes, route{Command: buildenv.PosixWords(words...), Words: words, Features: append([]string{}, r.Features...), Packages: append([]string{}, r.Packages...), Workspace: r.Workspace, Via: after.reach.Via})
	}
	return found, nil
}

// covered says whether a route that was found is part of another one, which then asks for more than it must.
func covered(list []route, r features.Route) bool {
	within := func(small, large []string) bool {
		for _, s := range small {
			if !contains(large, s) {
				return false
			}
		}
		return true
	}
	for _, have := range list {
		if within(have.Features, r.Features) && within(have.Packages, r.Packages) && (!have.Workspace || r.Workspace) {
			return true
		}
	}
	return false
}

// explainBlocks says why no command line reaches, and which lines of the manifest would.
func (j *journey) explainBlocks(found *routed) error {
	var err error
	if found.Blocks, err = features.Blocked(j.Host, found.in, found.gaps); err != nil {
		return err
	}
	now, old := map[string][]byte{}, map[string][]byte{}
	var order []string
	for _, b := range found.Blocks {
		if b.Manifest == "" {
			continue
		}
		data, known := now[b.Manifest]
		if !known {
			if data, err = j.Host.ReadFile(b.Manifest, manifestLimit); err != nil {
				return err
			}
			old[b.Manifest] = data
			order = append(order, b.Manifest)
		}
		next, err := edit.AddDependency(data, b.Manifest, b.Key, b.Line)
		if err == nil {
			next, err = edit.AddEdges(next, edit.Edit{Manifest: b.Manifest, Feature: b.Feature, Add: []string{b.Key + "/" + b.Lack.Feature}})
		}
		if err != nil {
			j.Shell.Warning("%v", err)
			next = data
		}
		now[b.Manifest] = next
	}
	for _, path := range order {
		found.Diff += edit.Diff(j.diffName(path), old[path], now[path])
	}
	return nil
}

func (j *journey) tellRoutes(found *routed) error {
	switch {
	case found.Already:
		j.Shell.Note("this command line reaches as it is")
		return j.writeLine(buildenv.PosixWords(append([]string{"gpubuild"}, j.Line.Words()...)...))
	case len(found.Routes) > 0:
		for _, r := range found.Routes {
			if err := j.writeLine(r.Command); err != nil {
				return err
			}
		}
		j.Shell.Note("by cargo's answer (%s) %s; nothing was written", found.Routes[0].Via, lacked(found.gaps))
		return nil
	}
	j.Shell.Error("no command line was found by which %s (cargo was asked about %d) [%s]", lacked(found.gaps), found.Asked, features.IDUnreached)
	for _, b := range found.Blocks {
		j.Shell.Note("%s", b.Why)
	}
	if len(found.Blocks) == 0 {
		for _, f := range j.findings {
			if f.Severity == features.Error {
				j.Shell.Note("%s", f.Message)
			}
		}
	}
	switch {
	case mendable(j.reach):
		j.Shell.Hint("gpubuild features --fix writes the missing edge into a manifest of this workspace")
	case found.Diff != "":
		j.Shell.Hint("a dependency of the package's own would carry it (cargo was not asked about this):\n" + strings.TrimRight(found.Diff, "\n"))
	}
	return nil
}

func (j *journey) writeLine(s string) error {
	_, err := j.Shell.Out.Write([]byte(s + "\n"))
	return err
}

// lacked words what the gaps lack.
func lacked(gaps []features.Gap) string {
	var parts []string
	for _, g := range gaps {
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

func mendable(answer *features.Answer) bool {
	for _, f := range answer.Findings {
		if len(f.Edits) > 0 {
			return true
		}
	}
	return false
}

// hintRoute names, where a build stops, the command line that would reach, if a few questions find one.
func (j *journey) hintRoute(ctx context.Context) {
	found, err := j.findRoutes(ctx, j.Line, hintAsked, 1)
	switch {
	case err != nil:
		j.Shell.Detail("no other command line was looked for: %v", err)
	case len(found.Routes) > 0:
		j.findings = append(j.findings, finding.Finding{ID: features.IDUnreached, Severity: features.Note, Message: "another command line reaches", Fix: found.Routes[0].Command})
		j.Shell.Hint("without a change to a manifest, cargo says that this reaches: " + found.Routes[0].Command)
	}
}
