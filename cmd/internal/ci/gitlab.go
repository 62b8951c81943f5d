package ci

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/exit"
)

// GitLabLimit is how many jobs one parallel:matrix may make (docs.gitlab.com, "CI/CD YAML syntax reference", parallel:matrix).
const GitLabLimit = 200

// defaultImage has cargo, gcc, git, python3 and pip; Go comes with apt.
const defaultImage = "rust:1-bookworm@sha256:93ce27a88655056a51dbdd8f5f2d7ddc071c7b0070fb288a37b5a285fc83971e"

// gitlab is GitLab CI.
type gitlab struct{}

func (gitlab) Name() string   { return "gitlab" }
func (gitlab) File() []string { return []string{".gitlab-ci.yml"} }

func (gitlab) Variable() string { return "GITLAB_CI" }

// Section is a collapsible section (docs.gitlab.com, "Job logs", custom collapsible sections).
func (gitlab) Section(title string, at time.Time) (begin, end string) {
	name := strings.ToLower(strings.ReplaceAll(title, " ", "_"))
	return fmt.Sprintf("\x1b[0Ksection_start:%d:%s\r\x1b[0K%s\n", at.Unix(), name, title),
		fmt.Sprintf("\x1b[0Ksection_end:%d:%s\r\x1b[0K\n", time.Now().Unix(), name)
}

func (gitlab) Keep() string {
	return "keep yours, write ours to another file (--stdout > .gitlab/gpubuild.yml) and `include: {local: .gitlab/gpubuild.yml}`"
}

// Rows writes the pipeline of the rows, which the plan job of GitLab's workflow runs. Rows that compile with the same runner and image
// are one
// job with parallel:matrix; each row that proves is a job that waits for its own archive only.
func (gitlab) Rows(m Matrix, w Workflow) ([]byte, error) {
	type group struct {
		Job, Image string
		Tags       []string
		Rows       []Row
	}
	type proof struct {
		Row
		Job  string // that compiles it
		From Row
	}
	if err := m.pinned(w); err != nil {
		return nil, err
	}
	known, err := KnownMachines()
	if err != nil {
		return nil, err
	}
	var groups []*group
	compiledBy := map[string]string{} // a row's job
	for _, r := range m.Of(Compile) {
		if strings.HasPrefix(r.Platform, "windows-") {
			return nil, notForPowerShell(r.ID)
		}
		hosted := known.Hosted(r.Runner)
		if hosted != nil && strings.HasPrefix(r.Platform, "macos-") {
			return nil, &exit.UsageError{What: r.ID + " needs a Mac, and " + r.Runner[0] + " is a runner of GitHub",
				Fix: "name the tags of yours in [matrix.runner] of gpubuild.toml: " + r.Platform + ` = ["saas-macos-medium-m1"]`}
		}
		image := r.Container
		if image == "" && strings.HasPrefix(r.Platform, "linux-") {
			image = cmp.Or(w.Image, defaultImage)
		}
		tags := r.Runner
		if hosted != nil {
			tags = nil // GitHub's label; GitLab's shared runners take jobs without a tag
			if hosted.GitLab != "" {
				tags = []string{hosted.GitLab}
			}
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.Image == image && slices.Equal(g.Tags, tags) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{Job: fmt.Sprintf("compile-%d", i+1), Image: image, Tags: tags})
		}
		groups[i].Rows = append(groups[i].Rows, r)
		compiledBy[r.ID] = groups[i].Job
	}
	for _, g := range groups {
		if len(g.Rows) > GitLabLimit {
			return nil, tooMany(len(g.Rows), GitLabLimit, "GitLab's parallel:matrix")
		}
	}
	var proofs []proof
	for _, r := range m.Of(Proof) {
		if strings.HasPrefix(r.Platform, "windows-") {
			return nil, notForPowerShell(r.ID)
		}
		from, _, _ := m.Find(r.Compile)
		proofs = append(proofs, proof{r, compiledBy[r.Compile], from})
	}
	return w.render("gitlab-rows.yml.tmpl", struct {
		Workflow Workflow
		Groups   []*group
		Proofs   []proof
		Withheld bool
	}{w, groups, proofs, m.Withheld() > 0}), nil
}

// gitlabVars are the variables that distinguish rows in parallel:matrix and in the `needs` of other jobs.
func gitlabVars(r Row) string {
	return fmt.Sprintf("{GPUBUILD_ROW: [%s], GPUBUILD_CACHE_KEY: [%s], GPUBUILD_CACHE_PREFIX: [%s], GPUBUILD_TOOLKIT_KEY: [%s]}",
		quote(r.ID), quote(r.CacheKey), quote(r.cachePrefix()+"-"), quote(cmp.Or(r.toolkitKey(), "gpubuild-none")))
}

// notForPowerShell says that a row's jobs would be read by another shell than the one that they are written for.
func notForPowerShell(row string) error {
	return exit.Errorf(exit.Config, "leave these rows out for GitLab, with platform = [\"linux-x86_64\"] in [matrix], "+
		"or write their job by hand around `gpubuild ci run ROW`",
		"%s is for Windows, where GitLab's runners read scripts by PowerShell; the jobs are written for a POSIX shell", row)
}

// Workflow writes the workflow: one job makes the pipeline of the rows, another starts it and is as red as it is.
func (gitlab) Workflow(w Workflow) []byte { return w.render("gitlab.yml.tmpl", w) }
