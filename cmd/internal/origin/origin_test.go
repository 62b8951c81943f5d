package origin_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/origin"
)

func TestCIVariablesComeFirst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  []string
		want origin.Origin
	}{
		"a pull request on GitHub": {
			[]string{"GITHUB_ACTIONS=true", "GITHUB_SHA=abc", "GITHUB_HEAD_REF=fix", "GITHUB_REF_NAME=7/merge",
				"GITHUB_SERVER_URL=https://example.org",
				"GITHUB_REPOSITORY=o/r", "GITHUB_RUN_ID=12", "GITHUB_RUN_ATTEMPT=2", "GPUBUILD_ROW=row"},
			origin.Origin{Commit: "abc", Branch: "fix", Run: "https://example.org/o/r/actions/runs/12", Row: "row", Attempt: 2},
		},
		"a branch on GitLab": {
			[]string{"GITLAB_CI=true", "CI_COMMIT_SHA=abc", "CI_COMMIT_REF_NAME=main", "CI_JOB_URL=https://example.org/-/jobs/1"},
			origin.Origin{Commit: "abc", Branch: "main", Run: "https://example.org/-/jobs/1"},
		},
		"no CI": {[]string{"CI_COMMIT_SHA=abc", "GPUBUILD_ROW=row"}, origin.Origin{Row: "row"}},
	} {
		if got, _ := origin.OfCI(buildenv.Host{Env: buildenv.NewEnv(buildenv.Linux, tt.env)}); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestGitIsAskedElsewhere(t *testing.T) {
	t.Parallel()
	git := need.Tool(t, "git")
	dir := t.TempDir()
	run := func(args ...string) string {
		c := exec.Command(git, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"},
			args...)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	below := filepath.Join(dir, "crates", "app")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"GITHUB_ACTIONS", "GITLAB_CI", origin.RowVariable} {
		h.Env = h.Env.Unset(name)
	}
	of := func() origin.Origin {
		got := origin.Of(context.Background(), h, proc.Runner{}, below)
		got.Machine = ""
		return got
	}
	if got := of(); got != (origin.Origin{}) {
		t.Errorf("without a repository: %+v", got)
	}
	file := filepath.Join(dir, "file")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	run("init", "-q", "-b", "trunk")
	run("add", "file")
	if got := of(); got != (origin.Origin{Branch: "trunk", Modified: true}) {
		t.Errorf("before the first commit: %+v", got)
	}
	run("commit", "-q", "-m", "x")
	commit := run("rev-parse", "HEAD")
	if got := of(); got != (origin.Origin{Commit: commit, Branch: "trunk"}) {
		t.Errorf("a clean tree: %+v", got)
	}
	write("two\n")
	run("checkout", "-q", "--detach")
	if got := of(); got != (origin.Origin{Commit: commit, Modified: true}) {
		t.Errorf("a changed tree: %+v", got)
	}
}
