//go:build gpu && linux

package verify

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/probe"
)

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// TestGPU runs the zoo on this machine's real GPU under the shipped predicate: the same truths as on the stand-in driver. What only a stand-in can be told to
// do is left out. GPUBUILD_TEST=traces=DIR names a directory to which each run's evidence goes, for testdata/traces,
// raw=DIR one for what the probe wrote, and libcuda=FILE the driver.
func TestGPU(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	module := driver.Kernel(h).Version
	if module == "" {
		module = "unknown"
	}
	cupti := os.Getenv("GPUBUILD_CUPTI") // the one that the product took, which .ci/gpu reads in a receipt
	if cupti == "" {
		t.Fatal("no CUPTI: GPUBUILD_CUPTI names none")
	}
	gcc := need.CC(t)
	p, err := probe.Build(context.Background(), h, proc.Runner{}, t.TempDir(), probe.Compiler{Path: gcc}, probe.CUDA)
	if err != nil {
		t.Fatal(err)
	}
	z := newZooKeeper(t, nil)
	z.libs = filepath.Dir(driverOf(t))
	real, count := RealDriver(h), map[Kind]int{}
	animals := readZoo(t)
	slices.SortStableFunc(animals, func(a, b animal) int { return strings.Compare(a.heavy(), b.heavy()) }) // what may take all of the time comes last
	var mutex sync.Mutex
	t.Cleanup(func() { t.Logf("driver %s, %s: %v", module, cupti, count) })
	for i, a := range animals {
		t.Run(a.Story, func(t *testing.T) {
			if why := a.standinOnly(); why != "" {
				need.Missing(t, "no-gpu", "%s", why)
			}
			if a.Verdict != NotUsed && a.Verdict != NoDevice { // those must not see others open the GPU
				t.Parallel()
			}
			if end, ok := t.Deadline(); ok && time.Until(end) < 20*time.Second {
				need.Missing(t, "no-gpu", "no time was left: this GPU is slow to start; -test.timeout gives more")
			}
			z := z.in(t)
			env := h.Env
			for _, n := range []string{"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_AUDIT", probe.InjectionVariable} {
				env = env.Unset(n)
			}
			if a.heavy() != "" { // ptxas took 49 s and 3 GB for ten thousand
				env = env.Set("ZOO_KERNELS", "500")
			}
			o := z.options(a, Options{Env: env, CUPTI: cupti, Probe: p, Real: real, RunDir: t.TempDir(), Timeout: 2 * time.Minute})
			if raw := need.Given("raw"); raw != "" {
				o.RunDir, o.Keep = filepath.Join(raw, fmt.Sprintf("%03d", i)), true
				hosttest.OK(t, os.MkdirAll(o.RunDir, 0o700))
			}
			e, err := Run(context.Background(), h, proc.Runner{Grace: time.Second}, o)
			if err != nil {
				t.Fatal(err)
			}
			v := Judge(e, o.Rules)
			mutex.Lock()
			count[v.Kind]++
			mutex.Unlock()
			if v.Kind != a.Verdict {
				t.Errorf("got %s: %s\nwant %s\n%s", v.Kind, v.Why, a.Verdict, strings.Join(v.Lines, "\n"))
			}
			if wrong := a.belies(v); wrong != "" {
				t.Error(wrong)
			}
			if dir := need.Given("traces"); dir != "" {
				name := fmt.Sprintf("%03d-%.40s.json.gz", i, notName.ReplaceAllString(strings.ToLower(a.Story), "-"))
				if err := (trace{traceSchema, a.Story, v.Kind, v.Why, e}).write(filepath.Join(dir, module, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// heavy says that an animal takes minutes on a real GPU.
func (a animal) heavy() string {
	if a.Program == "many" {
		return a.Program
	}
	return ""
}

// driverOf is the file that the loader takes for libcuda.so.1: the one that .ci/gpu read in a receipt, else by the loader's own order.
func driverOf(t *testing.T) string {
	t.Helper()
	dirs := append([]string{filepath.Dir(need.Given("libcuda"))}, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	if out, err := exec.Command("/sbin/ldconfig", "-p").Output(); err == nil {
		for _, m := range regexp.MustCompile(`libcuda\.so\.1 \(.*(?:x86-64|AArch64).*\) => (\S+)`).FindAllSubmatch(out, -1) {
			dirs = append(dirs, filepath.Dir(string(m[1])))
		}
	}
	for _, dir := range append(dirs, "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu") {
		if path := filepath.Join(dir, "libcuda.so.1"); filepath.IsAbs(path) {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	t.Fatal("no libcuda.so.1")
	return ""
}

// standinOnly says why an animal cannot be run on a real driver; empty: it can.
func (a animal) standinOnly() string {
	for name := range a.Env {
		if strings.HasPrefix(name, "STANDIN_") {
			return name + " is the stand-in driver's"
		}
	}
	for _, word := range append([]string{a.Script, a.Device, a.Env["LD_LIBRARY_PATH"]}, a.Args...) {
		for _, of := range []string{"{compat}", "{public}", "{private}", "{opencl}", "{optix}", "{nvenc}", "{nvdec}", "{levelzero}", "{libva}", "{renamed}", "GPU-", "namespace=", "atexit", "destructor"} {
			if strings.Contains(word, of) { // a real driver launches nothing once exit handlers run
				return of + " is of the stand-in's"
			}
		}
		for _, of := range []string{"say=", "err=", "wide=", "product=", "fill="} {
			if strings.HasPrefix(word, of) {
				return "it is judged alike on every driver"
			}
		}
	}
	switch {
	case slices.Contains(a.Args, "finish"):
		return "a real driver's own threads go on, and the program never ends"
	case slices.ContainsFunc(a.Args, func(w string) bool {
		return slices.Contains([]string{"nothreads", "nofiles", "closeall", "sandbox", "allow", "twin"}, w)
	}):
		return "a real driver does not work there"
	case slices.Contains(a.Args, "destroy"):
		return "a real driver does not destroy the context that is current"
	case slices.Contains(a.Args, "small"), slices.Contains(a.Args, "smallexit"):
		return "a real driver needs more stack than that"
	case a.Setuid, a.Capable, a.Blind, a.Disk != "":
		return "it is built for the place of the stand-in driver"
	case strings.HasPrefix(a.Program, "fake_"), a.CUPTI != "":
		return "it brings a driver of its own"
	}
	return ""
}

// acts are words of acts.c that a real driver understands, each as often as it is to be drawn.
var acts = strings.Fields(`product product product product launch launch launch fill sync sync stream own event query read read later
	refuse refuse finalize disable reset destroy cpu nap=20 in=0 in=1 joins mark marked elsewhere kept streams=3 streams=300
	alloc=70368744177664 try=70368744177664 try=1048576 tryload=0 tryload=1 ex together exec noise=3 lots=1 nospace handles vanish name=worker`)

// endings are how such a program ends; -: it returns from main.
var endings = strings.Fields("- - - - - - exit=0 _exit=0 _exit=0 _exit=0 quick=0 exit=3 abort kill")

// randomActs is the nth random program, the same on every machine.
func randomActs(n int) []string {
	r := rand.New(rand.NewSource(int64(n)))
	words := []string{"driver"}
	block := ""
	for range 1 + r.Intn(6) {
		switch {
		case block != "" && r.Intn(2) == 0:
			words, block = append(words, "end"), ""
		case block == "" && r.Intn(12) == 0:
			block = pick(r, "atexit", "thread", "fork", "leave", "spawn")
			words = append(words, block)
			if block == "spawn" {
				words = append(words, "driver")
			}
			continue
		}
		words = append(words, pick(r, acts...))
	}
	if r.Intn(3) > 0 { // most launch something
		at := 1 + r.Intn(len(words))
		words = slices.Insert(words, at, pick(r, "product", "launch", "ex"))
	}
	if block != "" {
		words = append(words, "end")
	}
	if end := pick(r, endings...); end != "-" {
		words = append(words, end)
	}
	return words
}

// TestGPUActs runs the random programs of TestActsAsOnAGPU on this machine's real GPU, many at once, and writes what was said of them into traces=DIR/acts.txt,
// for testdata/gpu. What one opens the others see, so that what was not used on the stand-in may be not proven here.
func TestGPUActs(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := need.Given("traces")
	if dir == "" {
		t.Fatal("GPUBUILD_TEST=traces=DIR names no directory")
	}
	p, err := probe.Build(context.Background(), h, proc.Runner{}, t.TempDir(), probe.Compiler{Path: need.CC(t)}, probe.CUDA)
	if err != nil {
		t.Fatal(err)
	}
	z := newZooKeeper(t, nil)
	z.libs = filepath.Dir(driverOf(t))
	env, real := h.Env, RealDriver(h)
	for _, n := range []string{"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_AUDIT", probe.InjectionVariable} {
		env = env.Unset(n)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(dir, "acts.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	var mutex sync.Mutex
	t.Run("all", func(t *testing.T) {
		for n := range 400 {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				if end, ok := t.Deadline(); ok && time.Until(end) < 15*time.Second {
					need.Missing(t, "no-gpu", "no time was left")
				}
				words := randomActs(n)
				o := z.in(t).options(animal{Program: "acts", Args: words},
					Options{Env: env, CUPTI: os.Getenv("GPUBUILD_CUPTI"), Probe: p, Real: real, RunDir: t.TempDir(), Timeout: 10 * time.Second})
				e, err := Run(context.Background(), h, proc.Runner{Grace: time.Second}, o)
				if err != nil {
					t.Fatal(err)
				}
				v := Judge(e, o.Rules)
				mutex.Lock()
				defer mutex.Unlock()
				if _, err := fmt.Fprintf(said, "%s\t%s\t%s\n", v.Kind, strings.Join(words, " "), v.Why); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
