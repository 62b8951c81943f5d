package fresh

import (
	"context"
	"path/filepath"
	"testing"

	"gpubuild/buildenv/need"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features"
)

// BenchmarkCheck is the price of the check when nothing changed, for one package that compiles kernels with a real toolkit: every file that went in is
// looked at. It fails when any file's content is read for it.
func BenchmarkCheck(b *testing.B) {
	at := newBench(b)
	at.root(need.Toolkit(b))
	s := at.s
	const id = "path+file:///w/kern#0.1.0"
	out := filepath.Join(s.b.Graph.Places.BuildDirectory, "debug", "build", "kern-1", "out")
	at.write(filepath.Join(filepath.Dir(out), "invoked.timestamp"), "")
	at.write(filepath.Join(out, "k.txt"), "")
	s.b.Reach = &features.Answer{Units: []features.ScriptUnit{{PkgID: id, Name: "kern", Inputs: compiles}}}
	if err := s.compare(context.Background()); err != nil {
		b.Fatal(err)
	}
	cold := s.hashes.Read
	var entries []stale.Entry
	for _, u := range s.units {
		entries = append(entries, u.Entry())
	}
	s.record = stale.Record{}.Merge(entries)
	b.ResetTimer()
	for range b.N {
		s.hashes = inputs.NewHashes(s.b.Machine)
		if err := s.compare(context.Background()); err != nil {
			b.Fatal(err)
		}
		if len(s.units) != 1 || len(s.compared.Reasons)+len(s.compared.Unknown) > 0 || s.hashes.Read > 0 {
			b.Fatalf("not fresh, or read again: %+v, %d files read", s.compared, s.hashes.Read)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(cold), "files-read-once")
}
