package memo_test

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cachefiles "gpubuild/buildenv/cache"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/memo"
)

func store(t *testing.T) (s memo.Store, cache, work string) {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	cache, work = t.TempDir(), t.TempDir()
	return memo.Open(h, cache, time.Now()), cache, work
}

func write(t *testing.T, path, text string) {
	t.Helper()
	hosttest.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	hosttest.OK(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestAnEntryHoldsWhileItsInputsDo(t *testing.T) {
	for _, tt := range []struct {
		story  string
		change func(t *testing.T, dir string)
		holds  bool
	}{
		{"nothing changed", func(*testing.T, string) {}, true},
		{"a file that is not watched", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "other"), "x") }, true},
		{"a watched file has other bytes of the same size", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file"), "b") }, false},
		{"a watched file is gone", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "file")) }, false},
		{"a watched file that was not there appears", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "absent"), "x") }, false},
		{"a name appears in a watched directory", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "sub", "new"), "x") }, false},
	} {
		t.Run(tt.story, func(t *testing.T) {
			s, _, dir := store(t)
			write(t, filepath.Join(dir, "file"), "a")
			write(t, filepath.Join(dir, "sub", "old"), "a")
			inputs := s.Watch(filepath.Join(dir, "file"), filepath.Join(dir, "absent"), filepath.Join(dir, "sub"))
			hosttest.OK(t, s.Put("kind", "key", inputs, []byte("bytes\nof two lines")))
			tt.change(t, dir)
			data, ok := s.Get("kind", "key")
			if ok != tt.holds || ok && string(data) != "bytes\nof two lines" {
				t.Errorf("got %q, %v; want holds=%v", data, ok, tt.holds)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	hosttest.OK(t, os.Remove(path))
}

// TestAYoungFileIsReadOnceMore: a file that was just written is known by its content until a later run has found it unchanged.
func TestAYoungFileIsReadOnceMore(t *testing.T) {
	s, cache, dir := store(t)
	file := filepath.Join(dir, "file")
	write(t, file, "a")
	hosttest.OK(t, s.Put("kind", "key", s.Watch(file), nil))
	if _, ok := s.Get("kind", "key"); !ok {
		t.Fatal("nothing was kept")
	}
	h := hosttest.Must(local.Host())(t)
	later := memo.Open(h, cache, time.Now().Add(time.Minute))
	for i, want := range []bool{true, false} {
		data := hosttest.Must(os.ReadFile(filepath.Join(cache, "memo", "kind", "key")))(t)
		if got := strings.Contains(string(data), " = "); got != want {
			t.Errorf("before run %d: known by content: %v, want %v:\n%s", i+1, got, want, data)
		}
		if _, ok := later.Get("kind", "key"); !ok {
			t.Errorf("run %d found it changed", i+1)
		}
	}
	write(t, file, "b")
	if _, ok := later.Get("kind", "key"); ok {
		t.Error("a change was not seen")
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil { // as a copy that keeps times
		t.Fatal(err)
	}
	fi := hosttest.Must(os.Stat(file))(t)
	if state := s.State(file); !strings.Contains(state, " = ") && cachefiles.StateTimeOf(fi) != 0 {
		t.Errorf("one that was written now with an old time is known by %s", state)
	}
}

func TestADamagedEntryIsAMiss(t *testing.T) {
	s, cache, dir := store(t)
	hosttest.OK(t, s.Put("kind", "key", s.Watch(dir), []byte("some bytes")))
	path := filepath.Join(cache, "memo", "kind", "key")
	whole := hosttest.Must(os.ReadFile(path))(t)
	for cut := range whole {
		write(t, path, string(whole[:cut]))
		if data, ok := s.Get("kind", "key"); ok {
			t.Fatalf("the first %d bytes were taken for an entry: %q", cut, data)
		}
		flipped := append([]byte{}, whole...)
		flipped[cut] ^= 0x20
		write(t, path, string(flipped))
		if data, ok := s.Get("kind", "key"); ok && string(data) != "some bytes" {
			t.Fatalf("an entry with byte %d changed was taken: %q", cut, data)
		}
	}
}

// TestAnEntryOfAnother: the checksum fits, and yet it is none of ours, or of a file that was other bytes.
func TestAnEntryOfAnother(t *testing.T) {
	s, cache, dir := store(t)
	file := filepath.Join(dir, "file")
	write(t, file, "a")
	state := s.State(file)
	if !strings.Contains(state, " = ") || !strings.Contains(s.State(dir), " = ") {
		t.Fatalf("young, and known by %s and %s", state, s.State(dir))
	}
	line := state + "\t" + file + "\n"
	other := strings.Replace(line, " = ", " = 0", 1)
	for story, tt := range map[string]struct {
		schema, inputs int
		rest           string
		holds          bool
	}{
		"ours":               {1, 1, line + "bytes", true},
		"the next schema":    {2, 1, line + "bytes", false},
		"fewer than none":    {1, -1, line + "bytes", false},
		"more than there is": {1, 1000, line + "bytes", false},
		"one more":           {1, 2, line + "bytes", false},
		"a line without tab": {1, 2, line + "bytes\n", false},
		"other bytes":        {1, 1, other + "bytes", false},
	} {
		write(t, filepath.Join(cache, "memo", "kind", "key"),
			fmt.Sprintf(`{"schema":%d,"inputs":%d,"sum":%d}`+"\n%s", tt.schema, tt.inputs, crc32.ChecksumIEEE([]byte(tt.rest)), tt.rest))
		if data, ok := s.Get("kind", "key"); ok != tt.holds || ok && string(data) != "bytes" {
			t.Errorf("%s: %q, %v", story, data, ok)
		}
	}
}

// TestPutAndRemove: what is written is counted, and what cannot be is an error; what is removed is gone.
func TestPutAndRemove(t *testing.T) {
	s, cache, _ := store(t)
	var puts atomic.Int64
	s = s.Counting(&puts)
	write(t, filepath.Join(cache, "memo", "file"), "")
	write(t, filepath.Join(cache, "memo", "kind", "dir", "x"), "")
	for _, at := range [][2]string{{"file", "key"}, {"kind", "dir"}} {
		if err := s.Put(at[0], at[1], nil, nil); err == nil {
			t.Errorf("%s was written", at)
		}
	}
	if err := s.Remove("kind", "dir"); err == nil {
		t.Error("a directory that is not empty was removed")
	}
	if err := s.Put("kind", "key", nil, []byte("x")); err != nil || puts.Load() != 1 {
		t.Errorf("%v, %d were written", err, puts.Load())
	}
	for range 2 { // the second finds none
		hosttest.Equal(t, s.Remove("kind", "key"), nil)
	}
	if _, ok := s.Get("kind", "key"); ok {
		t.Error("a removed entry is there")
	}
}

func TestAPathThatNoLineCanHold(t *testing.T) {
	s, _, _ := store(t)
	for _, path := range []string{"a\nb", "a\tb"} {
		if err := s.Put("kind", "key", s.Watch(path), nil); err == nil {
			t.Errorf("an input %q was written", path)
		}
	}
}

func TestOldEntriesArePruned(t *testing.T) {
	s, cache, _ := store(t)
	for i := range 510 {
		hosttest.OK(t, s.Put("kind", fmt.Sprint(i), nil, nil))
	}
	entries := hosttest.Must(os.ReadDir(filepath.Join(cache, "memo", "kind")))(t)
	if _, ok := s.Get("kind", "509"); !ok || len(entries) > 500 {
		t.Errorf("%d entries are left, want at most 500, with the last: %v", len(entries), ok)
	}
	if _, ok := s.Get("kind", "251"); !ok || len(entries) < 250 {
		t.Errorf("%d entries are left: the newer half stays (%v)", len(entries), ok)
	}
}
