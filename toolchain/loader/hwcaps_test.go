package loader

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
)

// TestCacheWithHWCaps reads a cache that ldconfig itself wrote of libraries for better processors.
func TestCacheWithHWCaps(t *testing.T) {
	ldconfig := "/sbin/ldconfig"
	h := here(t)
	if _, err := os.Stat(ldconfig); err != nil || h.Arch != "amd64" {
		need.Missing(t, "amd64", "no ldconfig of x86-64")
	}
	for _, tool := range []string{"as", "ld"} {
		need.Program(t, "cc", tool)
	}
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(lib+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "e.s"), []byte(".globl f\nf: ret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	run("as", "--64", "-o", filepath.Join(dir, "e.o"), filepath.Join(dir, "e.s"))
	for _, sub := range []string{"", "glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3"} {
		if err := os.MkdirAll(filepath.Join(lib, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		run("ld", "-shared", "-soname=libq.so.1", "-o", filepath.Join(lib, sub, "libq.so.1"), filepath.Join(dir, "e.o"))
	}
	cache := filepath.Join(dir, "cache")
	run(ldconfig, "-X", "-C", cache, "-f", filepath.Join(dir, "conf"))
	data, err := os.ReadFile(cache)
	if err != nil {
		t.Fatal(err)
	}
	for caps, want := range map[string]string{
		"":                              "lib",
		"x86-64-v2":                     "glibc-hwcaps/x86-64-v2 lib",
		"x86-64-v4 x86-64-v3 x86-64-v2": "glibc-hwcaps/x86-64-v3 glibc-hwcaps/x86-64-v2 lib",
	} {
		all, err := parseCache(data, strings.Fields(caps))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, file := range all["libq.so.1"] {
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(file, dir+"/"), "lib/"), "/libq.so.1"))
		}
		if s := strings.ReplaceAll(strings.Join(got, " "), "libq.so.1", "lib"); s != want {
			t.Errorf("%q: %s, want %s", caps, s, want)
		}
	}
	for cut := 0; cut < len(data); cut += len(data)/97 + 1 { // one that was cut off is no cache, or one with less in it: it ends nobody
		all, err := parseCache(data[:cut], []string{"x86-64-v3"})
		if err == nil && len(all) == 0 {
			t.Errorf("cut after %d of %d bytes it is a cache of nothing", cut, len(data))
		}
	}
}

func TestHWCaps(t *testing.T) {
	v2 := "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
	v3 := v2 + " avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
	for flags, want := range map[string]string{
		"fpu sse2":                           "",
		v2:                                   "x86-64-v2",
		v3:                                   "x86-64-v3 x86-64-v2",
		strings.ReplaceAll(v3, " bmi2", ""):  "x86-64-v2",
		strings.ReplaceAll(v3, "popcnt", ""): "",
		v3 + " avx512f avx512bw avx512cd avx512dq avx512vl": "x86-64-v4 x86-64-v3 x86-64-v2",
	} {
		h := machine{"/proc/cpuinfo": []byte("processor\t: 0\nflags\t\t: " + flags + "\nbugs\t\t: x\n\nprocessor\t: 1\n")}.host()
		if got := strings.Join(hwcaps(h, &object{machine: elf.EM_X86_64}), " "); got != want {
			t.Errorf("%s: %q, want %q", flags, got, want)
		}
		if hwcaps(h, &object{machine: elf.EM_AARCH64}) != nil ||
			hwcaps(h, &object{machine: elf.EM_X86_64, interp: "/lib/ld-musl-x86_64.so.1"}) != nil {
			t.Error("directories for another loader")
		}
	}
	if hwcaps(buildenv.Host{OS: buildenv.Linux, Files: machine{}.host().Files}, &object{machine: elf.EM_X86_64}) != nil {
		t.Error("a processor of which nothing is known")
	}
}
