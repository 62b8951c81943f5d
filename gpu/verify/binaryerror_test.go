package verify

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

func TestBinaryErrorNamesThePathOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, gone := os.Stat(path)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{gone, path + ": no such file or directory"},
		{&os.PathError{Op: "open", Path: "/other", Err: os.ErrPermission}, path + ": open /other: permission denied"},
		{errors.New("is a script"), path + ": is a script"},
	} {
		e := BinaryError(path, tt.err)
		if tt.err == gone && !errors.Is(e, os.ErrNotExist) {
			t.Error("what it was is lost")
		}
		if got := e.Error(); got != tt.want && os.PathSeparator == '/' {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestScriptThatCannotRun: the system says of a script only that something is not there.
func TestScriptThatCannotRun(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	if h.OS != buildenv.Linux {
		need.Missing(t, "linux", "how a script starts is asked of Linux")
	}
	for text, want := range map[string]string{
		"#!/bin/sh\r\nexit\r\n":           "its first line ends with CR LF, which is part of the interpreter's name: write it with LF",
		"#! /usr/bin/pyton3 -u\nexit()\n": "its interpreter /usr/bin/pyton3 does not exist",
	} {
		path := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		o, err := remember(h, path, h.Env)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.refused(syscall.ENOENT).Error(); got != path+": "+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
