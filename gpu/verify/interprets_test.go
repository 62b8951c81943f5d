package verify

import "testing"

// TestInterprets: only the script by its whole path, behind options, is the binary: another file after a chdir has the same relative name.
func TestInterprets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		story string
		words []string
		want  bool
	}{
		{"as Linux starts it", []string{"/w/train.py", "x"}, true},
		{"with an option of its first line", []string{"-u", "/w/train.py"}, true},
		{"a title of its own", nil, true},
		{"a title that left the words empty", []string{"", ""}, true},
		{"a relative word", []string{"train.py"}, false},
		{"another script, which is given this one", []string{"other.py", "/w/train.py"}, false},
		{"code on the command line", []string{"-c", "import x", "/w/train.py"}, false},
		{"long options before another script", []string{"-O", "-u"}, false},
	}
	for _, tt := range tests {
		if got := interprets(tt.words, "/w/train.py"); got != tt.want {
			t.Errorf("%s: %v", tt.story, got)
		}
	}
}
