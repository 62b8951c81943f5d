package verify

import (
	"fmt"
	"slices"

	"gpubuild/gpu/probe"
)

// children adds what the processes that --child names show together, the program's own among them. One that was refused something, or opened
// a device and waited for no kernel that matches, speaks against the proof of another: a worker that failed and went on on the CPU. So does
// one that loaded the driver and not the probe, which cuInit loads where it succeeds. One that loaded no driver, or opened no device (a
// launcher, a worker that reads data), is only listed; of one that lost the probe's variable that is not known. What a process of that
// name became by exec counts as of that name. A refusal of the program itself speaks against the proof whatever it is called.
func (c *counter) children() {
	type id struct {
		pid                int
		started, namespace uint64
	}
	e, r := c.evidence, c.rules
	known, working, recorded := map[id]bool{}, map[id]bool{}, map[id]bool{}
	for i, p := range e.Processes {
		of := id{p.Pid, p.Started, p.Namespace}
		recorded[of] = true
		named := r.asksFor(p.Exe) || known[of]
		if !named && !e.isProgram(p) {
			continue
		}
		where := fmt.Sprintf("process %d (%s)", p.Pid, p.Exe)
		if e.isProgram(p) { // a launcher that counts devices
			p.Refused = slices.DeleteFunc(slices.Clone(p.Refused), func(f probe.Refusal) bool { return f.Kind == probe.Absent })
		}
		refused := failures(e, p, nil, where)
		if named {
			known[of] = true
		}
		if p.Forked {
			continue // CUDA does not work there
		}
		switch waited, matched := c.working[i]; {
		case waited && named:
			working[of] = true
		case waited: // it counts as the binary itself
		case len(refused) > 0:
			c.against = append(c.against, refused[0]+", which ran no kernel that matches")
		case named && matched:
			c.against = append(c.against, "nothing waited for the kernels of "+where)
		case named && p.OpenedDevice():
			c.against = append(c.against, where+" opened a device, and ran no kernel that matches"+prefixed(" on device ", r.Device))
		}
	}
	if e.LostFiles > 0 {
		c.against = append(c.against, "a process "+lostRecords)
	}
	for _, p := range e.Watch.Seen {
		of := id{p.Pid, p.Started, e.Watch.Namespace}
		named := r.asksFor(p.Exe)
		if !named && !p.Root {
			continue
		}
		if named {
			known[of] = true
		}
		switch {
		case recorded[of]:
		case named && p.NoInjection:
			c.against = append(c.against, "whether it failed on the GPU is not known: "+outOfSight(p))
		case p.Driver != "":
			c.against = append(c.against, fmt.Sprintf("process %d (%s) loaded the driver, which refused it or was never called: it "+
				"ran no kernel that matches", p.Pid, p.Exe))
		}
	}
	c.workers = len(working)
	c.notes = append(c.notes, fmt.Sprintf("%d of at least %s of `%s` ran a kernel that matches", len(working),
		counted(uint64(len(known)), "process", "processes"), r.Child))
	c.notes = slices.Compact(c.notes)
}
