package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

func TestTarsThatAreRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "archives for Windows have no links")
	}
	for name, tt := range map[string]struct {
		entries []entry
		why     string
	}{
		"dotdot":                    {[]entry{{"a/../../x", "x", 0o644}}, "not a plain path"},
		"absolute":                  {[]entry{{"/etc/x", "x", 0o644}}, "not a plain path"},
		"backslash":                 {[]entry{{`a\..\x`, "x", 0o644}}, "not a plain path"},
		"link out":                  {[]entry{{"a/lib/x", "../../../etc", fs.ModeSymlink}}, "leaves the archive's root"},
		"link to an absolute":       {[]entry{{"a/lib/x", "/etc", fs.ModeSymlink}}, "not a plain relative path"},
		"link with a later ..":      {[]entry{{"a/lib/x", "y/../../..", fs.ModeSymlink}}, "not a plain relative path"},
		"file below a link":         {[]entry{{"a/lib/x", "../include", fs.ModeSymlink}, {"a/lib/x/y", "z", 0o644}}, "below a link"},
		"file in a link's place":    {[]entry{{"a/lib/x", "../include", fs.ModeSymlink}, {"a/lib/x", "z", 0o644}}, "another file of that name"},
		"link in a file's place":    {[]entry{{"a/lib/x", "z", 0o644}, {"a/lib/x", "../include", fs.ModeSymlink}}, "another file of that name"},
		"device":                    {[]entry{{"a/dev/sda", "", fs.ModeDevice}}, "neither a file"},
		"hard link":                 {[]entry{{"a/lib/x", "/etc/passwd", fs.ModeIrregular}}, "neither a file"},
		"the marker":                {[]entry{{"a/gpubuild-toolkit.json", "{}", 0o644}}, "only gpubuild writes"},
		"link as the marker":        {[]entry{{"a/gpubuild-toolkit.json", "lib/x", fs.ModeSymlink}}, "only gpubuild writes"},
		"twice there":               {[]entry{{"a/lib/x", "y", 0o644}, {"a/lib/x", "z", 0o644}}, "another file of that name"},
		"names that differ in case": {[]entry{{"a/lib/x", "y", 0o644}, {"a/lib/X", "y", 0o644}}, "another file of that name"},
		"bare file":                 {[]entry{{"x", "x", 0o644}}, "not below <component>-archive/"},
		"bomb":                      {[]entry{{"a/include/zeros", strings.Repeat("\x00", 70<<20), 0o644}}, "which no honest archive"},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "a", "b", "c")
			archive := filepath.Join(t.TempDir(), "c.tar.xz")
			data := tarred(t, tt.entries...)
			hosttest.OK(t, errors.Join(os.MkdirAll(root, 0o700), os.WriteFile(archive, data, 0o600)))
			a := Archive{Part: "nvcc", Package: "cuda_nvcc", Version: "1", File: "c.tar.xz", Path: "c.tar.xz", Size: int64(len(data))}
			err := create(t, root).Unpack(context.Background(), []Source{{a, archive}}, 1)
			if !strings.Contains(exit.Hint(err), "nothing was installed") || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("got %v, want %q", err, tt.why)
			}
			if entries, _ := os.ReadDir(filepath.Dir(root)); len(entries) != 1 {
				t.Errorf("something was written outside: %v", entries)
			}
		})
	}
	// GNU tar --sparse --format=pax: two files of 60 MB that hold nothing but a hole (Go's writer makes none).
	var b bytes.Buffer
	z, err := xz.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		block := make([]byte, 512) // USTAR header: name, mode, uid, gid, size, time, sum, type
		field := func(at int, text string) { copy(block[at:], text) }
		text := ""
		for _, r := range []string{"major=1", "minor=0", fmt.Sprintf("name=a/include/%x", i), "realsize=60000000"} {
			r = " GNU.sparse." + r + "\n"
			text += fmt.Sprint(len(r)+2) + r
		}
		head := func(name string, kind byte, size int) {
			clear(block)
			field(0, name)
			field(100, "0000644\x000000000\x000000000\x00"+fmt.Sprintf("%011o\x0000000000000\x00        ", size))
			block[156] = kind
			field(257, "ustar\x0000")
			sum := 0
			for _, c := range block {
				sum += int(c)
			}
			field(148, fmt.Sprintf("%06o\x00 ", sum))
			_, err = z.Write(block)
		}
		body := func(text string) {
			clear(block)
			field(0, text)
			_, err = z.Write(block)
		}
		head("a/x", 'x', len(text))
		body(text)
		head("a/include/hole", '0', 512)
		body("1\n60000000\n0\n") // one stretch of data, empty, at the end
	}
	_, e := z.Write(make([]byte, 1024))
	hosttest.OK(t, errors.Join(err, e, z.Close()))
	holes := filepath.Join(t.TempDir(), "c.tar.xz")
	hosttest.OK(t, os.WriteFile(holes, b.Bytes(), 0o600))
	root := t.TempDir()
	if err := create(t, root).Unpack(context.Background(), []Source{{Archive{File: "c.tar.xz", Path: "c.tar.xz", Size: int64(b.Len())}, holes}}, 1); err == nil || !strings.Contains(err.Error(), "which no honest archive") {
		t.Errorf("holes: %v", err)
	}
	archive := filepath.Join(t.TempDir(), "c.tar.xz")
	whole := tarred(t, entry{"a/include/x", strings.Repeat("some text ", 1000), 0o644})
	for _, n := range []int{0, 3, len(whole) / 2} {
		hosttest.OK(t, os.WriteFile(archive, whole[:n], 0o600))
		if err := create(t, t.TempDir()).Unpack(context.Background(), []Source{{Archive{File: "c.tar.xz", Path: "c.tar.xz", Size: 1}, archive}}, 1); !strings.Contains(exit.Hint(err), "nothing was installed") {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
}
