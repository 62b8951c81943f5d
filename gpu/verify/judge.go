package verify

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu/kernelname"
	"gpubuild/gpu/probe"
)

// KernelSummary is what ran under one name on one device.
type KernelSummary struct {
	Name    string `json:"name"`
	Plain   string `json:"plain,omitempty"` // the function's name inside a mangled one
	Device  string `json:"device"`          // UUID
	Launch  uint64 `json:"launches"`
	Total   uint64 `json:"total_ns"`
	Matches bool   `json:"matches"`           // by its name
	Counted bool   `json:"counted,omitempty"` // and by its device and its process
	Child   bool   `json:"child,omitempty"`   // launched by another program than the binary
}

// Verdict is what the evidence shows, and why.
type Verdict struct {
	Kind      Kind            `json:"kind"`
	Why       string          `json:"why"`   // one sentence
	Lines     []string        `json:"lines"` // at most six: what ran, where, how long, against which names, what is missing
	Device    string          `json:"device,omitempty"`
	UUID      string          `json:"uuid,omitempty"`
	Launches  uint64          `json:"launches"` // that matched
	Total     uint64          `json:"total_ns"` // of those
	Kernels   []KernelSummary `json:"kernels"`
	Conflicts []string        `json:"conflicts"`
	Notes     []string        `json:"notes,omitempty"` // what should be known and changes nothing
}

// Judge decides what the evidence shows. It looks at nothing else.
//
// The order is the order of trust: a verdict that says something about the program is reached only behind all that could make it wrong.
func Judge(e Evidence, r Rules) Verdict {
	v := Verdict{Kernels: []KernelSummary{}, Conflicts: []string{}}
	s := survey(e, r)
	v.Kernels, v.Notes = append(v.Kernels, s.kernels...), s.notes
	for _, c := range e.Conflicts {
		v.Conflicts = append(v.Conflicts, c.What)
	}
	v.Conflicts = append(append(v.Conflicts, s.conflicts...), s.against...)
	v.Launches, v.Total = s.matched, s.matchedTotal
	if s.device != nil {
		v.Device, v.UUID = s.device.Name, s.device.UUID
	}
	v.Kind, v.Why = decide(e, r, s)
	v.Lines = lines(e, r, s, v)
	return v
}

func decide(e Evidence, r Rules, s summary) (Kind, string) {
	// Without a device nothing can be said of the program; a record all the same is a conflict.
	o := e.Control.Outcome
	none := s.launches == 0 && s.unfinished == 0 && s.untimed == 0 && s.noUse == noUse{} &&
		!(o == ControlNoLibrary && s.heartbeat && e.Backend == probe.CUDA) // the program has found one
	if (o == ControlNoDevice || o == ControlNoLibrary) && none {
		if e.Hidden != "" {
			return NoDevice, "the driver sees no GPU here; they may be hidden by " + e.Hidden
		}
		what := map[probe.Backend][2]string{probe.CUDA: {"the driver sees no GPU here", "there is no CUDA driver here"},
			probe.Vulkan: {"there is no Vulkan device here", "there is no Vulkan loader here"}}[e.Backend]
		why := prefixed(": ", strings.TrimPrefix(e.Control.Why, "load: "))
		switch {
		case o == ControlNoLibrary:
			return NoDevice, what[1] + why
		case e.Backend == probe.CUDA:
			why = "" // an error's number
		}
		return NoDevice, what[0] + why
	}
	if why := unsound(e, r, s); why != "" {
		return Unproved, why
	}
	switch {
	case len(s.against) > 0:
		return Unproved, s.against[0]
	case s.matched > 0 && r.tooLittle(s) != "":
		return Unproved, r.tooLittle(s)
	case s.matched > 0:
		if s.device == nil {
			return Unproved, "the device that the kernel ran on was not identified"
		}
		if by := e.Control.onSoftware(); by != "" {
			return Unproved, "conflict: " + s.device.Name + " ran the kernel, and the positive control found only " + by
		}
		return Proved, ""
	}
	// From here on the verdict rests on what was not seen: everything must have been seen.
	if why := unseen(e, r, s); why != "" {
		return Unproved, why
	}
	switch {
	case s.noUse.other != "":
		return Unproved, fmt.Sprintf("it called %s: what that ran is not known", s.noUse.other)
	case s.noUse.unsure > 0:
		return Unproved, counted(s.noUse.unsure, "launch was", "launches were") +
			" indirect or conditional, or of an unlabelled pipeline that may be wgpu's own: whether any workgroup ran is not known"
	case s.elsewhere != "":
		return OtherKernels, "the kernel that matches ran on " + s.elsewhere + ", not on device " + r.Device
	case s.selfLaunches > 0:
		none := "no matrix product"
		if r.Kernel != nil {
			none = "none is called " + r.Kernel.String()
		}
		return OtherKernels, fmt.Sprintf("it used the GPU: %s of %s; %s", launchesText(s.selfLaunches), shown(s.own, false), none)
	case s.launches > 0:
		return Unproved, "kernels were launched by a child, none by the binary itself"
	}
	if why := e.beyondVulkan(); why != "" {
		return Unproved, why
	}
	switch a := s.noUse; {
	case a.software > 0:
		return NotUsed, fmt.Sprintf("it ran on the CPU (%s): %s of %s", a.by, launchesText(a.software), shown(s.kernels, false))
	case a.own > 0:
		return NotUsed, "of compute pipelines it launched only wgpu's own, none of the program's"
	case s.refused != "" && e.Backend == probe.Vulkan:
		return Unproved, s.refused
	case s.heartbeat && e.Backend == probe.Vulkan:
		return NotUsed, "Vulkan was opened, but no work group of a compute pipeline was launched; drawing is not computing"
	case s.heartbeat:
		return NotUsed, "the driver was opened, but nothing was launched in this program and its children" + prefixed(": ", s.refused)
	case e.Control.onSoftware() != "": // it may have used that, unseen
		return NotUsed, "the layer was not loaded into it, and there is no GPU here: it ran on the CPU"
	}
	return NotUsed, "no GPU use was seen in this program and its children"
}

// unsound returns what keeps any verdict about this run from being given.
func unsound(e Evidence, r Rules, s summary) string {
	if !e.Ran {
		return "the program was not run under the probe"
	}
	ran := e.Control.Outcome == ControlRecorded || e.Control.Outcome == ControlUnrecorded
	if ran && !e.Control.Real {
		return cmp.Or(e.Control.RealNote, "this driver is a stand-in")
	}
	switch e.Control.Outcome {
	case ControlRecorded:
	case ControlUnrecorded:
		return "the positive control ran, but was not recorded: " + e.Control.Why
	case ControlMissing:
		return "no positive control was run: " + cmp.Or(e.Control.Why, "there is none")
	case ControlNoDevice, ControlNoLibrary:
		return "conflict: a driver was opened, but the positive control found no device"
	default:
		return "the positive control failed: " + cmp.Or(e.Control.Why, string(e.Control.Outcome))
	}
	for _, p := range e.Processes {
		if p.Launches() > 0 && !p.Real {
			return cmp.Or(p.RealNote, "this driver is a stand-in")
		}
	}
	switch {
	case e.Changed:
		return "the binary's file changed while it ran"
	case e.Exit.Ours() && s.matched > 0 && e.Exit.asAsked(r.ExpectExit): // a server: what it launched before counts
	case e.Exit.Ours(), e.Exit.Signal != "":
		return "it " + e.Exit.String()
	case e.Exit.Code != r.ExpectExit:
		return fmt.Sprintf("it %s, expected was %d", e.Exit, r.ExpectExit)
	}
	for _, c := range e.Conflicts {
		if c.Against {
			return c.What
		}
	}
	if len(s.conflicts) > 0 {
		return s.conflicts[0]
	}
	return ""
}

// lostRecords is said of a process that began a record file and left it empty, or not to be read.
const lostRecords = "could not write its records (it closed or reused the probe's file, or there was no room on the disk or no right to " +
	"write files), or wrote them as another user"

// cutOff is said of a run that recorded more than gpu/probe reads.
const cutOff = "the records are not whole: of a run at most 4,096 processes, 65,536 kernel names and 1 GiB for each process are read"

// unseen returns what may have happened out of sight. Each of these makes silence mean nothing.
func unseen(e Evidence, r Rules, s summary) string {
	switch {
	case e.Removed != "":
		return "its records could not be read: " + e.Removed
	case s.dropped > 0:
		return "CUPTI dropped " + counted(s.dropped, "record", "records")
	case s.unfinished > 0:
		return "of " + launchesText(s.unfinished) + " the end was not recorded"
	case e.LostFiles > 0:
		return "a process " + lostRecords
	case e.CutFiles > 0:
		return "the records are not whole: a process ended while it wrote them"
	case e.Truncated:
		return cutOff
	case s.unavailable != "":
		return "a process could not be recorded: " + s.unavailable
	case s.untimed > 0 && s.failed != "": // as the driver does for a kernel that faults
		return s.failed
	case s.untimed > 0:
		return "of " + launchesText(s.untimed) + " CUPTI could not collect the times"
	case s.noEnd != "", s.unrecorded != "":
		return "records may be missing: " + cmp.Or(s.noEnd, s.unrecorded)
	case s.late != "":
		return s.late
	case s.childRecorded != "" && s.selfLaunches == 0 && s.launches > 0:
		return s.childRecorded
	}
	switch a := e.After; {
	case a == nil:
		return "the positive control was not run once more after the program"
	case a.Outcome != ControlRecorded:
		return "the positive control failed after the program had run: " + cmp.Or(a.Why, string(a.Outcome))
	case !a.Real:
		return cmp.Or(a.RealNote, "this driver is a stand-in")
	}
	recorded := map[processID]bool{}
	for _, p := range e.Processes {
		if !p.Forked && p.Namespace == e.Watch.Namespace { // those seen are named by their numbers in the program's namespace
			recorded[processID{p.Pid, p.Started}] = true
		}
	}
	w := e.Watch
	if s.selfLaunches > 0 { // it did use the GPU: of the other processes only those matter whose launches would have counted, too
		for _, p := range w.Seen {
			if why := outOfSight(p); why != "" && mayCount(e, r, p) {
				return why
			}
		}
		return ""
	}
	switch {
	case !w.Complete:
		return "the program's children could not be watched"
	case w.Left:
		return "it left a running process behind"
	}
	for _, p := range w.Seen {
		if p.OwnRoot {
			return fmt.Sprintf("process %d (%s) had a root or mounts of its own: device nodes that it opened there are not watched",
				p.Pid, p.Exe)
		}
	}
	if w.Watched == 0 && e.Control.onSoftware() != "" {
		return "" // there is no GPU here
	}
	if w.Watched > 0 && len(e.Control.Nodes) > 0 && len(w.Nodes) == 0 && len(recorded) == 0 {
		return "" // no GPU was touched, by whomever: what processes there were does not matter
	}
	return hidden(e, s, recorded)
}

// hidden returns what may have happened out of sight in a run during which a device was opened, or of which that is not known.
func hidden(e Evidence, s summary, recorded map[processID]bool) string {
	w := e.Watch
	for _, n := range w.Nodes {
		if ofAnother(e.Backend, n) {
			return n + " was opened while it ran: by another API of the GPU (Vulkan, OpenGL, OpenCL), or by another program"
		}
	}
	for _, p := range e.Processes {
		if !p.Forked && len(p.Drivers) > 1 && !ofWSL(p.Drivers) { // one of them may not have loaded the probe
			return fmt.Sprintf("process %d has more than one driver loaded: %s", p.Pid, strings.Join(p.Drivers, ", "))
		}
	}
	children := w.Children || w.Ignored || w.Orphans > 0 || s.hadChildren
	for _, p := range w.Seen {
		if e.OS != "" && p.Driver != "" && len(recorded) == 0 { // on Linux the opening of a device shows that
			return fmt.Sprintf("process %d (%s) had loaded the driver, and the probe never started: whether it called it is not known",
				p.Pid, p.Exe)
		}
		children = children || !p.Root || len(recorded) > 0 && !recorded[processID{p.Pid, p.Started}]
	}
	switch {
	case len(s.apis) > 0:
		return "a GPU was opened while it ran, and perhaps used by another API: it had " + s.apis[0] + " loaded"
	case len(w.Nodes) > 0 && len(recorded) == 0:
		return strings.Join(w.Nodes, ", ") + " was opened while it ran, but the probe never started: by a process without " +
			e.Backend.Injection() + ", by a setuid program, by another API of the GPU, or by another program on this machine"
	case len(recorded) == 0 && len(e.Control.Nodes) == 0 && w.Watched > 0:
		return "whether a GPU was opened while it ran is not known: even the control's opening of it was not seen"
	case len(recorded) == 0:
		return "whether a GPU was opened while it ran is not known"
	case children && !(w.Childless && len(w.Later) == 0 && w.Watched > 0 && len(e.Control.Nodes) > 0):
		return "it started other processes, or may have: whether one of them used a GPU is not known"
	}
	return ""
}

// ofWSL reports whether drivers are those of WSL2, where a loader and the driver that it loads are both called libcuda.
func ofWSL(drivers []string) bool {
	return !slices.ContainsFunc(drivers, func(d string) bool { return !strings.HasPrefix(d, "/usr/lib/wsl/") })
}

// outOfSight returns why a process may have launched something that was not recorded.
func outOfSight(p Seen) string {
	switch {
	case p.Closed:
		return fmt.Sprintf("process %d may not be looked into: it belongs to another user or is setuid", p.Pid)
	case p.NoInjection:
		return fmt.Sprintf("process %d (%s) has lost the variable that loads the probe", p.Pid, p.Exe)
	}
	return ""
}

// mayCount reports whether the launches of a process would count, as far as that is known of one without records.
func mayCount(e Evidence, r Rules, p Seen) bool {
	if p.Exe == "" || p.Exe == e.Binary || r.asksFor(p.Exe) {
		return true
	}
	return slices.ContainsFunc(e.Processes, func(q Process) bool { return q.Self && q.Exe == p.Exe })
}

// summary is what the records say, added up.
type summary struct {
	kernels                         []KernelSummary
	own                             []KernelSummary // of processes whose launches count
	launches, selfLaunches, matched uint64
	matchedTotal, waitedTime        uint64 // nanoseconds; of those that were waited for
	workers                         int    // processes that --child names and that ran a kernel that counts
	unwaited                        uint64 // launches that match and count, but for which nothing waited
	unfinished, dropped             uint64
	uncounted                       uint64 // launches that match by their name, and by their process or device do not count
	unavailable, noEnd              string
	childRecorded                   string // which process used the GPU, where its launches do not count
	childName                       string // the name of its file: one that launched a match, where one did
	// launches that were accepted and have no record; those that a graph captures have none
	unrecorded       string
	device           *probe.Device // of the matching kernel that ran longest
	conflicts, notes []string
	heartbeat        bool     // of any process
	matching         bool     // a kernel matches, of a process of the binary or one that counts
	hadChildren      bool     // any process said at its end that it had some, or that nobody would know
	elsewhere        string   // the device of a kernel that matches but for its device
	against          []string // what speaks against a kernel that matches
	untimed          uint64   // launches whose times CUPTI could not collect
	failed           string   // what the driver answered where that is how those failed
	waitedBy         string   // the program's own call that waited for the kernels, where the probe's was not answered
	refused          string   // the first that the driver refused; of Vulkan a submission, or that during which the device was lost
	open             string   // a process of which launches that match were not waited for
	late             string   // a process that launched what is not recorded, and why
	apis             []string // libraries of other APIs of the GPU
	noUse            noUse    // dispatches that are no use of a GPU by the program
}

// survey adds up what the records say of each process.
func survey(e Evidence, r Rules) summary {
	c := counter{evidence: e, rules: r, index: map[KernelSummary]int{}, ownAt: map[string]int{}, working: map[int]bool{}}
	for i, p := range e.Processes {
		where := fmt.Sprintf("process %d (%s)", p.Pid, cmp.Or(p.Exe, "unknown"))
		switch {
		case !p.Forked:
			c.heartbeat = true
			c.process(i, p, where)
			c.gaps(p, where)
			c.end(p, where)
		case p.Launches() > 0 || p.Dropped > 0 || p.BadBuffers > 0 || p.Recording || p.End != nil:
			c.launches += p.Launches()
			c.conflicts = append(c.conflicts, fmt.Sprintf(
				"of process %d, a fork, in which CUDA does not work, more is written down than its beginning", p.Pid))
		}
	}
	c.conclude()
	return c.summary
}

// counter makes a summary, one process after the other.
type counter struct {
	summary
	evidence Evidence
	rules    Rules
	index    map[KernelSummary]int // in kernels, by what is there before anything is added up
	ownAt    map[string]int        // in own, by the kernel's name
	longest  uint64                // how long the kernel of device ran
	working  map[int]bool          // the processes, by their number, of which a kernel counts: whether one of these was waited for
}

// process adds the kernels of the process number i, and what speaks against them.
func (c *counter) process(i int, p Process, where string) {
	e, r := c.evidence, c.rules
	program := e.isProgram(p)
	// A child's real end is known to its parent alone. A launcher, and children that are asked for, are taken at their word.
	counts := (p.Self && (program || e.Launcher) || r.asksFor(p.Exe)) && (p.Tree || program)
	devices := map[int]probe.Device{}
	for _, d := range p.Devices {
		devices[d.Ordinal] = d
	}
	matched, waited, last := false, false, map[uint32]uint64{} // whether a kernel matches, and one was waited for; the last in each context
	for _, k := range p.Kernels {
		d := devices[k.Device]
		if e.Backend == probe.Vulkan && c.noUse.add(p, k, d) {
			c.kernels = append(c.kernels, KernelSummary{Name: k.Name, Device: d.UUID, Launch: k.Count, Total: k.Total, Child: !p.Self})
			continue
		}
		onDevice := r.onDevice(k.Device, d.UUID)
		if c.kernel(p, k, d, counts, where) && onDevice && (counts || p.Self) {
			matched, waited, last[k.Context] = true, waited || k.Waited > 0, max(last[k.Context], k.Last)
		}
		if !counts {
			c.childRecorded = e.usedBy(p, program, where)
		}
	}
	if why := failures(e, p, nil, where); len(why) > 0 {
		c.refused = cmp.Or(c.refused, why[0])
	}
	if matched {
		if c.matching = true; counts {
			c.working[i] = waited
			if !p.Self {
				c.notes = append(c.notes, "kernels of a child count, "+where)
			}
		}
		c.against = append(c.against, against(e, r, i, last, where)...)
		c.waitedBy = cmp.Or(c.waitedBy, lastWait(p, last))
		for _, f := range p.Refused {
			if what := dispensable[f.Kind]; what != "" {
				c.notes = append(c.notes, fmt.Sprintf("%s answered CUDA error %d in %s: %s", f.Function, f.RC, where, what))
			}
		}
	}
	c.apis = append(c.apis, p.APIs...)
}

// kernel adds one kernel, and reports whether it matches by its name; counts: those of this process do.
func (c *counter) kernel(p Process, k probe.Kernel, d probe.Device, counts bool, where string) (matches bool) {
	e, r := c.evidence, c.rules
	plain := kernelname.Demangle(k.Name)
	// The entry points of shaders are mostly called main: without a name that is asked for, any of the program's own pipelines matches.
	matches = r.names(k.Name, plain) || e.Backend == probe.Vulkan && r.Kernel == nil
	onDevice := r.onDevice(k.Device, d.UUID)
	counted := matches && counts && onDevice
	if matches && counts && !onDevice {
		c.elsewhere = cmp.Or(d.Name, "an unknown device") + prefixed(", ", d.UUID) + fmt.Sprintf(" (number %d)", k.Device)
	}
	c.launches += k.Count
	if matches && !counted {
		c.uncounted += k.Count
	}
	if counts {
		c.selfLaunches += k.Count
		i, ok := c.ownAt[k.Name]
		if !ok {
			i = len(c.own)
			c.ownAt[k.Name], c.own = i, append(c.own, KernelSummary{Name: k.Name, Plain: plain, Child: !p.Self, Matches: matches})
		}
		c.own[i].Total += k.Total
	} else if c.childName == "" || matches {
		c.childName = path.Base(p.Exe)
	}
	if counted {
		unwaited := k.Count - min(k.Waited, k.Count)
		c.unwaited += unwaited
		if unwaited > 0 {
			c.open = where
		}
		c.matched += k.Count - unwaited
		c.matchedTotal += k.Total
		c.waitedTime += k.WaitedTime
		if len(d.UUID) <= 8 || strings.Trim(strings.TrimPrefix(d.UUID, "GPU-"), "0-") == "" { // a driver that has none answers zeros
			c.conflicts = append(c.conflicts, fmt.Sprintf("device %d of %s was not identified", k.Device, where))
		} else if c.device == nil || k.Total > c.longest {
			c.device, c.longest = &d, k.Total
		}
	}
	if plain == k.Name {
		plain = ""
	}
	of := KernelSummary{Name: k.Name, Plain: plain, Device: d.UUID, Matches: matches, Counted: counted, Child: !p.Self}
	i, ok := c.index[of]
	if !ok {
		i = len(c.kernels)
		c.index[of], c.kernels = i, append(c.kernels, of)
	}
	c.kernels[i].Launch += k.Count
	c.kernels[i].Total += k.Total
	return matches
}

// gaps notes what of a process may not have been recorded.
func (c *counter) gaps(p Process, where string) {
	switch {
	case p.Another != "":
		c.late = where + " loaded a second driver, whose kernels are not recorded: " + p.Another
	case p.Late:
		c.late = where + " launched kernels while it ended, after the last record"
	}
	switch {
	case p.Unavailable != nil:
		c.unavailable = where + ", " + p.Unavailable.String()
	case !p.Recording:
		c.unavailable = where + " never began to record"
	case p.BadBuffers > 0:
		c.noEnd = where + " had buffers that CUPTI could not read"
	case p.End == nil:
		c.noEnd = where + " " + c.evidence.disorderly(p)
	case p.End.Sandboxed:
		c.noEnd = where + " shut itself into a sandbox (seccomp), in which the probe does not look for other APIs of the GPU"
	case p.End.Flush == multipleSubscribers:
		c.noEnd = "a profiler of its own took the records of " + where + ", or took CUPTI down"
	case p.End.Flush != 0:
		c.noEnd = fmt.Sprintf("the last flush of %s failed (%d)", where, p.End.Flush)
	case p.End.LostWrites > 0 || p.Launches() < p.End.Kernels:
		c.noEnd = where + " could not write all of its records"
	case p.Callbacks != 0:
		c.noEnd = fmt.Sprintf("the launches of %s could not be counted (%d)", where, p.Callbacks)
	case p.End.Accepted > p.Launches()+p.End.Unfinished+p.End.Untimed+p.End.Dropped:
		c.unrecorded = fmt.Sprintf("of %s that the driver accepted in %s, %d have a record", launchesText(p.End.Accepted), where,
			p.Launches())
	}
	if !p.Recording && p.Launches() > 0 {
		c.conflicts = append(c.conflicts, "kernels of "+where+" are written down, but it never began to record")
	}
}

// end adds what a process counted until its end.
func (c *counter) end(p Process, where string) {
	dropped := p.Dropped
	if end := p.End; end != nil {
		if end.Written > end.Kernels {
			c.conflicts = append(c.conflicts, fmt.Sprintf("more launches are written down of %s than the probe counted: %d, not %d; "+
				"a second driver in it (dlmopen) writes there, too", where, end.Written, end.Kernels))
		}
		dropped = max(dropped, end.Dropped)
		c.unfinished += end.Unfinished
		c.untimed += end.Untimed
		if lost := failures(c.evidence, p, map[uint32]uint64{}, where); end.Untimed > 0 && len(lost) > 0 {
			c.failed = lost[0]
		}
		c.hadChildren = c.hadChildren || end.Forks > 0 || end.Ignores
	}
	c.dropped += dropped
	if p.Real && p.RealNote != "" && !slices.Contains(c.notes, p.RealNote) {
		c.notes = append(c.notes, p.RealNote)
	}
}

// conclude adds what only all processes together show, and sorts the kernels.
func (c *counter) conclude() {
	e, r := c.evidence, c.rules
	if c.matching && e.Truncated { // what is missing may be a failure of a process that launched it
		c.against = append(c.against, cutOff)
	}
	if c.matched > 0 && r.Child != "" {
		c.children()
	}
	if why := ambiguous(c.kernels); c.matched > 0 && r.Kernel == nil && e.Backend == probe.CUDA && why != "" {
		c.notes = append(c.notes, why)
	}
	if c.matched == 0 && c.unwaited > 0 {
		c.against = append(c.against, "whether the last kernels of "+c.open+" failed is not known: nothing waited for them")
	}
	if e.BadLines > 0 {
		c.conflicts = append(c.conflicts, counted(uint64(e.BadLines), "line is", "lines are")+
			" among the records damaged, or not written by the probe")
	}
	if c.matched > 0 {
		if c.unwaited > 0 {
			c.notes = append(c.notes, launchesText(c.unwaited)+" more of "+c.open+" do not count: nothing waited for them")
		}
		if c.noEnd != "" {
			c.notes = append(c.notes, "later records may be missing: "+c.noEnd)
		}
		if c.dropped > 0 {
			c.notes = append(c.notes, "CUPTI dropped "+counted(c.dropped, "record", "records"))
		}
	}
	for _, kernels := range [][]KernelSummary{c.kernels, c.own} {
		slices.SortStableFunc(kernels, func(a, b KernelSummary) int {
			if a.Matches != b.Matches {
				return map[bool]int{true: -1, false: 1}[a.Matches]
			}
			return cmp.Or(cmp.Compare(b.Total, a.Total), strings.Compare(a.Name, b.Name))
		})
	}
}

// ambiguous says that the kernels that count do so only by names of which a word may mean something else.
func ambiguous(kernels []KernelSummary) (why string) {
	for _, k := range kernels {
		if !k.Counted {
			continue
		}
		name := cmp.Or(k.Plain, k.Name)
		word := kernelname.Ambiguous(name)
		if word == "" {
			return ""
		}
		why = fmt.Sprintf("%.200s counts by its name, in which %.200q may mean something else: --kernel names yours", name, word)
	}
	return why
}

// usedBy says which process used the GPU, where its launches do not count.
func (e Evidence) usedBy(p Process, program bool, where string) string {
	switch {
	case !p.Tree && !program && p.Namespace != e.Watch.Namespace:
		return "the GPU was used by " + where + ", in another PID namespace: whether the program started it is not known"
	case !p.Tree && !program && slices.ContainsFunc(p.Ancestors, func(a [2]uint64) bool { return a[0] == e.Watch.Watcher[0] }):
		return "the GPU was used by " + where + ", in another time namespace: whether the program started it is not known"
	case !p.Tree && !program:
		return "the GPU was used by " + where + ", which neither the program nor one of its children started"
	case p.Self:
		return "the GPU was used by a child, " + where + ": how that process ended is not known"
	case program:
		return "the binary became another program (exec), which used the GPU: " + cmp.Or(p.Exe, "unknown")
	}
	return "the GPU was used by a child, " + where + ", and not by the binary itself"
}

// isProgram reports whether a process is the program itself, whose end was met. Without a watcher (--probe FILE alone) it is the only one.
func (e Evidence) isProgram(p Process) bool {
	w := e.Watch
	return p.Pid == w.Pid && p.Started == w.Started && p.Namespace == w.Namespace || w.Pid == 0 && len(e.Processes) == 1
}

// against returns what speaks against kernels that match: their process failed, or they did, or the driver refused what came after.
func against(e Evidence, r Rules, i int, last map[uint32]uint64, where string) []string {
	p := e.Processes[i]
	out := failures(e, p, last, where)
	switch {
	case p.Another != "":
		out = append(out, where+" loaded a second driver, whose kernels and answers are not recorded: "+p.Another)
	case p.Running && e.Exit.Stopped: // it had not failed yet, and ended with the program
	case p.ByRecords && (p.End == nil || p.End.Flush != 0), p.End != nil && p.End.Flush == multipleSubscribers: // the driver's answers, too
		out = append(out, "what the driver answered last in "+where+" is not known: it has brought CUPTI, and "+e.disorderly(p)+
			", or took the records for itself")
	case e.isProgram(p) && e.becameAnother(i):
		out = append(out, "whether "+where+", which launched it, failed is not known: it became another program (exec), or may have")
	case e.isProgram(p): // how that ended is looked at before
	case p.End == nil, e.OS == "" && !p.End.Exited:
		out = append(out,
			"whether "+where+", which launched it, failed is not known: it "+e.disorderly(p))
	case p.End.Status == nil:
		out = append(out, "whether "+where+", which launched it, failed is not known")
	case *p.End.Status != 0 && *p.End.Status != r.ExpectExit:
		out = append(out, fmt.Sprintf("%s, which launched it, ended with status %d", where, *p.End.Status))
	}
	return out
}

// becameAnother reports whether the program's process did, or may have, where it has not come to an end of its own.
func (e Evidence) becameAnother(i int) bool {
	p := e.Processes[i]
	if e.OS != "" || p.End != nil && p.End.Exited {
		return false
	}
	for j, q := range slices.Backward(e.Processes) { // the last of those that it was
		if q.Pid == p.Pid && q.Started == p.Started && q.Namespace == p.Namespace && !q.Forked {
			return j != i || !e.Watch.Kept
		}
	}
	return true
}

// lastWait names the wait of the program's own that a proof rests on, where the probe's at the end came too late: most programs end
// their context first.
func lastWait(p Process, last map[uint32]uint64) string {
	for _, context := range slices.Sorted(maps.Keys(last)) {
		kernel := last[context]
		if w, ok := p.LastWait(context); ok && !w.Probe && w.CameAfter(kernel) {
			return w.Function
		}
	}
	return ""
}

// failures words what the driver refused in a process and speaks against its kernels that match, of which last has the last of each
// context; nil: everything that is not an exception does.
func failures(e Evidence, p Process, last map[uint32]uint64, where string) (out []string) {
	for _, f := range p.Refused {
		if !speaksAgainst(f, p, last) {
			continue
		}
		what := ""
		switch {
		case last == nil:
		case f.Loses():
			what = "the kernel failed: "
		case f.CameAfter(0):
			what = "after the last kernel that matches "
		}
		out = append(out, what+fmt.Sprintf("%s answered %s error %d in %s", cmp.Or(f.Function, "the driver"), e.Backend.Name(),
			f.RC, where))
	}
	return out
}

// ofAnyContext are calls of which an answer speaks against kernels of each context.
var ofAnyContext = []probe.CallKind{probe.Launches, probe.Memory, probe.Code, probe.Contexts}

// speaksAgainst reports whether a refusal speaks against kernels that match.
func speaksAgainst(f probe.Refusal, p Process, last map[uint32]uint64) bool {
	after, confirmed := last == nil, true // after a kernel that matches, in its context; all of these had been waited for before
	for context, kernel := range last {
		if f.Last || f.Context == 0 || f.Context == context || slices.Contains(ofAnyContext, f.Kind) {
			after = after || f.Last || f.CameAfter(kernel) // of those that are not listed nothing is known
		}
		if f.Context == 0 || f.Context == context {
			confirmed = confirmed && slices.ContainsFunc(p.Kernels, func(k probe.Kernel) bool {
				return k.Context == context && k.Last == kernel &&
					slices.ContainsFunc(f.Before, func(w probe.Wait) bool { return w.Of(k) && !w.Probe })
			})
		}
	}
	switch {
	case f.Kind == probe.Waits && (f.RC == notYet && strings.Contains(f.Function, "Query") || f.RC >= 900 && f.RC <= 907):
		return false // a query, or a stream that is being captured
	case f.Ends() && (f.Kind == probe.Settling || confirmed && (f.Kind == probe.Waits || f.Kind == probe.Copies || f.Kind == probe.Uploads)):
		return false // what the probe's own wait was refused is missing as a wait
	case f.Loses():
		return !f.Early
	}
	if f.Last && f.Kind != probe.Settling {
		return after // later ones are not listed
	}
	counts := againstAnswers[f.Kind]
	if f.Kind == probe.Absent && last != nil {
		return false // it counts devices
	}
	onIt := func(k probe.Kernel) bool { return last[k.Context] > 0 && k.Device == *f.On }
	return after && counts != nil && counts(f.RC) &&
		(f.Kind != probe.Contexts || last == nil || f.On == nil || slices.ContainsFunc(p.Kernels, onIt)) // nil: on one that is not known
}

const (
	outOfMemory         = 2
	notYet              = 600
	multipleSubscribers = 39 // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
)

// againstAnswers says which answers of the driver speak against kernels before them, by what was called; of other calls none does. The names are
// cuda.h's.
var againstAnswers = map[probe.CallKind]func(rc int) bool{
	"":             anyAnswer, // of Vulkan, a submission
	probe.Waits:    anyAnswer,
	probe.Copies:   anyAnswer,
	probe.Launches: anyAnswer,
	probe.Settling: anyAnswer,
	probe.Uploads:  anyAnswer,
	probe.Memory:   func(rc int) bool { return rc == outOfMemory }, // with others a program asks what sizes and kinds there are
	probe.Code:     func(rc int) bool { return rc != 4 },           // DEINITIALIZED: the driver has ended
	probe.Absent:   anyAnswer,                                      // of a process without a kernel that matches
	// UNSUPPORTED_EXEC_AFFINITY, NOT_SUPPORTED: this device has no such kind, and a program asks for another
	probe.Contexts: func(rc int) bool { return rc != 224 && rc != 801 },
}

func anyAnswer(int) bool { return true }

// dispensable is what programs go on without on the GPU: a refusal is a note.
var dispensable = map[probe.CallKind]string{
	probe.Lookups: "a kernel that was asked for is not there",
	probe.Pinned:  "there is no memory of the host that the device reaches",
}

// disorderly words why the probe could not write the last records of a process.
func (e Evidence) disorderly(p Process) string {
	switch {
	case p.ByDlmopen:
		return "loaded the driver by dlmopen, so that the probe does not see its end"
	case e.OS == buildenv.Windows:
		return "did not end in an orderly way (TerminateProcess, or an exception that nobody handled)"
	}
	return "did not end in an orderly way (exec, _exit, abort or a signal)"
}
