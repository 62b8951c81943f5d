package nvcc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/proc"
)

// cudaMajor is in CUDA's own header.
var cudaMajor = regexp.MustCompile(`#define CUDA_VERSION (\d\d)\d`)

// benches runs a test with a made-up toolkit, and with a real one of each major release that was asked for.
func benches(t *testing.T, test func(*bench)) {
	run := func(name, root string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newBench(t, root))
		})
	}
	run("made up", "")
	roots, reason := need.FindToolkits()
	if reason != "" {
		t.Run("real", func(t *testing.T) { need.Toolkit(t) })
	}
	seen := map[string]bool{}
	for _, root := range roots {
		header, err := os.ReadFile(filepath.Join(root, "include", "cuda.h"))
		m := cudaMajor.FindSubmatch(header)
		if err != nil || m == nil {
			t.Fatalf("no CUDA_VERSION in %s: %v", root, err)
		}
		if major := string(m[1]); !seen[major] {
			seen[major] = true
			run("real CUDA "+major, root)
		}
	}
}

// TestWhatCcacheGetsWrong holds that every input counts for which ccache returned a wrong object.
func TestWhatCcacheGetsWrong(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		two := []string{"-c", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-I.", "k.cu"}
		b.check("first", "miss hit", two...)
		b.write("host.h", "inline int host_value() { return 7; }\nint used = host_value();\n")
		b.check("a header that only the host includes", "miss", two...)
		b.write("dev90.h", "#undef A\n#define A 5\n")
		b.check("a header that only the second architecture includes", "miss", two...)
		b.check("-dc after -c", "miss", append([]string{"-dc"}, two[1:]...)...)
		clean := b.env
		for _, flags := range []string{"NVCC_APPEND_FLAGS=-lineinfo", "NVCC_PREPEND_FLAGS=-use_fast_math"} {
			b.env = append(clean, flags)
			b.check(flags, "miss hit", two...)
		}
		b.env = clean
		b.check("without these flags", "hit", two...)
		one := []string{"-c", two[1], "-I.", "k.cu"}
		b.check("one architecture", "miss", one...)
		tools := []string{"bin/cicc", "bin/ptxas", "bin/nvcc.profile", "libdevice/lib.bc", "include/crt/host_runtime.h"}
		if b.real {
			tools = []string{
				"nvvm/bin/cicc", "bin/ptxas", "bin/nvcc.profile", "bin/cudafe++", "bin/fatbinary", "nvvm/libdevice/libdevice.10.bc", "include/crt/host_runtime.h",
			}
		}
		for _, tool := range tools {
			data, err := os.ReadFile(filepath.Join(b.root, tool))
			if err != nil {
				b.t.Fatal(err)
			}
			more := "\n"
			if filepath.Ext(tool) == ".h" {
				more = "\nextern int added_by_a_test;\n"
			}
			b.remake(tool, append(data, more...))
			b.check(tool+" replaced", "miss", one...)
			b.remake(tool, data)
		}
		b.check("every tool as it was", "hit", one...)
	})
}

// TestForms: what is understood is cached, what is not runs as ever.
func TestForms(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		b.write("flags.txt", "-I. \"-DQ=1\"\n")
		for _, form := range [][]string{
			{"--ptx", "k.cu"},
			{"-cubin", "-arch=sm_80", "k.cu"},
			{"-fatbin", "k.cu"},
			{"-G", "-g", "-c", "k.cu"},
			{"--compile", "--options-file", "flags.txt", "k.cu"},
			{"-c", "-MD", "-MF", "k.d", "k.cu"},
			{"-c", "-v", "-t4", "-lcudart", "-DV", "k.cu"},
			{"-fatbin", "-t2", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "k.cu"},
			{"-c", "-forward-unknown-to-host-compiler", "-fPIC", "k.cu"},
			{"-c", "-Xcompiler", "-ffile-prefix-map=/a=/b,-Iother", "k.cu"},
			{"-c", "--split-compile=2", "k.cu"},
			{"-dc", "-Xcompiler", "-fPIC,-O2", "-Xptxas=-v", "--threads=2", "-std=c++17", "k.cu"},
		} {
			b.check(form[0], "miss hit", form...)
			if form[1] == "-MD" {
				_ = os.Remove(filepath.Join(b.dir, "k.d"))
				if got := b.nvcc(append(form, "-o", "out.bin")...); got != "hit" {
					b.t.Error(got)
				}
				if _, err := os.Stat(filepath.Join(b.dir, "k.d")); err != nil {
					b.t.Error(err)
				}
			}
		}
		for _, dir := range []string{"one", "two"} {
			if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o755); err != nil {
				b.t.Fatal(err)
			}
			got, want := b.nvcc("--ptx", "--output-directory", dir, "k.cu"), "hit"
			if got != want {
				b.t.Errorf("--output-directory %s: %s", dir, got)
			}
			if _, err := os.Stat(filepath.Join(b.dir, dir, "k.ptx")); err != nil {
				b.t.Error(err)
			}
		}
	})
}

// TestSteps: a miss compiles the text that is in its key, by nvcc's own steps, and so does not run nvcc.
func TestSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	tmp := t.TempDir()
	runs := filepath.Join(tmp, "runs")
	b.write("warns.cu", "#warning about this\n")
	b.env = append(b.env, "MADE_UP_RUNS="+runs, "TMPDIR="+tmp)
	for _, story := range []struct {
		what, args string
	}{
		{"miss", "-c k.cu -o k.o"}, {"miss", "-dc k.cu -odir ."},
		{"miss", "-c k.cu -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90"},
		{"miss", "-c k.cu -t 2 -DA1"}, {"miss", "-c k.cu -o k.o -MD -DA2"}, {"miss", "-c k.cu -lineinfo"}, {"miss", "-c warns.cu"},
		{"uncached", "-c k.cu -Xcompiler=-Wstrict-prototypes"}, // not for C++
	} {
		if got := b.nvcc(strings.Fields(story.args)...); got != story.what {
			t.Errorf("%s: %s", story.args, got)
		}
		if _, err := os.Stat(runs); (err == nil) != (story.what == "uncached") {
			t.Errorf("%s: nvcc ran: %t", story.args, err == nil)
		}
		_ = os.Remove(runs)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "gpubuild*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

// cutting is a runner that reads nothing of what some commands say in time, as on a machine that stood still.
type cutting struct{ what string }

func (c cutting) Run(ctx context.Context, cmd buildenv.Cmd) (buildenv.Result, error) {
	res, err := proc.Runner{}.Run(ctx, cmd)
	if cmd.Stdout == nil && strings.Contains(strings.Join(cmd.Args, " "), c.what) {
		res.Stdout, res.Stderr, res.Truncated = nil, nil, true
	}
	return res, err
}

// TestCutMessages: nothing is compiled or kept of what was read in part.
func TestCutMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	host.Cwd, host.Env = b.dir, buildenv.NewEnv(host.OS, b.env)
	for _, what := range []string{"--dryrun", " -E ", "print-prog-name", "cudafe++", "ptxas"} {
		args := []string{"-c", filepath.Join(b.dir, "k.cu"), "-o", filepath.Join(b.dir, "k.o")}
		r := run{call: parse(args, "", ""), host: host, env: b.env, runner: cutting{what}, real: filepath.Join(b.root, "bin", "nvcc"),
			args: args, cacheDir: b.cache, parts: &parts{}, memo: memo.Open(host, b.cache, time.Now())}
		if noted, code := r.cached(t.Context(), nil, io.Discard, io.Discard); code != 0 || !strings.HasPrefix(noted, "uncached") {
			t.Errorf("%s: %s, %d", what, noted, code)
		}
	}
	b.check("then", "miss hit", "-c", "k.cu")
}

// TestDependencies: the list of -MD is nvcc's own, byte for byte, after a miss, after a hit, and where the compilation fails.
func TestDependencies(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	b := newBench(t, need.Toolkit(t))
	b.write("sp ace/b h.h", "")
	b.write("inc/d.h", "")
	b.write("m.cu", "#include \"sp ace/b h.h\"\n#include <d.h>\n"+
		"#ifndef __CUDA_ARCH__\n#include \"inc/../host.h\"\n#elif __CUDA_ARCH__ >= 900\n#include \"dev90.h\"\n#endif\n__global__ void k() {}\n")
	b.write("line.cu", "#include <d.h>\n#line 7 \"host.h\"\n__global__ void k() {}\n")
	b.write("bad.cu", "#include <d.h>\nint f() { return no_such; }\n")
	for _, form := range [][]string{
		{"-c", "m.cu", "-MF", "x.d"}, {"-c", "m.cu"}, {"-c", "./m.cu", "-MT", "a b$c#d"}, {"-c", "line.cu"}, {"-c", "m.cu", "-MT", ""}, {"-ptx", "m.cu"}, {"-cubin", "-arch=sm_90", "m.cu"},
		{"-dc", "m.cu", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"}, {"-c", "bad.cu"},
	} {
		var want string
		for i, nvcc := range []string{filepath.Join(b.root, "bin", "nvcc"), filepath.Join(b.view, "nvcc"), filepath.Join(b.view, "nvcc")} {
			b.call(nvcc, append([]string{"-MD", "-Iinc", "-o", "x.o"}, form...)...) // one fails
			data, err := os.ReadFile(filepath.Join(b.dir, "x.d"))
			if err != nil || os.Remove(filepath.Join(b.dir, "x.d")) != nil {
				t.Fatalf("%q, %s: %v", form, nvcc, err)
			}
			if text := string(data); i == 0 {
				want = text
			} else if text != want {
				t.Errorf("%q, call %d:\n%s\nwant\n%s", form, i, text, want)
			}
		}
	}
	if log, err := os.ReadFile(b.log); err != nil || strings.Count(string(log), "hit") != 7 ||
		strings.Count(string(log), "or that only #line names") != 2 {
		t.Errorf("%s %v", log, err)
	}
}

// TestThreads: with -t 4, a miss of four architectures has four compilers at the same time. None of them ends before all four run.
func TestThreads(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	compiler, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	b.remake("bin/cicc", compiler)
	pipe := filepath.Join(b.dir, "go-on")
	var ends [2]*os.File
	for i, name := range []string{pipe, pipe + ".ready"} {
		if out, err := exec.Command("mkfifo", name).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if ends[i], err = os.OpenFile(name, os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
		defer ends[i].Close()
	}
	b.env = append(b.env, "MADE_UP_TOGETHER="+pipe)
	args := []string{"-c", "k.cu", "-o", "x.o", "-t", "4"}
	for _, arch := range []string{"75", "80", "90", "89"} {
		args = append(args, "-gencode=arch=compute_"+arch+",code=sm_"+arch)
	}
	cmd := b.start(args...)
	if _, err := io.ReadFull(ends[1], make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := ends[0].Write([]byte("gogo")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(b.log); err != nil || string(log) != "miss\n" {
		t.Errorf("%q, %v", log, err)
	}
}

// TestMessages: what the steps say, and how they end, is what nvcc says, and how it ends.
func TestMessages(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	b := newBench(t, need.Toolkit(t))
	const two = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90"
	temporary := regexp.MustCompile(`[^ "]*tmpxft_[0-9a-f]+_[0-9a-f]+(-\d+_[0-9a-f]+_std)?|[0-9.]+ ms`)
	for name, text := range map[string]string{
		"good.cu": "// a kernel\n__global__ void k() { int unused; }\n#ifndef __CUDA_ARCH__\nstatic int f() { int x; return x; }\n" +
			"int g() { return f(); }\n#endif\n",
		"warning.cu": "#warning about this\n__global__ void k() {}\n",
		"host.cu":    "int f() { return no_such; }\n",
		"device.cu":  "#ifdef __CUDA_ARCH__\n__global__ void k() { no_such(); }\n#endif\n",
		"large.cu": "__global__ void k(float *x) { __shared__ float y[99999]; y[threadIdx.x] = *x; __syncthreads(); " +
			"*x = y[threadIdx.x ^ 1]; }\n",
		"asm.cu":     "void f(int a) { asm(\"no_such %0\" :: \"r\"(a)); }\n",
		"missing.cu": "#include <no_such.h>\n",
		"option.cu":  "__global__ void k() {}\n",
	} {
		b.write(name, text)
		forms := []string{""}
		if strings.Contains(text, "kernel") || strings.Contains(text, "warning") {
			forms = append(forms, two, "-v "+two, "-v -t4 "+two, "-t 2 "+two)
		}
		for _, more := range forms {
			warn := map[bool]string{true: "-Wstrict-prototypes", false: "-Wall"}[name == "option.cu"] // of C only
			said := map[string]bool{}
			var code int
			for i, nvcc := range []string{filepath.Join(b.view, "nvcc"), filepath.Join(b.root, "bin", "nvcc"), filepath.Join(b.view, "nvcc")} {
				if i == 2 && code != 0 { // nothing is kept of it
					break
				}
				var out string
				out, code = b.call(nvcc, append(strings.Fields(more), "-Xptxas=-v", "-Xcompiler="+warn, "-c", name, "-o", "x.o")...)
				lines := strings.SplitAfter(temporary.ReplaceAllString(out, "T"), "\n")
				if strings.Contains(more, "-t") { // nvcc itself says it in the order in which its processes end
					slices.Sort(lines)
				}
				said[fmt.Sprint(code, strings.Join(lines, ""))] = true
			}
			if len(said) != 1 {
				t.Errorf("%s %s: %v", more, name, said)
			}
		}
	}
	if u := ReadLog(b.log); u.Hits != 2+2+3*4 || u.Misses != 4 || u.Reasons["a compilation that fails"] != 4 {
		t.Errorf("%+v", u) // of two that compile, and of four that a step after the preprocessor refuses
	}
}

// TestShadowedHeaders: a header that appears in the place of another one counts, although no file that was read has changed.
func TestShadowedHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	b.write("inc/far/x.h", "int far;\n")
	b.write("k.cu", "#include <x.h>\n#if __has_include(<optional.h>)\nint optional;\n#endif\n")
	args := []string{"-c", "-Ifirst", "-Inear", "-Iinc/far", "../src/k.cu"}
	b.check("first", "miss", args...)
	b.check("again", "hit", args...)
	for _, name := range []string{"near/x.h", "first/x.h", "near/optional.h"} {
		b.write(name, "int "+filepath.Base(filepath.Dir(name))+";\n")
		b.check(name+" appears", "miss", args...)
		b.check(name+" is there", "hit", args...)
		if err := os.Remove(filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
		b.check(name+" is gone", "hit", args...)
	}
	b.write("inc/far/x.h", "#include \"../up.h\"\n")
	b.write("up.h", "int up;\n") // by way of first
	b.check("an include that leads out", "miss", args...)
	b.check("the same", "hit", args...)
	b.write("inc/up.h", "int other;\n")
	b.check("a nearer one appears", "miss", args...)
	if err := os.Remove(filepath.Join(b.dir, "inc/up.h")); err != nil {
		t.Fatal(err)
	}
	b.check("it is gone", "hit", args...)
	b.write("cuda_runtime.h", "")
	for _, version := range []string{"one", "two"} {
		b.write(version+"/same.h", "#if __has_include(<extra.h>)\nint extra;\n#endif\n")
	}
	b.write("two/extra.h", "")
	b.write("k.cu", "#include <same.h>\n")
	b.link("one", "current")
	b.check("by way of a link", "miss", "-c", "-Icurrent", "k.cu")
	b.check("by way of a link", "hit", "-c", "-Icurrent", "k.cu")
	b.link("two", "current")
	b.check("the link leads elsewhere", "miss", "-c", "-Icurrent", "k.cu")
	b.link("one", "current")
	b.check("the link is back", "hit", "-c", "-Icurrent", "k.cu")
	b.write("k.cu", "const char *when = __TIME__;\n")
	b.write("pre.h", "int pre;\n")
	if got := b.nvcc("-c", "k.cu", "-o", "x.o"); got != "miss" {
		t.Errorf("the time: %s", got)
	}
	for _, text := range []string{"one", "two"} { // which is in no preprocessed text
		b.write("warns.cu", "#warning "+text+"\n")
		b.check("a warning of the preprocessor", "miss", "-c", "warns.cu")
	}
	b.write("k.cu", "int k;\n")
	b.write("gcc/specs", "*cpp:\n+ -DSPECS\n\n")
	usual := b.env
	b.env = append(slices.Clone(usual), "LIBRARY_PATH="+filepath.Join(b.dir, "gcc"))
	b.check("gcc finds its specs in a file", "uncached", "-c", "k.cu")
	b.env = usual
	b.check("an unknown option", "uncached", "-c", "--keep", "k.cu")
	b.write("inc/text", "text")
	for i, directive := range []string{`.incbin \"inc/text\"`, `.INCBIN \"inc/text\"`, `.inc" "bin \"inc/text\"`, `.Include \"inc/text\"`} {
		b.write("inc/text", ".text\n")
		b.write("asm.cu", fmt.Sprintf("asm(\"%s\");\nint a%d;\n", directive, i))
		for range 2 {
			b.check("inline assembly that reads a file", "miss", "-c", "asm.cu")
		}
	}
}

// TestHitSaysTheSame: what the steps said is said again.
func TestHitSaysTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	var said [2]string
	for i, want := range []string{"miss", "hit"} {
		var code int
		if said[i], code = b.call(filepath.Join(b.view, "nvcc"), "-c", "k.cu", "-o", "k.o"); code != 0 {
			t.Fatalf("%s: %d", want, code)
		}
	}
	if log, err := os.ReadFile(b.log); err != nil || !regexp.MustCompile(`^miss\nhit \d+\n$`).Match(log) {
		t.Errorf("%q, %v", log, err)
	}
	if said[0] == "" || said[0] != said[1] {
		t.Errorf("first %q, then %q", said[0], said[1])
	}
}

// TestNothingWrongIsKept: no failed compilation, none whose inputs changed meanwhile, and a damaged or vanished entry is a miss.
func TestNothingWrongIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	b.write("bad.cu", "#error no\n")
	for range 2 {
		if err := b.start("-c", "bad.cu").Wait(); err == nil {
			t.Error("no error")
		}
	}
	if got := Totals(b.cache).Size; got != 0 {
		t.Errorf("%d bytes are kept of a failure", got)
	}
	before := b.env
	runs := filepath.Join(b.dir, "runs")
	b.env = append(before, "MADE_UP_ERROR="+runs)
	cmd := b.start("-c", "k.cu", "-o", "x.o")
	err := cmd.Wait()
	if ran, _ := os.ReadFile(runs); cmd.ProcessState.ExitCode() != 3 || string(ran) != "failed\nfailed\n" {
		t.Errorf("a step that fails, and nvcc then: %v, %q", err, ran)
	}
	pipe := filepath.Join(b.dir, "go-on")
	if out, err := exec.Command("mkfifo", pipe, pipe+".ready").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	meanwhile := func(change func()) {
		b.env = append(before, "MADE_UP_WAIT="+pipe)
		cmd = b.start("-c", "k.cu", "-o", "x.o")
		if _, err := os.ReadFile(pipe + ".ready"); err != nil { // the compiler has read its inputs
			t.Fatal(err)
		}
		change()
		write(t, pipe, "")
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		b.env = before
	}
	ptxas, err := os.ReadFile(filepath.Join(b.root, "bin", "ptxas"))
	if err != nil {
		t.Fatal(err)
	}
	meanwhile(func() { b.remake("bin/ptxas", append(slices.Clip(ptxas), 0)) })
	b.remake("bin/ptxas", ptxas)
	b.check("after another ptxas while nvcc ran", "miss", "-c", "k.cu")
	b.write("a.h", "#define A 5\n")
	b.env = append(before, Variable+"=read")
	b.check("a cache that is only read", "miss", "-c", "k.cu")
	b.check("which keeps nothing", "miss", "-c", "k.cu")
	b.env = before
	b.write("a.h", "#define A 3\n")
	meanwhile(func() { b.write("a.h", "#define A 77\n") })
	b.check("after a change while nvcc ran", "miss", "-c", "k.cu")
	b.write("a.h", "#define A 3\n")
	b.check("as it was before that, and as it was compiled", "hit", "-c", "k.cu")
	first, _ := Files(filepath.Join(b.cache, Kernels, "memo"))
	b.write("a.h", "#define A 4\n")
	b.check("another one", "miss", "-c", "k.cu")
	all, _ := Files(filepath.Join(b.cache, Kernels, "memo"))
	for _, entry := range all {
		if !slices.ContainsFunc(first, func(was aged) bool { return was.path == entry.path }) {
			copyFile(t, first[0].path, entry.path)
		}
	}
	b.check("an entry under the name of another one", "miss", "-c", "k.cu")

	for name, damage := range map[string]func(path string) error{
		"cut":  func(path string) error { return os.Truncate(path, 200) },
		"gone": os.Remove,
		"flipped": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			data[len(data)/2] ^= 1
			return os.WriteFile(path, data, 0o644)
		},
		"empty": func(path string) error { return os.WriteFile(path, nil, 0o644) },
	} {
		entries, _ := Files(filepath.Join(b.cache, Kernels, "memo"))
		for _, e := range entries {
			if err := damage(e.path); err != nil {
				t.Fatal(err)
			}
		}
		b.check(name, "miss", "-c", "k.cu")
		b.check(name+", then made again", "hit", "-c", "k.cu")
	}
}

// TestKilledAndTogether: calls that are killed at any moment, and several at a time, leave no wrong entry.
func TestKilledAndTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	random := rand.New(rand.NewPCG(uint64(need.Count(t, "seed", 1)), 0))
	tmp, clean := t.TempDir(), b.env
	for range need.Count(t, "kill", 5) {
		b.write("a.h", fmt.Sprintf("#define A %d\n", random.IntN(4)))
		b.env = append(slices.Clone(clean), "TMPDIR="+tmp)
		var running []*exec.Cmd
		for i := range 3 {
			running = append(running, b.start("-c", "k.cu", "-o", fmt.Sprintf("x%d.o", i)))
		}
		timer := time.AfterFunc(time.Duration(random.IntN(120))*time.Millisecond, func() { _ = running[0].Process.Kill() })
		for _, cmd := range running {
			_ = cmd.Wait() // one was killed, perhaps
		}
		timer.Stop()
		if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
			t.Errorf("a kill leaves %v in TMPDIR %v", left, err)
		}
		b.env = clean
		b.right("after a kill", 1, "-c", "k.cu")
	}
}

// TestTimes: nvcc -lineinfo writes the times of the sources into device code, so they count there, and only there.
func TestTimes(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	for _, flag := range []string{"-lineinfo", "-use_fast_math"} {
		b.check("first", "miss", flag, "-c", "k.cu")
		b.check("again", "hit", flag, "-c", "k.cu")
		old := time.Unix(1_600_000_000, 0)
		if err := os.Chtimes(filepath.Join(b.dir, "a.h"), old, old); err != nil {
			t.Fatal(err)
		}
		b.check("another time", map[bool]string{true: "miss", false: "hit"}[flag == "-lineinfo"], flag, "-c", "k.cu")
		b.write("a.h", "#define A 2\n")
	}
}

// cc runs the C compiler.
func cc(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("cc", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cc %v: %v\n%s", args, err, out)
	}
}

// TestRandomChanges changes sources, headers, flags, architectures and tools at random: whatever comes from the cache must be what the
// toolkit makes.
func TestRandomChanges(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		seed, n := need.Count(b.t, "seed", 1), need.Count(b.t, "random", map[bool]int{true: 12, false: 6}[need.Has("long")])
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		tools := []string{"bin/cicc", "bin/ptxas"}
		if b.real {
			tools, n = []string{"nvvm/bin/cicc", "bin/ptxas"}, n/5
		}
		whole := map[string][]byte{}
		for _, tool := range tools {
			data, err := os.ReadFile(filepath.Join(b.root, tool))
			if err != nil {
				b.t.Fatal(err)
			}
			whole[tool] = data
		}
		flags := []string{"-I.", "-Iother"}
		for i := range n {
			value := fmt.Sprint(random.IntN(3))
			switch random.IntN(8) {
			case 0:
				b.write("a.h", "#define A "+value+"\n")
			case 1:
				b.write("host.h", "inline int host_value() { return "+value+"; }\nint used"+value+" = host_value();\n")
			case 2:
				b.write("dev90.h", "#undef A\n#define A 9"+value+"\n")
			case 3:
				flags = [][]string{{"-I."}, {"-I.", "-lineinfo"}, {"-I.", "-DB=1"}, {"-Iother", "-I."}, {"-use_fast_math"}}[random.IntN(5)]
			case 4:
				b.write("other/host.h", "inline int other_value() { return "+value+"; }\nint other_used = other_value();\n")
			case 5:
				_ = os.Remove(filepath.Join(b.dir, "other/host.h"))
			case 6:
				tool := tools[random.IntN(len(tools))]
				b.remake(tool, append(slices.Clone(whole[tool]), value...))
			case 7:
				b.write(
					"k.cu",
					strings.ReplaceAll("#include \"a.h\"\n#ifndef __CUDA_ARCH__\n#include <host.h>\n#elif __CUDA_ARCH__ >= 900\n"+
						"#include \"dev90.h\"\n#endif\n__global__ void k(float *x) { x[V] *= A; }\n", "V", value),
				)
			}
			if i == 0 {
				b.write(
					"k.cu",
					"#include \"a.h\"\n#ifndef __CUDA_ARCH__\n#include <host.h>\n#elif __CUDA_ARCH__ >= 900\n#include \"dev90.h\"\n#endif\n"+
						"__global__ void k(float *x) { x[7] *= A; }\n",
				)
			}
			arches := [][]string{{"-gencode=arch=compute_80,code=sm_80"}, {"-gencode=arch=compute_90,code=sm_90"},
				{"-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"}}[random.IntN(3)]
			mode := [][]string{{"-c"}, {"-c"}, {"-dc"}, {"--fatbin"}}[random.IntN(4)]
			b.right(fmt.Sprintf("seed %d, step %d", seed, i), 1, slices.Concat(mode, arches, flags, []string{"-I.", "k.cu"})...)
		}
	})
}

// TestView: one that is of this toolkit stays as it is, another is replaced, and none is made where others may write.
func TestView(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	program := func() os.FileInfo {
		bin, err := View(host, b.cache, b.root, filepath.Join(b.root, "bin", "nvcc"), self(t))
		if err != nil {
			t.Fatal(err)
		}
		// It stays open: a file system may give the number of a deleted file to the next one, which os.SameFile would take for the same.
		f, err := os.Open(filepath.Join(bin, "nvcc"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		fi, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return fi
	}
	first := program()
	if !os.SameFile(first, program()) {
		t.Error("the view of an unchanged toolkit was replaced")
	}
	write(t, filepath.Join(b.root, "bin", "nvlink"), "")
	if os.SameFile(first, program()) {
		t.Error("the view of a changed toolkit was left")
	}
	for _, dir := range []string{b.root, filepath.Join(b.root, "bin")} {
		odd := host
		odd.Files = unlinkable{host.Files, dir}
		if bin, err := View(odd, t.TempDir(), b.root, filepath.Join(b.root, "bin", "nvcc"), self(t)); err == nil {
			t.Errorf("%s, which lacks something of %s, is used", bin, dir)
		}
	}
	if err := os.Chmod(b.view, 0o777); err != nil {
		t.Fatal(err)
	}
	if bin, err := View(host, b.cache, b.root, filepath.Join(b.root, "bin", "nvcc"), self(t)); err == nil {
		t.Errorf("%s, in which everybody may write, is used", bin)
	}
}

// TestOnlyGCCIsAskedForItsAssembler: what looks like gcc and is not may start anything; ccache is switched off.
func TestOnlyGCCIsAskedForItsAssembler(t *testing.T) {
	t.Parallel()
	need.Tool(t, "linux")
	dir := t.TempDir()
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ccache", "other/gcc"} {
		write(t, filepath.Join(dir, name), "")
		copyFile(t, "/bin/true", filepath.Join(dir, name))
	}
	if err := os.Symlink("ccache", filepath.Join(dir, "gcc")); err != nil {
		t.Fatal(err)
	}
	for name, taken := range map[string]bool{"gcc": true, "other/gcc": false} {
		if err := (&run{}).compiler(t.Context(), host, filepath.Join(dir, name), &preprocessed{}); (err == nil) != taken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// unlinkable is a directory with something to which no link can be made.
type unlinkable struct {
	buildenv.Files
	dir string
}

func (u unlinkable) ReadDir(dir string) ([]fs.DirEntry, error) {
	list, err := u.Files.ReadDir(dir)
	if dir == u.dir && len(list) > 0 {
		list = append(list, misnamed{list[0]})
	}
	return list, err
}

type misnamed struct{ fs.DirEntry }

func (misnamed) Name() string { return "no/name" }

// TestPruning: what is oldest goes first, and the totals stay.
func TestPruning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	r := run{host: host, cacheDir: dir}
	for i := range 10 {
		key := hashOf([]byte{byte(i)})
		if err := r.keep(key, result{Output: []byte(strings.Repeat(hashOf([]byte(key)), 50)), Milliseconds: 1}); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Duration(10-i) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, Kernels, "memo", key[:2], key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(dir, Kernels, temporaries)
	for name, age := range map[string]time.Duration{"killed": 48 * time.Hour, "at work": time.Hour} {
		write(t, filepath.Join(left, name, "k.ii"), "")
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(left, name, "k.ii"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	build := filepath.Join(t.TempDir(), "log")
	write(t, build, "hit 400\nhit 600\nmiss\n")
	for _, limit := range []int64{Totals(dir).Size / 2, Limit} {
		if err := End(dir, build, limit); err != nil {
			t.Fatal(err)
		}
	}
	for i, kept := range map[int]bool{0: false, 1: false, 2: false, 7: true, 8: true, 9: true} { // no more than to nine tenths of the limit
		if _, err := r.kept(hashOf([]byte{byte(i)})); (err == nil) != kept {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	if names, err := filepath.Glob(filepath.Join(left, "*")); err != nil || len(names) != 1 || filepath.Base(names[0]) != "at work" {
		t.Errorf("of the calls' directories %q are left, %v", names, err)
	}
	if u := Totals(dir); u.Hits != 4 || u.Misses != 2 || u.Saved != 2*time.Second || u.Size == 0 {
		t.Errorf("got %+v", u)
	}
}

// TestReadOnly: of a build that may not write to the cache nothing is kept, not even what it costs time to know.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		dir := t.TempDir()
		tool, cacheDir := filepath.Join(dir, "tool"), filepath.Join(dir, "cache")
		write(t, tool, strings.Repeat("x", 200_000))
		r := run{host: host, cacheDir: cacheDir, readOnly: readOnly, memo: memo.Open(host, cacheDir, time.Now())}
		key := hashOf([]byte("key"))
		for range 2 { // the second time it is remembered
			if sum, err := r.content(tool); err != nil || sum != hashOf([]byte(strings.Repeat("x", 200_000))) {
				t.Errorf("read-only %v: %s, %v", readOnly, sum, err)
			}
		}
		if err := r.keep(key, result{Output: []byte("o")}); err != nil {
			t.Error(err)
		}
		_, err := r.kept(key)
		if _, gone := os.Stat(cacheDir); (gone != nil) != readOnly || (err != nil) != readOnly {
			t.Errorf("read-only %v: %v, %v", readOnly, gone, err)
		}
	}
}

// TestLogs: the notes of calls are counted, whatever else is in the directory; an entry of another key is none.
func TestLogs(t *testing.T) {
	t.Parallel()
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	write(t, file, "hit 400\nuncached b\nmiss\nodd\nuncached a\nhit 100\nuncached c\nuncached c\n")
	u := ReadLog(file)
	if got := strings.Join(u.MostFrequent(), " "); u.Hits != 2 || u.Misses != 1 || u.Uncached != 4 || u.Saved != 500*time.Millisecond || got != "c a b" {
		t.Errorf("%+v, %s", u, got)
	}
	if err := End(dir, filepath.Join(dir, "none"), Limit); err == nil {
		t.Error("a log that is not there was added")
	}
	write(t, filepath.Join(dir, "empty"), "")
	if err := End(dir, filepath.Join(dir, "empty"), Limit); err != nil || Totals(dir).Size != 0 {
		t.Errorf("an empty log: %v, %+v", err, Totals(dir))
	}
	r := run{host: host, cacheDir: dir}
	one, other := hashOf([]byte("a")), hashOf([]byte("b"))
	if err := r.keep(one, result{}); err != nil {
		t.Fatal(err)
	}
	at := func(key string) string { return filepath.Join(dir, Kernels, "memo", key[:2], key) }
	if err := errors.Join(os.MkdirAll(filepath.Dir(at(other)), 0o700), os.Rename(at(one), at(other))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.kept(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key's entry: %v", err)
	}
}

// TestUndecided: what a compiler would still find in preprocessed text.
func TestUndecided(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"int k;": false, "# pragma once": false, "#pragma GCC dependency \"a.h\"": true, "%: include \"a.h\"": true, "%:pragma unroll": false,
		"??=include \"a.h\"": true, "  #  include <a.h>": true, "long t = __TIME__;": true, "f(__TIMESTAMP__)": true, "__DATE__": true, "a # b": false,
	} {
		if got := undecided([]byte(line)) + ofTheTime([]byte(line)); (got != "") != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestSeveralArchs: a call for a list is what the toolkit's own nvcc makes of all of it, and another list compiles for its new ones alone;
// one of them for none.
func TestSeveralArchs(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		gencode := func(a string) string { return "-gencode=arch=compute_" + a + ",code=sm_" + a }
		clean := b.env
		was := 0
		for _, tt := range []struct {
			archs []string
			more  int // entries of the cache: of the call, and of cicc and ptxas for each new architecture
		}{{[]string{"80", "90"}, 5}, {[]string{"75", "80", "90"}, 3}, {[]string{"75", "90"}, 1}, {[]string{"90"}, 1}} {
			first := "miss"
			if tt.more == 1 && b.real {
				first = "hit"
			}
			if b.env = slices.Clone(clean); len(tt.archs) > 1 {
				b.env = append(b.env, ArchsVariable+"="+strings.Join(tt.archs, ","))
			}
			for _, mode := range []string{"-c", "-fatbin"} {
				typed, made := []string{mode, gencode(tt.archs[0]), "-I.", "k.cu"}, filepath.Join(b.dir, "out.bin")
				whole := slices.Clone(typed)
				for _, a := range tt.archs[1:] {
					whole = append(whole, gencode(a))
				}
				want := b.plain(mode, whole)
				for _, noted := range []string{first, "hit"} {
					if got := b.nvcc(append(slices.Clone(typed), "-o", made)...); got != noted || deviceCode(b.t, made) != want {
						b.t.Errorf("%s for %s: %s, want %s; equal: %v", mode, tt.archs, got, noted, deviceCode(b.t, made) == want)
					}
				}
				files, _ := Files(filepath.Join(b.cache, Kernels, "memo"))
				if mode == "-c" && b.real && len(files)-was != tt.more {
					b.t.Errorf("%s: %d new entries, want %d", tt.archs, len(files)-was, tt.more)
				}
				was = len(files)
			}
		}
	})
}
