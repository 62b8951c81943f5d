package audit

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu/probe"
)

func TestJudgeOfAMode(t *testing.T) {
	oom, none := Mode{Name: "oom", answer: 2, stage: memory}, Mode{Name: "no-device", answer: 100}
	code, ends := Mode{Name: "no-binary", answer: 209, stage: module}, Mode{Name: "launch-failure", answer: 719, stage: launch}
	start, copies := Mode{Name: "launch-refused", answer: 701, stage: refused}, Mode{Name: "copy-failure", answer: 214, stage: back}
	data, host := Mode{Name: "wrong-data", stage: wrong}, Mode{Name: "no-pinned-memory", answer: 2, stage: pinned}
	for _, tt := range []struct {
		story string
		mode  Mode
		asked []string
		run   buildenv.Result
		want  Kind
		why   string
	}{
		{"refused, and says so by its status", none, []string{"cuInit"}, buildenv.Result{Code: 1}, Honest, "ended with 1"},
		{"refused, and panics with abort", none, []string{"cuInit"}, buildenv.Result{Code: 134, Signal: "SIGABRT"}, Honest, "SIGABRT"},
		{"refused, and crashes", none, []string{"cuInit"}, buildenv.Result{Code: 139, Signal: "SIGSEGV"}, Unsure, "ended by SIGSEGV"},
		{"refused, and ends well", none, []string{"cuInit"}, buildenv.Result{}, FellBack, "silent CPU fallback"},
		{"refused, ends well, and tells", none, []string{"cuInit"}, buildenv.Result{Stderr: []byte("warn: falling back to CPU\n")}, FellBack, "silent CPU fallback"},
		{"refused, says so, and ends with 3", none, []string{"cuInit"}, buildenv.Result{Code: 3, Stderr: []byte("falling back to CPU\n")}, Honest, "ended with 3"},
		{"refused, and hangs", none, []string{"cuInit"}, buildenv.Result{TimedOut: true, Code: 137, Signal: "SIGKILL"}, Unsure, "in time"},
		{"never asks", none, nil, buildenv.Result{}, NotReached, "never looked"},
		{"never asks, and fails", none, nil, buildenv.Result{Code: 2}, NotReached, "ended with 2 before"},
		{"aborts before it asks", none, nil, buildenv.Result{Code: 134, Signal: "SIGABRT"}, Unsure, "SIGABRT"},
		{"our driver lacks something", none, []string{"libcuda.so.1"}, buildenv.Result{Code: 127, Stderr: []byte("app: symbol lookup error: app: undefined symbol: cuNew\n")}, Unsure, "lacks"},
		{"no memory, and fails", oom, []string{"cuInit", "cuMemAlloc_v2"}, buildenv.Result{Code: 1}, Honest, ""},
		{"no memory, and ends well", oom, []string{"cuInit", "cuMemAlloc_v2"}, buildenv.Result{}, FellBack, ""},
		{"never asks for memory", oom, []string{"cuInit"}, buildenv.Result{}, NotReached, "never asked for memory"},
		{"asks for memory of the host only", oom, []string{"cuInit", "cuMemAllocHost_v2"}, buildenv.Result{}, NotReached, "never asked for memory"},
		{"fails before it asks for memory", oom, []string{"cuInit"}, buildenv.Result{Code: 1}, NotReached, "before it asked for memory"},
		{"no code, and fails", code, []string{"cuInit", "cuModuleLoadDataEx"}, buildenv.Result{Code: 1}, Honest, "ended with 1"},
		{"no code, and ends well", code, []string{"cuInit", "cuModuleLoadData"}, buildenv.Result{}, FellBack, "silent CPU fallback"},
		{"no code by the run-time library, and ends well", code, []string{"cudaMalloc", "__cudaLaunchKernel"}, buildenv.Result{}, FellBack, ""},
		{"never loads a kernel", code, []string{"cuInit", "cuMemAlloc_v2"}, buildenv.Result{}, NotReached, "never asked for a kernel"},
		{"its kernel fails, and it says so", ends, []string{"cuInit", "cuLaunchKernel"}, buildenv.Result{Code: 101}, Honest, "ended with 101"},
		{"its kernel fails, and it ends well", ends, []string{"cuInit", "cuLaunchKernelEx"}, buildenv.Result{}, FellBack, "never checked whether the kernel succeeded"},
		{"its kernel fails, and it tells that it fell back", ends, []string{"cudaLaunchKernel"}, buildenv.Result{Stdout: []byte("using CPU")}, FellBack, "its kernel failed"},
		{"never launches", ends, []string{"cuInit", "cuModuleLoadData"}, buildenv.Result{}, NotReached, "never asked for a launch"},
		{"launches something of the host only", ends, []string{"cuInit", "cuLaunchHostFunc"}, buildenv.Result{}, NotReached, "never asked for a launch"},
		{"its launch is refused, and it says so", start, []string{"cuInit", "cuLaunchKernel"}, buildenv.Result{Code: 1}, Honest, "ended with 1"},
		{"its launch is refused, and it ends well", start, []string{"cuInit", "cuLaunchKernel"}, buildenv.Result{}, FellBack, "its kernel failed"},
		{"never launches what would be refused", start, []string{"cuInit"}, buildenv.Result{}, NotReached, "never asked for a launch"},
		{"its copy fails, and it says so", copies, []string{"cuInit", "cuLaunchKernel", "copy-back"}, buildenv.Result{Code: 1}, Honest, "ended with 1"},
		{"its copy fails, and it ends well", copies, []string{"cuInit", "cuLaunchKernel", "copy-back"}, buildenv.Result{}, FellBack, "was refused"},
		{"copies nothing back", copies, []string{"cuInit", "cuLaunchKernel", "cuMemcpyDtoH_v2"}, buildenv.Result{}, NotReached, "never asked for a copy"},
		{"its data are wrong, and it says so", data, []string{"cuInit", "copy-back"}, buildenv.Result{Code: 1}, Honest, "ended with 1"},
		{"its data are wrong, and it ends well", data, []string{"cuInit", "copy-back"}, buildenv.Result{}, Unchecked, "does not check its result"},
		{"no pinned memory, and ends well", host, []string{"cuInit", "cuMemHostAlloc"}, buildenv.Result{}, FellBack, "silent CPU fallback"},
		{"no pinned memory, and takes ordinary memory", host, []string{"cuInit", "cuMemHostAlloc", "cuLaunchKernel"}, buildenv.Result{}, Unchecked, "launched a kernel all the same"},
		{"fails before it launches", ends, []string{"cuInit", "cublas"}, buildenv.Result{Code: 1}, NotReached, "before it asked for a launch"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			got := judge(buildenv.Linux, tt.mode, tt.asked, tt.run)
			if got.Kind != tt.want || !strings.Contains(got.Why, tt.why) {
				t.Errorf("got %s: %s, want %s: …%s…", got.Kind, got.Why, tt.want, tt.why)
			}
		})
	}
}

// TestWordsJudgeNothing: no ordinary line of a program changes what a mode shows.
func TestWordsJudgeNothing(t *testing.T) {
	data := hosttest.Must(os.ReadFile("../../../testdata/ordinary/lines.txt"))(t)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) < 87 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		for _, m := range Modes() {
			for _, code := range []int{0, 1} {
				asked := []string{"cuInit", "cuMemAlloc_v2", "cuModuleLoadData", "cuLaunchKernel", "copy-back"}
				without := judge(buildenv.Linux, m, asked, buildenv.Result{Code: code})
				for _, r := range []buildenv.Result{{Code: code, Stdout: []byte(line)}, {Code: code, Stderr: []byte(line)}} {
					if got := judge(buildenv.Linux, m, asked, r); got.Kind != without.Kind || got.Why != without.Why {
						t.Errorf("%s, %s, status %d: %s (%s), want %s", line, m.Name, code, got.Kind, got.Why, without.Kind)
					}
				}
			}
		}
	}
}

func TestJudgeOnWindows(t *testing.T) {
	none := Mode{Name: "no-device", answer: 100}
	for _, tt := range []struct {
		story string
		asked []string
		code  uint32
		want  Kind
		why   string
	}{
		{"a status of its own", []string{"cuInit"}, 101, Honest, "it looked for the driver and ended with 101"},
		{"ends well", []string{"cuInit"}, 0, FellBack, "silent CPU fallback"},
		{"Rust's abort", []string{"cuInit"}, 0xC0000409, Honest, "was ended by Windows (0xC0000409)"},
		{"Rust's abort before it asks", nil, 0xC0000409, Unsure, "was ended by Windows"},
		{"a crash", []string{"cuInit"}, 0xC0000005, Unsure, "was ended by Windows (0xC0000005)"},
		{"an exception that nobody knows", []string{"cuInit"}, 0xC0000420, Unsure, "ended by Windows (0xC0000420)"},
		{"an exception of C++", []string{"cuInit"}, 0xE06D7363, Unsure, "ended by Windows (0xE06D7363)"},
		{"a driver that it imports cannot be loaded", []string{"nvcuda.dll"}, 0xC0000142, Honest, "could not go on without a library"},
		{"a driver that it loads late cannot be loaded", []string{"nvcuda.dll"}, 0xC06D007E, Honest, "could not go on without a library"},
		{"another library is missing", nil, 0xC0000135, NotReached, "could not go on without a library (0xC0000135) before it looked for the driver"},
		{"our driver lacks something", nil, 0xC0000139, Unsure, "lacks a function"},
		{"our driver lacks something that is loaded late", []string{"cuInit"}, 0xC06D007F, Unsure, "lacks a function"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			got := judge(buildenv.Windows, none, tt.asked, buildenv.Result{Code: int(tt.code)})
			if got.Kind != tt.want || !strings.Contains(got.Why, tt.why) {
				t.Errorf("got %s: %s, want %s: …%s…", got.Kind, got.Why, tt.want, tt.why)
			}
		})
	}
}

// TestTheFailingLibrariesByGCCForWindows: where there is no cl, gcc builds them; each name must be one that a program finds.
func TestTheFailingLibrariesByGCCForWindows(t *testing.T) {
	const gcc = "x86_64-w64-mingw32-gcc"
	need.Asked(t, "mingw")
	all, err := imports{functions: []string{"cuOfTheFuture_v9"}, libraries: []string{"KERNEL32.dll", "CUDART64_13.dll"}}.needed()
	if err != nil || all.soname != "CUDART64_13.dll" {
		t.Fatalf("%q, %v", all.soname, err)
	}
	for _, l := range []library{{driverDLL, "driver.c", all.driver}, {all.soname, "runtime.c", all.runtime}} {
		dir := t.TempDir()
		source := hosttest.Must(l.write(dir))(t)
		c := probe.Compile(buildenv.Host{OS: buildenv.Windows}, probe.Compiler{Path: gcc}, dir, source, filepath.Join(dir, l.soname), true)
		if out, err := exec.Command(c.Path, c.Args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out := hosttest.Must(exec.Command("x86_64-w64-mingw32-objdump", "-p", filepath.Join(dir, l.soname)).Output())(t)
		has := map[string]bool{}
		for _, word := range strings.Fields(string(out)) {
			has[word] = true
		}
		for _, n := range l.names {
			if !has[n] {
				t.Errorf("%s lacks %s", l.soname, n)
			}
		}
	}
}

func TestImportsOfAWindowsProgram(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.bat": "@echo off\r\nrem of more than ninety-six bytes, so that there is enough to be read as the header of a program, which it is not\r\n", "empty.cmd": "", "short.bat": "@x\r\n"} {
		path := filepath.Join(dir, name)
		hosttest.OK(t, os.WriteFile(path, []byte(text), 0o600))
		if of, err := peImports(path); err != nil || of.functions != nil {
			t.Errorf("%s: %+v, %v", name, of, err)
		}
	}
	if _, err := peImports(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there has functions")
	}
}

// TestAProgramThatFailsAnyway: its failures say nothing of the driver's.
func TestAProgramThatFailsAnyway(t *testing.T) {
	for _, tt := range []struct {
		story              string
		baseline, mode     int
		unprovoked, device bool
		want               Kind
	}{
		{"it ends well here", 0, 1, true, true, Honest},
		{"it fails here, where there is no GPU, and for what is refused", 1, 1, false, false, Honest},
		{"it fails although nothing was refused", 1, 1, true, false, Unsure},
		{"it fails although nothing was refused, with another code", 2, 1, true, false, Honest},
		{"it fails here, where there is a GPU", 1, 1, false, true, Unsure},
		{"it fails here with another code, where there is a GPU", 2, 1, false, true, Honest},
	} {
		all := failsAnyway([]ModeResult{{Mode: "baseline", Kind: Baseline, Code: tt.baseline}, {Mode: "no-device", Kind: Honest, Code: tt.mode},
			{Mode: "oom", Kind: NotReached, Code: tt.mode, unprovoked: tt.unprovoked}}, tt.device)
		hosttest.Equal(t, Worst(all), tt.want, tt.story)
	}
}

func TestWorst(t *testing.T) {
	k := func(kinds ...Kind) (all []ModeResult) {
		for _, x := range kinds {
			all = append(all, ModeResult{Kind: x})
		}
		return all
	}
	tests := []struct {
		all  []ModeResult
		want Kind
	}{
		{nil, Unsure}, {k(Honest, Honest), Honest}, {k(Honest, Unsure), Unsure}, {k(Unsure, FellBack, Honest), FellBack}, {k(Honest, ""), Unsure},
		{k(Baseline, Honest), Honest}, {k(Baseline), Unsure}, {k(NotReached), Unsure}, {k(Honest, NotReached), Unsure},
		{append(k(Honest), ModeResult{Kind: NotReached, Code: 1}), Honest}, {append(k(Baseline), ModeResult{Kind: NotReached, Code: 1}), Unsure},
	}
	for _, kind := range []Kind{NotReached, Unchecked} { // of the modes that a good program may leave open
		hosttest.Equal(t, Worst(append(k(Honest), ModeResult{Kind: kind, optional: true})), Honest, kind)
	}
	for _, tt := range tests {
		hosttest.Equal(t, Worst(tt.all), tt.want, tt.all)
	}
}

// TestTheFailingDriverHasWhatABinaryImports: one function that is missing ends a program before it is asked anything.
func TestTheFailingDriverHasWhatABinaryImports(t *testing.T) {
	gcc := need.CC(t)
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "it makes ELF files")
	}
	dir := t.TempDir()
	text, binary, imported := filepath.Join(dir, "a.c"), filepath.Join(dir, "a"), filepath.Join(dir, "libfuture.so")
	future := filepath.Join(dir, "future.c")
	if err := os.WriteFile(future, []byte("int cuInit(unsigned f) { return (int)f; } int cuOfTheFuture_v9(void) { return 0; } int cublasCreate_v2(void *p) { return !p; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", imported, future).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(text, []byte("int cuInit(unsigned), cuOfTheFuture_v9(void), cublasCreate_v2(void *); int main(void) { return cuInit(0) + cuOfTheFuture_v9() + cublasCreate_v2(0); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-o", binary, text, imported).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	needs := func(file string) (needed, error) {
		of, err := elfImports(file)
		if err != nil {
			return needed{}, err
		}
		return of.needed()
	}
	all := hosttest.Must(needs(binary))(t)
	names := all.driver
	hosttest.Equal(t, all.soname, "", "it loads")
	for n, want := range map[string]bool{"cuOfTheFuture_v9": true, "cuInit": true, "cuLaunchKernel": true, "cuLaunchKernel_ptsz": true, "cublasCreate_v2": false} {
		if slices.Contains(names, n) != want {
			t.Errorf("%s: %v", n, !want)
		}
	}
	source := hosttest.Must(library{"libcuda.so.1", "driver.c", names}.text())(t)
	body := string(source)
	if !strings.Contains(body, "ALIAS(cuLaunchKernel_ptsz, cuLaunchKernel)\n") {
		t.Error("cuLaunchKernel_ptsz is not cuLaunchKernel")
	}
	if !strings.Contains(body, "NAME(cuOfTheFuture_v9)\n") || strings.Contains(body, "NAME(cuInit)") {
		t.Error("the source does not follow the names")
	}
	for _, m := range written.FindAllStringSubmatch(body, -1) {
		if m[1] != "" && !slices.Contains(names, m[1]) {
			t.Errorf("%s has a body and is not in names.txt", m[1])
		}
	}
	if _, err := needs(text); err != nil {
		t.Errorf("a text, as a script is one: %v", err)
	}
	if _, err := needs(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there has functions")
	}
}

// asks opens the driver by the name that it is given, and ends with what two of its functions answer.
const asks = `#include <dlfcn.h>
#include <stddef.h>
int main(int n, char **a) {
    void *h = dlopen(a[1], RTLD_NOW); long p; (void)n;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(h, "cuInit"), (*alloc)(long *, size_t) = (int (*)(long *, size_t))dlsym(h, "cuMemAlloc_v2");
    return 10 * init(0) + alloc(&p, 4);
}
`

// TestTheModeIsFoundByAnyName: a program may load the failing driver by its link, as cudarc does, and gets the answers of the mode all the same.
func TestTheModeIsFoundByAnyName(t *testing.T) {
	gcc := need.CC(t)
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "it makes ELF files")
	}
	h := hosttest.Must(local.Host())(t)
	dir := t.TempDir()
	source, program := filepath.Join(dir, "asks.c"), filepath.Join(dir, "asks")
	hosttest.OK(t, os.WriteFile(source, []byte(asks), 0o600))
	if out, err := exec.Command(gcc, "-o", program, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"libcuda.so.1", "libcuda.so"} {
		modes, err := Run(t.Context(), h, proc.Runner{}, Options{Binary: program, Args: []string{name}, Env: h.Env, Dir: t.TempDir(), Compiler: probe.Compiler{Path: gcc}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"no-device": (10*100 + 100) & 255, "oom": 2, "no-binary": 0, "wrong-data": 0}
		for _, m := range modes {
			if code, is := want[m.Mode]; is && m.Code != code {
				t.Errorf("%s, %s: ended with %d, want %d", name, m.Mode, m.Code, code)
			}
		}
	}
}
