package tree

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gpubuild/buildenv"
)

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

// Two archives may write a directory's name in two ways; Windows has one directory then.
func TestVerifyOnWindowsMindsNoCase(t *testing.T) {
	root := t.TempDir()
	h := buildenv.Host{OS: buildenv.Linux, Files: directory{root}}
	if err := os.WriteFile(filepath.Join(root, "Lib"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"lib": true}
	if got := added(h, "/tk", "", known); len(got) != 1 || got[0].Path != "Lib" {
		t.Errorf("on Linux: %v", got)
	}
	h.OS = buildenv.Windows
	if got := added(h, `C:\tk`, "", known); len(got) != 0 {
		t.Errorf("on Windows: %v", got)
	}
}

// directory has the entries of one real directory, whatever path is asked for.
type directory struct{ root string }

func (d directory) Stat(string) (fs.FileInfo, error)         { return nil, fs.ErrNotExist }
func (d directory) ReadDir(string) ([]fs.DirEntry, error)    { return os.ReadDir(d.root) }
func (d directory) Open(string) (fs.File, error)             { return nil, fs.ErrNotExist }
func (d directory) EvalSymlinks(path string) (string, error) { return path, nil }
