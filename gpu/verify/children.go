package verify

import (
	"fmt"
	"slices"

	"gpubuild/gpu/probe"
)

// children adds what the processes that --child names show together. One that was refused something, or opened the driver and ran no kernel
// that matches, speaks against the proof of another: a worker that failed and went on on the CPU. One that opened no driver (a launcher, a
// worker that reads data) is only listed.
func (c *counter) children() {
	type id struct {
		pid                int
		started, namespace uint64
	}
	e, r := c.evidence, c.rules
	known, working, recorded := map[id]bool{}, map[id]bool{}, map[id]bool{}
	for i, p := range e.Processes {
		of := id{p.Pid, p.Started, p.Namespace}
		if recorded[of] = true; !r.asksFor(p) {
			continue
		}
		known[of] = true
		where := fmt.Sprintf("process %d (%s)", p.Pid, p.Exe)
		refused := failures(e, p, nil, where)
		switch {
		case p.Forked: // CUDA does not work there
		case c.working[i]:
			working[of] = true
		case len(refused) > 0:
			c.against = append(c.against, refused[0]+", which ran no kernel that matches")
		case !e.isProgram(p):
			c.against = append(c.against, where+" opened the driver, and ran no kernel that matches")
		}
	}
	if e.LostFiles > 0 {
		c.against = append(c.against, "a process "+lostRecords)
	}
	for _, p := range e.Watch.Seen {
		of := id{p.Pid, p.Started, e.Watch.Namespace}
		if !r.asksFor(Process{Process: probe.Process{Identity: probe.Identity{Exe: p.Exe}}}) {
			continue
		}
		if known[of] = true; p.NoInjection && !recorded[of] {
			c.notes = append(c.notes, "whether it used the GPU is not known: "+outOfSight(p))
		}
	}
	c.workers = len(working)
	c.notes = append(c.notes, fmt.Sprintf("%d of at least %s of `%s` ran a kernel that matches", len(working),
		counted(uint64(len(known)), "process", "processes"), r.Child))
	c.notes = slices.Compact(c.notes)
}
