package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// ToolchainOptions are the flags of toolchain.
type ToolchainOptions struct {
	Options
	Parts       []string // install: beside the compiler
	NoLinkStubs bool     // install: only what the parts hold
	Redist      string   // install: where NVIDIA's redistributable archives are taken from
}

func runToolchain(a *app, ctx context.Context, o ToolchainOptions, l cargo.Line) error {
	word, rest := "list", []string(nil)
	if len(l.Positional) > 0 {
		word, rest = l.Positional[0], l.Positional[1:]
	}
	switch word {
	case "list":
		return a.listToolkits(o.Options)
	case "install":
		return a.installToolkit(ctx, o, rest)
	case "use":
		return a.useToolkit(o.Options, rest)
	case "verify", "remove":
		return a.tendToolkits(ctx, o.Options, word, rest)
	}
	return &usageError{fmt.Sprintf("toolchain knows no %q", word), "list, install [VERSION], use [VERSION|DIR|default], verify [NAME], remove NAME"}
}

func (a *app) listToolkits(o Options) error {
	installed := install.Installed(a.Host, a.CacheDir)
	found := tools.Installed(a.Machine)
	if o.JSON != nil {
		type entry struct {
			Name  string   `json:"name"`
			Root  string   `json:"root"`
			Parts []string `json:"parts"`
			Stubs []string `json:"link_stubs"` // libraries of which there is no more than a stub
		}
		mine := []entry{}
		for _, in := range installed {
			e := entry{in.Name, in.Root, []string{}, append([]string{}, in.Stubs()...)}
			for _, p := range in.Parts {
				e.Parts = append(e.Parts, p.Name)
			}
			mine = append(mine, e)
		}
		if found == nil {
			found = []cuda.Toolkit{}
		}
		return a.answer(o, "toolchain", true, nil, struct {
			Installed []entry        `json:"installed"`
			Toolkits  []cuda.Toolkit `json:"toolkits"`
		}{mine, found})
	}
	for _, t := range found {
		line := fmt.Sprintf("%-8s %s (%s)", t.Version, t.Root, t.Origin)
		if t.Problem != "" {
			line += ": " + t.Problem
		} else if len(t.Missing) > 0 {
			line += ": without " + strings.Join(t.Missing, ", ")
		}
		for _, in := range installed {
			if in.Root == t.Root {
				line += stubbed(in)
			}
		}
		fmt.Fprintln(a.Shell.Out, line)
	}
	for _, in := range install.Incomplete(a.Host, a.CacheDir) {
		a.Shell.Note("%s is no complete toolkit: `gpubuild toolchain remove %s` takes it away", in.Root, in.Name)
	}
	if len(found) == 0 {
		a.Shell.Note("no CUDA toolkit in %s", strings.Join(cuda.UsualPlaces(a.Host), ", "))
		a.Shell.Hint("gpubuild toolchain install fetches one into your cache")
	}
	return nil
}

// stubbed tells which libraries a toolkit of ours is only good for linking with.
func stubbed(in install.Installation) string {
	if libraries := in.Stubs(); len(libraries) > 0 {
		return ": link stubs of " + strings.Join(libraries, ", ") + ", which do not run"
	}
	return ""
}

func (a *app) installToolkit(ctx context.Context, o ToolchainOptions, rest []string) error {
	want := install.Want{LinkStubs: !o.NoLinkStubs}
	if len(o.Parts) > 0 {
		want.Parts = append(install.Default(), o.Parts...)
	}
	if len(rest) > 1 {
		return &usageError{"install takes one version", "gpubuild toolchain install " + rest[0]}
	}
	if len(rest) > 0 {
		v, err := gpu.ParseVersion(rest[0])
		if err != nil {
			return &usageError{err.Error(), "gpubuild toolchain install 13.4"}
		}
		want.Exact = v
	}
	if d := driver.Version(a.Host); d.Version != "" {
		want.MaxVersion, want.MaxBecause = d.CUDA, "the newest that driver "+d.Version+" supports"
	}
	plan, err := tools.Plan(ctx, a.Machine, want, o.Redist)
	if err != nil {
		return err
	}
	root, err := tools.Install(ctx, a.Machine, plan)
	if err != nil {
		return err
	}
	if o.JSON != nil {
		return a.answer(o.Options, "toolchain", true, nil, struct {
			Root string `json:"root"`
		}{root})
	}
	fmt.Fprintln(a.Shell.Out, root)
	return nil
}

// toolchainUse is the command that writes the user's own choice.
const toolchainUse = "gpubuild toolchain use"

// useToolkit sets, shows or drops the toolkit that this user's builds take when nobody says anything else.
func (a *app) useToolkit(o Options, rest []string) error {
	u, err := tools.User(a.Host)
	if err != nil {
		return err
	}
	if len(rest) > 1 {
		return &usageError{"use takes one toolkit", toolchainUse + " 13.4, " + toolchainUse + " DIR, or " + toolchainUse + " default"}
	}
	if len(rest) == 1 {
		if u, err = tools.Use(a.Machine, rest[0]); err != nil {
			return err
		}
	}
	if o.JSON != nil {
		return a.answer(o, "toolchain", true, nil, struct {
			CUDA string `json:"cuda"` // empty: none
			Path string `json:"path"`
		}{u.CUDA, u.Path})
	}
	if u.CUDA == "" {
		a.Shell.Note("no toolkit of your own choice in %s: builds take the newest that fits", u.Path)
		return nil
	}
	fmt.Fprintln(a.Shell.Out, u.CUDA)
	if v := a.Host.Env.Get("GPUBUILD_CUDA"); v != "" {
		a.Shell.Note("GPUBUILD_CUDA=%s is set here and wins over it", v)
	}
	return nil
}

// called are the toolkits that words mean, each a name, a root or a version; no words mean all. What is removed by a version has to be the only one of it.
func called(installed []install.Installation, word string, names []string) ([]install.Installation, error) {
	if len(names) == 0 {
		return installed, nil
	}
	var meant []install.Installation
	for _, name := range names {
		v, notVersion := gpu.ParseVersion(name)
		var found []install.Installation
		var roots []string
		for _, in := range installed {
			whole := in.Schema > 0 // what is no complete toolkit has no version
			if in.Name == name || in.Root == name || whole && (in.Release == name || notVersion == nil && strings.Count(name, ".") == 1 && in.CUDA == v) {
				found, roots = append(found, in), append(roots, in.Name)
			}
		}
		switch {
		case len(found) == 0:
			return nil, &usageError{"no toolkit of ours is called " + name, "`gpubuild toolchain list` shows them"}
		case len(found) > 1 && word == "remove":
			return nil, &usageError{fmt.Sprintf("%d toolkits are CUDA %s", len(found), name), "say which: gpubuild toolchain remove " + strings.Join(roots, " | ")}
		}
		for _, in := range found {
			if !slices.ContainsFunc(meant, func(m install.Installation) bool { return m.Root == in.Root }) {
				meant = append(meant, in)
			}
		}
	}
	return meant, nil
}

func (a *app) tendToolkits(ctx context.Context, o Options, word string, names []string) error {
	installed := append(install.Installed(a.Host, a.CacheDir), install.Incomplete(a.Host, a.CacheDir)...)
	if word == "remove" && len(names) == 0 {
		return &usageError{"remove needs the version or the name of a toolkit", "`gpubuild toolchain list` shows them"}
	}
	meant, err := called(installed, word, names)
	if err != nil {
		return err
	}
	var damaged []string
	roots, findings := []string{}, []finding.Finding{}
	for _, in := range meant {
		roots = append(roots, in.Root)
		if word == "remove" {
			if err := install.Remove(ctx, a.Host, a.CacheDir, in.Name, func(holder string) {
				a.Shell.Note("waiting for another gpubuild (%s) that is installing a toolkit", holder)
			}); err != nil {
				return err
			}
			a.Shell.Status("Removed", "%s", in.Root)
			a.tellUnused(in)
			continue
		}
		problems, err := install.Verify(ctx, a.Host, in)
		if err != nil {
			return err
		}
		for _, p := range problems {
			at := a.Host.Join(in.Root, p.Path)
			a.Shell.Error("%s: %s", at, p.What)
			findings = append(findings, finding.Finding{ID: "toolchain.damaged", Severity: finding.Error, Message: p.String(), Path: at})
		}
		if len(problems) > 0 {
			damaged = append(damaged, in.Name)
		} else {
			a.Shell.Status("Verified", "%s%s", in.Root, stubbed(in))
		}
	}
	if err := a.answer(o, "toolchain", len(findings) == 0, findings, struct {
		Roots []string `json:"roots"`
	}{roots}); err != nil {
		return err
	}
	if len(findings) > 0 {
		a.Shell.Hint("`gpubuild toolchain remove " + strings.Join(damaged, " ") + "`, and install again")
		return exit.Code(exit.Missing)
	}
	return nil
}

// tellUnused says that the user's own configuration names the toolkit that was just removed, and no other one answers to it.
func (a *app) tellUnused(gone install.Installation) {
	if u, err := tools.User(a.Host); err == nil && tools.Unused(a.Machine, u, gone) {
		a.Shell.Note("%s still names it (cuda = %q): `%s default` forgets it", u.Path, u.CUDA, toolchainUse)
	}
}
