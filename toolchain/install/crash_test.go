package install

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/toolchain/install/tree"
)

// childStep names the step before which the re-executed test binary is killed; "none" lets it finish.
const childStep, childDir = "GPUBUILD_INSTALL_CHILD_STEP", "GPUBUILD_INSTALL_CHILD_DIR"

func TestMain(m *testing.M) {
	if step := os.Getenv(childStep); step != "" {
		os.Exit(child(step, os.Getenv(childDir)))
	}
	os.Exit(m.Run())
}

// child installs the small toolkit into dir/cache and is killed, as by `kill -9`, when the fake world is asked for step.
func child(step, dir string) int {
	var t fatal
	c, s := small(&t)
	w := &fakeWorld{shelf: s, fail: func(what string, cmd buildenv.Cmd) error {
		if what == step {
			if what == "download" { // what pip had written by then
				for i, a := range cmd.Args {
					for file, data := range s {
						if a == "--dest" && strings.Contains(file, "13.4.88") {
							_ = os.WriteFile(filepath.Join(cmd.Args[i+1], file), data, 0o600)
						} else if a == "--dest" {
							_ = os.WriteFile(filepath.Join(cmd.Args[i+1], file), data[:len(data)/2], 0o600)
						}
					}
				}
			}
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				return err
			}
			select {}
		}
		return nil
	}}
	p, err := MakePlan(c, hostIn(dir), filepath.Join(dir, "cache"), Want{})
	if err == nil {
		_, err = p.Run(context.Background(), w, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(len(w.calls))
	return 0
}

// fatal is a testing.TB for code that runs outside a test.
type fatal struct{ testing.TB }

func (*fatal) Helper()           {}
func (*fatal) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func rerun(t *testing.T, step, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), childStep+"="+step, childDir+"="+dir)
	return c
}

// A toolkit is complete or absent: killed at any step, there is none, and the next run makes it whole.
func TestKilledAtEveryStep(t *testing.T) {
	linuxOnly(t)
	for _, step := range []string{"version", "download", "preprocess", "stub"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			cacheDir := filepath.Join(dir, "cache")
			if out, err := rerun(t, step, dir).CombinedOutput(); err == nil || len(out) > 0 {
				t.Fatalf("the child was not killed: %s, %v", out, err)
			}
			h := hostIn(dir)
			if in := Installed(h, cacheDir); len(in) > 0 {
				t.Fatalf("half a toolkit is seen: %+v", in)
			}
			if len(leftovers(t, cacheDir)) == 0 {
				t.Fatal("the child died too early to leave anything: the test shows nothing")
			}
			c, s := small(t)
			w := &fakeWorld{shelf: s}
			root, err := plan(t, c, h, cacheDir, Want{}).Run(context.Background(), w, nil)
			if err != nil {
				t.Fatal(err)
			}
			in := Installed(h, cacheDir)
			if len(in) != 1 || in[0].Root != root || len(leftovers(t, cacheDir)) > 0 {
				t.Fatalf("installed %+v, left %v", in, leftovers(t, cacheDir))
			}
			if bad := partial(t, in[0]); len(bad) > 0 {
				t.Errorf("%v", bad)
			}
			calls := strings.Join(w.calls, " ")
			if kept := step == "preprocess" || step == "stub"; kept && strings.Contains(calls, "download") {
				t.Errorf("fetched again: %s", calls)
			}
			if step == "download" && (strings.Contains(w.asked, "nvcc") || !strings.Contains(w.asked, "cupti")) { // nvcc's wheel was whole
				t.Errorf("asked for %s", w.asked)
			}
		})
	}
}

// TestNothingIsLeftOnceComplete: a run that is killed after the marker is written leaves nothing, for no later run cleans up.
func TestNothingIsLeftOnceComplete(t *testing.T) {
	linuxOnly(t)
	dir := t.TempDir()
	c, s := small(t)
	h, cacheDir := hostIn(dir), filepath.Join(dir, "cache")
	for _, d := range []string{toolkitsDir, wheelsDir} {
		if err := os.MkdirAll(filepath.Join(cacheDir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := plan(t, c, h, cacheDir, Want{}).install(context.Background(), &fakeWorld{shelf: s}, Installation{}, func(tree.Event) {}); err != nil {
		t.Fatal(err)
	}
	if in, left := Installed(h, cacheDir), leftovers(t, cacheDir); len(in) != 1 || len(left) > 0 {
		t.Errorf("installed %+v, left %v", in, left)
	}
}

func TestTwoProcessesAtOnce(t *testing.T) {
	linuxOnly(t)
	dir := t.TempDir()
	hostIn(dir) // its programs are there before both start
	var children []*exec.Cmd
	var outs []*strings.Builder
	for i := 0; i < 3; i++ {
		c, out := rerun(t, "none", dir), &strings.Builder{}
		c.Stdout, c.Stderr = out, out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children, outs = append(children, c), append(outs, out)
	}
	worked := 0
	for i, c := range children {
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s", err, outs[i])
		}
		if strings.TrimSpace(outs[i].String()) != "0" {
			worked++
		}
	}
	cacheDir := filepath.Join(dir, "cache")
	if in := Installed(hostIn(dir), cacheDir); worked != 1 || len(in) != 1 || len(leftovers(t, cacheDir)) > 0 {
		t.Errorf("%d did the work, installed %+v, left %v", worked, in, leftovers(t, cacheDir))
	}
}

// TestKilledAtAnyTime: an installation is killed at any time; the next one makes the toolkit whole. GPUBUILD_TEST=kill=N says how often.
func TestKilledAtAnyTime(t *testing.T) {
	linuxOnly(t)
	seed := need.Count(t, "seed", 1)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	began := time.Now()
	if out, err := rerun(t, "none", newDir(t)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole := time.Since(began)
	killed := 0
	for n := range need.Count(t, "kill", 5) {
		dir := newDir(t)
		c := rerun(t, "none", dir)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { _ = c.Wait(); close(done) }()
		select {
		case <-time.After(time.Duration(r.Int64N(int64(whole)))):
			killed++
			_ = c.Process.Kill()
		case <-done:
		}
		<-done
		if out, err := rerun(t, "none", dir).CombinedOutput(); err != nil {
			t.Fatalf("seed %d, round %d: the next one: %v\n%s", seed, n, err, out)
		}
		h, cacheDir := hostIn(dir), filepath.Join(dir, "cache")
		in := Installed(h, cacheDir)
		if len(in) != 1 || len(rest(h, cacheDir)) > 0 || len(leftovers(t, cacheDir)) > 0 {
			t.Fatalf("seed %d, round %d: installed %+v, left %v", seed, n, in, leftovers(t, cacheDir))
		}
		if bad := partial(t, in[0]); len(bad) > 0 {
			t.Errorf("seed %d, round %d: %v", seed, n, bad)
		}
	}
	t.Logf("%d rounds, seed %d; %d killed in time", need.Count(t, "kill", 5), seed, killed)
	if killed == 0 {
		t.Error("nothing was killed in time: nothing was tested")
	}
}

// newDir is a directory with the programs of the fake machine in it.
func newDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	hostIn(dir)
	return dir
}
