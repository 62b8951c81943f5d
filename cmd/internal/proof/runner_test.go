//go:build linux

package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// TestRunnersBesideEachOther starts the runner as nextest does: many at once, of a few programs, each with its own streams and status.
func TestRunnersBesideEachOther(t *testing.T) {
	t.Parallel()
	gcc := need.Tool(t, "cc")
	h := hosttest.Must(local.Host())(t)
	dir := t.TempDir()
	data := filepath.Join("..", "..", "..", "testdata")
	compile := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(gcc, append([]string{"-O1", "-pthread"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	lib := filepath.Join(dir, "standin")
	hosttest.OK(t, os.Mkdir(lib, 0o700))
	for source, name := range map[string]string{"cuda.c": "libcuda.so.1", "cupti.c": "libcupti.so.13"} {
		compile("-shared", "-fPIC", "-Wl,-soname,"+name, filepath.Join(data, "standin", source), "-o", filepath.Join(lib, name), "-ldl")
	}
	// a driver and a device of its own for each run, which would else see the others open theirs
	driver := hosttest.Must(os.ReadFile(filepath.Join(lib, "libcuda.so.1")))(t)
	room := func(n int, name string) string {
		to := filepath.Join(lib, fmt.Sprint(name, n))
		if err := errors.Join(os.Mkdir(to, 0o700), os.WriteFile(filepath.Join(to, "libcuda.so.1"), driver, 0o700), os.WriteFile(filepath.Join(to, "node"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	programs := map[string]verify.Kind{"gpu": verify.Proved, "cpu": verify.NotUsed, "fill": verify.OtherKernels, "status": verify.Unproved}
	for name := range programs {
		compile("-std=c11", filepath.Join(data, "zoo", name+".c"), "-o", filepath.Join(dir, name))
	}
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_AUDIT", probe.InjectionVariable} {
		h.Env = h.Env.Unset(name)
	}
	p, err := probe.Build(context.Background(), h, proc.Runner{}, filepath.Join(dir, "cache"), probe.Compiler{Path: gcc}, probe.CUDA)
	if err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(dir, "run")
	hosttest.OK(t, os.Mkdir(runs, 0o700))
	state := hosttest.Must(json.Marshal(runnerState{Dir: runs, Devices: true,
		Task: Task{Probe: p, CUPTI: filepath.Join(lib, "libcupti.so.13"), Asked: receipt.Asked{Expect: "gpu"}}}))(t)
	file := filepath.Join(runs, "state.json")
	hosttest.OK(t, os.WriteFile(file, state, 0o600))
	const each = 3
	var all sync.WaitGroup
	for name := range programs {
		for n := range each {
			host, libs := h, room(n, name)
			host.Env = h.Env.Set("LD_LIBRARY_PATH", libs)
			all.Add(1)
			go func() {
				defer all.Done()
				var out, errs bytes.Buffer
				m := &session.Machine{
					Host: host, Runner: proc.Runner{}, Shell: &console.Shell{Out: &out, Err: &errs}, Stdin: strings.NewReader(""), CacheDir: filepath.Join(dir, "cache"),
					Nodes: func(buildenv.Host) []string { return []string{filepath.Join(libs, "node")} },
					Real: func(buildenv.Host) func(verify.Loaded) (bool, string) {
						return func(l verify.Loaded) (bool, string) {
							return strings.HasPrefix(l.LibCUDA, lib), "not the stand-in of this test"
						}
					},
				}
				err := Runner(context.Background(), m, []string{file, filepath.Join(dir, name)}, nil)
				want := error(nil)
				if name == "status" {
					want = exit.Code(3)
				}
				if !errors.Is(err, want) {
					t.Errorf("%s: ended with %v, want %v", name, err, want)
				}
				if errs.Len() > 0 {
					t.Errorf("%s: the runner said something of its own: %s", name, errs.String())
				}
			}()
		}
	}
	all.Wait()
	proofs, _ := hosttest.Must2(readProofs(runs))(t)
	if len(proofs) != each*len(programs) {
		t.Fatalf("%d proofs of %d processes", len(proofs), each*len(programs))
	}
	r := Request{Session: &session.Session{Machine: &session.Machine{Host: h}, Line: cargo.Line{Verb: "test"}}}
	for name := range programs {
		r.Programs = append(r.Programs, cargorun.Program{Path: filepath.Join(dir, name), Name: name, Kind: "test", Target: "test"})
	}
	for _, row := range r.tested(proofs, nil, false) {
		// Others open the driver meanwhile: that this one did not cannot always be told, and is then not said.
		unsure := row.name == "cpu" && row.kind == verify.Unproved && slices.ContainsFunc(proofs, func(p Proof) bool {
			return filepath.Base(p.Program) == row.name && strings.Contains(p.Verdict.Why, "the driver was opened while it ran")
		})
		if row.processes != each || row.kind != programs[row.name] && !unsure {
			t.Errorf("%s: %s of %d processes, want %s", row.name, row.kind, row.processes, programs[row.name])
		}
		if row.name == "gpu" && fmt.Sprint(row.kernels) != "[{matmul 3}]" {
			t.Errorf("%s: %v", row.name, row.kernels)
		}
	}
}

// A test program that is asked for its tests is run as cargo would have, without the probe, and shows nothing: neither that it used the GPU
// nor that it did not.
func TestAListOfTestsIsNoRun(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "multiply-1")
	hosttest.OK(t, os.WriteFile(binary, []byte("#!/bin/sh\necho \"[$*] [$GPUBUILD_PROBE_DIR]\"\n"), 0o700))
	h := hosttest.Must(local.Host())(t)
	for _, tt := range []struct {
		tests  bool
		args   []string
		listed bool
	}{
		{true, []string{"--list", "--format", "terse"}, true},
		{true, []string{"--help"}, true},
		{true, []string{"--exact", "a::b", "--nocapture"}, false},
		{false, []string{"--list"}, false}, // a program's own word
	} {
		t.Run(fmt.Sprint(tt.tests, tt.args), func(t *testing.T) {
			runs := t.TempDir()
			state, err := json.Marshal(runnerState{Dir: runs, Devices: true, Tests: tt.tests, Task: Task{Timeout: 1, Asked: receipt.Asked{Expect: "gpu"}}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(runs, "state.json")
			hosttest.OK(t, os.WriteFile(file, state, 0o600))
			var out bytes.Buffer
			m := &session.Machine{Host: h, Runner: proc.Runner{}, Shell: &console.Shell{Out: &out, Err: &out}, Stdin: strings.NewReader(""), CacheDir: filepath.Join(dir, "cache"), Real: verify.RealDriver}
			err = Runner(context.Background(), m, append([]string{file, binary}, tt.args...), nil)
			_, listed, readErr := readProofs(runs)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if want := fmt.Sprintf("%v []\n", tt.args); tt.listed && (err != nil || out.String() != want) {
				t.Errorf("%v, %q, want %q", err, out.String(), want)
			}
			hosttest.Equal(t, (len(listed) == 1 && listed[0] == binary), tt.listed, "listed", listed)
			if !tt.listed {
				return
			}
			s := &session.Session{Machine: &session.Machine{Host: h}, Line: cargo.Line{Verb: "test"}}
			s.Config.Test.Value = &config.Tested{Marked: config.Marked{GPU: []string{"multiply"}}}
			r := Request{Session: s, Programs: []cargorun.Program{{Path: binary, Name: "multiply", Kind: "test", Target: "test"}}}
			rows := r.tested(nil, listed, false)
			if missed := r.missedMarks(rows); len(missed) != 1 || !strings.Contains(missed[0], "none of its tests was run") {
				t.Errorf("%q", missed)
			}
			hosttest.Equal(t, worstOf(rows, wanted{all: true, cpu: true}), exit.Unproved, "of a run that was to be on the CPU")
		})
	}
}

// Without a device the program's time is limited, too, and an interrupted runner leaves it to the run to say so.
func TestRunnerWithoutDevice(t *testing.T) {
	t.Parallel()
	heard := make(chan os.Signal, 1) // a job of a shell's background ignores SIGINT, and so would the program
	signal.Notify(heard, os.Interrupt)
	t.Cleanup(func() { signal.Stop(heard) })
	h := hosttest.Must(local.Host())(t)
	binary := filepath.Join(t.TempDir(), "slow")
	hosttest.OK(t, os.WriteFile(binary, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700))
	runs := t.TempDir()
	s := runnerState{Dir: runs, Task: Task{Timeout: 50 * time.Millisecond}}
	state := hosttest.Must(json.Marshal(s))(t)
	file := filepath.Join(runs, "state.json")
	hosttest.OK(t, os.WriteFile(file, state, 0o600))
	var out bytes.Buffer
	m := &session.Machine{Host: h, Runner: proc.Runner{}, Shell: &console.Shell{Out: &out, Err: &out}, Stdin: strings.NewReader("")}
	ran := Runner(context.Background(), m, []string{file, binary}, nil)
	if !errors.Is(ran, exit.Code(exit.Interrupted)) { // by our SIGINT
		t.Errorf("ended with %v", ran)
	}
	r := Request{Session: &session.Session{Machine: m, Line: cargo.Line{Verb: "run"}}, Options: Options{Timeout: time.Second}}
	if _, timedOut, err := r.judge(runs, s, ran); !timedOut || !errors.Is(err, exit.Code(exit.Unproved)) ||
		!strings.Contains(out.String(), "stopped after 1s (--gpu-timeout)") {
		t.Errorf("%v, %v: %s", timedOut, err, out.String())
	}
	out.Reset()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Runner(ctx, m, []string{file, binary}, nil); !errors.Is(err, exit.Code(exit.Interrupted)) || out.Len() > 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A filter that matches no test runs nothing: that is no proof of the CPU.
func TestAFilterThatMatchesNoTest(t *testing.T) {
	rustc := need.Tool(t, "rustc")
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "t.rs"), filepath.Join(dir, "t")
	hosttest.OK(t, os.WriteFile(source, []byte("#[test] fn adds() { assert_eq!(1 + 1, 2); }\n"), 0o600))
	if out, err := exec.Command(rustc, "--test", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := hosttest.Must(local.Host())(t)
	m := &session.Machine{Host: h, Runner: proc.Runner{}}
	for args, want := range map[string]bool{"": false, "adds": false, "nothing_matches": true, "--exact add": true, "--skip adds": true} {
		if got := ranNoTest(context.Background(), m, verify.Options{Binary: binary, Args: strings.Fields(args), Env: h.Env}); got != want {
			t.Errorf("%q: %v", args, got)
		}
	}
	if ranNoTest(context.Background(), m, verify.Options{Binary: rustc, Env: h.Env}) {
		t.Error("a program that is no test ran no test")
	}
}
