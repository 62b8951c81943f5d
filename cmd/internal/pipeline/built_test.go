package pipeline

import (
	"slices"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// TestDecideBuilt: what is said of a request by what its build left.
func TestDecideBuilt(t *testing.T) {
	t.Parallel()
	off := features.Open{Feature: "`cuda` of app", Backend: "cuda", Off: []string{"candle-core 0.9.2"}}
	none, bound, warns, blind, broken := features.Open{Feature: "`cuda` of app", Backend: "cuda"}, off, off, off, off
	bound.Bound, warns.Warns, blind.Blind, broken.Middle = true, true, true, []string{"middle", "own"}
	shown := []string{"cuInit"}
	for _, tt := range []struct {
		story string
		o     features.Open
		e     evidence
		id    string // with a severity
	}{
		{"it shows", none, evidence{programs: 1, shown: shown, complete: true}, ""},
		{"it shows, and an engine stays on the CPU", off, evidence{programs: 1, shown: shown, complete: true}, "features.partial note"},
		{"it shows, and a package in between leaves the engine off", broken, evidence{programs: 1, shown: shown, complete: true}, "features.partial warning"},
		{"… and another one compiled the kernels", broken, evidence{programs: 1, shown: shown, compiled: []string{"kern"}, complete: true}, "features.partial warning"},
		{"… and what it links compiled them", broken, evidence{programs: 1, shown: shown, compiled: []string{"own"}, complete: true}, "features.partial note"},
		{"NVML alone", none, evidence{programs: 1, complete: true, watches: true}, "features.no-device-code warning"},
		{"one of several shows", none, evidence{programs: 3, shown: shown}, ""},
		{"one of an unknown format", off, evidence{programs: 1, complete: true, unknown: true}, ""},
		{"nothing", off, evidence{programs: 1, complete: true}, "features.no-device-code error"},
		{"nothing, and no crate is off", none, evidence{programs: 1, complete: true}, "features.no-device-code error"},
		{"only a binding that is linked anyway", blind, evidence{programs: 1, anyway: shown, complete: true}, "features.no-device-code error"},
		{"a binding that is linked anyway, beside no crate that is off", none, evidence{programs: 1, anyway: shown, complete: true}, "features.no-device-code warning"},
		{"a function of the driver in a longer word", none, evidence{programs: 1, within: shown, complete: true}, "features.no-device-code warning"},
		{"a library of the system names a function of the driver", none, evidence{programs: 1, system: shown, complete: true}, "features.no-device-code warning"},
		{"so does the program", none, evidence{programs: 1, system: shown, shown: shown, complete: true}, ""},
		{"not every program was built", off, evidence{programs: 1}, "features.no-device-code warning"},
		{"the package is named, or a binding is enabled", warns, evidence{programs: 1, complete: true}, "features.no-device-code warning"},
		{"a library of it was not found", off, evidence{programs: 1, complete: true, lost: "libmine.so"}, "features.no-device-code warning"},
		{"another package shows it", none, evidence{programs: 1, complete: true, otherUses: true}, "features.no-device-code warning"},
		{"another package shows it, and an engine is off", off, evidence{programs: 1, complete: true, otherUses: true}, "features.no-device-code error"},
		{"compiled and not used", off, evidence{programs: 1, compiled: []string{"kern"}, complete: true}, "features.not-in-program warning"},
		{"a library, an engine is off", off, evidence{}, "features.unreached error"},
		{"a library with kernels", off, evidence{compiled: []string{"kern"}}, ""},
		{"a library with a binding by the request", bound, evidence{}, ""},
		{"a library that is named", warns, evidence{}, ""},
		{"a library, nothing is off", none, evidence{}, ""},
	} {
		got := ""
		if f, found := decideBuilt(tt.o, "app", tt.e); found {
			if got = f.ID + " " + f.Severity; f.Severity == finding.Error && f.Fix == "" {
				t.Errorf("%s: no fix", tt.story)
			}
		}
		if got != tt.id {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.id)
		}
	}
}

// TestBaseLibrary: libraries of the system's base have versions, and one of the user's own with such a name has none.
func TestBaseLibrary(t *testing.T) {
	for name, want := range map[string]bool{
		"libc.so.6": true, "libm.so.6": true, "libutil.so.1": true, "libdl.so.2": true, "libstdc++.so.6": true, "ld-linux-x86-64.so.2": true,
		"libnvidia-ml.so.1": true, "libc.so": true, "libutil.so": false, "libdl.so": false, "libm.so": false, "libmine.so.1": false,
	} {
		hosttest.Equal(t, baseLibrary.Match([]byte(name)), want, name)
	}
}

func TestOfSystem(t *testing.T) {
	h := hosttest.Memory(nil)
	for lib, want := range map[string]bool{
		"/usr/lib/x86_64-linux-gnu/libavutil.so.57": true, "/lib64/libx.so.1": true, "/usr/local/lib/libtorch.so": false,
		"/usr/lib/python3/dist-packages/torch/lib/libtorch.so": false, "/w/lib/libonnxruntime.so.1": false,
	} {
		hosttest.Equal(t, ofSystem(h, lib), want, lib)
	}
}

// TestLibraryDirs: scripts name absolute directories, flags also those below the workspace.
func TestLibraryDirs(t *testing.T) {
	h := hosttest.Memory(nil)
	h.Env = buildenv.NewEnv(buildenv.Linux, []string{"RUSTFLAGS=-Lnative=near -C link-arg=-L/flag", "LD_LIBRARY_PATH=/load:"})
	got := libraryDirs(h, "/w", []cargo.Message{{LinkedPaths: []string{"native=/script"}}}, []string{"-L", "lib", ""})
	for dir, want := range map[string]bool{"/script": true, "/w/lib": true, "/w/near": true, "/flag": true, "/load": true, "/w": false, "": false} {
		hosttest.Equal(t, slices.Contains(got, dir), want, dir)
	}
}
