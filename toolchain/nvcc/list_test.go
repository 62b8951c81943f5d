package nvcc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/stale"
	"gpubuild/toolchain/cargo/builddir"
)

// TestListOfWhatWasRead: a call of a build script leaves what it read, with the content that it saw, whatever the name: compiled, from the
// cache, or not understood by it.
func TestListOfWhatWasRead(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		h, err := local.Host()
		if err != nil {
			b.t.Fatal(err)
		}
		unit := b.t.TempDir()
		b.env = append(b.env, "OUT_DIR="+filepath.Join(unit, "out"))
		odd, options := filepath.Join(b.dir, "odd"), filepath.Join(b.dir, "options")
		b.write("odd", "#define ODD 1\n")
		b.write("options", "-DOPTION\n")
		b.write("k.cu", "#include \"odd\"\n#include \"a.h\"\n#if __has_include(\"absent\") || __has_include( <odd> )\n#endif\n__global__ void k(float *x) { *x = ODD; }\n")
		b.write("text.cu", "#include \"odd\"\n#if __has_include(\"absent\")\n#endif\n#include \"a.h\"\nconst char *text = \".incbin\";\n")
		want, err := cache.Hash(odd)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, story := range []struct {
			what string
			args []string
		}{
			{"miss", []string{"-c", "k.cu", "-o", "k.o", "-optf", "options"}}, {"hit", []string{"-c", "k.cu", "-o", "k.o", "-optf", "options"}},
			{"miss", []string{"-c", "text.cu", "-o", "k.o", "-optf", "options"}},
			{"uncached", []string{"-c", "k.cu", "-o", "k.o", "-Xlinker=-s", "--options-file", "options"}},
			{"uncached", []string{"-c", "k.cu", "-o", "k.o", "--keep", "--keep-dir", ".", "-optf", "options"}}, // as CMake has it
		} {
			lists, err := filepath.Glob(filepath.Join(unit, listed+"*"))
			if err != nil {
				b.t.Fatal(err)
			}
			for _, path := range lists {
				if err := os.Remove(path); err != nil {
					b.t.Fatal(err)
				}
			}
			if got := b.nvcc(story.args...); got != story.what {
				b.t.Errorf("%s: %s", story.what, got)
			}
			read := Read(h, filepath.Join(unit, "out")).Read
			if read[odd] != want || read[options] == "" || read[filepath.Join(b.dir, "a.h")] == "" ||
				read[filepath.Join(b.dir, "absent")] != Absent {
				b.t.Errorf("%s: %v", story.what, read)
			}
			headers := []string{"/usr/include/stdc-predef.h", InToolkit + "/include/crt/host_runtime.h"}
			for _, path := range headers {
				if read[path] == "" {
					b.t.Errorf("%s: %s is not listed", story.what, path)
				}
			}
			if read[filepath.Join(b.dir, "cuda_runtime.h")] != Absent {
				b.t.Errorf("%s: a cuda_runtime.h in the working directory would come first", story.what)
			}
		}
		library := filepath.Join(b.root, "include", "lib")
		write(b.t, filepath.Join(library, "a.h"), "#include <lib/sub/x.h>\n")
		write(b.t, filepath.Join(library, "sub", "x.h"), "#define X 1\n")
		b.write("near/lib/other.h", "")
		b.write("lib.cu", "#include <lib/a.h>\n__global__ void k(float *x) { *x = X; }\n")
		b.nvcc("-c", "lib.cu", "-o", "k.o", "-Inear", "-I"+filepath.Join(library, "sub"), "-I"+filepath.Dir(library))
		read := Read(h, filepath.Join(unit, "out")).Read
		if read[InToolkit+"/include/lib/sub/x.h"] == "" || read[filepath.Join(b.dir, "near", "lib", "sub")] != Absent {
			b.t.Errorf("a library's header that it asks for by the longer of two names: %v", read)
		}
		b.write("odd.ptx", ".version 8.0\n.target sm_90\n.address_size 64\n")
		b.nvcc("-arch=sm_90", "-cubin", "odd.ptx", "-o", "k.cubin")
		linked := Read(h, filepath.Join(unit, "out"))
		made, err := cache.Hash(filepath.Join(b.dir, "k.cubin"))
		if linked.Read[filepath.Join(b.dir, "odd.ptx")] == "" || linked.Read[odd] != want || linked.Compiled != linked.Calls-1 || linked.Made[made] {
			b.t.Errorf("a call without a source: %+v %v", linked, err)
		}
		if b.real { // as cc does it
			b.nvcc("-arch=sm_90", "-c", "k.cu", "-o", "k.o", "-optf", "options")
			ar := exec.Command("ar", "cq", "k.a", "k.o")
			ar.Dir = b.dir
			out, failed := ar.CombinedOutput()
			b.nvcc("-arch=sm_90", "--device-link", "-o", "k_dlink.o", "k.a")
			sum, err := cache.Hash(filepath.Join(b.dir, "k_dlink.o"))
			if k := Read(h, filepath.Join(unit, "out")); !k.Made[sum] || len(k.Partial) > 0 {
				b.t.Errorf("device code that was linked of an archive: %v, %v, %v %s", k.Partial, err, failed, out)
			}
		}
		b.write("odd", "#define ODD 2\n")
		b.nvcc("-c", "k.cu", "-o", "other.o") // another compilation, which sees another content
		read = Read(h, filepath.Join(unit, "out")).Read
		if sum := read[odd]; len(strings.Fields(sum)) != 2 || !strings.Contains(sum, want) {
			b.t.Errorf("two contents: %s", sum)
		}
		gcc, err := h.LookPath("gcc")
		if err != nil {
			b.t.Fatal(err)
		}
		script := filepath.Join(unit, "scripts", "gcc")
		write(b.t, script, "#!/bin/sh\nexec "+gcc+" \"$@\"\n")
		if err := os.Chmod(script, 0o755); err != nil {
			b.t.Fatal(err)
		}
		b.env = append(b.env, "PATH="+filepath.Dir(script)+":"+os.Getenv("PATH"))
		what := b.nvcc("-c", "k.cu", "-o", "script.o")
		read = Read(h, filepath.Join(unit, "out")).Read
		if what != "uncached" || read[script] == "" || read[gcc] == "" {
			b.t.Errorf("a script as the compiler, and the compiler: %s, %q, %q, %v", what, read[script], read[gcc], err)
		}
		b.write("k.cu", "#include \"odd\"\n#include \"host.h\"\nint f() { return no_such; }\n")
		b.env = append(b.env, "MADE_UP_ERROR="+filepath.Join(unit, "failed"))
		if err := b.start("-c", "k.cu", "-o", "failed.o").Wait(); err == nil {
			b.t.Error("no error")
		}
		if Read(h, filepath.Join(unit, "out")).Read[filepath.Join(b.dir, "host.h")] == "" {
			b.t.Error("what a call that failed has read is not listed")
		}
	})
}

// TestRecords: each call has a record of its own, one with equal arguments too, and in the next run of its script the same call replaces it,
// and no other; what is made of what was made is known to be.
func TestRecords(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "k-1")
	out, name := filepath.Join(unit, "out"), "caf\xe9.h"
	run := func(second int64) {
		at := time.Unix(second, 0)
		write(t, filepath.Join(unit, "invoked.timestamp"), "")
		if err := os.Chtimes(filepath.Join(unit, "invoked.timestamp"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	call := func(args, saw, made string, in ...string) {
		t.Helper()
		r := run0(h, out, args)
		r.record = &record{Ran: builddir.Ran(h, out), Compiles: in == nil, In: in, Read: map[string]string{stale.Text(name): saw}}
		write(t, filepath.Join(unit, made), made)
		r.out = filepath.Join(unit, made)
		r.keepRecord(true)
	}
	run(1)
	call("-c a.cu", "1", "a")
	call("-c a.cu", "2", "a")
	call("-c b.cu", "3", "b")
	call("-dlink", "4", "linked", hashOf([]byte("a")))
	call("-cubin x.ptx", "4", "foreign", hashOf([]byte("x")))
	k := Read(h, out)
	if k.Read[name] != "1 2 3 4" || k.Compiled != 3 || k.Calls != 5 || !k.Made[hashOf([]byte("linked"))] || k.Made[hashOf([]byte("foreign"))] {
		t.Errorf("%+v", k)
	}
	run(2)
	call("-c a.cu", "5", "a")
	if k = Read(h, out); k.Read[name] != "3 4 5" || len(k.Replaced) != 2 {
		t.Errorf("in the next run: %+v", k)
	}
	write(t, filepath.Join(unit, listed+"1.json"), `{"read": {`)
	if k = Read(h, out); len(k.Partial) != 1 {
		t.Errorf("half a record: %+v", k)
	}
	for succeeded, want := range map[bool]int{true: 1, false: 0} { // --dryrun fails: nvcc knows no such option, or it was killed
		refused := run0(h, filepath.Join(t.TempDir(), "out"), "-c k.cu -mno-omit-leaf-frame-pointer")
		refused.refused, refused.in, refused.record = true, []string{"k.cu"}, &record{Partial: "nvcc --dryrun failed"}
		refused.keepRecord(succeeded)
		if k := Read(h, refused.host.Env.Get("OUT_DIR")); k.Calls != 1 || len(k.Partial) != want {
			t.Errorf("refused, %v: %+v", succeeded, k)
		}
	}
}

// TestHiddenOutDir: calls of a build script that have no environment of it, with equal arguments and another source each, have a record each
// next to its OUT_DIR.
func TestHiddenOutDir(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	if h.OS != "linux" {
		need.Missing(t, "linux", "only Linux shows the environment of another process")
	}
	unit := filepath.Join(t.TempDir(), "k-1")
	write(t, filepath.Join(unit, "invoked.timestamp"), "")
	for _, header := range []string{"a.h", "host.h"} {
		b.write("same.cu", "#include \""+header+"\"\n__global__ void k() {}\n")
		script := exec.Command("sh", "-c", `env -u OUT_DIR -u `+Variable+` sh -c '"$0" "$@"; exit $?' "$0" "$@"; exit $?`,
			filepath.Join(b.view, "nvcc"), "-c", "same.cu", "-o", "same.o")
		script.Dir, script.Env = b.dir, append(slices.Clip(b.env), "OUT_DIR="+filepath.Join(unit, "out"), LogVariable+"="+b.log)
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	k := Read(h, filepath.Join(unit, "out"))
	if k.Compiled != 2 || len(k.Partial) > 0 || k.Read[filepath.Join(b.dir, "a.h")] == "" || k.Read[filepath.Join(b.dir, "host.h")] == "" {
		t.Errorf("%+v", k)
	}
}

// run0 is a call in a build script.
func run0(h buildenv.Host, out, args string) run {
	h.Env = buildenv.NewEnv(h.OS, []string{"OUT_DIR=" + out})
	r := run{host: h, args: strings.Fields(args)}
	r.mode = "o"
	return r
}

// TestReads: what nvcc and gcc look at is in the key and makes a package stale; the user's choice of nvcc, and what only cl.exe knows, is not.
func TestReads(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"CPATH": true, "CPLUS_INCLUDE_PATH": true, "COMPILER_PATH": true, "GCC_EXEC_PREFIX": true,
		"NVCC_APPEND_FLAGS": true, "LC_ALL": true, "LC_TIME": false, "SOURCE_DATE_EPOCH": true, "NVVM_X": true, "NVCC": false, "CICC_PATH": false, "CXX": false,
		"HOME": false, "INCLUDE": false, "_CL_": false} {
		if got := Reads(name, "linux"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, name := range []string{"INCLUDE", "CL", "_CL_"} {
		if !Reads(name, "windows") {
			t.Errorf("%s, on Windows", name)
		}
	}
}

// TestUnusual: what a program that is loaded into nvcc, or a variable of gcc's, may add to a kernel is not known.
func TestUnusual(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	if h.OS == buildenv.Windows {
		return // nothing is cached there
	}
	dir := t.TempDir()
	for _, tt := range []struct{ env, out, want string }{
		{"PATH=/usr/bin", "k.o", ""}, {"LD_PRELOAD=/p.so", "k.o", "LD_PRELOAD is set"}, {"LD_AUDIT=/p.so", "k.o", "LD_AUDIT is set"},
		{"DEPENDENCIES_OUTPUT=d", "k.o", "DEPENDENCIES_OUTPUT is set"}, {"PATH=/usr/bin:bin", "k.o", "a relative directory on PATH"},
		{"PATH=/usr/bin", "/dev/null", "an output that is no plain file"}, {"PATH=/usr/bin", dir, "an output that is no plain file"},
		{"PATH=/usr/bin", "-", "an output that is no plain file"},
		{"PATH=/usr/bin", "./k.cu", "an output that is another file of the call"},
	} {
		h.Env = buildenv.NewEnv(h.OS, []string{tt.env})
		r := run{call: parse([]string{"-c", "k.cu", "-o", tt.out}, "", ""), host: h}
		if got := r.unusual(); got != tt.want {
			t.Errorf("%s, %s: %q, want %q", tt.env, tt.out, got, tt.want)
		}
	}
}
