package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/local"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// TestTimings: steps follow one another without a gap, and of the build scripts only those of GPU packages that ran in this build count.
func TestTimings(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	tick := func(d time.Duration) { at = at.Add(d) }
	w := finding.NewTrace(func() time.Time { return at })
	w.Phase("manifests")
	tick(100 * time.Millisecond)
	w.Phase("features")
	tick(400 * time.Millisecond)
	w.Phase(phaseCargo)
	began := at
	tick(90 * time.Second)
	w.Phase("scan")
	tick(time.Second)

	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	script := func(layout string, start, took time.Duration) string {
		unit := filepath.Join(t.TempDir(), map[string]string{"new": "1f"}[layout])
		if layout != "new" {
			unit = filepath.Join(unit, "kern-1f")
		}
		stamp, output := filepath.Join(unit, "invoked.timestamp"), filepath.Join(unit, "root-output")
		if layout == "new" {
			stamp, output = filepath.Join(unit, "run", "invoked.timestamp"), filepath.Join(unit, "run", "stderr")
		}
		for path, when := range map[string]time.Time{stamp: began.Add(start), output: began.Add(start + took)} {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(unit, "out")
	}
	ran := func(pkg, out string) cargo.Message {
		return cargo.Message{Reason: cargo.ScriptExecuted, PackageID: "registry+https://github.com/rust-lang/crates.io-index#" + pkg, OutDir: out}
	}
	lib := func(pkg string, fresh bool) cargo.Message {
		m := cargo.Message{Reason: cargo.Artifact, PackageID: ran(pkg, "").PackageID, Fresh: fresh}
		m.Target.Kind = []string{"lib"}
		return m
	}
	answer := &features.Answer{Units: []features.ScriptUnit{{Name: "candle-kernels"}, {Name: "cudarc"}, {Name: "bindgen_cuda"}}}
	messages := []cargo.Message{
		ran("cudarc@0.19.10", script("new", time.Second, 2*time.Second)),
		ran("candle-kernels@0.11.1", script("old", 2*time.Second, 80*time.Second)),
		ran("serde@1.0.0", script("old", time.Second, time.Second)),            // no GPU package
		ran("bindgen_cuda@0.1.6", script("old", -time.Hour, time.Second)),      // fresh: it ran an hour ago
		ran("cudarc@0.17.8", script("old", time.Second, -time.Minute)),         // failed: its root-output is that of an earlier run
		ran("cudarc@0.16.0", filepath.Join(t.TempDir(), "nothing-there", "o")), // cargo keeps its files elsewhere
		// Fresh by cargo's word, though its script ran in this very second: an earlier build's.
		ran("cudarc@0.15.1", script("old", 0, time.Second)), lib("cudarc@0.15.1", true),
		lib("candle-kernels@0.11.1", false),
		{Reason: cargo.Artifact, Fresh: true}, {Reason: cargo.Artifact}, {Reason: cargo.Artifact},
	}
	phases, total := w.Phases()
	got := TimingsOf(h, phases, total, messages, answer)
	got.Compiled, got.Fresh = 2, 1
	text := ""
	for _, l := range got.lines() {
		text += fmt.Sprintf("%s|%s\n", l[0], l[1])
	}
	want := `Timings|91.5 s
|manifests         100 ms
|features          400 ms
|cargo             90.0 s  2 compiled, 1 fresh
|  of these        80.0 s  candle-kernels 0.11.1, by the times of cargo's files
|  of these       2000 ms  cudarc 0.19.10, by the times of cargo's files
|scan             1000 ms
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	sum := 0.0
	for _, s := range got.Steps {
		sum += s.Seconds
	}
	if diff := got.Seconds - sum; diff > 1e-6 || diff < -1e-6 {
		t.Errorf("the steps add up to %f of %f s", sum, got.Seconds)
	}
}
