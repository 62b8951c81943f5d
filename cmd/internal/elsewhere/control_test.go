package elsewhere

import (
	"slices"
	"testing"

	"gpubuild/cmd/internal/proof"
	"gpubuild/gpu/verify"
)

// TestControlOfAnEarlierProgram: a control serves the later programs of a connection that have its variables, but for those of one program, by
// the CUPTI that recorded it. What did not record, or was itself an earlier program's, serves none.
func TestControlOfAnEarlierProgram(t *testing.T) {
	t.Parallel()
	at, env := "n1, Slurm job 7.3", []string{"A=1", "NEXTEST_TEST_NAME=one"}
	recorded := verify.Control{Outcome: verify.ControlRecorded, Loaded: verify.Loaded{LibCUPTI: "/runs/a/prove/1/libcupti.so.12"}}
	earlier := recorded
	earlier.With = "n0"
	var none control
	for _, not := range []verify.Control{{Outcome: verify.ControlUnrecorded, Loaded: recorded.Loaded}, earlier} {
		if none.keep(not, at, env); none.Outcome != "" {
			t.Errorf("%+v was noted", not)
		}
	}
	var c control
	c.keep(recorded, at, env)
	task := proof.Task{CUPTI: "/runs/b/prove/0/libcupti.so.13", Others: []string{"/runs/b/prove/1/libcupti.so.12", "/runs/b/prove/2/libcupti.so.11"}}
	for story, tt := range map[string]struct {
		c    *control
		env  []string
		task proof.Task
	}{"none was recorded": {&none, env, task}, "other variables": {&c, append(env, "CUDA_VISIBLE_DEVICES=1"), task}, "no CUPTI of ours": {&c, env, proof.Task{}}} {
		was := slices.Clone(tt.task.Others)
		if tt.c.use(&tt.task, tt.env); tt.task.Control.Outcome != "" || !slices.Equal(tt.task.Others, was) {
			t.Errorf("%s: %+v", story, tt.task)
		}
	}
	c.use(&task, []string{"A=1", "NEXTEST_TEST_NAME=two"})
	if task.Control.With != "n1, Slurm job 7.3" || task.CUPTI != "/runs/b/prove/1/libcupti.so.12" || len(task.Others) > 0 {
		t.Errorf("%+v", task)
	}
}
