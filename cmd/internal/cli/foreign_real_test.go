//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitPackageWithoutAUnitGraph has kernels in a package of a repository, and settings that keep cargo from being asked for its unit
// graph. The lock file says by which name cargo's messages call it.
func TestGitPackageWithoutAUnitGraph(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	top := filepath.Dir(b.dir)
	for _, repository := range []string{"kern", "two"} {
		dir := filepath.Join(top, repository)
		writeFiles(t, dir, map[string]string{
			"Cargo.toml": "[package]\nname = \"kern\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n",
			"build.rs":   scriptHead + "fn main() {\n" + scriptDeclares + "    compile();\n}\n" + compileBy(`"nvcc"`),
			"src/lib.rs": "#[cfg(feature = \"cuda\")]\npub const PTX: &str = include_str!(concat!(env!(\"OUT_DIR\"), " +
				"\"/matmul.ptx\"));\n",
			"src/matmul.cu": "extern \"C\" __global__ void kern(float *x) { x[threadIdx.x] *= 2; }\n",
		})
		for _, words := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@localhost",
			"commit", "-q", "-m", "kernels"}} {
			c := exec.Command("git", words...)
			c.Dir = dir
			b.must(c)
		}
	}
	// A home of its own for the checkouts, with the registry's packages that are there.
	home := filepath.Join(top, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(cargoHome(), "registry"), filepath.Join(home, "registry")); err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "CARGO_HOME="+home, "RUSTUP_HOME="+rustupHome())
	manifest, err := os.ReadFile(filepath.Join(b.dir, "Cargo.toml"))
	if err != nil {
		t.Fatal(err)
	}
	depend := func(text string) {
		t.Helper()
		b.write("Cargo.toml", []byte(strings.Replace(string(manifest), `cuda = ["dep:cudarc"]`, `cuda = ["dep:cudarc", "kern/cuda"]`, 1)+
			text))
		c := b.command(nil, "cargo", "fetch")
		c.Env = append(c.Env, "CARGO_NET_OFFLINE=false")
		b.must(c)
	}
	b.write(filepath.Join(".cargo", "config.toml"), []byte("[unstable]\nmtime-on-use = true\n"))
	for _, tt := range []struct{ story, repository string }{{"an address that ends with the name", "kern"}, {"one that does not", "two"}} {
		depend("[dependencies.kern]\ngit = \"file://" + filepath.Join(top, tt.repository) + "\"\nbranch = \"main\"\n")
		if text := b.ends(tt.story, b.first, "sm_90", 0, 0, "`cargo tree`"); strings.Contains(text, "warning: kern") {
			t.Errorf("%s: not known\n%s", tt.story, text)
		}
		b.rebuilt(tt.story+", once more", b.ends(tt.story, b.first, "sm_90", 0, 0, "!Stale", "!Unknown"))
		b.ends(tt.story+", another toolkit", b.other, "sm_90", 0, 1, "Stale nvcc", "Cleaned kern, matmul")
		if text, code := b.says("stale", "--features", "cuda", "--toolkit="+b.first, "--arch=sm_90"); code != 13 ||
			!strings.Contains(text, "kern") {
			t.Errorf("%s: stale ends with %d\n%s", tt.story, code, text)
		}
		b.ends(tt.story+", and back", b.first, "sm_90", 0, 1, "Stale nvcc", "Cleaned kern, matmul")
	}
}
