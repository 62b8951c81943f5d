//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestLibraryReplacedWhileCargoRan: a static library is replaced while cargo runs. One that other content replaces between its link and the
// end of that build is a documented limit.
func TestLibraryReplacedWhileCargoRan(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	real := need.Tool(t, "cargo")
	self, err := os.Executable()
	noError(t, err)
	late := filepath.Join(s.top, "late-cargo")
	noError(t, os.Symlink(self, late))
	lib := filepath.Join(s.top, "lib")
	files := kern("app")
	files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], "    let cap =", "    println!(\"cargo::rustc-link-search=native="+lib+
		"\");\n    println!(\"cargo::rustc-link-lib=static=user\");\n    let cap =", 1)
	files["sys/src/lib.rs"] += "extern \"C\" { pub fn mark() -> *const std::ffi::c_char; }\n"
	files["src/main.rs"] = "fn main() { plain::hello(); #[cfg(feature = \"cuda\")] println!(\"{} {:?}\", app_sys::PTX, unsafe { " +
		"std::ffi::CStr::from_ptr(app_sys::mark()) }); }\n"
	writeFiles(t, s.dir, files)
	library := func(name, mark string) string {
		t.Helper()
		writeFiles(t, lib, map[string]string{name + ".c": "const char *mark(void) { return \"" + mark + "\"; }\n"})
		for _, words := range [][]string{{"gcc", "-c", "-o", name + ".o", name + ".c"}, {"ar", "rcs", name, name + ".o"}} {
			c := exec.Command(words[0], words[1:]...)
			c.Dir = lib
			s.must(c)
		}
		return filepath.Join(lib, name)
	}
	holds := func(story, mark string) {
		t.Helper()
		if data, err := os.ReadFile(filepath.Join(s.dir, "target", "debug", "app")); err != nil || !strings.Contains(string(data), mark) {
			t.Fatalf("%s: the program does not hold %s (%v)", story, mark, err)
		}
	}
	user := library("libuser.a", "MARK-1")
	s.more = []string{"CARGO=" + late, "REAL_CARGO=" + real, "LATE_FROM=" + library("late.a", "MARK-1"), "LATE_TO=" + user}
	s.build(s.a, "sm_90")
	holds("built from nothing, and replaced by the same", "MARK-1")
	if text := s.build(s.a, "sm_90"); strings.Contains(text, "Stale") || strings.Contains(text, "Compiling") {
		t.Errorf("nothing changed:\n%s", text)
	}

	// Nothing is built, and the library is replaced all the same.
	s.more[2] = "LATE_FROM=" + library("late.a", "MARK-3")
	if text := s.build(s.a, "sm_90"); strings.Contains(text, "Compiling") {
		t.Errorf("something was built:\n%s", text)
	}
	s.build(s.a, "sm_90")
	holds("replaced under a build that had nothing to do", "MARK-3")
	if text := s.build(s.a, "sm_90"); strings.Contains(text, "Stale") || strings.Contains(text, "Compiling") {
		t.Errorf("nothing changed at the end:\n%s", text)
	}

	// It is written anew while the package is built, and holds what it held.
	library("late.a", "MARK-3")
	if text := s.build(s.b, "sm_90"); !strings.Contains(text, "Compiling app-sys") {
		t.Errorf("nothing was built for the other toolkit:\n%s", text)
	}
	if text := s.build(s.b, "sm_90"); strings.Contains(text, "Stale") || strings.Contains(text, "Compiling") {
		t.Errorf("the same content was taken for another:\n%s", text)
	}
	holds("written anew as it was", "MARK-3")
}
