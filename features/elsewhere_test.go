package features

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestElsewhere holds what is said of other selections, of resolver 1 and of copies against the shapes, whose graphs are cargo's own.
func TestElsewhere(t *testing.T) {
	files := map[string]string{}
	for p, text := range shapeFiles(t) {
		files["/w/"+p] = text
	}
	h := memHost(files)
	want := map[string]string{
		"the wrong member":                  IDElsewhere + " other: the same command from the workspace root /w/ws-3 reaches: there other is built together with gpu",
		"a whole workspace":                 IDElsewhere + " other: the same command with `-p other`, or in its directory, does not reach: here it is built together with gpu",
		"a build script's copy, resolver 1": IDResolver1 + " host-build-1: CUDA is on in host-build-1 only because resolver 1",
		"a proc-macro's copy, resolver 1":   IDResolver1 + " host-macro-1: CUDA is on",
		"a dev-dependency, resolver 1":      IDResolver1 + " dev-1: CUDA is on",
		"a build script's copy, resolver 2": IDHostCopy + " host-build-2: candle-core 0.11.1 has `cuda` in this build, but only in a copy",
		"a proc-macro's copy, resolver 2":   IDHostCopy + " host-macro-2: candle-core 0.11.1 has `cuda`",
		"a crate in between is not told":    IDElsewhere + " app: the same command from the workspace root",
		"CUDA without any flag":             "",
		"the right member":                  "",
	}
	for _, s := range shapes {
		data, err := os.ReadFile(graphName(s.dir, s.args, s.test))
		if err != nil {
			t.Fatal(err)
		}
		g, err := ParseGraph(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(h, "/w/"+s.dir+"/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		cat, err := DefaultCatalog()
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Project: p, Request: s.request, Graph: g, Catalog: cat}
		a, err := Judge(h, in)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Elsewhere(h, in, a)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range list {
			if f.Severity != Note || f.Path == "" || f.Line == 0 {
				t.Errorf("%s: %+v", s.story, f)
			}
			got += f.ID + " " + f.Root + ": " + f.Message + "\n"
		}
		if w := want[s.story]; !strings.HasPrefix(got, w) || w == "" && got != "" || strings.Count(got, "\n") > 1 {
			t.Errorf("%s: got %q, want %q", s.story, got, w)
		}
		delete(want, s.story)
	}
	for story := range want {
		t.Errorf("no shape has the story %q", story)
	}
}
