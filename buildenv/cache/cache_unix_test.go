//go:build unix

package cache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

func TestACacheThatEveryoneMayWriteTo(t *testing.T) {
	dir := t.TempDir()
	hosttest.OK(t, os.Chmod(dir, 0o777))
	err := Make(dir)
	var open *OpenError
	if !errors.As(err, &open) || !strings.Contains(open.Hint(), "chmod go-w "+dir) {
		t.Errorf("got %v", err)
	}
}

func TestACacheThatIsNoDirectory(t *testing.T) {
	_, err := Private("/dev/null") // which everybody may write to
	var unwritable *ReadOnlyError
	if !errors.As(err, &unwritable) || strings.Contains(unwritable.Hint(), "chmod") {
		t.Errorf("got %v", err)
	}
}

// TestHashWaitsForNothing: a name that a project gives may lead to a file of the kernel's.
func TestHashWaitsForNothing(t *testing.T) {
	link := filepath.Join(t.TempDir(), "a.cuh")
	hosttest.OK(t, os.Symlink("/proc/self/pagemap", link))
	if _, err := os.Stat(link); err != nil {
		need.Missing(t, "linux", "there is no /proc")
	}
	if sum, err := Hash(link); err != nil || !strings.HasPrefix(sum, "e3b0c442") { // of nothing
		t.Error(sum, err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l := hosttest.Must(net.Listen("unix", socket))(t)
	defer l.Close()
	if _, err := Hash(socket); !errors.Is(err, buildenv.ErrUnbounded) {
		t.Errorf("a socket: %v", err)
	}
}

// TestEveryEntryIsLookedAt: programs and libraries are run from a directory, each of them; data directly in the cache is not.
func TestEveryEntryIsLookedAt(t *testing.T) {
	make := func(dirMode os.FileMode, modes ...os.FileMode) string {
		dir := t.TempDir()
		for i, mode := range modes {
			name := filepath.Join(dir, fmt.Sprint(i))
			hosttest.OK(t, errors.Join(os.WriteFile(name, nil, 0o600), os.Chmod(name, mode)))
		}
		hosttest.OK(t, os.Chmod(dir, dirMode))
		return dir
	}
	for story, tt := range map[string]struct {
		dir      string
		all, own bool // whether all of it is trusted, and the directory as a cache
	}{
		"nobody else may write":   {make(0o700, 0o600, 0o644), true, true},
		"the last file":           {make(0o700, 0o600, 0o666), false, true},
		"the first file":          {make(0o700, 0o666, 0o600), false, true},
		"the directory, as empty": {make(0o777), false, false},
		"a file":                  {filepath.Join(make(0o700, 0o600), "0"), false, false},
		"below a file":            {filepath.Join(make(0o700, 0o600), "0", "x"), false, false},
	} {
		if err := TrustedDir(tt.dir); (err == nil) != tt.all {
			t.Errorf("%s: %v", story, err)
		}
		if used, err := Private(tt.dir); (err == nil) != tt.own || used != tt.dir {
			t.Errorf("%s, as a cache: %s, %v", story, used, err)
		}
	}
	cache := make(0o700)
	for name, mode := range map[string]os.FileMode{"a": 0o700, "b": 0o777} {
		hosttest.OK(t, errors.Join(os.Mkdir(filepath.Join(cache, name), mode), os.Chmod(filepath.Join(cache, name), mode)))
	}
	var open *OpenError
	if _, err := Private(cache); !errors.As(err, &open) || open.Path != filepath.Join(cache, "b") {
		t.Errorf("the second directory: %v", err)
	}
}

// TestHolder: who holds a lock is only said where it is known, and nobody needs to know it for its end.
func TestHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release := hosttest.Must(Lock(context.Background(), path, nil))(t)
	for text, want := range map[string]string{"pid 7\n": "pid 7", "\n": "another process"} {
		hosttest.OK(t, os.WriteFile(holderFile(path), []byte(text), 0o600))
		hosttest.Equal(t, holder(path), want, text)
	}
	hosttest.Equal(t, errors.Join(os.Remove(holderFile(path)), release()), nil)
	hosttest.Equal(t, holder(path), "another process", "nobody")
}

// TestWhoMayHaveWritten: programs of the cache are run, so nobody else may have written to it, or to what is in it.
func TestWhoMayHaveWritten(t *testing.T) {
	if os.Getuid() != 0 {
		need.Missing(t, "root", "only root can give a file to another user")
	}
	const nobody = 65534
	for _, tt := range []struct {
		name  string
		owner int
		mode  os.FileMode
		want  string
		used  string // below dir
	}{
		{"mine", 0, 0o755, "", ""},
		{"group", 0, 0o775, "may be written to by its group (mode 0775)", ""},
		{"everybody", 0, 0o777, "may be written to by every user (mode 0777)", ""},
		{"another user's", nobody, 0o700, "belongs to user 65534, not to you (0)", ""},
		{"an emptyDir of another user", nobody, 0o777, "", "user-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			hosttest.OK(t, errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, tt.owner, tt.owner), os.Chmod(dir, tt.mode)))
			used, err := Private(dir)
			if !strings.Contains(fmt.Sprint(err), tt.want) || (err == nil) != (tt.want == "") || used != filepath.Join(dir, tt.used) {
				t.Errorf("got %s, %v", used, err)
			}
			// The same below a cache of our own: a directory, a file in it, and what a link leads to.
			top := t.TempDir()
			probe := filepath.Join(top, "probe")
			hosttest.OK(t, errors.Join(os.Chmod(top, 0o700), os.Rename(dir, probe)))
			safe := tt.owner == 0 && tt.want == ""
			if used, err := Private(top); (err == nil) != safe || used != top {
				t.Errorf("below: %s, %v", used, err)
			}
			real, link := filepath.Join(t.TempDir(), "lib.so"), filepath.Join(top, "lib.so")
			hosttest.OK(t, errors.Join(os.WriteFile(real, nil, 0o600), os.Chown(real, tt.owner, tt.owner), os.Chmod(real, tt.mode),
				os.Symlink(real, link), os.Remove(probe)))
			if err := TrustedDir(top); (err == nil) != safe {
				t.Errorf("a link: %v", err)
			}
		})
	}
	if used, err := Private(filepath.Join(t.TempDir(), "not", "there")); err != nil || filepath.Base(used) != "there" {
		t.Errorf("got %s, %v", used, err)
	}
}

// TestAPlantedLink: in a directory that is everybody's, another user may have left a link of the cache's name, or of the name that this
// user's part of it has.
func TestAPlantedLink(t *testing.T) {
	if os.Getuid() != 0 {
		need.Missing(t, "root", "only root can give a file to another user")
	}
	top := t.TempDir()
	theirs, shared := filepath.Join(top, "theirs"), filepath.Join(top, "shared")
	hosttest.OK(t, errors.Join(os.Mkdir(theirs, 0o777), os.Chown(theirs, 65534, 65534), os.Chmod(theirs, 0o777),
		os.Mkdir(shared, 0o777), os.Chown(shared, 65534, 65534), os.Chmod(shared, 0o777|os.ModeSticky)))
	for name, dir := range map[string]string{"cache": filepath.Join(shared, "cache"), "user-0": shared, "dangling": filepath.Join(shared, "d")} {
		link, to := filepath.Join(shared, name), theirs
		if name == "dangling" {
			link, to = dir, filepath.Join(top, "nowhere")
		}
		hosttest.OK(t, errors.Join(os.Symlink(to, link), os.Lchown(link, 65534, 65534)))
		var open *OpenError
		if used, err := Private(dir); !errors.As(err, &open) {
			t.Errorf("%s: got %s, %v", name, used, err)
		}
	}
	own := filepath.Join(shared, "user-0") // nor is a pipe of one's own a directory
	hosttest.OK(t, errors.Join(os.Remove(own), syscall.Mkfifo(own, 0o600)))
	var none *ReadOnlyError
	if used, err := Private(shared); !errors.As(err, &none) {
		t.Errorf("a pipe: got %s, %v", used, err)
	}
}

func TestHintsByTheCause(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&WriteError{Path: "/d/f", Err: syscall.ENOSPC}, "free some space on the disk that holds /"},
		{&WriteError{Path: "/d/f", Err: syscall.EDQUOT}, "free some space on the disk that holds /"},
		{&WriteError{Path: "/d/f", Err: syscall.EROFS}, "/d is on a file system that is mounted read-only: use a directory on another one"},
		{&WriteError{Path: "/d/f", Err: syscall.EFBIG}, "the limit on the size of a file (`ulimit -f`), or that of the file system of /d, is too low for it"},
		{&WriteError{Path: "/d/f", Err: syscall.ENOENT}, "make the directory /d"},
		{&WriteError{Path: "/f", Err: syscall.ENOENT}, "no file can be made in /: name another directory"},
		{&WriteError{Path: "/dev/null", Err: syscall.EIO}, "see that /dev is a directory that you may write to"},
		{&WriteError{Path: "/d/f", Err: syscall.EACCES}, "make /d one that you may write to"},
		{&ReadOnlyError{Dir: "/d", Err: syscall.EROFS}, "set GPUBUILD_CACHE to a directory that can be written to"},
		{&ReadOnlyError{Dir: "/d", Err: syscall.ENOSPC}, "free some space there, or set GPUBUILD_CACHE to a directory with more"},
	} {
		hosttest.Equal(t, tt.err.(interface{ Hint() string }).Hint(), tt.want, tt.err)
	}
}

// TestDirectoriesWithoutWriting is the case of a user who is not root; root may write anywhere, and starts this test as somebody else.
func TestDirectoriesWithoutWriting(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	dir := filepath.Join(t.TempDir(), "ro")
	hosttest.OK(t, os.Mkdir(dir, 0o500))
	var ro *ReadOnlyError
	if err := Make(dir); !errors.As(err, &ro) {
		t.Errorf("got %v", err)
	}
	hosttest.Equal(t, Trusted("/"), nil, "root's directory")
	var w *WriteError
	if err := WriteFile(filepath.Join(dir, "f"), nil, 0o600); !errors.As(err, &w) || !strings.HasPrefix(w.Hint(), "make ") {
		t.Errorf("got %v", err)
	}
}

// asNobody runs a copy of this test binary, which root alone may reach where it is, for the same test as a user without any rights.
func asNobody(t *testing.T) {
	t.Helper()
	self := hosttest.Must(os.Executable())(t)
	data := hosttest.Must(os.ReadFile(self))(t)
	dir := hosttest.Must(os.MkdirTemp("/tmp", "gpubuild-nobody-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "test")
	hosttest.OK(t, errors.Join(os.Chmod(dir, 0o777), os.WriteFile(program, data, 0o755)))
	c := exec.Command(program, "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Dir, c.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		need.Missing(t, "user", "nobody may not run it: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}
