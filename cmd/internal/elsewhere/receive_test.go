package elsewhere

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/receipt"
)

func sumOf(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// TestReceived: of the files that a request names each comes once, those that are there not at all; a damaged one leaves nothing.
func TestReceived(t *testing.T) {
	t.Parallel()
	hello := file{Name: "bin/app", SHA256: sumOf("hello"), Size: 5}
	for _, tt := range []struct{ story, sent, want string }{
		{"whole", "hello", ""}, {"other bytes", "hallo", "damaged"}, {"fewer bytes", "hell", "EOF"},
	} {
		dir := t.TempDir()
		var asked bytes.Buffer
		p := &program{server: &server{store: store{dir}}, to: &frames{to: &asked}, from: bufio.NewReader(strings.NewReader(tt.sent))}
		err := p.receive([]file{hello, {Name: "lib/b", SHA256: hello.SHA256, Size: 5}})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.story, err, tt.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "files", "receiving-*")); len(left) > 0 {
			t.Errorf("%s: left behind: %q", tt.story, left)
		}
		hosttest.Equal(t, strings.Count(asked.String(), hello.SHA256), 1, tt.story, "it was asked for", "times")
		if err := p.receive([]file{hello}); tt.want == "" && (err != nil || strings.Count(asked.String(), hello.SHA256) != 1) {
			t.Errorf("%s: what is there was asked for again: %v", tt.story, err)
		}
	}
}

// TestPlacedFilesLeaveTheStoreAlone: a second file in the place of a link to the store's would write into the store.
func TestPlacedFilesLeaveTheStoreAlone(t *testing.T) {
	t.Parallel()
	s, run := store{t.TempDir()}, t.TempDir()
	for _, text := range []string{"program", "other"} {
		hosttest.OK(t, s.receive(strings.NewReader(text), sumOf(text), int64(len(text))))
	}
	hosttest.OK(t, s.place(file{Name: "bin/app", SHA256: sumOf("program"), Run: true}, run))
	for _, name := range []string{"bin/app", "../x", "/x"} {
		if err := s.place(file{Name: name, SHA256: sumOf("other")}, run); err == nil {
			t.Errorf("a file was put at %s", name)
		}
	}
	if data, err := os.ReadFile(s.path(sumOf("program"))); err != nil || string(data) != "program" {
		t.Errorf("the store has %q, %v", data, err)
	}
}

// TestFramesAreBounded: a length that no frame has is not room for one.
func TestFramesAreBounded(t *testing.T) {
	t.Parallel()
	for length, refused := range map[uint32]bool{receipt.Limit: false, receipt.Limit + 1: true} {
		head := binary.BigEndian.AppendUint32([]byte{frameResult}, length)
		if _, _, err := readFrame(bufio.NewReader(bytes.NewReader(head))); err == nil || errors.Is(err, io.EOF) == refused {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// TestOnlyARequestIsServed: a frame of another kind runs nothing, whatever is in it.
func TestOnlyARequestIsServed(t *testing.T) {
	t.Parallel()
	for story, content := range map[string]string{"another kind": "{}", "no JSON": "x"} {
		kind := map[string]byte{"{}": frameRequest + 1, "x": frameRequest}[content]
		var sent bytes.Buffer
		hosttest.OK(t, (&frames{to: &sent}).send(kind, []byte(content)))
		p := &program{server: &server{store: store{t.TempDir()}}, to: &frames{to: io.Discard}, from: bufio.NewReader(&sent)}
		if err := p.serve(t.Context()); err == nil || !strings.Contains(err.Error(), "no request came") || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", story, err)
		}
	}
}
