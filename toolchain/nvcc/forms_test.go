package nvcc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// outcome is what a call leaves.
type outcome struct {
	code  int
	says  string
	files map[string]string
}

// compare is compareCalls with two calls through the view.
func (b *bench) compare(story string, prepare func(dir string), args ...string) {
	b.t.Helper()
	b.compareCalls(story, 2, prepare, args)
}

// compareCalls runs a call through the view and once with the toolkit's own nvcc, in equal directories, and reports every difference: exit
// code, what is left, its mode, and whether another name of a file still is that file.
func (b *bench) compareCalls(story string, calls int, prepare func(dir string), args []string) {
	b.t.Helper()
	var was outcome
	dir := b.dir
	defer func() { b.dir = dir }()
	for i, nvcc := range []string{filepath.Join(b.root, "bin", "nvcc"), filepath.Join(b.view, "nvcc"), filepath.Join(b.view, "nvcc")}[:1+calls] {
		if i == 2 && was.code != 0 { // nothing is kept of it
			break
		}
		if err := os.RemoveAll(dir + "-compared"); err != nil {
			b.t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-a", dir, dir+"-compared").CombinedOutput(); err != nil {
			b.t.Fatalf("%v %s", err, out)
		}
		b.dir = dir + "-compared"
		prepare(b.dir)
		is := outcome{files: map[string]string{}}
		is.says, is.code = b.call(nvcc, args...)
		entries, err := os.ReadDir(b.dir)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range entries {
			fi, err := e.Info()
			if err != nil || !fi.Mode().IsRegular() {
				continue
			}
			same := ""
			if other, err := os.Stat(filepath.Join(b.dir, e.Name()+".link")); err == nil {
				same = fmt.Sprint(os.SameFile(fi, other))
			}
			is.files[e.Name()] = fmt.Sprintf("%v %s %s", fi.Mode(), same, deviceCode(b.t, filepath.Join(b.dir, e.Name())))
		}
		if i == 0 {
			was = is
			continue
		}
		if is.code != was.code {
			b.t.Errorf("%s, call %d: exit code %d, without us %d\n%s\n%s", story, i, is.code, was.code, is.says, was.says)
		}
		for name := range was.files {
			if is.files[name] != was.files[name] {
				b.t.Errorf("%s, call %d: %s is %q, without us %q", story, i, name, is.files[name], was.files[name])
			}
		}
		for name := range is.files {
			if was.files[name] == "" {
				b.t.Errorf("%s, call %d: %s is there, and is not without us", story, i, name)
			}
		}
	}
}

// TestAsWithoutUs: what a call leaves, and how it ends, is what the toolkit's own nvcc leaves.
func TestAsWithoutUs(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	b := newBench(t, need.Toolkit(t))
	b.write("host.cu", "int f() { return no_such; }\n")
	b.write("device.cu", "__global__ void k() { asm(\"no_such;\"); }\n")
	b.write("asm.cu", "void f(int a) { asm(\"no_such %0\" :: \"r\"(a)); }\n")
	old := func(text string, mode os.FileMode) func(string) {
		return func(dir string) {
			write(t, filepath.Join(dir, "out"), text)
			if err := os.Link(filepath.Join(dir, "out"), filepath.Join(dir, "out.link")); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, "out"), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := func(string) {}
	for _, mode := range []string{"-c", "-ptx"} {
		b.compare(mode+" over a file with two names", old("old", 0o640), mode, "k.cu", "-o", "out")
		b.compare(mode+" over a file that is read-only", old("old", 0o440), mode, "k.cu", "-o", "out")
		b.compare(mode+" over an empty file", old("", 0o640), mode, "k.cu", "-o", "out")
	}
	for _, source := range []string{"host.cu", "device.cu", "asm.cu"} {
		b.compare(source+" fails", old("old", 0o644), "-c", source, "-o", "out")
	}
	b.compare("a failing cubin", old("old", 0o644), "-cubin", "device.cu", "-o", "out")
	for _, odd := range []string{"-t foo", "-MF k.d", "-o other", "-MD -MF k.d -MF l.d"} {
		b.compare(odd, none, append([]string{"-c", "k.cu", "-o", "out"}, strings.Fields(odd)...)...)
	}
	b.compare("into a directory that is not there", none, "-c", "k.cu", "-o", "none/out")
	b.compare("over a directory", func(dir string) { write(t, filepath.Join(dir, "out", "x"), "") }, "-ptx", "k.cu", "-o", "out")
}

// TestListsOfTheUser: what is run for the record adds nothing to a list that the user asked for.
func TestListsOfTheUser(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	b := newBench(t, need.Toolkit(t))
	unit := filepath.Join(t.TempDir(), "k-1")
	write(t, filepath.Join(unit, "invoked.timestamp"), "")
	b.env = append(b.env, "OUT_DIR="+filepath.Join(unit, "out"))
	env := b.env
	for _, variable := range []string{"DEPENDENCIES_OUTPUT=list k", "SUNPRO_DEPENDENCIES=list k", ""} {
		args := []string{"-c", "k.cu", "-o", "out"}
		if b.env = append(slices.Clip(env), variable); variable == "" {
			args = append(args, "--time", "list")
		}
		lines := func(nvcc string) int {
			if says, code := b.call(nvcc, args...); code != 0 {
				t.Fatal(says)
			}
			text, err := os.ReadFile(filepath.Join(b.dir, "list"))
			if err = errors.Join(err, os.Remove(filepath.Join(b.dir, "list"))); err != nil {
				t.Fatal(err)
			}
			return strings.Count(string(text), "\n")
		}
		if is, want := lines(filepath.Join(b.view, "nvcc")), lines(filepath.Join(b.root, "bin", "nvcc")); is != want {
			t.Errorf("%s %q: %d lines, without us %d", variable, args, is, want)
		}
	}
}

// options name files, programs, plugins or the machine, to each of the programs that take part.
const options = `
	-include h.h | --pre-include=h.h | -Iinc | -isystem inc | --system-include=inc | -I ./inc/../inc
	-optf flags | --options-file=flags | @flags | -optf flags -optf more
	-Xcompiler=-include,h.h | -Xcompiler -include -Xcompiler h.h | -Xcompiler=-imacros,h.h | -Xcompiler=-Iinc | -Xcompiler=-isystem,inc
	-Xcompiler=-iquote,inc | -Xcompiler=-idirafter,inc | -Xcompiler=-iprefix,./in,-iwithprefix,c | -Xcompiler=@flags | -Xcompiler=-Wp,-include,h.h
	-Xcompiler=-specs=specs | -Xcompiler=-B./tools/ | -Xcompiler=-wrapper,./tools/wrapper | -Xcompiler=-fplugin=./none.so
	-Xcompiler=-fprofile-use=profile | -Xcompiler=-fauto-profile=profile | -Xcompiler=-march=native | -Xcompiler=-mtune=native
	-Xcompiler=-Wa,-Iinc | -Xcompiler=-Wa,@none | -Xcompiler=-nostdinc,-Iinc | -Xcompiler=--sysroot=. | -Xcompiler=-ffile-prefix-map=inc=x,-g,-Iinc
	-forward-unknown-opts -iquoteinc | -forward-unknown-to-host-compiler -imacros h.h | -forward-unknown-opts -specs=specs
	-ccbin tools | -ccbin=tools/g++ | -Xptxas=--options-file=passed | -Xfatbin=--options-file=none | -Xcudafe=--preinclude=h.h | -Xcicc=-O1
	-arch=native | -arch=all-major | -ldir inc | --libdevice-directory=inc | -idp / | -target-dir none | --keep-dir inc --keep
	-Xptxas=-v,-optf,passed | -Winvalid-pch -include h.h`

// TestOptions: whatever an option names, the result is that of the toolkit's own nvcc, before and after a change of everything that may be named.
func TestOptions(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	need.Asked(t, "long")
	b := newBench(t, need.Toolkit(t))
	b.write("k.cu", "#if __has_include(<a.h>)\n#include <a.h>\n#endif\n#ifndef A\n#define A 1\n#endif\n"+
		"__global__ void k(float *x) { for (int i = 0; i < 9; i++) x[i] *= A; }\nfloat host() { return A; }\n")
	for _, option := range strings.FieldsFunc(options, func(r rune) bool { return r == '|' || r == '\n' }) {
		if strings.TrimSpace(option) == "" {
			continue
		}
		for _, value := range []string{"2", "3"} {
			b.compareCalls(option+" "+value, 1, func(dir string) {
				for name, text := range map[string]string{
					"h.h": "#define A %", "inc/a.h": "#define A %", "flags": "-DA=%", "more": "-DB=%", "specs": "*cpp:\n+ -DA=%\n\n", "passed": "-O%",
					"tools/specs": "*cpp:\n+ -DA=%\n\n", "tools/gcc": "#!/bin/sh\nexec gcc -DA=% \"$@\"", "tools/g++": "#!/bin/sh\nexec g++ -DA=% \"$@\"",
					"tools/wrapper": "#!/bin/sh\ncase $1 in *cc1plus) exec \"$@\" -DA=%;; esac\nexec \"$@\"",
				} {
					path := filepath.Join(dir, name)
					write(t, path, strings.ReplaceAll(text, "%", value)+"\n")
					if err := os.Chmod(path, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}, append([]string{"-c", "k.cu", "-o", "out"}, strings.Fields(option)...))
		}
	}
}

// TestReadOnce: an input that can be read only once is nvcc's own: it makes of it what it makes without us, and the headers are listed, but
// not as all that was read.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	b := newBench(t, need.Toolkit(t))
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	unit := t.TempDir()
	b.env = append(b.env, "OUT_DIR="+filepath.Join(unit, "out"))
	b.write("inc/far.h", "#define FAR 3\n")
	b.write("once.cu", "#include <far.h>\n__global__ void k(float *x) { *x = FAR; }\nvoid f(float *x) { k<<<1, 1>>>(x); }\n")
	b.write("options", "-DA=1")
	for _, input := range []string{
		"<(cat once.cu)", "/dev/stdin <once.cu", "- <once.cu", "/dev/stdin < <(cat once.cu)", "- < <(cat once.cu)", "/dev/fd/7 7<once.cu",
		"once.cu -include <(cat a.h)", "once.cu -optf <(cat options)",
	} {
		for _, mode := range []string{"-ptx", "-c", "-cubin -arch=sm_90"} {
			var made [2]string
			for i, nvcc := range []string{filepath.Join(b.root, "bin", "nvcc"), filepath.Join(b.view, "nvcc")} {
				cmd := exec.Command("bash", "-c", "exec "+nvcc+" -x cu "+mode+" -Iinc -o out.bin "+input)
				cmd.Dir, cmd.Env = b.dir, b.env
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s %s: %v\n%s", mode, input, err, out)
				}
				made[i] = deviceCode(t, filepath.Join(b.dir, "out.bin"))
			}
			if made[0] != made[1] {
				t.Errorf("%s %s: another kernel than without us", mode, input)
			}
			k := Read(host, filepath.Join(unit, "out"))
			if len(k.Partial) != 1 || k.Compiled != 1 || k.Read[filepath.Join(b.dir, "inc", "far.h")] == "" || len(k.Once) != 1 {
				t.Errorf("%s %s: listed %+v", mode, input, k)
			}
			lists, err := filepath.Glob(filepath.Join(unit, "*"))
			if err != nil || len(lists) != 1 || os.Remove(lists[0]) != nil {
				t.Errorf("left %q, %v", lists, err)
			}
		}
	}
}

// TestReadOnceInside: so is an input that only a source names. The preprocessor that runs first gets nothing of it, or the call fails.
func TestReadOnceInside(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		host, err := local.Host()
		if err != nil {
			b.t.Fatal(err)
		}
		unit := b.t.TempDir()
		b.env = append(b.env, "OUT_DIR="+filepath.Join(unit, "out"))
		b.write("val.h", "#define VAL 4\n")
		b.link("/dev/stdin", "link.h")
		in := func(what string) string {
			return "#ifdef __CUDA_ARCH__\n" + what + "\n#else\n#define VAL 1\n#endif\n#ifdef VAL\n" +
				"__global__ void k(int *x) { *x = VAL; }\n#endif\n"
		}
		b.write("input.cu", in("#include INPUT"))
		b.write("stdin.cu", in("#include \"/dev/stdin\""))
		b.write("line.cu", in("#line 7 \"/dev/stdin\"\n#include \"/dev/stdin\""))
		b.write("linked.cu", in("#include \"link.h\""))
		b.write("fd.cu", in("#if __has_include(\"/dev/fd/7\")\n#include \"/dev/fd/7\"\n#endif"))
		b.write("fifo.cu", in("#include \"fifo.h\""))
		b.write("asm.cu", "#ifndef __CUDA_ARCH__\nasm(\".include \\\"/dev/stdin\\\"\");\n#endif\n")
		b.write("failing.cu", in("#include \"fifo.h\"\n#error no such thing"))
		b.write("null.cu", in("#include \"/dev/null\"\n#include \"val.h\""))
		const fifo = "rm -f fifo.h; mkfifo fifo.h; timeout 60 sh -c 'cat val.h >fifo.h' & "
		for _, story := range []struct{ before, call, want string }{
			{"", "-ptx stdin.cu < <(cat val.h)", "partial"}, {"", "-ptx stdin.cu < val.h", "partial"}, {"", "-ptx line.cu < <(cat val.h)", "partial"},
			{"", "-ptx linked.cu < <(cat val.h)", "partial"}, {"", "-ptx fd.cu 7< <(cat val.h)", "partial"}, {"", "-ptx fd.cu 7<val.h", "partial"},
			{"", "-ptx input.cu -DINPUT='<'<(cat val.h)'>'", "partial"}, {"", "-c asm.cu < <(echo .byte 4)", "partial"},
			{"", "-ptx null.cu", "complete"},
			{fifo, "-ptx fifo.cu", "fails"}, {fifo, "-ptx failing.cu", "fails"}, {fifo, "-ptx fifo.cu -Xcompiler=-fno-ident", "fails"},
		} {
			var made []string
			for _, nvcc := range []string{filepath.Join(b.root, "bin", "nvcc"), filepath.Join(b.view, "nvcc"), filepath.Join(b.view, "nvcc")} {
				cmd := exec.CommandContext(b.t.Context(), "timeout", "60", "bash", "-c", story.before+"exec \"$0\" -o out.bin "+story.call, nvcc)
				cmd.Dir, cmd.Env, cmd.WaitDelay = b.dir, b.env, time.Second
				out, err := cmd.CombinedOutput()
				if story.want == "fails" {
					if nvcc != filepath.Join(b.root, "bin", "nvcc") && (cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "fifo.h is not a regular file")) {
						b.t.Errorf("%s: %v\n%s", story.call, err, out)
					}
					continue
				}
				if err != nil {
					b.t.Fatalf("%s: %v\n%s", story.call, err, out)
				}
				made = append(made, deviceCode(b.t, filepath.Join(b.dir, "out.bin")))
			}
			if len(slices.Compact(made)) > 1 {
				b.t.Errorf("%s: another kernel than without us", story.call)
			}
			k := Read(host, filepath.Join(unit, "out"))
			if (len(k.Partial) == 0) != (story.want == "complete") || len(k.Failed) == 0 != (story.want != "fails") {
				b.t.Errorf("%s: partial %q, failed %q", story.call, k.Partial, k.Failed)
			}
			for path := range k.Read {
				if readOnce(path) {
					b.t.Errorf("%s: listed %s", story.call, path)
				}
			}
			lists, err := filepath.Glob(filepath.Join(unit, "*"))
			if err != nil {
				b.t.Fatal(err)
			}
			for _, list := range lists {
				hosttest.OK(b.t, os.Remove(list))
			}
		}
		if u := ReadLog(b.log); u.Misses != 1 || u.Hits != 1 {
			b.t.Errorf("%+v", u)
		}
	})
}

// TestJobServer: below make, gcc says what it has of make's variable where it is asked for more than messages.
func TestJobServer(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		b.write("warns.cu", "#warning about this\n")
		args := []string{"-c", "warns.cu", "-o", "out.bin"}
		b.env = append(b.env, "MAKEFLAGS= -j2 --jobserver-auth=98,99 -- A=1")
		want, _ := b.call(filepath.Join(b.root, "bin", "nvcc"), args...)
		for i := range 2 {
			if is, _ := b.call(filepath.Join(b.view, "nvcc"), args...); is != want {
				b.t.Errorf("call %d says\n%s\nwithout us\n%s", i, is, want)
			}
		}
	})
}

// TestCompilers: a host compiler that is gcc itself is cached, whatever names it, and counts; anything in front of it is not.
func TestCompilers(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	b := newBench(t, need.Toolkit(t))
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	gcc, err := host.LookPath("gcc")
	if err != nil {
		t.Fatal(err)
	}
	clean := b.env
	tools := t.TempDir()
	for _, dir := range []string{"links", "scripts", "wrappers", "named"} {
		write(t, filepath.Join(tools, dir, "x"), "")
	}
	for _, name := range []string{"gcc", "g++"} {
		if err := os.Symlink(filepath.Join(filepath.Dir(gcc), name), filepath.Join(tools, "links", name)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(tools, "scripts", name), "#!/bin/sh\n[ -e "+tools+"/fast ] && set -- -DA=7 \"$@\"\nexec "+gcc+" \"$@\"\n")
		if err := os.Chmod(filepath.Join(tools, "scripts", name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(tools, "w.c"), "#include <unistd.h>\nint main(int n, char **a) { (void)n; a[0] = \""+gcc+"\"; return execv(a[0], a); }\n")
		cc(t, tools, "w.c", "-o", filepath.Join("wrappers", name))
	}
	write(t, filepath.Join(tools, "p.c"), "int preloaded;\n")
	cc(t, tools, "-shared", "-fPIC", "p.c", "-o", "p.so")
	write(t, filepath.Join(tools, "ccache.c"), "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(int n, char **a) {\n"+
		"if (n && getenv(\"CCACHE_DISABLE\")) fclose(fopen(\""+tools+"/off\", \"w\"));\n"+
		"a[0] = \""+gcc+"\"; return execv(a[0], a); }\n")
	write(t, filepath.Join(tools, "ccache", "x"), "")
	cc(t, tools, "ccache.c", "-o", filepath.Join("ccache", "ccache"))
	for _, name := range []string{"gcc", "g++"} {
		if err := os.Symlink("ccache", filepath.Join(tools, "ccache", name)); err != nil {
			t.Fatal(err)
		}
	}
	type story struct {
		name, env, want string
		args            []string
	}
	stories := []story{
		{"ccache's link", "PATH=" + b.view + ":" + filepath.Join(tools, "ccache") + ":" + os.Getenv("PATH"), "miss hit", nil},
		{"a preloaded library", "LD_PRELOAD=" + filepath.Join(tools, "p.so"), "uncached", nil},
		{"by path", "", "miss hit", []string{"-ccbin", gcc}},
		{"by a directory", "", "miss hit", []string{"-ccbin=" + filepath.Dir(gcc)}},
		{"by a directory of links", "", "miss hit", []string{"--compiler-bindir", filepath.Join(tools, "links")}},
		{"by a variable", "NVCC_CCBIN=" + gcc, "miss hit", nil},
		{"a script", "", "uncached", []string{"-ccbin", filepath.Join(tools, "scripts")}},
		{"a program in front", "", "uncached", []string{"-ccbin", filepath.Join(tools, "wrappers")}},
		{"a script on PATH", "PATH=" + b.view + ":" + filepath.Join(tools, "scripts") + ":" + os.Getenv("PATH"), "uncached", nil},
		{"CPATH", "CPATH=" + filepath.Join(tools, "named"), "miss hit", nil},
		{"GCC_EXEC_PREFIX", "GCC_EXEC_PREFIX=/usr/lib/gcc/", "miss hit", nil},
		{"COMPILER_PATH", "COMPILER_PATH=" + filepath.Join(tools, "named"), "miss hit", nil},
	}
	if need.Has("gxx") { // what one of them made must not be the other's
		for _, name := range []string{"gcc-11", "gcc-12"} {
			stories = append(stories, story{"another gcc by path", "", "miss hit", []string{"-ccbin", need.Program(t, "gxx", name)}})
		}
	}
	for _, story := range stories {
		b.env = clean
		if story.env != "" {
			b.env = append(b.env, story.env)
		}
		args := append([]string{"-c", "k.cu", "-DS=" + strings.ReplaceAll(story.name, " ", "_")}, story.args...)
		b.check(story.name, story.want, args...)
	}
	if _, err := os.Stat(filepath.Join(tools, "off")); err != nil {
		t.Errorf("ccache, which would look for what it has, and start what its configuration says, is not switched off: %v", err)
	}
}
