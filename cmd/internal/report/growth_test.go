package report_test

import (
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/fatbin"
)

// TestGrowth: what a commit's kernels take more than those of the commit before.
func TestGrowth(t *testing.T) {
	t.Parallel()
	limit := 8
	file := func(all ...fatbin.Resources) *fatbin.Report {
		im := fatbin.Image{Resources: all}
		for range all {
			im.Kernels = append(im.Kernels, "k")
		}
		return &fatbin.Report{Images: []fatbin.Image{im}}
	}
	takes := func(n uint64) fatbin.Resources { return fatbin.Resources{Registers: n} }
	for story, tt := range map[string]struct {
		before, now []*fatbin.Report
		grown       int
		status      report.Status
	}{
		"a stack that was not bounded":          {[]*fatbin.Report{file(fatbin.Resources{Registers: 20, StackUnknown: true})}, []*fatbin.Report{file(fatbin.Resources{Registers: 20, Stack: 640})}, 0, report.StatusCompiled},
		"the lighter one of two static kernels": {[]*fatbin.Report{file(takes(48), takes(20))}, []*fatbin.Report{file(takes(40), takes(48))}, 1, report.StatusFailed},
		"two of them that are alike":            {[]*fatbin.Report{file(takes(48), takes(20))}, []*fatbin.Report{file(takes(48), takes(48))}, 1, report.StatusFailed},
		"two programs that hold one kernel":     {[]*fatbin.Report{file(takes(20)), file(takes(20))}, []*fatbin.Report{file(takes(20))}, 0, report.StatusCompiled},
	} {
		made := func(second int, commit string, files []*fatbin.Report) report.Result {
			r := report.Result{Verb: "build", Command: []string{"build"}, Row: "row", Growth: &limit, Origin: &origin.Origin{Commit: commit},
				At:     time.Date(2026, 11, 1, 12, 0, second, 0, time.UTC),
				Checks: []report.Check{{ID: report.CheckBuild, State: report.Passed}}}
			for _, f := range files {
				r.AddKernels(f)
			}
			return r
		}
		row := report.Join(observed(made(1, "a", tt.before), made(2, "b", tt.now)), nil)[0]
		hosttest.Equal(t, len(row.Grown), tt.grown, story)
		hosttest.Equal(t, row.Status, tt.status, story, row.Why)
		if strings.Contains(row.Why, "not compared") {
			t.Errorf("%s: %s", story, row.Why)
		}
	}
}
