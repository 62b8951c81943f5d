package source

import (
	"io/fs"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

// TestEachFileIsReadOnce: questions about several features and programs of a package share its texts.
func TestEachFileIsReadOnce(t *testing.T) {
	t.Parallel()
	h := hosttest.Memory(map[string]string{
		"/w/src/lib.rs": "include!(\"part.rs\");\n#[cfg(feature = \"cuda\")]\npub fn gpu() {}\n", "/w/src/part.rs": "#[cfg(feature = \"gpu\")]\nmod a;\n",
		"/w/src/main.rs": "fn main() {}\n", "/w/src/bin/tool.rs": "#[cfg(feature = \"cuda\")]\nfn main() {}\n", "/w/build.rs": "fn main() {}\n",
	})
	files := &counted{h.Files, map[string]int{}}
	h.Files = files
	r := NewReader(h, "/w")
	p := &manifest.Package{Name: "app", Dir: "/w", BuildScript: "/w/build.rs", Features: map[string][]string{"cuda": nil, "gpu": nil}}
	for _, main := range []string{"", "/w/src/main.rs", "/w/src/bin/tool.rs"} {
		for _, f := range []string{"cuda", "gpu"} {
			if g := r.GateOf(p, f, Build{}, main); len(g.Files) == 0 {
				t.Errorf("%s gates nothing with %q", f, main)
			}
		}
	}
	for path, n := range files.opened {
		if n > 1 && path != "/w/build.rs" && path != "/w/src/part.rs" { // those are looked at as modules, too
			t.Errorf("%s was opened %d times", path, n)
		}
	}
}

type counted struct {
	buildenv.Files
	opened map[string]int
}

func (c *counted) Open(path string) (fs.File, error) {
	c.opened[path]++
	return c.Files.Open(path)
}

func TestGatesCode(t *testing.T) {
	for text, want := range map[string]bool{
		`#[cfg(feature = "cuda")]` + "\nmod gpu;":                            true,
		`if cfg!(feature="cuda") {`:                                          false,
		`#[cfg(all(feature = "realizar", feature = "cuda"))]` + "\nfn f(){}": true,
		`// #[cfg(feature = "cuda")]`:                                        false,
		`//! built with feature = "cuda"`:                                    false,
		`#[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]`:                    false,
		`#[cfg(feature = "cuda")]` + "\n" + `compile_error!("no");`:          false,
		`#[cfg(feature = "cuda-11")]`:                                        false,
		`let x = "cuda";`:                                                    false,
	} {
		if got := gatesCode(text, testOf("cuda"), Build{}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
