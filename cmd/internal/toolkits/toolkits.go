// Package toolkits lists, installs, chooses and removes CUDA toolkits for `toolchain`, and shows and empties the cache for `cache`.
package toolkits

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/nvcc"
)

// Options are the flags of toolchain.
type Options struct {
	Parts  []string // install: besides the compiler
	Redist string   // install: where NVIDIA's redistributable archives are taken from
	Offer  bool     // list: what can be installed
	JSON   *string
}

// Listed is the answer of `toolchain list`.
type Listed struct {
	Installed []Entry        `json:"installed"`
	Toolkits  []cuda.Toolkit `json:"toolkits"`
	Available []string       `json:"available,omitempty"` // releases that can be installed, and where they come from; only if asked for
	Default   string         `json:"default,omitempty"`   // the root of the one that builds try first where nobody names one
}

// Installed is the answer of `toolchain install`.
type Installed struct {
	Root string `json:"root"`
}

// Chosen is the answer of `toolchain use`.
type Chosen struct {
	CUDA string `json:"cuda"` // empty: none
	Path string `json:"path"`
}

// Removed is the answer of `toolchain remove`.
type Removed struct {
	Roots []string `json:"roots"`
}

// Entry is a toolkit of the cache.
type Entry struct {
	Name  string               `json:"name"`
	Root  string               `json:"root"`
	CUDA  gpu.Version          `json:"cuda"`
	Bytes int64                `json:"bytes"`
	Parts []tree.InstalledPart `json:"parts"`
	Stubs []string             `json:"link_stubs"` // libraries of which there is no more than a stub
}

// List prints the toolkits of this machine, or what can be installed. It starts no cargo: that would run what the repository configures.
func List(ctx context.Context, m *session.Machine, o Options, _ []string) error {
	if o.Offer {
		return listAvailable(ctx, m, o)
	}
	installed, leftovers := install.Toolkits(m.Host, m.CacheDir)
	found, first, by, err := tools.Default(m, tools.Started(ctx, m))
	if err != nil {
		return err
	}
	if o.JSON != nil {
		mine := []Entry{}
		for _, in := range installed {
			mine = append(mine, Entry{Name: in.Name, Root: in.Root, CUDA: in.CUDA, Bytes: in.Bytes, Parts: in.Parts,
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
			Listed{Installed: mine, Toolkits: found, Default: first})
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
			line += ": " + strings.ReplaceAll(t.Problem, "\n", "\n         ")
		} else if len(t.Missing) > 0 {
			line += ": without " + strings.Join(t.Missing, ", ")
		}
		for _, in := range installed {
			if in.Root == t.Root {
				line += fmt.Sprintf("\n         %s: %s", tree.Size(in.Bytes), in.Contents())
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
	}
	if first == "" && by == "" {
		m.Shell.Hint("gpubuild toolchain install")
	}
	return nil
}

// listAvailable asks over the network what can be installed.
func listAvailable(ctx context.Context, m *session.Machine, o Options) error {
	list, err := tools.Available(ctx, m)
	switch {
	case err != nil && len(list) == 0:
		return err
	case err != nil:
		m.Shell.Warning("%v", err)
	}
	if o.JSON != nil {
		return report.Answer(m, o.JSON, "toolchain-list", true, nil, Listed{
			Installed: []Entry{}, Toolkits: []cuda.Toolkit{}, Available: list,
		})
	}
	return m.Shell.Data(strings.Join(list, "\n") + "\n")
}

// Install downloads a toolkit, and prints its root.
func Install(ctx context.Context, m *session.Machine, o Options, rest []string) error {
	var want install.Want
	if len(rest) > 0 {
		v, err := gpu.ParseVersion(rest[0])
		if err != nil {
			return exit.Usagef("gpubuild toolchain install 13.4", "%v", err)
		}
		if want.Exact = v; strings.Count(rest[0], ".") != 1 {
			want.Release = rest[0]
		}
	} else {
		project, err := doctor.OfProject(ctx, m)
		if err != nil {
			return err
		}
		needs := toolchain.Needs{NVCC: true, HostCompiler: true, EmbedsPTX: true} // what most projects need
		if project.Needs.Toolkit() {                                              // as a build of it would fetch it
			if project.OnlyManifests() { // a locked cudarc may not know the newest CUDA
				return exit.Errorf(exit.Other, "run `cargo fetch` first, or name a VERSION",
					"which CUDA the crates of %s take is not known before they are locked and fetched", project.Project)
			}
			needs = project.Needs
			m.Shell.Note("without a VERSION this installs what builds of %s fetch", project.Project)
		}
		f, w := tools.Before(ctx, m, needs)
		want = tools.ToFetch(f, needs, w, m.Host.OS)
	}
	if len(o.Parts) > 0 {
		want.Parts = slices.Concat(install.Default(), want.Parts, o.Parts)
	}
	if has := func(c hostcc.Compiler) bool { return c.CXX != "" }; m.Host.OS == buildenv.Linux && !slices.ContainsFunc(hostcc.Find(ctx, m.Host, nil), has) {
		m.Shell.Warning("nvcc needs a C++ compiler, and there is none here: %s", m.Host.InstallCommand(buildenv.GXX))
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
		return report.Answer(m, o.JSON, "toolchain-install", true, nil, Installed{Root: root})
	}
	return m.Shell.Data(root + "\n")
}

// Use sets, shows or drops the toolkit that this user's builds take when nobody says anything else.
func Use(ctx context.Context, m *session.Machine, o Options, rest []string) error {
	u, err := config.User{}, error(nil)
	if len(rest) == 1 {
		u, err = tools.Use(ctx, m, rest[0])
	} else {
		u, err = tools.User(m.Host)
	}
	if err != nil {
		return err
	}
	if o.JSON != nil {
		return report.Answer(m, o.JSON, "toolchain-use", true, nil, Chosen{CUDA: u.CUDA, Path: u.Path})
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
			return nil, exit.Usagef("gpubuild toolchain list", "gpubuild has installed no toolkit %s", name)
		}
		if !slices.ContainsFunc(meant, func(m install.Installation) bool { return m.Root == installed[i].Root }) {
			meant = append(meant, installed[i])
		}
	}
	return meant, nil
}

// Remove removes installed toolkits by name, root or version.
func Remove(ctx context.Context, m *session.Machine, o Options, names []string) error {
	installed, leftovers := install.Toolkits(m.Host, m.CacheDir)
	meant, err := called(append(installed, leftovers...), names)
	if err != nil {
		return err
	}
	roots := []string{}
	waiting := func(holder string) {
		m.Shell.Note("waiting for another gpubuild (%s) that is installing a toolkit", holder)
	}
	for _, in := range meant {
		if err := install.Remove(ctx, m.Host, m.CacheDir, in.Name, waiting); err != nil {
			return err
		}
		roots = append(roots, in.Root)
		m.Shell.Status("Removed", "%s", in.Root)
	}
	return report.Answer(m, o.JSON, "toolchain-remove", true, nil, Removed{Roots: roots})
}

// ShowUse prints what the kernel cache has saved.
func ShowUse(m *session.Machine, json *string) error {
	use := nvcc.Totals(m.CacheDir)
	if json != nil {
		return report.Answer(m, json, "cache", true, nil, Cache{m.CacheDir, use})
	}
	text := fmt.Sprintf("%s\nkernels: hits %d, misses %d, not cached %d, %.1f MB, saved %s\n", m.CacheDir, use.Hits, use.Misses,
		use.Uncached,
		float64(use.Size)/1e6, use.Saved.Round(100*time.Millisecond))
	for _, reason := range use.MostFrequent() {
		text += fmt.Sprintf("  not cached %d: %s\n", use.Reasons[reason], reason)
	}
	return m.Shell.Data(text)
}

// CleanCache empties the cache: the kernels alone, or everything but installed toolkits, which `toolchain remove` takes by name.
func CleanCache(m *session.Machine, kernels bool) error {
	parts := slices.DeleteFunc(slices.Clone(cacheParts), func(name string) bool {
		return name == toolkitsPart || name == cache.Tag || kernels && name != nvcc.Kernels
	})
	// The cache may be a directory that the user named and uses otherwise: a "wheels" or "cargo" in it may be the user's own then.
	if !cache.Adopted(m.CacheDir) {
		return exit.Usagef("point GPUBUILD_CACHE at a directory of its own, or remove gpubuild's parts by hand: "+
			strings.Join(cacheParts, " "), "%s was not empty when gpubuild first used it: it has no %s of gpubuild's; nothing was removed",
			m.CacheDir, cache.Tag)
	}
	size, toolkits := int64(0), ""
	for _, name := range parts {
		_, n := nvcc.Files(filepath.Join(m.CacheDir, name))
		size += n
	}
	if n := len(install.Installed(m.Host, m.CacheDir)); n > 0 && len(parts) > 1 {
		toolkits = "; " + report.Count(n, "CUDA toolkit") + " kept: `gpubuild toolchain remove` removes toolkits"
	}
	for _, name := range parts {
		if err := os.RemoveAll(filepath.Join(m.CacheDir, name)); err != nil {
			return fmt.Errorf("cache: %w", err)
		}
	}
	m.Shell.Status("Removed", "%s of %s%s", tree.Size(size), m.CacheDir, toolkits)
	return nil
}

// toolkitsPart holds installed toolkits, which take long to fetch again.
const toolkitsPart = "toolkits"

// cacheParts is everything that gpubuild writes into its cache, or wrote in earlier versions.
var cacheParts = []string{
	cache.Tag, "answers", "cargo", "hashes.json", "kernels", "locks", "memo", "overlays", "probe", "runs", "said", "scans", "sums",
	"toolkits", "trial", "untold", "views", "wheels",
}

// Cache is the answer of `cache`.
type Cache struct {
	Dir     string   `json:"dir"`
	Kernels nvcc.Use `json:"kernels"`
}
