package cache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

// The test binary holds a lock for another process: `BINARY __lock PATH` says "locked", and lets go when its input ends.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "__lock" {
		release, err := Lock(context.Background(), os.Args[2], func(holder string) { fmt.Println("waiting for", holder) })
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		if err := release(); err != nil {
			fmt.Println(err)
		}
		fmt.Println("released")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestWhereTheCacheIs(t *testing.T) {
	for _, tt := range []struct {
		name, os, home string
		env            []string
		want           string
	}{
		{"linux", buildenv.Linux, "/home/u", nil, "/home/u/.cache/gpubuild"},
		{"linux, XDG", buildenv.Linux, "/home/u", []string{"XDG_CACHE_HOME=/data/cache"}, "/data/cache/gpubuild"},
		{"linux, a relative XDG is ignored", buildenv.Linux, "/home/u", []string{"XDG_CACHE_HOME=cache"}, "/home/u/.cache/gpubuild"},
		{"our own variable goes first", buildenv.Linux, "/home/u", []string{"GPUBUILD_CACHE=/fast/../x", "XDG_CACHE_HOME=/y"}, "/x"},
		{"our own variable, empty", buildenv.Linux, "/home/u", []string{"GPUBUILD_CACHE="}, "/home/u/.cache/gpubuild"},
		{"our own variable, relative", buildenv.Linux, "/home/u", []string{"GPUBUILD_CACHE=x"}, "cache directory: GPUBUILD_CACHE=x is not an absolute path"},
		{"no home", buildenv.Linux, "", nil, "cache directory: there is no home directory"},
		{"macOS, no home", buildenv.Darwin, "", nil, "cache directory: there is no home directory"},
		{"windows, no home", buildenv.Windows, "", nil, "cache directory: there is no home directory"},
		{"macOS", buildenv.Darwin, "/Users/u", nil, "/Users/u/Library/Caches/gpubuild"},
		{"windows", buildenv.Windows, `C:\Users\u`, []string{`LocalAppData=D:\Local`}, `D:\Local\gpubuild`},
		{"windows, a service without the variable", buildenv.Windows, `C:\Users\u`, nil, `C:\Users\u\AppData\Local\gpubuild`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := buildenv.Host{OS: tt.os, Home: tt.home, Env: buildenv.NewEnv(tt.os, tt.env)}
			got, err := Dir(h)
			if err != nil {
				got = err.Error()
			}
			hosttest.Equal(t, got, tt.want)
		})
	}
}

func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for i := 0; i < 2; i++ { // the second time it is there
		hosttest.OK(t, Make(dir))
	}
	fi := hosttest.Must(os.Stat(dir))(t)
	if fi.Mode().Perm() != 0o700 && os.PathSeparator == '/' {
		t.Errorf("mode %v", fi.Mode())
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMakeWhereItCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	hosttest.OK(t, os.WriteFile(file, nil, 0o600))
	err := Make(filepath.Join(file, "cache"))
	var ro *ReadOnlyError
	if !errors.As(err, &ro) || ro.Hint() != "set GPUBUILD_CACHE to a directory that can be written to" {
		t.Errorf("got %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"one", "two"} {
		hosttest.OK(t, WriteFile(path, []byte(text), 0o640))
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o640 && os.PathSeparator == '/' {
		t.Errorf("mode %v", fi.Mode())
	}
	alone(t, path)
}

// alone says that a file is the only one in its directory.
func alone(t *testing.T, path string) {
	t.Helper()
	left := hosttest.Must(os.ReadDir(filepath.Dir(path)))(t)
	for _, e := range left {
		hosttest.Equal(t, e.Name(), filepath.Base(path), "left behind")
	}
}

func TestWriteFileWhereItCannot(t *testing.T) {
	dir := t.TempDir()
	hosttest.OK(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "taken", "x"), nil, 0o600))
	for _, tt := range []struct{ name, path, want, hint string }{
		{"no directory", filepath.Join(dir, "none", "x"), "cannot be written: ", "make the directory"},
		{"a directory of that name", filepath.Join(dir, "taken"), "taken cannot be written: file exists", filepath.Join(dir, "taken") + " is a directory: name a file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := WriteFile(tt.path, []byte("x"), 0o600)
			var w *WriteError
			if !errors.As(err, &w) || w.Hint() == "" {
				t.Fatalf("got %v", err)
			}
			// Windows says "access denied" of a directory in the way.
			if os.PathSeparator == '/' && (!strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(w.Hint(), tt.hint)) {
				t.Errorf("got %v, %s", err, w.Hint())
			}
		})
	}
	alone(t, filepath.Join(dir, "taken"))
}

// broken is a disk that fails at one step.
type broken struct {
	*os.File
	at  string
	err error
}

func (b broken) fail(at string) error {
	if b.at == at {
		return &fs.PathError{Op: at, Path: b.Name(), Err: b.err}
	}
	return nil
}

func (b broken) Write(p []byte) (int, error) {
	if err := b.fail("write"); err != nil {
		n, _ := b.File.Write(p[:len(p)/2])
		return n, err
	}
	return b.File.Write(p)
}
func (b broken) Sync() error               { return b.fail("sync") }
func (b broken) Chmod(m fs.FileMode) error { return b.fail("chmod") }
func (b broken) Close() error              { return errors.Join(b.File.Close(), b.fail("close")) }

// TestAFullDiskLeavesTheOldFile: at whichever step the disk says so.
func TestAFullDiskLeavesTheOldFile(t *testing.T) {
	for _, at := range []string{"write", "chmod", "sync", "close"} {
		t.Run(at, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			hosttest.OK(t, os.WriteFile(path, []byte("old"), 0o600))
			f := hosttest.Must(os.CreateTemp(filepath.Dir(path), ".file.*"))(t)
			unchanged := func() error { return nil }
			if err := save(broken{f, at, syscall.ENOSPC}, path, []byte("new content"), 0o600, unchanged); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v", err)
			}
			if got, _ := os.ReadFile(path); string(got) != "old" {
				t.Errorf("the old file is now %q", got)
			}
			alone(t, path)
		})
	}
}

func TestIdentityChangesWithTheFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	hosttest.OK(t, os.WriteFile(path, []byte("one"), 0o600))
	first := hosttest.Must(Identify(path))(t)
	if first.Size != 3 || first.MTime == 0 || first.Inode == 0 {
		t.Errorf("got %+v", first)
	}
	_ = os.Symlink(path, link)
	if _, err := os.Lstat(link); err == nil { // not every Windows lets a user make one, and Wine only says so
		if through, err := Identify(link); err != nil || through != first {
			t.Errorf("through a link: %v, %v", through, err)
		}
	}
	// Another file of the same size and time in the same place: installers keep times.
	hosttest.OK(t, WriteFile(path, []byte("two"), 0o600))
	if err := os.Chtimes(path, time.Time{}, time.Unix(0, first.MTime)); err != nil {
		t.Fatal(err)
	}
	if second, err := Identify(path); err != nil || second == first {
		t.Errorf("replaced, yet the same: %v, %v", second, err)
	}
	if _, err := Identify(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestHash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "abc")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// FIPS 180-2, appendix B.1
	if got, err := Hash(path); err != nil || got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := Hash(filepath.Dir(path)); err == nil {
		t.Error("a directory has a hash")
	}
	if sum, err := Hash(filepath.Join(path, "none")); err == nil || sum != "" {
		t.Errorf("of what is not there: %q", sum)
	}
}

func TestLockWithinOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := Lock(context.Background(), path, func(string) { t.Error("waited for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	_, err = Lock(ctx, path, func(holder string) {
		calls++
		if !strings.HasPrefix(holder, fmt.Sprintf("pid %d since 2", os.Getpid())) {
			t.Errorf("held by %q", holder)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("got %v, called %d times", err, calls)
	}
	for i := 0; i < 2; i++ { // a second release does nothing
		hosttest.Equal(t, release(), nil)
	}
	if release, err = Lock(context.Background(), path, nil); err != nil {
		t.Fatal(err)
	}
	hosttest.Equal(t, release(), nil)
}

// holdLock starts another process that holds the lock, and answers its output and how to end it.
func holdLock(t *testing.T, path string) (out *bufio.Scanner, letGo func(), cmd *exec.Cmd) {
	t.Helper()
	self := hosttest.Must(os.Executable())(t)
	cmd = exec.Command(self, "__lock", path)
	in := hosttest.Must(cmd.StdinPipe())(t)
	stdout := hosttest.Must(cmd.StdoutPipe())(t)
	hosttest.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return bufio.NewScanner(stdout), func() { in.Close() }, cmd
}

func line(t *testing.T, s *bufio.Scanner) string {
	t.Helper()
	if !s.Scan() {
		t.Fatalf("no more output: %v", s.Err())
	}
	return s.Text()
}

func TestTwoProcessesTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, letGo, first := holdLock(t, path)
	if got := line(t, a); got != "locked" {
		t.Fatal(got)
	}
	b, letGoB, _ := holdLock(t, path)
	if got, want := line(t, b), fmt.Sprintf("waiting for pid %d since 2", first.Process.Pid); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	letGo()
	hosttest.Equal(t, line(t, a), "released")
	hosttest.Equal(t, line(t, b), "locked")
	letGoB()
	hosttest.Equal(t, line(t, b), "released")
}

// TestALockDiesWithItsHolder: kill -9 leaves the files and no lock.
func TestALockDiesWithItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, _, holder := holdLock(t, path)
	if got := line(t, a); got != "locked" {
		t.Fatal(got)
	}
	hosttest.OK(t, holder.Process.Kill())
	release := hosttest.Must(Lock(context.Background(), path, nil))(t)
	hosttest.Equal(t, release(), nil)
}

func TestALockWithoutADirectory(t *testing.T) {
	_, err := Lock(context.Background(), filepath.Join(t.TempDir(), "none", "lock"), nil)
	var w *WriteError
	if !errors.As(err, &w) || w.Hint() == "" {
		t.Errorf("got %v", err)
	}
}

func TestReplaceWritesNothingOfOthersOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a [b]")
	hosttest.OK(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "Cargo.toml")
	write := func(name, text string) {
		t.Helper()
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640))
	}
	write("Cargo.toml", "odd") // as long as what was read
	var changed *ChangedError
	if err := Replace(path, []byte("old"), []byte("new"), 0o640); !errors.As(err, &changed) || err != error(changed) {
		t.Errorf("a changed file: %T %v", err, err)
	}
	write("Cargo.toml", "old")
	write(".Cargo.toml.gpubuild-new", "of a killed run")
	hosttest.Equal(t, Replace(path, []byte("old"), []byte("new"), 0o640), nil)
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("%q %v", got, err)
	}
	if err := Replace(filepath.Join(dir, "gone"), nil, []byte("new"), 0o640); err == nil || errors.As(err, &changed) {
		t.Errorf("a file that is not there was replaced, or changed: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}
