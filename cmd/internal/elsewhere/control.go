package elsewhere

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/proof"
	"gpubuild/gpu/verify"
)

// control is one that was recorded for a program. It serves the later ones of the run in the same circumstances, since it takes as long
// as a small program. No verdict rests on it alone: a kernel must be in the program's own record, and where a verdict rests on silence
// verify.Run records another control after the program.
type control struct {
	Same string // circumstances
	verify.Control
}

// ofOneProgram are the variables that differ between the programs of a run, and that no CUDA driver reads.
var ofOneProgram = lazyregexp.New(`^(NEXTEST|CARGO|SRUN_|SSH_|XDG_SESSION|SLURM_(STEP_?ID|STEP_LAUNCHER|SRUN|TASK_PID|LAUNCH)|_=)`)

// circumstances names what a control depends on, but for its files, which a run has once: this machine since it was started, its driver,
// the job and the variables. Empty: not known, as on WSL2.
func circumstances(h buildenv.Host, at host, sent []string) string {
	at.Slurm, _, _ = strings.Cut(at.Slurm, ".")
	boot, err1 := h.ReadFile("/proc/sys/kernel/random/boot_id", 256)
	driver, err2 := h.ReadFile("/sys/module/nvidia/version", 256)
	if err1 != nil || err2 != nil {
		return ""
	}
	variables := slices.DeleteFunc(slices.Concat(h.Env.Entries(), sent), ofOneProgram.MatchString)
	return cache.Name(strings.Join(append(variables, at.String(), string(boot), string(driver)), "\x00"))
}

func controlFile(memo string) string { return filepath.Join(memo, "elsewhere-control.json") }

// keep notes a control for the later programs of a run.
func (c control) keep(memo string, at host) {
	c.With = at.String()
	if data, err := json.Marshal(c); err == nil && memo != "" && c.Same != "" && c.Outcome == verify.ControlRecorded {
		_ = cache.Keep(controlFile(memo), data, 0o600) // else each program has its own
	}
}

// use gives a task the control, with the CUPTI that recorded it: its directory in the bundle is a number.
func (c control) use(t *proof.Task, at host) {
	number := func(cupti string) string { return filepath.Base(filepath.Dir(cupti)) }
	for _, cupti := range append([]string{t.CUPTI}, t.Others...) {
		if c.Same != "" && c.Same == at.Same && cupti != "" && number(cupti) == number(c.Loaded.LibCUPTI) {
			t.Control, t.CUPTI, t.Others = c.Control, cupti, nil
			return
		}
	}
}
