package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

// The test binary is every program that the tests run: `BINARY __helper WHAT …`.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "__helper" {
		os.Exit(helper(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func helper(what string, args []string) int {
	arg := func(i int) int {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	switch what {
	case "exit":
		fmt.Fprintln(os.Stderr, "one\ntwo\nthe reason")
		return arg(0)
	case "env":
		fmt.Print(strings.Join(os.Environ(), "\x00"))
	case "dir":
		dir, _ := os.Getwd()
		fmt.Print(dir)
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "big": // N bytes that end in "end" on both streams
		for _, f := range []*os.File{os.Stdout, os.Stderr} {
			_, _ = f.WriteString("begin" + strings.Repeat("x", arg(0)-8) + "end")
		}
	case "wait": // until it is ended
		fmt.Println("ready")
		linger()
	case "stubborn": // started by others: takes no notice of being asked
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready", os.Getpid())
		linger()
	case "counts": // prints each signal that it gets, and ends a moment after the first
		ch := make(chan os.Signal, 9)
		signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		fmt.Println("got", <-ch)
		for {
			select {
			case s := <-ch:
				fmt.Println("got", s, "again")
			case <-time.After(100 * time.Millisecond):
				fmt.Println("bye")
				return 3
			}
		}
	case "tree": // a child that ignores SIGINT and has a child that does so
		spawn("tree2").Wait()
	case "tree2":
		signal.Ignore(syscall.SIGINT)
		fmt.Println("ready", os.Getpid())
		spawn("stubborn").Wait()
	case "leave": // ends at once and leaves a grandchild that holds the output open
		spawn("stubborn")
		fmt.Println("done")
	case "runner": // runs a helper as gpubuild's main does, and says what came of it
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		r, err := Runner{Grace: time.Minute}.Run(ctx, buildenv.Cmd{Path: os.Args[0], Args: append([]string{"__helper"}, args...), Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
		fmt.Printf("code %d, cancelled %v\n", r.Code, errors.Is(err, context.Canceled))
	default:
		return helperUnix(what, args)
	}
	return 0
}

// linger waits for long, yet not for ever, lest a failed test leave something behind.
func linger() { time.Sleep(2 * time.Minute) }

func spawn(what string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "__helper", what)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

func command(what string, args ...string) buildenv.Cmd {
	self, err := Self()
	if err != nil {
		panic(err)
	}
	return buildenv.Cmd{Path: self, Args: append([]string{"__helper", what}, args...), Env: os.Environ()}
}

// watcher is an output that reports when its n-th line "ready" has come.
type watcher struct {
	mu    sync.Mutex
	text  bytes.Buffer
	n     int
	ready func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.n > 0 && strings.Count(w.text.String(), "ready") >= w.n {
		w.n = 0
		w.ready()
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestAProgramThatSucceeds(t *testing.T) {
	c := command("cat")
	c.Stdin = strings.NewReader("to and fro")
	var pid int
	r, err := Runner{Started: func(_ buildenv.Cmd, p int) { pid = p }}.Run(context.Background(), c)
	if err != nil || r.Code != 0 || string(r.Stdout) != "to and fro" || len(r.Stderr) != 0 || r.Truncated || r.TimedOut {
		t.Errorf("got %+v, %v", r, err)
	}
	if pid == 0 {
		t.Errorf("Started got no process id")
	}
}

func TestAProgramThatFails(t *testing.T) {
	r, err := Runner{}.Run(context.Background(), command("exit", "7"))
	var exit *buildenv.ExitError
	if !errors.As(err, &exit) || exit.Result.Code != 7 || r.Code != 7 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if !strings.Contains(err.Error(), "exit status 7:\none\ntwo\nthe reason") {
		t.Errorf("the error does not carry stderr: %v", err)
	}
}

func TestTheEnvironmentIsTheCommandsAlone(t *testing.T) {
	t.Setenv("GPUBUILD_TEST_LEAK", "1")
	for _, env := range [][]string{nil, {"A=1", "B=two words"}} {
		c := command("env")
		c.Env = env
		r := hosttest.Must(Runner{}.Run(context.Background(), c))(t)
		got := strings.Split(string(r.Stdout), "\x00")
		// Go adds SystemRoot on Windows, where nothing runs without it.
		got = slices.DeleteFunc(got, func(s string) bool { return s == "" || strings.HasPrefix(strings.ToUpper(s), "SYSTEMROOT=") })
		if !slices.Equal(got, env) && len(got)+len(env) > 0 {
			t.Errorf("got %q, want %q", got, env)
		}
	}
}

func TestItStartsInItsDirectory(t *testing.T) {
	dir := hosttest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	c := command("dir")
	c.Dir = dir
	if r, err := (Runner{}).Run(context.Background(), c); err != nil || string(r.Stdout) != dir {
		t.Errorf("got %s, %v, want %s", r.Stdout, err, dir)
	}
}

// TestOutputIsBounded: stdout keeps its beginning, stderr its end, where the reason of a failure stands.
func TestOutputIsBounded(t *testing.T) {
	c := command("big", "3000000")
	c.Limit = 1000
	r, err := Runner{}.Run(context.Background(), c)
	if err != nil || !r.Truncated || len(r.Stdout) != 1000 || len(r.Stderr) != 1000 {
		t.Fatalf("got %d and %d bytes, truncated %v, %v", len(r.Stdout), len(r.Stderr), r.Truncated, err)
	}
	if !bytes.HasPrefix(r.Stdout, []byte("begin")) || !bytes.HasSuffix(r.Stderr, []byte("end")) {
		t.Errorf("stdout %.9s…, stderr …%s", r.Stdout, r.Stderr[990:])
	}
	alone := command("env")
	alone.Limit = 3
	if r, err = (Runner{}).Run(context.Background(), alone); err != nil || !r.Truncated || len(r.Stdout) != 3 || len(r.Stderr) != 0 {
		t.Errorf("of stdout alone: %q, %q, truncated %v, %v", r.Stdout, r.Stderr, r.Truncated, err)
	}
	c.Limit = 3000000
	if r, err = (Runner{}).Run(context.Background(), c); err != nil || r.Truncated || len(r.Stdout) != 3000000 || len(r.Stderr) != 3000000 {
		t.Errorf("got %d and %d bytes, truncated %v, %v", len(r.Stdout), len(r.Stderr), r.Truncated, err)
	}
}

// TestFilesArePassedOn: a child must get the file itself, or a terminal would be a pipe to it.
func TestFilesArePassedOn(t *testing.T) {
	in := hosttest.Must(os.Create(filepath.Join(t.TempDir(), "in")))(t)
	defer in.Close()
	hosttest.Must(in.WriteString("content"))(t)
	hosttest.Must(in.Seek(3, io.SeekStart))(t)
	out := hosttest.Must(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	defer out.Close()
	c := command("cat")
	c.Stdin, c.Stdout = in, out
	hosttest.Must((Runner{}).Run(context.Background(), c))(t)
	if got, _ := os.ReadFile(out.Name()); string(got) != "tent" {
		t.Errorf("got %q", got)
	}
}

// TestAReaderThatNeverEndsHoldsNothingUp: the child is done though its input is not.
func TestAReaderThatNeverEndsHoldsNothingUp(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	c := command("exit", "0")
	c.Stdin = r
	if _, err := (Runner{}).Run(context.Background(), c); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		hosttest.OK(t, os.WriteFile(p, []byte(text), mode))
		return p
	}
	// A program of that name in the current directory must not be run.
	old := hosttest.Must(os.Getwd())(t)
	hosttest.OK(t, os.Chdir(dir))
	defer func() { _ = os.Chdir(old) }()
	write("cargo", "#!/bin/sh\nexit 0\n", 0o755)
	for _, tt := range []struct {
		name string
		cmd  buildenv.Cmd
		want string
	}{
		{"a name alone", buildenv.Cmd{Path: "cargo"}, "cargo: cannot be started: not an absolute path"},
		{"a relative path", buildenv.Cmd{Path: "./cargo"}, "./cargo: cannot be started: not an absolute path"},
		{"nothing", buildenv.Cmd{}, ": cannot be started: not an absolute path"},
		{"a file that is not there", buildenv.Cmd{Path: filepath.Join(dir, "none")}, "cannot be started: "},
		{"a directory that is not there", buildenv.Cmd{Path: command("env").Path, Dir: filepath.Join(dir, "none")}, "cannot be started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Runner{}.Run(context.Background(), tt.cmd)
			var start *StartError
			if !errors.As(err, &start) || !strings.Contains(err.Error(), tt.want) || start.Hint() == "" {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestCancelledBeforeItBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (Runner{}).Run(ctx, command("exit", "0")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestATimeout(t *testing.T) {
	c := command("wait")
	c.Timeout = 100 * time.Millisecond
	r, err := Runner{}.Run(context.Background(), c)
	var exit *buildenv.ExitError
	if !errors.As(err, &exit) || !r.TimedOut || !exit.Result.TimedOut || r.Code == 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if !strings.Contains(err.Error(), "ended after 100ms without an answer") {
		t.Errorf("got %v", err)
	}
}

// TestCancelEndsTheTree: a child that takes no notice of being asked is killed after Grace.
func TestCancelEndsTheTree(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &watcher{n: 1, ready: cancel}
	c := command("stubborn")
	c.Stdout = w
	r, err := Runner{Grace: 200 * time.Millisecond}.Run(ctx, c)
	if !errors.Is(err, context.Canceled) || r.Code == 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func FuzzBuffer(f *testing.F) {
	f.Add([]byte("abcdefgh"), 3, true)
	f.Fuzz(func(t *testing.T, data []byte, limit int, tail bool) {
		if limit < 1 || limit > 1000 {
			return
		}
		b := &buffer{limit: int64(limit), tail: tail}
		for i := 0; i < len(data); i += 1 + i%7 {
			part := data[i:min(len(data), i+1+i%7)]
			if n, err := b.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		got, cut := b.bytes()
		want := data[:min(limit, len(data))]
		if tail {
			want = data[max(0, len(data)-limit):]
		}
		if !bytes.Equal(got, want) || cut != (len(data) > limit) {
			t.Errorf("got %q %v, want %q", got, cut, want)
		}
	})
}
