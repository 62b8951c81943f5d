package elsewhere

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/xtaci/smux"
)

// TestLines: what is written comes back in pieces of any size, each ends a line, and what was changed on the way is noticed.
func TestLines(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	out := &lines{to: &wire}
	text := strings.Repeat("a\nb\x00", 1000)
	for _, piece := range []string{text, "x", "", text} {
		if n, err := out.Write([]byte(piece)); err != nil || n != len(piece) || !bytes.HasSuffix(wire.Bytes(), []byte("\n")) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	sent := wire.String()
	got, err := io.ReadAll(iotest.OneByteReader(&lines{from: bufio.NewReader(strings.NewReader(sent))}))
	if err != nil || string(got) != text+"x"+text {
		t.Errorf("%d bytes came of %d, %v", len(got), 2*len(text)+1, err)
	}
	if _, err := io.ReadAll(&lines{from: bufio.NewReader(strings.NewReader(strings.ReplaceAll(sent, "\n", "\r\n")))}); !errors.Is(err, smux.ErrInvalidProtocol) {
		t.Errorf("a terminal's line ends: %v", err)
	}
}
