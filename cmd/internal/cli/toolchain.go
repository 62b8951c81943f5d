package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// toolchainOptions are the flags of toolchain.
type toolchainOptions struct {
	Parts       []string // install: beside the compiler
	NoLinkStubs bool     // install: only what the parts hold
	Redist      string   // install: where NVIDIA's redistributable archives are taken from
	JSON        *string
}

func toolchainVerb() verb {
	var o toolchainOptions
	return verb{
		name: "toolchain", usage: "list, install, use, verify or remove CUDA toolkits",
		text: "gpubuild toolchain list\ngpubuild toolchain install 13.4\ngpubuild toolchain use 13.4\n" +
			"gpubuild toolchain verify|remove 13.4\n\n" +
			"install fetches NVIDIA's wheels with your own pip into your cache: no admin rights, nothing outside the cache. CUDA " +
			"12, whose wheels\n" +
			"hold no nvcc, comes from NVIDIA's redistributable archives, and so does CUDA 13 where there is no pip.\n" +
			"use names the toolkit for all your builds (a version, or a directory), below --gpu-toolkit, GPUBUILD_CUDA and the " +
			"project's own word;\n" +
			"`use default` forgets it, `use` alone shows it. It is kept in your own configuration file.\n" +
			"verify and remove take a version, a name or a directory that `list` shows; verify alone looks at all of them.",
		flags: append([]*flag{
			newFlag("parts", cargo.Value, "LIST", "install: parts beside the compiler, such as cudnn,run", func(v string) error {
				o.Parts = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
				return nil
			}),
			newFlag("link-stubs", cargo.Optional, "no", "install: make link stubs of the CUDA libraries that are not among the parts, "+
				"so that programs link without them (the default); no: leave them out", func(v string) error {
				if v != "" && v != "yes" && v != "no" {
					return fmt.Errorf("%q is neither yes nor no", v)
				}
				o.NoLinkStubs = v == "no"
				return nil
			}),
			text("redist", "URL|DIR",
				"install: take NVIDIA's redistributable archives from here instead of NVIDIA's server and pip", &o.Redist),
		}, jsonFlag(&o.JSON)),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runToolchain(ctx, a.Machine, o, l)
		},
	}
}

func runToolchain(ctx context.Context, m *session.Machine, o toolchainOptions, l cargo.Line) error {
	word, rest := "list", []string(nil)
	if len(l.Positional) > 0 {
		word, rest = l.Positional[0], l.Positional[1:]
	}
	switch word {
	case "list":
		return listToolkits(m, o)
	case "install":
		return installToolkit(ctx, m, o, rest)
	case "use":
		return useToolkit(m, o, rest)
	case "verify", "remove":
		return tendToolkits(ctx, m, o, word, rest)
	}
	return &exit.UsageError{What: fmt.Sprintf("toolchain knows no %q", word),
		Fix: "list, install [VERSION], use [VERSION|DIR|default], verify [NAME], remove NAME"}
}

func listToolkits(m *session.Machine, o toolchainOptions) error {
	installed := install.Installed(m.Host, m.CacheDir)
	found := tools.Installed(m)
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
		return report.Answer(m, o.JSON, "toolchain", true, nil, struct {
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
		fmt.Fprintln(m.Shell.Out, line)
	}
	for _, in := range install.Incomplete(m.Host, m.CacheDir) {
		m.Shell.Note("%s is no complete toolkit: `gpubuild toolchain remove %s` takes it away", in.Root, in.Name)
	}
	if len(found) == 0 {
		m.Shell.Note("no CUDA toolkit in %s", strings.Join(cuda.UsualPlaces(m.Host), ", "))
		m.Shell.Hint("gpubuild toolchain install fetches one into your cache")
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

func installToolkit(ctx context.Context, m *session.Machine, o toolchainOptions, rest []string) error {
	want := install.Want{LinkStubs: !o.NoLinkStubs}
	if len(o.Parts) > 0 {
		want.Parts = append(install.Default(), o.Parts...)
	}
	if len(rest) > 1 {
		return &exit.UsageError{What: "install takes one version", Fix: "gpubuild toolchain install " + rest[0]}
	}
	if len(rest) > 0 {
		v, err := gpu.ParseVersion(rest[0])
		if err != nil {
			return &exit.UsageError{What: err.Error(), Fix: "gpubuild toolchain install 13.4"}
		}
		want.Exact = v
	}
	if d := driver.Version(m.Host); d.Version != "" {
		want.MaxVersion, want.MaxBecause = d.CUDA, "the newest that driver "+d.Version+" supports"
	}
	plan, err := tools.Plan(ctx, m, want, o.Redist)
	if err != nil {
		return err
	}
	root, err := tools.Install(ctx, m, plan)
	if err != nil {
		return err
	}
	if o.JSON != nil {
		return report.Answer(m, o.JSON, "toolchain", true, nil, struct {
			Root string `json:"root"`
		}{root})
	}
	fmt.Fprintln(m.Shell.Out, root)
	return nil
}

// toolchainUse is the command that writes the user's own choice.
const toolchainUse = "gpubuild toolchain use"

// useToolkit sets, shows or drops the toolkit that this user's builds take when nobody says anything else.
func useToolkit(m *session.Machine, o toolchainOptions, rest []string) error {
	u, err := tools.User(m.Host)
	if err != nil {
		return err
	}
	if len(rest) > 1 {
		return &exit.UsageError{What: "use takes one toolkit",
			Fix: toolchainUse + " 13.4, " + toolchainUse + " DIR, or " + toolchainUse + " default"}
	}
	if len(rest) == 1 {
		if u, err = tools.Use(m, rest[0]); err != nil {
			return err
		}
	}
	if o.JSON != nil {
		return report.Answer(m, o.JSON, "toolchain", true, nil, struct {
			CUDA string `json:"cuda"` // empty: none
			Path string `json:"path"`
		}{u.CUDA, u.Path})
	}
	if u.CUDA == "" {
		m.Shell.Note("no toolkit of your own choice in %s: builds take the newest that fits", u.Path)
		return nil
	}
	fmt.Fprintln(m.Shell.Out, u.CUDA)
	if v := m.Host.Env.Get("GPUBUILD_CUDA"); v != "" {
		m.Shell.Note("GPUBUILD_CUDA=%s is set here and wins over it", v)
	}
	return nil
}

// called are the toolkits that words mean, each a name, a root or a version; no words mean all. What is removed by a version has to be
// the only one of it.
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
			version := in.Release == name || notVersion == nil && strings.Count(name, ".") == 1 && in.CUDA == v
			if in.Name == name || in.Root == name || whole && version {
				found, roots = append(found, in), append(roots, in.Name)
			}
		}
		switch {
		case len(found) == 0:
			return nil, &exit.UsageError{What: "no toolkit of ours is called " + name, Fix: "`gpubuild toolchain list` shows them"}
		case len(found) > 1 && word == "remove":
			return nil, &exit.UsageError{What: fmt.Sprintf("%d toolkits are CUDA %s", len(found), name),
				Fix: "say which: gpubuild toolchain remove " + strings.Join(roots, " | ")}
		}
		for _, in := range found {
			if !slices.ContainsFunc(meant, func(m install.Installation) bool { return m.Root == in.Root }) {
				meant = append(meant, in)
			}
		}
	}
	return meant, nil
}

func tendToolkits(ctx context.Context, m *session.Machine, o toolchainOptions, word string, names []string) error {
	installed := append(install.Installed(m.Host, m.CacheDir), install.Incomplete(m.Host, m.CacheDir)...)
	if word == "remove" && len(names) == 0 {
		return &exit.UsageError{What: "remove needs the version or the name of a toolkit", Fix: "`gpubuild toolchain list` shows them"}
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
			if err := install.Remove(ctx, m.Host, m.CacheDir, in.Name, func(holder string) {
				m.Shell.Note("waiting for another gpubuild (%s) that is installing a toolkit", holder)
			}); err != nil {
				return err
			}
			m.Shell.Status("Removed", "%s", in.Root)
			tellUnused(m, in)
			continue
		}
		problems, err := install.Verify(ctx, m.Host, in)
		if err != nil {
			return err
		}
		for _, p := range problems {
			at := m.Host.Join(in.Root, p.Path)
			m.Shell.Error("%s: %s", at, p.What)
			findings = append(findings, finding.Finding{ID: "toolchain.damaged", Severity: finding.Error, Message: p.String(), Path: at})
		}
		if len(problems) > 0 {
			damaged = append(damaged, in.Name)
		} else {
			m.Shell.Status("Verified", "%s%s", in.Root, stubbed(in))
		}
	}
	if err := report.Answer(m, o.JSON, "toolchain", len(findings) == 0, findings, struct {
		Roots []string `json:"roots"`
	}{roots}); err != nil {
		return err
	}
	if len(findings) > 0 {
		m.Shell.Hint("`gpubuild toolchain remove " + strings.Join(damaged, " ") + "`, and install again")
		return exit.Code(exit.Missing)
	}
	return nil
}

// tellUnused says that the user's own configuration names the toolkit that was just removed, and no other one answers to it.
func tellUnused(m *session.Machine, gone install.Installation) {
	if u, err := tools.User(m.Host); err == nil && tools.Unused(m, u, gone) {
		m.Shell.Note("%s still names it (cuda = %q): `%s default` forgets it", u.Path, u.CUDA, toolchainUse)
	}
}
