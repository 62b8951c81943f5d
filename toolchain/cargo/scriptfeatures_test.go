package cargo

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/need"
	"gpubuild/toolchain/cargo/builddir"
)

// twofold is a package that cargo builds twice, for a build script and for the program, with features of each's own. Its script writes down which it got, and
// waits for another package's, which is one more thing that went into its run.
const twofold = `
-- Cargo.toml --
[package]
name = "app"
version = "0.1.0"
edition = "2018"
[workspace]
resolver = "2"
members = ["two-fold", "deep"]
[dependencies]
two-fold = { path = "two-fold", features = ["inside"] }
[build-dependencies]
two-fold = { path = "two-fold", features = ["outside", "both"] }
-- build.rs --
fn main() {}
-- src/main.rs --
fn main() {}
-- two-fold/Cargo.toml --
[package]
name = "two-fold"
version = "0.1.0"
edition = "2018"
build = "tools/make.rs"
[features]
inside = []
outside = []
both = []
[dependencies]
deep = { path = "../deep" }
-- two-fold/src/lib.rs --
-- two-fold/tools/make.rs --
fn main() {
    println!("cargo:rerun-if-changed=tools/make.rs");
    let on = ["BOTH", "INSIDE", "OUTSIDE"].iter().filter(|f| std::env::var_os(format!("CARGO_FEATURE_{}", f)).is_some()).map(|f| f.to_lowercase());
    std::fs::write(std::path::Path::new(&std::env::var_os("OUT_DIR").unwrap()).join("on"), on.collect::<Vec<_>>().join(",")).unwrap();
}
-- deep/Cargo.toml --
[package]
name = "deep"
version = "0.1.0"
edition = "2018"
links = "deep"
-- deep/src/lib.rs --
-- deep/build.rs --
fn main() {}
`

// TestFeatures holds what cargo's files tell against what the scripts themselves saw, with each cargo and layout that is here.
func TestFeatures(t *testing.T) {
	need.Asked(t, "long")
	triple := ""
	if out, err := exec.Command("rustc", "-vV").Output(); err == nil {
		_, rest, _ := strings.Cut(string(out), "host: ")
		triple, _, _ = strings.Cut(rest, "\n")
	}
	for _, tt := range []struct {
		story  string
		words  []string
		script string // where a script's OUT_DIR lies
		trees  []string
		need   string
	}{
		{"the host's tree", nil, "build/two-fold-*/out", []string{""}, ""},
		{"a platform's tree beside it", []string{"--target", triple}, "build/two-fold-*/out", []string{"", triple}, ""},
		{"cargo 1.60", []string{"+1.60"}, "build/two-fold-*/out", []string{""}, "cargo-1.60"},
		{"the layout of cargo 1.100", []string{"+nightly", "-Zbuild-dir-new-layout"}, "build/two-fold/*/out", []string{""}, "nightly"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			if tt.need != "" {
				need.Asked(t, tt.need)
				if exec.Command("cargo", append(tt.words, "-V")...).Run() != nil {
					need.Missing(t, tt.need, "cargo %s", strings.Join(tt.words, " "))
				}
			}
			p := newProject(t, twofold)
			toolchain := tt.words[:0:0]
			if len(tt.words) > 0 && tt.words[0][0] == '+' {
				toolchain = tt.words[:1]
			}
			p.must(append(toolchain[:len(toolchain):len(toolchain)], append([]string{"build"}, tt.words[len(toolchain):]...)...)...)
			var profiles, told []string
			for _, tree := range tt.trees {
				profiles = append(profiles, filepath.Join(p.dir, "target", tree, "debug"))
			}
			for _, profile := range profiles {
				outs, err := filepath.Glob(filepath.Join(profile, filepath.FromSlash(tt.script)))
				if err != nil {
					t.Fatal(err)
				}
				for _, out := range outs {
					is, err := os.ReadFile(filepath.Join(out, "on"))
					if err != nil {
						continue // of the script itself as it was compiled
					}
					got, ok := builddir.Features(p.h, out, profiles)
					if !ok || strings.Join(got, ",") != string(is) {
						t.Errorf("%s: %q, %v; its script saw %q", out, got, ok, is)
					}
					told = append(told, strings.Join(got, ","))

					// Nothing is told of a script that was compiled nowhere.
					if _, ok := builddir.Features(p.h, out, nil); ok {
						t.Errorf("%s: told although no script was compiled there", out)
					}
				}
			}
			slices.Sort(told)
			if want := []string{"both,outside", "inside"}; !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}
