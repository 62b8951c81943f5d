package features

import (
	"bytes"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

func FuzzParseGraph(f *testing.F) {
	f.Add(
		[]byte(
			`{"version":1,"units":[{"pkg_id":"path+file:///w/a#0.1.0","target":{"kind":["bin"],"name":"a","src_path":"/w/a/src/main.rs"},"platform":null,"mode":"build","features":["cuda"],"dependencies":[{"index":1,"extern_crate_name":"candle_core"}]},{"pkg_id":"registry+https://registry.example/i#candle-core@0.11.1","target":{"kind":["lib"],"name":"candle_core","src_path":"/r/candle-core-0.11.1/src/lib.rs"},"mode":"build","features":["cuda"],"dependencies":[{"index":1}]}],"roots":[0]}`,
		),
	)
	f.Add([]byte(`{"version":1,"units":[],"roots":[]}`))
	f.Add([]byte(`{"version":1,"units":[{"pkg_id":"path+file:///w/b#0.1.0","target":{"kind":["bin"],"name":"b","src_path":"/w/b/src/main.rs"},"platform":null,"mode":"build","features":["cuda"],"dependencies":[]}],"roots":[0]}`)) // not of the project
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := graph.Parse(bytes.NewReader(data))
		if err != nil {
			return
		}
		h := hosttest.Memory(map[string]string{"/w/a/Cargo.toml": pkg("a", "[features]\ncuda = []\n")})
		p, err := manifest.Load(h, "/w/a/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		judgeIn(h, Input{Project: p, Graph: g, Request: ask("cuda")})
	})
}
