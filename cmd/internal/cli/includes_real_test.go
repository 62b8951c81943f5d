//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeadersOfASubmodule has a kernel that includes a header of a git submodule, which moves to another commit, and one of a library, which
// asks for another by the longer of two names: a file of that name appears in a directory that is searched before.
func TestHeadersOfASubmodule(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	top := t.TempDir()
	writeFiles(t, top, map[string]string{
		"origin/mine.h": "#define MINE __device__ int mark_one = 1;\n", "near/lib/other.h": "",
		"library/lib/a.h": "#include <lib/sub/x.h>\n", "library/lib/sub/x.h": "#define X __device__ int x_one = 1;\n",
	})
	git := func(dir string, words ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "protocol.file.allow=always", "-c", "user.name=x", "-c", "user.email=x@x"},
			words...)...)
		succeeds(t, cmd)
	}
	origin, vendor := filepath.Join(top, "origin"), filepath.Join(b.dir, "vendor")
	git(origin, "init", "-q")
	git(origin, "add", ".")
	git(origin, "commit", "-q", "-m", "one")
	git(b.dir, "init", "-q")
	git(b.dir, "submodule", "add", "-q", origin, "vendor")
	b.edit("src/matmul.cu", "extern \"C\"", "#include \"../vendor/mine.h\"\n#include <lib/a.h>\nMINE X extern \"C\"")
	library := filepath.Join(top, "library")
	b.env = append(b.env, "NVCC_APPEND_FLAGS=-I"+filepath.Join(top, "near")+" -I"+filepath.Join(library, "lib", "sub")+" -isystem "+library)
	holds := func(story, mark string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(b.outDir(), "matmul.ptx"))
		if err != nil || !strings.Contains(string(data), mark) {
			t.Fatalf("%s: the kernel does not hold %s (%v)", story, mark, err)
		}
	}
	b.ends("built from nothing", b.first, "sm_90", 0, 0)
	holds("built from nothing", "mark_one")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!Stale"))
	writeFiles(t, origin, map[string]string{"mine.h": "#define MINE __device__ int mark_two = 1;\n"})
	git(origin, "commit", "-q", "-a", "-m", "two")
	git(b.dir, "submodule", "update", "-q", "--remote")
	if data, err := os.ReadFile(filepath.Join(vendor, "mine.h")); err != nil || !strings.Contains(string(data), "mark_two") {
		t.Fatalf("the submodule did not move: %s %v", data, err)
	}
	b.ends("another commit", b.first, "sm_90", 0, 1)
	holds("another commit", "mark_two")
	writeFiles(t, top, map[string]string{"near/lib/sub/x.h": "#define X __device__ int x_two = 1;\n"})
	b.ends("a nearer header", b.first, "sm_90", 0, 1)
	holds("a nearer header", "x_two")
	b.rebuilt("and again", b.ends("and again", b.first, "sm_90", 0, 0, "!Stale"))
}
