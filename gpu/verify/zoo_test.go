package verify

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/proc"
)

// animal is one program of testdata/zoo with its true answer; zoo.toml says what each key means.
type animal struct {
	Story          string
	Program        string
	Script         string
	Link, Static   bool
	Args           []string
	Env            map[string]string
	CUPTI          string
	Kernel         string
	Device         string
	Child          string
	Min            uint64
	Counterfactual bool
	ExpectExit     int `toml:"expect_exit"`
	Timeout        string
	Truth          string
	Verdict        Kind
	Why            string
}

var zooDir = filepath.Join("..", "..", "testdata", "zoo")

// zooKeeper compiles the animals and knows where they are.
type zooKeeper struct {
	t    *testing.T
	dir  string
	lab  *lab
	made map[string]string
}

func (z *zooKeeper) build(out, tool string, args ...string) string {
	z.t.Helper()
	path := filepath.Join(z.dir, out)
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

// get answers where a name of zoo.toml is, and compiles it first.
func (z *zooKeeper) get(name string) string {
	z.t.Helper()
	source := func(n string) string { return filepath.Join(zooDir, n+".c") }
	strict := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread"}
	switch name {
	case "lib":
		return filepath.Join(z.lab.dir, "lib")
	case "python":
		python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
		if err != nil {
			z.t.Skip("no python3")
		}
		return strings.TrimSpace(string(python))
	case "child.py":
		path, err := filepath.Abs(filepath.Join(zooDir, name))
		if err != nil {
			z.t.Fatal(err)
		}
		return path
	case "goprogram":
		goTool, err := exec.LookPath("go")
		if err != nil {
			z.t.Skip("no go")
		}
		path := filepath.Join(z.dir, name)
		if z.made[name] == "" {
			c := exec.Command(goTool, "build", "-o", path, filepath.Join(zooDir, name, "main.go"))
			c.Env = append(os.Environ(), "CGO_ENABLED=0")
			if text, err := c.CombinedOutput(); err != nil {
				z.t.Fatalf("%s: %v: %s", c, err, text)
			}
			z.made[name] = path
		}
		return path
	case "plugin_lib", "fake_cuda", "fake_cupti":
		return z.build(name+".so", "gcc", append(strict, "-shared", "-fPIC", source(name))...)
	case "child_too":
		return z.build(name, "gcc", append(strict, source("child"))...)
	}
	return z.build(name, "gcc", append(strict, source(name))...)
}

var placeholder = regexp.MustCompile(`\{([a-z_.]+)\}`)

func (z *zooKeeper) fill(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(m string) string { return z.get(m[1 : len(m)-1]) })
}

func (z *zooKeeper) binary(a animal) string {
	strict := []string{"-std=c11", "-O1", filepath.Join(zooDir, a.Program+".c")}
	switch {
	case a.Script != "":
		f, err := os.CreateTemp(z.dir, "script-")
		if err != nil {
			z.t.Fatal(err)
		}
		if _, err := f.WriteString(z.fill(a.Script)); err != nil {
			z.t.Fatal(err)
		}
		if err := f.Chmod(0o700); err != nil {
			z.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			z.t.Fatal(err)
		}
		return f.Name()
	case a.Link:
		return z.build(a.Program, "gcc", append(strict, "-L"+z.get("lib"), "-l:libcuda.so.1")...)
	case a.Static:
		if err := exec.Command("gcc", append(strict, "-static", "-o", filepath.Join(z.dir, "probe-static"))...).Run(); err != nil {
			z.t.Skip("no static C library")
		}
		return z.build(a.Program+"-static", "gcc", append(strict, "-static")...)
	}
	return z.get(a.Program)
}

func TestZoo(t *testing.T) {
	l := newLab(t)
	var zoo struct{ Animal []animal }
	meta, err := toml.DecodeFile(filepath.Join(zooDir, "zoo.toml"), &zoo)
	if err != nil {
		t.Fatal(err)
	}
	if extra := meta.Undecoded(); len(extra) > 0 {
		t.Fatalf("unknown keys: %v", extra)
	}
	if len(zoo.Animal) < 40 {
		t.Errorf("only %d animals", len(zoo.Animal))
	}
	shipped := RealDriver(l.host)
	z := &zooKeeper{t: t, dir: t.TempDir(), lab: l, made: map[string]string{}}
	stories, count, used := map[string]bool{}, map[string]int{}, map[string]bool{"zoo.h": true, "zoo.toml": true}
	for _, a := range zoo.Animal {
		if stories[a.Story] {
			t.Errorf("two animals are called %q", a.Story)
		}
		stories[a.Story] = true
		t.Run(a.Story, func(t *testing.T) {
			z.t = t
			o := l.options(t)
			o.Args = nil // after the placeholders of this table
			for _, arg := range a.Args {
				o.Args = append(o.Args, z.fill(arg))
			}
			for name, value := range a.Env {
				o.Env = o.Env.Set(name, z.fill(value))
			}
			if a.CUPTI != "" {
				o.CUPTI = z.fill(a.CUPTI)
			}
			o.Binary, o.Device, o.Child, o.Min, o.Counterfactual, o.ExpectExit = z.binary(a), a.Device, a.Child, a.Min, a.Counterfactual, a.ExpectExit
			if a.Kernel != "" {
				o.Kernel = regexp.MustCompile(a.Kernel)
			}
			if a.Timeout != "" {
				var err error
				if o.Timeout, err = time.ParseDuration(a.Timeout); err != nil {
					t.Fatal(err)
				}
			}
			e, err := Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o)
			if err != nil {
				t.Fatal(err)
			}
			v := Judge(e, o.Rules())
			if v.Kind != a.Verdict || !strings.Contains(v.Why, z.fill(a.Why)) {
				t.Errorf("got %s: %s\nwant %s: …%s…\n%s\n%+v\n%s", v.Kind, v.Why, a.Verdict, a.Why, strings.Join(v.Lines, "\n"), e, o.Stderr.(*bytes.Buffer))
			}
			// The truth holds the verdict, not the table: a wrong line in the table must not make a false verdict pass.
			asked := a.Truth == "gpu" || a.Truth == "elsewhere" && a.Child != ""
			if v.Kind == Proved && !asked {
				t.Errorf("FALSE PROVED: the truth is %s", a.Truth)
			}
			if v.Kind == NotUsed && a.Truth != "cpu" {
				t.Errorf("FALSE NOT USED: the truth is %s", a.Truth)
			}
			if v.Kind == OtherKernels && a.Truth != "other" {
				t.Errorf("FALSE OTHER KERNELS: the truth is %s", a.Truth)
			}
			if v.Kind == Unproved && v.Why == "" {
				t.Error("Unproved, and nothing is named as missing")
			}
			count[a.Truth+" → "+v.Kind.String()]++

			// The shipped predicate looks at the same evidence afresh: on this driver nothing is proven, and nothing is said to be unused.
			again := Judge(Reconsider(e, shipped), o.Rules())
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
	entries, err := os.ReadDir(zooDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !used[e.Name()] {
			t.Errorf("%s is in the zoo, but in no line of zoo.toml", e.Name())
		}
	}
	var lines []string
	for what, n := range count {
		lines = append(lines, what+": "+strings.Repeat("#", n))
	}
	sort.Strings(lines)
	t.Logf("%d animals\n%s", len(zoo.Animal), strings.Join(lines, "\n"))
}

func mapValues(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}
