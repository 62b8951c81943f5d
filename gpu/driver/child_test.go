//go:build linux && cgo

package driver_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/gpu/driver"
)

// The child is this very test binary.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == driver.ChildArg {
		os.Exit(driver.ChildMain(os.Stdout))
	}
	if len(os.Args) == 2 && os.Args[1] == driver.WatchArg {
		os.Exit(driver.WatchMain(os.Stdout))
	}
	os.Exit(m.Run())
}

// processes runs commands for real, with a shorter patience.
type processes struct{ patience time.Duration }

func (p processes) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if p.patience == 0 {
		p.patience = c.Timeout
	}
	bounded, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	cmd := exec.CommandContext(bounded, c.Path, c.Args...)
	cmd.Env = c.Env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	res := buildenv.Result{Stdout: out.Bytes(), Stderr: errs.Bytes(), Code: cmd.ProcessState.ExitCode(), TimedOut: bounded.Err() != nil}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return res, &buildenv.ExitError{Cmd: c, Result: res}
	}
	return res, err
}

// standin builds a stand-in library and answers its directory.
func standin(t *testing.T, flags ...string) string {
	t.Helper()
	cc := need.Tool(t, "cc")
	dir := t.TempDir()
	args := append(slices.Clone(flags), "-O1", "-Wall", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1",
		"-o", filepath.Join(dir, "libnvidia-ml.so.1"), filepath.Join("..", "..", "testdata", "standin", "nvml.c"))
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func TestChildAgainstStandIn(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	whole, ancient := standin(t), standin(t, "-DANCIENT")
	empty := filepath.Join(t.TempDir(), "x")
	if err := os.MkdirAll(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(empty, "e.c")
	if err := os.WriteFile(source, []byte("int nothing;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", filepath.Join(empty, "libnvidia-ml.so.1"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := t.TempDir()
	if err := os.WriteFile(filepath.Join(text, "libnvidia-ml.so.1"), []byte("not a library\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		story, dir, script string
		patience           time.Duration
		driver             string
		devices            []string
		note               string
	}{
		{story: "one H200", dir: whole, driver: "580.65.06 13.0 NVML",
			devices: []string{"0 GPU-00000000-0000-0000-0000-000000000000 NVIDIA H200 9.0 150754820096"}},
		{story: "two GPUs and an older driver", dir: whole, driver: "550.54.15 12.4 NVML",
			script:  "driver 550.54.15\ncuda 12040\ngpu 0 name=NVIDIA+L4 uuid=GPU-a cc=8.9 memory=24152899584 # a comment\ngpu 1 uuid=GPU-b\n",
			devices: []string{"0 GPU-a NVIDIA L4 8.9 24152899584", "1 GPU-b NVIDIA H200 9.0 150754820096"}},
		{story: "one of two is lost", dir: whole, driver: "580.65.06 13.0 NVML", script: "gpu 1 uuid=GPU-b\ngpu 0 lost=1\n",
			devices: []string{"1 GPU-b NVIDIA H200 9.0 150754820096"}, note: "GPU 0: GPU is lost"},
		{story: "a driver without GPUs", dir: whole, driver: "580.65.06 13.0 NVML", script: "driver 580.65.06\n", note: "0 GPU(s)"},
		{story: "the library talks", dir: whole, driver: "580.65.06 13.0 NVML", script: "chatter\n", note: "0 GPU(s)"},
		{story: "library and kernel module differ", dir: whole, script: "error 18\n", driver: "  ", note: "NVML: Driver/library version mismatch"},
		{story: "an old driver lacks functions", dir: ancient, driver: "450.80.02 11.0 NVML", script: "driver 450.80.02\ngpu 0 uuid=GPU-a\n",
			devices: []string{"0 GPU-a NVIDIA H200 unknown 150754820096"}, note: "too old to report its compute capability"},
		{story: "an old driver fails without words", dir: ancient, script: "error 9\n", driver: "  ", note: "NVML: NVML error 9"},
		{story: "a library without any function", dir: empty, driver: "  ", note: "NVML: libnvidia-ml.so.1 has no nvmlInit_v2"},
		{story: "a library that is none", dir: text, driver: "  ", note: "NVML: "},
		{story: "the driver hangs", dir: whole, script: "hang\n", patience: 300 * time.Millisecond, driver: "  ", note: "NVML: no answer in 5s"},
		{story: "the driver crashes", dir: whole, script: "crash\n", driver: "  ", note: "NVML: the driver's library crashed: SIG"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			env := append(os.Environ(), "PATH=/nowhere", "LD_LIBRARY_PATH="+tt.dir)
			if tt.script != "" {
				path := filepath.Join(t.TempDir(), "script")
				if err := os.WriteFile(path, []byte(tt.script), 0o644); err != nil {
					t.Fatal(err)
				}
				env = append(env, "NVML_STANDIN="+path)
			}
			h := machine("linux", env, map[string]string{filepath.Join(tt.dir, "libnvidia-ml.so.1"): ""})
			d, devices, notes := driver.Inventory(context.Background(), h, processes{tt.patience}, self)
			cuda := d.CUDA.String()
			if d.CUDA.IsZero() {
				cuda = ""
			}
			if got := d.Version + " " + cuda + " " + d.Origin; got != tt.driver {
				t.Errorf("driver: got %q, want %q", got, tt.driver)
			}
			if got := describe(devices); !slices.Equal(got, tt.devices) {
				t.Errorf("devices: got %q, want %q", got, tt.devices)
			}
			if !strings.Contains(strings.Join(notes, "\n"), tt.note) {
				t.Errorf("notes: got %q, want %q among them", notes, tt.note)
			}
		})
	}
}
