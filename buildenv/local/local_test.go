package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gpubuild/buildenv/hosttest"
)

func TestHost(t *testing.T) {
	t.Setenv("GPUBUILD_SOMETHING", "set")
	h := hosttest.Must(Host())(t)
	if h.OS != runtime.GOOS || h.Arch != runtime.GOARCH || h.Env.Get("GPUBUILD_SOMETHING") != "set" {
		t.Errorf("got %s %s %q", h.OS, h.Arch, h.Env.Get("GPUBUILD_SOMETHING"))
	}
	if h.CPUs < 1 || h.CPUs > runtime.NumCPU() {
		t.Errorf("%d processors of %d", h.CPUs, runtime.NumCPU())
	}
	if h.Kernel == "" || !filepath.IsAbs(h.Home) || !filepath.IsAbs(h.Cwd) {
		t.Errorf("kernel %q, home %q, cwd %q", h.Kernel, h.Home, h.Cwd)
	}
	if !h.IsFile(h.Join(h.Cwd, "local_test.go")) {
		t.Error("this file is not there")
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600))
	f := hosttest.Must(files{}.Open(filepath.Join(dir, "f")))(t)
	defer f.Close()
	at := make([]byte, 4)
	if _, err := f.(io.ReaderAt).ReadAt(at, 3); err != nil || string(at) != "tent" {
		t.Errorf("got %q, %v", at, err)
	}
	none := filepath.Join(dir, "none")
	if f, err := (files{}).Open(none); f != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := (files{}).EvalSymlinks(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestNoRegistryElsewhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // there is one
	}
	_, a := registry{}.String(`HKLM\SOFTWARE`, "x", 64)
	_, b := registry{}.Keys(`HKLM\SOFTWARE`, 64)
	_, c := registry{}.Values(`HKLM\SOFTWARE`, 32)
	for _, err := range []error{a, b, c} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}

func TestNoTerminal(t *testing.T) {
	f := hosttest.Must(os.CreateTemp(t.TempDir(), "f"))(t)
	defer f.Close()
	if Terminal(f) || Terminal(nil) {
		t.Error("a file is a terminal")
	}
}
