package cli_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
)

// specials put something that is no regular file in a path. Those of /proc call themselves regular, and have no end or wait.
var specials = map[string]func(path string) error{
	"pagemap": func(path string) error { return os.Symlink("/proc/self/pagemap", path) },
	"mem":     func(path string) error { return os.Symlink("/proc/self/mem", path) },
	"environ": func(path string) error { return os.Symlink("/proc/self/environ", path) },
	"stdin":   func(path string) error { return os.Symlink("/proc/self/fd/0", path) }, // a pipe to which nobody writes
	"zero":    func(path string) error { return os.Symlink("/dev/zero", path) },
	"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"socket": func(path string) error {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		dir, err := os.Open(filepath.Dir(path)) // a socket's path has at most 107 bytes
		if err != nil {
			return err
		}
		defer dir.Close()
		return syscall.Bind(fd, &syscall.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)})
	},
}

// TestFilesThatAreNone: whatever is in the place of a file that gpubuild reads in a repository or in what was built there, every verb ends.
// What cargo or rustup would read themselves ends with 30, before one of them starts. GPUBUILD_TEST=random=1 tries every verb with every file.
func TestFilesThatAreNone(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	build := filepath.Join(s.dir, "sys", "build.rs")
	text, err := os.ReadFile(build)
	noError(t, err) // without a list of its files, every file of the package counts
	noError(t, os.WriteFile(build, bytes.Replace(text, []byte(`    println!("cargo::rerun-if-changed=build.rs");`+"\n"), nil, 1), 0o600))
	hashed := []string{"sys/kernel.cu", "sys/more.cuh", "sys/.github/workflows/x.yml", ".github/workflows/x.yml"}
	for _, name := range hashed[1:] {
		noError(t, os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o755))
		noError(t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o600))
	}
	s.more = []string{"CUDA_PATH=" + s.a}
	s.must(s.command(nil, "gpubuild", "build", "--features", "cuda", "--gpu-arch", "75"))

	cargo := need.Tool(t, "cargo")
	mark := filepath.Join(s.top, "cargo-started")
	writeFiles(t, filepath.Join(s.top, "spy"), map[string]string{"cargo": "#!/bin/sh\necho \"$@\" >>" + mark + "\nexec " + cargo + " \"$@\"\n"})
	path := []string{filepath.Join(s.top, "spy")}

	var names []string
	fatal := map[string]bool{} // cargo or rustup reads them
	for _, k := range buildenv.Kinds() {
		for _, n := range k.Names {
			names = append(names, n, "sys/"+n)
		}
	}
	for _, k := range []buildenv.Kind{buildenv.Manifest, buildenv.Lock, buildenv.Config, buildenv.Toolchain} {
		for _, n := range k.Names {
			fatal[n] = n != "gpubuild.toml"
		}
	}
	fatal["sys/"+buildenv.ManifestFile] = true
	names = append(names, hashed...)
	for _, pattern := range []string{"target/debug/app", "target/debug/build/*/output", "target/debug/build/*/gpubuild-*", "target/debug/build/*/out/*"} {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		noError(t, err)
		if len(found) == 0 {
			t.Errorf("the build left no %s", pattern)
		}
		for _, f := range found[:min(len(found), 3)] {
			names = append(names, strings.TrimPrefix(f, s.dir+"/"))
		}
	}
	verbs := append(everyVerb(), []string{"build", "--features", "cuda"}, []string{"run", "--features", "cuda"}, []string{"metadata", "--offline"})
	turn := 0
	try := func(name, special string, args []string) {
		// cargo, rustc and nvcc wait for a pipe in place of what they read, as they do without gpubuild
		builds := slices.Contains([]string{"b", "build", "check", "run", "test"}, args[0])
		if special == "pipe" && builds && (name == hashed[0] || strings.HasPrefix(name, "target/")) {
			return
		}
		named := slices.Contains(args, name) && slices.Contains([]string{"explain", "receipt", "report"}, args[0])
		if !named || special != "pipe" && special != "stdin" { // the end of a pipe that is named is waited for
			s.withSpecial(path, name, special, args, fatal[name], mark)
		}
	}
	kinds, every := slices.Sorted(maps.Keys(specials)), need.Count(t, "random", 0) > 0
	for _, name := range names {
		if every {
			for _, special := range kinds {
				for _, args := range verbs {
					try(name, special, args)
				}
			}
			continue
		}
		for _, special := range []string{"pagemap", kinds[turn%len(kinds)]} {
			try(name, special, verbs[turn%len(verbs)])
			turn++
		}
	}
}

// withSpecial runs one verb with something special in place of a file.
func (s *shared) withSpecial(path []string, name, special string, args []string, fatal bool, mark string) {
	t, file := s.t, filepath.Join(s.dir, name)
	t.Helper()
	noError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	err := os.Rename(file, file+".kept")
	kept := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	noError(t, specials[special](file))
	_ = os.Remove(mark) // it may not be there
	defer func() {
		_ = os.Remove(file)
		if err := os.Rename(file+".kept", file); kept && errors.Is(err, os.ErrNotExist) { // the verb cleaned the package
			s.must(s.command(nil, "gpubuild", "build", "--features", "cuda", "--gpu-arch", "75"))
		} else if kept {
			noError(t, err)
		}
	}()
	// what spins is ended by the limit on its CPU time, what waits by the clock
	c := s.command(path, append([]string{"sh", "-c", `ulimit -t 20 && exec gpubuild "$@"`, "sh"}, args...)...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	killed := context.AfterFunc(ctx, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	defer killed()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	noError(t, err)
	defer in.Close()
	out, err := c.CombinedOutput()
	started, _ := os.ReadFile(mark) // none: cargo was not started
	switch code := c.ProcessState.ExitCode(); {
	case code < 0 || code == exit.Internal || code > 128:
		t.Errorf("%s in place of %s: %q ended with %v\n%s", special, name, args, err, out)
	case args[0] == "doctor" && strings.HasPrefix(name, "sys/") && string(started) == "-Vv\n": // a member is one of its checks
	case fatal && len(started) > 0:
		t.Errorf("%s in place of %s: %q started cargo: %s\n%s", special, name, args, started, out)
	case fatal && code != exit.Config && slices.Contains([]string{"features", "stale", "env", "check", "build", "run", "test", "tree", "metadata"}, args[0]):
		t.Errorf("%s in place of %s: %q ended with %d\n%s", special, name, args, code, out)
	}
}
