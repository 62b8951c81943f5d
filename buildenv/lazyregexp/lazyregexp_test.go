package lazyregexp_test

import (
	"testing"

	"gpubuild/buildenv/lazyregexp"
)

// TestNew: a test binary finds an expression that does not compile without using it.
func TestNew(t *testing.T) {
	if got := lazyregexp.New(`^(\w+)-(\d+)$`).FindStringSubmatch("gcc-12"); len(got) != 3 || got[2] != "12" {
		t.Errorf("got %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a broken expression is not noticed")
		}
	}()
	lazyregexp.New(`(`)
}
