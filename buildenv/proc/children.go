package proc

import (
	"sync"
	"time"
)

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
