//go:build linux

package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/need"
)

// TestDamagedRecord: a record that cannot be read is said to be so, is never taken for "fresh", and is whole again after the next build.
func TestDamagedRecord(t *testing.T) {
	need.Asked(t, "long")
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
	t.Parallel()
	s := newShared(t)
	disk := filepath.Join(s.top, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=64m"); err != nil {
		need.Missing(t, "mount", "%v", err)
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

// afterBuild makes a cargo that is first on PATH: the real one, and when it has built, a line of shell.
func (s *shared) afterBuild(line string) {
	s.t.Helper()
	real := need.Cargo(s.t)
	writeFiles(s.t, s.top, map[string]string{"bin/cargo": "#!/bin/sh\n" + real + " \"$@\"\nrc=$?\ncase \" $* \" in *' build '*) case \" $* \" in *' --unit-graph '*) ;; *) " + line + " ;; esac ;; esac\nexit $rc\n"})
}

// keeps is a good build of which nothing can be written down.
func (s *shared) keeps(story, toolkit string, says ...string) string {
	s.t.Helper()
	text := s.build(toolkit, "sm_90")
	for _, w := range says {
		if not, ok := strings.CutPrefix(w, "!"); strings.Contains(text, not) == ok {
			s.t.Errorf("%s: %q\n%s", story, w, text)
		}
	}
	return text
}

const notWritten = "warning: what the GPU packages were built with is not written down: "

// TestRecordThatCannotBeWritten: a good build ends well although nothing can be written down of it; that is said, and the next is right all the same.
func TestRecordThatCannotBeWritten(t *testing.T) {
	need.Asked(t, "long")
	t.Run("a directory in its place", func(t *testing.T) {
		s := newShared(t)
		record := filepath.Join(s.dir, "target", ".gpubuild-record.json")
		writeFiles(t, record, map[string]string{"mine": "not gpubuild's"})
		hint := "hint: remove the directory " + record
		s.keeps("from nothing", s.a, notWritten, hint)
		text := s.keeps("the same again", s.a, notWritten, hint, "warning: "+record+": is a directory; what the GPU packages were built with is unknown")
		s.compiled("the same again, of which nothing tells that it is", text, rebuild)
		s.compiled("another toolkit", s.keeps("another toolkit", s.b, notWritten), rebuild)
		s.holds("another toolkit", "app/target/debug/app", second, "sm_90")
		if !exists(filepath.Join(record, "mine")) {
			t.Error("what lay in its place is gone")
		}
		answer := filepath.Join(s.top, "answer.json")
		s.build(s.b, "sm_90", "--gpu-json="+answer)
		if text, err := os.ReadFile(answer); err != nil || !bytes.Contains(text, []byte(`"stale.unrecorded"`)) || !bytes.Contains(text, []byte(`"ok": true`)) {
			t.Errorf("%v\n%s", err, text)
		}
		if left, _ := filepath.Glob(filepath.Join(s.dir, "target", "*record.json.*")); len(left) > 0 {
			t.Errorf("left beside it: %s", left)
		}
	})
	mounted := func(t *testing.T) (s *shared, disk string) {
		t.Helper()
		s = newShared(t)
		disk = filepath.Join(s.top, "disk")
		if err := os.Mkdir(disk, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("none", disk, "tmpfs", 0, "size=64m"); err != nil {
			need.Missing(t, "mount", "%v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
		s.target = filepath.Join(disk, "target")
		return s, disk
	}
	t.Run("a full disk", func(t *testing.T) {
		s, disk := mounted(t)
		filler := filepath.Join(disk, "filler")
		s.build(s.a, "sm_90")
		s.afterBuild("cat /dev/zero >" + filler + " 2>/dev/null")
		s.keeps("full when it was built", s.b, notWritten, "no space left", "hint: make "+s.target)
		s.holds("full when it was built", "disk/target/debug/app", second, "sm_90")
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		s.afterBuild(":")
		// The old record is of another run of the script: it says nothing of this one.
		s.compiled("with space again", s.keeps("with space again", s.b, "Unknown app-sys: its build script has run since", "!"+notWritten), rebuild)
		s.compiled("and then nothing", s.keeps("and then nothing", s.b, "!Unknown"), "")
		s.build(s.a, "sm_90")
		s.afterBuild("cat /dev/zero >" + filler + " 2>/dev/null")
		s.build(s.b, "sm_90")
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		s.compiled("back to what the record speaks of", s.build(s.a, "sm_90"), rebuild)
		s.holds("back to what the record speaks of", "disk/target/debug/app", first, "sm_90")
	})
	t.Run("a disk that turned read-only", func(t *testing.T) {
		s, disk := mounted(t)
		s.build(s.a, "sm_90")
		// cargo builds nothing on a disk that is read-only, not even nothing: it turns so when cargo is done.
		s.afterBuild("mount -o remount,ro " + disk)
		s.keeps("read-only when it was built", s.b, notWritten, "read-only file system", "hint: make "+s.target)
		s.holds("read-only when it was built", "disk/target/debug/app", second, "sm_90")
		if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
		s.afterBuild(":")
		s.compiled("back to what the record speaks of", s.build(s.a, "sm_90"), rebuild)
		s.holds("back to what the record speaks of", "disk/target/debug/app", first, "sm_90")
	})
	t.Run("a clock that stands still, and a record that cannot be replaced", func(t *testing.T) {
		s, _ := mounted(t)
		record := filepath.Join(s.target, ".gpubuild-record.json")
		// All runs of a script have one time, later than its files.
		s.afterBuild("find " + s.target + " -name invoked.timestamp -exec touch -d 2100-01-01 {} +")
		s.build(s.a, "sm_90")
		// A mount point is neither replaced nor removed; it can be emptied.
		if err := syscall.Mount(record, record, "", syscall.MS_BIND, ""); err != nil {
			need.Missing(t, "mount", "%v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(record, syscall.MNT_DETACH) })
		s.keeps("emptied", s.b, notWritten, "!cannot be removed either")
		if data, err := os.ReadFile(record); err != nil || len(data) > 0 {
			t.Errorf("the record of %s still speaks: %v\n%s", s.a, err, data)
		}
		s.keeps("the next", s.a, ".gpubuild-record.json: unreadable record of earlier builds: it is empty")
		s.holds("the next", "disk/target/debug/app", first, "sm_90")

		if err := syscall.Unmount(record, syscall.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		s.build(s.a, "sm_90")
		if err := syscall.Mount(record, record, "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("", record, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		s.keeps("not even emptied", s.b, "the record of an earlier build cannot be removed either, and speaks of other tools", "hint: remove "+record+" before the next build, or give that one --gpu-force-clean")
	})
}
