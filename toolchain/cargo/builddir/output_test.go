package builddir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpubuild/buildenv/local"
)

func TestOutput(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	const text = "cargo:rerun-if-env-changed=CUDA_HOME\ncargo::rerun-if-env-changed=NVCC\r\nhello\n  cargo:rustc-cfg=indented\n" +
		"cargo:rustc-cfg=feature=\"cuda-13040\"\ncargo::rustc-env=CUDA_MAJOR_VERSION=13\ncargo:rustc-env=F=a=b\ncargo:rustc-link-search=native=/tk/lib\n" +
		"cargo:rustc-link-search=/odd=name/lib\ncargo:warning=Compiling 11 of 11\ncargo:rustc-link-lib=cudart\ncargo:junk"
	want := Words{Cfgs: []string{`feature="cuda-13040"`}, Env: map[string]string{"CUDA_MAJOR_VERSION": "13", "F": "a=b"},
		Searched: []string{"/tk/lib", "/odd=name/lib"}, Linked: []string{"cudart"}, Watched: []string{"CUDA_HOME", "NVCC"}}
	for _, layout := range []string{"output", "run/stdout"} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := Output(h, out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: nothing there: %v", layout, err)
		}
		file := filepath.Join(filepath.Dir(out), layout)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Output(h, out); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", layout, err, got, want)
		}
	}
}

func TestRanInBothLayouts(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	build := filepath.Join(t.TempDir(), "debug", "build")
	for _, unit := range []string{"a-1", "a/1/run"} {
		if err := os.MkdirAll(filepath.Join(build, unit), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(build, unit, "invoked.timestamp"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]bool{"a-1/out": true, "a/1/out": true, "b-1/out": false} {
		if got := Ran(h, filepath.Join(build, dir)) != 0; got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
	if got := OutDirs(h, []string{filepath.Dir(build)}, "a"); len(got) != 2 {
		t.Errorf("the places of a: %q", got)
	}
}
