//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeaderOfASearchPath has a kernel that includes what CPATH leads to, in a directory of the name of one of CUDA's: another content,
// another directory and none are seen, and nothing is built where it is the same.
func TestHeaderOfASearchPath(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	first, second := filepath.Join(b.dir, "..", "first"), filepath.Join(b.dir, "..", "second")
	b.edit("src/matmul.cu", "extern \"C\"", "#include <nv/mine.h>\nMINE extern \"C\"")
	header := func(dir, mark string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "nv"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "nv", "mine.h"), []byte("#define MINE __device__ int "+mark+" = 1;\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(story, mark string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(b.outDir(), "matmul.ptx"))
		if err != nil || !strings.Contains(string(data), mark) {
			t.Fatalf("%s: the kernel does not hold %s (%v)", story, mark, err)
		}
	}
	header(first, "mark_one")
	header(second, "mark_two")
	b.env = append(b.env, "CPATH="+first)
	b.ends("built from nothing", b.first, "sm_90", 0, 0)
	holds("built from nothing", "mark_one")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!Stale"))
	header(first, "mark_three")
	b.ends("the header changed", b.first, "sm_90", 0, 1, "Stale CPATH")
	holds("the header changed", "mark_three")
	b.env = append(b.env, "CPATH="+second)
	b.ends("another directory", b.first, "sm_90", 0, 1, "Stale CPATH")
	holds("another directory", "mark_two")
	b.rebuilt("and again", b.ends("and again", b.first, "sm_90", 0, 0, "!Stale"))
}

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
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", words, err, out)
		}
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
