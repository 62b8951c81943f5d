package builddir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
)

func TestOutput(t *testing.T) {
	h := hosttest.Must(local.Host())(t)
	const text = "cargo:rerun-if-env-changed=CUDA_HOME\ncargo::rerun-if-changed=src/k.cu\r\nhello\n  cargo:rustc-cfg=indented\n" +
		"cargo::rustc-link-search=native=/tk/lib\ncargo:rustc-cfg=feature=\"cuda-13040\"\ncargo:warning=Compiling 11 of 11\ncargo:junk"
	want := Words{
		Rules:    []string{`rustc-cfg=feature="cuda-13040"`, "rustc-link-search=native=/tk/lib"},
		Files:    []string{"src/k.cu"},
		Declares: true,
	}
	for _, layout := range []string{"output", "run/stdout"} {
		out := filepath.Join(t.TempDir(), map[string]string{"output": "kern-1f", "run/stdout": "1f"}[layout], "out")
		if _, err := Output(h, out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: nothing there: %v", layout, err)
		}
		file := filepath.Join(filepath.Dir(out), layout)
		hosttest.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		hosttest.OK(t, os.WriteFile(file, []byte(text), 0o644))
		if got, err := Output(h, out); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", layout, err, got, want)
		}
	}
}

func TestRanInBothLayouts(t *testing.T) {
	h := hosttest.Must(local.Host())(t)
	build := filepath.Join(t.TempDir(), "debug", "build")
	for _, unit := range []string{"a-1", "a/1/run"} {
		hosttest.OK(t, os.MkdirAll(filepath.Join(build, unit), 0o755))
		hosttest.OK(t, os.WriteFile(filepath.Join(build, unit, "invoked.timestamp"), nil, 0o644))
	}
	hosttest.OK(t, os.Chtimes(filepath.Join(build, "a-1", "invoked.timestamp"), time.Unix(0, 0), time.Unix(0, 0))) // as an archive gives it
	for dir, want := range map[string]bool{"a-1/out": true, "a/1/out": true, "b-1/out": false} {
		hosttest.Equal(t, Ran(h, filepath.Join(build, dir)) != 0, want, dir)
	}
	if got := Outs(h, []string{filepath.Dir(build)}, map[string]bool{"a": true}); len(got) != 2 {
		t.Errorf("the places of a: %+v", got)
	}
}
