package features

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

func TestPropagation(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml":   "[workspace]\nmembers = [\"a\", \"b\", \"c\", \"d\"]\nresolver = \"2\"\n",
		"/w/a/Cargo.toml": pkg("a", "[features]\ncuda = [\"b/cuda\"]\n[dependencies]\nb = { path = \"../b\" }\nc = { path = \"../c\" }\nd = { path = \"../d\", optional = true }\n[dev-dependencies]\nd = { path = \"../d\" }\n"),
		"/w/b/Cargo.toml": pkg("b", "[features]\ncuda = []\n"),
		"/w/c/Cargo.toml": pkg("c", "[features]\ncuda = []\n"), "/w/c/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn fast() {}\n",
		"/w/d/Cargo.toml": pkg("d", "[features]\ncuda = []\n"), "/w/d/src/lib.rs": "",
	})
	p, err := manifest.Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	check, err := NewEdgeCheck(h, p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range check.All(nil) {
		got = append(got, f.Severity+" "+f.Fix)
	}
	want := "warning cuda = [\"b/cuda\", \"c/cuda\"]\nnote cuda = [\"b/cuda\", \"d?/cuda\"]"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
