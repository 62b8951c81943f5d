package elsewhere

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/proof"
	"gpubuild/gpu/verify"
)

// TestControlOfAnEarlierProgram: a control serves only programs of the same run, on the same machine since it was started, with its driver, job
// and variables, and by the CUPTI that recorded it. What did not record, and what is not known, serves none.
func TestControlOfAnEarlierProgram(t *testing.T) {
	t.Parallel()
	const env, files = "A=1\nNEXTEST_TEST_NAME=one\nSLURM_STEP_ID=3\nSLURM_STEPID=3\n",
		"-- /proc/sys/kernel/random/boot_id --\nboot\n-- /sys/module/nvidia/version --\n580.65.06\n"
	same := func(env, files, job string, sent ...string) string {
		h, err := hosttest.Parse([]byte("os: linux\n-- @env --\n" + env + files))
		if err != nil {
			t.Fatal(err)
		}
		return circumstances(h, host{Name: "n1", Slurm: job}, sent)
	}
	first := same(env, files, "7.3")
	if again := same(strings.ReplaceAll(strings.ReplaceAll(env, "one", "two"), "3", "4"), files, "7.4"); first == "" || again != first {
		t.Errorf("another program of the run: %q, %q", first, again)
	}
	for story, other := range map[string]string{
		"another variable":         same(env+"CUDA_VISIBLE_DEVICES=1\n", files, "7.3"),
		"a variable that was sent": same(env, files, "7.3", "B=2"), "another job": same(env, files, "8.3"),
		"started again": same(env, strings.Replace(files, "boot\n", "later\n", 1), "7.3"), "another driver": same(env, strings.Replace(files, "580", "590", 1), "7.3"),
	} {
		if other == first || other == "" {
			t.Errorf("%s: %q", story, other)
		}
	}
	if unknown := same(env, "", "7.3"); unknown != "" {
		t.Errorf("without a driver's version: %q", unknown)
	}
	memo, at := t.TempDir(), host{Name: "n1", Slurm: "7.3", Same: first}
	c := control{first, verify.Control{Outcome: verify.ControlRecorded, Loaded: verify.Loaded{LibCUPTI: "/runs/a/prove/1/libcupti.so.12"}}}
	for _, not := range []control{{"", c.Control}, {first, verify.Control{Outcome: verify.ControlUnrecorded}}} {
		if not.keep(memo, at); exists(controlFile(memo)) {
			t.Errorf("%+v was noted", not)
		}
	}
	if c.keep("", at); exists(controlFile("")) {
		t.Error("a control was noted without a run of several programs")
	}
	c.keep(memo, at)
	data, err := os.ReadFile(controlFile(memo))
	if err := json.Unmarshal(data, &c); err != nil || c.Same != first || c.With != "n1, Slurm job 7.3" {
		t.Fatalf("%s, %v", data, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	task := proof.Task{CUPTI: "/runs/b/prove/0/libcupti.so.13", Others: []string{"/runs/b/prove/1/libcupti.so.12", "/runs/b/prove/2/libcupti.so.11"}}
	for story, none := range map[string]struct {
		at   host
		task proof.Task
	}{"other circumstances": {host{Same: "other"}, task}, "unknown circumstances": {host{}, task}, "no CUPTI of ours": {at, proof.Task{}}} {
		was := slices.Clone(none.task.Others)
		if c.use(&none.task, none.at); none.task.Control.Outcome != "" || !slices.Equal(none.task.Others, was) {
			t.Errorf("%s: %+v", story, none.task)
		}
	}
	if c.use(&task, at); task.Control.With == "" || task.CUPTI != "/runs/b/prove/1/libcupti.so.12" || len(task.Others) > 0 {
		t.Errorf("%+v", task)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
