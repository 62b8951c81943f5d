//go:build linux && cgo && (amd64 || arm64)

package driver_test

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
)

// TestMain is the child that asks NVML, where this test binary is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == driver.ChildWord {
		os.Exit(driver.Child(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// TestEveryFunctionOfNVML: go-nvml's functions are all ours, so that a program without a driver starts even if its linker binds them at once.
func TestEveryFunctionOfNVML(t *testing.T) {
	file := hosttest.Must(elf.Open(hosttest.Must(proc.Self())(t)))(t)
	defer file.Close()
	symbols := hosttest.Must(file.ImportedSymbols())(t)
	if len(symbols) == 0 {
		t.Error("this test binary imports nothing: it was not linked with cgo")
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "nvml") {
			t.Errorf("%s is in no list of nvml_linux.c", s.Name)
		}
	}
}

// nvmlStandin builds the stand-in library and returns its directory.
func nvmlStandin(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := append(flags, "-O1", "-Wall", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", filepath.Join(dir, "libnvidia-ml.so.1"),
		filepath.Join("..", "..", "testdata", "standin", "nvml.c"))
	if out, err := exec.Command(need.Tool(t, "cc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// nvmlMachine is this machine with a library of a directory, its script, and no nvidia-smi.
func nvmlMachine(t *testing.T, dir, script string, run buildenv.Runner) driver.Machine {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	h.Env = h.Env.Set("PATH", filepath.Join(dir, "bin")).Set("LD_LIBRARY_PATH", dir)
	if script != "" {
		file := filepath.Join(t.TempDir(), "script")
		hosttest.OK(t, os.WriteFile(file, []byte(script), 0o644))
		h.Env = h.Env.Set("NVML_STANDIN", file).Set("NVML_STANDIN_SPEED", "5")
	}
	return driver.Machine{Host: h, Runner: run, Self: hosttest.Must(proc.Self())(t)}
}

// impatient gives a process less time than it asks for.
type impatient struct{ limit time.Duration }

func (i impatient) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if i.limit > 0 {
		c.Timeout = i.limit
	}
	return proc.Runner{}.Run(ctx, c)
}

func TestNVML(t *testing.T) {
	t.Parallel()
	whole, ancient, text := nvmlStandin(t), nvmlStandin(t, "-DANCIENT"), t.TempDir()
	hosttest.OK(t, os.WriteFile(filepath.Join(text, "libnvidia-ml.so.1"), []byte("not a library\n"), 0o644))
	hung := nvmlStandin(t)
	hosttest.OK(t, os.Mkdir(filepath.Join(hung, "bin"), 0o755))
	hosttest.OK(t, os.WriteFile(filepath.Join(hung, "bin", "nvidia-smi"), []byte("#!/bin/sh\necho asked >&2\nexit 9\n"), 0o755))
	for _, tt := range []struct {
		story, dir, script string
		limit              time.Duration
		driver             string
		devices            []string
		note               string
	}{
		{story: "one H200", dir: whole, driver: "580.65.06 13.0 NVML",
			devices: []string{"0 GPU-00000000-0000-0000-0000-000000000000 NVIDIA H200 9.0 150754820096"}},
		{story: "two GPUs and an older driver", dir: whole, driver: "550.54.15 12.4 NVML",
			script:  "driver 550.54.15\ncuda 12040\ngpu 0 name=NVIDIA+L4 uuid=GPU-a cc=8.9 memory=24152899584 # a comment\ngpu 1 uuid=GPU-b\n",
			devices: []string{"0 GPU-a NVIDIA L4 8.9 24152899584", "1 GPU-b NVIDIA H200 9.0 150754820096"}},
		{story: "slices", dir: whole, driver: "580.65.06 13.0 NVML", script: "gpu 0 uuid=GPU-a\nat 0 0 mig=2\n",
			devices: []string{"0 GPU-a NVIDIA H200 9.0 150754820096 MIG-0 (NVIDIA H200 MIG 1g.18gb) MIG-1 (NVIDIA H200 MIG 1g.18gb)"}},
		{story: "a driver behind our table", dir: whole, driver: "700.1 14.1 NVML", script: "driver 700.1\ncuda 14010\n", note: "0 GPU(s)"},
		{story: "one of two is lost", dir: whole, driver: "580.65.06 13.0 NVML", script: "gpu 1 uuid=GPU-b\ngpu 0 lost=1\n",
			devices: []string{"1 GPU-b NVIDIA H200 9.0 150754820096"}, note: "GPU 0: GPU is lost"},
		{story: "the library talks", dir: whole, driver: "580.65.06 13.0 NVML", script: "chatter\n", note: "0 GPU(s)"},
		{story: "library and kernel module differ", dir: whole, script: "error 18\n", driver: "  ", note: "NVML: Driver/library version mismatch"},
		{story: "an old driver lacks functions", dir: ancient, driver: "450.80.02 11.0 NVML", script: "driver 450.80.02\ngpu 0 uuid=GPU-a\n",
			devices: []string{"0 GPU-a NVIDIA H200 unknown 150754820096"}, note: "NVML reports no compute capability: NVML gives no text"},
		{story: "a library that is none", dir: text, driver: "  ", note: "NVML: "},
		{story: "the driver hangs, and nvidia-smi is not asked", dir: hung, script: "hang\n", limit: 300 * time.Millisecond, driver: "  ", note: "NVML: no answer in 300ms\nno GPU could be asked"},
		{story: "the driver crashes, and nvidia-smi is asked", dir: hung, script: "crash\n", driver: "  ", note: "NVML: the driver's library ended it, with exit status 2"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			d, devices, notes := nvmlMachine(t, tt.dir, tt.script, impatient{tt.limit}).Inventory(context.Background())
			cuda := d.CUDA.String()
			if d.CUDA.IsZero() {
				cuda = ""
			}
			hosttest.Equal(t, d.Version+" "+cuda+" "+d.Origin, tt.driver)
			got := describe(devices)
			for i, d := range devices {
				for _, m := range d.MIG {
					got[i] += " " + m.UUID + " (" + m.Name + ")"
				}
			}
			if !slices.Equal(got, tt.devices) {
				t.Errorf("devices: got %q, want %q", got, tt.devices)
			}
			said := strings.Join(notes, "\n")
			if !strings.Contains(said, tt.note) || strings.Contains(tt.story, "is asked") != strings.Contains(said, "exit status 9: asked") {
				t.Errorf("notes: got %q, want %q among them", notes, tt.note)
			}
		})
	}
}

// TestWatchByNVML: an Xid error is reported as it comes, with clocks, reasons and processes of the same sample; a driver that hangs or has no GPU is
// a reason.
func TestWatchByNVML(t *testing.T) {
	t.Parallel()
	lib := nvmlStandin(t)
	watching := func(script string, enough func(gpu.Sample) bool) (samples []gpu.Sample, notes []string, err error) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		notes, err = nvmlMachine(t, lib, script, proc.Runner{}).Watch(ctx, func(s gpu.Sample) {
			if samples = append(samples, s); enough(s) {
				stop()
			}
		})
		return samples, notes, err
	}
	script := "gpu 0 name=NVIDIA+H200\ngpu 1 name=NVIDIA+L4\nat 3000 0 temp=86 util=98 throttle=0x44 used=1e9 ecc=2 pid=4711\nat 4000 1 xid=31\nat 8000 1 lost=1\n"
	samples, notes, err := watching(script, func(s gpu.Sample) bool { return s.Lost })
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	var xids []uint64
	var hot gpu.Sample
	for _, s := range samples {
		if xids = append(xids, s.Xid...); s.Index == 0 && s.Temperature == 86 {
			hot = s
		}
		if len(s.Xid) > 0 && s.Index != 1 || !s.XidWatched {
			t.Errorf("%+v", s)
		}
	}
	if first := samples[0]; first.Temperature != 40 || first.Slowdown != 87 || first.Name != "NVIDIA H200" || first.ClockMHz != 1980 {
		t.Errorf("%+v", first)
	}
	if !slices.Equal(xids, []uint64{31}) || hot.Throttling() != "heat and power" || *hot.ECC != 2 || !slices.Equal(hot.Processes, []gpu.Process{{Pid: 4711, Memory: 1e9}}) {
		t.Errorf("Xid %v, %+v", xids, hot)
	}
	_, notes, err = watching("gpu 0\nat 5000 0 hang=1\n", func(gpu.Sample) bool { return false })
	if err != nil || !slices.Equal(notes, []string{"NVML: no answer in 5s"}) {
		t.Error(notes, err)
	}
	_, _, err = watching("driver 580.65.06\n", func(gpu.Sample) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "the driver has no GPU") {
		t.Error(err)
	}
}
