package loader

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestAgainstTheRealLoaderOnRandomTrees makes programs whose libraries lie in directories with links, are found through RPATH and RUNPATH
// of theirs and of who needs them, $ORIGIN, dots behind links, empty entries and LD_LIBRARY_PATH, are missing, for another machine, or lack
// their section headers; and holds Resolve against this machine's loader, and musl's where it was asked for. GPUBUILD_TEST=random=N sets
// how many; the numbers are the same each time.
func TestAgainstTheRealLoaderOnRandomTrees(t *testing.T) {
	t.Run("glibc", func(t *testing.T) { onRandomTrees(t, "/lib64/ld-linux-x86-64.so.2", "") })
	t.Run("musl", func(t *testing.T) {
		loader := need.Tool(t, "musl")
		if loader == "" {
			loader = "/lib/ld-musl-x86_64.so.1"
		}
		if _, err := os.Stat(loader); err != nil {
			need.Missing(t, "musl", "%v", err)
		}
		onRandomTrees(t, loader, loader)
	})
}

func onRandomTrees(t *testing.T, interp, asked string) {
	h := here(t)
	for _, tool := range []string{"as", "ld"} {
		need.Program(t, "cc", tool)
	}
	if h.Arch != "amd64" {
		need.Missing(t, "amd64", "the names of the linker's formats are those of x86-64")
	}
	rounds := need.Count(t, "random", 25)
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "empty.s"), []byte(".globl _start\n_start: ret\n.section .note.GNU-stack,\"\",@progbits\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	run("as", "--64", "-o", "64.o", "empty.s")
	run("as", "--32", "-o", "32.o", "empty.s")
	run("ld", "-m", "elf_i386", "-shared", "-o", "other.so", "32.o")
	compared := 0
	for round := range rounds {
		r := rand.New(rand.NewPCG(4, uint64(round)))
		top := filepath.Join(dir, strconv.Itoa(round))
		var dirs []string
		for i := range 4 {
			d := filepath.Join(top, "d"+strconv.Itoa(i))
			dirs = append(dirs, d, filepath.Join(top, "l"+strconv.Itoa(i)))
			if err := os.MkdirAll(filepath.Join(d, "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join("d"+strconv.Itoa(r.IntN(4)), "in"), filepath.Join(top, "l"+strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
		pick := func(of []string) string { return of[r.IntN(len(of))] }
		paths := func(most int) string {
			var out []string
			for range r.IntN(most + 1) {
				d := filepath.Base(pick(dirs))
				out = append(out, pick([]string{"$ORIGIN", "$ORIGIN/../" + d, "${ORIGIN}/../../" + d, "$ORIGIN/../" + d + "/..", "",
					top + "/" + d, top + "/" + d + "/../in", top + "/nowhere", "../" + d}))
			}
			return strings.Join(out, ":")
		}
		link := func(out string, needed []string, args ...string) {
			if rpath := paths(3); rpath != "" {
				args = append(args, "-rpath="+rpath, pick([]string{"--enable-new-dtags", "--disable-new-dtags"}))
			}
			run("ld", append(append(append(args, "-o", out, "64.o"), "--no-as-needed", "--allow-shlib-undefined",
				"--unresolved-symbols=ignore-all"), needed...)...)
		}
		var made []string
		for i := range 7 {
			name := fmt.Sprintf("libr%d.so.1", i)
			var needed []string
			for _, m := range made {
				if r.IntN(3) == 0 {
					needed = append(needed, m)
				}
			}
			linked := filepath.Join(top, name) // where the linker finds it, and no loader
			args := []string{"-shared"}
			if r.IntN(6) > 0 {
				args = append(args, "-soname="+name)
			} else {
				linked = filepath.Join(dir, name) // without a name of its own it is asked for by this path
			}
			link(linked, needed, args...)
			made = append(made, linked)
			data, err := os.ReadFile(linked)
			if err != nil {
				t.Fatal(err)
			}
			for range r.IntN(3) {
				at := filepath.Join(pick(dirs), name)
				if r.IntN(3) == 0 { // for better processors
					at = filepath.Join(pick(dirs), "glibc-hwcaps", pick([]string{"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v9"}), name)
					if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				_ = os.Remove(at) // there may be one already
				switch r.IntN(6) {
				case 0: // of another machine
					other, err := os.ReadFile(filepath.Join(dir, "other.so"))
					if err == nil {
						err = os.WriteFile(at, other, 0o755)
					}
					if err != nil {
						t.Fatal(err)
					}
				case 1: // a link to a file elsewhere
					real := filepath.Join(pick(dirs), "real-"+name)
					if err := os.WriteFile(real, data, 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.Symlink(real, at); err != nil {
						t.Fatal(err)
					}
				case 2: // without section headers, which the loader does not read
					bare := append([]byte{}, data...)
					copy(bare[0x28:0x30], make([]byte, 8)) // e_shoff
					copy(bare[0x3c:0x40], make([]byte, 4)) // e_shnum, e_shstrndx
					if err := os.WriteFile(at, bare, 0o755); err != nil {
						t.Fatal(err)
					}
				default:
					if err := os.WriteFile(at, data, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		program := filepath.Join(pick(dirs), "program")
		link(program, made[r.IntN(len(made)):], "-pie", "-dynamic-linker", interp)
		for _, m := range made {
			if filepath.Dir(m) == top {
				if err := os.Remove(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		var env []string
		if v := paths(3); r.IntN(2) == 0 && v != "" {
			env = append(env, "LD_LIBRARY_PATH="+v)
		}
		h := h
		h.Cwd = pick(dirs)
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			n := agree(t, h, asked, program, env...)
			if compared += n; t.Failed() {
				t.Logf("program %s in %s, %q", program, h.Cwd, env)
				out, _ := exec.Command("sh", "-c", "cd "+top+"; ls -lR | grep -- '->'; for f in $(find . -type f); do echo $f; readelf "+
					"-dW $f | grep -E 'NEEDED|RPATH|RUNPATH|SONAME'; done").CombinedOutput()
				t.Logf("%s", out)
			}
		})
	}
	if t.Logf("%d libraries of %d programs were compared", compared, rounds); compared < 2*rounds {
		t.Errorf("the loader named %d libraries of %d programs: the trees are too thin to say anything", compared, rounds)
	}
}
