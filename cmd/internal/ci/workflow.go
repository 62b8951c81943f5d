package ci

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// NoRowsError says that nothing is left of a matrix, or nothing of what was to be proven at a place. A workflow of such a matrix would be
// green without having done what was asked.
type NoRowsError struct {
	What    string // "no row of the matrix can work"
	LeftOut []LeftOut
}

func (e *NoRowsError) Error() string {
	return e.What + "\n" + strings.TrimSuffix(Reasons(e.LeftOut), "\n")
}

// ExitCode is exit.Misfit.
func (e *NoRowsError) ExitCode() int { return exit.Misfit }

// Hint says what a user can do about it.
func (e *NoRowsError) Hint() string {
	return "change [matrix] in gpubuild.toml; `gpubuild ci matrix` says why each row is left out"
}

// Refuse says why no workflow should be made of a matrix; nil: it may.
func (m Matrix) Refuse() error {
	if len(m.Rows) == 0 {
		return &NoRowsError{"no row of the matrix can work", m.LeftOut}
	}
	places := m.unproven()
	if len(places) == 0 {
		return nil
	}
	rows := slices.DeleteFunc(slices.Clone(m.LeftOut), func(l LeftOut) bool { return !slices.Contains(places, l.Place) })
	return &NoRowsError{fmt.Sprintf("nothing can be proven on %s, which [[matrix.prove]] names", strings.Join(places, ", ")), rows}
}

// Reasons lists rows that are left out, those with the same reason together.
func Reasons(rows []LeftOut) string {
	var order []string
	by := map[string][]string{}
	for _, l := range rows {
		why := OneLine(l.Why)
		if by[why] == nil {
			order = append(order, why)
		}
		by[why] = append(by[why], l.ID)
	}
	var b strings.Builder
	for _, why := range order {
		if why == excluded {
			fmt.Fprintf(&b, "  %s: %d rows\n", why, len(by[why]))
			continue
		}
		fmt.Fprintf(&b, "  %s\n", why)
		for _, id := range by[why] {
			fmt.Fprintf(&b, "    %s\n", id)
		}
	}
	return b.String()
}

// OneLine keeps what a user wrote from looking like several lines of ours, or in a log of GitHub like a command to it: `::` counts where a
// line begins, `##[` anywhere (actions/runner, src/Runner.Common/ActionCommand.cs).
func OneLine(s string) string {
	if strings.HasPrefix(strings.TrimSpace(s), "::") {
		s = "'" + s
	}
	s = strings.ReplaceAll(s, "##[", "## [")
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}

// Workflow is what a workflow needs beside the rows, which the matrix job computes anew on every run.
type Workflow struct {
	Install string // shell text that puts gpubuild on PATH; empty: not said, and the workflow's first job says so and fails
	Setup   string // shell text before everything else
	Image   string // GitLab: image of jobs that the matrix names none for
	Dir     string // the workspace's root below the repository's, with slashes; empty: the same
}

// Check says why no workflow can be written; nil: it can. GitHub reads ${{ }} in a path as an expression, and a cache's paths are lines.
func (w Workflow) Check() error {
	if strings.Contains(w.Dir, "${{") || strings.ContainsAny(w.Dir, "\r\n\x00*?[]!") {
		return &PathError{w.Dir}
	}
	return nil
}

// PathError says that a directory's name means something else to CI.
type PathError struct{ Dir string }

func (e *PathError) Error() string {
	return fmt.Sprintf("the project lies in %q of its repository, and CI would read that name as something else", e.Dir)
}

// Hint says what a user can do about it.
func (e *PathError) Hint() string { return "give the directory a plain name" }

// NoInstall is what a workflow says, and fails with, that was made without an install command.
const NoInstall = `say how a runner gets gpubuild: in gpubuild.toml, [ci] install = "go install ADDRESS/cmd/gpubuild@VERSION", then: ` +
	`gpubuild ci init`

// install is the text of the step that puts gpubuild on PATH.
func (w Workflow) install() string {
	if w.Install == "" {
		return "echo " + buildenv.PosixWords(NoInstall) + " >&2\nexit 1"
	}
	return w.Install
}

// bareImage brings what an image of nvidia/cuda or rust lacks; Go, where the install command needs it, is [ci] setup's part. It does
// nothing where cargo, git and pip are there.
const bareImage = `if ! command -v cargo >/dev/null || ! command -v git >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update
  apt-get install -y --no-install-recommends ca-certificates curl git gcc g++ python3 python3-pip
  command -v cargo >/dev/null || curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
fi`

// targetRoot is the directory, below the repository, of what rows build.
func (w Workflow) targetRoot() string {
	if w.Dir == "" {
		return "target/gpubuild-ci"
	}
	return w.Dir + "/target/gpubuild-ci"
}
