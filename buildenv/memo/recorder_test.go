package memo_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/memo"
)

// TestRecorder: whatever is looked at through a recorded host is an input, with what of it was looked at.
func TestRecorder(t *testing.T) {
	t.Parallel()
	host := hosttest.Must(local.Host())(t)
	top := t.TempDir()
	path := func(name string) string { return filepath.Join(top, name) }
	write := func(name, text string) {
		t.Helper()
		hosttest.OK(t, os.WriteFile(path(name), []byte(text), 0o644))
	}
	for _, dir := range []string{"listed", "there"} {
		hosttest.OK(t, os.Mkdir(path(dir), 0o755))
	}
	write("read", "1")
	write("stat", "1")
	write("exists", "1")
	later := memo.Open(host, path("cache"), time.Now().Add(time.Minute)) // nothing is young
	look := func() []memo.Input {
		t.Helper()
		h, r := later.Record()
		_, _ = h.ReadFile(path("read"), buildenv.Note)
		_, _ = h.Files.Stat(path("stat"))
		_, _ = h.IsFile(path("exists")), h.IsFile(path("absent"))
		_, _ = h.Names(path("listed")), h.IsDir(path("there"))
		_ = h.IsFile(filepath.Join(path("cache"), "memo", "x"))
		list, ok := r.Inputs(path("cache"))
		if !ok || len(list) != 6 {
			t.Fatalf("%v %v", list, ok)
		}
		return list
	}
	for _, c := range []struct {
		story   string
		do      func()
		changed bool
	}{
		{"nothing", func() {}, false},
		{"a file that was read", func() { write("read", "2") }, true},
		{"a file that was looked at", func() { write("stat", "2") }, true},
		{"what is in a file of which it was asked whether it is there", func() { write("exists", "2") }, false},
		{"a name in a directory that was listed", func() { write("listed/new", "") }, true},
		{"a name in a directory that was not", func() { write("there/new", "") }, false},
		{"another file in place of one of which it was asked whether it is there", func() { write("moved", "1"); _ = os.Rename(path("moved"), path("exists")) }, false},
		{"another directory", func() { _ = os.Rename(path("there"), path("away")); _ = os.Mkdir(path("there"), 0o755) }, true},
		{"a file that was not there", func() { write("absent", "") }, true},
		{"a file that was there", func() { _ = os.Remove(path("exists")) }, true},
		{"a file with its old time", func() {
			old := hosttest.Must(os.Stat(path("read")))(t)
			write("read", "3")
			hosttest.OK(t, os.Chtimes(path("read"), old.ModTime(), old.ModTime()))
		}, host.OS != "windows"},
	} {
		list := look()
		c.do()
		if later.Unchanged(list) == c.changed {
			t.Errorf("%s: changed %v", c.story, c.changed)
		}
	}
	h, r := memo.Open(host, path("cache"), time.Now()).Record()
	write("read", "4")
	_, _ = h.ReadFile(path("read"), buildenv.Note)
	if list, ok := r.Inputs(); ok {
		t.Errorf("a file that was written a moment ago: %v", list)
	}
}
