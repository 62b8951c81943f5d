//go:build linux && cgo

package driver_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
)

// watching runs Watch on a stand-in that plays a script, until enough says so; without driver there is no stand-in.
func watching(t *testing.T, library, script string, enough func([]gpu.Sample) bool) ([]gpu.Sample, []string, error) {
	t.Helper()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	h.Env = h.Env.Set("LD_LIBRARY_PATH", library).Set("NVML_STANDIN", file).Set("NVML_STANDIN_SPEED", "5").Set("PATH", library)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var mu sync.Mutex
	var samples []gpu.Sample
	notes, err := driver.Watch(ctx, h, proc.Runner{}, self, func(s gpu.Sample) {
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

// TestWatchOnStandIn: heat, throttling, an error and a lost GPU are seen as they come.
func TestWatchOnStandIn(t *testing.T) {
	t.Parallel()
	lib := standin(t)
	script := "gpu 0 name=NVIDIA+H200\ngpu 1 name=NVIDIA+L4\nat 0 1 mig=1\nat 2000 0 temp=86 util=98 throttle=0x44 used=1e9 ecc=2 width=8\n" +
		"at 2100 0 xid=31\nat 5000 1 lost=1\n"
	samples, notes, err := watching(t, lib, script, func(s []gpu.Sample) bool { return s[len(s)-1].Lost })
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	first, hot, xid := samples[0], gpu.Sample{}, false
	for _, s := range samples {
		if s.Index == 0 && s.Temperature == 86 {
			hot = s
		}
		xid = xid || len(s.Xid) == 1 && s.Xid[0] == 31
	}
	if first.Temperature != 40 || first.Slowdown != 87 || first.Name != "NVIDIA H200" || first.Lost {
		t.Errorf("%+v", first)
	}
	if *hot.Utilisation != 98 || hot.Throttling() != "heat and power" || *hot.MemoryUsed != 1e9 || *hot.ECC != 2 || hot.PCIeWidth != 8 || hot.PCIeMax != 16 {
		t.Errorf("%+v", hot)
	}
	if !xid || first.XidUnknown || !samples[1].MIG {
		t.Errorf("Xid seen: %v; %+v", xid, samples[1])
	}
}

// TestWatchBySMI: nvidia-smi is asked where NVML cannot be, and knows of no Xid errors. What it says in brackets is no value.
func TestWatchBySMI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!/bin/sh\necho '0, GPU-a, 98, 1024, 46068, 86, 1200, 70.5, 72.00, 0x0000000000000040, 2, 8, 16, [N/A], NVIDIA L4, 24 GB'\n" +
		"echo '1, GPU-b, [N/A], 0, 81920, 30, 345, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], Enabled, NVIDIA H100'\n" +
		"echo '2, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], " +
		"[GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]'\nexec sleep 60\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(need.Program(t, "sh", "sleep"), filepath.Join(dir, "sleep")); err != nil {
		t.Fatal(err)
	}
	samples, notes, err := watching(t, dir, "", func(s []gpu.Sample) bool { return len(s) == 3 })
	if err != nil || len(samples) != 3 {
		t.Fatal(samples, notes, err)
	}
	for i, want := range []gpu.Sample{
		{UUID: "GPU-a", Name: "NVIDIA L4, 24 GB", Utilisation: new(98), MemoryUsed: new(uint64(1 << 30)), MemoryTotal: 46068 << 20, Temperature: 86, ClockMHz: 1200,
			PowerMW: 70500, PowerLimit: 72000, Throttle: new(uint64(0x40)), ECC: new(uint64(2)), PCIeWidth: 8, PCIeMax: 16, XidUnknown: true},
		{Index: 1, UUID: "GPU-b", Name: "NVIDIA H100", MemoryUsed: new(uint64), MemoryTotal: 80 << 30, Temperature: 30, ClockMHz: 345, MIG: true, XidUnknown: true},
		{Index: 2, UUID: "[GPU is lost]", Name: "[GPU is lost]", Lost: true, XidUnknown: true},
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
			if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
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

// TestWatchWithoutOneHandle: a GPU that cannot be asked at all does not keep the others from being watched.
func TestWatchWithoutOneHandle(t *testing.T) {
	t.Parallel()
	lib := standin(t)
	one := func(s []gpu.Sample) bool { return len(s) >= 2 }
	for name, tt := range map[string]struct {
		script string
		lost   bool
	}{
		"lost":   {"gpu 0 lost=1\ngpu 1 name=NVIDIA+L4\n", true},
		"denied": {"at 0 0 answer=4\ngpu 1 name=NVIDIA+L4\n", false},
	} {
		samples, notes, err := watching(t, lib, tt.script, one)
		if err != nil || len(notes) > 0 || len(samples) < 2 || samples[0].Lost != tt.lost || samples[0].Temperature != 0 || samples[1].Name != "NVIDIA L4" ||
			samples[1].Temperature != 40 {
			t.Errorf("%s: %+v, %v, %v", name, samples, notes, err)
		}
	}
	if samples, notes, err := watching(t, lib, "gpu 0 lost=1\n", func(s []gpu.Sample) bool { return true }); err != nil || !samples[0].Lost {
		t.Errorf("the only one is lost: %+v, %v, %v", samples, notes, err)
	}
	if _, _, err := watching(t, lib, "at 0 0 answer=4\n", one); err == nil || !strings.Contains(err.Error(), "GPU 0: ") {
		t.Errorf("the only one is denied: %v", err)
	}
	renamed := standin(t, "-DnvmlDeviceGetCurrentClocksThrottleReasons=nvmlDeviceGetCurrentClocksEventReasons")
	samples, _, err := watching(t, renamed, "at 0 0 throttle=0x40\n", func(s []gpu.Sample) bool { return true })
	if err != nil || samples[0].Throttling() != "heat" {
		t.Errorf("throttling by its newer name: %+v, %v", samples, err)
	}
}

// TestWatchRefusedBySMI: what nvidia-smi says is the reason, and not that it then is silent.
func TestWatchRefusedBySMI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!" + need.Program(t, "sh", "sh") + "\necho 'Unable to determine the device handle for GPU0: GPU is lost.'\nread forever\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, _, err := watching(t, dir, "", func([]gpu.Sample) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "GPU is lost") {
		t.Error(err)
	}
}

// TestWatchWithoutAnswers: an old library lacks most of what is asked, which is no error; a driver that hangs, refuses or ends its caller, and
// no driver at all, are reasons.
func TestWatchWithoutAnswers(t *testing.T) {
	t.Parallel()
	lib, ancient := standin(t), standin(t, "-DANCIENT")
	one := func(s []gpu.Sample) bool { return true }
	samples, _, err := watching(t, ancient, "gpu 0\n", one)
	if err != nil || samples[0].Utilisation != nil || samples[0].Denied || samples[0].Name == "" || !samples[0].XidUnknown {
		t.Errorf("ancient: %+v, %v", samples, err)
	}
	samples, notes, err := watching(t, lib, "gpu 0\nat 0 0 denied=1 util=98\n", one)
	if err != nil || len(notes) > 0 || samples[0].Utilisation != nil || !samples[0].Denied || samples[0].MemoryTotal == 0 || samples[0].Lost ||
		samples[0].Throttle != nil || samples[0].ECC != nil {
		t.Errorf("a user who may ask for nothing but the memory: %+v, %v, %v", samples, notes, err)
	}
	for name, tt := range map[string]struct{ library, script, want string }{
		"half":    {standin(t, "-DnvmlDeviceGetHandleByIndex_v2=nvmlAbsent"), "gpu 0\n", "has no nvmlDeviceGetHandleByIndex_v2"},
		"refused": {lib, "error 18\n", "version mismatch"},
		"crash":   {lib, "crash\n", "SIGSEGV"},
		"nothing": {t.TempDir(), "", "no NVIDIA driver here"},
	} {
		samples, _, err := watching(t, tt.library, tt.script, one)
		if len(samples) > 0 || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", name, samples, err)
		}
	}
	samples, notes, err = watching(t, lib, "gpu 0\nat 1000 0 hang=1\n", func(s []gpu.Sample) bool { return false })
	if err != nil || len(samples) == 0 || len(notes) != 1 || !strings.Contains(notes[0], "no answer in") {
		t.Errorf("a driver that hangs while it is watched: %d samples, %v, %v", len(samples), notes, err)
	}
}
