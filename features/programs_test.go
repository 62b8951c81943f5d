package features

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"gpubuild/buildenv/local"
	"gpubuild/buildenv/need"
	"gpubuild/features/manifest"
)

// TestProgramsAreCargos has cargo list the targets of packages, and builds of them just those whose required features are on.
func TestProgramsAreCargos(t *testing.T) {
	need.Asked(t, "cargo")
	const head = "[package]\nname = \"a-b\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"
	const main = "fn main() {}\n"
	for _, tt := range []struct {
		story    string
		manifest string
		files    []string
		on       []string
	}{
		{"one program", "", []string{"src/main.rs"}, nil},
		{"a library alone", "", []string{"src/lib.rs"}, nil},
		{"a library of another name", "[lib]\nname = \"other\"\ncrate-type = [\"cdylib\"]\n", []string{"src/lib.rs"}, nil},
		{"programs and examples by their places", "", []string{"src/lib.rs", "src/main.rs", "src/bin/one.rs", "src/bin/two/main.rs", "src/bin/two/part.rs", "src/bin/none/part.rs", "examples/e.rs", "examples/f/main.rs"}, nil},
		{"one of them listed, with a name and features", "[features]\ncuda = [\"gpu\"]\ngpu = []\n[[bin]]\nname = \"train\"\npath = \"src/bin/one.rs\"\nrequired-features = [\"gpu\"]\n[[example]]\nname = \"e\"\nrequired-features = [\"cuda\"]\n",
			[]string{"src/main.rs", "src/bin/one.rs", "examples/e.rs"}, []string{"cuda"}},
		{"the features are off", "[features]\ncuda = [\"gpu\"]\ngpu = []\n[[bin]]\nname = \"train\"\npath = \"src/bin/one.rs\"\nrequired-features = [\"gpu\"]\n[[example]]\nname = \"e\"\nrequired-features = [\"cuda\"]\n",
			[]string{"src/main.rs", "src/bin/one.rs", "examples/e.rs"}, nil},
		{"only what is listed", "autobins = false\nautoexamples = false\n[[bin]]\nname = \"one\"\n", []string{"src/main.rs", "src/bin/one.rs", "src/bin/two.rs", "examples/e.rs"}, nil},
	} {
		t.Run(tt.story, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("Cargo.toml", head+tt.manifest)
			for _, f := range tt.files {
				write(f, map[bool]string{true: "", false: main}[strings.HasSuffix(f, "lib.rs") || strings.HasSuffix(f, "part.rs")])
			}
			h, err := local.Host()
			if err != nil {
				t.Fatal(err)
			}
			project, err := manifest.Load(h, filepath.Join(dir, "Cargo.toml"))
			if err != nil {
				t.Fatal(err)
			}
			p := project.Members[0]
			c := exec.Command("cargo", "metadata", "--offline", "--no-deps", "--format-version=1")
			c.Dir = dir
			text, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			var said struct {
				Packages []struct {
					Targets []struct {
						Name     string
						Kind     []string
						Required []string `json:"required-features"`
					}
				}
			}
			if err := json.Unmarshal(text, &said); err != nil {
				t.Fatal(err)
			}
			on, _ := p.Closure(tt.on)
			var want []string
			for _, target := range said.Packages[0].Targets {
				built := true
				for _, f := range target.Required {
					built = built && on[f]
				}
				kind := target.Kind[0]
				if kind == "cdylib" {
					kind = "lib"
				}
				if built {
					want = append(want, kind+" "+target.Name)
				}
			}
			got := p.Programs(h, tt.on)
			var list []string
			for _, n := range got.Bins {
				list = append(list, "bin "+n)
			}
			for _, n := range got.Examples {
				list = append(list, "example "+n)
			}
			if got.Library != "" {
				list = append(list, "lib "+got.Library)
			}
			sort.Strings(list)
			sort.Strings(want)
			if strings.Join(list, ", ") != strings.Join(want, ", ") {
				t.Errorf("got  %s\nwant %s", strings.Join(list, ", "), strings.Join(want, ", "))
			}
		})
	}
}
