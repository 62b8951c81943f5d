package finding_test

import (
	"testing"
	"time"

	"gpubuild/buildenv/finding"
)

// TestAPhaseOfTheSameNameGoesOn: a phase that is named twice in a row is one phase with the whole time.
func TestAPhaseOfTheSameNameGoesOn(t *testing.T) {
	at := time.Unix(0, 0)
	trace := finding.NewTrace(func() time.Time {
		at = at.Add(time.Second)
		return at
	})
	for _, name := range []string{"features", "features", "cargo", "features"} {
		trace.Phase(name)
	}
	phases, _ := trace.Phases()
	var names []string
	for _, p := range phases {
		names = append(names, p.Name)
	}
	if len(phases) != 3 || names[0] != "features" || names[1] != "cargo" || names[2] != "features" {
		t.Errorf("phases %q, want features, cargo, features", names)
	}
	if phases[0].Took <= phases[1].Took {
		t.Errorf("the first phase took %s, the second %s: the time between two equal names is lost", phases[0].Took, phases[1].Took)
	}
}
