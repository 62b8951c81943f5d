package tree

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
)

// entry is one entry of an archive.
type entry struct {
	name, text string
	mode       fs.FileMode
}

// zipped makes a wheel of entries in memory.
func zipped(entries ...entry) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		mode := e.mode
		if mode == 0 {
			mode = 0o644
		}
		h.SetMode(mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(e.text))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// tarred makes a .tar.xz in memory; an entry with fs.ModeSymlink links to its text.
func tarred(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := hosttest.Must(xz.NewWriter(&b))(t)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: int64(e.mode.Perm()), Size: int64(len(e.text))}
		switch {
		case e.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, e.text, 0
		case e.mode&fs.ModeDir != 0:
			h.Typeflag, h.Size = tar.TypeDir, 0
		case e.mode&fs.ModeDevice != 0:
			h.Typeflag, h.Size = tar.TypeBlock, 0
		case e.mode&fs.ModeIrregular != 0:
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, e.text, 0
		}
		hosttest.OK(t, w.WriteHeader(h))
		if h.Size > 0 {
			hosttest.Must(w.Write([]byte(e.text)))(t)
		}
	}
	hosttest.OK(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

// create makes a tree that is closed at the end of the test.
func create(t testing.TB, root string) *Tree {
	t.Helper()
	tr := hosttest.Must(Open(root))(t)
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

// put writes a wheel whose pin is right, so that only its entries can be at fault.
func put(t testing.TB, data []byte) (string, Archive) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.whl")
	hosttest.OK(t, os.WriteFile(path, data, 0o600))
	sum := sha256.Sum256(data)
	return path, Archive{Part: "nvcc", Package: "nvidia-cuda-nvcc", Version: "13.4.92", Size: int64(len(data)), Unpacked: 4096, SHA256: hex.EncodeToString(sum[:]), File: "x.whl"}
}

func TestArchivesThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		entries []entry
		why     string
	}{
		"climbs out":                {[]entry{{name: "nvidia/cu13/../../../etc/passwd", text: "x"}}, "not a plain path"},
		"climbs out from the start": {[]entry{{name: "../x", text: "x"}}, "not a plain path"},
		"is absolute":               {[]entry{{name: "/etc/passwd", text: "x"}}, "not a plain path"},
		"has a Windows separator":   {[]entry{{name: `nvidia\cu13\..\..\x`, text: "x"}}, "not a plain path"},
		"has a drive":               {[]entry{{name: "nvidia/cu13/C:/x", text: "x"}}, "not a plain path"},
		"has an empty element":      {[]entry{{name: "nvidia//x", text: "x"}}, "not a plain path"},
		"lies elsewhere":            {[]entry{{name: "usr/bin/nvcc", text: "x"}}, "not below nvidia"},
		"lies above the toolkit":    {[]entry{{name: "nvidia/nvcc", text: "x"}}, "not below nvidia"},
		"is a link":                 {[]entry{{name: "nvidia/cu13/bin/nvcc", text: "/bin/sh", mode: fs.ModeSymlink | 0o777}}, "neither a file nor a directory"},
		"is a device":               {[]entry{{name: "nvidia/cu13/bin/nvcc", mode: fs.ModeDevice | 0o666}}, "neither a file nor a directory"},
		"is a bomb":                 {[]entry{{name: "nvidia/cu13/x", text: strings.Repeat("0", 3<<20)}}, "the most that it may hold"},
		"is the marker":             {[]entry{{name: "nvidia/cu13/Gpubuild-Toolkit.json", text: "{}"}}, "only gpubuild writes"},
		"has too many entries":      {slices.Repeat([]entry{{name: "nvidia/cu13/x"}}, maxEntries+1), "holds 200001 entries"},
		"is twice there":            {[]entry{{name: "nvidia/cu13/x", text: "a"}, {name: "nvidia/cu13/x", text: "b"}}, "another file of that name"},
		"two of one name":           {[]entry{{name: "nvidia/cu13/x", text: "a"}, {name: "nvidia/cu13/X", text: "b"}}, "another file of that name"},
		"a file as a directory":     {[]entry{{name: "nvidia/cu13/x", text: "aa"}, {name: "nvidia/cu13/x/y", text: "b"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, w := put(t, zipped(tt.entries...))
			root := filepath.Join(t.TempDir(), "a", "b")
			hosttest.OK(t, os.MkdirAll(root, 0o700))
			err := create(t, root).Unpack(context.Background(), []Source{{w, path}}, 1)
			if err == nil || tt.why != "" && (!strings.Contains(exit.Hint(err), "nothing was installed") || !strings.Contains(err.Error(), tt.why)) {
				t.Errorf("got %v, want %q", err, tt.why)
			}
			if entries, _ := os.ReadDir(filepath.Dir(filepath.Dir(root))); len(entries) != 1 {
				t.Errorf("something was written outside: %v", entries)
			}
		})
	}
}

func TestBrokenArchives(t *testing.T) {
	good := zipped(entry{name: "nvidia/cu13/bin/nvcc", text: strings.Repeat("nvcc", 500)})
	flipped := append([]byte{}, good...)
	flipped[60] ^= 0xff
	for name, data := range map[string][]byte{"nothing": nil, "cut": good[:len(good)/2], "flipped": flipped, "text": []byte("<html>404</html>")} {
		t.Run(name, func(t *testing.T) {
			path, w := put(t, data)
			if err := create(t, t.TempDir()).Unpack(context.Background(), []Source{{w, path}}, 2); !strings.Contains(exit.Hint(err), "nothing was installed") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Two wheels of one toolkit may hold the same file, but not two files of one name.
func TestWheelsThatShareAFile(t *testing.T) {
	tr := create(t, t.TempDir())
	for i, tt := range []struct {
		text string
		ok   bool
	}{{"same", true}, {"same", true}, {"other", false}} {
		path, w := put(t, zipped(entry{name: "nvidia/cu13/include/nvtx.h", text: tt.text}))
		err := tr.Unpack(context.Background(), []Source{{w, path}}, 2)
		hosttest.Equal(t, (err == nil), tt.ok, "wheel", i, err)
	}
}

func TestUnpackIsInterrupted(t *testing.T) {
	path, w := put(t, zipped(entry{name: "nvidia/cu13/x", text: "a"}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := create(t, t.TempDir()).Unpack(ctx, []Source{{w, path}}, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzPlace(f *testing.F) {
	for _, s := range []string{"nvidia/cu13/bin/nvcc", "nvidia/cudnn/include/cudnn.h", "../x", "/x", `a\b`, "x-1.dist-info/licenses/License.txt", "x-1.dist-info/..", "nvidia/a/", "nvidia/a/./b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		rel, err := place(Archive{Package: "p", Version: "1"}, name)
		if err != nil || rel == "" {
			return
		}
		if !filepath.IsLocal(filepath.FromSlash(rel)) || filepath.ToSlash(filepath.Clean(filepath.FromSlash(rel))) != rel {
			t.Errorf("%q goes to %q", name, rel)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add(zipped(entry{name: "a/b", text: "x", mode: 0o744}))
	f.Add(zipped(entry{name: "../x", text: "x"}))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path, w := put(t, data)
		w.Unpacked = 1 << 16
		outer := t.TempDir()
		root := filepath.Join(outer, "a", "b")
		hosttest.OK(t, os.MkdirAll(root, 0o700))
		_ = create(t, root).Unpack(context.Background(), []Source{{w, path}}, 2)
		if above, _ := os.ReadDir(outer); len(above) != 1 {
			t.Fatal("written outside")
		}
		if above, _ := os.ReadDir(filepath.Dir(root)); len(above) != 1 {
			t.Fatal("written outside")
		}
	})
}

func TestVersionJSON(t *testing.T) {
	data, err := versionJSON(Installation{Release: "13.4.3", Parts: []InstalledPart{
		{Package: "nvidia-cuda-nvcc", Version: "13.4.92"}, {Package: "nvidia-nvvm", Version: "13.4.92"}, {Package: "cuda_cudart", Version: "12.4.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]struct{ Name, Version string }
	if err := json.Unmarshal(data, &got); err != nil || got["cuda"].Version != "13.4.3" || got["cuda_nvcc"].Version != "13.4.92" ||
		got["nvvm"].Name != "nvvm" || got["cuda_cudart"].Version != "12.4.1" {
		t.Errorf("%s, %v", data, err)
	}
}
