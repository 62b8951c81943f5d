package nvcc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// outcome is what a call leaves.
type outcome struct {
	code  int
	says  string
	files map[string]string
}

// compare runs a call once through the view and once with the toolkit's own nvcc, in two equal directories, and reports every difference: exit
// code, what is left, its mode, and whether another name of a file still is that file.
func (b *bench) compare(story string, prepare func(dir string), args ...string) {
	b.t.Helper()
	var was outcome
	dir := b.dir
	defer func() { b.dir = dir }()
	for i, nvcc := range []string{filepath.Join(b.root, "bin", "nvcc"), filepath.Join(b.view, "nvcc"), filepath.Join(b.view, "nvcc")} {
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
		_ = unbusy(func() *exec.Cmd {
			cmd := exec.Command(nvcc, args...)
			cmd.Dir, cmd.Env = b.dir, b.env
			return cmd
		}, func(cmd *exec.Cmd) error {
			out, err := cmd.CombinedOutput()
			is.code, is.says = cmd.ProcessState.ExitCode(), string(out)
			return err
		})
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
	old := func(mode os.FileMode) func(string) {
		return func(dir string) {
			write(t, filepath.Join(dir, "out"), "old")
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
		b.compare(mode+" over a file with two names", old(0o640), mode, "k.cu", "-o", "out")
		b.compare(mode+" over a file that is read-only", old(0o440), mode, "k.cu", "-o", "out")
	}
	for _, source := range []string{"host.cu", "device.cu", "asm.cu"} {
		b.compare(source+" fails", old(0o644), "-c", source, "-o", "out")
	}
	b.compare("a failing cubin", old(0o644), "-cubin", "device.cu", "-o", "out")
	for _, odd := range []string{"-t foo", "-MF k.d", "-o other", "-MD -MF k.d -MF l.d"} {
		b.compare(odd, none, append([]string{"-c", "k.cu", "-o", "out"}, strings.Fields(odd)...)...)
	}
	b.compare("into a directory that is not there", none, "-c", "k.cu", "-o", "none/out")
	b.compare("over a directory", func(dir string) { write(t, filepath.Join(dir, "out", "x"), "") }, "-ptx", "k.cu", "-o", "out")
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
