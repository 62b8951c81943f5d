package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"gpubuild/buildenv"
	"gpubuild/buildenv/need"
)

// helperPane plays gpubuild and cargo on a terminal.
func helperPane(what string, args []string) int {
	switch what {
	case "pane": // runs a helper with a pane before its stderr, as a build does; "direct" runs it without one
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		c := buildenv.Cmd{Path: os.Args[0], Args: append([]string{"__helper"}, args[1:]...), Env: os.Environ(), Stdin: os.Stdin, Stdout: io.Discard, Stderr: os.Stderr}
		heard := &strings.Builder{}
		if args[0] == "pane" {
			p, err := OpenPane(os.Stderr, heard)
			if err != nil {
				fmt.Fprintln(os.Stderr, "no pane:", err)
				return 97
			}
			c.Stderr = p.Stderr
			defer func() { fmt.Fprintf(os.Stderr, "heard %d\n", heard.Len()) }()
			defer p.Close()
		}
		r, err := Runner{}.Run(ctx, c)
		if errors.Is(err, context.Canceled) {
			return 130
		}
		return r.Code
	case "draws": // what a progress bar does
		size, err := pty.GetsizeFull(os.Stderr)
		fmt.Fprintf(os.Stderr, "size %v %v\n", size, err)
		fmt.Fprint(os.Stderr, "\x1b[1m\x1b[32m   Compiling\x1b[0m a\r\n\x1b[K    Building [==>   ] 1/9\r\x1b[Kdone\tö\x00\n\n")
		return 7
	case "resized": // tells its width whenever it changes
		last := -1
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && last != 33; time.Sleep(5 * time.Millisecond) {
			if size, err := pty.GetsizeFull(os.Stderr); err == nil && int(size.Cols) != last {
				last = int(size.Cols)
				fmt.Fprintf(os.Stderr, "width %d\n", last)
			}
		}
		return 0
	case "interrupted": // counts what Ctrl-C gives it
		ch := make(chan os.Signal, 9)
		signal.Notify(ch, syscall.SIGINT)
		fmt.Fprintln(os.Stderr, "ready")
		n := 0
		for {
			select {
			case <-ch:
				n++
			case <-time.After(300 * time.Millisecond):
				if n > 0 {
					fmt.Fprintf(os.Stderr, "got %d\n", n)
					return 9
				}
			}
		}
	case "talks": // goes on writing lines
		for i := 0; i < 120; i++ {
			fmt.Fprintf(os.Stderr, "line %d.\n", i)
			time.Sleep(50 * time.Millisecond)
		}
		return 5
	case "leaves": // ends at once; a child of it still holds the pane
		c := exec.Command(os.Args[0], "__helper", "stubborn")
		c.Stderr = os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // or the end of the session would end it
		if err := c.Start(); err != nil {
			return 96
		}
		fmt.Fprintln(os.Stderr, "pid", c.Process.Pid)
		return 4
	}
	return 99
}

// screen is a terminal that a session of its own runs on.
type screen struct {
	t     *testing.T
	tty   *os.File
	cmd   *exec.Cmd
	mu    sync.Mutex
	text  strings.Builder
	ended chan struct{}
}

func onScreen(t *testing.T, program string, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "PS1=$ ", "TERM=dumb", "HISTFILE=", "INPUTRC=/dev/null")
	var err error
	if s.tty, err = pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: 91}); err != nil {
		need.Missing(t, "terminal", "%v", err)
	}
	go func() {
		defer close(s.ended)
		buf := make([]byte, 4096)
		for {
			n, err := s.tty.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		s.tty.Close()
	})
	return s
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) await(text string) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(s.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%q never came:\n%s", text, s.String())
		}
	}
}

func (s *screen) typed(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the program and answers its exit status and all that was shown.
func (s *screen) end() (int, string) {
	s.t.Helper()
	<-s.ended
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode(), s.String()
}

// TestAPaneChangesNothing: size, colours, bars, bytes and exit status are those of a child that has the terminal itself.
func TestAPaneChangesNothing(t *testing.T) {
	code1, direct := onScreen(t, os.Args[0], "__helper", "pane", "direct", "draws").end()
	code2, through := onScreen(t, os.Args[0], "__helper", "pane", "pane", "draws").end()
	through, heard, _ := strings.Cut(through, "heard ")
	if code1 != 7 || code2 != 7 || direct != through || !strings.Contains(direct, "size &{24 91 0 0} <nil>") {
		t.Errorf("%d %q\n%d %q", code1, direct, code2, through)
	}
	if want := strings.Count(direct, "") - 1; want < 50 || !strings.HasPrefix(heard, fmt.Sprint(len("size &{24 91 0 0} <nil>\n")+len("\x1b[1m\x1b[32m   Compiling\x1b[0m a\r\n\x1b[K    Building [==>   ] 1/9\r\x1b[Kdone\tö\x00\n\n"))) {
		t.Errorf("heard %q", heard)
	}
}

func TestAPaneIsResized(t *testing.T) {
	s := onScreen(t, os.Args[0], "__helper", "pane", "pane", "resized")
	s.await("width 91")
	for _, cols := range []uint16{50, 33} {
		if err := pty.Setsize(s.tty, &pty.Winsize{Rows: 24, Cols: cols}); err != nil {
			t.Fatal(err)
		}
		s.await(fmt.Sprintf("width %d\r\n", cols))
	}
	if code, text := s.end(); code != 0 {
		t.Errorf("%d\n%s", code, text)
	}
}

// TestCtrlCReachesAChildBehindAPane once, by the user's own terminal, and its last words are shown.
func TestCtrlCReachesAChildBehindAPane(t *testing.T) {
	s := onScreen(t, os.Args[0], "__helper", "pane", "pane", "interrupted")
	s.await("ready")
	s.typed("\x03")
	if code, text := s.end(); code != 130 || !strings.Contains(text, "got 1\r\n") {
		t.Errorf("%d\n%s", code, text)
	}
}

// TestJobControlBehindAPane: a real bash stops it with Ctrl-Z, goes on in the background and in the foreground, and has its exit status; a background
// job that may not write (stty tostop) is stopped as it would be without us.
func TestJobControlBehindAPane(t *testing.T) {
	bash := need.Tool(t, "bash")
	s := onScreen(t, bash, "--norc", "--noprofile", "-i")
	s.typed(os.Args[0] + " __helper pane pane talks\n")
	s.await("line 3.")
	s.typed("\x1a")
	s.await("Stopped")
	at := strings.Count(s.String(), "line ")
	time.Sleep(300 * time.Millisecond)
	if now := strings.Count(s.String(), "line "); now != at {
		t.Errorf("%d lines came while it was stopped", now-at)
	}
	s.typed("bg\n")
	s.await("line 20.")
	s.typed("fg\n")
	s.await("line 119.")
	s.await("heard ")
	s.typed("echo status=$?\n")
	s.await("status=5")
	shown := len(s.String())
	s.typed("stty tostop; " + os.Args[0] + " __helper pane pane draws & sleep 1; jobs; stty -tostop\n")
	for end := time.Now().Add(30 * time.Second); strings.Count(s.String()[shown:], "Stopped") < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it was not stopped:\n%s", s.String()[shown:])
		}
	}
	if strings.Contains(s.String()[shown:], "size &{") {
		t.Errorf("it wrote from the background:\n%s", s.String()[shown:])
	}
	s.typed("fg\n")
	s.await("size &{24 91 0 0}")
	s.typed("echo status=$?; exit\n")
	s.await("status=7")
}

// TestAPaneIsNotHeldForEver by what a child left running.
func TestAPaneIsNotHeldForEver(t *testing.T) {
	began := time.Now()
	code, text := onScreen(t, os.Args[0], "__helper", "pane", "pane", "leaves").end()
	_, rest, _ := strings.Cut(text, "pid ")
	pid := 0
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
	if took := time.Since(began); code != 4 || took > paneLast+10*time.Second {
		t.Errorf("%d after %s\n%s", code, took, text)
	}
	if gone(pid) {
		t.Error("what was left running was ended")
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || filepath.Base(exe) != filepath.Base(os.Args[0]) {
		t.Errorf("%s %v", exe, err)
	}
}
