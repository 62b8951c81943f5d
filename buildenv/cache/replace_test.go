package cache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceWritesNothingOfOthersOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a [b]")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "Cargo.toml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write("Cargo.toml", "odd") // as long as what was read
	var changed *ChangedError
	if err := Replace(path, []byte("old"), []byte("new"), 0o640); !errors.As(err, &changed) || err != error(changed) {
		t.Errorf("a changed file: %T %v", err, err)
	}
	write("Cargo.toml", "old")
	write(".Cargo.toml.gpubuild-new", "of a killed run")
	if err := Replace(path, []byte("old"), []byte("new"), 0o640); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("%q %v", got, err)
	}
	if err := Replace(filepath.Join(dir, "gone"), nil, []byte("new"), 0o640); err == nil || errors.As(err, &changed) {
		t.Errorf("a file that is not there was replaced, or changed: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}
