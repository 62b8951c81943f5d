package features

import (
	"bytes"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/hosttest"
)

func FuzzParseGraph(f *testing.F) {
	f.Add([]byte(`{"version":1,"units":[{"pkg_id":"path+file:///w/a#0.1.0","target":{"kind":["bin"],"name":"a","src_path":"/w/a/src/main.rs"},"platform":null,"mode":"build","features":["cuda"],"dependencies":[{"index":1,"extern_crate_name":"candle_core"}]},{"pkg_id":"registry+https://registry.example/i#candle-core@0.11.1","target":{"kind":["lib"],"name":"candle_core","src_path":"/r/candle-core-0.11.1/src/lib.rs"},"mode":"build","features":["cuda"],"dependencies":[{"index":1}]}],"roots":[0]}`))
	f.Add([]byte(`{"version":1,"units":[],"roots":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ParseGraph(bytes.NewReader(data))
		if err != nil {
			return
		}
		h := hosttest.Memory(map[string]string{"/w/a/Cargo.toml": pkg("a", "[features]\ncuda = []\n")})
		p, err := Load(h, "/w/a/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Judge(h, Input{Project: p, Graph: g, Request: ask("cuda")}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseTree(f *testing.F) {
	f.Add("0app v0.1.0 (/w/a) cuda\n1candle-core v0.11.1 cuda\n2cudarc v0.19.10 driver\n1candle-nn v0.11.1 \n2candle-core v0.11.1 cuda (*)\n")
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := ParseTree(strings.NewReader(text))
		if err != nil {
			return
		}
		h := hosttest.Memory(map[string]string{"/w/a/Cargo.toml": pkg("a", "[features]\ncuda = []\n")})
		p, err := Load(h, "/w/a/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Judge(h, Input{Project: p, Tree: tree, Request: ask("cuda")}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add("[package]\nname = \"a\"\n[features]\ncuda = [\"dep:cudarc\", \"x?/y\"]\n[dependencies]\ncudarc = { version = \"1\", optional = true, path = \"../c\" }\n[target.'cfg(unix)'.dependencies]\nx.workspace = true\n", "crates/*")
	f.Add("[workspace]\nmembers = [\"a\", \"**\"]\n", "**/[a-")
	f.Add("\uFEFF[package]\r\nname = '''a'''\r\n", "..")
	f.Fuzz(func(t *testing.T, text, member string) {
		h := hosttest.Memory(map[string]string{"/w/Cargo.toml": text, "/w/crates/b/Cargo.toml": pkg("b", ""), "/w/Cargo.lock": text})
		p, err := Load(h, "/w/Cargo.toml")
		glob(h, "/w", member, func(string) {})
		parseLock(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a word")
			}
			return
		}
		p.GPUWork(ask("x"))
		for _, m := range p.Members {
			m.FeatureLine("cuda")
			m.FeatureNames()
		}
	})
}

// FuzzLocate holds the line locator against the TOML reader: what one finds, the other must, too.
func FuzzLocate(f *testing.F) {
	f.Add("a = 1\n[b]\nc.d = [1, {e = 2}]\nf = { g = 'h', i = \"\"\"j\n\"\"\" }\n[[k]]\nl = 1979-05-27 07:32:00\n")
	f.Add("[features]\ncuda = [ # x\n \"a\", ]\n\"quoted.key\" = []\n")
	f.Fuzz(func(t *testing.T, text string) {
		spans := locate([]byte(text))
		var v map[string]any
		md, err := toml.Decode(text, &v)
		if err != nil || strings.Contains(text, `\`) || len(text) > 500 {
			return
		}
		for _, k := range md.Keys() {
			if _, ok := spans[spanKey(k)]; !ok && !inArray(md, k) {
				t.Errorf("%q is not located in %q", k, text)
			}
		}
	})
}

// inArray says whether a key lies in an inline array, whose insides are not located.
func inArray(md toml.MetaData, k toml.Key) bool {
	for i := 1; i < len(k); i++ {
		if kind := md.Type(k[:i]...); kind == "Array" || kind == "ArrayHash" {
			return true
		}
	}
	return false
}
