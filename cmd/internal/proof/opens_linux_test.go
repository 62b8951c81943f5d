package proof

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
)

// TestOpenedLibraries: a program finds the libraries that it opens itself, which no import shows: cuDNN's is that of the toolkit's CUDA.
func TestOpenedLibraries(t *testing.T) {
	t.Parallel()
	gcc := need.Tool(t, "cc")
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range []string{"kit/libnvrtc.so.13", "dnn/lib/libcudnn.so.9", "old/libcufft.so.11"} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(gcc, "-shared", "-x", "c", "/dev/null", "-o", file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	h.Env = h.Env.Set("CUDNN_PATH", filepath.Join(dir, "dnn")).Set("LD_LIBRARY_PATH", filepath.Join(dir, "old"))
	m := &session.Machine{Host: h, Runner: proc.Runner{}, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}}
	kits := []cuda.Toolkit{{Root: dir, Lib: filepath.Join(dir, "kit"), Version: gpu.Version{Major: 13}}}
	opens := []features.NeedReason{{Need: "the NVIDIA driver"}, {Need: "libnvrtc"}, {Need: "libcudnn"}, {Need: "libcufft"}, {Need: "libgone"}}
	rt, err := Libraries(t.Context(), m, kits, opens, h.Env, "/bin/sh")
	want := h.JoinList(filepath.Join(dir, "old"), filepath.Join(dir, "kit"), filepath.Join(dir, "dnn", "lib"))
	if got := rt.Env.Get("LD_LIBRARY_PATH"); err != nil || got != want || len(rt.Lacks) > 0 {
		t.Errorf("%s, %v, %q; want %s", got, err, rt.Lacks, want)
	}
}
