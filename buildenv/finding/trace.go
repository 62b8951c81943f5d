package finding

import "time"

// Trace is what a run notes along the way: the checks that it made, how each
// ended, and the phases that its time went to. It is for one goroutine.
type Trace struct {
	now    func() time.Time
	began  time.Time
	phases []Phase
	checks []Check
}

// Phase is a part of a run. Phases follow one another without a gap.
type Phase struct {
	Name  string
	Began time.Time
	Took  time.Duration
}

// Check is one question that a run asked and how it ended.
type Check struct {
	ID   string
	Err  error
	Took time.Duration
}

// NewTrace begins a trace now.
func NewTrace(now func() time.Time) *Trace { return &Trace{now: now, began: now()} }

// Phase ends the phase that is under way and begins the next. A phase of the same name goes on.
func (t *Trace) Phase(name string) {
	at := t.now()
	if n := len(t.phases); n > 0 && t.phases[n-1].Name == name {
		return
	}
	t.endPhase(at)
	t.phases = append(t.phases, Phase{Name: name, Began: at})
}

func (t *Trace) endPhase(at time.Time) {
	if n := len(t.phases); n > 0 {
		t.phases[n-1].Took = at.Sub(t.phases[n-1].Began)
	}
}

// Phases ends the phase that is under way. It returns all phases and the time since the trace began.
func (t *Trace) Phases() ([]Phase, time.Duration) {
	at := t.now()
	t.endPhase(at)
	return t.phases, at.Sub(t.began)
}

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
