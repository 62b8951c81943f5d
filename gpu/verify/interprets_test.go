package verify

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/local"
	"gpubuild/gpu/probe"
)

// TestInterprets: only the script by its whole path, behind options, is the binary: another file after a chdir has the same relative name.
func TestInterprets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		story string
		line  string
		words []string
		want  bool
	}{
		{"as Linux starts it", "/p", []string{"/w/train.py", "x"}, true},
		{"with an option of its first line", "/p -u", []string{"-u", "/w/train.py"}, true},
		{"with an option of its own", "/p", []string{"-cimport x", "/w/train.py"}, false},
		{"started again without a word: it reads its standard input", "/p", nil, false},
		{"a title that left the words empty", "/p", []string{""}, true},
		{"a relative word", "/p", []string{"train.py"}, false},
		{"another script, which is given this one", "/p", []string{"other.py", "/w/train.py"}, false},
		{"code on the command line", "/p", []string{"-c", "import x", "/w/train.py"}, false},
		{"options alone", "/p -O -u", []string{"-O", "-u"}, false},
	}
	for _, tt := range tests {
		if got := interprets(tt.line, tt.words, "/w/train.py"); got != tt.want {
			t.Errorf("%s: %v", tt.story, got)
		}
	}
}

// TestScript: a relative word is known only where the program was started, and nothing is guessed.
func TestScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"train.py", "sub/train.py"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	script := func(exe, at string, words ...string) string {
		p := probe.Process{Identity: probe.Identity{Exe: exe}, Words: words, Dir: filepath.Join(dir, at)}
		return strings.TrimPrefix(script(h, p, dir), dir+"/")
	}
	for _, tt := range []struct{ story, got, want string }{
		{"by a relative word", script("/usr/bin/python3.11", "", "-u", "train.py", "x"), "train.py"},
		{"of the same name in another directory", script("/usr/bin/python3", "sub", "train.py"), ""},
		{"by its path, in another directory", script("/usr/bin/python3", "sub", filepath.Join(dir, "train.py")), "train.py"},
		{"behind an option with a value", script("/usr/bin/python3", "", "-c", "train.py"), ""},
		{"that is not there", script("/usr/bin/python3", "", "other.py"), ""},
		{"without words", script("/usr/bin/python3", ""), ""},
		{"of what is no interpreter", script("/usr/bin/app", "", "train.py"), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("a script %s: %q", tt.story, tt.got)
		}
	}
}
