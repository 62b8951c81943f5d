package app_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/app"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/install"
)

// TestMain makes this test binary act as gpubuild, as a gpubuild that takes the stand-in driver of testdata/standin for a real one, and as the few
// fake tools that no machine has.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpubuild":         func() { os.Exit(app.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
		"cargo-gpubuild":   func() { os.Exit(app.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
		"gpubuild-standin": func() { os.Exit(app.MainWith(os.Args, os.Stdin, os.Stdout, os.Stderr, standinIsReal)) },
		"counting-cargo":   countingCargo,
		"standin-nvcc":     standinNVCC,
		"changing-cargo":   changingCargo,
		"crashing-nvcc":    func() { fmt.Fprintln(os.Stderr, "nvcc: internal error"); os.Exit(139) },
	})
}

// countingCargo is the real cargo, and writes down when it is asked for a unit graph.
func countingCargo() {
	c := exec.Command(os.Getenv("REAL_CARGO"), os.Args[1:]...)
	if home := os.Getenv("REAL_RUSTUP_HOME"); home != "" { // the homes that gpubuild sees are the test's own
		c.Env = append(os.Environ(), "RUSTUP_HOME="+home, "RUSTUP_TOOLCHAIN="+os.Getenv("REAL_TOOLCHAIN"))
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	for _, a := range os.Args {
		if a == "--unit-graph" {
			f, err := os.OpenFile(os.Getenv("COUNT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				panic(err)
			}
			fmt.Fprintln(f, "asked")
			f.Close()
		}
	}
	if err := c.Run(); err != nil {
		os.Exit(c.ProcessState.ExitCode())
	}
}

// changingCargo is the real cargo, while somebody writes into the manifest that $CHANGE names: once, when cargo is asked for a unit graph.
func changingCargo() {
	for _, a := range os.Args {
		if path := os.Getenv("CHANGE"); a == "--unit-graph" && path != "" {
			data, err := os.ReadFile(path)
			if err == nil && !bytes.Contains(data, []byte("# mine\n")) {
				err = os.WriteFile(path, append(data, "# mine\n"...), 0o644)
			}
			if err != nil {
				panic(err)
			}
		}
	}
	c := exec.Command(os.Getenv("REAL_CARGO"), os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		os.Exit(c.ProcessState.ExitCode())
	}
}

// standinIsReal is the predicate that only a test may pass in.
func standinIsReal(buildenv.Host) func(verify.Loaded) (bool, string) {
	return func(l verify.Loaded) (bool, string) {
		if strings.Contains(l.LibCUDA, "standin") {
			return true, ""
		}
		return false, "not the stand-in of this test"
	}
}

const repository = "../../.."

func TestScripts(t *testing.T) {
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(root, "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("GPUBUILD_UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			keep := func(name, otherwise string) string {
				if v := os.Getenv(name); v != "" {
					return v
				}
				return otherwise
			}
			for name, value := range map[string]string{
				"CARGO_HOME":       keep("CARGO_HOME", filepath.Join(home, ".cargo")),
				"RUSTUP_HOME":      keep("RUSTUP_HOME", filepath.Join(home, ".rustup")),
				"GPUBUILD_CACHE":   filepath.Join(e.WorkDir, ".cache"),
				"CARGO_TERM_COLOR": "never",
				"REPO":             root,
				"TOOLKIT":          toolkit(),
			} {
				e.Setenv(name, value)
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			name, arg, _ := strings.Cut(cond, ":")
			switch name {
			case "toolkit":
				return toolkit() != "", nil
			case "crates":
				return crates(filepath.Join(root, "testdata", arg)), nil
			case "device":
				return exists("/dev/nvidia0"), nil
			case "exists":
				return exists(arg), nil
			case "nvml":
				return strings.HasPrefix(driver.Means(), "NVML"), nil
			case "net":
				return os.Getenv("GPUBUILD_NETWORK_TESTS") != "", nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status":  exitStatus,
			"standin": buildStandin,
			"sample":  copySample,
			"setenv-path-without": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv("PATH", pathWithout(ts.Getenv("PATH"), args))
			},
			"crashing-toolkit": crashingToolkit,
			"full-disk":        fullDisk,
			"sleep-for-mtime":  func(*testscript.TestScript, bool, []string) { time.Sleep(20 * time.Millisecond) },
		},
	})
}

// exitStatus runs a command and holds its exit status and output: `status 10 gpubuild …`. Its stdout and stderr are then looked at as usual.
func exitStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND [ARG …]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		code = -1
		if text := err.Error(); strings.HasPrefix(text, "exit status ") {
			_, _ = fmt.Sscanf(text, "exit status %d", &code)
		}
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("ended with %d (%v), want %s", code, err, args[0])
	}
}

// copySample copies a sample of testdata into the work directory, without what was built there: `sample matmul`.
func copySample(ts *testscript.TestScript, _ bool, args []string) {
	from, err := filepath.Abs(filepath.Join(repository, "testdata", args[0]))
	ts.Check(err)
	to := ts.MkAbs(args[0])
	ts.Check(filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "target" {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	}))
}

// crashingToolkit makes a tree that looks like a toolkit and whose nvcc ends as a crash does.
func crashingToolkit(ts *testscript.TestScript, _ bool, args []string) {
	root := ts.MkAbs(args[0])
	for name, text := range map[string]string{
		"include/cuda.h":              "#define CUDA_VERSION 13040\n",
		"include/cuda_runtime.h":      "",
		"include/crt/host_config.h":   "",
		"include/nv/target":           "",
		"lib64/libcudart.so":          "",
		"version.json":                `{"cuda": {"name": "CUDA SDK", "version": "13.4.0"}}`,
		"nvvm/bin/cicc":               "",
		"nvvm/libdevice/libdevice.bc": "",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, []byte(text), 0o755))
	}
	ts.Check(os.MkdirAll(filepath.Join(root, "bin"), 0o755))
	self, err := exec.LookPath("crashing-nvcc") // this test binary; see TestMain
	if err != nil {
		self = filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "crashing-nvcc")
	}
	ts.Check(os.WriteFile(filepath.Join(root, "bin", "nvcc"), []byte("#!/bin/sh\nexec "+self+" \"$@\"\n"), 0o755))
}

// fullDisk mounts a small file system and fills it; it goes with the test.
func fullDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "none", dir).CombinedOutput(); err != nil {
		ts.Logf("mount: %v: %s", err, out)
		return
	}
	ts.Defer(func() { _ = exec.Command("umount", dir).Run() })
	ts.Check(os.WriteFile(filepath.Join(dir, "mounted"), nil, 0o644))
	f, err := os.Create(filepath.Join(dir, "filler"))
	ts.Check(err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	ts.Check(f.Close())
}

var standin struct {
	sync.Once
	dir string
	err error
}

// buildStandin compiles the stand-in driver and CUPTI and puts them into ./standin, and the stand-in NVML into ./standin-nvml.
func buildStandin(ts *testscript.TestScript, _ bool, _ []string) {
	standin.Do(func() {
		if standin.dir, standin.err = os.MkdirTemp("", "standin"); standin.err != nil {
			return
		}
		src := filepath.Join(repository, "testdata", "standin")
		for file, lib := range map[string]string{"cuda.c": "libcuda.so.1", "cupti.c": "libcupti.so.13", "nvml.c": "libnvidia-ml.so.1"} {
			c := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-pthread", "-Wl,-soname,"+lib,
				filepath.Join(src, file), "-o", filepath.Join(standin.dir, lib), "-ldl")
			if out, err := c.CombinedOutput(); err != nil {
				standin.err = fmt.Errorf("%v: %s", err, out)
				return
			}
		}
	})
	ts.Check(standin.err)
	for lib, dir := range map[string]string{"libcuda.so.1": "standin", "libcupti.so.13": "standin", "libnvidia-ml.so.1": "standin-nvml"} {
		ts.Check(os.MkdirAll(ts.MkAbs(dir), 0o755))
		data, err := os.ReadFile(filepath.Join(standin.dir, lib))
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(dir), lib), data, 0o755))
	}
}

func pathWithout(path string, programs []string) string {
	var kept []string
	for _, dir := range filepath.SplitList(path) {
		has := false
		for _, p := range programs {
			has = has || exists(filepath.Join(dir, p))
		}
		if !has {
			kept = append(kept, dir)
		}
	}
	return strings.Join(kept, string(os.PathListSeparator))
}

// toolkit is a real toolkit for tests: the one that GPUBUILD_TEST_TOOLKIT names, or one in gpubuild's own cache.
var toolkit = sync.OnceValue(func() string {
	if root := os.Getenv("GPUBUILD_TEST_TOOLKIT"); root != "" {
		return root
	}
	h, err := local.Host()
	if err != nil {
		return ""
	}
	dir, err := cache.Dir(h)
	if err != nil {
		return ""
	}
	for _, in := range install.Installed(h, dir) {
		return in.Root
	}
	return ""
})

// crates says whether a project's crates are on this machine, so that nothing would be downloaded.
func crates(dir string) bool {
	if _, err := exec.LookPath("cargo"); err != nil {
		return false
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, "cargo", "fetch", "--locked", "--offline", "--manifest-path", filepath.Join(dir, "Cargo.toml"))
	var out bytes.Buffer
	c.Stderr = &out
	return c.Run() == nil
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

var _ = runtime.GOOS
