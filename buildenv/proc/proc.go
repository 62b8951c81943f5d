// Package proc runs a buildenv.Cmd and answers a buildenv.Result. No other package starts a process.
//
// A child stays in our foreground process group, so that it may read the terminal, and gets exactly the
// environment of its Cmd. When ctx ends, the whole tree is asked to stop and after Grace killed; nothing
// of it is left. Streams that are files go to the child as they are, so that a terminal stays a terminal.
// What goes on running after its parent ended by itself (a compile cache's server) is left alone.
//
// The tree, on Linux and macOS: every process that descends from the child, and those that were seen as such before their parents ended.
// One that left its parents before gpubuild looked is not found. On Windows: a job object; when it is closed, all in it end.
//
// After a kill -9 of gpubuild Windows closes the job, and Linux ends the direct child (PR_SET_PDEATHSIG); what that started goes on.
package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"gpubuild/buildenv"
)

const (
	defaultGrace = 700 * time.Millisecond // an interrupted gpubuild has ended within a second
	defaultLimit = 64 << 20
	// pipeDelay is how long the output of a child that has ended is waited for while something else still holds its pipe. Two seconds were
	// too short on a busy machine: what stood in the pipe had not been read.
	pipeDelay = 5 * time.Second
	// killDelay is how long a killed process may take to go: on a busy machine one was still there after two seconds, because its
	// processor did not get to it. One that hangs in a driver never goes.
	killDelay = 5 * time.Second
	poll      = 25 * time.Millisecond
)

// Runner runs commands. The zero value is ready.
type Runner struct {
	// Grace is the time between asking a tree to stop and killing it; 0 means defaultGrace. Cmd.Grace is stronger.
	Grace time.Duration
	// Children, if set, knows every child while it runs. All copies of a Runner share it.
	Children *Children
	// Started, if set, is called for each process that was started, before it is waited for.
	Started func(c buildenv.Cmd, pid int)
}

// Self returns the path of the running executable, for running it again as a child. On a Linux without /proc it is what the first word of
// our command line means.
func Self() (string, error) {
	path, err := os.Executable()
	if err == nil {
		return path, nil
	}
	found, missing := exec.LookPath(os.Args[0])
	if missing != nil {
		return "", err
	}
	return filepath.Abs(found)
}

// Run starts the command and waits for its end. Its error is a *buildenv.ExitError for a status other than 0 and for Cmd.Timeout, with
// Result filled, too; a *StartError for what kept it from running; ctx's error, wrapped, when that ended it.
//
// The tree gets the signal that ended ctx, if one of Signals did, else SIGINT. At a terminal Ctrl-C has reached our process group
// already and is not sent a second time, which many programs take for "at once". A second signal to us ends the tree at once.
// Windows cannot ask one tree alone: without a Ctrl-C of the console it is ended at once.
func (r Runner) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if err := ctx.Err(); err != nil {
		return buildenv.Result{}, fmt.Errorf("%s: %w", filepath.Base(c.Path), err)
	}
	if !filepath.IsAbs(c.Path) {
		return buildenv.Result{}, &StartError{Path: c.Path, Err: errRelative}
	}
	signals, deaf := listen(ctx)
	defer deaf()
	j, err := start(c, r.Children)
	if err != nil {
		return buildenv.Result{}, &StartError{Path: c.Path, Dir: c.Dir, Err: err}
	}
	if r.Started != nil {
		r.Started(c, j.cmd.Process.Pid)
	}
	defer r.Children.change(-1)
	var timeout <-chan time.Time
	if c.Timeout > 0 {
		timer := time.NewTimer(c.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	var cause error
	timedOut, stopped, grace := false, false, cmp.Or(c.Grace, r.Grace, defaultGrace)
	select {
	case err = <-j.done:
		j.tree.leave()
	case <-timeout:
		timedOut = true
		ask := syscall.SIGINT
		if c.Stop != nil {
			ask = syscall.SIGTERM
		}
		err = stop(j, ask, false, nil, grace)
	case <-c.Stop:
		stopped = true
		err = stop(j, syscall.SIGTERM, false, nil, grace)
	case <-ctx.Done():
		cause = ctx.Err()
		sig, delivered := reason(signals)
		err = stop(j, sig, delivered, signals, grace)
	}
	res := j.result(err)
	res.TimedOut, res.Stopped = timedOut, stopped
	switch {
	case cause != nil:
		return res, fmt.Errorf("%s: %w", filepath.Base(c.Path), cause)
	case timedOut || res.Code != 0:
		return res, &buildenv.ExitError{Cmd: c, Result: res}
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && !errors.Is(err, exec.ErrWaitDelay) {
		return res, fmt.Errorf("%s: output: %w", filepath.Base(c.Path), err)
	}
	return res, nil
}

// Signals are those that end gpubuild: its context, and then its children by the same signal.
var Signals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// listen hears the signals that end a program, to pass the same one on. It decides nothing: ctx says when to stop. A signal that is
// ignored (nohup) stays ignored.
func listen(ctx context.Context) (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 1)
	if ctx.Done() == nil {
		return ch, func() {}
	}
	for _, s := range Signals {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	return ch, func() { signal.Stop(ch) }
}

// reason returns the signal that ended ctx and whether the tree has had it from the terminal.
func reason(signals <-chan os.Signal) (sig os.Signal, delivered bool) {
	select {
	case s := <-signals:
		return s, fromTerminal(s)
	case <-time.After(poll): // a signal reaches both channels in no order
		return syscall.SIGINT, false
	}
}

type job struct {
	cmd      *exec.Cmd
	tree     *tree
	done     chan error
	out, err *buffer // nil when the command has its own
	began    time.Time
}

func start(c buildenv.Cmd, children *Children) (*job, error) {
	limit := cmp.Or(max(c.Limit, 0), defaultLimit)
	j := &job{done: make(chan error, 1)}
	theirs, feed, err := stdin(c.Stdin)
	if err != nil {
		return nil, err
	}
	var empty []*os.File
	if c.Blank {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		empty = inPlace(null)
	}
	for try := 0; ; try++ {
		j.cmd = &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Dir: c.Dir, Env: c.Env, WaitDelay: pipeDelay}
		if j.cmd.Env == nil {
			j.cmd.Env = []string{} // nil would mean ours
		}
		if j.cmd.Stdout = c.Stdout; c.Stdout == nil {
			j.out = &buffer{limit: limit}
			j.cmd.Stdout = j.out
		}
		if j.cmd.Stderr = c.Stderr; c.Stderr == nil {
			j.err = &buffer{limit: limit, tail: true}
			j.cmd.Stderr = j.err
		}
		if theirs != nil {
			j.cmd.Stdin = theirs
		}
		j.cmd.ExtraFiles = empty
		j.began = time.Now()
		// A program that has just been written can be "busy" for a moment, because a fork elsewhere in this process holds it open:
		// https://go.dev/issue/22315.
		if j.tree, err = startTree(j.cmd); !errors.Is(err, syscall.ETXTBSY) || try >= 10 {
			break
		}
		time.Sleep(poll)
	}
	if feed != nil {
		theirs.Close()
	}
	if err != nil {
		if feed != nil {
			feed.Close()
		}
		return nil, err
	}
	children.change(1)
	if c.Memory > 0 {
		limitMemory(j.cmd.Process.Pid, uint64(c.Memory))
	}
	if feed != nil {
		// Not waited for: a child may end before it has read all, and the reader may have no more to say for a long time.
		go func() {
			_, _ = io.Copy(feed, c.Stdin) // a child that reads no further is no fault
			feed.Close()
		}()
	}
	go func() { j.done <- j.cmd.Wait() }()
	return j, nil
}

// inPlace is one file in the place of each that this process has open, but of its streams.
func inPlace(of *os.File) (files []*os.File) {
	open, _ := os.ReadDir("/proc/self/fd") // Linux
	for _, entry := range open {
		n, _ := strconv.Atoi(entry.Name())
		for n > 2+len(files) {
			files = append(files, nil)
		}
		if n > 2 {
			files[n-3] = of
		}
	}
	return files
}

// stdin returns what the child reads, and for a reader that is no file the end of the pipe to fill.
func stdin(r io.Reader) (theirs, feed *os.File, err error) {
	switch r := r.(type) {
	case nil:
		return nil, nil, nil
	case *os.File:
		return r, nil, nil
	}
	return os.Pipe()
}

var errUnkillable = errors.New("still there after it was killed: it hangs in the kernel")

// stop asks the tree to end, kills what is left after a time or when a further signal comes, and answers the child's own end.
func stop(j *job, sig os.Signal, delivered bool, signals <-chan os.Signal, grace time.Duration) error {
	asked := j.tree.ask(sig, delivered)
	var end error
	ended := false
	begin := time.Now()
	for asked && time.Since(begin) < grace && len(signals) == 0 {
		if wait(j, &ended, &end) && !j.tree.alive() {
			return end
		}
	}
	for range killDelay / poll { // attempts, not seconds: a machine that stood still for two has not ended anything
		j.tree.kill()
		if wait(j, &ended, &end) && !j.tree.alive() {
			return end
		}
	}
	if !ended {
		return errUnkillable
	}
	return end
}

// wait waits a moment for the child's own end and says whether that has come.
func wait(j *job, ended *bool, end *error) bool {
	if *ended {
		time.Sleep(poll)
		return true
	}
	select {
	case *end = <-j.done:
		*ended = true
	case <-time.After(poll):
	}
	return *ended
}

func (j *job) result(err error) buildenv.Result {
	res := buildenv.Result{Elapsed: time.Since(j.began)}
	if j.out != nil {
		res.Stdout, res.Truncated = j.out.bytes()
	}
	if j.err != nil {
		var cut bool
		res.Stderr, cut = j.err.bytes()
		res.Truncated = res.Truncated || cut
	}
	res.Truncated = res.Truncated || errors.Is(err, exec.ErrWaitDelay)
	if errors.Is(err, errUnkillable) {
		res.Code, res.Signal = 128+int(syscall.SIGKILL), "SIGKILL"
		return res
	}
	if state := j.cmd.ProcessState; state != nil {
		res.Code, res.Signal = status(state)
	}
	return res
}

var errRelative = errors.New("not an absolute path")

// StartError says what kept a program from running.
type StartError struct {
	Path string
	Dir  string
	Err  error
}

func (e *StartError) Error() string {
	var p *fs.PathError
	if errors.As(e.Err, &p) && p.Op == "chdir" {
		return fmt.Sprintf("%s: cannot be started in %s: %v", e.Path, e.Dir, p.Err)
	}
	err := e.Err
	if errors.As(err, &p) {
		err = p.Err // its path is ours
	}
	return fmt.Sprintf("%s: cannot be started: %v", e.Path, err)
}

func (e *StartError) Unwrap() error { return e.Err }

func (e *StartError) Hint() string {
	var p *fs.PathError
	switch {
	case errors.As(e.Err, &p) && p.Op == "chdir":
		return "name a directory that exists and may be entered"
	case errors.Is(e.Err, errRelative):
		return "name the program with its whole path; programs are never looked for in the current directory"
	case errors.Is(e.Err, fs.ErrNotExist):
		return "install it again; if the file is there, the interpreter or loader that it names is missing"
	case errors.Is(e.Err, fs.ErrPermission):
		return "make it executable, and see that its file system is not mounted noexec"
	case errors.Is(e.Err, syscall.ENOEXEC):
		return "it is no program for this machine: install the one for this operating system and processor"
	case errors.Is(e.Err, syscall.E2BIG):
		return "its arguments and environment are too long together: remove large variables from the environment"
	}
	return "try the same command in a shell"
}

// Children knows how many children run. A nil one does not.
type Children struct {
	mu      sync.Mutex
	running int
	idle    time.Time // when the last one ended
}

// Idle is how long no child has been running; 0 while one does.
func (c *Children) Idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running > 0:
		return 0
	case c.idle.IsZero():
		return time.Hour // none was started
	}
	return time.Since(c.idle)
}

func (c *Children) change(by int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += by
	c.idle = time.Now()
}

// buffer keeps the first or the last bytes of what is written to it. It can be read while something still writes.
type buffer struct {
	limit int64
	tail  bool // the end is worth more than the beginning

	mu   sync.Mutex
	data []byte
	cut  bool
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	if !b.tail || int64(len(b.data)) > 2*b.limit { // now and then, so that a long stream is not copied at each write
		b.shorten()
	}
	return len(p), nil
}

func (b *buffer) shorten() {
	switch over := int64(len(b.data)) - b.limit; {
	case over <= 0:
		return
	case b.tail:
		b.data = append(b.data[:0], b.data[over:]...)
	default:
		b.data = b.data[:b.limit]
	}
	b.cut = true
}

func (b *buffer) bytes() (data []byte, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shorten()
	return bytes.Clone(b.data), b.cut
}
