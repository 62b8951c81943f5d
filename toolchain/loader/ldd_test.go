package loader

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"gpubuild/buildenv/local"
)

var lddLine = regexp.MustCompile(`(?m)^\s+(\S+) => (.*?)( \(0x[0-9a-f]+\))?$`)

// ldd is the oracle: the real loader of this machine, on programs that are its own.
func TestAgainstRealLdd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ldd is Linux's")
	}
	ldd, err := exec.LookPath("ldd")
	if err != nil {
		t.Skip("no ldd here")
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, name := range []string{"ls", "bash", "git", "curl", "gcc", "ld", "perl", "python3", "gdb", "cargo", "ssh", "openssl", "cmake"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		program, err = filepath.EvalSymlinks(program)
		if err != nil {
			continue
		}
		c := exec.Command(ldd, program)
		c.Env = append(os.Environ(), "LC_ALL=C")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "=>") || strings.Contains(string(out), "glibc-hwcaps") {
			continue
		}
		libs, err := Resolve(h, program, nil)
		if err != nil {
			t.Errorf("%s: %v", program, err)
			continue
		}
		ours := map[string]string{}
		for _, l := range libs {
			ours[l.Name] = l.Path
		}
		for _, m := range lddLine.FindAllStringSubmatch(string(out), -1) {
			want := m[2]
			if want == "not found" {
				want = ""
			}
			got, asked := ours[m[1]]
			if !asked || got != want {
				t.Errorf("%s: %s is %q, ldd says %q", program, m[1], got, want)
			}
			compared++
		}
	}
	t.Logf("%d libraries agree or were reported", compared)
	if compared == 0 {
		t.Skip("ldd answered nothing that could be compared")
	}
}
