package finding_test

import (
	"errors"
	"testing"
	"time"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
)

func TestTrace(t *testing.T) {
	at := time.Unix(0, 0)
	trace := finding.NewTrace(func() time.Time { return at })
	step := func(d time.Duration, err error) func() error {
		return func() error { at = at.Add(d); return err }
	}
	failed := errors.New("failed")
	_ = trace.Check("a", step(time.Second, nil))
	_ = trace.Check("b", step(2*time.Second, failed))
	hosttest.Equal(t, trace.Check("b", step(3*time.Second, nil)), nil)
	checks := trace.Checks()
	if len(checks) != 2 || checks[0].Took != time.Second || checks[1].Took != 5*time.Second || checks[1].Err != nil {
		t.Errorf("a check that was made twice in a row is one, as it ended last: %+v", checks)
	}
}
