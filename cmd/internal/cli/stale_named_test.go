//go:build linux

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestNamedInWhatRuns changes each file that the build script, or something that it runs, names, whatever it is called, and what no one
// names. Plain cargo sees none of these changes.
func TestNamedInWhatRuns(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	s.target = filepath.Join(s.dir, "sys", "target") // where the package's own sources are looked for
	files := kern("app")
	files["sys/Cargo.toml"] += "[package.metadata.kernel]\nnumber = 1\n[build-dependencies]\nnames = { path = \"../names\" }\n"
	files["Cargo.toml"] = strings.Replace(files["Cargo.toml"], `"plain"]`, `"plain", "names"]`, 1)
	delete(files, "Cargo.lock")
	files["names/Cargo.toml"] = "[package]\nname = \"names\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"
	files["names/src/lib.rs"] = "pub const LIST: &str = \"list\";\n"
	files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], "    let ok = ", `    let _ = std::fs::read(names::LIST).unwrap();
    let _ = std::fs::read(format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for e in std::fs::read_dir("values").unwrap() { std::fs::read(e.unwrap().path()).unwrap(); }
    assert!(Command::new("sh").arg("steps/run.sh").status().unwrap().success());
    std::fs::create_dir_all("../made").unwrap();
    std::fs::write(Path::new("../made").join("own.h"), "").unwrap();
    let ok = `, 1)
	named := []string{"sys/list", "sys/values/one value", "sys/steps/run.sh", "sys/steps/common", "sys/number.txt"}
	files["sys/list"], files["sys/values/one value"], files["sys/number.txt"], files["sys/other.md"] = "1\n", "1\n", "1\n", "1\n"
	files["sys/steps/run.sh"] = "cd $(dirname $0)\n. ./common\n"
	files["sys/steps/common"] = "cat ../number.txt\n"
	writeFiles(t, s.dir, files)
	s.build(s.a, "sm_90")
	if text := s.build(s.a, "sm_90"); didClean(text) {
		t.Errorf("what the script wrote itself\n%s", text)
	}
	for _, name := range append(named, "sys/Cargo.toml", "sys/other.md", "sys/target/CACHEDIR.TAG") {
		path := filepath.Join(s.dir, name)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(data, "# changed\n"...), 0o755)
		}
		if strings.HasSuffix(name, ".TAG") {
			err = os.Remove(path)
		}
		noError(t, err)
		want := strings.Contains(name, "other") || strings.Contains(name, "TAG")
		if text := s.build(s.a, "sm_90"); didClean(text) == want {
			t.Errorf("%s: cleaned: %v\n%s", name, !want, text)
		}
		if text := s.build(s.a, "sm_90"); didClean(text) {
			t.Errorf("%s: and again\n%s", name, text)
		}
	}
}
