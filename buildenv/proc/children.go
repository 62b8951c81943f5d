package proc

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"gpubuild/buildenv/fault"
)

// Children knows the children that run. Where killing a process leaves its children running, it starts a supervisor before the first child:
// gpubuild itself, which reads from a pipe what was started and what ended. The kernel closes the pipe when gpubuild ends, however that
// happens, and the supervisor kills what had not ended. Lost is only a child that was started microseconds before.
type Children struct {
	// Supervisor is the command line of a process that calls Supervise with its standard input; none: children survive a kill -9.
	Supervisor []string

	mu      sync.Mutex
	running map[int]bool
	idle    time.Time // when the last one ended
	pipe    *os.File
	ended   chan struct{} // closed when the supervisor ended
	tried   bool
}

// Idle is how long no child has been running; 0 while one does.
func (c *Children) Idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.running) > 0:
		return 0
	case c.idle.IsZero():
		return time.Hour // none was started
	}
	return time.Since(c.idle)
}

// Close lets the supervisor end, when no child is left, and waits for it: an orphan would stay a zombie where PID 1 does not wait.
func (c *Children) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipe == nil {
		return
	}
	c.pipe.Close()
	c.pipe = nil
	select {
	case <-c.ended:
	case <-time.After(time.Second):
	}
}

func (c *Children) add(t *tree) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[int]bool{}
	}
	c.running[t.root.Pid] = true
	if !c.tried {
		c.tried = true
		c.supervise()
	}
	c.report(t.announced())
}

func (c *Children) remove(pid int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, pid)
	c.idle = time.Now()
	c.report(forgotten(pid))
}

// report writes a line to the supervisor. It matters that a supervisor was killed only if gpubuild is killed, too.
func (c *Children) report(line string) {
	if c.pipe != nil {
		_, _ = io.WriteString(c.pipe, line)
	}
}

// supervise starts the supervisor, in a session of its own so that no terminal ends it. Without one everything works but this.
func (c *Children) supervise() {
	attributes, needed := supervisorAttributes()
	if !needed || len(c.Supervisor) == 0 {
		return
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return
	}
	defer theirs.Close()
	cmd := &exec.Cmd{Path: c.Supervisor[0], Args: c.Supervisor, Dir: "/", Env: []string{}, Stdin: theirs, SysProcAttr: attributes}
	if cmd.Start() != nil {
		ours.Close()
		return
	}
	c.pipe, c.ended = ours, make(chan struct{})
	fault.Go(func() {
		_ = cmd.Wait() // it is killed or it ends: both are the end
		close(c.ended)
	})
}
