package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/cli"
)

// starts is a row of SECURITY.md's table "What runs, and when": the first cell, command lines of it, and all that they may start. Each of
// the patterns must be seen: a list that is too long would hold nothing.
type starts struct {
	row   string
	lines []string
	runs  []string
}

// Patterns of what is started: the program's name and its arguments. One with "? " need not be seen: not every machine has it.
var (
	graph = []string{`cargo build --unit-graph .*`, `cargo metadata .*`, `rustc -vV`, `rustc - --crate-name ___ --print=file-names .*`}
	nvccs = []string{`nvcc --version`, `nvcc --dryrun -x cu -c -o /dev/null /dev/null`,
		`standin-nvcc .*/user/bin/nvcc (--version|--dryrun .*)`}
	gpus = []string{`nvidia-smi (--query-gpu=.*|-q -d TEMPERATURE)`, `gpubuild __gpubuild-nvml( watch)?`}
	// cargo -Vv names the operating system, for which it starts these.
	systems = []string{`cargo -Vv`, `? (lsb_release|getopt|cut|tr|getconf)( .*)?`}
)

var rowsOfStarts = []starts{
	{"`help`, `version`, `completion`, `man`, `scan`, `explain`, `report`, `cache`, `receipt verify`, `toolchain remove`", []string{"help",
		"help features", "version", "completion bash", "man", "scan file", "scan program", "explain LNK1181", "explain 11", "explain log",
		"explain CUDA_ERROR_NO_BINARY_FOR_GPU", "explain stale.unrecorded", "report out.json", "cache", "cache dir", "cache clean",
		"receipt verify out.json file", "toolchain remove 0.0"}, nil},
	{"`toolchain list`, `toolchain use`", []string{"toolchain list", "toolchain use"}, nvccs},
	{"`scan --libraries`, `bundle`", []string{"scan --libraries program", "bundle program -o b1", "bundle program -o b2 --prove"},
		[]string{`ld-linux\S* .*/program`, `gcc -std=c11 .*/cache/probe/.*`, `(cc1|as|collect2|ld) .*`}},
	{"`features`, the pre-commit hook", []string{"features --features cuda", "features --features cuda --lint"}, graph},
	{"`features --manifest-only` (also with `--lint`) and `ci init` start only", []string{"features --manifest-only",
		"features --manifest-only --lint", "ci init github --stdout --install true"}, []string{`cargo metadata .* --no-deps --offline`}},
	{"`doctor`, `init`, `env`, `stale`, `clean`", []string{"doctor", "init --stdout", "env --features cuda", "stale --features cuda", "clean"},
		slices.Concat(graph, nvccs, gpus, systems, []string{`ld-linux\S* .*/gpubuild`, `cargo clean`})},
	{"`watch`", []string{"watch --for 1s -- true"}, append([]string{`true`}, gpus...)},
	{"results (`--json`, `--gpu-sarif`, …) in a git repository", []string{"scan --json=r.json file",
		"features --manifest-only --json=r.json"},
		[]string{`git (-c core.fsmonitor=false )?(config|status) .*`, `cargo metadata .* --no-deps --offline`}},
	// What these start is the project's, the user's or pip's matter.
	{"`build`, `check`, `run`, `test`, `bench`, `clippy`, `exec`", nil, nil},
	{"`run`, `test`, `bench`, `prove`, `audit`, `build --gpu-prove`, `build` with a `[prove]` table", nil, nil},
	{"`toolchain list --available`, `toolchain install`, `--gpu-toolkit=fetch`", nil, nil},
}

// TestWhatStarts holds the table of SECURITY.md against every program that the verbs start in a repository that brings programs of its own.
func TestWhatStarts(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo", "cc", "git")
	strace := need.Tool(t, "strace")
	security, err := os.ReadFile(filepath.Join(repository, "SECURITY.md"))
	noError(t, err)
	var cells []string
	for _, m := range regexp.MustCompile("(?m)^\\| ((?:`|results).*?) \\| ").FindAllSubmatch(security, -1) {
		cells = append(cells, string(m[1]))
	}
	if len(cells) < 10 {
		t.Fatalf("only these rows of SECURITY.md were read: %q", cells)
	}
	for _, row := range rowsOfStarts {
		if !strings.Contains(string(security), row.row) {
			t.Errorf("SECURITY.md has no row %s", row.row)
		}
		cells = slices.DeleteFunc(cells, func(cell string) bool { return cell == row.row })
	}
	if len(cells) > 0 {
		t.Errorf("not tested: %q", cells)
	}
	for _, verb := range cli.VerbNames() {
		if !slices.ContainsFunc(rowsOfStarts, func(row starts) bool { return regexp.MustCompile("`" + verb + "\\b").MatchString(row.row) }) {
			t.Errorf("no row has %s", verb)
		}
	}
	top := hosttest.PlainDir(t)
	p := planted{text: "[env]\nX = '1'\n"}
	p.plant(t, top)
	p.put(t, top)
	app := filepath.Join(top, "repo", "app")
	tools := filepath.Join(top, "tools")
	user := standinToolkit(t, filepath.Join(top, "user"), "13.4.92")
	self, err := os.Executable()
	noError(t, err)
	noError(t, os.Mkdir(tools, 0o755))
	noError(t, os.Symlink(self, filepath.Join(tools, "standin-nvcc")))
	writeFiles(t, top, map[string]string{"tools/nvcc": "#!/bin/sh\nexec " + user + "/bin/nvcc \"$@\"\n",
		"tools/nvidia-smi": "#!/bin/sh\nexit 9\n",
		"main.c":           "int main(void) { return 0; }\n",
		"repo/app/log":     "`nvidia-smi` failed. Ensure that you have CUDA installed\n"})
	succeeds(t, exec.Command("cc", "-o", filepath.Join(app, "program"), filepath.Join(top, "main.c")))
	noError(t, os.RemoveAll(filepath.Join(app, ".git")))
	noError(t, os.RemoveAll(filepath.Join(top, "repo", ".git")))
	succeeds(t, exec.Command("git", "init", "-q", app))
	program := binary(t)
	env := append(withoutToolkit(), "PATH="+tools+":"+filepath.Join(user, "bin")+":"+filepath.Dir(need.Cargo(t))+":"+userPATH,
		"CARGO_NET_OFFLINE=true", "GPUBUILD_CACHE="+filepath.Join(top, "cache"), "CARGO_HOME="+filepath.Join(top, "home"),
		"GITHUB_ACTIONS=", "GITLAB_CI=")
	first := exec.Command(program, "features", "--manifest-only", "--json=out.json")
	first.Dir, first.Env = app, env
	succeeds(t, first)
	executed := regexp.MustCompile(`(?m)^\d+ +execve\("([^"]*)", \[(.*)\], .*(?: = 0|<(?:unfinished|pid changed to \d+) \.\.\.>)$`)
	word := regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	for _, row := range rowsOfStarts {
		seen := map[string]bool{}
		noError(t, os.RemoveAll(filepath.Join(top, "cache"))) // what was asked before is not asked again
		for _, line := range row.lines {
			trace := filepath.Join(top, "trace")
			c := exec.Command(strace, append([]string{"-f", "-qq", "-s", "4096", "-e", "trace=execve", "-e", "signal=none", "-o", trace, program},
				strings.Fields(line)...)...)
			c.Dir, c.Env = app, env
			out, _ := c.CombinedOutput() // what it says is not judged here
			log, err := os.ReadFile(trace)
			noError(t, err)
			all := executed.FindAllStringSubmatch(string(log), -1)
			if len(all) == 0 || all[0][1] != program {
				t.Fatalf("%s: strace saw no gpubuild\n%s\n%s", line, log, out)
			}
			for _, m := range all[1:] {
				var words []string
				for _, w := range word.FindAllStringSubmatch(m[2], -1) {
					words = append(words, w[1])
				}
				said := strings.TrimSpace(filepath.Base(m[1]) + " " + strings.Join(words[min(1, len(words)):], " "))
				i := slices.IndexFunc(row.runs, func(p string) bool {
					return regexp.MustCompile(`^(?:` + strings.TrimPrefix(p, "? ") + `)$`).MatchString(said)
				})
				if i < 0 {
					t.Errorf("%s: %s starts %s", row.row, line, said)
				} else {
					seen[row.runs[i]] = true
				}
			}
		}
		for _, p := range row.runs {
			if !seen[p] && !strings.HasPrefix(p, "? ") {
				t.Errorf("%s: nothing started that is %s", row.row, p)
			}
		}
	}
	if ran, err := os.ReadFile(filepath.Join(top, "ran")); err == nil {
		t.Errorf("programs of the repository ran: %s", ran)
	}
}
