package nvcc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/gpu/fatbin"
)

// The test binary is nvcc under that name: of a view, or the one of a made-up toolkit, whose cudafe++ and perhaps cicc it is, too.
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	here := filepath.Dir(self)
	switch _, err := readView(self); {
	case filepath.Base(self) == "cicc":
		os.Exit(madeUpTogether())
	case filepath.Base(self) == "cudafe++":
		os.Exit(madeUpCompiler(here, os.Args[1:]))
	case !Named(self):
		os.Exit(need.Patient(m).Run())
	case err != nil:
		os.Exit(madeUp(here, os.Args[1:]))
	}
	settled = 0
	os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, fatbin.DeviceObjects))
}

// madeUp is an nvcc with the steps of a real one. What it makes holds a hash of the text that each step reads, so that every input shows in
// it.
func madeUp(here string, args []string) int {
	c := parse(args, os.Getenv("NVCC_PREPEND_FLAGS"), os.Getenv("NVCC_APPEND_FLAGS"))
	var flags, arches []string
	if at := slices.IndexFunc(c.words, func(w string) bool { return strings.HasPrefix(w, "-Xassembler,") }); at > 0 {
		flags = append(flags, strings.Split(c.words[at], ",")...)
		c.words = slices.Delete(c.words, at-1, at+1)
	}
	for i, w := range c.words {
		switch {
		case strings.HasPrefix(w, "-I"), strings.HasPrefix(w, "-D"), w == "-g":
			flags = append(flags, `"`+w+`"`)
		case strings.HasPrefix(w, "-Xcompiler="):
			flags = append(flags, w[len("-Xcompiler="):])
		case strings.HasPrefix(w, "-gencode="):
			arches = append(arches, w[len(w)-2:])
		case w == "-isystem":
			flags = append(flags, w, c.words[i+1])
		case w == "-include", strings.HasPrefix(w, "--pre-include="):
			_, names, joined := strings.Cut(w, "=")
			if !joined {
				names = c.words[i+1]
			}
			for _, name := range strings.Split(names, ",") {
				flags = append(flags, "-include", name)
			}
		}
	}
	if arches == nil {
		arches = []string{"75"}
	}
	include := fmt.Sprintf(`"-I%s/../include"`, here)
	if slices.Contains(args, "-M") {
		cmd := exec.Command("gcc", "-M", "-x", "c++", c.in[0])
		cmd.Stdout = os.Stdout
		if cmd.Run() != nil {
			return 1
		}
		return 0
	}
	tmp := filepath.Join(os.TempDir(), fmt.Sprintf("tmpxft_%08x_00000000", os.Getpid()))
	var steps, texts []string
	pass := func(n int, def string) {
		texts = append(texts, fmt.Sprintf(`"%s-%d_k.ii"`, tmp, n))
		steps = append(steps, fmt.Sprintf(`gcc %s -E -x c++ %s %s "%s" -o %s `, def, strings.Join(flags, " "), include, c.in[0], texts[n-1]))
	}
	pass(1, "-DHOST")
	for i, a := range arches {
		pass(i+2, "-D__CUDA_ARCH__="+a+"0")
		steps = append(steps, `"$CICC_PATH/cicc" --words "`+strings.Join(c.words, "|")+`" `+texts[i+1], "ptxas -arch=sm_"+a)
	}
	made := tmp + "-6_k.cudafe1.cpp"
	words := strings.ReplaceAll(strings.Join(c.words, "|"), "--dryrun|", "")
	steps = append(steps, fmt.Sprintf(`cudafe++ "%s" "%s" %s`, made, words, strings.Join(texts, " ")), `rm -f "`+tmp+`-3_k.fatbin"`,
		fmt.Sprintf(`gcc -c -x c++ %s %s "%s" -o "%s" `, strings.Join(flags, " "), include, made, c.output()))
	path, libraries := here+":"+os.Getenv("PATH"), filepath.Dir(here)+"/lib:"+os.Getenv("LD_LIBRARY_PATH")
	if c.words[0] == "--dryrun" || slices.Contains(args, "--dryrun") {
		fmt.Fprintf(os.Stderr, "#$ _HERE_=%s\n#$ CICC_PATH=%[1]s\n#$ NVVMIR_LIBRARY_DIR=%[2]s/libdevice\n#$ LD_LIBRARY_PATH=%s\n#$ PATH=%s\n",
			here, filepath.Dir(here), libraries, path)
		for _, s := range steps {
			fmt.Fprintln(os.Stderr, "#$ "+s)
		}
		return 0
	}
	if runs := os.Getenv("MADE_UP_RUNS"); runs != "" && os.WriteFile(runs, nil, 0o666) != nil {
		return 1
	}
	defer func() {
		left, _ := filepath.Glob(tmp + "-*") // the pattern is well-formed
		for _, f := range left {
			os.Remove(f)
		}
	}()
	for _, s := range steps {
		cmd := exec.Command("sh", "-c", s)
		cmd.Env = append(os.Environ(), "CICC_PATH="+here, "PATH="+path, "LD_LIBRARY_PATH="+libraries)
		cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
		if err := cmd.Run(); err != nil && !strings.HasPrefix(s, "rm ") {
			return max(1, cmd.ProcessState.ExitCode())
		}
	}
	if d := c.dependencies(); d != "" && os.WriteFile(d, []byte(c.output()+" : "+c.in[0]+"\n"), 0o666) != nil {
		return 1
	}
	return 0
}

// madeUpCompiler writes C++ with a hash of its arguments, of the text that it is to compile, and of the toolkit's programs and libraries.
func madeUpCompiler(here string, args []string) int {
	all := sha256.New()
	fmt.Fprintln(all, args[1])
	files := []string{"cicc", "ptxas", "nvcc.profile", "../libdevice/lib.bc", "../include/crt/host_runtime.h", "../include/crt/inner.h"}
	for i, name := range files {
		files[i] = filepath.Join(here, name)
	}
	var assembly []string
	for _, name := range slices.Concat(args[2:], files) {
		data, _ := os.ReadFile(name)
		fmt.Fprintln(all, hashOf(data))
		if assembly == nil && filepath.Ext(name) == ".ii" { // the host's pass is the first
			assembly = append(regexp.MustCompile(`(?m)^asm.*`).FindAllString(string(data), -1), "")
		}
	}
	fmt.Fprintln(os.Stderr, "compiled")
	if runs := os.Getenv("MADE_UP_ERROR"); runs != "" {
		f, err := os.OpenFile(runs, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(f, "failed")
		return 3
	}
	if pipe := os.Getenv("MADE_UP_WAIT"); pipe != "" { // opening one of them waits for the test
		if os.WriteFile(pipe+".ready", nil, 0) != nil {
			return 1
		}
		if _, err := os.ReadFile(pipe); err != nil {
			return 1
		}
	}
	text := fmt.Sprintf("#include <crt/host_runtime.h>\nextern const char made_up[];\nconst char made_up[] = \"%x\";\n", all.Sum(nil)) +
		strings.Join(assembly, "\n")
	if os.WriteFile(args[0], []byte(text), 0o666) != nil {
		return 1
	}
	return 0
}

// madeUpTogether is a cicc that says that it runs, and ends when the test lets one of them go on.
func madeUpTogether() int {
	pipe := os.Getenv("MADE_UP_TOGETHER")
	ready, err := os.OpenFile(pipe+".ready", os.O_WRONLY, 0)
	if err != nil {
		return 1
	}
	if _, err := ready.Write([]byte("r")); err != nil {
		return 1
	}
	on, err := os.Open(pipe)
	if err != nil {
		return 1
	}
	if _, err := on.Read(make([]byte, 1)); err != nil {
		return 1
	}
	return 0
}

// bench is a toolkit with a view of it, and a directory of sources.
type bench struct {
	t               *testing.T
	root, view, dir string
	cache, log      string
	env             []string
	real            bool
	remade          map[string]string // files of the toolkit that a test replaced, and a hash of each
	plainly         map[string]string // what plain returned, by all that nvcc sees
}

func hashOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	writeFile(t, path, []byte(text), 0o644)
}

// writeFile writes a file that may be a program while no other test starts one: a fork that holds it open makes it busy, for nvcc and its
// shells too, until that process is another program (https://go.dev/issue/22315).
func writeFile(t *testing.T, path string, data []byte, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, mode)); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, data, 0o755)
}

// newBench has a made-up toolkit, or a copy of a real one, whose programs a test may replace.
func newBench(t *testing.T, from string) *bench {
	t.Helper()
	need.CC(t)
	need.Tool(t, "linux")
	b := &bench{t: t, root: filepath.Join(t.TempDir(), "toolkit"), dir: filepath.Join(t.TempDir(), "src"), cache: hosttest.PlainDir(t), real: from != "",
		remade: map[string]string{}, plainly: map[string]string{}}
	bin := filepath.Join(b.root, "bin")
	if b.real {
		if err := os.MkdirAll(b.root, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"bin", "nvvm", "include"} {
			if out, err := exec.Command("cp", "-a", filepath.Join(from, part), filepath.Join(b.root, part)).CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}
	} else {
		copyFile(t, self(t), filepath.Join(bin, "nvcc"))
		copyFile(t, self(t), filepath.Join(bin, "cudafe++"))
		write(t, filepath.Join(bin, "nvcc.profile"), "profile\n")
		copyFile(t, "/bin/true", filepath.Join(bin, "cicc"))
		copyFile(t, "/bin/true", filepath.Join(bin, "ptxas"))
		write(t, filepath.Join(b.root, "libdevice", "lib.bc"), "bc")
		write(t, filepath.Join(b.root, "include", "crt", "host_runtime.h"), "#include \"inner.h\"\n")
		write(t, filepath.Join(b.root, "include", "crt", "inner.h"), "int inner;\n")
		write(t, filepath.Join(b.root, "include", "fatbinary_section.h"), "")
	}
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // see writeFile
	b.view, err = View(host, b.cache, b.root, filepath.Join(bin, "nvcc"), self(t))
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	b.log = filepath.Join(t.TempDir(), "log")
	write(t, b.log, "")
	b.env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "NVCC_") }),
		Variable+"=on", LogVariable+"="+b.log, "PATH="+b.view+":"+bin+":"+os.Getenv("PATH"))
	b.write(
		"k.cu",
		"#include \"a.h\"\n#ifndef __CUDA_ARCH__\n#include \"host.h\"\n#elif __CUDA_ARCH__ >= 900\n#include \"dev90.h\"\n#endif\n"+
			"__global__ void k(float *x) { x[threadIdx.x] *= A; }\nvoid f(float *x) { k<<<1, 32>>>(x); }\n",
	)
	b.write("a.h", "#define A 2\n")
	b.write("host.h", "#define HOST_ONLY 1\ninline int host_value() { return HOST_ONLY; }\n")
	b.write("dev90.h", "#undef A\n#define A 3\n")
	return b
}

func (b *bench) write(name, text string) { b.t.Helper(); write(b.t, filepath.Join(b.dir, name), text) }

func (b *bench) link(to, name string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	_ = os.Remove(path)
	if err := os.Symlink(to, path); err != nil {
		b.t.Fatal(err)
	}
}

// remake replaces a file of the toolkit, as an update would.
func (b *bench) remake(name string, data []byte) {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.Remove(path); err != nil {
		b.t.Fatal(err)
	}
	writeFile(b.t, path, data, 0o755)
	b.remade[name] = hashOf(data)
}

// call runs an nvcc, which may fail.
func (b *bench) call(nvcc string, args ...string) (said string, code int) {
	b.t.Helper()
	cmd := exec.Command(nvcc, args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// start starts the view's nvcc.
func (b *bench) start(args ...string) (cmd *exec.Cmd) {
	b.t.Helper()
	cmd = exec.Command(filepath.Join(b.view, "nvcc"), args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	return cmd
}

// nvcc runs the view's nvcc and returns what it noted.
func (b *bench) nvcc(args ...string) string {
	b.t.Helper()
	before, err := os.ReadFile(b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	if said, code := b.call(filepath.Join(b.view, "nvcc"), args...); code != 0 {
		b.t.Fatalf("nvcc %s: %d\n%s", strings.Join(args, " "), code, said)
	}
	after, err := os.ReadFile(b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	noted, _, _ := strings.Cut(strings.TrimSpace(string(after[len(before):])), "\t")
	what, why, _ := strings.Cut(noted, " ")
	if what == "uncached" {
		b.t.Logf("%q: %s", args, why)
	}
	return what
}

// deviceCode is what must be the same with and without the cache: the whole of PTX and cubins; of an object, which nvcc makes differently each
// time, the device code, and the host's code and data.
func deviceCode(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil || f.Machine == 190 {
		return hashOf(data)
	}
	var all []string
	for _, s := range f.Sections {
		if s.Name == ".nv_fatbin" || s.Name == "__nv_relfatbin" || s.Name == ".text" || s.Name == ".rodata" {
			content, err := s.Data()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s.Name, hashOf(content))
		}
	}
	return strings.Join(all, " ")
}

// check makes calls with the same words, each of which must be noted as wanted ("miss hit": two calls), and compares what each makes with
// what the toolkit's own nvcc makes.
func (b *bench) check(story, want string, args ...string) {
	b.t.Helper()
	if got := b.right(story, 1+strings.Count(want, " "), args...); got != want {
		b.t.Errorf("%s: %s, want %s", story, got, want)
	}
}

// right is check for calls that may be either.
func (b *bench) right(story string, calls int, args ...string) string {
	b.t.Helper()
	var noted []string
	made := filepath.Join(b.dir, "out.bin")
	want := b.plain(story, args)
	for range calls {
		got := b.nvcc(append(slices.Clone(args), "-o", "out.bin")...)
		noted = append(noted, got)
		// nvcc names its temporary files in the debug information of device code.
		if args[0] != "-G" && deviceCode(b.t, made) != want {
			b.t.Errorf("%s: a wrong %s", story, got)
		}
		if err := os.Remove(made); err != nil {
			b.t.Fatal(err)
		}
	}
	return strings.Join(noted, " ")
}

// plain is what the toolkit's own nvcc makes. It runs once for all calls that see the same.
func (b *bench) plain(story string, args []string) string {
	b.t.Helper()
	state := fmt.Sprintf("%q %q %v", args, b.env, b.remade)
	err := filepath.WalkDir(b.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&(os.ModeDir|os.ModeNamedPipe) != 0 {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		to, _ := os.Readlink(path)
		data, err := os.ReadFile(path)
		if to != "" { // perhaps to a directory
			data, err = nil, nil
		}
		state += fmt.Sprintf("\n%q %v %q %s", path, info.ModTime(), to, hashOf(data))
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if is, has := b.plainly[state]; has {
		return is
	}
	if said, code := b.call(filepath.Join(b.root, "bin", "nvcc"), append(slices.Clone(args), "-o", "plain.bin")...); code != 0 {
		b.t.Fatalf("%s: %d\n%s", story, code, said)
	}
	path := filepath.Join(b.dir, "plain.bin")
	is := deviceCode(b.t, path)
	if err := os.Remove(path); err != nil {
		b.t.Fatal(err)
	}
	b.plainly[state] = is
	return is
}
