//go:build linux

package cli_test

import (
	"os"
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
