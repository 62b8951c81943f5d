package verify

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu/probe"
)

// animal is one program of testdata/zoo with its true answer; zoo.toml says what each key means.
type animal struct {
	Story        string
	Program      string
	Script       string
	Link, Static bool
	Root         bool   // only root can do what it does
	Setuid       bool   // belongs to another user, as whom it runs
	Capable      bool   // carries capabilities
	Disk         string // full: where the records go
	Args         []string
	Env          map[string]string
	CUPTI        string
	Kernel       string
	Device       string
	Child        string
	Blind        bool          // the device nodes cannot be watched
	ExpectExit   int           `toml:"expect_exit"`
	MinLaunches  uint64        `toml:"min_launches"`
	MinTime      time.Duration `toml:"min_time"`
	MinChildren  int           `toml:"min_children"`
	Note         string        // a part of a note that is said
	Timeout      string
	Until        bool // it is stopped once it is proven
	Truth        string
	Verdict      Kind
	Launches     uint64 // that must be recorded; 0: one
	Why          string
}

var zooDir = filepath.Join("..", "..", "testdata", "zoo")

// zooKeeper compiles the animals and knows where they are.
type zooKeeper struct {
	t       *testing.T
	lab     *lab
	libs    string   // the directory of libcuda.so.1
	nodes   []string // the device nodes of this one's drivers
	private string   // another directory with a driver of its own
	*workshop
}

// workshop is what all keepers have in common.
type workshop struct {
	dir   string
	mutex sync.Mutex
	made  map[string]string
}

func newZooKeeper(t *testing.T, l *lab) *zooKeeper {
	return &zooKeeper{t: t, lab: l, workshop: &workshop{dir: hosttest.PlainDir(t), made: map[string]string{}}}
}

// in returns a keeper for one run, with a driver and a device of its own.
func (z *zooKeeper) in(t *testing.T) *zooKeeper {
	own := &zooKeeper{t: t, lab: z.lab, workshop: z.workshop}
	if z.lab == nil { // the machine's own driver
		own.libs = z.libs
		return own
	}
	libs, node := z.lab.room(t)
	own.libs, own.nodes = libs, []string{node}
	return own
}

func (z *zooKeeper) build(out, tool string, args ...string) string {
	z.t.Helper()
	path := filepath.Join(z.dir, out)
	z.mutex.Lock()
	defer z.mutex.Unlock()
	if z.made[out] != "" {
		return path
	}
	c := exec.Command(tool, append(args, "-o", path)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	if text, err := c.CombinedOutput(); err != nil {
		z.t.Fatalf("%s: %v: %s", c, err, text)
	}
	z.made[out] = path
	return path
}

// get returns where a name of zoo.toml is, and compiles it first.
func (z *zooKeeper) get(name string) string {
	z.t.Helper()
	source := func(n string) string { return filepath.Join(zooDir, n+".c") }
	strict := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread"}
	switch name {
	case "compat", "private": // below the lab, whose drivers count as real; see RealDriver for what the first name means
		dir := filepath.Join(filepath.Dir(z.libs), name)
		if z.private != dir {
			z.private = dir
			if err := errors.Join(os.MkdirAll(dir, 0o755), copyFile(filepath.Join(z.libs, "libcuda.so.1"), filepath.Join(dir, "libcuda.so.1")), makeNode(filepath.Join(dir, "node"))); err != nil {
				z.t.Fatal(err)
			}
			z.nodes = append(z.nodes, filepath.Join(dir, "node"))
		}
		return dir
	case "node":
		if len(z.nodes) == 0 { // a real driver's
			return "/dev/nvidiactl"
		}
		return z.nodes[0]
	case "opencl", "optix", "nvenc", "nvdec", "levelzero", "libva":
		file := map[string]string{"opencl": "libOpenCL.so.1", "optix": "libnvoptix.so.1", "nvenc": "libnvidia-encode.so.1", "nvdec": "libnvcuvid.so.1",
			"levelzero": "libze_loader.so.1", "libva": "libva.so.2"}[name]
		return copied(z.t, filepath.Join(z.lab.dir, "lib", "libcuda.so.1"), filepath.Join(z.libs, file))
	case "namesake": // of acts, by another file
		path := filepath.Join(hosttest.PlainDir(z.t), "acts")
		hosttest.OK(z.t, os.Symlink("/bin/true", path))
		return path
	case "renamed":
		return copied(z.t, filepath.Join(z.libs, "libcuda.so.1"), filepath.Join(z.libs, "libcompute.so"))
	case "sudo", "unshare", "chroot":
		if os.Geteuid() != 0 {
			need.Missing(z.t, "mount", "%s is tried by root only", name)
		}
		return need.Program(z.t, "sudo", name)
	case "mpirun":
		return need.Program(z.t, "mpi", name)
	case "public": // a program that any user may start
		return z.public("linked", 0o755)
	case "rust":
		need.Asked(z.t, "cargo", "crates")
		manifest := filepath.Join(zooDir, name, "Cargo.toml")
		if exec.Command("cargo", "fetch", "-q", "--locked", "--offline", "--manifest-path", manifest).Run() != nil {
			need.Missing(z.t, "crates", "cargo fetch --locked --manifest-path testdata/zoo/rust/Cargo.toml")
		}
		z.mutex.Lock()
		defer z.mutex.Unlock()
		if z.made[name] == "" {
			c := exec.Command("cargo", "build", "-q", "--locked", "--offline", "--manifest-path", manifest, "--target-dir", filepath.Join(z.dir, "rust-target"))
			if text, err := c.CombinedOutput(); err != nil {
				z.t.Fatalf("%s: %v: %s", c, err, text)
			}
			z.made[name] = filepath.Join(z.dir, "rust-target", "debug", "zoo-rust")
		}
		return z.made[name]
	case "lib":
		return z.libs
	case "cupti":
		if z.lab == nil {
			return os.Getenv("GPUBUILD_CUPTI")
		}
		return z.lab.cupti
	case "other_cupti": // the same in another file, as PyTorch's wheel has it
		path := filepath.Join(z.dir, "libcupti-other.so")
		hosttest.OK(z.t, copyFile(z.get("cupti"), path))
		return path
	case "broken_cupti":
		return z.build("libcupti-broken.so", "cc", append(strict, "-shared", "-fPIC", source("fake_cupti"))...)
	case "python":
		python, err := exec.Command(need.Tool(z.t, "python"), "-c", "import sys; print(sys.executable)").Output()
		if err != nil {
			need.Missing(z.t, "python", "%v", err)
		}
		return strings.TrimSpace(string(python))
	case "child.py":
		return hosttest.Must(filepath.Abs(filepath.Join(zooDir, name)))(z.t)
	case "goprogram":
		goTool := need.Tool(z.t, "go")
		path := filepath.Join(z.dir, name)
		z.mutex.Lock()
		defer z.mutex.Unlock()
		if z.made[name] == "" {
			c := exec.Command(goTool, "build", "-o", path, filepath.Join(zooDir, name, "main.go"))
			c.Env = append(os.Environ(), "CGO_ENABLED=0")
			if text, err := c.CombinedOutput(); err != nil {
				z.t.Fatalf("%s: %v: %s", c, err, text)
			}
			z.made[name] = path
		}
		return path
	case "plugin_lib", "fake_cuda", "fake_cupti", "preload_wait", "preload_device", "preload_memory", "preload_variable":
		return z.build(name+".so", "cc", append(strict, "-shared", "-fPIC", source(name))...)
	case "child_too":
		return z.build(name, "cc", append(strict, source("child"))...)
	}
	return z.build(name, "cc", append(strict, source(name))...)
}

// public is a program in a directory that every user can reach, with the driver beside it; mode may have the setuid bit, for nobody.
func (z *zooKeeper) public(program string, mode os.FileMode) string {
	z.t.Helper()
	if os.Geteuid() != 0 {
		need.Missing(z.t, "mount", "only root may make a program another user's")
	}
	dir := hosttest.Must(os.MkdirTemp("", "zoo-public-"))(z.t)
	z.t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, program)
	if err := errors.Join(os.Chmod(dir, 0o755), copyFile(filepath.Join(z.libs, "libcuda.so.1"), filepath.Join(dir, "libcuda.so.1")), makeNode(filepath.Join(dir, "node"))); err != nil {
		z.t.Fatal(err)
	}
	z.nodes = append(z.nodes, filepath.Join(dir, "node"))
	// In secure mode the loader takes a directory from the program alone: an absolute run path (ld.so(8)).
	args := []string{"-std=c11", "-O1", "-pthread", filepath.Join(zooDir, program+".c"), "-o", path, "-L" + dir, "-Wl,-rpath," + dir, "-Wl,--no-as-needed"}
	if program == "linked" {
		args = append(args, "-l:libcuda.so.1")
	}
	if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		z.t.Fatalf("%v: %s", err, text)
	}
	const nobody = 65534
	hosttest.OK(z.t, errors.Join(os.Chown(path, nobody, nobody), os.Chmod(path, mode)))
	return path
}

// full is a directory on a file system without room for another byte.
func (z *zooKeeper) full() string {
	z.t.Helper()
	dir := hosttest.PlainDir(z.t)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "none", dir).CombinedOutput(); err != nil {
		need.Missing(z.t, "mount", "%v: %s", err, out)
	}
	z.t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	f, err := os.Create(filepath.Join(dir, "filler"))
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	f.Close()
	return dir
}

var placeholder = regexp.MustCompile(`\{([a-z_.]+)\}`)

func (z *zooKeeper) fill(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(m string) string { return z.get(m[1 : len(m)-1]) })
}

func (z *zooKeeper) binary(a animal) string {
	strict := []string{"-std=c11", "-O1", filepath.Join(zooDir, a.Program+".c")}
	switch {
	case a.Root && os.Geteuid() != 0:
		need.Missing(z.t, "mount", "only root may do that")
	case a.Setuid:
		return z.public(a.Program, 0o755|os.ModeSetuid)
	case a.Capable:
		path := z.public(a.Program, 0o755)
		// VFS_CAP_REVISION_2, effective; CAP_SYS_NICE permitted: linux/capability.h
		data := []byte{1, 0, 0, 2, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		if out, err := exec.Command(need.Tool(z.t, "python"), "-c", "import os, sys; os.setxattr(sys.argv[1], 'security.capability', bytes.fromhex(sys.argv[2]))", path, hex.EncodeToString(data)).CombinedOutput(); err != nil {
			need.Missing(z.t, "mount", "capabilities are refused here: %v: %s", err, out)
		}
		return path
	case a.Script != "":
		f := hosttest.Must(os.CreateTemp(z.dir, "script-"))(z.t)
		hosttest.Must(f.WriteString(z.fill(a.Script)))(z.t)
		hosttest.OK(z.t, f.Chmod(0o700))
		hosttest.OK(z.t, f.Close())
		return f.Name()
	case a.Link:
		return z.build(a.Program, "cc", append(strict, "-L"+z.get("lib"), "-Wl,--no-as-needed", "-l:libcuda.so.1")...)
	case a.Static:
		if err := exec.Command("cc", append(strict, "-static", "-o", filepath.Join(z.dir, "probe-static"))...).Run(); err != nil {
			need.Missing(z.t, "cc", "no static C library")
		}
		return z.build(a.Program+"-static", "cc", append(strict, "-static")...)
	}
	return z.get(a.Program)
}

// readZoo reads zoo.toml.
func readZoo(t *testing.T) []animal {
	t.Helper()
	var zoo struct{ Animal []animal }
	meta := hosttest.Must(toml.DecodeFile(filepath.Join(zooDir, "zoo.toml"), &zoo))(t)
	if extra := meta.Undecoded(); len(extra) > 0 {
		t.Fatalf("unknown keys: %v", extra)
	}
	if len(zoo.Animal) < 240 {
		t.Errorf("only %d animals", len(zoo.Animal))
	}
	return zoo.Animal
}

// options are those of a run of an animal; o has what is the same for all.
func (z *zooKeeper) options(a animal, o Options) Options {
	z.t.Helper()
	o.Args = nil // after the placeholders of this table
	for _, arg := range a.Args {
		o.Args = append(o.Args, z.fill(arg))
	}
	if z.nodes != nil {
		o.Env = o.Env.Set("LD_LIBRARY_PATH", z.libs)
	}
	for name, value := range a.Env {
		o.Env = o.Env.Set(name, z.fill(value))
	}
	if a.CUPTI != "" {
		o.CUPTI = z.fill(a.CUPTI)
	}
	o.Binary = z.binary(a)
	a.asks(&o)
	if z.nodes != nil {
		o.Nodes = z.nodes
		if a.Blind {
			o.Nodes = []string{}
		}
	}
	if a.Disk == "full" {
		o.RunDir = z.full()
	}
	o.UntilProved = a.Until
	if a.Timeout != "" {
		var err error
		if o.Timeout, err = time.ParseDuration(a.Timeout); err != nil {
			z.t.Fatal(err)
		}
	}
	return o
}

// asks puts down what is asked of an animal's run.
func (a animal) asks(o *Options) {
	o.Device, o.Child, o.ExpectExit = a.Device, a.Child, a.ExpectExit
	o.MinLaunches, o.MinTime, o.MinChildren = a.MinLaunches, a.MinTime, a.MinChildren
	if a.Kernel != "" {
		o.Kernel = regexp.MustCompile(a.Kernel)
	}
}

// belies says how a verdict contradicts the truth. The truth holds the verdict, not the table: a wrong line in the table must not make a false verdict pass.
func (a animal) belies(v Verdict) string {
	asked := a.Truth == "gpu" || a.Truth == "elsewhere" && a.Child != ""
	switch {
	case v.Kind == Proved && !asked:
		return "FALSE PROVED: the truth is " + a.Truth
	case v.Kind == NotUsed && a.Truth != "cpu":
		return "FALSE NOT USED: the truth is " + a.Truth
	case v.Kind == OtherKernels && a.Truth != "other":
		return "FALSE OTHER KERNELS: the truth is " + a.Truth
	case v.Kind == Unproved && v.Why == "":
		return "Unproved, and nothing is named as missing"
	}
	return ""
}

func TestZoo(t *testing.T) {
	l := newLab(t)
	animals := readZoo(t)
	shipped := RealDriver(l.host)
	z := newZooKeeper(t, l)
	var mutex sync.Mutex
	stories, count, used := map[string]bool{}, map[string]int{}, map[string]bool{"zoo.h": true, "ptx.h": true, "zoo.toml": true}
	for _, a := range animals {
		if stories[a.Story] {
			t.Errorf("two animals are called %q", a.Story)
		}
		stories[a.Story] = true
		t.Run(a.Story, func(t *testing.T) {
			t.Parallel()
			z := z.in(t)
			o := z.options(a, l.options(t))
			e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o))(t)
			v := Judge(e, o.Rules)
			if n := survey(e, o.Rules).matched; n < a.Launches {
				t.Errorf("%d launches were recorded, of %d", n, a.Launches)
			}
			if v.Kind != a.Verdict || !strings.Contains(v.Why, z.fill(a.Why)) {
				t.Errorf("got %s: %s\nwant %s: …%s…\n%s\n%.4000s\n%s", v.Kind, v.Why, a.Verdict, a.Why, strings.Join(v.Lines, "\n"), hosttest.Must(json.Marshal(e))(t), o.Stderr.(*bytes.Buffer))
			}
			if notes := strings.Join(v.Notes, "\n"); !strings.Contains(notes, z.fill(a.Note)) {
				t.Errorf("no note …%s…: %s", a.Note, notes)
			}
			hosttest.Equal(t, a.belies(v), "")
			mutex.Lock()
			count[a.Truth+" → "+v.Kind.String()]++
			mutex.Unlock()

			// The shipped predicate looks at the same evidence afresh: on this driver nothing is proven, and nothing is said to be unused.
			again := Judge(Reconsider(e, shipped), o.Rules)
			if again.Kind != Unproved && again.Kind != NoDevice {
				t.Errorf("the shipped predicate says %s of a stand-in driver: %s", again.Kind, again.Why)
			}
			if v.Kind == Proved && !strings.Contains(again.Why, "stand-in") {
				t.Errorf("the stand-in is not named: %s", again.Why)
			}
		})
		used[a.Program+".c"], used[a.Program] = true, true
		for _, s := range append([]string{a.Script, a.CUPTI}, append(a.Args, mapValues(a.Env)...)...) {
			for _, m := range placeholder.FindAllStringSubmatch(s, -1) {
				used[m[1]], used[m[1]+".c"] = true, true
			}
		}
	}
	t.Cleanup(func() {
		var lines []string
		for what, n := range count {
			lines = append(lines, what+": "+strings.Repeat("#", n))
		}
		sort.Strings(lines)
		t.Logf("%d animals\n%s", len(animals), strings.Join(lines, "\n"))
	})
	entries := hosttest.Must(os.ReadDir(zooDir))(t)
	for _, e := range entries {
		if !used[e.Name()] {
			t.Errorf("%s is in the zoo, but in no line of zoo.toml", e.Name())
		}
	}
}

func copied(t *testing.T, from, to string) string {
	hosttest.OK(t, copyFile(from, to))
	return to
}

func mapValues(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// actsFile has random programs of testdata/zoo/acts.c and what was said of them on a real GPU, a line each: verdict, tabulator, words. `.ci/gpu` writes it.
var actsFile = filepath.Join("..", "..", "testdata", "gpu", "acts.txt")

// TestActsAsOnAGPU runs the random programs on the stand-in driver: what is said of them is what was said on a real GPU.
func TestActsAsOnAGPU(t *testing.T) {
	need.Asked(t, "long")
	data := hosttest.Must(os.ReadFile(actsFile))(t)
	l := newLab(t)
	z := newZooKeeper(t, l)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) < 100 {
		t.Fatalf("%s has only %d programs", actsFile, len(lines))
	}
	for _, line := range lines {
		want, words, _ := strings.Cut(line, "\t")
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			o := z.in(t).options(animal{Program: "acts", Args: strings.Fields(words)}, l.options(t))
			e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o))(t)
			v := Judge(e, o.Rules)
			hosttest.Equal(t, v.Kind.String(), want, v.Kind, v.Why, "on the GPU")
		})
	}
}

// TestControlOfAnEarlierProgram: a control that recorded for an earlier program is taken and named; a program that used no GPU, or ran another
// kernel, has one of its own behind it, and one for which the earlier control did not record has one in front.
func TestControlOfAnEarlierProgram(t *testing.T) {
	l := newLab(t)
	first, err := Run(context.Background(), l.host, proc.Runner{}, l.options(t, "gpu"))
	if err != nil || first.Control.Outcome != ControlRecorded {
		t.Fatalf("%+v, %v", first.Control, err)
	}
	earlier := first.Control
	earlier.With = "n1"
	failed := earlier
	failed.Outcome = ControlFailed
	for _, tt := range []struct {
		story   string
		args    []string
		control Control
		change  func(*Options)
		want    Kind
		started int
		with    string
	}{
		{"its kernel matches", []string{"gpu"}, earlier, nil, Proved, 0, "n1"},
		{"it ran on the CPU", []string{"cpu"}, earlier, nil, NotUsed, 1, "n1"},
		{"the driver is gone since", []string{"cpu"}, earlier, with("STANDIN_CUDA_INIT", "803"), Unproved, 1, "n1"},
		{"the earlier one failed", []string{"gpu"}, failed, nil, Proved, 1, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			o := l.options(t, tt.args...)
			if o.Control = tt.control; tt.change != nil {
				tt.change(&o)
			}
			started := 0
			count := func(c buildenv.Cmd, _ int) {
				if c.Path == o.Probe.Control || slices.Contains(c.Args, o.Probe.Control) {
					started++
				}
			}
			e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{Started: count}, o))(t)
			v := Judge(e, o.Rules)
			if v.Kind != tt.want || started != tt.started || e.Control.With != tt.with {
				t.Errorf("%s (%s), %d controls were started, recorded with %q", v.Kind, v.Why, started, e.Control.With)
			}
		})
	}
}

// TestInterprets: only the script by its whole path, behind options, is the binary: another file after a chdir has the same relative name.
func TestInterprets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story string
		line  string
		words []string
		want  bool
	}{
		{"as Linux starts it", "/p", []string{"/w/train.py", "x"}, true},
		{"with an option of its first line", "/p -u", []string{"-u", "/w/train.py"}, true},
		{"with an option of its own", "/p", []string{"-cimport x", "/w/train.py"}, false},
		{"started again without a word: it reads its standard input", "/p", nil, false},
		{"a title that left the words empty", "/p", []string{""}, true},
		{"a relative word", "/p", []string{"train.py"}, false},
		{"another script, which is given this one", "/p", []string{"other.py", "/w/train.py"}, false},
		{"code on the command line", "/p", []string{"-c", "import x", "/w/train.py"}, false},
		{"options alone", "/p -O -u", []string{"-O", "-u"}, false},
	} {
		hosttest.Equal(t, interprets(tt.line, tt.words, "/w/train.py"), tt.want, tt.story)
	}
}

// TestScript: a relative word is known only where the program was started, and nothing is guessed.
func TestScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := hosttest.Must(local.Host())(t)
	for _, name := range []string{"train.py", "sub/train.py"} {
		file := filepath.Join(dir, name)
		hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)))
	}
	script := func(exe, at string, words ...string) string {
		p := probe.Process{Identity: probe.Identity{Exe: exe}, Words: words, Dir: filepath.Join(dir, at)}
		return strings.TrimPrefix(script(h, p, dir), dir+"/")
	}
	for _, tt := range []struct{ story, got, want string }{
		{"by a relative word", script("/usr/bin/python3.11", "", "-u", "train.py", "x"), "train.py"},
		{"of the same name in another directory", script("/usr/bin/python3", "sub", "train.py"), ""},
		{"by its path, in another directory", script("/usr/bin/python3", "sub", filepath.Join(dir, "train.py")), "train.py"},
		{"behind an option with a value", script("/usr/bin/python3", "", "-c", "train.py"), ""},
		{"that is not there", script("/usr/bin/python3", "", "other.py"), ""},
		{"without words", script("/usr/bin/python3", ""), ""},
		{"of what is no interpreter", script("/usr/bin/app", "", "train.py"), ""},
	} {
		hosttest.Equal(t, tt.got, tt.want, "a script", tt.story)
	}
}

// TestTwoRefusedLoads: a program tries code for another device first, and that says nothing of a kernel that ran later; code that is refused
// after the kernel does, whatever was refused before.
func TestTwoRefusedLoads(t *testing.T) {
	load := func(correlation uint64) probe.Refusal {
		return probe.Refusal{RC: 209, Function: "cuModuleLoadData", Kind: probe.Code, Context: 1, Correlation: correlation}
	}
	for _, tt := range []struct {
		story string
		loads []probe.Refusal
		want  Kind
	}{
		{"both before it", []probe.Refusal{load(1), load(2)}, Proved},
		{"the later after it", []probe.Refusal{load(1), load(90)}, Unproved},
		{"the later is written first", []probe.Refusal{load(90), load(1)}, Unproved},
	} {
		e := proven()
		e.Processes[0].Refused = tt.loads
		for i := range e.Processes[0].Kernels {
			e.Processes[0].Kernels[i].Context, e.Processes[0].Kernels[i].Last = 1, 5
		}
		if v := Judge(e, Rules{}); v.Kind != tt.want {
			t.Errorf("%s: %s: %s", tt.story, v.Kind, v.Why)
		}
	}
}

func TestDeviceNodes(t *testing.T) {
	h, err := hosttest.Parse([]byte("os: linux\n-- /dev/nvidiactl --\n-- /dev/nvidia0 --\n-- /dev/nvidia-uvm --\n-- /dev/nvidia-caps/nvidia-cap1 --\n-- /dev/null --\n" +
		"-- /dev/dxg --\n-- /dev/kfd --\n-- /dev/dri/card0 --\n-- /dev/dri/renderD128 --\n-- /dev/nvmap --\n-- /dev/nvhost-gpu --\n-- /dev/nvhost-ctrl --\n-- /dev/nvgpu/igpu0/ctrl --\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/dev/dri/renderD128", "/dev/dxg", "/dev/kfd", "/dev/nvgpu/igpu0/ctrl", "/dev/nvhost-gpu", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvmap"}
	got := DeviceNodes(h)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The watcher reports which node was opened; where one cannot be watched, that it does not know.
func TestWatcherOfNodes(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	one, two, third := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "third")
	for _, p := range []string{one, two, third} {
		hosttest.OK(t, makeNode(p))
	}
	cat := need.Program(t, "sh", "cat")
	for i, tt := range []struct {
		nodes, opens []string
		watched      int
		want         []string
	}{
		{[]string{one, two}, []string{one}, 2, []string{one}},
		{[]string{one, two}, []string{two, one, two}, 2, []string{one, two}},
		{[]string{one, two}, []string{third}, 2, nil},
		{[]string{one, filepath.Join(dir, "none")}, []string{one}, -1, nil},
		{nil, []string{third}, 0, nil},
	} {
		record := filepath.Join(dir, "record"+string(rune('a'+i)))
		if out, err := exec.Command(l.probe.Watch, append([]string{record, strings.Join(tt.nodes, "\n"), cat}, tt.opens...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w, _, err := readWatch(l.host, record)
		if err != nil || !w.Complete || w.Watched != tt.watched || !slices.Equal(w.Nodes, tt.want) {
			t.Errorf("%q, and %q are opened: %+v, %v", tt.nodes, tt.opens, w, err)
		}
	}
}
