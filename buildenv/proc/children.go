package proc

import (
	"sync"
	"time"
)

// Children knows the children that run.
type Children struct {
	mu      sync.Mutex
	running map[int]bool
	idle    time.Time // when the last one ended
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
}

func (c *Children) remove(pid int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, pid)
	c.idle = time.Now()
}
