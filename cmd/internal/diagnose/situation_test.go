package diagnose

import (
	"bytes"
	"context"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/catalog"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/explain"
)

func foundIn(t *testing.T, text, id string) explain.Found {
	t.Helper()
	rules := hosttest.Must(explain.Default())(t)
	a := hosttest.Must(explain.Read(rules, strings.NewReader(text)))(t)
	if len(a.Found) == 0 || id != "" && a.Found[0].ID != id {
		t.Fatalf("%s is not what was found: %+v", id, a.Found)
	}
	return a.Found[0]
}

// TestLogOfAnyMachine: nothing of this machine is said of a log, which may be pasted from another one.
func TestLogOfAnyMachine(t *testing.T) {
	rules := hosttest.Must(explain.Default())(t)
	l, err := ReadLog(rules, "-", strings.NewReader("app: error while loading shared libraries: libcuda.so.1: cannot open shared object file\n"))
	if err != nil || !l.Known || strings.Contains(l.Text(), "here:") {
		t.Fatal(l, err)
	}
}

// TestNoHoleForWhatIsNotKnown: on a bare machine the same rules say what they always say, and no sentence has a name in it that nobody
// filled in.
func TestNoHoleForWhatIsNotKnown(t *testing.T) {
	m := &session.Machine{Host: hosttest.Load(t, "linux-bare"), Shell: &console.Shell{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, CacheDir: "/cache", Runner: noProcess(t)}
	rules := hosttest.Must(explain.Default())(t)
	told := 0
	for _, r := range rules.All {
		if explain.Stages[r.Stage] == "" {
			t.Errorf("%s: the stage %q has no words", r.ID, r.Stage)
		}
		f := explain.Found{Rule: r}
		w := Collected{Machine: m}.here(context.Background(), f).words(f)
		for _, h := range w.Here {
			told++
			if regexp.MustCompile(`[{}]|\b(CCBIN|TARGET|BINARY|LIBRARY|DRIVER-CUDA|OTHER-CUDA)\b`).MatchString(h) || strings.Contains(h, "  ") || strings.HasSuffix(h, " ") {
				t.Errorf("%s: %q", r.ID, h)
			}
		}
	}
	if told == 0 {
		t.Error("nothing was told of a machine of which it is known that it has no driver")
	}
}

func TestFactsOfTheRoad(t *testing.T) {
	toolkit := func(version string, lo, hi string) cuda.Toolkit {
		v := hosttest.Must(gpu.ParseVersion(version))(t)
		from := hosttest.Must(gpu.ParseArch(lo))(t)
		to := hosttest.Must(gpu.ParseArch(hi))(t)
		return cuda.Toolkit{Root: "/cuda-" + version, Real: "/cuda-" + version, NVCC: "/cuda-" + version + "/bin/nvcc", Version: v, MinArch: from, MaxArch: to}
	}
	old, used, newest := toolkit("12.9", "sm_50", "sm_121"), toolkit("13.0", "sm_75", "sm_121"), toolkit("13.5", "sm_75", "sm_121")
	base := situation{
		again: []string{"gpubuild", "run", "--features", "cuda", "--gpu-arch", "sm_120", "--gpu-toolkit=13.0", "my app"}, rest: []string{"--device", "cuda"},
		facts: toolchain.Facts{Toolkits: []cuda.Toolkit{old, used, newest},
			Driver:  gpu.Driver{Version: "570.10", CUDA: gpu.Version{Major: 12, Minor: 9}},
			Devices: []gpu.Device{{Name: "A", Capability: gpu.Capability{Major: 12}}, {Name: "GTX 1080", Capability: gpu.Capability{Major: 6, Minor: 1}}}},
		set:    toolchain.Set{Toolkit: &used, Capability: gpu.Capability{Major: 12}, CapabilityOrigin: "--gpu-arch"},
		cudarc: []catalog.Cudarc{{Version: "0.19.2"}}, cudarcMax: gpu.Version{Major: 13, Minor: 0},
	}
	for _, tt := range []struct {
		name, log, id string
		change        func(*situation)
		here, command string
	}{
		{"an arch that no toolkit here knows: the GPU's own instead", "nvcc fatal   : Unsupported gpu architecture 'compute_130'", "arch-too-new-for-nvcc",
			func(s *situation) { s.facts.Devices = s.facts.Devices[:1] },
			"CUDA 13.0 in /cuda-13.0 compiles for sm_75 to sm_121; the GPU here is A (compute capability 12.0)",
			"gpubuild run --features cuda --gpu-arch sm_120 --gpu-toolkit=13.0 'my app' --gpu-arch=sm_120 -- --device cuda"},
		{"PTX that the driver refuses", "DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \"the provided PTX\")", "unsupported-ptx-version", nil,
			"driver 570.10 takes PTX up to CUDA 12.9; CUDA 13.0 in /cuda-13.0 is used", ""}, // first the driver or the toolkit changes
		{"a toolkit that cudarc does not know", "Unsupported cuda toolkit version: `13.5`. Please raise a github issue.", "cudarc-unsupported-toolkit",
			func(s *situation) { s.set.Toolkit = &newest },
			"cudarc 0.19.2 knows CUDA up to 13.0; CUDA 13.5 in /cuda-13.5 is used",
			"cargo update -p cudarc"},
		{"no driver", "Unable to dynamically load the \"cuda\" shared library - searched", "dynload-cuda-driver",
			func(s *situation) { s.facts.Driver, s.facts.Devices = gpu.Driver{}, nil },
			"there is no NVIDIA driver here", ""},
		{"a library that lies in a toolkit", "app: error while loading shared libraries: libcurand.so.10: cannot open shared object file: No such file or directory", "cuda-library-not-found",
			func(s *situation) {
				s.binary = "target/debug/app"
				s.find = func(l string) string { return "/has/" + l }
			},
			"libcurand.so.10 is in /has/libcurand.so.10", "LD_LIBRARY_PATH=/has/libcurand.so.10 target/debug/app"},
		{"the features that were typed, and no others", "sh: 1: nvcc: not found", "nvcc-not-on-path",
			func(s *situation) { s.set.Toolkit, s.again = nil, []string{"gpubuild", "build", "-F", "gpu"} }, "",
			"gpubuild build -F gpu --gpu-toolkit=fetch -- --device cuda"},
		{"nothing fits and nothing is known", "crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions later than 13 are not supported!", "gcc-too-new-for-cuda",
			func(s *situation) { *s = situation{again: s.again} }, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			s.facts.Devices = append([]gpu.Device(nil), base.facts.Devices...)
			if tt.change != nil {
				tt.change(&s)
			}
			w := s.words(foundIn(t, tt.log, tt.id))
			hosttest.Equal(t, strings.Join(w.Here, "; "), tt.here, "here")
			hosttest.Equal(t, w.Command, tt.command, "command")
		})
	}
}

// noProcess is a machine on which nothing can be started.
func noProcess(t *testing.T) session.Runner { return nothing{t} }

type nothing struct{ *testing.T }

func (n nothing) Run(context.Context, buildenv.Cmd) (buildenv.Result, error) {
	return buildenv.Result{}, &proc.StartError{Path: "x", Err: fs.ErrNotExist}
}
