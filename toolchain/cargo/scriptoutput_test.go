package cargo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpubuild/buildenv/local"
)

func TestScriptOutput(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	const text = "cargo:rerun-if-env-changed=CUDA_HOME\ncargo::rerun-if-env-changed=NVCC\r\nhello\n  cargo:rustc-cfg=indented\n" +
		"cargo:rustc-cfg=feature=\"cuda-13040\"\ncargo::rustc-env=CUDA_MAJOR_VERSION=13\ncargo:rustc-env=F=a=b\ncargo:rustc-link-search=native=/tk/lib\n" +
		"cargo:rustc-link-search=/odd=name/lib\ncargo:warning=Compiling 11 of 11\ncargo:rustc-link-lib=cudart\ncargo:junk"
	want := ScriptWords{Cfgs: []string{`feature="cuda-13040"`}, Env: map[string]string{"CUDA_MAJOR_VERSION": "13", "F": "a=b"},
		Searched: []string{"/tk/lib", "/odd=name/lib"}, Linked: []string{"cudart"}, Watched: []string{"CUDA_HOME", "NVCC"}}
	for _, layout := range []string{"output", "run/stdout"} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := ScriptOutput(h, out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: nothing there: %v", layout, err)
		}
		file := filepath.Join(filepath.Dir(out), layout)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := ScriptOutput(h, out); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", layout, err, got, want)
		}
	}
}
