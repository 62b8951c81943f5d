package cli_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestLongForeignText: a key or a value of a megabyte in a file of the project is not printed whole.
func TestLongForeignText(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	long := strings.Repeat("x", 1<<20)
	for story, config := range map[string]string{
		"an unknown key":     long + " = 1\n",
		"an unknown subkey":  "[toolchain]\n" + long + " = 1\n",
		"a table":            "[" + long + "]\n",
		"a version":          "toolchain.cuda = \"" + long + "\"\n",
		"an architecture":    "toolchain.arch = \"" + long + "\"\n",
		"another type":       "toolchain.arch = [\"" + long + "\"]\n",
		"a pattern":          "prove.kernel = \"(" + long + "\"\n",
		"a duration":         "prove.min-gpu-time = \"" + long + "\"\n",
		"an alert":           "watch.fail-on = [\"" + long + "\"]\n",
		"a hold":             "watch.hold = \"" + long + "\"\n",
		"a feature":          "gpu-features = [\"" + long + "\"]\n",
		"a package":          "gpu-packages = [\"" + long + "\"]\n",
		"a target":           "test.gpu = [\"" + long + "\"]\n",
		"a place":            "[on.a]\nplace = \"" + long + "\"\n",
		"a place's name":     "[on." + long + "]\nplace = \"slurm\"\n",
		"an image":           "ci.image = \"" + long + "\"\n",
		"what is no TOML":    long,
		"a string's end":     "toolchain.arch = \"" + long + "\n",
		"a key twice":        long + " = 1\n" + long + " = 2\n",
		"a value of no kind": "toolchain.arch = " + long + "\n",
	} {
		dir := t.TempDir()
		files := maps.Clone(hostile)
		delete(files, ".cargo/config.toml")
		files["src/main.rs"], files["gpubuild.toml"] = "fn main() {}\n", config
		writeFiles(t, dir, files)
		for _, args := range [][]string{{"features", "--features", "cuda"}, {"stale", "--features", "cuda"}, {"check", "--features", "cuda", "--gpu-json=-"}, {"prove", "--on", "a", "x"},
			{"ci", "init", "gitlab", "--install", "true", "--stdout"}} {
			c := exec.Command(binary(t), args...)
			c.Dir, c.Env = dir, append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(dir, ".cache"), "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never")
			out, _ := c.CombinedOutput() // most are errors
			if len(out) > 8<<10 || bytes.Contains(out, []byte(long[:301])) || slices.ContainsFunc(bytes.Split(out, []byte("\n")), func(l []byte) bool { return len(l) > 1000 }) {
				t.Errorf("%s: %q printed %d bytes: %.300s…", story, args, len(out), out)
			}
		}
	}
}
