// Package origin says what a result is of: which commit, and which run of CI made it. CI's own variables come first; elsewhere git is
// asked.
// It reads no file of the repository itself and never changes one.
package origin

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv"
)

// Origin is what a result is of. Zero values are not known.
type Origin struct {
	Commit   string `json:"commit,omitempty"`
	Branch   string `json:"branch,omitempty"`
	Modified bool   `json:"modified,omitempty"` // tracked files differed from the commit
	Run      string `json:"run,omitempty"`      // address of CI's run
	Row      string `json:"row,omitempty"`      // of the matrix
	Attempt  int    `json:"attempt,omitempty"`  // of the same run, from 1
	Machine  string `json:"machine,omitempty"`  // its name
}

// RowVariable is that of the row; a workflow or the user sets it.
const RowVariable = "GPUBUILD_ROW"

// service is where one CI service says what it runs.
type service struct {
	is             string   // the variable that it sets to true
	commit, branch []string // of several the first that is set counts
	run            string   // the address, with variables
	attempt        string
}

// services, by their own documentation: docs.github.com "Variables reference", docs.gitlab.com "Predefined CI/CD variables reference".
func services() []service {
	return []service{
		{"GITHUB_ACTIONS", []string{"GITHUB_SHA"}, []string{"GITHUB_HEAD_REF", "GITHUB_REF_NAME"},
			"$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"},
		{"GITLAB_CI", []string{"CI_COMMIT_SHA"}, []string{"CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"}, "$CI_JOB_URL", ""},
	}
}

// OfCI is what the variables of a CI service say; without one, only the row.
func OfCI(h buildenv.Host) (Origin, bool) {
	o := Origin{Row: h.Env.Get(RowVariable)}
	for _, s := range services() {
		if h.Env.Get(s.is) != "true" {
			continue
		}
		o.Commit, o.Branch, o.Run = first(h, s.commit), first(h, s.branch), os.Expand(s.run, h.Env.Get)
		o.Attempt, _ = strconv.Atoi(h.Env.Get(s.attempt))
		return o, true
	}
	return o, false
}

// first is the value of the first variable that is set.
func first(h buildenv.Host, names []string) string {
	for _, n := range names {
		if v := h.Env.Get(n); v != "" {
			return v
		}
	}
	return ""
}

// machine is the name of this machine: what the scheduler or the CI service calls it, else its own.
func machine(h buildenv.Host) string {
	if name := first(h, []string{"SLURMD_NODENAME", "RUNNER_NAME", "CI_RUNNER_DESCRIPTION", "COMPUTERNAME"}); name != "" {
		return name
	}
	name, err := h.ReadFile("/etc/hostname", 1<<10)
	if err != nil { // not Linux
		return ""
	}
	return strings.TrimSpace(string(name))
}

// Of is the origin of a result of the project in dir. Without CI, git and a repository the commit stays unknown. git runs no program that
// the repository's own configuration names, which an archive may bring: no monitor, no filter, nothing in a submodule.
func Of(ctx context.Context, h buildenv.Host, run buildenv.Runner, dir string) Origin {
	o, ci := OfCI(h)
	o.Machine = machine(h)
	git, err := h.LookPath("git")
	if ci || err != nil || h.Repository(dir) == "" {
		return o
	}
	ask := func(args ...string) (buildenv.Result, error) {
		return run.Run(ctx, buildenv.Cmd{Path: git, Args: args, Dir: dir, Timeout: 10 * time.Second, Limit: 1 << 20,
			Env: h.Env.Set("GIT_OPTIONAL_LOCKS", "0").Set("GIT_NO_LAZY_FETCH", "1").Entries()})
	}
	filters, err := ask("config", "--show-scope", "--null", "--name-only", "--get-regexp", `^filter\.`)
	if code, is := errors.AsType[*buildenv.ExitError](err); err != nil && (!is || code.Result.Code != 1) { // 1: there are none
		return o
	}
	status := []string{"-c", "core.fsmonitor=false"}
	fields := strings.Split(string(filters.Stdout), "\x00")
	for i := 1; i < len(fields); i += 2 {
		switch {
		case fields[i-1] == "global", fields[i-1] == "system": // the user's own, such as git-lfs
		case strings.Contains(fields[i], "="):
			return o // -c cannot name it
		default:
			status = append(status, "-c", fields[i]+"=")
		}
	}
	res, err := ask(append(status, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")...)
	if err != nil {
		return o
	}
	// git-status(1), "Porcelain Format Version 2".
	for _, line := range strings.Split(string(res.Stdout), "\n") {
		switch {
		case strings.HasPrefix(line, "# branch.oid ") && !strings.HasSuffix(line, "(initial)"):
			o.Commit = strings.TrimPrefix(line, "# branch.oid ")
		case strings.HasPrefix(line, "# branch.head ") && !strings.HasSuffix(line, "(detached)"):
			o.Branch = strings.TrimPrefix(line, "# branch.head ")
		case line != "" && line[0] != '#':
			o.Modified = true
		}
	}
	return o
}
