package fresh

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features"
	"gpubuild/features/graph"
	"gpubuild/toolchain/cargo"
)

// TestUnitsOf: which units an OUT_DIR may be of, by its platform's directory and by what cargo keeps; where neither tells, all, so that what changes for
// any of them is seen.
func TestUnitsOf(t *testing.T) {
	const id = "path+file:///w/kern#0.1.0"
	unit := func(platform string, list ...string) graph.Unit {
		return graph.Unit{PkgID: id, Mode: "run-custom-build", Platform: platform, Features: list}
	}
	for _, tt := range []struct {
		story string
		graph []graph.Unit // none: cargo was not asked for one
		kept  string       // features in what cargo keeps of the script; empty: it keeps nothing that is understood
		dir   string
		want  string
	}{
		{"nothing tells", []graph.Unit{unit("", "asks"), unit("", "links")}, "", "debug", "asks links"},
		{"no graph, and nothing tells", nil, "", "debug", "asks links"},
		{"cargo keeps it", []graph.Unit{unit("", "asks"), unit("", "links")}, `["links"]`, "debug", "links"},
		{"no graph, and cargo keeps it", nil, `["asks"]`, "debug", "asks"},
		{"cargo keeps another", []graph.Unit{unit("", "asks"), unit("", "links")}, `["more"]`, "debug", "asks links"},
		{"the host's directory", []graph.Unit{unit("", "asks"), unit("t", "links")}, "", "debug", "asks"},
		{"a platform's directory", []graph.Unit{unit("", "asks"), unit("t", "links")}, "", "t/debug", "links"},
		{"both in a platform's directory", []graph.Unit{unit("t", "asks"), unit("t", "links"), unit("", "host")}, `["asks"]`, "t/debug", "asks"},
		{"one that takes nothing from the toolchain", []graph.Unit{unit("", "asks"), unit("", "links"), unit("")}, `[]`, "debug", ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			b := newBench(t)
			platform := map[string]string{}
			if len(tt.graph) > 0 {
				b.s.b.Graph.Units = &graph.Graph{Units: tt.graph}
				for _, u := range tt.graph {
					platform[strings.Join(u.Features, ",")] = u.Platform
				}
			}
			b.s.b.Reach = &features.Answer{Units: []features.ScriptUnit{
				{PkgID: id, Name: "kern", Features: []string{"asks"}, Platform: platform["asks"], Inputs: features.Inputs{NVCC: true, Version: true}},
				{PkgID: id, Name: "kern", Features: []string{"links"}, Platform: platform["links"], Inputs: features.Inputs{Root: true}},
			}}
			profile := filepath.Join(b.s.b.Graph.Places.BuildDirectory, filepath.FromSlash(tt.dir))
			if tt.kept != "" {
				compiled := filepath.Join(b.s.b.Graph.Places.BuildDirectory, "debug", ".fingerprint", "kern-2")
				b.write(filepath.Join(compiled, "build-script-build-script-build"), "0201000000000000")
				b.write(filepath.Join(compiled, "build-script-build-script-build.json"), `{"features":"`+strings.ReplaceAll(tt.kept, `"`, `\"`)+`"}`)
				b.write(filepath.Join(profile, ".fingerprint", "kern-1", "run-build-script-build-script-build.json"), `{"deps":[[7,"build_script_build",false,258]]}`)
			}
			out := filepath.Join(profile, "build", "kern-1", "out")
			b.write(filepath.Join(filepath.Dir(out), "invoked.timestamp"), "")
			var got []string
			b.s.findUnits()
			for _, u := range b.s.unitsOf(id, out) {
				got = append(got, strings.Join(u.Features, ","))
			}
			if strings.Join(got, " ") != tt.want {
				t.Fatalf("%q, want %q", got, tt.want)
			}

			// It is recorded as each of them, each with its own inputs, and what is another thing now is found by either.
			b.s.built.Messages = []cargo.Message{{Reason: cargo.ScriptExecuted, PackageID: id, OutDir: out}}
			if err := b.s.compare(context.Background()); err != nil {
				t.Fatal(err)
			}
			entries, open := b.s.entries()
			var recorded []string
			for _, e := range entries {
				recorded = append(recorded, e.Features)
				asks := slices.ContainsFunc(e.Inputs, func(in stale.Input) bool { return in.Name == "nvcc version" })
				if asks != (e.Features == "asks") || e.OutDir != out {
					t.Errorf("recorded: %+v", e)
				}
			}
			if strings.Join(recorded, " ") != tt.want || len(open) > 0 {
				t.Errorf("recorded %q, want %q; open: %v", recorded, tt.want, open)
			}
			b.s.hashes = inputs.NewHashes(b.s.b.Machine)
			b.s.record = stale.Record{Schema: stale.Schema, Entries: entries}
			if err := b.s.compare(context.Background()); err != nil {
				t.Fatal(err)
			}
			if len(b.s.compared.Reasons)+len(b.s.compared.Unknown) > 0 {
				t.Errorf("not as it was recorded: %+v", b.s.compared)
			}
			b.write(b.file("lib64/libcublas.so"), "a library more")
			b.s.hashes = inputs.NewHashes(b.s.b.Machine)
			if err := b.s.compare(context.Background()); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(b.s.compared.Clean, "kern"); got != strings.Contains(tt.want, "links") {
				t.Errorf("a library more: cleaned: %v, %+v", got, b.s.compared)
			}
		})
	}
}
