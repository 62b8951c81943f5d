package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu/probe"
)

// lab is a machine with a stand-in driver: the libraries, the probe and the program under watch, all compiled here.
type lab struct {
	dir     string
	host    buildenv.Host
	probe   probe.Probe
	program string
	other   string // the same program in another file
	cupti   string
}

var theLab struct {
	once sync.Once
	lab  *lab
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if theLab.lab != nil {
		os.RemoveAll(theLab.lab.dir)
	}
	os.Exit(code)
}

func newLab(t testing.TB) *lab {
	t.Helper()
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "the probe chain runs on Linux only")
	}
	gcc := need.CC(t)
	theLab.once.Do(func() { theLab.lab, theLab.err = buildLab(gcc) })
	if theLab.err != nil {
		t.Fatal(theLab.err)
	}
	return theLab.lab
}

func buildLab(gcc string) (*lab, error) {
	h, err := local.Host()
	if err != nil {
		return nil, err
	}
	parent := ""
	if strings.Contains(os.TempDir(), " ") { // LD_PRELOAD cannot hold such a path (ld.so(8)), nor can the scripts of the zoo
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "gpubuild-lab-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, host: h, program: filepath.Join(dir, "program"), other: filepath.Join(dir, "other")}
	l.cupti = filepath.Join(dir, "cupti", "libcupti.so.13")
	for _, d := range []string{"lib", "cupti"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return l, err
		}
	}
	strict := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread"}
	library := append(strict, "-shared", "-fPIC", "-fvisibility=hidden")
	standin := func(name string) string { return filepath.Join("..", "..", "testdata", "standin", name) }
	for _, args := range [][]string{
		append(library[:len(library):len(library)], "-Wl,-soname,libcuda.so.1", standin("cuda.c"), "-o", filepath.Join(dir, "lib", "libcuda.so.1"), "-ldl"),
		append(library[:len(library):len(library)], "-Wl,-soname,libcupti.so.13", standin("cupti.c"), "-o", l.cupti, "-ldl"),
		append(strict[:len(strict):len(strict)], filepath.Join("testdata", "program.c"), "-o", l.program, "-ldl"),
	} {
		if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			return l, fmt.Errorf("gcc %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if err := copyFile(l.program, l.other); err != nil {
		return l, err
	}
	l.probe, err = probe.Build(context.Background(), h, proc.Runner{}, filepath.Join(dir, "cache"), probe.Compiler{Path: gcc}, probe.CUDA)
	return l, err
}

// pretend is the predicate that only a test has: the stand-in driver of this lab is real.
func (l *lab) pretend(loaded Loaded) (bool, string) {
	if l.host.Below(loaded.Real, l.dir) {
		return true, ""
	}
	return false, "this driver is a stand-in: " + loaded.LibCUDA
}

// room is a machine of its own for one run: the driver's library, and beside it the device node that the driver opens. Runs beside each other
// would see each other open one that they share.
func (l *lab) room(t testing.TB) (libs, node string) {
	t.Helper()
	dir := hosttest.Must(os.MkdirTemp(l.dir, "room-"))(t)
	libs, node = filepath.Join(dir, "lib"), filepath.Join(dir, "lib", "node")
	if err := errors.Join(os.Mkdir(libs, 0o755), os.Chmod(dir, 0o755), copyFile(filepath.Join(l.dir, "lib", "libcuda.so.1"), filepath.Join(libs, "libcuda.so.1")), makeNode(node)); err != nil {
		t.Fatal(err)
	}
	return libs, node
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

func (l *lab) options(t testing.TB, args ...string) Options {
	libs, node := l.room(t)
	for i, a := range args {
		args[i] = strings.NewReplacer("{other}", l.other, "{program}", l.program).Replace(a)
	}
	// CUPTI's numbers of calls begin again at 0 after 2^32: in most of these runs, somewhere.
	start := strconv.FormatUint(1<<32-1-uint64(rand.IntN(200)), 10)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("with STANDIN_CUDA_COUNT=%s", start)
		}
	})
	env := l.host.Env.Set("LD_LIBRARY_PATH", libs).Set("STANDIN_CUDA_COUNT", start)
	for _, n := range []string{"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_AUDIT", probe.InjectionVariable} {
		env = env.Unset(n)
	}
	return Options{
		Binary: l.program, Args: args, Env: env, CUPTI: l.cupti, Probe: l.probe, Real: l.pretend, Nodes: []string{node},
		Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, RunDir: t.TempDir(), Timeout: time.Minute,
	}
}

func with(pairs ...string) func(*Options) {
	return func(o *Options) {
		for i := 0; i < len(pairs); i += 2 {
			o.Env = o.Env.Set(pairs[i], pairs[i+1])
		}
	}
}

func TestVerdictOfARun(t *testing.T) {
	l := newLab(t)
	preload := filepath.Join(l.dir, "libpreload.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", preload).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	interposer := filepath.Join(l.dir, "libinterposer.so")
	source := filepath.Join(l.dir, "interposer.c")
	hosttest.OK(t, os.WriteFile(source, []byte("int cuLaunchKernel(void) { return 0; }\n"), 0o600))
	if out, err := exec.Command("gcc", "-shared", "-fPIC", source, "-o", interposer).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	symbolic, hard, script := filepath.Join(l.dir, "symbolic"), filepath.Join(l.dir, "hard"), filepath.Join(l.dir, "script")
	hosttest.OK(t, errors.Join(os.Symlink(l.program, symbolic), os.Link(l.program, hard),
		os.WriteFile(script, []byte("#!/bin/sh\nexec "+l.program+" gpu\n"), 0o700)))
	for _, tt := range []struct {
		story  string
		args   []string
		change func(*Options)
		want   Kind
		why    string // a part of Verdict.Why
	}{
		{"a matrix product on the GPU", []string{"gpu"}, nil, Proved, ""},
		{"its name is mangled", []string{"mangled"}, nil, Proved, ""},
		{"computed on the CPU", []string{"cpu"}, nil, NotUsed, "in this program and its children"},
		{"cuInit, and then the CPU", []string{"init"}, nil, NotUsed, "in this program and its children"},
		{"copied to the device only", []string{"copy"}, nil, NotUsed, "in this program and its children"},
		{"loads the driver without using it", []string{"dlopen"}, nil, NotUsed, "in this program and its children"},
		{"another kernel", []string{"fill"}, nil, OtherKernels, ""},
		{"the last of its threads ends", []string{"last-thread"}, nil, Proved, ""},
		{"another kernel in four threads", []string{"threads"}, nil, OtherKernels, ""},
		{"a convolution named like a product", []string{"convolution"}, nil, OtherKernels, ""},
		{"the other kernel was asked for", []string{"fill"}, func(o *Options) { o.Kernel = regexp.MustCompile("^fill") }, Proved, ""},
		{"the product ran on the device that was asked for", []string{"gpu"}, func(o *Options) { o.Device = "0" }, Proved, ""},
		{"the product ran on another device", []string{"gpu"}, func(o *Options) { o.Device = "1" }, OtherKernels, "not on device 1"},
		{"a child's product was asked for", []string{"child", "{other}", "gpu"}, func(o *Options) { o.Child = "oth*" }, Proved, ""},
		{"another child's product was asked for", []string{"child", "{other}", "gpu"}, func(o *Options) { o.Child = "ruby" }, Unproved, "not by the binary itself"},
		{"a fatbin", []string{"fatbin"}, nil, Proved, ""},
		{"a compressed fatbin", []string{"zstd"}, nil, Proved, ""},
		{"a cubin", []string{"cubin"}, nil, Proved, ""},
		{"a signal's handler calls exit among launches", []string{"exit-in-handler"}, func(o *Options) { o.ExpectExit = 14 }, Proved, ""},
		{"may write no more", []string{"file-limit"}, nil, Unproved, "could not write its records"},
		{"behind a runner of the user's that becomes it", []string{"gpu"}, func(o *Options) { o.Launcher = []string{"/usr/bin/env"} }, Proved, ""},
		{"behind a runner of the user's that stays", []string{"gpu"}, func(o *Options) { o.Launcher = []string{l.other, "child"} }, Proved, ""},
		{"behind a runner of the user's, on the CPU", []string{"cpu"}, func(o *Options) { o.Launcher = []string{l.other, "child"} }, NotUsed, ""},
		{"by a link", []string{"gpu"}, func(o *Options) { o.Binary = symbolic }, Proved, ""},
		{"by its second name, as cargo links it", []string{"gpu"}, func(o *Options) { o.Binary = hard }, Proved, ""},
		{"a script that starts it", nil, func(o *Options) { o.Binary = script }, Unproved, "the binary became another program (exec)"},
		{"a forked child that ends by exit", []string{"fork"}, nil, Proved, ""},
		{"closes files that it does not know", []string{"close-files"}, nil, Proved, ""},
		{"what a program could notice", []string{"quiet"}, nil, Proved, ""},

		{"_exit after a while", []string{"_exit"}, nil, Proved, ""},
		{"_exit at once", []string{"_exit-now"}, nil, Proved, ""},
		{"abort", []string{"abort"}, nil, Unproved, "was ended by"},
		{"becomes another program afterwards", []string{"exec-after", "{other}", "cpu"}, nil, Unproved, "another program (exec)"},
		{"status other than expected", []string{"status", "3"}, nil, Unproved, "ended with status 3, expected was 0"},
		{"status as expected", []string{"status", "3"}, func(o *Options) { o.ExpectExit = 3 }, NotUsed, ""},
		{"never ends", []string{"sleep", "60000"}, func(o *Options) { o.Timeout = 300 * time.Millisecond }, Unproved, "before it was done"},

		{"a child uses the GPU, the binary does not", []string{"child", "{other}", "gpu"}, nil, Unproved, "not by the binary itself"},
		{"a child that is the binary itself", []string{"child", "{program}", "gpu"}, nil, Unproved, "how that process ended is not known"},
		{"the same, asked for", []string{"child", "{program}", "gpu"}, func(o *Options) { o.Child = "program" }, Proved, ""},
		{"the binary launches something, its child the product", []string{"both", "{other}", "gpu"}, nil, OtherKernels, ""},
		{"a child without our environment uses the GPU", []string{"bare-child", "{other}", "gpu"}, nil, Unproved, ""},
		{"a child without our environment on the CPU", []string{"bare-child", "{other}", "sleep", "100"}, nil, NotUsed, ""},
		{"a child on the CPU", []string{"child", "{other}", "cpu"}, nil, NotUsed, "no GPU use was seen"},
		{"a child that opens the driver", []string{"child", "{other}", "init"}, nil, Unproved, "started other processes"},
		{"leaves a process behind", []string{"orphan", "{other}", "sleep", "500"}, nil, Unproved, "left a running process behind"},
		{"becomes another program", []string{"exec", "{other}", "gpu"}, nil, Unproved, "became another program (exec)"},

		{"the shipped predicate", []string{"gpu"}, func(o *Options) { o.Real = RealDriver(l.host) }, Unproved, "this driver is a stand-in: " + l.dir},
		{"no predicate", []string{"gpu"}, func(o *Options) { o.Real = nil }, Unproved, "this driver is a stand-in"},
		{"no libcupti", []string{"gpu"}, func(o *Options) { o.CUPTI = filepath.Join(l.dir, "none.so") }, Unproved, "load: "},
		{"until it is proven, with CUPTI where the loader finds it", []string{"gpu"}, func(o *Options) {
			o.UntilProved, o.CUPTI = true, ""
			o.Env = o.Env.Set("LD_LIBRARY_PATH", o.Env.Get("LD_LIBRARY_PATH")+":"+filepath.Join(l.dir, "cupti"))
		}, Proved, ""},
		{"CUPTI may not trace", []string{"gpu"}, with("STANDIN_CUPTI_ENABLE", "35"), Unproved, "INSUFFICIENT_PRIVILEGES (35)"},
		{"another subscriber", []string{"gpu"}, with("STANDIN_CUPTI_ENABLE", "39"), Unproved, "MULTIPLE_SUBSCRIBERS"},
		{"CUPTI drops everything", []string{"gpu"}, with("STANDIN_CUPTI_DROP", "1"), Unproved, "CUPTI dropped the record"},
		{"CUPTI loses the control's launch", []string{"gpu"}, with("STANDIN_CUPTI_LOSE", "gpubuild_control"), Unproved, "CUPTI recorded no kernel"},
		{"CUPTI loses the program's launches", []string{"gpu"}, with("STANDIN_CUPTI_LOSE", "matmul"), Unproved, "of 1 launch that the driver accepted"},
		{"CUPTI loses some launches", []string{"both", "{program}", "gpu"}, with("STANDIN_CUPTI_LOSE", "matmul"), Unproved, "of 1 launch that the driver accepted"},
		{"another profiler has CUPTI", []string{"gpu"}, with("STANDIN_CUPTI_SUBSCRIBE", "39"), Unproved, "subscribe: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"},
		{"records without an end", []string{"gpu"}, with("STANDIN_CUPTI_UNFINISHED", "1"), Unproved, "CUPTI recorded no kernel"},
		{"launches that run nothing", []string{"fill"}, with("STANDIN_CUDA_SKIP", "fill_f32"), Unproved, "of 1 launch that the driver accepted"},
		{"the device is hidden", []string{"fallback"}, with("CUDA_VISIBLE_DEVICES", "-1"), NoDevice, "hidden by CUDA_VISIBLE_DEVICES=-1"},
		{"a number of no device", []string{"fallback"}, with("CUDA_VISIBLE_DEVICES", "7"), NoDevice, "hidden by CUDA_VISIBLE_DEVICES=7"},
		{"no device", []string{"fallback"}, with("STANDIN_CUDA_DEVICES", "0"), NoDevice, "no GPU"},
		{"no driver", []string{"fallback"}, with("LD_LIBRARY_PATH", ""), NoDevice, "no CUDA driver"},
		{"driver and module do not fit", []string{"fallback"}, with("STANDIN_CUDA_INIT", "803"), Unproved, "CUDA error 803: the driver library and the kernel module are of different versions), in " + l.dir},
		{"a stub", []string{"fallback"}, with("STANDIN_CUDA_INIT", "34"), Unproved, "CUDA error 34: a stub of the toolkit, which is for linking only), in " + l.dir},
		{"forward compatibility", []string{"fallback"}, with("STANDIN_CUDA_INIT", "804"), Unproved, "CUDA error 804: this device knows no forward compatibility"},
		{"old PTX is refused", []string{"gpu"}, with("STANDIN_CUDA_LOAD", "sm_50"), Proved, ""},
		{"old CUPTI", []string{"gpu", "5"}, with("STANDIN_CUPTI_VERSION", "17"), Proved, ""},

		{"LD_PRELOAD", []string{"gpu"}, with("LD_PRELOAD", preload), Proved, ""},
		{"LD_PRELOAD and the CPU", []string{"cpu"}, with("LD_PRELOAD", preload), NotUsed, ""},
		{"LD_PRELOAD of a function of the driver's", []string{"gpu"}, with("LD_PRELOAD", interposer), Unproved, "not from the driver"},
		{"a probe of somebody else's", []string{"gpu"}, with(probe.InjectionVariable, "/opt/tool.so"), Proved, ""},
		{"no control", []string{"gpu"}, func(o *Options) { o.Probe.Control = "" }, Unproved, "no positive control"},
		{"no watcher", []string{"gpu"}, func(o *Options) { o.Probe.Watch = "" }, Proved, ""},
		{"no watcher, and the CPU", []string{"cpu"}, func(o *Options) { o.Probe.Watch = "" }, Unproved, "could not be watched"},
		{"forged records without a driver", []string{"forge"}, nil, Unproved, "stand-in"},
		{"forged records of another process", []string{"forge", "pid"}, nil, Unproved, "not written by the probe"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			t.Parallel()
			o := l.options(t, append([]string{}, tt.args...)...)
			if tt.change != nil {
				tt.change(&o)
			}
			e, err := Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o)
			if err != nil {
				t.Fatal(err)
			}
			v := Judge(e, o.Rules)
			// On a busy machine the signal comes at times while the launch holds a lock that the last wait needs.
			for i := 0; i < 3 && slices.Contains(tt.args, "exit-in-handler") && v.Kind != tt.want; i++ {
				if e, err = Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o); err != nil {
					t.Fatal(err)
				}
				v = Judge(e, o.Rules)
			}
			if v.Kind != tt.want || !strings.Contains(v.Why, tt.why) {
				t.Errorf("got %s: %s\nwant %s: …%s…\n%s\n%+v\n%s", v.Kind, v.Why, tt.want, tt.why, strings.Join(v.Lines, "\n"), e, o.Stderr)
			}
			if len(v.Lines) > 6 { // with the tree of processes
				t.Errorf("%d lines: %q", len(v.Lines), v.Lines)
			}
		})
	}
	// A program that is not position-independent has a jump of its own for a function whose address it takes; where that leads counts.
	fixed := filepath.Join(l.dir, "fixed")
	if out, err := exec.Command("gcc", "-std=c11", "-O1", "-no-pie", "-fno-pie", filepath.Join(zooDir, "linked.c"), "-o", fixed, "-L"+filepath.Join(l.dir, "lib"),
		"-l:libcuda.so.1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for preloaded, want := range map[string]Kind{"": Proved, interposer: Unproved} {
		t.Run("a fixed program, "+filepath.Base(preloaded), func(t *testing.T) {
			o := l.options(t)
			o.Binary, o.Env = fixed, o.Env.Set("LD_PRELOAD", preloaded)
			e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{}, o))(t)
			if v := Judge(e, o.Rules); v.Kind != want {
				t.Errorf("%s: %s", v.Kind, v.Why)
			}
		})
	}
	// What replaces a function of the driver's is named.
	t.Run("an interposer", func(t *testing.T) {
		o := l.options(t, "gpu")
		o.Env = o.Env.Set("LD_PRELOAD", interposer)
		e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{}, o))(t)
		if text := strings.Join(Judge(e, o.Rules).Conflicts, "\n"); !strings.Contains(text, "cuLaunchKernel") || !strings.Contains(text, interposer) {
			t.Errorf("conflicts: %s", text)
		}
	})
}

func TestCountsAndTimes(t *testing.T) {
	l := newLab(t)
	o := l.options(t, "gpu", "20000")
	e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{}, o))(t)
	v := Judge(e, o.Rules)
	if v.Launches != 20000 || v.Total < 20000 || len(v.Kernels) != 1 || v.Device == "" || v.UUID == "" {
		t.Errorf("%+v", v)
	}
}

func TestProgramKeepsItsStreamsAndStatus(t *testing.T) {
	l := newLab(t)
	var out, errs bytes.Buffer
	o := l.options(t, "gpu")
	o.Stdout, o.Stderr = &out, &errs
	hosttest.Must(Run(context.Background(), l.host, proc.Runner{}, o))(t)
	if out.String() != "done\n" || errs.Len() != 0 {
		t.Errorf("stdout %q, stderr %q", &out, &errs)
	}
	entries, err := os.ReadDir(o.RunDir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestRunRefuses(t *testing.T) {
	l := newLab(t)
	text := filepath.Join(t.TempDir(), "text")
	hosttest.OK(t, os.WriteFile(text, []byte("no program"), 0o700))
	for _, path := range []string{filepath.Join(l.dir, "nothing"), l.dir, l.cupti + ".none", text} {
		o := l.options(t)
		o.Binary = path
		_, err := Run(context.Background(), l.host, proc.Runner{}, o)
		if exit.Of(err) != exit.Usage || exit.Hint(err) == "" || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A program for another processor is refused in words.
func TestAnotherProcessorsProgram(t *testing.T) {
	l := newLab(t)
	data := hosttest.Must(os.ReadFile(l.program))(t)
	data[18], data[19] = 2, 0 // SPARC, for which nobody has an emulator
	o := l.options(t)
	o.Binary = filepath.Join(t.TempDir(), "foreign")
	hosttest.OK(t, os.WriteFile(o.Binary, data, 0o700))
	if _, err := Run(context.Background(), l.host, proc.Runner{}, o); err == nil || !strings.Contains(err.Error(), "it is for another processor") || !strings.Contains(exit.Hint(err), "--target") {
		t.Errorf("got %v", err)
	}
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	l := newLab(t)
	o := l.options(t, "sleep", "60000")
	ctx, cancel := context.WithCancel(context.Background())
	started := proc.Runner{Grace: time.Second, Started: func(c buildenv.Cmd, _ int) {
		if c.Path == l.probe.Watch {
			cancel()
		}
	}}
	if _, err := Run(ctx, l.host, started, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(o.RunDir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// A program that touches its own file is the same program; one whose file was replaced or is gone is not known.
func TestTouchesItsOwnFile(t *testing.T) {
	l := newLab(t)
	z := newZooKeeper(t, l).in(t)
	for acts, want := range map[string]Kind{"touch": Proved, "replace": Unproved, "delete": Unproved} {
		o := z.options(animal{Program: "acts", Args: []string{"driver", "product", acts}}, l.options(t))
		own := filepath.Join(t.TempDir(), "own")
		hosttest.OK(t, copyFile(o.Binary, own))
		o.Binary = own
		e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{}, o))(t)
		if v := Judge(e, o.Rules); v.Kind != want || want == Unproved && !strings.Contains(v.Why, "file changed") {
			t.Errorf("%s: %s: %s", acts, v.Kind, v.Why)
		}
	}
}

// TestOutsideOfTheTree: a program that a daemon starts for the one that is proven has the probe's variables, and records. Nobody watches how it
// ends, and the daemon may serve another: it does not count, whoever is asked for. One of the tree does.
func TestOutsideOfTheTree(t *testing.T) {
	l := newLab(t)
	z := newZooKeeper(t, l).in(t)
	dir, worker := t.TempDir(), z.get("gpu")
	script := filepath.Join(dir, "asks")
	text := "#!/bin/sh\ncd '" + dir + "'\nenv >asked.new && mv asked.new asked\nwhile [ ! -e done ]; do sleep 0.02; done\n"
	hosttest.OK(t, os.WriteFile(script, []byte(text), 0o755))
	served := make(chan error, 1)
	go func() { // the daemon
		var env []byte
		var err error
		for env, err = os.ReadFile(filepath.Join(dir, "asked")); err != nil && t.Context().Err() == nil; env, err = os.ReadFile(filepath.Join(dir, "asked")) {
			time.Sleep(5 * time.Millisecond)
		}
		c := exec.Command(worker)
		c.Env = strings.Split(strings.TrimSpace(string(env)), "\n")
		served <- errors.Join(c.Run(), os.WriteFile(filepath.Join(dir, "done"), nil, 0o644))
	}()
	o := l.options(t)
	o.Binary, o.Child, o.Args, o.Nodes = script, "gpu", nil, z.nodes
	o.Env = o.Env.Set("LD_LIBRARY_PATH", z.libs)
	e, err := Run(t.Context(), l.host, proc.Runner{Grace: time.Second}, o)
	hosttest.OK(t, errors.Join(err, <-served))
	v := Judge(e, o.Rules)
	if v.Kind != Unproved || !strings.Contains(v.Why, "which neither the program nor one of its children started") || len(e.Processes) != 1 {
		t.Errorf("%s: %s\n%+v", v.Kind, v.Why, e)
	}
}

func TestBinaryErrorNamesThePathOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, gone := os.Stat(path)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{gone, path + ": no such file or directory"},
		{&os.PathError{Op: "open", Path: "/other", Err: os.ErrPermission}, path + ": open /other: permission denied"},
		{errors.New("is a script"), path + ": is a script"},
	} {
		e := BinaryError(path, tt.err)
		if tt.err == gone && !errors.Is(e, os.ErrNotExist) {
			t.Error("what it was is lost")
		}
		if got := e.Error(); got != tt.want && os.PathSeparator == '/' {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestScriptThatCannotRun: the system says of a script only that something is not there.
func TestScriptThatCannotRun(t *testing.T) {
	h := hosttest.Must(local.Host())(t)
	if h.OS != buildenv.Linux {
		need.Missing(t, "linux", "how a script starts is asked of Linux")
	}
	for text, want := range map[string]string{
		"#!/bin/sh\r\nexit\r\n":           "its first line ends with CR LF, which is part of the interpreter's name: write it with LF",
		"#! /usr/bin/pyton3 -u\nexit()\n": "its interpreter /usr/bin/pyton3 does not exist",
	} {
		path := filepath.Join(t.TempDir(), "script")
		hosttest.OK(t, os.WriteFile(path, []byte(text), 0o755))
		o := hosttest.Must(remember(h, path, h.Env))(t)
		hosttest.Equal(t, o.refused(syscall.ENOENT).Error(), path+": "+want, want)
	}
}

// ran is one run of a program.
type ran struct {
	out       string
	wall, cpu time.Duration // cpu: of all its threads, the probe's too
}

// overhead runs a program bare and under the probe in turn, and answers the medians of what each measure makes of the runs.
func overhead(b *testing.B, l *lab, program string, args []string, measures ...func(ran) float64) (bare, probed []float64) {
	b.Helper()
	env := l.host.Env.Set("LD_LIBRARY_PATH", filepath.Join(l.dir, "lib"))
	each := [2][][]float64{make([][]float64, len(measures)), make([][]float64, len(measures))}
	for range max(b.N, 5) {
		for way := range each {
			e, dir := env, b.TempDir()
			if way == 1 {
				e = e.Set(probe.InjectionVariable, l.probe.Library).Set(probe.DirVariable, dir).Set(probe.CUPTIVariable, l.cupti)
			}
			c := exec.Command(program, args...)
			c.Env = e.Entries()
			began := time.Now()
			out, err := c.Output()
			if err != nil {
				b.Fatalf("%s: %v: %s", program, err, out)
			}
			r := ran{string(out), time.Since(began), c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
			for i, m := range measures {
				each[way][i] = append(each[way][i], m(r))
			}
			records := hosttest.Must(probe.ReadDir(dir))(b)
			if recorded := len(records.Processes) == 1 && records.Processes[0].Launches() > 0; recorded != (way == 1) {
				b.Fatalf("recorded: %v, under the probe: %v", recorded, way == 1)
			}
		}
	}
	medians := func(all [][]float64) (out []float64) {
		for _, one := range all {
			slices.Sort(one)
			out = append(out, one[len(one)/2])
		}
		return out
	}
	return medians(each[0]), medians(each[1])
}

// BenchmarkOverhead says what the probe costs on the stand-in driver, whose CUPTI writes a record of the real one's size for each launch:
// go test -bench Overhead -benchtime 9x ./gpu/verify
func BenchmarkOverhead(b *testing.B) {
	l := newLab(b)
	b.Run("a launch", func(b *testing.B) {
		program := filepath.Join(b.TempDir(), "launches")
		if out, err := exec.Command("gcc", "-O2", filepath.Join("testdata", "launches.c"), "-o", program).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		bare, probed := overhead(b, l, program, []string{"1000000"}, func(r ran) float64 {
			return hosttest.Must(strconv.ParseFloat(strings.TrimSpace(r.out), 64))(b)
		})
		b.ReportMetric(bare[0], "bare-ns/launch")
		b.ReportMetric(probed[0], "probed-ns/launch")
		b.ReportMetric(probed[0]-bare[0], "added-ns/launch")
	})
	b.Run("the matmul sample", func(b *testing.B) {
		program := need.Given("matmul")
		if program == "" {
			need.Value(b, "matmul")
		}
		bare, probed := overhead(b, l, program, []string{"--device", "cuda", "--sizes", "256,512"},
			func(r ran) float64 { return r.wall.Seconds() * 1000 }, func(r ran) float64 { return r.cpu.Seconds() * 1000 })
		b.ReportMetric(bare[0], "bare-ms")
		b.ReportMetric(probed[0], "probed-ms")
		b.ReportMetric(probed[0]/bare[0], "times")
		b.ReportMetric(bare[1], "bare-cpu-ms")
		b.ReportMetric(probed[1], "probed-cpu-ms")
		b.ReportMetric(probed[1]/bare[1], "cpu-times")
	})
}
