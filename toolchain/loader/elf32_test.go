package loader

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestParse32 reads what the linker makes for 32 bits, with its section headers, without them, and with damaged ones: the loader looks at
// none.
func TestParse32(t *testing.T) {
	for _, tool := range []string{"as", "ld"} {
		need.Program(t, "cc", tool)
	}
	if here(t).Arch != "amd64" {
		need.Missing(t, "amd64", "the names of the linker's formats are those of x86-64")
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "e.s"), []byte(".globl _start\n_start: ret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("as", "--32", "-o", "e.o", "e.s")
	run("ld", "-m", "elf_i386", "-shared", "-soname=libneeded.so.2", "-o", "needed.so", "e.o")
	run("ld", "-m", "elf_i386", "-pie", "-dynamic-linker", "/lib/ld-linux.so.2", "--enable-new-dtags", "-rpath=$ORIGIN/../lib:/x",
		"--no-as-needed", "-o", "app", "e.o", "needed.so")
	data, err := os.ReadFile(filepath.Join(dir, "app"))
	if err != nil {
		t.Fatal(err)
	}
	without, damaged := bytes.Clone(data), bytes.Clone(data)
	copy(without[0x20:0x24], make([]byte, 4)) // e_shoff
	copy(without[0x30:0x34], make([]byte, 4)) // e_shnum, e_shstrndx
	copy(damaged[0x20:0x24], []byte{0xff, 0xff, 0xff, 0x7f})
	for story, image := range map[string][]byte{"whole": data, "without section headers": without, "with damaged ones": damaged} {
		o, err := parse("app", bytes.NewReader(image))
		if err != nil {
			t.Errorf("%s: %v", story, err)
			continue
		}
		if got, want := fmt.Sprint(o.kind(), o.interp, o.needed, o.runpath, o.rpath), "386, 32 bit/lib/ld-linux.so.2[libneeded.so.2] "+
			"[$ORIGIN/../lib /x] []"; got != want {
			t.Errorf("%s: got %s, want %s", story, got, want)
		}
	}
}
