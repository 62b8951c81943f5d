package finding

import "time"

// Trace is what a run notes along the way: the checks that it made, and how each ended. It is for one goroutine.
type Trace struct {
	now    func() time.Time
	checks []Check
}

// Check is one question that a run asked and how it ended.
type Check struct {
	ID   string
	Err  error
	Took time.Duration
}

// NewTrace begins a trace now.
func NewTrace(now func() time.Time) *Trace { return &Trace{now: now} }

// Check runs one check and notes how it ended. Two checks of one name in a row are one.
func (t *Trace) Check(id string, check func() error) error {
	began := t.now()
	err := check()
	c := Check{ID: id, Err: err, Took: t.now().Sub(began)}
	if n := len(t.checks); n > 0 && t.checks[n-1].ID == id {
		c.Took += t.checks[n-1].Took
		t.checks = t.checks[:n-1]
	}
	t.checks = append(t.checks, c)
	return err
}

// Checks are the checks so far, in their order.
func (t *Trace) Checks() []Check { return t.checks }
