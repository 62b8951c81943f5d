package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/local"
)

func TestOverlay(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(path, text string) string {
		t.Helper()
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	header := file("CUDNN/v9.17/include/12.9/cudnn_version.h", "#define CUDNN_MAJOR 9\n")
	lib := file("CUDNN/v9.17/lib/12.9/x64/cudnn.lib", "import")
	file("CUDNN/v9.17/lib/12.9/x64/notes.txt", "no library")
	cacheDir := filepath.Join(dir, "cache")
	root, err := Overlay(h, cacheDir, "9.17.0", filepath.Dir(header), filepath.Dir(lib))
	if err != nil {
		t.Fatal(err)
	}
	list := func(root string) string {
		t.Helper()
		var names []string
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				rel, _ := filepath.Rel(root, path)
				names = append(names, filepath.ToSlash(rel)+"="+strings.TrimSpace(string(data)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	if got, want := list(root), "include/cudnn_version.h=#define CUDNN_MAJOR 9 lib/x64/cudnn.lib=import"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if again, err := Overlay(h, cacheDir, "9.17.0", filepath.Dir(header), filepath.Dir(lib)); err != nil || again != root {
		t.Errorf("the second time: %s, %v", again, err)
	}
	// An update in the same place is another cuDNN; the old view is not changed under whoever uses it.
	if err := os.Remove(lib); err != nil {
		t.Fatal(err)
	}
	file("CUDNN/v9.17/lib/12.9/x64/cudnn.lib", "a newer import library")
	newer, err := Overlay(h, cacheDir, "9.17.0", filepath.Dir(header), filepath.Dir(lib))
	if err != nil || newer == root || !strings.Contains(list(newer), "a newer import library") || !strings.Contains(list(root), "=import") {
		t.Errorf("after an update: %s (%s), %v", newer, list(root), err)
	}
	if left, _ := filepath.Glob(filepath.Join(cacheDir, "overlays", ".making-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := Overlay(h, cacheDir, "9.17.0", filepath.Dir(header), filepath.Join(dir, "gone")); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a directory that is gone: %v", err)
	}
}
