package verify

import (
	"context"
	"slices"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/proc"
)

// TestControlOfAnEarlierProgram: a control that recorded for an earlier program is taken and named; a program that used no GPU, or ran another
// kernel, has one of its own behind it, and one for which the earlier control did not record has one in front.
func TestControlOfAnEarlierProgram(t *testing.T) {
	l := newLab(t)
	first, err := Run(context.Background(), l.host, proc.Runner{}, l.options(t, "gpu"))
	if err != nil || first.Control.Outcome != ControlRecorded {
		t.Fatalf("%+v, %v", first.Control, err)
	}
	earlier := first.Control
	earlier.With = "n1"
	failed := earlier
	failed.Outcome = ControlFailed
	for _, tt := range []struct {
		story   string
		args    []string
		control Control
		change  func(*Options)
		want    Kind
		started int
		with    string
	}{
		{"its kernel matches", []string{"gpu"}, earlier, nil, Proved, 0, "n1"},
		{"it ran on the CPU", []string{"cpu"}, earlier, nil, NotUsed, 1, "n1"},
		{"the driver is gone since", []string{"cpu"}, earlier, with("STANDIN_CUDA_INIT", "803"), Unproved, 1, "n1"},
		{"the earlier one failed", []string{"gpu"}, failed, nil, Proved, 1, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			o := l.options(t, tt.args...)
			if o.Control = tt.control; tt.change != nil {
				tt.change(&o)
			}
			started := 0
			count := func(c buildenv.Cmd, _ int) {
				if c.Path == o.Probe.Control || slices.Contains(c.Args, o.Probe.Control) {
					started++
				}
			}
			e, err := Run(context.Background(), l.host, proc.Runner{Started: count}, o)
			if err != nil {
				t.Fatal(err)
			}
			v := Judge(e, o.Rules)
			if v.Kind != tt.want || started != tt.started || e.Control.With != tt.with {
				t.Errorf("%s (%s), %d controls were started, recorded with %q", v.Kind, v.Why, started, e.Control.With)
			}
		})
	}
}
