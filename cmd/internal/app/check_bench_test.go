package app

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"gpubuild/buildenv/need"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/console"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo/builddir"
)

// BenchmarkCheck is the price of the check when nothing changed: reading the record and the hashes, looking at every file that went in, comparing.
// It fails when any file's content is read for it. GPUBUILD_TEST=bench=DIR,toolkit=DIR names the built candle-matmul of BenchmarkNoop
// and its toolkit.
func BenchmarkCheck(b *testing.B) {
	root, toolkit := need.Value(b, "bench"), need.Toolkit(b)
	sample, err := filepath.Abs(filepath.Join("..", "..", "..", "testdata", "candle-matmul"))
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv("CARGO_TARGET_DIR", filepath.Join(root, "candle-matmul"))
	b.Setenv("CARGO_NET_OFFLINE", "true")
	b.Setenv("GPUBUILD_CACHE", b.TempDir())
	a, err := newApp(nil, &console.Shell{Out: io.Discard, Err: io.Discard}, verify.RealDriver)
	if err != nil {
		b.Fatal(err)
	}
	var own verb
	for _, v := range verbs() {
		if v.name == "stale" {
			own = v
		}
	}
	o, l, err := parseOwn(own, []string{"--features", "cuda", "--manifest-path", filepath.Join(sample, "Cargo.toml"), "--toolkit", toolkit, "--arch", "sm_90"})
	if err != nil {
		b.Fatal(err)
	}
	j, err := a.prepared(context.Background(), o, l)
	if err != nil {
		b.Fatal(err)
	}
	// The record as a build would have written it just now, of the OUT_DIRs that are there.
	h := j.openHashes()
	var entries []stale.Entry
	for _, u := range j.reach.Units {
		outs, err := filepath.Glob(filepath.Join(j.graph.Places.BuildDirectory, "debug", "build", u.Name+"-*", "out"))
		if err != nil || len(outs) == 0 {
			need.Missing(b, "bench", "%s is not built in %s", u.Name, root)
		}
		inputs, err := j.inputsNow(u.Inputs, h)
		if err != nil {
			b.Fatal(err)
		}
		for _, out := range outs {
			entries = append(entries, stale.Entry{Key: stale.Key{PkgID: u.PkgID, Features: featureKey(u.Features), OutDir: out}, Package: u.Name, Inputs: inputs,
				ScriptRan: builddir.Ran(j.Host, out)})
		}
	}
	cold := h.read
	h.keep(a)
	data, err := stale.Record{}.Merge(entries).Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		record, err := stale.Decode(data)
		if err != nil {
			b.Fatal(err)
		}
		j.record, j.units = record, nil
		if err := j.compare(context.Background()); err != nil {
			b.Fatal(err)
		}
		if len(j.units) != len(entries) || len(j.compared.Reasons)+len(j.compared.Unknown) > 0 {
			b.Fatalf("not fresh: %+v", j.compared)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(cold), "files-read-once")
	again := j.openHashes()
	for _, u := range j.reach.Units {
		if _, err := j.inputsNow(u.Inputs, again); err != nil {
			b.Fatal(err)
		}
	}
	if again.read != 0 {
		b.Errorf("%d files were read although nothing changed", again.read)
	}
}
