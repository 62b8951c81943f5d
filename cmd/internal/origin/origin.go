// Package origin says what a result is of: which commit, and which run of CI made it. CI's own variables come first; elsewhere git is
// asked.
// It reads no file of the repository itself and never changes one.
package origin

import (
	"cmp"
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
	Modified bool   `json:"modified,omitempty"`         // tracked files differed from the commit
	Unknown  bool   `json:"modified_unknown,omitempty"` // whether they differed was not asked
	Run      string `json:"run,omitempty"`              // address of CI's run
	Row      string `json:"row,omitempty"`              // of the matrix
	Attempt  int    `json:"attempt,omitempty"`          // of the same run, from 1
	Machine  string `json:"machine,omitempty"`          // its name
}

// RowVariable is that of the row; a workflow or the user sets it.
const RowVariable = "GPUBUILD_ROW"

// OfCI is what the variables of a CI service say; without one, only the row. Sources: docs.github.com, "Variables reference";
// docs.gitlab.com, "Predefined CI/CD variables reference".
func OfCI(h buildenv.Host) (o Origin, is bool) {
	get := h.Env.Get
	o.Row = get(RowVariable)
	switch {
	case get("GITHUB_ACTIONS") == "true":
		o.Commit, o.Branch = get("GITHUB_SHA"), cmp.Or(get("GITHUB_HEAD_REF"), get("GITHUB_REF_NAME"))
		o.Run = os.Expand("$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID", get)
		o.Attempt, _ = strconv.Atoi(get("GITHUB_RUN_ATTEMPT"))
	case get("GITLAB_CI") == "true":
		o.Commit, o.Run = get("CI_COMMIT_SHA"), get("CI_JOB_URL")
		o.Branch = cmp.Or(get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"), get("CI_COMMIT_REF_NAME"))
	default:
		return o, false
	}
	return o, true
}

// machine is the name of this machine: what the scheduler or the CI service calls it, else its own.
func machine(h buildenv.Host) string {
	get := h.Env.Get
	name := cmp.Or(get("SLURMD_NODENAME"), get("RUNNER_NAME"), get("CI_RUNNER_DESCRIPTION"), get("COMPUTERNAME"))
	if name != "" {
		return name
	}
	own, err := h.ReadFile("/etc/hostname", buildenv.Note)
	if err != nil { // not Linux
		return ""
	}
	return strings.TrimSpace(string(own))
}

// Of is the origin of a result of the project in dir. Without CI, git and a repository the commit stays unknown. git runs no program that
// the repository's own configuration names, which an archive may bring: no monitor, no filter, nothing in a submodule. A partial clone
// would be asked to fetch what a comparison lacks, by such a program, and only a newer git can be kept from it: there just HEAD is read.
// An archive may also bring a .git with links to devices, which git reads whole: it has a limit in time and one in memory, and where it
// reaches one of them nothing is known.
func Of(ctx context.Context, h buildenv.Host, run buildenv.Runner, dir string) Origin {
	o, ci := OfCI(h)
	o.Machine = machine(h)
	git, err := h.LookPath("git")
	if ci || err != nil || h.Repository(dir) == "" {
		return o
	}
	ask := func(args ...string) (buildenv.Result, error) {
		return run.Run(ctx, buildenv.Cmd{Path: git, Args: args, Dir: dir, Timeout: 10 * time.Second, Limit: 1 << 20, Memory: 1 << 30,
			Env: h.Env.Set("GIT_OPTIONAL_LOCKS", "0").Set("GIT_NO_LAZY_FETCH", "1").Entries()})
	}
	names, err := ask("config", "--show-scope", "--null", "--name-only", "--get-regexp",
		`^(filter\.|extensions\.partialclone$|remote\..*\.(promisor|partialclonefilter)$)`)
	if code, is := errors.AsType[*buildenv.ExitError](err); err != nil && (!is || code.Result.Code != 1) { // 1: there are none
		return o
	}
	status := []string{"-c", "core.fsmonitor=false"}
	fields := strings.Split(string(names.Stdout), "\x00")
	for i := 1; i < len(fields); i += 2 {
		switch {
		case !strings.HasPrefix(fields[i], "filter."):
			head, err := ask("rev-parse", "HEAD", "--abbrev-ref", "HEAD")
			if words := strings.Fields(string(head.Stdout)); err == nil && len(words) == 2 {
				if o.Commit, o.Unknown = words[0], true; words[1] != "HEAD" {
					o.Branch = words[1]
				}
			}
			return o
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
