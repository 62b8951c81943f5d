package explain

import (
	"bytes"
	"testing"
)

// TestALineWithoutEndIsBounded: of a text that is one literal over and over, only a part is looked at with regular expressions, in little
// memory. Without the bound 1 GB takes minutes.
func TestALineWithoutEndIsBounded(t *testing.T) {
	rules, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, literal := range []string{"error[E0", rules.All[0].On[0] + " "} {
		w := NewWatcher(rules)
		chunk := bytes.Repeat([]byte(literal), 1<<20/len(literal))
		for range 6 {
			if _, err := w.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if w.spent > 3<<20 {
			t.Errorf("%q: %d bytes were looked at", literal, w.spent)
		}
		if cap(w.buf) > 4*block {
			t.Errorf("%q: %d bytes are kept", literal, cap(w.buf))
		}
		w.Answer()
	}
}
