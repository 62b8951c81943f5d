package fatbin

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
)

// TestNames: a word in the test program's memory is found, across any border, and one of its symbol table alone is not.
func TestNames(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	self := hosttest.Must(os.Executable())(t)
	word := strings.Join([]string{"a word that", "is in memory 4711"}, " ")
	got := hosttest.Must(Names(h, self, []string{"is in memory 4711", word + " twice"}))(t)
	if len(got) != 1 || got[0] != "is in memory 4711" {
		t.Errorf("%q", got)
	}
	none := t.TempDir() + "/x.wasm"
	hosttest.OK(t, os.WriteFile(none, []byte("\x00asm\x01\x00\x00\x00cuInit"), 0o600))
	if names, err := Names(h, none, []string{"cuInit"}); !errors.Is(err, ErrFormat) || names != nil {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := Names(h, none+"x", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
