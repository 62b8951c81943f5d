package archive_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/archive"
	"gpubuild/cmd/internal/origin"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// sample writes an archive with a program and a library.
func sample(t *testing.T) (path string, m archive.Manifest) {
	t.Helper()
	dir := t.TempDir()
	m, err := archive.Write(filepath.Join(dir, "row.tar"), archive.Manifest{
		Origin: origin.Origin{Commit: "abc", Row: "row"}, Program: "bin/app", Proofs: []archive.Proof{{Row: "prove-row"}}}, []archive.Source{
		{Path: "bin/app", From: write(t, filepath.Join(dir, "app"), "program"), Run: true},
		{Path: "lib/libx.so.1", From: write(t, filepath.Join(dir, "libx"), "library")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "row.tar"), m
}

func TestAArchiveArrivesAsItWasPacked(t *testing.T) {
	t.Parallel()
	path, m := sample(t)
	head, err := archive.Read(path)
	if err != nil || head.Origin.Commit != "abc" || len(head.Files) != 2 {
		t.Fatalf("%+v %v", head, err)
	}
	dir := t.TempDir()
	got, err := archive.Unpack(path, dir)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := m.Sum()
	if after, err := got.Sum(); err != nil || after != before {
		t.Errorf("%s became %s: %v", before, after, err)
	}
	fi, err := os.Stat(filepath.Join(dir, "bin", "app"))
	if err != nil || os.PathSeparator == '/' && fi.Mode().Perm()&0o100 == 0 {
		t.Errorf("the program cannot be run: %v %v", fi, err)
	}
	if _, ok := got.Proof("prove-row"); !ok {
		t.Error("the row that proves is lost")
	}
	if again, err := archive.Write(filepath.Join(t.TempDir(), "x"), got, nil); err != nil || len(again.Files) != 0 {
		t.Errorf("%+v %v", again, err)
	}
}

// TestAChangedArchiveIsRefused: nothing of an archive that is not as it was packed is run.
func TestAChangedArchiveIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, dir string){
		"a changed program": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "bin", "app"), "progrAm") },
		"a missing library": func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "lib", "libx.so.1")) },
		"one library more":  func(t *testing.T, dir string) { write(t, filepath.Join(dir, "lib", "libcuda.so.1"), "") },
		"no manifest":       func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "manifest.json")) },
	} {
		path, _ := sample(t)
		dir := t.TempDir()
		if _, err := archive.Unpack(path, dir); err != nil {
			t.Fatal(err)
		}
		change(t, dir)
		if _, err := archive.Verify(dir); exit.Of(err) != exit.Unproved {
			t.Errorf("%s: %v", name, err)
		}
	}
	path, _ := sample(t)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"cut":      data[:len(data)/2],
		"damaged":  bytes.Replace(data, []byte("library"), []byte("Library"), 1),
		"outwards": bytes.ReplaceAll(data, []byte("lib/libx.so.1"), []byte("../libx.so.11")),
		"no tar":   []byte("hello"),
	} {
		if _, err := archive.Unpack(write(t, path+name, string(text)), t.TempDir()); err == nil || exit.Of(err) != exit.Unproved {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := archive.Read(filepath.Join(t.TempDir(), "none.tar")); err == nil || !strings.Contains(err.Error(), "is not a whole archive") {
		t.Errorf("got %v", err)
	}
}

// TestAProofRunsOnlyWhatTheArchiveHolds: neither the program nor CUPTI may be a file of the machine.
func TestAProofRunsOnlyWhatTheArchiveHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	app := archive.Source{Path: "bin/app", From: write(t, filepath.Join(dir, "app"), "program"), Run: true}
	for _, m := range []archive.Manifest{
		{Program: "../../../../bin/true"}, {Program: "/bin/true"}, {Program: "bin/other"}, {}, {Program: "bin/app", CUPTI: "../libcupti.so"},
	} {
		path := filepath.Join(dir, "row.tar")
		if _, err := archive.Write(path, m, []archive.Source{app}); err != nil {
			t.Fatal(err)
		}
		_, err := archive.Unpack(path, t.TempDir())
		if exit.Of(err) != exit.Unproved || !strings.Contains(err.Error(), "is not one of its files") {
			t.Errorf("program %q, CUPTI %q: %v", m.Program, m.CUPTI, err)
		}
	}
}
