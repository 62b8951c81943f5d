package verify

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpubuild/gpu/kernelname"
	"gpubuild/gpu/probe"
)

// Rules say what is asked of the evidence.
type Rules struct {
	Kernel *regexp.Regexp // what counts as a match, by the name as recorded or the plain one; nil: a matrix product
	// the device that they must be on: a UUID or its beginning, or the number that the process gives it; empty: any
	Device     string
	Child      string // a glob of executables, by path, its end or name: children that count like the binary itself; empty: none
	ExpectExit int

	MinLaunches uint64        // how many launches must match and count; 0: one
	MinTime     time.Duration // how long these must have run on the device, together
	MinChildren int           // how many processes that Child names must have run one
}

// AskForMore reports whether they ask for more than any matrix product of the program.
func (r Rules) AskForMore() bool {
	return r.Kernel != nil || r.Device != "" || r.Child != "" || r.MinLaunches > 0 || r.MinTime > 0
}

// tooLittle returns what is missing where kernels that match ran, but not as many of them, or not as long, as is asked for.
func (r Rules) tooLittle(s summary) string {
	switch {
	case s.matched < r.MinLaunches:
		return fmt.Sprintf("%s of kernels that match, and at least %d are asked for (--min-launches)",
			counted(s.matched, "launch was", "launches were"), r.MinLaunches)
	case s.waitedTime < uint64(r.MinTime):
		return fmt.Sprintf("the kernels that match ran for %s on the device, and at least %s is asked for (--min-gpu-time)",
			spent(s.waitedTime), r.MinTime)
	case s.workers < r.MinChildren:
		return fmt.Sprintf("%s of `%s` ran a kernel that matches, and at least %d are asked for (--min-children)",
			counted(uint64(s.workers), "process", "processes"), r.Child, r.MinChildren)
	}
	return ""
}

// onDevice reports whether a device is the one that is asked for. Numbers are the process's own: CUDA_VISIBLE_DEVICES shifts them.
func (r Rules) onDevice(ordinal int, uuid string) bool {
	if r.Device == "" {
		return true
	}
	if n, err := strconv.Atoi(r.Device); err == nil {
		return n == ordinal
	}
	const enough = 8 // digits: a shorter beginning may be that of two devices
	want, is := digits(r.Device), digits(uuid)
	return strings.EqualFold(r.Device, uuid) || len(want) >= enough && strings.HasPrefix(is, want)
}

// digits is a UUID without the word in front: the driver says of a slice of a device (MIG) only the digits.
func digits(uuid string) string {
	uuid = strings.ToUpper(uuid)
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(uuid, "GPU-"), "MIG-"), uuid)
}

// asksFor reports whether an executable is that of a child whose launches are to count.
func (r Rules) asksFor(exe string) bool {
	if r.Child == "" || exe == "" {
		return false
	}
	// Linux' words for a file that is gone, and for one that was only ever in memory (memfd_create)
	exe, glob := strings.TrimPrefix(strings.TrimSuffix(exe, " (deleted)"), "/memfd:"), r.Child
	if len(exe) > 2 && exe[1] == ':' { // a Windows path: its case means nothing, and in a glob a backslash would quote
		exe = strings.ToLower(strings.ReplaceAll(exe, `\`, "/"))
		glob = strings.ToLower(strings.ReplaceAll(glob, `\`, "/"))
	}
	parts := strings.Split(exe, "/")                                                                         // as many of its last as the glob has: a name, the end of a path, a whole path
	matches, _ := path.Match(glob, strings.Join(parts[max(0, len(parts)-1-strings.Count(glob, "/")):], "/")) // a bad glob matches nothing
	return matches
}

// names reports whether a kernel's name is one that is asked for.
func (r Rules) names(name, plain string) bool {
	if r.Kernel != nil {
		return r.Kernel.MatchString(name) || r.Kernel.MatchString(plain)
	}
	return kernelname.IsProduct(plain)
}

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
