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

// TestFetchedToolkitByCC fetches a toolkit from NVIDIA's wheels and has the cc crate compile and link with it, by gpubuild with nothing set
// by hand, and by plain cargo with nvcc on PATH alone: cc names the directory of libcudart_static.a itself, and only where NVIDIA's
// installers put it.
func TestFetchedToolkitByCC(t *testing.T) {
	t.Parallel()
	need.Asked(t, "network")
	fixture, err := filepath.Abs(filepath.Join(repository, "testdata", "kernels"))
	if err != nil {
		t.Fatal(err)
	}
	needCrates(t, fixture)
	top := t.TempDir()
	env := []string{"CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "GPUBUILD_CACHE=" + filepath.Join(top, "cache")}
	for _, e := range os.Environ() {
		switch name, _, _ := strings.Cut(e, "="); {
		case strings.HasPrefix(name, "CUDA"), strings.HasPrefix(name, "NVCC"), strings.HasPrefix(name, "GPUBUILD_"),
			strings.HasPrefix(name, "CARGO_TARGET"), name == "LIBRARY_PATH", name == "RUSTFLAGS":
		default:
			env = append(env, e)
		}
	}
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
	must(nil, binary(t), "toolchain", "install")
	roots, err := filepath.Glob(filepath.Join(top, "cache", "toolkits", "cuda-*"))
	if err != nil || len(roots) != 1 {
		t.Fatalf("toolkits %q, %v", roots, err)
	}
	build := []string{"build", "-p", "kernels", "--features", "cc"}
	must([]string{"CARGO_TARGET_DIR=" + filepath.Join(top, "by-gpubuild")}, append(append([]string{binary(t)}, build...), "--gpu-arch",
		"sm_90")...)

	plain := []string{"CARGO_TARGET_DIR=" + filepath.Join(top, "by-cargo"), "CUDA_COMPUTE_CAP=90",
		"PATH=" + filepath.Join(roots[0], "bin") + ":" + os.Getenv("PATH")}
	must(plain, append([]string{"cargo"}, build...)...)
	if err := os.RemoveAll(filepath.Join(roots[0], "targets")); err != nil {
		t.Fatal(err)
	}
	must(plain, "cargo", "clean", "-q", "-p", "kernels", "-p", "kernels-cc")
	if out, err := run(plain, append([]string{"cargo"}, build...)...); err == nil || !strings.Contains(out, "cudart_static") {
		t.Errorf("it links without targets, too, so this test shows nothing: %v\n%s", err, out)
	}
}
