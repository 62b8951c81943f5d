package elsewhere

import (
	"path/filepath"
	"slices"
	"sync"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/proof"
	"gpubuild/gpu/verify"
)

// control is one that was recorded for a program of this connection. It serves the later ones with the same variables, since it takes as
// long as a small program. No verdict rests on it alone: a kernel must be in the program's own record, and where a verdict rests on silence
// verify.Run records another control after the program.
type control struct {
	mu  sync.Mutex
	env []string
	verify.Control
}

// ofOneProgram are the variables that differ between the programs of a run, and that no CUDA driver reads.
var ofOneProgram = lazyregexp.New(`^(NEXTEST|CARGO)`)

func shared(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), ofOneProgram.MatchString)
}

// keep notes a control for the later programs.
func (c *control) keep(from verify.Control, at string, env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.Outcome == verify.ControlRecorded && from.With == "" {
		c.Control, c.With, c.env = from, at, shared(env)
	}
}

// use gives a task the control, with the CUPTI that recorded it: its directory in the bundle is a number.
func (c *control) use(t *proof.Task, env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := func(cupti string) string { return filepath.Base(filepath.Dir(cupti)) }
	for _, cupti := range append([]string{t.CUPTI}, t.Others...) {
		if c.Outcome != "" && slices.Equal(c.env, shared(env)) && cupti != "" && number(cupti) == number(c.Loaded.LibCUPTI) {
			t.Control, t.CUPTI, t.Others = c.Control, cupti, nil
			return
		}
	}
}
