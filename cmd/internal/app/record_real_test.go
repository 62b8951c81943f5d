//go:build linux

package app_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDamagedRecord: a record that cannot be read is said to be so, is never taken for "fresh", and is whole again after the next build.
func TestDamagedRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("runs cargo some twenty times")
	}
	s := newShared(t)
	record := filepath.Join(s.dir, "target", ".gpubuild-record.json")
	toolkits, versions := []string{s.a, s.b}, []string{first, second}
	s.build(s.a, "sm_90")
	good, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		story, says string
		damage      func() error
	}{
		{"cut off by a killed writer", "unexpected end of JSON", func() error { return os.WriteFile(record, good[:len(good)/2], 0o644) }},
		{"of another schema", "it is of schema 99", func() error {
			return os.WriteFile(record, bytes.Replace(good, []byte(`"schema": 2`), []byte(`"schema": 99`), 1), 0o644)
		}},
		{"empty", "it is empty", func() error { return os.WriteFile(record, nil, 0o644) }},
		{"huge", ".gpubuild-record.json: larger than", func() error { return os.Truncate(record, 65<<20) }},
	} {
		t.Run(tt.story, func(t *testing.T) {
			s.t = t
			if err := tt.damage(); err != nil {
				t.Fatal(err)
			}
			now, version := toolkits[(i+1)%2], versions[(i+1)%2]
			stale := []string{binary(t), "stale", "--features", "cuda", "--toolkit", now, "--arch", "sm_90"}
			out, err := s.command(nil, stale...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "warning: "+record) || !strings.Contains(string(out), tt.says) {
				t.Errorf("said to be fresh, or not said why it is not known (%v):\n%s", err, out)
			}
			s.build(now, "sm_90")
			s.holds("after the damage", "app/target/debug/app", version, "sm_90")
			out, err = s.command(nil, stale...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "warning") {
				t.Errorf("not healed: %v\n%s", err, out)
			}
		})
	}
	s.t = t
	// What a killed writer left beside it goes with the next that writes.
	left := filepath.Join(s.dir, "target", "..gpubuild-record.json.12345")
	writeFiles(t, s.dir, map[string]string{"target/..gpubuild-record.json.12345": "half"})
	s.build(s.b, "sm_80")
	if exists(left) {
		t.Errorf("%s is still there", left)
	}
}

// TestBadDisk: a target directory that cannot be written to, or is full. What is wrong is said with what to do, and nothing is lost.
func TestBadDisk(t *testing.T) {
	s := newShared(t)
	disk := filepath.Join(s.top, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	defer func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) }()
	s.target = filepath.Join(disk, "target")
	s.build(s.a, "sm_90")
	failing := func(c *exec.Cmd, says ...string) {
		t.Helper()
		out, err := c.CombinedOutput()
		if err == nil {
			t.Errorf("%v ended well:\n%s", c.Args[1:], out)
		}
		for _, w := range says {
			if !strings.Contains(string(out), w) {
				t.Errorf("%v did not say %q:\n%s", c.Args[1:], w, out)
			}
		}
	}
	other := []string{binary(t), "build", "--features", "cuda", "--gpu-toolkit=" + s.b, "--gpu-arch", "sm_90"}
	if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	failing(s.command(nil, other...), "error: cargo could not clean "+s.target, "Read-only file system", "hint: make "+s.target+" one that you may write to")
	failing(s.command(nil, binary(t), "clean", "--features", "cuda"), "error: cargo could not clean", "hint: ")
	s.holds("on a read-only disk", "disk/target/debug/app", first, "sm_90")
	if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	s.compiled("writable again: what was stale still is", s.must(s.command(nil, other...)), rebuild)
	s.holds("writable again", "disk/target/debug/app", second, "sm_90")

	// Full: the build fails, and the old record is whole.
	record := filepath.Join(s.target, ".gpubuild-record.json")
	before, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	another := []string{binary(t), "build", "--features", "cuda", "--gpu-toolkit=" + s.a, "--gpu-arch", "sm_90"}
	failing(s.command(nil, another...))
	if after, err := os.ReadFile(record); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the record is not what it was: %v\n%s", err, after)
	}
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	s.must(s.command(nil, another...))
	s.holds("with space again", "disk/target/debug/app", first, "sm_90")
	s.compiled("and then nothing", s.must(s.command(nil, another...)), "")
}
