//go:build linux || darwin

package cache_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

// speaker counts how often it was asked.
type speaker struct {
	asked  int
	answer buildenv.Result
	err    error
	during func()
}

func (s *speaker) Run(context.Context, buildenv.Cmd) (buildenv.Result, error) {
	s.asked++
	if s.during != nil {
		s.during()
	}
	return s.answer, s.err
}

// said is a compiler behind two links, another file that counts, and a cache.
type said struct {
	*cache.Sayings
	speaker *speaker
	dir     string
	cmd     buildenv.Cmd
}

func newSaid(t *testing.T) said {
	t.Helper()
	dir := t.TempDir()
	s := said{speaker: &speaker{answer: buildenv.Result{Stdout: []byte("gcc 14.2.0\n")}}, dir: dir}
	s.put(t, "gcc-14", "\x7fELF one")
	s.put(t, "other", "\x7fELF two")
	for link, to := range map[string]string{"alternative": "gcc-14", "gcc": "alternative"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s.cmd = buildenv.Cmd{Path: filepath.Join(dir, "gcc"), Args: []string{"--version"}, Env: []string{"PATH=/a", "CCACHE_PATH=/c", "EDITOR=vi"}}
	s.Sayings = &cache.Sayings{Dir: filepath.Join(dir, "cache", "said"), Run: s.speaker, Told: func(err error) { t.Error(err) },
		Inputs: func(buildenv.Cmd) ([]string, []string, bool) {
			return []string{filepath.Join(dir, "other"), filepath.Join(dir, "none")}, []string{"PATH", "CCACHE_PATH", "LD_PRELOAD"}, true
		},
		Now: func() time.Time { return time.Now().Add(time.Hour) }}
	return s
}

func (s said) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// ask asks once and says how often the program was run for it.
func (s said) ask(t *testing.T) int {
	t.Helper()
	before := s.speaker.asked
	r, err := s.Ask(context.Background(), s.cmd)
	if err != s.speaker.err || string(r.Stdout) != string(s.speaker.answer.Stdout) {
		t.Fatalf("got %q, %v", r.Stdout, err)
	}
	return s.speaker.asked - before
}

func TestWhatAProgramSaidIsKept(t *testing.T) {
	s := newSaid(t)
	if a, b := s.ask(t), s.ask(t); a != 1 || b != 0 {
		t.Errorf("asked %d and %d times", a, b)
	}
	fi, err := os.Stat(s.Dir)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
	s.cmd.Env = append(s.cmd.Env, "OTHER=1")
	if s.ask(t) != 0 {
		t.Error("a variable that does not count made it ask again")
	}
}

func TestAChangedInputIsNotBelieved(t *testing.T) {
	// same keeps a file's size and the times that a program can set, as a copy with `cp -p` does.
	same := func(t *testing.T, s *said, name string, change func(path string)) {
		path := filepath.Join(s.dir, name)
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		change(path)
		if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, s *said, name, to string) {
		path := filepath.Join(s.dir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		story  string
		change func(t *testing.T, s *said)
	}{
		{"the program has another size", func(t *testing.T, s *said) { s.put(t, "gcc-14", "\x7fELF longer") }},
		{"only its modification time differs", func(t *testing.T, s *said) {
			if err := os.Chtimes(filepath.Join(s.dir, "gcc-14"), time.Now(), time.Now().Add(-time.Minute)); err != nil {
				t.Fatal(err)
			}
		}},
		{"another file in its place, with its size and time", func(t *testing.T, s *said) {
			same(t, s, "gcc-14", func(path string) {
				s.put(t, "new", "\x7fELF 0ne")
				if err := os.Rename(filepath.Join(s.dir, "new"), path); err != nil {
					t.Fatal(err)
				}
			})
		}},
		{"another content in the same file, with its size and time", func(t *testing.T, s *said) {
			time.Sleep(20 * time.Millisecond) // the file system's clock ticks in 4 ms
			same(t, s, "gcc-14", func(string) { s.put(t, "gcc-14", "\x7fELF 0ne") })
		}},
		{"the link leads elsewhere", func(t *testing.T, s *said) { link(t, s, "gcc", "other") }},
		{"the link behind the link leads elsewhere", func(t *testing.T, s *said) { link(t, s, "alternative", "other") }},
		{"another file that counts", func(t *testing.T, s *said) { s.put(t, "other", "\x7fELF longer") }},
		{"a file that counts is gone", func(t *testing.T, s *said) {
			if err := os.Remove(filepath.Join(s.dir, "other")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a file that counts has come", func(t *testing.T, s *said) { s.put(t, "none", "\x7fELF") }},
		{"a variable", func(_ *testing.T, s *said) { s.cmd.Env = []string{"PATH=/b", "CCACHE_PATH=/c"} }},
		{"a variable is gone", func(_ *testing.T, s *said) { s.cmd.Env = []string{"PATH=/a"} }},
		{"a variable is new, and empty", func(_ *testing.T, s *said) { s.cmd.Env = append(s.cmd.Env, "LD_PRELOAD=") }},
		{"the words", func(_ *testing.T, s *said) { s.cmd.Args = []string{"-dumpversion"} }},
		{"the directory", func(_ *testing.T, s *said) { s.cmd.Dir = "/tmp" }},
	} {
		t.Run(tt.story, func(t *testing.T) {
			s := newSaid(t)
			if s.ask(t) != 1 || s.ask(t) != 0 {
				t.Fatal("it was not kept")
			}
			tt.change(t, &s)
			s.speaker.answer.Stdout = []byte("gcc 15.1.0\n")
			if s.ask(t) != 1 {
				t.Error("the old answer was believed")
			}
			if s.ask(t) != 0 {
				t.Error("the new answer was not kept")
			}
		})
	}
}

func TestWhatIsNotKept(t *testing.T) {
	for _, tt := range []struct {
		story  string
		change func(t *testing.T, s *said)
	}{
		{"a script, which may call anything", func(t *testing.T, s *said) { s.put(t, "gcc-14", "#!/bin/sh\nexec gcc-13 \"$@\"\n") }},
		{"a command whose inputs are not known", func(_ *testing.T, s *said) {
			s.Inputs = func(buildenv.Cmd) ([]string, []string, bool) { return nil, nil, false }
		}},
		{"a failure", func(_ *testing.T, s *said) { s.speaker.err = &buildenv.ExitError{} }},
		{"an answer that was cut", func(_ *testing.T, s *said) { s.speaker.answer.Truncated = true }},
		{"a program that was written a moment ago", func(_ *testing.T, s *said) { s.Now = time.Now }},
		{"a program that changes while it answers", func(t *testing.T, s *said) {
			n := "\x7fELF"
			s.speaker.during = func() { n += "."; s.put(t, "gcc-14", n) }
		}},
		{"a loop of links", func(t *testing.T, s *said) {
			if err := os.Symlink("none", filepath.Join(s.dir, "none")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.story, func(t *testing.T) {
			s := newSaid(t)
			tt.change(t, &s)
			for range 2 {
				if s.ask(t) != 1 {
					t.Error("it was kept")
				}
			}
		})
	}
}

func TestBadContentIsNotThere(t *testing.T) {
	for _, text := range []string{"", "{", "null", `{"schema":1}`, `{"schema":99,"stdout":"eA=="}`, "\x00\x01", "[]"} {
		s := newSaid(t)
		s.ask(t)
		names, err := filepath.Glob(filepath.Join(s.Dir, "*.json"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		if err := os.WriteFile(names[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.ask(t) != 1 || s.ask(t) != 0 {
			t.Errorf("%q was believed, or nothing was kept in its place", text)
		}
	}
}

func TestNoPlaceToKeepIt(t *testing.T) {
	s := newSaid(t)
	var told error
	s.Told = func(err error) { told = err }
	s.put(t, "cache", "a file where the directory should be")
	if s.ask(t) != 1 || told == nil {
		t.Errorf("told %v", told)
	}
}
