package ci

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// GitLabLimit is how many jobs one parallel:matrix may make (docs.gitlab.com, "CI/CD YAML syntax reference", parallel:matrix).
const GitLabLimit = 200

// defaultImage has cargo, gcc, git, python3 and pip; Go comes with apt.
const defaultImage = "rust:1-bookworm"

// gitlab is GitLab CI.
type gitlab struct{}

func (gitlab) Name() string   { return "gitlab" }
func (gitlab) File() []string { return []string{".gitlab-ci.yml"} }

func (gitlab) Keep() string {
	return "keep yours, write ours beside it (--stdout > .gitlab/gpubuild.yml) and `include: {local: .gitlab/gpubuild.yml}`"
}

// Rows writes the pipeline of the rows, which the plan job of GitLab's workflow
// runs. Rows with the same runner and image are one job with parallel:matrix.
func (gitlab) Rows(m Matrix, w Workflow) ([]byte, error) {
	type group struct {
		kind, image string
		tags        []string
		rows        []Row
	}
	known, err := KnownMachines()
	if err != nil {
		return nil, err
	}
	var groups []*group
	for _, r := range m.Rows {
		if strings.HasPrefix(r.Platform, "windows-") {
			return nil, &ShellError{Row: r.ID}
		}
		image := r.Container
		if image == "" && r.Kind == Compile && strings.HasPrefix(r.Platform, "linux-") {
			image = w.image()
		}
		tags := r.Runner
		if known.Hosted(tags) != nil {
			tags = nil // GitHub's label; GitLab's shared runners take jobs without a tag
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.kind == r.Kind && g.image == image && slices.Equal(g.tags, tags) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{kind: r.Kind, image: image, tags: tags})
		}
		groups[i].rows = append(groups[i].rows, r)
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("%s", comment("Made by `gpubuild ci matrix --format gitlab`, from [matrix] in gpubuild.toml.", 0))
	numbers := map[string]int{}
	for _, g := range groups {
		if len(g.rows) > GitLabLimit {
			return nil, &TooManyError{Have: len(g.rows), Limit: GitLabLimit, Whose: "GitLab's parallel:matrix"}
		}
		numbers[g.kind]++
		p("%s-%d:\n", g.kind, numbers[g.kind])
		if g.image != "" {
			p("  image: %s\n", quote(g.image))
		}
		if len(g.tags) > 0 {
			p("  tags: %s\n", list(g.tags))
		}
		p("  allow_failure: false\n  parallel:\n    matrix:\n")
		for _, r := range g.rows {
			p("      - GPUBUILD_ROW: [%s]\n        GPUBUILD_CACHE_KEY: [%s]\n", quote(r.ID), quote(r.CacheKey))
		}
		p("  variables:\n    CARGO_HOME: $CI_PROJECT_DIR/.cargo-home\n    GPUBUILD_CACHE: $CI_PROJECT_DIR/.gpubuild-cache\n")
		p("  cache:\n    key: $GPUBUILD_CACHE_KEY\n    paths:\n      - .cargo-home/registry\n      - .cargo-home/git\n"+
			"      - .gpubuild-cache\n      - %s\n", quote(w.targetRoot()+"/$GPUBUILD_ROW"))
		w.gitlabScript(p, g.image != "")
		for _, step := range StepNames(g.kind) {
			flags := ""
			if step == StepToolkit {
				flags = " --fetch"
			}
			p("    - gpubuild ci run \"$GPUBUILD_ROW\" --only %s%s\n", step, flags)
		}
		dir := w.inDir(ResultsDir("$GPUBUILD_ROW"))
		p("  artifacts:\n    when: always\n    expire_in: 4 weeks\n    paths:\n      - %s\n    reports:\n      junit: %s\n", quote(dir),
			quote(dir+"/*.xml"))
	}
	return []byte(b.String()), nil
}

// ShellError says that a row's jobs would be read by another shell than the one that they are written for.
type ShellError struct{ Row string }

func (e *ShellError) Error() string {
	return e.Row + " is for Windows, where GitLab's runners read scripts by PowerShell; the jobs are written for a POSIX shell"
}

// ExitCode is exit.Config.
func (e *ShellError) ExitCode() int { return exit.Config }

// Hint says what a user can do about it.
func (e *ShellError) Hint() string {
	return "leave these rows out for GitLab, with platform = [\"linux-x86_64\"] in [matrix], or write their job by hand around `gpubuild " +
		"ci run ROW`"
}

// Workflow writes the workflow: one job makes the pipeline of the rows, another starts it and is as red as it is.
func (gitlab) Workflow(w Workflow) []byte {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("%s", comment("Made by `gpubuild ci init gitlab`; the rows are computed by `gpubuild ci matrix` from [matrix] in gpubuild.toml.\n"+
		"A row runs on your machine as it runs here: gpubuild ci run ROW", 0))
	if w.Install == "" {
		p("%s", comment("TO FILL IN: "+NoInstall, 0))
	}
	p("stages: [plan, gpu]\n")
	p("plan:\n  stage: plan\n  image: %s\n", quote(w.image()))
	w.gitlabScript(p, true)
	p("    - gpubuild ci matrix --format gitlab > \"$CI_PROJECT_DIR/gpubuild-rows.yml\"\n")
	p("  artifacts:\n    paths: [gpubuild-rows.yml]\n    expire_in: 1 week\n")
	p("gpu:\n  stage: gpu\n  needs: [plan]\n  trigger:\n    include:\n      - artifact: gpubuild-rows.yml\n        job: plan\n" +
		"    strategy: depend\n")
	return []byte(b.String())
}

func (w Workflow) image() string {
	if w.Image != "" {
		return w.Image
	}
	return defaultImage
}

// gitlabScript writes what every job's script begins with.
func (w Workflow) gitlabScript(p func(string, ...any), bare bool) {
	p("  script:\n")
	if bare {
		p("    -%s\n", block(bareImage, 6))
		p("    - export PATH=\"$HOME/.cargo/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$HOME/go/bin:$PATH\"\n")
	} else {
		p("    - export PATH=\"$HOME/.cargo/bin:$HOME/go/bin:$PATH\"\n")
	}
	if w.Dir != "" {
		p("    - %s\n", quote("cd "+buildenv.PosixWords(w.Dir)))
	}
	if w.Setup != "" {
		p("    -%s\n", block(w.Setup, 6))
	}
	p("    -%s\n", block(w.install(), 6))
}
