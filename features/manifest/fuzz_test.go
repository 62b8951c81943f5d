package manifest

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/hosttest"
)

func FuzzManifest(f *testing.F) {
	f.Add(
		"[package]\nname = \"a\"\n[features]\ncuda = [\"dep:cudarc\", \"x?/y\"]\n[dependencies]\ncudarc = { version = \"1\", optional = true, path = \"../c\" }\n[target.'cfg(unix)'.dependencies]\nx.workspace = true\n",
		"crates/*",
	)
	f.Add("[workspace]\nmembers = [\"a\", \"**\"]\n", "**/[a-")
	f.Add("\uFEFF[package]\r\nname = '''a'''\r\n", "..")
	f.Fuzz(func(t *testing.T, text, member string) {
		h := hosttest.Memory(map[string]string{"/w/Cargo.toml": text, "/w/crates/b/Cargo.toml": pkg("b", ""), "/w/Cargo.lock": text})
		p, err := Load(h, "/w/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		left := globLimit
		expand(h, "/w", member, &left)
		parseLock(text)
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
		spans := Locate([]byte(text))
		var v map[string]any
		md, err := toml.Decode(text, &v)
		if err != nil || strings.Contains(text, `\`) || len(text) > 500 {
			return
		}
		for _, k := range md.Keys() {
			if _, ok := spans.At(k...); !ok && !inArray(md, k) {
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
