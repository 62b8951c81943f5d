package elsewhere

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

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

// TestMultiplexed: much is on its way before the other side reads, since it takes srun long to say that more may come.
func TestMultiplexed(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	client, err1 := smux.Client(here, multiplexed(time.Minute))
	server, err2 := smux.Server(there, multiplexed(time.Minute))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	defer server.Close()
	out, err := client.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	_, err1 = out.Write([]byte("x"))
	in, err2 := server.AcceptStream()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(in, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := out.SetWriteDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Write(make([]byte, 2<<20)); err != nil {
		t.Errorf("%d bytes of 2 MiB were taken: %v", n, err)
	}
}
