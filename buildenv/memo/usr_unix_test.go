//go:build unix

package memo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
)

// TestRecorderBelowUsr: in place of what is not there counts its directory, which says nothing of where a dangling link leads.
func TestRecorderBelowUsr(t *testing.T) {
	t.Parallel()
	host := hosttest.Must(local.Host())(t)
	top := t.TempDir()
	dir, target := filepath.Join(top, "dir"), filepath.Join(top, "target")
	link := filepath.Join(dir, "link")
	hosttest.OK(t, errors.Join(os.Mkdir(dir, 0o755), os.Symlink(target, link)))
	later := Open(host, filepath.Join(top, "cache"), time.Now().Add(time.Minute))
	look := func() []Input {
		h, r := later.Record()
		r.usr = top
		_, _ = h.Files.Stat(link)
		for _, name := range []string{"a", "b", "c"} {
			_ = h.IsFile(filepath.Join(dir, name))
		}
		list, ok := r.Inputs()
		if !ok || len(list) != 2 { // the link, and the directory in place of the others
			t.Fatalf("%v %v", list, ok)
		}
		return list
	}
	for _, name := range []string{target, filepath.Join(dir, "b")} {
		list := look()
		if !later.Unchanged(list) {
			t.Errorf("before %s is there, it has changed", name)
		}
		hosttest.OK(t, os.WriteFile(name, nil, 0o644))
		if later.Unchanged(list) {
			t.Errorf("%s is there, and nothing has changed", name)
		}
		hosttest.OK(t, os.Remove(name))
	}
}

// TestWhatOthersMayWrite: where somebody else may have written an entry or changed its name, it is none.
func TestWhatOthersMayWrite(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	s := Open(hosttest.Must(local.Host())(t), cache, time.Now())
	hosttest.OK(t, s.Put("kind", "key", nil, []byte("x")))
	for _, part := range []string{"memo", "memo/kind", "memo/kind/key"} {
		path := filepath.Join(cache, part)
		mode := hosttest.Must(os.Stat(path))(t).Mode().Perm()
		for _, open := range []os.FileMode{0o777, 0o770} {
			hosttest.OK(t, os.Chmod(path, open))
			if _, ok := s.Get("kind", "key"); ok {
				t.Errorf("mode %o of %s: it is taken", open, part)
			}
		}
		hosttest.OK(t, os.Chmod(path, mode))
		if _, ok := s.Get("kind", "key"); !ok {
			t.Errorf("mode %o of %s: it is not taken", mode, part)
		}
	}
}
