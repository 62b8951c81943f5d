package verify

import "testing"

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
