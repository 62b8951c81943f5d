// Package scripts_test runs the scripts of testdata/script, which use gpubuild as a user does. It is apart from the other tests of package
// cli, so that each of the two takes a part of the time.
package scripts_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/cli"
	"gpubuild/cmd/internal/hosttest/clitest"
	"gpubuild/toolchain/nvcc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain makes this test binary act as gpubuild, as a gpubuild that takes the stand-in driver of testdata/standin for a real one, and as
// two fake tools.
func TestMain(m *testing.M) {
	if nvcc.Named(os.Args[0]) { // in a view of a toolkit
		os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	testscript.Main(need.Patient(m), map[string]func(){
		"gpubuild": func() {
			os.Exit(checked(func(out io.Writer) int { return cli.Main(os.Args, os.Stdin, out, os.Stderr) }))
		},
		"cargo-gpubuild": func() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
		"gpubuild-standin": func() {
			os.Exit(cli.MainForTest(os.Args, os.Stdin, os.Stdout, os.Stderr, clitest.IsReal, clitest.Nodes))
		},
		"changing-cargo": changingCargo,
		"crashing-nvcc":  func() { fmt.Fprintln(os.Stderr, "nvcc: internal error"); os.Exit(139) },
	})
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

const repository = "../../../.."

func TestScripts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(repository)
	hosttest.OK(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(root, "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
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
				"CARGO_TERM_COLOR": "never", "CARGO_NET_OFFLINE": "true",
				"REPO":    root,
				"TOOLKIT": need.FirstToolkit(),
				"CANDLE":  need.Given("candle"),
				"CACHE":   filepath.Dir(filepath.Dir(need.FirstToolkit())), // if it is gpubuild's
			} {
				e.Setenv(name, value)
			}
			e.Values[testOf{}] = e.T()
			return writePackages(e.WorkDir)
		},
		Condition: func(cond string) (bool, error) {
			name, arg, _ := strings.Cut(cond, ":")
			switch name {
			case "need":
				return need.Has(arg), nil
			case "toolkit":
				return need.FirstToolkit() != "", nil
			case "crates":
				return need.HasCrates(filepath.Join(root, "testdata", arg)), nil
			case "device":
				return exists("/dev/nvidia0"), nil
			case "exists":
				return exists(arg), nil
			case "root":
				return os.Geteuid() == 0, nil
			case "full":
				return need.Full(t), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"need":     needs,
			"status":   exitStatus,
			"standin":  buildStandin,
			"document": runDocument,
			"sample":   copySample,
			"setenv-path-without": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv("PATH", pathWithout(ts.Getenv("PATH"), args))
			},
			"crashing-toolkit": crashingToolkit,
			"full-disk":        fullDisk,
			"sleep-for-mtime":  func(*testscript.TestScript, bool, []string) { time.Sleep(20 * time.Millisecond) },
		},
	})
}

// writePackages makes a package of each bin.toml and lib.toml of a script: Cargo.toml with the name of its directory, version 0.1.0 and
// edition 2021 unless it says otherwise, and an empty program or library unless there is a src.
func writePackages(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		source := map[string]string{"bin.toml": "main.rs", "lib.toml": "lib.rs"}[filepath.Base(path)]
		if err != nil || source == "" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at, text := filepath.Dir(path), string(data)
		keys, tables := text, ""
		if i := strings.Index("\n"+text, "\n["); i >= 0 {
			keys, tables = text[:i], text[i:]
		}
		head := "[package]\n"
		for _, line := range []string{"name = \"" + filepath.Base(at) + "\"\n", "version = \"0.1.0\"\n", "edition = \"2021\"\n"} {
			key, _, _ := strings.Cut(line, "=")
			if before, after, found := strings.Cut("\n"+keys, "\n"+key); found {
				value, rest, _ := strings.Cut(after, "\n")
				line, keys = key+value+"\n", strings.TrimPrefix(before+"\n"+rest, "\n")
			}
			head += line
		}
		write := os.WriteFile(filepath.Join(at, "Cargo.toml"), []byte(head+keys+tables), 0o644)
		if !exists(filepath.Join(at, "src")) {
			src := map[string]string{"main.rs": "fn main() {}\n"}[source]
			write = errors.Join(write, os.Mkdir(filepath.Join(at, "src"), 0o755), os.WriteFile(filepath.Join(at, "src", source), []byte(src), 0o644))
		}
		return errors.Join(write, os.Remove(path))
	})
}

type testOf struct{}

// needs skips the script unless all these things are here: `need cargo toolkit crates:matmul`.
func needs(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		name, arg, _ := strings.Cut(name, ":")
		_, reason := need.Find(name)
		switch {
		case reason != "":
		case name == "toolkit":
			_, reason = need.FindToolkits()
		case name == "crates" && !need.HasCrates(filepath.Join(repository, "testdata", arg)):
			reason = need.Reason("crates", "cargo fetch --locked --manifest-path testdata/"+arg+"/Cargo.toml")
		case name == "no-gpu" && exists("/dev/nvidia0"):
			reason = need.Reason("no-gpu", "the tests with the tag gpu are for this machine")
		case name == "unix" && runtime.GOOS == "windows":
			reason = need.Reason("unix", "this is Windows")
		case name == "linux" && runtime.GOOS != "linux":
			reason = need.Reason("linux", "this is "+runtime.GOOS)
		case name == "amd64" && runtime.GOARCH != "amd64":
			reason = need.Reason("amd64", "this is "+runtime.GOARCH)
		}
		if reason != "" {
			ts.Value(testOf{}).(testscript.T).Skip(reason)
		}
	}
}

// exitStatus runs a command and holds its exit status and output: `status 10 gpubuild …`; -6: it was ended by signal 6. Its stdout and
// stderr are then looked at as usual.
func exitStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND [ARG …]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		code = ended.ExitCode()
		if w, ok := ended.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			code = -int(w.Signal())
		}
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("ended with %d (%v), want %s", code, err, args[0])
	}
}

// copySample copies a sample of testdata into the work directory, without what was built there, and compiles programs of it, which are in
// C: `sample zoo gpu cpu`.
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
	for _, program := range args[1:] {
		ts.Check(ts.Exec("gcc", "-std=c11", "-O1", "-pthread", "-o", program, args[0]+"/"+program+".c"))
	}
}

// runDocument runs each block of a document that is called sh, in order, as a reader would paste it: <!-- run: COMMAND --> before a block prepares,
// <!-- exit N --> names its exit code, and each line of a block called text after it is printed by it. target/ is $CARGO_TARGET_DIR.
func runDocument(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	where, said, want, ran := ts.MkAbs(".where"), "", "0", 0
	ts.Check(os.WriteFile(where, []byte(ts.MkAbs(".")), 0o644))
	target := ts.Getenv("CARGO_TARGET_DIR")
	for i, block := range strings.Split("\n"+string(data), "\n```") {
		kind, text, _ := strings.Cut(block, "\n")
		switch {
		case i%2 == 0:
			if _, prepares, found := strings.Cut(block, "<!-- run: "); found {
				prepares, _, _ = strings.Cut(prepares, " -->")
				exitStatus(ts, false, []string{"0", "sh", "-c", "cd \"$(cat " + where + ")\" && " + prepares})
			}
			if _, code, found := strings.Cut(block, "<!-- exit "); found {
				want, _, _ = strings.Cut(code, " ")
			}
		case kind == "sh":
			if target != "" {
				text = strings.ReplaceAll(text, " target/", " "+target+"/")
			}
			exitStatus(ts, false, []string{want, "sh", "-e", "-c", "cd \"$(cat " + where + ")\"\n" + text + "\npwd >" + where})
			said = strings.ReplaceAll(ts.ReadFile("stdout")+ts.ReadFile("stderr"), target+"/", "target/")
			want, ran = "0", ran+1
		case kind == "text":
			for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
				if !strings.Contains(said, strings.TrimSpace(line)) {
					ts.Fatalf("%s: the command before does not print %q", args[0], line)
				}
			}
		}
	}
	if ran < 5 {
		ts.Fatalf("%s has only %d blocks of commands", args[0], ran)
	}
}

// crashingToolkit makes a tree that looks like a toolkit and whose nvcc says its version, and else ends as a crash does.
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
	self := filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "crashing-nvcc") // this test binary; see TestMain
	ts.Check(os.WriteFile(filepath.Join(root, "bin", "nvcc"), []byte("#!/bin/sh\n[ \"$*\" != --version ] || "+
		"exec echo 'Cuda compilation tools, release 13.4, V13.4.33'\nexec "+self+" \"$@\"\n"), 0o755))
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

// buildStandin puts the stand-in driver and CUPTI into ./standin ($CUPTI), the stand-in nvidia-smi into ./standin-smi, and the probe into the cache: a
// script that has another compiler, or another cache, compiles it.
func buildStandin(ts *testscript.TestScript, _ bool, _ []string) {
	from, err := clitest.Standin(repository)
	ts.Check(err)
	for lib, dir := range map[string]string{"libcuda.so.1": "standin", "libcupti.so.13": "standin", "nvidia-smi": "standin-smi"} {
		ts.Check(os.MkdirAll(ts.MkAbs(dir), 0o755))
		data, err := os.ReadFile(filepath.Join(from, lib))
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(dir), lib), data, 0o755))
	}
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs("standin"), "node"), nil, 0o644))
	ts.Setenv("CUPTI", filepath.Join(ts.MkAbs("standin"), "libcupti.so.13"))
	built, err := clitest.Probe(repository)
	ts.Check(err)
	ts.Check(os.CopyFS(ts.Getenv("GPUBUILD_CACHE"), os.DirFS(built)))
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

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// checked runs gpubuild as a script's program, and ends with 99 where what it answers on stdout is not what its schema says.
func checked(run func(stdout io.Writer) int) int {
	asks := slices.ContainsFunc(os.Args, func(w string) bool { return w == "--json" || w == "--gpu-json" })
	if !asks || slices.Contains(os.Args, "exec") || os.Getenv("REPO") == "" { // outside of a script the schemas are not at hand
		return run(os.Stdout)
	}
	var out bytes.Buffer
	code := run(io.MultiWriter(os.Stdout, &out))
	if text := bytes.TrimSpace(out.Bytes()); bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"schema": "gpubuild/`)) {
		if err := clitest.Validate(os.Getenv("REPO"), text); err != nil {
			fmt.Fprintf(os.Stderr, "the answer does not keep to its schema: %#v\n", err)
			return 99
		}
	}
	return code
}
