package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWineDriveRelative: "Z:file" is a file of the current directory on Z, in every place where a user names one; "\file" begins at the
// root of the drive, and "C:file" in the current directory of C, which is its root here.
func TestWineDriveRelative(t *testing.T) {
	l := newCargoLab(t)
	l.copy(l.gpubuild, filepath.Join(l.work, "file"))
	l.copy(l.gpubuild, l.path(`C:\onc`))
	env := []string{"WINEPATH=" + z(filepath.Join(l.bin, "rust")) + ";" + z(filepath.Join(l.dir, "standin")), "STANDIN_CARGO=" +
		z(filepath.Join(l.bin, "answers"))}
	toolkit, err := filepath.Rel(l.work, filepath.Join(l.wine.dir, "toolkit"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"scan", "Z:file"}, 0, "Z:file: PE x86_64"},
		{[]string{"scan", `z:matmul\..\file`}, 0, "PE x86_64"},
		{[]string{"scan", strings.TrimPrefix(z(filepath.Join(l.work, "file")), "Z:")}, 0, "PE x86_64"},
		{[]string{"scan", "C:onc"}, 0, "PE x86_64"},
		{[]string{"scan", "C:file"}, 2, "no such file"},
		{[]string{"prove", "Z:file", "--probe", "Z:none.dll"}, 2, z(filepath.Join(l.work, "none.dll"))},
		{[]string{"env", "--manifest-path", `Z:matmul\Cargo.toml`, "--features", "cuda", "--arch=90", "--toolkit",
			"Z:" + strings.ReplaceAll(toolkit, "/", `\`)}, 0, `CUDA_PATH = '` + z(filepath.Join(l.wine.dir, "toolkit"))},
	} {
		out, err := l.run(env, append([]string{z(l.standin)}, tt.args...)...)
		if code(err) != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%q ended with %d, want %d and %q:\n%s", tt.args, code(err), tt.code, tt.want, out)
		}
	}
}
