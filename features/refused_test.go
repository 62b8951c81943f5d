package features

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRefusedIsWhatCargoRefuses: what is refused without cargo is refused by cargo, too, and the other way round for the edges of features.
func TestRefusedIsWhatCargoRefuses(t *testing.T) {
	const deps = "[dependencies]\nalways = { path = \"dep\", package = \"dep\" }\nmaybe = { path = \"dep\", package = \"dep\", optional = true }\nhidden = { path = \"dep\", package = \"dep\", optional = true }\n[build-dependencies]\nbuilt = { path = \"dep\", package = \"dep\" }\n"
	tests := map[string]bool{ // the value of cuda → cargo takes it
		`[]`: true, `["fast"]`: true, `["maybe"]`: true, `["always/cuda"]`: true, `["maybe/cuda"]`: true, `["maybe?/cuda"]`: true, `["dep:hidden"]`: true,
		`["built/cuda"]`: true, `["cuda"]`: true, `["default"]`: false,
		`["nope"]`: false, `["always"]`: false, `["hidden"]`: false, `["nope/cuda"]`: false, `["nope?/cuda"]`: false, `["dep:nope"]`: false,
		`["dep:always"]`: false, `["always?/cuda"]`: false, `["hidden?/cuda"]`: true, `["hidden/cuda"]`: true,
	}
	for name, good := range map[string]bool{"--x": false, "x y": false, "+x": false, "x+y": true, "1x": true, "_x": true, ".x": false, "x.y-z": true, "x!": false, "é": true, "x@1": false} {
		tests["[] # "+name+"\n\""+name+"\" = []"] = good
	}
	cargo, missing := exec.LookPath("cargo")
	for value, good := range tests {
		t.Run(value, func(t *testing.T) {
			dir := t.TempDir()
			manifest := filepath.Join(dir, "Cargo.toml")
			for path, text := range map[string]string{
				"Cargo.toml": pkg("app", "[features]\ncuda = "+value+"\nfast = []\nother = [\"dep:hidden\"]\n"+deps), "src/main.rs": "fn main() {}\n", "build.rs": "fn main() {}\n",
				"dep/Cargo.toml": pkg("dep", "[features]\ncuda = []\n"), "dep/src/lib.rs": "",
			} {
				full := filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			p, err := Load(realHost(t), manifest)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Refused(); (err == nil) != good {
				t.Errorf("got %v", err)
			}
			if missing != nil {
				t.Skip("no cargo")
			}
			c := exec.Command(cargo, "metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest)
			if out, err := c.CombinedOutput(); (err == nil) != good {
				t.Errorf("cargo: %v %.300s", err, out)
			}
		})
	}
}
