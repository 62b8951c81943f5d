//go:build linux

package driver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
)

// standin builds the stand-in nvidia-smi and answers its directory.
func standin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command(need.Tool(t, "cc"), "-O1", "-Wall", "-o", filepath.Join(dir, "nvidia-smi"), filepath.Join("..", "..", "testdata", "standin", "smi.c"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// watching runs Watch on a stand-in that plays a script, until enough says so; without driver there is no stand-in.
func watching(t *testing.T, library, script string, enough func([]gpu.Sample) bool) ([]gpu.Sample, []string, error) {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	file := filepath.Join(t.TempDir(), "script")
	hosttest.OK(t, os.WriteFile(file, []byte(script), 0o644))
	h.Env = h.Env.Set("SMI_STANDIN", file).Set("SMI_STANDIN_SPEED", "5").Set("PATH", library)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var mu sync.Mutex
	var samples []gpu.Sample
	notes, err := driver.Machine{Host: h, Runner: proc.Runner{}}.Watch(ctx, func(s gpu.Sample) {
		mu.Lock()
		defer mu.Unlock()
		if samples = append(samples, s); enough(samples) {
			stop()
		}
	})
	mu.Lock()
	defer mu.Unlock()
	return samples, notes, err
}

// TestWatchOnStandIn: heat, throttling and a lost GPU are seen as they come.
func TestWatchOnStandIn(t *testing.T) {
	t.Parallel()
	lib := standin(t)
	script := "gpu 0 name=NVIDIA+H200\ngpu 1 name=NVIDIA+L4\nat 0 1 mig=1\nat 2000 0 temp=86 util=98 throttle=0x44 used=1e9 ecc=2 width=8\n" +
		"at 5000 1 lost=1\n"
	samples, notes, err := watching(t, lib, script, func(s []gpu.Sample) bool { return s[len(s)-1].Lost })
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	first, hot := samples[0], gpu.Sample{}
	for _, s := range samples {
		if s.Index == 0 && s.Temperature == 86 {
			hot = s
		}
	}
	if first.Temperature != 40 || first.Slowdown != 87 || first.Name != "NVIDIA H200" || first.Lost {
		t.Errorf("%+v", first)
	}
	if *hot.Utilisation != 98 || hot.Throttling() != "heat and power" || *hot.MemoryUsed>>20 != 954 || *hot.ECC != 2 || hot.PCIeWidth != 8 || hot.PCIeMax != 16 {
		t.Errorf("%+v", hot)
	}
	if !samples[1].MIG {
		t.Errorf("%+v", samples[1])
	}
}

// TestWatchBySMI: what it says in brackets is no value.
func TestWatchBySMI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!/bin/sh\necho '0, GPU-a, 98, 1024, 46068, 86, 1200, 70.5, 72.00, 0x0000000000000040, 2, 8, 16, [N/A], NVIDIA L4, 24 GB'\n" +
		"echo '1, GPU-b, [N/A], 0, 81920, 30, 345, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], Enabled, NVIDIA H100'\n" +
		"echo '2, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], " +
		"[GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]'\nexec sleep 60\n"
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	hosttest.OK(t, os.Symlink(need.Program(t, "sh", "sleep"), filepath.Join(dir, "sleep")))
	samples, notes, err := watching(t, dir, "", func(s []gpu.Sample) bool { return len(s) == 3 })
	if err != nil || len(samples) != 3 {
		t.Fatal(samples, notes, err)
	}
	for i, want := range []gpu.Sample{
		{UUID: "GPU-a", Name: "NVIDIA L4, 24 GB", Utilisation: new(98), MemoryUsed: new(uint64(1 << 30)), MemoryTotal: 46068 << 20, Temperature: 86, ClockMHz: 1200,
			PowerMW: 70500, PowerLimit: 72000, Throttle: new(uint64(0x40)), ECC: new(uint64(2)), PCIeWidth: 8, PCIeMax: 16},
		{Index: 1, UUID: "GPU-b", Name: "NVIDIA H100", MemoryUsed: new(uint64), MemoryTotal: 80 << 30, Temperature: 30, ClockMHz: 345, MIG: true},
		{Index: 2, UUID: "[GPU is lost]", Name: "[GPU is lost]", Lost: true},
	} {
		want.Time = samples[i].Time
		if !reflect.DeepEqual(samples[i], want) {
			t.Errorf("got  %+v\nwant %+v", samples[i], want)
		}
	}
}

// TestWatchLeavesOneOut: a GPU that nvidia-smi lists no longer is lost, the first, the last or all of them; one that begins late is not.
func TestWatchLeavesOneOut(t *testing.T) {
	t.Parallel()
	row := func(i string) string { return i + ", GPU-" + i + strings.Repeat(", [N/A]", 11) + ", [N/A], NVIDIA L4" }
	for name, tt := range map[string]struct {
		rows string
		want string // the samples; "!": lost
	}{
		"the last":   {rows: "0 1 0 0 0", want: "0 1 0 1! 0 1! 0"},
		"the first":  {rows: "0 1 1 1", want: "0 1 1 0! 1"},
		"late":       {rows: "0 0 1 0 1", want: "0 0 1 0 1"},
		"all":        {rows: "0 1 none", want: "0 1 0! 1!"},
		"comes back": {rows: "0 1 0 0 1 0 1", want: "0 1 0 1! 0 1 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := "#!" + need.Program(t, "sh", "sh") + "\n"
			for _, i := range strings.Fields(tt.rows) {
				if i == "none" {
					script += "echo No devices were found\n"
				} else {
					script += "echo '" + row(i) + "'\n"
				}
			}
			hosttest.OK(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
			samples, _, err := watching(t, dir, "", func(s []gpu.Sample) bool { return false })
			var got []string
			for _, s := range samples {
				text := strings.TrimPrefix(s.UUID, "GPU-")
				if s.Lost {
					text += "!"
				}
				got = append(got, text)
			}
			if g := strings.Join(got, " "); g != tt.want || err != nil {
				t.Errorf("got %q, want %q; %v", g, tt.want, err)
			}
		})
	}
}

// TestWatchRefusedBySMI: what nvidia-smi says is the reason, and not that it then is silent.
func TestWatchRefusedBySMI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!" + need.Program(t, "sh", "sh") + "\necho 'Unable to determine the device handle for GPU0: GPU is lost.'\nread forever\n"
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	_, _, err := watching(t, dir, "", func([]gpu.Sample) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "GPU is lost") {
		t.Error(err)
	}
}

// TestWatchWithoutAnswers: a driver that hangs or refuses, and no driver at all, are reasons; that a user may not read all is none.
func TestWatchWithoutAnswers(t *testing.T) {
	t.Parallel()
	lib := standin(t)
	one := func(s []gpu.Sample) bool { return true }
	samples, notes, err := watching(t, lib, "gpu 0\nat 0 0 denied=1 util=98\n", one)
	if err != nil || len(notes) > 0 || samples[0].Utilisation != nil || !samples[0].Denied || samples[0].MemoryTotal == 0 || samples[0].Lost ||
		samples[0].Throttle != nil || samples[0].ECC != nil {
		t.Errorf("a user who may ask for nothing but the memory: %+v, %v, %v", samples, notes, err)
	}
	for name, tt := range map[string]struct{ library, script, want string }{
		"refused": {lib, "error 18\n", "version mismatch"},
		"nothing": {t.TempDir(), "", "no NVIDIA driver here"},
	} {
		samples, _, err := watching(t, tt.library, tt.script, one)
		if len(samples) > 0 || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", name, samples, err)
		}
	}
	samples, notes, err = watching(t, lib, "gpu 0\nat 3000 0 hang=1\n", func(s []gpu.Sample) bool { return false })
	if err != nil || len(samples) == 0 || len(notes) != 1 || !strings.Contains(notes[0], "no answer in") {
		t.Errorf("a driver that hangs while it is watched: %d samples, %v, %v", len(samples), notes, err)
	}
}

// TestSlowdowns: nvidia-smi has a temperature, or since Ada Lovelace how far a GPU is from its limit.
func TestSlowdowns(t *testing.T) {
	text := "==============NVSMI LOG==============\nAttached GPUs                             : 3\nGPU 00000000:01:00.0\n    Temperature\n" +
		"        GPU Current Temp                  : 33 C\n        GPU Slowdown Temp                 : 92 C\nGPU 00000000:02:00.0\n    Temperature\n" +
		"        GPU Current Temp                  : 40 C\n        GPU T.Limit Temp                  : 43 C\n        GPU Slowdown T.Limit Temp         : -2 C\n" +
		"GPU 00000000:03:00.0\n    Temperature\n        GPU Current Temp                  : 50 C\n        GPU Slowdown Temp                 : N/A\n"
	if got := driver.ParseSlowdowns(text); !slices.Equal(got, []int{92, 85, 0}) {
		t.Errorf("got %v", got)
	}
}
