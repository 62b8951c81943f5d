package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/answer"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/install/tree"
)

// toolchainOptions are the flags of toolchain.
type toolchainOptions struct {
	Parts  []string // install: besides the compiler
	Redist string   // install: where NVIDIA's redistributable archives are taken from
	Offer  bool     // list: what can be installed
	JSON   *string
}

func toolchainVerb() verb {
	var o toolchainOptions
	json := jsonFlag(&o.JSON)
	type runner func(context.Context, *session.Machine, toolchainOptions, []string) error
	with := func(run runner) func(context.Context, *invocation, cargo.Line) error {
		return func(ctx context.Context, a *invocation, l cargo.Line) error {
			return run(ctx, a.Machine, o, l.Positional)
		}
	}
	return verb{
		Verb: help.Verb{Name: "toolchain", Usage: "list, install, use or remove CUDA toolkits"},
		verbs: []verb{
			{
				Verb: help.Verb{
					Name: "list", Usage: "list the toolkits of this machine",
					Examples: []string{"gpubuild toolchain list", "gpubuild toolchain list --available"},
				},
				flags: []*flag{
					toggle("available",
						"list what `toolchain install` can download, by the pinned wheels and by NVIDIA's server", &o.Offer), json,
				},
				run: with(func(ctx context.Context, m *session.Machine, o toolchainOptions, names []string) error {
					if o.Offer {
						return listAvailable(ctx, m, o)
					}
					return listToolkits(ctx, m, o, names)
				}),
			},
			{
				Verb: help.Verb{
					Name: "install", Args: "[VERSION]", Usage: "download a toolkit into your cache, without admin rights",
					Examples: []string{"gpubuild toolchain install 13.4", "gpubuild toolchain install 13.4 --parts cudnn,run"},
					Text: "There is one toolkit of each version: this adds the parts that it lacks.\n\n" +
						"Downloads NVIDIA's wheels with your own pip. What is not pinned (CUDA 12, whose wheels contain no nvcc) comes " +
						"from NVIDIA's redistributable archives, and so does CUDA 13 if there is no pip. Writes nothing outside the cache.",
				},
				flags: []*flag{
					newFlag("parts", cargo.Value, "LIST", "parts besides the compiler, such as cudnn,run", func(v string) error {
						o.Parts = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
						return nil
					}),
					text("redist", "URL|DIR", "take NVIDIA's redistributable archives from here instead of NVIDIA's server and pip",
						&o.Redist),
					json,
				},
				run: with(installToolkit),
			},
			{
				Verb: help.Verb{
					Name: "use", Args: "[VERSION|DIR|default]", Usage: "choose the toolkit of all your builds, or show the choice",
					Examples: []string{"gpubuild toolchain use 13.4", "gpubuild toolchain use default"},
					Text: "The choice is kept in your own configuration file. --gpu-toolkit, GPUBUILD_CUDA and the project's " +
						"gpubuild.toml take precedence. `use default` removes it.",
				},
				flags: []*flag{json},
				run:   with(useToolkit),
			},
			{
				Verb: help.Verb{
					Name: "remove", Args: "NAME...", Usage: "remove installed toolkits",
					Examples: []string{"gpubuild toolchain remove 13.4"},
				},
				flags: []*flag{json},
				run:   with(removeToolkits),
			},
		},
	}
}

func listToolkits(_ context.Context, m *session.Machine, o toolchainOptions, _ []string) error {
	installed, leftovers := install.Toolkits(m.Host, m.CacheDir)
	found, first, by, err := tools.Default(m)
	if err != nil {
		return err
	}
	if o.JSON != nil {
		mine := []answer.ToolchainEntry{}
		for _, in := range installed {
			mine = append(mine, answer.ToolchainEntry{Name: in.Name, Root: in.Root, CUDA: in.CUDA, Bytes: in.Bytes, Parts: in.Parts,
				Stubs: append([]string{}, in.Stubs()...)})
		}
		if found == nil {
			found = []cuda.Toolkit{}
		}
		var findings []finding.Finding
		for _, in := range leftovers {
			if !in.Installing {
				findings = append(findings, finding.Of(finding.Finding{
					ID: "toolchain.leftover", Message: in.Unusable(), Path: in.Root,
				}))
			}
		}
		return report.Answer(m, o.JSON, "toolchain-list", true, findings,
			answer.ToolchainList{Installed: mine, Toolkits: found, Default: first})
	}
	for _, t := range found {
		origin := t.Origin
		if t.Root == first {
			origin += "; default"
			if by != "" && by != t.Origin {
				origin += " by " + by
			}
		}
		line := fmt.Sprintf("%-8s %s (%s)", t.Version, t.Root, origin)
		if t.Problem != "" {
			line += ": " + t.Problem
		} else if len(t.Missing) > 0 {
			line += ": without " + strings.Join(t.Missing, ", ")
		}
		for _, in := range installed {
			if in.Root == t.Root {
				line += fmt.Sprintf("\n         %s: %s", tree.Size(in.Bytes), in.Holds())
			}
		}
		if err := m.Shell.Print(line + "\n"); err != nil {
			return err
		}
	}
	for _, in := range leftovers {
		m.Shell.Warning("%s", in.Unusable())
	}
	if len(found) == 0 {
		m.Shell.Note("no CUDA toolkit in %s", strings.Join(cuda.UsualPlaces(m.Host), ", "))
		m.Shell.Hint("gpubuild toolchain install")
	}
	return nil
}

// listAvailable asks over the network what can be installed.
func listAvailable(ctx context.Context, m *session.Machine, o toolchainOptions) error {
	list, err := tools.Available(ctx, m)
	switch {
	case err != nil && len(list) == 0:
		return err
	case err != nil:
		m.Shell.Warning("%v", err)
	}
	if o.JSON != nil {
		return report.Answer(m, o.JSON, "toolchain-list", true, nil, answer.ToolchainList{
			Installed: []answer.ToolchainEntry{}, Toolkits: []cuda.Toolkit{}, Available: list,
		})
	}
	return m.Shell.Data(strings.Join(list, "\n") + "\n")
}

func installToolkit(ctx context.Context, m *session.Machine, o toolchainOptions, rest []string) error {
	var want install.Want
	if len(o.Parts) > 0 {
		want.Parts = append(install.Default(), o.Parts...)
	}
	if len(rest) > 0 {
		v, err := gpu.ParseVersion(rest[0])
		if err != nil {
			return usage(err.Error(), "gpubuild toolchain install 13.4")
		}
		if want.Exact = v; strings.Count(rest[0], ".") > 1 {
			want.Release = rest[0]
		}
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
		return report.Answer(m, o.JSON, "toolchain-install", true, nil, answer.ToolchainInstall{Root: root})
	}
	return m.Shell.Data(root + "\n")
}

// toolchainUse is the command that writes the user's own choice.
const toolchainUse = "gpubuild toolchain use"

// useToolkit sets, shows or drops the toolkit that this user's builds take when nobody says anything else.
func useToolkit(_ context.Context, m *session.Machine, o toolchainOptions, rest []string) error {
	u, err := tools.User(m.Host)
	if err != nil {
		return err
	}
	if len(rest) == 1 {
		if u, err = tools.Use(m, rest[0]); err != nil {
			return err
		}
	}
	if o.JSON != nil {
		return report.Answer(m, o.JSON, "toolchain-use", true, nil, answer.ToolchainUse{CUDA: u.CUDA, Path: u.Path})
	}
	if u.CUDA == "" {
		m.Shell.Note("no toolkit is chosen in %s: builds use the newest that works", u.Path)
		return nil
	}
	if err := m.Shell.Data(u.CUDA + "\n"); err != nil {
		return err
	}
	if v := m.Host.Env.Get("GPUBUILD_CUDA"); v != "" {
		m.Shell.Note("GPUBUILD_CUDA=%s is set here and wins over it", v)
	}
	return nil
}

// called are the toolkits that words mean, each a name, a root or a version.
func called(installed []install.Installation, names []string) ([]install.Installation, error) {
	var meant []install.Installation
	for _, name := range names {
		v, notVersion := gpu.ParseVersion(name)
		i := slices.IndexFunc(installed, func(in install.Installation) bool { // those that builds use come first
			version := in.Release == name || notVersion == nil && strings.Count(name, ".") == 1 && in.CUDA == v
			return in.Name == name || in.Root == name || in.Schema > 0 && version // what is no complete toolkit has no version
		})
		if i < 0 {
			return nil, usage("gpubuild has installed no toolkit "+name, "gpubuild toolchain list")
		}
		if !slices.ContainsFunc(meant, func(m install.Installation) bool { return m.Root == installed[i].Root }) {
			meant = append(meant, installed[i])
		}
	}
	return meant, nil
}

func removeToolkits(ctx context.Context, m *session.Machine, o toolchainOptions, names []string) error {
	installed, leftovers := install.Toolkits(m.Host, m.CacheDir)
	meant, err := called(append(installed, leftovers...), names)
	if err != nil {
		return err
	}
	roots := []string{}
	for _, in := range meant {
		if err := install.Remove(ctx, m.Host, m.CacheDir, in.Name, waiting(m)); err != nil {
			return err
		}
		roots = append(roots, in.Root)
		m.Shell.Status("Removed", "%s", in.Root)
		if err := forget(m, in); err != nil {
			return err
		}
	}
	return report.Answer(m, o.JSON, "toolchain-remove", true, nil, answer.ToolchainRemove{Roots: roots})
}

// waiting says that another process works in the cache.
func waiting(m *session.Machine) func(holder string) {
	return func(holder string) {
		m.Shell.Note("waiting for another gpubuild (%s) that is installing a toolkit", holder)
	}
}

// forget drops the user's own choice where it was the toolkit that was just removed.
func forget(m *session.Machine, gone install.Installation) error {
	u, err := tools.User(m.Host)
	if err != nil || !tools.Unused(m, u, gone) {
		return nil
	}
	if _, err := tools.Use(m, "default"); err != nil {
		return err
	}
	m.Shell.Note("your builds used CUDA %s by `%s`; now they use the newest toolkit that works", u.CUDA, toolchainUse)
	return nil
}
