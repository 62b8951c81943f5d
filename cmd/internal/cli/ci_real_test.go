//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/gpu/driver"
)

// minor is the toolkit's version as a matrix names it.
func minor(t *testing.T, root string) string {
	t.Helper()
	v := strings.Split(nvccVersion(t, root), ".")
	return v[0] + "." + v[1]
}

// ended is a command's exit code and all that it said.
func ended(t *testing.T, c *exec.Cmd) (int, string) {
	t.Helper()
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), text.String()
}

// rowsOf lists the IDs of the matrix, and what was left out.
func rowsOf(t *testing.T, c *exec.Cmd) (ids []string) {
	t.Helper()
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Rows []struct{ ID string }
	}
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Rows {
		ids = append(ids, r.ID)
	}
	return ids
}

func (b *twoToolkits) matrix(text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "gpubuild.toml"), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "CUDA_HOME="+b.first, "CUDA_PATH="+b.other)
}

// TestMatrixRowByRow runs every row of a matrix on this machine with real toolkits, without a container: rows that compile hold code of
// their own toolkit and architecture, rows that prove end with the program's own code where there is no GPU, whatever their wrapper makes
// of an exit status.
func TestMatrixRowByRow(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	first, other := minor(t, b.first), minor(t, b.other)
	places := ""
	for name, wrapper := range map[string]string{
		"plain":  "",
		"killed": `sh -c '"$@"; exit 143' wrapper`, // srun --kill-on-bad-exit=1
	} {
		places += fmt.Sprintf("[[matrix.prove]]\nname = %q\ncuda = [%q]\narch = [\"sm_80\"]\nwrapper = %q\n", name, first, wrapper)
	}
	b.matrix(fmt.Sprintf("[prove]\nargs = [\"--device\", \"cuda\", \"--sizes\", \"64\"]\n[matrix]\ncuda = [%q, %q]\narch = [\"sm_80\", "+
		"\"sm_90\"]\n%s", first, other, places))
	program := binary(t)
	ids := rowsOf(t, b.command(nil, program, "ci", "matrix", "--json"))
	if len(ids) != 4+2 {
		t.Fatalf("got rows %v", ids)
	}
	for _, id := range ids {
		if strings.HasPrefix(id, "prove-") {
			continue
		}
		code, text := ended(t, b.command(nil, program, "ci", "run", id))
		arch := regexp.MustCompile(`sm_\d+`).FindString(id)
		root := b.first
		if strings.Contains(id, "cuda"+other) {
			root = b.other
		}
		if want := "cubin " + arch + " (nvcc " + nvccVersion(t, root) + ")"; code != 0 || !strings.Contains(text, want) {
			t.Errorf("%s ended with %d and has no %q:\n%s", id, code, want, text)
		}
	}
	if exists("/dev/nvidia0") {
		need.Missing(t, "no-gpu", "the rest is about a machine without a GPU")
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, "prove-") {
			continue
		}
		code, text := ended(t, b.command([]string{"CARGO_TARGET_DIR=/nonexistent"}, program, "ci", "run", id))
		if code != 1 || strings.Contains(text, "gpubuild-ci ") || !strings.Contains(text, "there is no CUDA driver here") {
			t.Errorf("%s ended with %d, want the program's own 1:\n%s", id, code, text)
		}
	}
}

// TestProofRowIsProvenOnTheStandIn: with a device and a driver that a test may call real, the same row ends with 0, through a wrapper, too.
func TestProofRowIsProvenOnTheStandIn(t *testing.T) {
	t.Parallel()
	if !strings.HasPrefix(driver.Means(), "NVML") {
		need.Missing(t, "nvml", "this gpubuild was built without NVML, by which the stand-in device would be seen")
	}
	b := sampleWithTwoToolkits(t)
	libs := t.TempDir()
	for file, lib := range map[string]string{"cuda.c": "libcuda.so.1", "cupti.c": "libcupti.so.13", "nvml.c": "libnvidia-ml.so.1"} {
		dir := libs
		if file == "nvml.c" {
			dir = filepath.Join(libs, "standin-nvml")
		} else {
			dir = filepath.Join(libs, "standin")
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b.must(exec.Command("gcc", "-O2", "-shared", "-fPIC", "-pthread", "-Wl,-soname,"+lib,
			filepath.Join(repository, "testdata", "standin", file), "-o", filepath.Join(dir, lib), "-ldl"))
	}
	if err := os.WriteFile(filepath.Join(libs, "standin", "node"), nil, 0o600); err != nil { // in place of the device
		t.Fatal(err)
	}
	b.matrix(fmt.Sprintf(`[matrix]
cuda = [%q]
arch = ["sm_80"]
[[matrix.prove]]
name = "gpu"
args = ["--device", "cuda", "--sizes", "64"]
[[matrix.prove]]
name = "cpu"
args = ["--device", "cpu", "--sizes", "64"]
`, minor(t, b.first)))
	b.env = append(b.env, "LD_LIBRARY_PATH="+filepath.Join(libs, "standin")+":"+filepath.Join(libs, "standin-nvml"))
	program := testProgram(t, "gpubuild-standin")
	compile := "cuda-cuda" + minor(t, b.first) + "-sm_80-linux-x86_64-dev"
	if code, text := ended(t, b.command(nil, program, "ci", "run", compile)); code != 0 || !strings.Contains(text, "libcublas") &&
		!strings.Contains(text, "Archived") {
		t.Fatalf("the row that compiles ended with %d:\n%s", code, text)
	}
	for place, want := range map[string]struct {
		code int
		says string
	}{"gpu": {0, "ran its kernel on Stand-in device"}, "cpu": {20, "it ran on the CPU"}} {
		code, text := ended(t, b.command(nil, program, "ci", "prove", "target/gpubuild-ci/archives/"+compile+".tar", "--row=prove-"+place+
			"-"+compile,
			"--cupti="+filepath.Join(libs, "standin", "libcupti.so.13"), "--results="+place))
		if code != want.code || !strings.Contains(text, want.says) {
			t.Errorf("%s ended with %d, want %d:\n%s", place, code, want.code, text)
		}
		data, err := os.ReadFile(filepath.Join(b.dir, place, "prove.json"))
		if err != nil || !strings.Contains(string(data), `"compile_row": "`+compile+`"`) {
			t.Errorf("%s left %.300s, %v", place, data, err)
		}
	}
}

// testProgram is this test binary under the name of one of TestMain's programs, as a file of its own: a program finds itself by its file.
func testProgram(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), name)
	if os.Link(self, to) == nil {
		return to
	}
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestWorkflowRunsHere takes the jobs of both workflows apart and runs their shell text with the shells that CI uses, from the matrix to a
// row that compiles; only the actions, which are not ours, are left out.
func TestWorkflowRunsHere(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	version := minor(t, b.other)
	b.matrix(fmt.Sprintf("[matrix]\ncuda = [%q]\narch = [\"sm_80\"]\n[[matrix.prove]]\nname = \"gpu\"\n[ci]\ninstall = \"echo "+
		"installing\"\nsetup = \"export A=1\"\n", version))
	dir := filepath.Dir(b.dir)
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil { // the project lies below its repository
		t.Fatal(err)
	}
	// The toolkit that the workflow fetches is in the cache already: nothing is downloaded.
	cached := filepath.Join(dir, "cache", "toolkits")
	if err := os.MkdirAll(cached, 0o700); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(filepath.Base(b.other), "cuda-"+version) {
		need.Missing(t, "toolkit", "%s is no toolkit of gpubuild's cache, as the workflow would fetch it", b.other)
	}
	if err := os.Symlink(b.other, filepath.Join(cached, filepath.Base(b.other))); err != nil {
		t.Fatal(err)
	}
	program := binary(t)
	path := "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")
	gitHub := func(job, row string, shell ...string) (int, string, string) {
		out, err := b.command(nil, program, "ci", "init", "github", "--stdout").Output()
		if err != nil {
			t.Fatal(err)
		}
		var w struct {
			Defaults struct {
				Run struct {
					Dir string `yaml:"working-directory"`
				}
			}
			Jobs map[string]struct {
				Steps []struct {
					Name, If, Run string
				}
			}
		}
		if err := yaml.Unmarshal(out, &w); err != nil {
			t.Fatal(err)
		}
		outputs := filepath.Join(t.TempDir(), "outputs")
		all := ""
		for _, s := range w.Jobs[job].Steps {
			if s.Run == "" || s.If == "matrix.container" || s.If == "matrix.archived" {
				continue
			}
			c := b.command([]string{path, "GITHUB_OUTPUT=" + outputs, "GITHUB_PATH=" + outputs + ".path", "GPUBUILD_ROW=" + row},
				append(slices.Clone(shell), s.Run)...)
			c.Dir = filepath.Join(dir, w.Defaults.Run.Dir)
			code, text := ended(t, c)
			if all += text; code != 0 {
				return code, all, ""
			}
		}
		data, err := os.ReadFile(outputs)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return 0, all, string(data)
	}
	bash := []string{"bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"} // docs.github.com, "Workflow syntax", shell: bash
	code, text, outputs := gitHub("plan", "", bash...)
	if code != 0 || !strings.Contains(outputs, "\ncompile_count=1\n") || !strings.Contains(outputs, "\nproof_count=1\n") {
		t.Fatalf("the plan job ended with %d:\n%s\n%s", code, text, outputs)
	}
	var rows map[string][]struct{ ID string }
	line, _, _ := strings.Cut(strings.TrimPrefix(outputs, "compile="), "\n")
	if err := json.Unmarshal([]byte(line), &rows); err != nil {
		t.Fatal(err)
	}
	id := rows["include"][0].ID
	for _, shell := range [][]string{bash, {"sh", "-e", "-c"}} {
		if code, text, _ := gitHub("compile", id, shell...); code != 0 || !strings.Contains(text, "Finished") ||
			!strings.Contains(text, "is already in") && !strings.Contains(text, b.other) && !strings.Contains(text, cached) {
			t.Errorf("%s: the row ended with %d:\n%s", shell[0], code, text)
		}
	}
	// GitLab: the plan job's script, then a job of the pipeline that it made.
	script := func(data []byte, job string, env ...string) (int, string) {
		var jobs map[string]any
		if err := yaml.Unmarshal(data, &jobs); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, l := range jobs[job].(map[string]any)["script"].([]any) {
			if !strings.Contains(l.(string), "apt-get") {
				lines = append(lines, l.(string))
			}
		}
		c := b.command(append(env, path, "CI_PROJECT_DIR="+dir), "sh", "-e", "-c", strings.Join(lines, "\n"))
		c.Dir = dir
		return ended(t, c)
	}
	out, err := b.command(nil, program, "ci", "init", "gitlab", "--stdout").Output()
	if err != nil {
		t.Fatal(err)
	}
	if code, text := script(out, "plan"); code != 0 {
		t.Fatalf("GitLab's plan job ended with %d:\n%s", code, text)
	}
	child, err := os.ReadFile(filepath.Join(dir, "gpubuild-rows.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if code, text := script(child, "compile-1", "GPUBUILD_ROW="+id); code != 0 || !strings.Contains(text, "Finished") {
		t.Errorf("GitLab's row ended with %d:\n%s", code, text)
	}
	proof := "prove-gpu-" + id
	if code, text := script(child, proof, "GPUBUILD_ROW="+proof, "ARCHIVE="+filepath.Join(filepath.Base(b.dir),
		"target/gpubuild-ci/archives", id+".tar")); code != 21 && !exists("/dev/nvidia0") {
		t.Errorf("GitLab's row that proves ended with %d:\n%s", code, text)
	}
}

// BenchmarkMatrix200 is the whole process that prints 200 rows, with cargo's answers kept.
func BenchmarkMatrix200(b *testing.B) {
	dir := b.TempDir()
	sample, err := filepath.Abs(filepath.Join(repository, "testdata", "matmul"))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"Cargo.toml", "Cargo.lock", "build.rs", "src/main.rs", "src/lib.rs"} {
		data, err := os.ReadFile(filepath.Join(sample, name))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	toml := "[matrix]\ncuda = [\"13.0\", \"13.1\", \"13.2\", \"13.3\", \"13.4\"]\narch = [\"75\", \"80\", \"86\", \"87\", \"88\", " +
		"\"89\", \"90\", \"100\", \"110\", \"120\"]\nprofile = [\"dev\", \"release\", \"a\", \"b\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "gpubuild.toml"), []byte(toml), 0o644); err != nil {
		b.Fatal(err)
	}
	words := []string{binary(b), "ci", "matrix", "--format", "github", "--manifest-path", filepath.Join(dir, "Cargo.toml")}
	env := append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(dir, ".cache"))
	run := func() time.Duration {
		c := exec.Command(words[0], words[1:]...)
		c.Env = env
		began := time.Now()
		out, err := c.Output()
		if err != nil || !bytes.Contains(out, []byte("\ncompile_count=200\n")) {
			b.Fatalf("%v\n%.500s", err, out)
		}
		return time.Since(began)
	}
	cold := run()
	var all []float64
	b.ResetTimer()
	for range b.N {
		all = append(all, float64(run().Microseconds())/1000)
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2], "median-ms")
	b.ReportMetric(float64(cold.Microseconds())/1000, "first-ms")
	b.ReportMetric(0, "ns/op")
}
