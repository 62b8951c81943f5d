package loader

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// traced matches one line of the loader's own list: "name => path (address)", or "name (address)" of what it found by that name in the
// current directory.
var traced = regexp.MustCompile(`(?m)^\t(\S+)(?: => (.*?))?(?: \(0x[0-9a-f]+\))?$`)

// unloaded matches what musl's loader says of a library that it did not find or cannot load.
var unloaded = regexp.MustCompile(`Error loading shared library (\S+): `)

// trace asks a loader of this machine itself what it would load, which is all that ldd does: glibc's by LD_TRACE_LOADED_OBJECTS, another
// one by its --list. false where it gives no list.
func trace(t *testing.T, dir, loader, program string, env ...string) (map[string]string, bool) {
	t.Helper()
	c := exec.Command(program)
	if loader != "" {
		c = exec.Command(loader, "--list", program)
	}
	c.Dir = dir
	c.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "LD_") }), append(env, "LC_ALL=C")...)
	if loader == "" {
		c.Env = append(c.Env, "LD_TRACE_LOADED_OBJECTS=1")
	}
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil && len(out) == 0 && complaints.Len() == 0 {
		return nil, false
	}
	for _, m := range unloaded.FindAllStringSubmatch(complaints.String(), -1) {
		out = append(out, "\t"+m[1]+" => not found\n"...)
	}
	all := map[string]string{}
	for _, m := range traced.FindAllStringSubmatch(string(out), -1) {
		if m[2] == "" {
			m[2] = m[1]
		}
		if m[1] == "linux-vdso.so.1" || strings.Contains(m[1], "/") { // the kernel's, and what was named by a path and not searched
			continue
		}
		if !filepath.IsAbs(m[2]) && m[2] != "not found" {
			m[2] = filepath.Join(dir, m[2])
		}
		if m[2] == "not found" {
			m[2] = ""
		}
		if had, again := all[m[1]]; again && (had == "") != (m[2] == "") {
			// a real start ends at the first that is not found; the list goes on, and found it where another one that needs it looks
			return nil, false
		}
		all[m[1]] = m[2]
	}
	return all, len(all) > 0
}

// agree holds Resolve against the loader for one program; the answer is how many libraries were compared.
func agree(t *testing.T, h buildenv.Host, loader, program string, env ...string) int {
	t.Helper()
	want, ok := trace(t, h.Cwd, loader, program, env...)
	if !ok {
		return 0
	}
	for _, e := range env {
		name, v, _ := strings.Cut(e, "=")
		h.Env = h.Env.Set(name, v)
	}
	libs, err := Resolve(h, program, nil)
	if err != nil {
		t.Errorf("%s: %v", program, err)
		return 0
	}
	got := map[string]string{}
	for _, l := range libs {
		if got[l.Name] = l.Path; l.Kind == Broken {
			got[l.Name] = ""
		}
	}
	for name, path := range want {
		if have, asked := got[name]; !asked || h.Real(have) != h.Real(path) {
			t.Errorf("%s: %s is %q, the loader says %q", program, name, have, path)
		}
	}
	for _, l := range libs {
		if _, told := want[l.Name]; !told && !strings.HasPrefix(l.Name, "ld-linux") && !strings.Contains(l.Name, "/") {
			t.Errorf("%s: %s (%s) is none of what the loader loads", program, l.Name, l.Path)
		}
	}
	return len(want)
}

// here is this machine without variables of the loader.
func here(t *testing.T) buildenv.Host {
	t.Helper()
	if runtime.GOOS != buildenv.Linux {
		need.Missing(t, "linux", "its loader is the oracle")
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range h.Env.Names() {
		if strings.HasPrefix(name, "LD_") {
			h.Env = h.Env.Unset(name)
		}
	}
	return h
}

// glibc says whether a file is a program that glibc's loader of this machine starts.
func glibc(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [4096]byte
	n, _ := f.Read(head[:]) // what could not be read holds no such name
	return bytes.HasPrefix(head[:n], []byte("\x7fELF")) && bytes.Contains(head[:n], []byte("/ld-linux"))
}

// TestAgainstTheRealLoader compares with the loader on programs that are its own: every tenth in /usr/bin, or all in those of
// GPUBUILD_TEST=loader=DIR:DIR, those of toolkits for instance.
func TestAgainstTheRealLoader(t *testing.T) {
	h := here(t)
	dirs, every := []string{"/usr/bin"}, 10
	if v := need.Given("loader"); v != "" {
		dirs, every = filepath.SplitList(v), 1
	}
	programs, compared, seen := 0, 0, 0
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			fi, err := os.Stat(path)
			if err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 || fi.Mode()&os.ModeSetuid != 0 || !glibc(path) {
				continue
			}
			if seen++; seen%every != 0 {
				continue
			}
			if n := agree(t, h, "", path); n > 0 {
				programs, compared = programs+1, compared+n
			}
		}
	}
	t.Logf("%d libraries of %d programs were compared", compared, programs)
	if compared == 0 {
		need.Missing(t, "loader", "it answered nothing that could be compared")
	}
}
