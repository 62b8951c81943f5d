package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

// put writes a wheel whose pin is right, so that only its entries can be at fault.
func put(t testing.TB, data []byte) (string, Wheel) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.whl")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return path, Wheel{Part: "nvcc", Package: "nvidia-cuda-nvcc", Version: "13.4.92", Size: int64(len(data)), Unpacked: 4096, SHA256: hex.EncodeToString(sum[:]), File: "x.whl"}
}

func TestArchivesThatAreRefused(t *testing.T) {
	tests := map[string]struct {
		entries []entry
		why     string
	}{
		"climbs out":                {[]entry{{name: "nvidia/cu13/../../../etc/passwd", text: "x"}}, "leaves the archive's root"},
		"climbs out from the start": {[]entry{{name: "../x", text: "x"}}, "leaves the archive's root"},
		"is absolute":               {[]entry{{name: "/etc/passwd", text: "x"}}, "absolute"},
		"has a Windows separator":   {[]entry{{name: `nvidia\cu13\..\..\x`, text: "x"}}, "every system reads alike"},
		"has a drive":               {[]entry{{name: "nvidia/cu13/C:/x", text: "x"}}, "every system reads alike"},
		"has an empty element":      {[]entry{{name: "nvidia//x", text: "x"}}, "leaves the archive's root"},
		"lies elsewhere":            {[]entry{{name: "usr/bin/nvcc", text: "x"}}, "not below nvidia"},
		"lies above the toolkit":    {[]entry{{name: "nvidia/nvcc", text: "x"}}, "not below nvidia"},
		"is a link":                 {[]entry{{name: "nvidia/cu13/bin/nvcc", text: "/bin/sh", mode: fs.ModeSymlink | 0o777}}, "neither a file nor a directory"},
		"is a device":               {[]entry{{name: "nvidia/cu13/bin/nvcc", mode: fs.ModeDevice | 0o666}}, "neither a file nor a directory"},
		"is a bomb":                 {[]entry{{name: "nvidia/cu13/x", text: strings.Repeat("0", 3<<20)}}, "more than the 4 kB"},
		"two of one name":           {[]entry{{name: "nvidia/cu13/x", text: "a"}, {name: "nvidia/cu13/X", text: "b"}}, "another file of that name"},
		"a file as a directory":     {[]entry{{name: "nvidia/cu13/x", text: "aa"}, {name: "nvidia/cu13/x/y", text: "b"}}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path, w := put(t, wheel(tt.entries...))
			root := filepath.Join(t.TempDir(), "a", "b")
			if err := os.MkdirAll(root, 0o700); err != nil {
				t.Fatal(err)
			}
			tr := newTree(root, 1)
			err := tr.unpack(context.Background(), path, w)
			if err == nil {
				err = tr.agree()
			}
			var bad *ArchiveError
			if err == nil || tt.why != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), tt.why)) {
				t.Errorf("got %v, want %q", err, tt.why)
			}
			if entries, _ := os.ReadDir(filepath.Dir(filepath.Dir(root))); len(entries) != 1 {
				t.Errorf("something was written outside: %v", entries)
			}
		})
	}
}

func TestBrokenArchives(t *testing.T) {
	good := wheel(entry{name: "nvidia/cu13/bin/nvcc", text: strings.Repeat("nvcc", 500)})
	flipped := append([]byte{}, good...)
	flipped[60] ^= 0xff
	for name, data := range map[string][]byte{"nothing": nil, "cut": good[:len(good)/2], "flipped": flipped, "text": []byte("<html>404</html>")} {
		t.Run(name, func(t *testing.T) {
			path, w := put(t, data)
			var bad *ArchiveError
			if err := newTree(t.TempDir(), 2).unpack(context.Background(), path, w); !errors.As(err, &bad) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Two wheels of one toolkit may hold the same file, but not two files of one name.
func TestWheelsThatShareAFile(t *testing.T) {
	tr := newTree(t.TempDir(), 2)
	for i, tt := range []struct {
		text string
		ok   bool
	}{{"same", true}, {"same", true}, {"other", false}} {
		path, w := put(t, wheel(entry{name: "nvidia/cu13/include/nvtx.h", text: tt.text}))
		err := tr.unpack(context.Background(), path, w)
		if err == nil {
			err = tr.agree()
		}
		if (err == nil) != tt.ok {
			t.Errorf("wheel %d: %v", i, err)
		}
	}
}

func TestUnpackIsInterrupted(t *testing.T) {
	path, w := put(t, wheel(entry{name: "nvidia/cu13/x", text: "a"}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := newTree(t.TempDir(), 2).unpack(ctx, path, w); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzPlace(f *testing.F) {
	for _, s := range []string{"nvidia/cu13/bin/nvcc", "nvidia/cudnn/include/cudnn.h", "../x", "/x", `a\b`, "x-1.dist-info/licenses/License.txt", "x-1.dist-info/..", "nvidia/a/", "nvidia/a/./b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		rel, err := place(Wheel{Package: "p", Version: "1"}, name)
		if err != nil || rel == "" {
			return
		}
		if !filepath.IsLocal(filepath.FromSlash(rel)) || filepath.ToSlash(filepath.Clean(filepath.FromSlash(rel))) != rel {
			t.Errorf("%q goes to %q", name, rel)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add(wheel(entry{name: "nvidia/cu13/bin/nvcc", text: "x", mode: 0o744}, entry{name: "x-1.dist-info/METADATA", text: "y"}))
	f.Add(wheel(entry{name: "../x", text: "x"}))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path, w := put(t, data)
		w.Unpacked = 1 << 16
		outer := t.TempDir()
		root := filepath.Join(outer, "a", "b")
		if err := os.MkdirAll(root, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = newTree(root, 2).unpack(context.Background(), path, w)
		if above, _ := os.ReadDir(outer); len(above) != 1 {
			t.Fatal("written outside")
		}
		if above, _ := os.ReadDir(filepath.Dir(root)); len(above) != 1 {
			t.Fatal("written outside")
		}
	})
}

// An entry too large to be read at once, one that is stored, one that ends early, and decoders that are used again.
func TestInflate(t *testing.T) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, 6)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("the toolkit's own words, ", 20_000)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	for i := range 3 {
		for name, r := range map[string]io.Reader{"at once": io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), "through a buffer": io.MultiReader(bytes.NewReader(data))} {
			z := inflate(r)
			if got, err := io.ReadAll(z); err != nil || string(got) != text || z.Close() != nil {
				t.Errorf("%s, round %d: %d bytes, %v", name, i, len(got), err)
			}
			if n, err := z.Read(make([]byte, 1)); n > 0 || !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s, round %d: read after the end: %d, %v", name, i, n, err)
			}
		}
		for name, r := range map[string]io.Reader{"the file is shorter": io.NewSectionReader(bytes.NewReader(data[:50]), 0, int64(len(data))), "the data are": bytes.NewReader(data[:50])} {
			z := inflate(r)
			if _, err := io.ReadAll(z); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, round %d: %v", name, i, err)
			}
			_ = z.Close()
		}
	}
}
