package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// TestFullDisk: where the files do not fit, nothing of the bundle is left, and the error names the directory.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		need.Missing(t, "mount", "only root may mount a small file system")
	}
	dir := t.TempDir()
	m := machine(t, dir)
	lib := library(t, m, dir, "libcublas.so.13", "char much[4 << 20] = {1}; int f(void) { return much[0]; }")
	app := program(t, m, "extern int f(void); int main(void) { return f(); }", lib)
	small := t.TempDir()
	if err := syscall.Mount("gpubuild-test", small, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		need.Missing(t, "mount", "mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	_, err := Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(small, "out")})
	if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "is not made") ||
		exit.Hint(err) != "free some space on the disk that holds "+small {
		t.Errorf("%v, hint %q", err, exit.Hint(err))
	}
	if left, err := os.ReadDir(small); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestHostileBundle: of a bundle that an archive or another user brought, what is no file is not read, and no name leads out of the
// directory. Each ends at once.
func TestHostileBundle(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	library := func(put func(path string) error) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, "lib", "libx.so.1")
			return errors.Join(os.Remove(path), put(path))
		}
	}
	none := func(string) error { return nil }
	outside := filepath.Join(t.TempDir(), "outside")
	hosttest.OK(t, os.WriteFile(outside, []byte("outside"), 0o755))
	named := func(name string) func(*manifest) {
		return func(m *manifest) {
			m.Files = append(m.Files, File{Name: name, Size: int64(len("outside")), SHA256: sum(t, outside)})
			m.Programs = []string{name}
		}
	}
	for story, tt := range map[string]struct {
		manifest func(*manifest)
		change   func(dir string) error
		want     string
	}{
		"a pipe as a library":       {nil, library(func(p string) error { return syscall.Mkfifo(p, 0o644) }), "lib/libx.so.1"},
		"a socket as a library":     {nil, library(func(p string) error { return syscall.Mknod(p, syscall.S_IFSOCK|0o644, 0) }), "lib/libx.so.1"},
		"a device as a library":     {nil, library(func(p string) error { return syscall.Mknod(p, syscall.S_IFCHR, 1<<8|5) }), "lib/libx.so.1"},
		"a link out as a library":   {nil, library(func(p string) error { return os.Symlink(outside, p) }), "lib/libx.so.1"},
		"a link to a file of /proc": {nil, library(func(p string) error { return os.Symlink("/proc/self/pagemap", p) }), "lib/libx.so.1"},
		"a directory as a link": {nil, func(dir string) error {
			lib := filepath.Join(dir, "lib")
			return errors.Join(os.Rename(lib, filepath.Join(t.TempDir(), "lib")), os.Symlink(filepath.Dir(outside), lib))
		}, "lib"},
		"a name that climbs out":      {named("../outside"), none, "lacks ../outside"},
		"a name that is absolute":     {named(outside), none, "lacks " + outside},
		"a name that climbs later":    {named("lib/../../outside"), none, "lacks lib/../../outside"},
		"a name with a separator":     {named(`..\outside`), none, `lacks ..\outside`},
		"a pipe more":                 {nil, func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "lib", "p"), 0o644) }, "lib/p"},
		"a size that no file has":     {func(m *manifest) { m.Files[2].Size = 1 << 60 }, none, "lib/libx.so.1"},
		"a size below nothing":        {func(m *manifest) { m.Files[2].Size = -1 }, none, "lib/libx.so.1"},
		"two files of one name":       {func(m *manifest) { m.Files = append(m.Files, File{Name: "app", Size: 1, SHA256: "x"}) }, none, "app"},
		"a file as another's link":    {func(m *manifest) { m.Files[2].Link = "bin/app" }, none, "bin/app"},
		"one that differs in case":    {func(m *manifest) { m.Files[2].Name = "lib/LIBX.so.1" }, none, "lib/libx.so"},
		"a manifest without an end":   {nil, func(dir string) error { return link("/dev/zero", filepath.Join(dir, manifestName)) }, "-"},
		"a manifest of a process":     {nil, func(dir string) error { return link("/proc/self/pagemap", filepath.Join(dir, manifestName)) }, "-"},
		"a manifest that is a socket": {nil, func(dir string) error { return replace(filepath.Join(dir, manifestName), syscall.S_IFSOCK) }, "-"},
		"a manifest that is a pipe":   {nil, func(dir string) error { return replace(filepath.Join(dir, manifestName), syscall.S_IFIFO) }, "-"},
	} {
		dir := fake(t, tt.manifest)
		if err := tt.change(dir); errors.Is(err, syscall.EPERM) {
			continue // only root makes devices
		} else {
			hosttest.OK(t, err)
		}
		hosttest.OK(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "outside"), []byte("outside"), 0o755))
		program, _, err := Open(h, dir)
		if program != "" || tt.want != "-" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %q, %v", story, program, err)
		}
	}
}

func link(to, path string) error { return errors.Join(os.Remove(path), os.Symlink(to, path)) }

func replace(path string, kind uint32) error {
	return errors.Join(os.Remove(path), syscall.Mknod(path, kind|0o644, 0))
}
