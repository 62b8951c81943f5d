package wheel

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain/install/tree"
)

// diskFiles are the real files.
type diskFiles struct{}

func (diskFiles) Stat(p string) (fs.FileInfo, error)      { return os.Stat(p) }
func (diskFiles) ReadDir(p string) ([]fs.DirEntry, error) { return os.ReadDir(p) }
func (diskFiles) Open(p string) (fs.File, error)          { return os.Open(p) }
func (diskFiles) EvalSymlinks(p string) (string, error)   { return filepath.EvalSymlinks(p) }

// versions is a machine on which each program is a pip of some version, or none.
type versions map[string]string

func (v versions) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if text := v[filepath.Base(c.Path)]; text != "" {
		return buildenv.Result{Stdout: []byte(text)}, nil
	}
	return buildenv.Result{}, errors.New("No module named pip")
}

func TestFind(t *testing.T) {
	for story, tt := range map[string]struct {
		programs versions
		want     string
		tried    string
	}{
		"the interpreter's own":         {versions{"python3": "pip 23.2.1\n", "pip": "pip 19.0 from /x"}, "pip 23.2.1 of ", ""},
		"an interpreter without one":    {versions{"python3": "", "pip3": "pip 20.3 from /lib/pip (python 3.9)"}, "pip 20.3 of ", ""},
		"too old to take two platforms": {versions{"python3": "pip 20.0.2\n"}, "", "python3 -m pip, which is older than 20.3"},
		"a newer one, too":              {versions{"python3": "pip 9.0.1\n", "pip": "pip 26.1 from /x"}, "pip 26.1 of ", ""},
		"a python that opens a shop":    {versions{"python3": "Python was not found\n"}, "", "python3 -m pip"},
		"nothing":                       {versions{}, "", "none of them on PATH"},
	} {
		dir := t.TempDir()
		for name := range tt.programs {
			hosttest.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
		}
		h := buildenv.Host{OS: buildenv.Linux, Files: diskFiles{}, Env: buildenv.NewEnv(buildenv.Linux, []string{"PATH=" + dir})}
		pip, err := Find(context.Background(), h, tt.programs, t.TempDir())
		var none *NoPipError
		switch {
		case tt.want != "" && (err != nil || !strings.HasPrefix(pip.Name, tt.want)):
			t.Errorf("%s: %q, %v", story, pip.Name, err)
		case tt.want == "" && (!errors.As(err, &none) || !strings.HasSuffix(strings.Join(none.Tried, "; "), tt.tried)):
			t.Errorf("%s: %v", story, err)
		}
	}
}

// One run fetches all wheels, whatever platforms their tags name.
func TestDownloadArguments(t *testing.T) {
	wheels := []tree.Archive{
		{File: "nvidia_cuda_nvcc-13.4.92-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl"},
		{File: "nvidia_cuda_crt-13.4.92-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl"},
		{File: "nvidia_cuda_cupti-13.4.92-py3-none-manylinux_2_25_x86_64.whl"},
	}
	got := strings.Join(downloadArgs(wheels, "/to", "/pins"), " ")
	want := "--platform manylinux2010_x86_64 --platform manylinux_2_25_x86_64 --dest /to --requirement /pins"
	if !strings.HasSuffix(got, want) {
		t.Errorf("got %s", got)
	}
}
