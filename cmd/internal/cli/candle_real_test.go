//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestCandleOnTheStandin proves a real candle program, kernels, cudarc and all, on the stand-in driver. The products are stand-in cuBLAS's,
// which launches its kernel through the driver as NVIDIA's does; the softmax is candle's own kernel. The other program is candle-broken,
// which was built with the same feature, and on the CPU.
func TestCandleOnTheStandin(t *testing.T) {
	t.Parallel()
	gpu, cpu, _ := strings.Cut(need.Value(t, "candle"), ":")
	gcc := need.Tool(t, "cc")
	dir := t.TempDir()
	lib := filepath.Join(dir, "standin")
	noError(t, os.Mkdir(lib, 0o755))
	source := filepath.Join(repository, "testdata", "standin")
	for _, l := range []struct{ file, name, more string }{
		{"cuda.c", "libcuda.so.1", ""}, {"cupti.c", "libcupti.so.13", ""}, {"cublas.c", "libcublas.so.13", "-DBLAS"},
		{"cublas.c", "libcurand.so.10", ""},
	} {
		args := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
			"-Wl,-soname," + l.name,
			filepath.Join(source, l.file), "-o", filepath.Join(lib, l.name)}
		if l.more != "" {
			args = append(args, l.more, "-L"+lib, "-l:libcuda.so.1")
		}
		succeeds(t, exec.Command(gcc, append(args, "-ldl")...))
	}
	if err := os.WriteFile(filepath.Join(lib, "node"), nil, 0o600); err != nil { // in place of the device
		t.Fatal(err)
	}
	self, err := os.Executable()
	noError(t, err)
	for _, name := range []string{"gpubuild", "gpubuild-standin"} {
		noError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	prove := func(tool, program string, env, flags []string, args ...string) (string, int) {
		t.Helper()
		words := append(append([]string{"prove", "--cupti=" + filepath.Join(lib, "libcupti.so.13")}, flags...), program, "--")
		c := exec.Command(filepath.Join(dir, tool), append(words, args...)...)
		// libcudart and libcudnn are NVIDIA's own, and are not asked for anything
		c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "CUDA_HOME="+need.FirstToolkit())
		c.Env = append(c.Env, env...)
		out, err := c.CombinedOutput()
		return string(out), code(err)
	}
	tests := []struct {
		story      string
		tool       string
		program    string
		env, flags []string
		args       []string
		code       int
		want       []string
	}{
		{"matmul and softmax", "gpubuild-standin", gpu, nil, nil, []string{"--device", "cuda", "--sizes", "16,33"}, 0,
			[]string{"device: cuda 0", "candle-matmul ran its kernel on Stand-in device", "standin_sgemm", "4 launches"}},
		{"its own kernel was asked for", "gpubuild-standin", gpu, nil, []string{"--kernel=^softmax_f32$"},
			[]string{"--device", "cuda", "--sizes", "64"}, 0, []string{"Proved", "ran: 2 launches of softmax_f32"}},
		{"takes the GPU by itself", "gpubuild-standin", gpu, nil, nil,
			[]string{"--sizes", "16", "--ops", "matmul"}, 0, []string{"Proved", "device: cuda 0"}},
		{"its memory is full: it fails, and is not proven", "gpubuild-standin", gpu, []string{"STANDIN_CUDA_MEMORY=1023"}, nil,
			[]string{"--sizes", "16"}, 1, []string{"Not proven", "ended with status 1"}},
		{"the CPU was asked for: it links the driver and opens no device", "gpubuild-standin", gpu, nil, nil,
			[]string{"--device", "cpu", "--sizes", "16"}, 20, []string{"no GPU use was seen"}},
		{"the device is hidden", "gpubuild-standin", gpu, []string{"CUDA_VISIBLE_DEVICES=-1"}, nil, []string{"--sizes", "16"}, 21,
			[]string{"device: cpu", "hidden by CUDA_VISIBLE_DEVICES=-1"}},
		{"the shipped predicate", "gpubuild", gpu, nil, nil, []string{"--device", "cuda", "--sizes", "16"}, 21,
			[]string{"Not proven", "stand-in"}},
		{"a feature that was not forwarded", "gpubuild-standin", cpu, nil, nil, nil, 20,
			[]string{"device: Cpu", "Not used", "no GPU use was seen"}},
		{"the same, as it was expected", "gpubuild-standin", cpu, nil, []string{"--expect=cpu"}, nil, 0, []string{"Not used"}},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			out, got := prove(tt.tool, tt.program, tt.env, tt.flags, tt.args...)
			if got != tt.code {
				t.Errorf("ended with %d, want %d", got, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
