//go:build linux

package cli_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/cli"
	"gpubuild/cmd/internal/hosttest/clitest"
)

// What differs between two runs or two machines, as the pages show it.
var masks = []struct {
	of *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\b\d+\.\d+s\b`), "0.52s"},
	{regexp.MustCompile(`\b\d+(\.\d+)?( ms| ?µs)|\b\d+\.\d+ms`), "20 ms"},
	{regexp.MustCompile(`\b\d+ files, [0-9.]+ [KM]i?B`), "6 files, 4.2 MiB"},
	{regexp.MustCompile(`(ELF x86_64,|(?m:^)) +\d+ [kM]B\b`), "$1 4 MB"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d \d\d:\d\d`), "2026-11-22 12:00"},
	{regexp.MustCompile(`\(go1\..*\)`), "(go1.26.8, linux/amd64)"},
	{regexp.MustCompile(`0x[0-9a-f]{8,}`), "0x000000a092"},
	{regexp.MustCompile(`/[a-z0-9/_-]*/(libgcc_s|libc|libdl|ld-linux-x86-64)\.so`), "/lib/x86_64-linux-gnu/$1.so"},
	{regexp.MustCompile(`/[a-z0-9/]+/gcc\)`), "/usr/bin/gcc)"},
	{regexp.MustCompile(`\b([1-9]\d*(\.\d+)?|0\.\d+) s\b`), "0.5 s"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
	{regexp.MustCompile(`-[0-9a-f]{16}\b`), "-8c4f5f2d1e0b7a96"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT[0-9:.]+Z`), "2026-11-22T12:00:00Z"},
	{regexp.MustCompile(`\bgcc \d+(\.\d+)*`), "gcc 12"},
	{regexp.MustCompile(`\bg\+\+-\d+`), "g++-12"},
	{regexp.MustCompile(`process \d+`), "process 4242"},
	{regexp.MustCompile(`glibc \d+\.\d+`), "glibc 2.34"},
	{regexp.MustCompile(`cargo \d+\.\d+\.\d+ .*`), "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"},
	{regexp.MustCompile(`gpubuild devel\S*|gpubuild unknown`), "gpubuild 1.0.0"},
}

// TestDocsOfCommands runs the examples of docs/commands on the project of testdata/docs.txtar and compares what they print. In a block
// called console each line that begins with "$ " is run; "# exit code N" at its end names the exit code. A comment <!-- run: COMMAND -->
// prepares, and <!-- gpu --> lets the stand-in driver of the tests be a device. Every command has a page with its help. Rewrite with
// GPUBUILD_TEST=docs and -update, and read the diff.
func TestDocsOfCommands(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(repository, "docs", "commands")
	for _, verb := range append([]string{"build"}, cli.VerbNames()...) { // run.md and test.md compare their flags with build's
		if verb == "cargo" { // it is cargo
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, verb+".md"))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(data), "\n$ gpubuild "+verb+" --help") {
			t.Errorf("%s.md does not show the help of %s", verb, verb)
		}
	}
	for _, what := range []string{"docs", "cargo", "cc", "no-gpu", "amd64"} {
		need.Tool(t, what)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	noError(t, err)
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(page)
			noError(t, err)
			got := newDemo(t).page(string(data))
			if *update {
				noError(t, os.WriteFile(page, []byte(got), 0o644))
			} else if got != string(data) {
				t.Errorf("docs/commands/%s does not show what its commands print (rewrite with -update):\n%s", filepath.Base(page), got)
			}
		})
	}
}

// TestReadmesCommands runs every command of README that is in a block called sh, in order. What a block needs is in a comment before it, as
// in the pages of docs/commands. .ci/run runs the two of the console blocks.
func TestReadmesCommands(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"cargo", "cc", "no-gpu", "amd64"} {
		need.Tool(t, what)
	}
	data, err := os.ReadFile(filepath.Join(repository, "README.md"))
	noError(t, err)
	d := newDemo(t)
	d.gpu()
	inside, ran := false, 0
	for _, line := range strings.Split(string(data), "\n") {
		prepares := strings.HasPrefix(line, "<!-- run: ")
		switch {
		case line == "```sh":
			inside = true
		case line == "```":
			inside = false
		case inside || prepares:
			command, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "<!-- run: "), " -->"), "  #")
			if said, code := d.run(command); code != 0 {
				t.Errorf("%s exited with %d\n%s", command, code, said)
			}
			ran++
		}
	}
	if ran < 5 {
		t.Errorf("README has only %d commands", ran)
	}
}

// demo is the home of a person who tries the examples: a project in ~/demo and a stand-in toolkit in ~/cuda.
type demo struct {
	t    *testing.T
	home string
	path string // the machine's own PATH, which no page may show
	env  []string
}

func newDemo(t *testing.T) *demo {
	temporary, err := filepath.EvalSymlinks(os.TempDir())
	noError(t, err)
	// Lines are wrapped by their width: unlike t.TempDir's, the length of this path does not change from run to run.
	home := filepath.Join(temporary, fmt.Sprintf("gpubuild-demo-%08x", rand.Uint32()))
	noError(t, os.Mkdir(home, 0o700))
	t.Cleanup(func() { os.RemoveAll(home) })
	d := &demo{t: t, home: home}
	archive, err := txtar.ParseFile(filepath.Join(repository, "testdata", "docs.txtar"))
	noError(t, err)
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	writeFiles(t, filepath.Join(home, "demo"), files)
	standinToolkit(t, filepath.Join(home, "cuda"), "13.0.88")
	standinToolkit(t, filepath.Join(home, "cuda-12.9"), "12.9.86")
	writeFiles(t, filepath.Join(home, "cuda", "lib64", "stubs"), map[string]string{"libcuda.so": ""})
	for _, e := range os.Environ() {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return dir == "" })
			d.path = strings.Join(dirs, string(filepath.ListSeparator)) // as gpubuild writes it
			d.env = append(d.env, "PATH="+d.path)
		case "RUSTUP_TOOLCHAIN", "TMPDIR":
			d.env = append(d.env, e)
		}
	}
	d.env = append(d.env, "HOME="+home, "RUSTUP_HOME="+rustupHome(), "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_INCREMENTAL=0",
		"GPUBUILD_CACHE="+filepath.Join(home, ".cache", "gpubuild"), "CUDA_HOME="+filepath.Join(home, "cuda"), "LC_ALL=C.UTF-8")
	return d
}

// page answers a page with what its commands print now.
func (d *demo) page(text string) string {
	var out strings.Builder
	inside, printed := false, false
	for _, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimSuffix(line, "\n")
		switch {
		case inside && bare == "```":
			inside, printed = false, false
		case bare == "```console":
			inside = true
		case inside && strings.HasPrefix(bare, "$ "):
			command, want := strings.TrimPrefix(bare, "$ "), "0"
			if c, code, found := strings.Cut(command, "# exit code "); found {
				command, want = strings.TrimSpace(c), code
			}
			said, code := d.run(command)
			if fmt.Sprint(code) != want {
				d.t.Errorf("%s exited with %d, not %s\n%s", command, code, want, said)
			}
			line += said
			printed = true
		case inside && printed:
			continue // what the command printed before
		case bare == "<!-- gpu -->":
			d.gpu()
		case strings.HasPrefix(bare, "<!-- run: "):
			command := strings.TrimSuffix(strings.TrimPrefix(bare, "<!-- run: "), " -->")
			if said, code := d.run(command); code != 0 {
				d.t.Fatalf("%s exited with %d\n%s", command, code, said)
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// run runs a command line in the project and answers what a terminal shows.
func (d *demo) run(command string) (string, int) {
	c := exec.Command("sh", "-c", command)
	c.Dir, c.Env = filepath.Join(d.home, "demo"), d.env
	data, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	said := strings.ReplaceAll(strings.ReplaceAll(string(data), d.path, "/usr/local/bin:/usr/bin:/bin"), d.home, "~")
	for _, m := range masks {
		said = m.of.ReplaceAllString(said, m.to)
	}
	if said != "" && !strings.HasSuffix(said, "\n") {
		said += "\n"
	}
	var lines []string
	for _, l := range strings.SplitAfter(said, "\n") {
		lines = append(lines, strings.TrimRight(l, " \n"))
	}
	return strings.Join(lines, "\n"), c.ProcessState.ExitCode()
}

// gpu puts the stand-in driver where a real one would be. Only a test binary takes it for real.
func (d *demo) gpu() {
	dir, err := clitest.Standin(repository)
	noError(d.t, err)
	bin := filepath.Join(d.home, "bin")
	writeFiles(d.t, bin, map[string]string{"gpubuild": "#!/bin/sh\nexec gpubuild-standin \"$@\"\n"})
	driver := filepath.Join(d.home, "standin")
	for lib, to := range map[string]string{"libcuda.so.1": driver, "nvidia-smi": bin,
		"libcupti.so.13": filepath.Join(d.home, "cuda", "extras", "CUPTI", "lib64")} {
		data, err := os.ReadFile(filepath.Join(dir, lib))
		noError(d.t, err)
		writeFiles(d.t, to, map[string]string{lib: string(data)})
	}
	writeFiles(d.t, driver, map[string]string{"node": ""})
	for i, e := range d.env {
		if path, found := strings.CutPrefix(e, "PATH="); found {
			d.env[i] = "PATH=" + bin + ":" + path
		}
	}
	d.env = append(d.env, "LD_LIBRARY_PATH="+driver)
}
