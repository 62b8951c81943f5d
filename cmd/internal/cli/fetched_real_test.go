//go:build linux

package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestFetchedToolkitByCC has the cc crate compile and link with a toolkit that gpubuild fetched, by gpubuild with nothing set by hand, and by
// plain cargo with nvcc on PATH alone: cc names the directory of libcudart_static.a itself, and only where NVIDIA's installers put it.
func TestFetchedToolkitByCC(t *testing.T) {
	t.Parallel()
	installed := need.Toolkit(t)
	if !exists(filepath.Join(installed, "gpubuild-toolkit.json")) {
		need.Missing(t, "toolkit", "%s is not from gpubuild toolchain install", installed)
	}
	fixture, err := filepath.Abs(filepath.Join(repository, "testdata", "kernels"))
	noError(t, err)
	need.Crates(t, fixture)
	top := t.TempDir()
	env := append(withoutToolkit(), "PATH="+os.Getenv("PATH"), "LIBRARY_PATH=", "RUSTFLAGS=", "CARGO_NET_OFFLINE=true",
		"CARGO_TERM_COLOR=never", "GPUBUILD_CACHE="+filepath.Join(top, "cache"), "CARGO_TARGET_DIR="+filepath.Join(top, "target"))
	run := func(more []string, words ...string) (string, error) {
		c := exec.Command(words[0], words[1:]...)
		c.Dir, c.Env = fixture, append(append([]string{}, env...), more...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		err := c.Run()
		return out.String(), err
	}
	must := func(more []string, words ...string) {
		t.Helper()
		if out, err := run(more, words...); err != nil {
			t.Fatalf("%v: %v\n%s", words, err, out)
		}
	}
	root := filepath.Join(top, "cache", "toolkits", filepath.Base(installed))
	succeeds(t, exec.Command("sh", "-ec", "mkdir -p "+quote(filepath.Dir(root))+"; cp -a "+quote(installed)+" "+quote(root)))
	build := []string{"build", "-p", "kernels", "--features", "cc"}
	must(nil, append(append([]string{binary(t)}, build...), "--gpu-arch", "sm_90")...)

	clean := []string{"cargo", "clean", "-q", "-p", "kernels", "-p", "kernels-cc"}
	plain := []string{"CUDA_COMPUTE_CAP=90", "PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}
	must(plain, clean...)
	must(plain, append([]string{"cargo"}, build...)...)
	noError(t, os.RemoveAll(filepath.Join(root, "targets")))
	must(plain, clean...)
	if out, err := run(plain, append([]string{"cargo"}, build...)...); err == nil || !strings.Contains(out, "cudart_static") {
		t.Errorf("it links without targets, too, so this test shows nothing: %v\n%s", err, out)
	}
}
