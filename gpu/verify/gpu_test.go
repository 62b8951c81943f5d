//go:build gpu && linux

package verify

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/local"
	"gpubuild/buildenv/need"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu/probe"
)

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// TestGPU runs the zoo on this machine's real GPU under the shipped predicate: the same truths as on the stand-in driver. What only a stand-in can be told to
// do is left out. GPUBUILD_TEST=traces=DIR names a directory to which each run's evidence goes, for testdata/traces.
func TestGPU(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	module := kernelModule(h)
	if module == "" && !h.IsWSL() {
		t.Fatal("the tag gpu was given, and no NVIDIA kernel module is loaded here")
	}
	cupti := os.Getenv("GPUBUILD_CUPTI")
	if cupti == "" {
		if found, err := filepath.Glob("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.[0-9][0-9]"); err == nil && len(found) > 0 {
			cupti = found[0]
		}
	}
	if cupti == "" {
		t.Fatal("no CUPTI: GPUBUILD_CUPTI names none, and /usr/local/cuda has none")
	}
	gcc := need.CC(t)
	p, err := probe.Build(context.Background(), h, proc.Runner{}, t.TempDir(), probe.Compiler{Path: gcc})
	if err != nil {
		t.Fatal(err)
	}
	z := newZooKeeper(t, nil)
	z.libs = filepath.Dir(driverOf(t))
	real, count := RealDriver(h), map[Kind]int{}
	for i, a := range readZoo(t) {
		t.Run(a.Story, func(t *testing.T) {
			if why := a.standinOnly(); why != "" {
				need.Missing(t, "no-gpu", "%s", why)
			}
			z := z.in(t)
			env := h.Env
			for _, n := range []string{"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_AUDIT", probe.InjectionVariable} {
				env = env.Unset(n)
			}
			o := z.options(a, Options{Env: env, CUPTI: cupti, Probe: p, Real: real, RunDir: t.TempDir(), Timeout: 2 * time.Minute})
			e, err := Run(context.Background(), h, proc.Runner{Grace: time.Second}, o)
			if err != nil {
				t.Fatal(err)
			}
			v := Judge(e, o.Rules())
			count[v.Kind]++
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
	t.Logf("driver %s, %s: %v", module, cupti, count)
}

// driverOf is the file that the loader takes for libcuda.so.1.
func driverOf(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`libcuda\.so\.1 \(.*x86-64.*\) => (\S+)`).FindSubmatch(out)
	if m == nil {
		t.Fatal("the loader knows no libcuda.so.1")
	}
	return string(m[1])
}

// standinOnly says why an animal cannot be run on a real driver; empty: it can.
func (a animal) standinOnly() string {
	for name := range a.Env {
		if strings.HasPrefix(name, "STANDIN_") {
			return name + " is the stand-in driver's"
		}
	}
	for _, word := range append([]string{a.Script, a.Device, a.Env["LD_LIBRARY_PATH"]}, a.Args...) {
		for _, of := range []string{"{compat}", "{public}", "GPU-"} {
			if strings.Contains(word, of) {
				return of + " is a place or a number of the stand-in's"
			}
		}
	}
	switch {
	case a.Setuid, a.Capable, a.Disk != "":
		return "it is built for the place of the stand-in driver"
	case strings.HasPrefix(a.Program, "fake_"), a.CUPTI != "":
		return "it brings a driver of its own"
	}
	return ""
}
