package elsewhere

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sumOf(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// TestReceivedWithinBounds: what comes is no more than the request said, and nothing that nobody asked for; a refused file leaves nothing.
func TestReceivedWithinBounds(t *testing.T) {
	t.Parallel()
	type frame struct {
		kind    byte
		content string
	}
	hello := file{Name: "bin/app", SHA256: sumOf("hello"), Size: 5}
	lots := make([]file, maxFiles+1)
	for i := range lots {
		lots[i] = file{Name: fmt.Sprint("work/", i), SHA256: hello.SHA256}
	}
	for _, tt := range []struct {
		story string
		files []file
		sent  []frame
		want  string // empty: it is taken
	}{
		{"whole", []file{hello, {Name: "lib/b", SHA256: hello.SHA256, Size: 5}},
			[]frame{{frameFile, hello.SHA256}, {frameData, "hel"}, {frameData, "lo"}, {frameFileEnd, ""}}, ""},
		{"more bytes than the request says", []file{hello}, []frame{{frameFile, hello.SHA256}, {frameData, "hel"}, {frameData, "low"}}, "more bytes"},
		{"without an end", []file{hello}, []frame{{frameFile, hello.SHA256}, {frameData, "hello"}, {frameData, strings.Repeat("x", 1<<20)}}, "more bytes"},
		{"other bytes", []file{hello}, []frame{{frameFile, hello.SHA256}, {frameData, "hallo"}, {frameFileEnd, ""}}, "damaged"},
		{"fewer bytes", []file{hello}, []frame{{frameFile, hello.SHA256}, {frameData, "hell"}, {frameFileEnd, ""}}, "damaged"},
		{"a file that nobody asked for", []file{hello}, []frame{{frameFile, sumOf("other")}}, "nobody asked for"},
		{"a file twice", []file{hello, {Name: "b", SHA256: sumOf("b"), Size: 1}}, []frame{{frameFile, hello.SHA256}, {frameData, "hello"}, {frameFileEnd, ""},
			{frameFile, hello.SHA256}}, "nobody asked for"},
		{"a name as a file", []file{hello}, []frame{{frameFile, "../../x"}}, "nobody asked for"},
		{"too many files", lots, nil, "at most 200000"},
		{"a name that leads out", []file{{Name: "../x", SHA256: hello.SHA256, Size: 5}}, nil, "leads out"},
		{"an absolute name", []file{{Name: "/etc/x", SHA256: hello.SHA256, Size: 5}}, nil, "leads out"},
		{"two files of one name", []file{hello, {Name: "bin/./app", SHA256: sumOf("x"), Size: 1}}, nil, "two files"},
		{"no SHA-256", []file{{Name: "a", SHA256: "../../../x", Size: 5}}, nil, "SHA-256"},
		{"a size below nothing", []file{{Name: "a", SHA256: hello.SHA256, Size: -1}}, nil, "-1 bytes"},
	} {
		var in bytes.Buffer
		to := &frames{to: &in}
		for _, f := range tt.sent {
			if err := to.send(f.kind, []byte(f.content)); err != nil {
				t.Fatal(err)
			}
		}
		dir := t.TempDir()
		s := &server{store: store{dir}, to: &frames{to: io.Discard}, from: bufio.NewReader(&in)}
		err := bounded(tt.files)
		if err == nil {
			err = s.receive(t.Context(), tt.files)
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.story, err, tt.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "files", "receiving-*")); len(left) > 0 {
			t.Errorf("%s: left behind: %q", tt.story, left)
		}
	}
}

// TestPlacedFilesLeaveTheStoreAlone: a second file in the place of a link to the store's would write into the store.
func TestPlacedFilesLeaveTheStoreAlone(t *testing.T) {
	t.Parallel()
	s, run := store{t.TempDir()}, t.TempDir()
	for _, text := range []string{"program", "other"} {
		in, err := s.receive(sumOf(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := in.add([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := s.keep(in); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.place(file{Name: "bin/app", SHA256: sumOf("program"), Run: true}, run); err != nil {
		t.Fatal(err)
	}
	if err := s.place(file{Name: "bin/app", SHA256: sumOf("other")}, run); err == nil {
		t.Error("a file was put in the place of another")
	}
	if data, err := os.ReadFile(s.path(sumOf("program"))); err != nil || string(data) != "program" {
		t.Errorf("the store has %q, %v", data, err)
	}
}

// TestFramesAreBounded: a length that no frame has is not room for one.
func TestFramesAreBounded(t *testing.T) {
	t.Parallel()
	if _, _, err := readFrame(bufio.NewReader(strings.NewReader("r\xff\xff\xff\xff"))); !errors.Is(err, errChanged) {
		t.Error(err)
	}
}
