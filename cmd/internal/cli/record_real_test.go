//go:build linux

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/stale"
)

// TestDamagedStamp: a stamp that cannot be read is none: the package is built once more, and its stamp is whole again.
func TestDamagedStamp(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	toolkits, versions := []string{s.a, s.b}, []string{first, second}
	s.build(s.a, "sm_90")
	for i, tt := range []struct {
		story  string
		damage func(path string, data []byte) error
	}{
		{"cut off by a killed writer", func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/2], 0o644) }},
		{"of another schema", func(path string, data []byte) error {
			return os.WriteFile(path, bytes.Replace(data, fmt.Appendf(nil, `"schema": %d`, stale.Schema), []byte(`"schema": 99`), 1), 0o644)
		}},
		{"empty", func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o644) }},
		{"huge", func(path string, _ []byte) error { return os.Truncate(path, 65<<20) }},
	} {
		t.Run(tt.story, func(t *testing.T) {
			s.t = t
			for dir := range s.recorded("app-sys") {
				path := filepath.Join(filepath.Dir(dir), stale.StampFile)
				data, err := os.ReadFile(path)
				if err == nil {
					err = tt.damage(path, data)
				}
				noError(t, err)
			}
			now, version := toolkits[(i+1)%2], versions[(i+1)%2]
			s.stale("damaged", now, 13, "unknown: app-sys: there is no record of what it was built with")
			s.compiled("damaged", s.build(now, "sm_90"), rebuild)
			s.holds("after the damage", "app/target/debug/app", version, "sm_90")
			s.stale("after the damage", now, 0, "Fresh app-sys: up to date")
		})
	}
}

// TestBadDisk: a target directory that cannot be written to, or is full. What is wrong is said with what to do, and nothing is lost.
func TestBadDisk(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	disk := filepath.Join(s.top, "disk")
	noError(t, os.Mkdir(disk, 0o755))
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
	noError(t, syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	failing(s.command(nil, other...), "error: cargo could not clean "+s.target, "Read-only file system", "hint: make "+s.target+
		" one that you may write to")
	failing(s.command(nil, binary(t), "stale", "--clean", "--features", "cuda", "--toolkit="+s.b, "--arch", "sm_90"), "error: cargo could not clean",
		"hint: ")
	s.holds("on a read-only disk", "disk/target/debug/app", first, "sm_90")
	noError(t, syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	s.compiled("writable again: what was stale still is", s.must(s.command(nil, other...)), rebuild)
	s.holds("writable again", "disk/target/debug/app", second, "sm_90")

	// Full: the build fails.
	f, err := os.Create(filepath.Join(disk, "filler"))
	noError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	another := []string{binary(t), "build", "--features", "cuda", "--gpu-toolkit=" + s.a, "--gpu-arch", "sm_90"}
	failing(s.command(nil, another...))
	noError(t, os.Remove(filepath.Join(disk, "filler")))
	s.must(s.command(nil, another...))
	s.holds("with space again", "disk/target/debug/app", first, "sm_90")
	s.compiled("and then nothing", s.must(s.command(nil, another...)), "")
}

// afterBuild makes a cargo that is first on PATH: the real one, and when it has built, a line of shell.
func (s *shared) afterBuild(line string) {
	s.t.Helper()
	real := need.Cargo(s.t)
	writeFiles(s.t, s.top, map[string]string{"bin/cargo": "#!/bin/sh\n" + real + " \"$@\"\nrc=$?\ncase \" $* \" in *' build '*) case \" " +
		"$* \" in *' --unit-graph '*|*' -h '*) ;; *) " + line + " ;; esac ;; esac\nexit $rc\n"})
}

// TestStampThatCannotBeWritten: a good build ends well although nothing can be written down of it; that is said, and the next is right all
// the same.
func TestStampThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	disk := filepath.Join(s.top, "disk")
	noError(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=64m"); err != nil {
		need.Missing(t, "mount", "%v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	s.target = filepath.Join(disk, "target")
	filler, answer := filepath.Join(disk, "filler"), filepath.Join(s.top, "answer.json")
	s.build(s.a, "sm_90")
	s.afterBuild("cat /dev/zero >" + filler + " 2>/dev/null")
	text := s.build(s.b, "sm_90", "--gpu-json="+answer)
	for _, w := range []string{"warning: cannot write down what app-sys was built with: ", "no space left", "hint: make " + s.target} {
		if !strings.Contains(text, w) {
			t.Errorf("not said: %s\n%s", w, text)
		}
	}
	s.holds("full when it was built", "disk/target/debug/app", second, "sm_90")
	if data, err := os.ReadFile(answer); err != nil || !bytes.Contains(data, []byte(`"stale.unrecorded"`)) ||
		!bytes.Contains(data, []byte(`"ok": true`)) {
		t.Errorf("%v\n%s", err, data)
	}
	noError(t, os.Remove(filler))
	s.afterBuild(":")
	s.compiled("with space again", s.build(s.b, "sm_90"), rebuild)
	s.compiled("and then nothing", s.build(s.b, "sm_90"), "")
}
