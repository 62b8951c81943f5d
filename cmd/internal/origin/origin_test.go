package origin_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
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

// git answers as that program does: to `config` with the filters, to `status` with the state, unless they end it otherwise.
type git struct {
	filters, state string
	code           int
	slow           string // the subcommand that takes too long
	asked          []string
}

func (g *git) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if g.asked = append(g.asked, strings.Join(c.Args, " ")); g.slow != "" && slices.Contains(c.Args, g.slow) {
		return buildenv.Result{Stdout: []byte(g.state)}, context.DeadlineExceeded
	}
	if c.Args[0] != "config" {
		return buildenv.Result{Stdout: []byte(g.state)}, nil
	}
	r := buildenv.Result{Stdout: []byte(strings.ReplaceAll(g.filters, " ", "\x00")), Code: g.code}
	if g.code != 0 {
		return r, &buildenv.ExitError{Result: r}
	}
	return r, nil
}

// TestWhatGitAnswers: what its status means, and that none of the repository's own programs is run for it.
func TestWhatGitAnswers(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(hosttest.Parse([]byte("os: linux\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/usr/bin/git +x\n/x/.git/HEAD\n")))(t)
	clean := "# branch.oid abc\n# branch.head main\n"
	for story, tt := range map[string]struct {
		git    git
		status string // how it is asked; empty: it is not
		want   origin.Origin
	}{
		"a clean tree":                   {git{state: clean, code: 1}, "status", origin.Origin{Commit: "abc", Branch: "main"}},
		"a changed file":                 {git{state: clean + "1 .M N... 1 2 3 4 5 a\n", code: 1}, "status", origin.Origin{Commit: "abc", Branch: "main", Modified: true}},
		"before the first commit":        {git{state: "# branch.oid (initial)\n# branch.head main\n", code: 1}, "status", origin.Origin{Branch: "main"}},
		"no branch":                      {git{state: "# branch.oid abc\n# branch.head (detached)\n", code: 1}, "status", origin.Origin{Commit: "abc"}},
		"a filter of the user's":         {git{state: clean, filters: "global filter.lfs.clean "}, "-c core.fsmonitor=false status", origin.Origin{Commit: "abc", Branch: "main"}},
		"a filter of the project":        {git{state: clean, filters: "local filter.x.clean "}, "-c filter.x.clean= status", origin.Origin{Commit: "abc", Branch: "main"}},
		"a filter of the system's":       {git{state: clean, filters: "system filter.lfs.clean "}, "-c core.fsmonitor=false status", origin.Origin{Commit: "abc", Branch: "main"}},
		"a configuration on a slow disk": {git{state: clean, slow: "config"}, "", origin.Origin{}},
		"a tree on a slow disk":          {git{state: clean, slow: "status", code: 1}, "status", origin.Origin{}},
		"one that -c cannot name":        {git{state: clean, filters: "local filter.x=y.clean "}, "", origin.Origin{}},
		"a configuration is wrong":       {git{state: clean, code: 128}, "", origin.Origin{}},
	} {
		got := origin.Of(context.Background(), h, &tt.git, "/x")
		hosttest.Equal(t, got, tt.want, story)
		if asked := tt.git.asked[1:]; (len(asked) > 0) != (tt.status != "") || len(asked) > 0 && !strings.Contains(asked[0], tt.status) {
			t.Errorf("%s: git was asked %q", story, asked)
		}
	}
}

// TestGitIsNotAsked: CI's variables are enough, and git answers of no directory above which there is no repository. The machine is named
// as its scheduler or CI service names it.
func TestGitIsNotAsked(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct {
		env, files, dir string
		asked           bool
		machine         string
	}{
		"a repository":               {"", "/usr/bin/git +x\n/x/.git/HEAD\n", "/x", true, "own"},
		"no repository":              {"", "/usr/bin/git +x\n/x/.git/HEAD\n", "/y", false, "own"},
		"no git":                     {"", "/x/.git/HEAD\n", "/x", false, "own"},
		"GitHub":                     {"GITHUB_ACTIONS=true\nRUNNER_NAME=gpu-1\n", "/usr/bin/git +x\n/x/.git/HEAD\n", "/x", false, "gpu-1"},
		"a node of Slurm, by GitLab": {"CI_RUNNER_DESCRIPTION=slurm\nSLURMD_NODENAME=n7\n", "/usr/bin/git +x\n", "/x", false, "n7"},
	} {
		h, err := hosttest.Parse([]byte("os: linux\n-- @env --\nPATH=/usr/bin\n" + tt.env + "-- /etc/hostname --\nown\n-- @empty --\n" + tt.files))
		if err != nil {
			t.Fatal(err)
		}
		var g git
		if got := origin.Of(context.Background(), h, &g, tt.dir); got.Machine != tt.machine || (len(g.asked) > 0) != tt.asked {
			t.Errorf("%s: on %q, git was asked %q", story, got.Machine, g.asked)
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
	hosttest.OK(t, os.MkdirAll(below, 0o755))
	h := hosttest.Must(local.Host())(t)
	for _, name := range []string{"GITHUB_ACTIONS", "GITLAB_CI", origin.RowVariable} {
		h.Env = h.Env.Unset(name)
	}
	of := func() origin.Origin {
		got := origin.Of(context.Background(), h, proc.Runner{}, below)
		got.Machine = ""
		return got
	}
	hosttest.Equal(t, of(), (origin.Origin{}), "without a repository")
	file := filepath.Join(dir, "file")
	write := func(text string) {
		hosttest.OK(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("one\n")
	run("init", "-q", "-b", "trunk")
	run("add", "file")
	hosttest.Equal(t, of(), (origin.Origin{Branch: "trunk", Modified: true}), "before the first commit")
	run("commit", "-q", "-m", "x")
	commit := run("rev-parse", "HEAD")
	hosttest.Equal(t, of(), (origin.Origin{Commit: commit, Branch: "trunk"}), "a clean tree")
	write("two\n")
	run("checkout", "-q", "--detach")
	hosttest.Equal(t, of(), (origin.Origin{Commit: commit, Modified: true}), "a changed tree")
}

// TestPartialClone: an archive may bring a repository that lacks objects, and a remote whose program git would start to fetch them. The git
// is one that does not know GIT_NO_LAZY_FETCH.
func TestPartialClone(t *testing.T) {
	t.Parallel()
	git := need.Tool(t, "git")
	h := hosttest.Must(local.Host())(t)
	for _, name := range []string{"GITHUB_ACTIONS", "GITLAB_CI"} {
		h.Env = h.Env.Unset(name)
	}
	old := t.TempDir()
	hosttest.OK(t, os.WriteFile(filepath.Join(old, "git"), []byte("#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec '"+git+"' \"$@\"\n"), 0o755))
	h.Env = h.Env.Set("PATH", old+string(filepath.ListSeparator)+h.Env.Get("PATH"))
	for story, config := range map[string]string{
		"by its format":   "[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = origin\n",
		"by its remote":   "[remote \"origin\"]\npromisor = true\n",
		"by its filter":   "[remote \"origin\"]\npartialclonefilter = blob:none\npromisor = true\n",
		"by another file": "[include]\npath = more\n",
	} {
		dir := t.TempDir()
		run := func(args ...string) string {
			c := exec.Command(git, append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)...)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644))
		run("init", "-q", "-b", "trunk")
		run("add", "file")
		run("commit", "-q", "-m", "x")
		commit, tree := run("rev-parse", "HEAD"), run("rev-parse", "HEAD^{tree}")
		hosttest.OK(t, os.Remove(filepath.Join(dir, ".git", "objects", tree[:2], tree[2:])))
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, ".git", "more"), []byte("[remote \"origin\"]\npromisor = true\n"), 0o644))
		f := hosttest.Must(os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0))(t)
		ran := filepath.Join(dir, "ran")
		_, err := f.WriteString(config + "[remote \"origin\"]\nurl = \"ext::touch " + strings.ReplaceAll(ran, " ", "% ") + "\"\n[protocol \"ext\"]\nallow = always\n")
		hosttest.OK(t, errors.Join(err, f.Close()))
		got := origin.Of(context.Background(), h, proc.Runner{}, dir)
		got.Machine = ""
		hosttest.Equal(t, got, (origin.Origin{Commit: commit, Branch: "trunk", Unknown: true}), story)
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: git started the repository's program", story)
		}
	}
}

// TestGitHasLimits: git reads a file of .git whole, and an archive may bring one without an end, as a link to a device.
func TestGitHasLimits(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != buildenv.Linux {
		need.Missing(t, "linux", "only there a process's memory is limited")
	}
	git := need.Tool(t, "git")
	h := hosttest.Must(local.Host())(t)
	for _, name := range []string{"GITHUB_ACTIONS", "GITLAB_CI"} {
		h.Env = h.Env.Unset(name)
	}
	for _, name := range []string{"refs/heads/trunk", "commondir", "objects/info/alternates"} {
		dir := t.TempDir()
		for _, args := range [][]string{{"init", "-q", "-b", "trunk"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false",
			"commit", "-q", "-m", "x", "--allow-empty"}} {
			if out, err := exec.Command(git, append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
		}
		file := filepath.Join(dir, ".git", filepath.FromSlash(name))
		_ = os.Remove(file)
		hosttest.OK(t, os.Symlink("/dev/zero", file))
		var ends limited
		got := origin.Of(context.Background(), h, &ends, dir)
		got.Machine = ""
		hosttest.Equal(t, got, origin.Origin{}, name)
		if !strings.Contains(string(ends), "emory") {
			t.Errorf("%s: git did not end for want of memory: %s", name, ends)
		}
	}
}

// limited runs git with a small limit, where one is set, and has its last words. Without a limit it runs nothing: git would take all memory.
type limited string

func (l *limited) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if c.Memory == 0 {
		return buildenv.Result{}, errors.New("no limit is set")
	}
	c.Memory = 64 << 20
	res, err := proc.Runner{}.Run(ctx, c)
	*l = limited(res.Stderr)
	return res, err
}
