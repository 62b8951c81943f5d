package verify

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
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
