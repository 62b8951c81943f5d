package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// TestNames: a word in the test program's memory is found, across any border, and one of its symbol table alone is not.
func TestNames(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	self := hosttest.Must(os.Executable())(t)
	word := strings.Join([]string{"a word that", "is in memory 4711"}, " ")
	got, _, err := Names(h, self, []string{"is in memory 4711", word + " twice"}, nil)
	if err != nil || len(got) != 1 || got[0] != "is in memory 4711" {
		t.Errorf("%q", got)
	}
	none := t.TempDir() + "/x.wasm"
	hosttest.OK(t, os.WriteFile(none, []byte("\x00asm\x01\x00\x00\x00cuInit"), 0o600))
	if names, _, err := Names(h, none, []string{"cuInit"}, nil); !errors.Is(err, ErrFormat) || names != nil {
		t.Errorf("%q, %v", names, err)
	}
	if _, _, err := Names(h, none+"x", nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestFunctions: the name of a function counts where it is a word or is imported, and not where the file exports it; that of a library with
// its ending.
func TestFunctions(t *testing.T) {
	t.Parallel()
	h, gcc := hosttest.Must(local.Host())(t), need.CC(t)
	for source, want := range map[string]string{
		`const char *s = "open cuInit";`:                                 "[cuInit] []",
		`const char *s = "libx.socuInit";`:                               "[cuInit] []", // a zero ends it
		`const char s[] = {'c', 'u', 'I', 'n', 'i', 't', '(', 0};`:       "[cuInit] []",
		`const char *s = "AccuInit failed";`:                             "[] [cuInit]",
		`const char *s = "cuInitialize";`:                                "[] [cuInit]",
		`const char *s = "see libnccl.so.2";`:                            "[libnccl] []",
		`const char *s = "openlibnccl_net-x.so";`:                        "[libnccl] []", // one text begins where another ends
		`const char *s = "install libnccl. so what";`:                    "[] [libnccl]",
		`const char *s = "not_libcuda.so.txt";`:                          "[] [libcuda.so]",
		`const char *s = "libcuda.so.1";`:                                "[libcuda.so] []",
		`int cuInit(int f) { return 100; }`:                              "[] []",
		`int cuInit(int); int x(void) { return cuInit(0); }`:             "[cuInit] []",
		`int cuInit(int f) { return 1; } const char *s = "call cuInit";`: "[cuInit] []",
	} {
		dir := t.TempDir()
		c := exec.Command(gcc, "-shared", "-fPIC", "-o", dir+"/x.so", "-x", "c", "-")
		c.Stdin = strings.NewReader(source)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		found, within, err := Names(h, dir+"/x.so", []string{"libnccl", "libcuda.so"}, []string{"cuInit"})
		hosttest.OK(t, err)
		hosttest.Equal(t, fmt.Sprint(found, within), want, source)
	}
}

// TestNeeds: what a program of each system is loaded with, and where it looks for that, as the linker wrote it.
func TestNeeds(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	for target, tt := range map[string]struct {
		library string
		args    []string
		lib     string
		dirs    []string // below that of the program
	}{
		"x86_64-linux-gnu":   {"libmine.so", []string{"-Wl,-soname,libmine.so.2"}, "libmine.so.2", []string{"own"}},
		"x86_64-windows-gnu": {"mine.dll", []string{"-Wl,--out-implib,mine.lib", "-Wl,-e,mine"}, "mine.dll", nil},
		"aarch64-macos":      {"libmine.dylib", []string{"-Wl,-install_name,@rpath/libmine.dylib"}, "@rpath/libmine.dylib", []string{"own"}},
	} {
		dir := t.TempDir()
		zig := need.Tool(t, "zig")
		compile := func(args ...string) {
			t.Helper()
			c := exec.Command(zig, append([]string{"cc", "-target", target, "-nostdlib", "-fno-sanitize=all"}, args...)...)
			c.Dir, c.Env = dir, append(os.Environ(), "ZIG_LOCAL_CACHE_DIR="+dir, "ZIG_GLOBAL_CACHE_DIR="+dir)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", target, err, out)
			}
		}
		hosttest.OK(t, errors.Join(os.WriteFile(filepath.Join(dir, "mine.c"), []byte("__attribute__((visibility(\"default\"))) int mine(void) { return 4; }\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "begin.c"), []byte("int mine(void); int begin(void) { return mine(); }\n"), 0o600)))
		compile(append([]string{"-shared", "-o", tt.library, "mine.c"}, tt.args...)...)
		link := tt.library
		if strings.HasSuffix(link, ".dll") {
			link = "mine.lib"
		}
		entry := map[bool]string{true: "_begin", false: "begin"}[strings.Contains(target, "macos")]
		args := []string{"-o", "program", "begin.c", link, "-Wl,-e," + entry}
		if tt.dirs != nil {
			args = append(args, "-Wl,-rpath,"+map[bool]string{true: "@loader_path", false: "$ORIGIN"}[strings.Contains(target, "macos")]+"/own")
		}
		compile(args...)
		libs, dirs := Needs(h, filepath.Join(dir, "program"))
		if !slices.Contains(libs, tt.lib) {
			t.Errorf("%s: %q, want %s among them", target, libs, tt.lib)
		}
		for _, want := range tt.dirs {
			if !slices.Contains(dirs, filepath.Join(dir, want)) {
				t.Errorf("%s: %q, want %s below %s", target, dirs, want, dir)
			}
		}
	}
	if libs, dirs := Needs(h, hosttest.Must(os.Getwd())(t)+"/names_test.go"); libs != nil || dirs != nil {
		t.Errorf("of a text: %q, %q", libs, dirs)
	}
}

// TestStackUnknown: nvlink writes 0xffffffff where it cannot bound a stack, as in code that calls itself.
func TestStackUnknown(t *testing.T) {
	word := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	symbols := make([]byte, 2*elf.Sym64Size)
	symbols[elf.Sym64Size+6] = 1 // the second one is of the first section
	info := slices.Concat([]byte{4, 0x2f, 8, 0}, word(1), word(20), []byte{4, 0x12, 8, 0}, word(1), word(0xffffffff))
	file := elfFile(machineCUDA, 0, part{".text.k", nil}, part{".nv.info", info}, part{".symtab", symbols})
	table := int(binary.LittleEndian.Uint64(file[40:]))
	file[table+3*elfSection+4] = byte(elf.SHT_SYMTAB)
	r := resourcesOf(hosttest.Must(elf.NewFile(bytes.NewReader(file)))(t))["k"]
	hosttest.Equal(t, r, Resources{Registers: 20, StackUnknown: true})
	hosttest.Equal(t, r.String(), "registers 20, stack unknown, shared 0, constant 0")
}
