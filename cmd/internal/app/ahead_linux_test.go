//go:build linux

package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGraphOfACargoThatFails: what was made of a graph before cargo's end is dropped when cargo then fails. Nothing of it is said or kept.
func TestGraphOfACargoThatFails(t *testing.T) {
	real, err := exec.LookPath("cargo")
	if err != nil {
		t.Skip("cargo is not here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	counting, cache := filepath.Join(top, "counting-cargo"), filepath.Join(top, "cache")
	if err := os.Symlink(self, counting); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, top, map[string]string{
		"ws/Cargo.toml":         "[workspace]\nmembers = [\"app\", \"engine\"]\nresolver = \"2\"\n",
		"ws/app/Cargo.toml":     "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n[dependencies]\nengine = { path = \"../engine\" }\n",
		"ws/app/src/main.rs":    "fn main() {}\n",
		"ws/engine/Cargo.toml":  "[package]\nname = \"engine\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n",
		"ws/engine/src/lib.rs":  "#[cfg(feature = \"cuda\")]\npub fn gpu() {}\n",
		"ws/engine/src/more.rs": "",
	})
	dir := filepath.Join(top, "ws", "app")
	lock := exec.Command(real, "generate-lockfile", "--offline", "-q")
	lock.Dir = dir
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(fail string, verb ...string) (string, int) {
		c := exec.Command(binary(t), verb...)
		c.Dir = dir
		c.Env = append(os.Environ(), "CARGO="+counting, "REAL_CARGO="+real, "COUNT="+filepath.Join(top, "count"), "GPUBUILD_CACHE="+cache, "CARGO_NET_OFFLINE=true", "FAIL_AFTER_GRAPH="+fail)
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	const said = "error: cargo changed its mind"
	for _, verb := range [][]string{{"features", "--features", "cuda"}, {"check", "--features", "cuda"}} {
		if out, code := run(said, verb...); out != said+"\n" || code != 101 {
			t.Errorf("%v: %q, %d", verb, out, code)
		}
		for _, kept := range []string{"answers", "told"} {
			if left, _ := os.ReadDir(filepath.Join(cache, kept)); len(left) > 0 {
				t.Errorf("%v: %s holds %v", verb, kept, left)
			}
		}
	}
	out, _ := run("", "features", "--features", "cuda")
	if again, _ := run("", "features", "--features", "cuda"); again != out || !strings.Contains(out, "engine") {
		t.Errorf("got\n%s\nand then\n%s", out, again)
	}
}
