// Package verify runs a program under gpu/probe and judges whether its kernel ran on a GPU.
//
// Run gathers Evidence: first the positive control, then the program, in one environment, while the tree of its processes is looked at
// through /proc; where nothing matched the control runs once more, because the verdict then hangs on silence. Judge is pure: Evidence and
// Rules in, Verdict out. Nothing is averaged: one piece of evidence against is enough to keep a program from being called Proved, and
// silence counts only where everything was seen.
//
// What is claimed: by the CUDA driver's own records, a kernel of that name ran on that device in a process whose executable is the given
// file. What is not: that the program is honest. A program that wants to deceive can write its own records into the directory that
// GPUBUILD_PROBE_DIR names; the rules guard against accident. Only Linux can be watched so far.
//
// Vulkan's evidence (vulkan.go) is of the same kind. There any compute pipeline of the program's own counts unless one is named, and what
// ran on a software rasteriser ran on the CPU.
package verify

import (
	"fmt"
	"path"
	"slices"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
)

// Loaded is the driver that one process had loaded, as far as that is known.
type Loaded struct {
	LibCUDA  string   `json:"libcuda"`            // the file that cuInit came from
	Real     string   `json:"real,omitempty"`     // that file without links
	Version  string   `json:"version,omitempty"`  // 580.65.06 of libcuda.so.580.65.06
	Module   string   `json:"module,omitempty"`   // version of the kernel module; empty: none is loaded
	Drivers  []string `json:"drivers,omitempty"`  // every libcuda that was mapped
	Nodes    []string `json:"nodes,omitempty"`    // NVIDIA device nodes that the process had open
	LibCUPTI string   `json:"libcupti,omitempty"` // the CUPTI that recorded
	WSL      bool     `json:"wsl,omitempty"`
	System   string   `json:"system,omitempty"` // Windows: its directory System32
	Signed   []string `json:"signed,omitempty"` // Windows: which of LibCUDA and Drivers carry a signature that Windows holds valid

	Backend probe.Backend  `json:"backend,omitempty"` // of Vulkan, LibCUDA is its loader
	Devices []probe.Device `json:"devices,omitempty"` // Vulkan: those that were opened
}

// ControlOutcome says what came of the positive control. The zero value means that it was not run.
type ControlOutcome string

// Outcomes of the control.
const (
	ControlMissing    ControlOutcome = ""           // there is no control program
	ControlRecorded   ControlOutcome = "recorded"   // its kernel ran and was recorded
	ControlUnrecorded ControlOutcome = "unrecorded" // its kernel ran, but no record came of it
	ControlNoLibrary  ControlOutcome = "no library" // there is no CUDA driver
	ControlNoDevice   ControlOutcome = "no device"  // the driver sees no device
	ControlFailed     ControlOutcome = "failed"     // anything else
	ControlCannotRun  ControlOutcome = "cannot run" // it could not be started or did not answer
)

// Control is the positive control: a program of ours that certainly runs a kernel.
type Control struct {
	Outcome    ControlOutcome `json:"outcome"`
	Why        string         `json:"why,omitempty"`
	Device     string         `json:"device,omitempty"`
	UUID       string         `json:"uuid,omitempty"`
	Capability string         `json:"capability,omitempty"`
	CUDA       gpu.Version    `json:"cuda"`
	Loaded     Loaded         `json:"loaded"`
	Real       bool           `json:"real"`
	RealNote   string         `json:"real_note,omitempty"`
	With       string         `json:"with,omitempty"`  // the earlier program of the same run with which it was recorded; empty: this one
	Nodes      []string       `json:"nodes,omitempty"` // device nodes that were opened while it ran: proof that their opening is seen here
}

// Process is one recorded process of the program's tree and what gpubuild found out about it.
type Process struct {
	probe.Process
	Self     bool   `json:"self"`           // its executable is the binary itself
	Tree     bool   `json:"tree,omitempty"` // the program started it, or a child did: the watcher is above it, or saw it
	Loaded   Loaded `json:"loaded"`
	Running  bool   `json:"running,omitempty"`   // it ran when gpubuild stopped the program
	Real     bool   `json:"real"`                // its driver is a real one
	RealNote string `json:"real_note,omitempty"` // why not, or what to say of it
	Script   string `json:"script,omitempty"`    // the file that it runs, if it is an interpreter and that is known
}

// Exit is how the program ended.
type Exit struct {
	Code     int           `json:"code"`
	Signal   string        `json:"signal,omitempty"`
	TimedOut bool          `json:"timed_out,omitempty"`
	Stopped  bool          `json:"stopped,omitempty"` // by gpubuild, once its kernel was proven
	Elapsed  time.Duration `json:"elapsed"`
}

// Ours reports whether gpubuild ended the program, so that its status is not its own.
func (e Exit) Ours() bool { return e.TimedOut || e.Stopped }

// asAsked reports whether a program that gpubuild ended went as one does that is asked to: with the expected status, or where it was proven
// before by our own signal, or with the status that a shell makes of that. Another one is a failure, perhaps found before the signal.
func (e Exit) asAsked(expected int) bool {
	const bySIGTERM = 128 + 15
	return e.Ours() && e.Signal == "" && e.Code == expected ||
		e.Stopped && (e.Signal == "SIGTERM" || e.Signal == "SIGKILL" || e.Signal == "" && e.Code == bySIGTERM)
}

func (e Exit) String() string {
	switch {
	case e.Stopped:
		return fmt.Sprintf("was stopped after %s, and then %s", e.Elapsed.Round(time.Millisecond), Exit{Code: e.Code, Signal: e.Signal})
	case e.TimedOut:
		return fmt.Sprintf("was ended after %s, before it was done", e.Elapsed.Round(time.Millisecond))
	case e.Signal != "":
		return "was ended by " + e.Signal
	}
	if uint32(e.Code) >= 0xC0000000 { // ntstatus.h: an exception that nobody handled
		return fmt.Sprintf("was ended by Windows (0x%08X)", uint32(e.Code))
	}
	return fmt.Sprintf("ended with status %d", e.Code)
}

// Seen is one process of the tree as /proc, or on Windows the watcher, showed it.
type Seen struct {
	Pid         int    `json:"pid"`
	Started     uint64 `json:"started"`
	Exe         string `json:"exe,omitempty"`
	Driver      string `json:"driver,omitempty"`       // Windows: the driver's library that it had loaded
	Closed      bool   `json:"closed,omitempty"`       // it may not be looked into (setuid, another user's)
	NoInjection bool   `json:"no_injection,omitempty"` // its environment lacks the injection variable or ours
	Root        bool   `json:"root,omitempty"`         // the program itself
	OwnRoot     bool   `json:"own_root,omitempty"`     // it has a root or mounts of its own: device nodes there are not watched

	bare bool // it had no environment when it was looked at last
}

// Watch is what is known of the processes that the program started, and of the devices.
type Watch struct {
	Pid       int    `json:"pid,omitempty"` // the program itself
	Started   uint64 `json:"started,omitempty"`
	Namespace uint64 `json:"namespace,omitempty"` // inode of its PID namespace; 0: not known
	// pid and start time of gpubuild's watcher, which started it and inherits what it leaves behind
	Watcher  [2]uint64 `json:"watcher,omitzero"`
	Complete bool      `json:"complete"`           // the watcher saw the program's end as its parent
	Children bool      `json:"children,omitempty"` // it waited for at least one child
	Ignored  bool      `json:"ignored,omitempty"`  // it ignored SIGCHLD: children may have vanished unseen
	Kept     bool      `json:"kept,omitempty"`     // at its end it had a handler that the probe gave it, and that an exec takes away
	Left     bool      `json:"left,omitempty"`     // it left a running process behind
	Watched  int       `json:"watched,omitempty"`  // how many device nodes were watched; -1: they could not be
	Nodes    []string  `json:"nodes,omitempty"`    // those that were opened meanwhile, by whomever
	// the program was seen to have no child yet, for the last time before Later were opened: what had been opened before it opened itself
	Childless bool     `json:"childless,omitempty"`
	Later     []string `json:"later,omitempty"`
	Orphans   int      `json:"orphans,omitempty"` // processes that it left behind and that have ended
	Seen      []Seen   `json:"seen,omitempty"`
}

// holds reports whether a recorded process is one of the program's tree: the watcher is above it, or saw it there. A daemon that was
// started long ago may start one with the probe's variables, too. Of one in another PID namespace that is not known.
func (w Watch) holds(p probe.Process) bool {
	if w.Pid == 0 || p.Namespace != w.Namespace {
		return false
	}
	return p.Pid == w.Pid && p.Started == w.Started || slices.Contains(p.Ancestors, w.Watcher) ||
		slices.ContainsFunc(w.Seen, func(s Seen) bool { return s.Started == p.Started && s.Pid == p.Pid })
}

// UsedGPU reports whether kernels of the program's tree are recorded that a real driver carried out.
func (e Evidence) UsedGPU() bool {
	return e.Backend == probe.CUDA && slices.ContainsFunc(e.Processes, func(p Process) bool {
		return !p.Forked && p.Real && p.Launches() > 0 && (p.Tree || e.isProgram(p))
	})
}

// MayHaveOpened reports whether a process may have opened a driver or a device, although the control found none.
func (e Evidence) MayHaveOpened() bool {
	w := e.Watch
	return e.LostFiles+e.CutFiles+e.BadLines > 0 || e.Truncated || e.Removed != "" || len(w.Nodes) > 0 || !w.Complete || w.Left ||
		e.Backend == probe.CUDA && len(e.Processes) > 0 || slices.ContainsFunc(w.Seen, func(p Seen) bool {
		return p.OwnRoot || p.Driver != "" && e.Control.Outcome == ControlNoLibrary
	})
}

// Conflict is something in the program's surroundings that speaks against trusting the run, or should be known.
type Conflict struct {
	What    string `json:"what"`
	Against bool   `json:"against"` // it keeps the program from being Proved
}

// Evidence is everything that was observed of one run. It is plain data: a stored one can be judged again.
type Evidence struct {
	Schema int    `json:"schema"`
	OS     string `json:"os,omitempty"` // where it is not Linux
	Binary string `json:"binary"`

	Backend probe.Backend `json:"backend,omitempty"`

	Args      []string   `json:"args,omitempty"`
	Launcher  bool       `json:"launcher,omitempty"` // a runner of the user's started the binary, and passes its exit status on
	Changed   bool       `json:"changed,omitempty"`  // the binary's file changed while it ran
	CUPTI     string     `json:"cupti,omitempty"`    // the libcupti that was asked for
	Probe     string     `json:"probe,omitempty"`    // SHA-256 of the probe
	Hidden    string     `json:"hidden,omitempty"`   // the setting under which the driver sees no device
	Control   Control    `json:"control"`
	After     *Control   `json:"after,omitempty"` // the control once more, after a run in which nothing matched
	Ran       bool       `json:"ran"`             // the program was started
	Exit      Exit       `json:"exit"`
	Processes []Process  `json:"processes,omitempty"`
	BadLines  int        `json:"bad_lines,omitempty"`
	CutFiles  int        `json:"cut_files,omitempty"`
	LostFiles int        `json:"lost_files,omitempty"` // record files that are empty or may not be read
	Truncated bool       `json:"truncated,omitempty"`
	Removed   string     `json:"removed,omitempty"` // why the records could not be read at all
	Watch     Watch      `json:"watch"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// Reconsider returns stored evidence with its drivers judged once more: one counts as real only if it did when it was seen and still does
// by real. The files of the machine where it was recorded need not be here, so what was found out about them then stands as it was stored.
func Reconsider(e Evidence, real func(Loaded) (bool, string)) Evidence {
	again := func(ok bool, note string, l Loaded) (bool, string) {
		if !ok {
			return false, note
		}
		l.Drivers = nil // that they are one file was seen then, and can be seen only there
		if still, why := real(l); !still {
			return false, why
		}
		return true, note
	}
	e.Control.Real, e.Control.RealNote = again(e.Control.Real, e.Control.RealNote, e.Control.Loaded)
	if e.After != nil {
		after := *e.After
		after.Real, after.RealNote = again(after.Real, after.RealNote, after.Loaded)
		e.After = &after
	}
	e.Processes = slices.Clone(e.Processes)
	for i := range e.Processes {
		p := &e.Processes[i]
		p.Real, p.RealNote = again(p.Real, p.RealNote, p.Loaded)
	}
	return e
}

// interpreter knows by its name a program that runs a script.
var interpreter = lazyregexp.New(`^(python|pypy|perl|ruby|node|julia|Rscript|bash|dash|sh|zsh)[\d.]*$`).MatchString

// bare are options of interpreters without a value.
var bare = lazyregexp.New(`^-[uBOsSPqvxw]+$`).MatchString

// script is the file that an interpreter runs: of the words that it was started with the first behind options without a value. A relative
// one is known only of a process that is still in dir, where gpubuild started the program: it may have been another file elsewhere.
// Nothing where that is not known: `-m`, `-c`, options with values, a title that the program gave itself.
func script(h buildenv.Host, p probe.Process, dir string) string {
	if !interpreter(path.Base(p.Exe)) {
		return ""
	}
	i := slices.IndexFunc(p.Words, func(w string) bool { return !bare(w) })
	if i < 0 || !h.IsAbs(p.Words[i]) && p.Dir != h.Real(dir) {
		return ""
	}
	if file := h.From(dir, p.Words[i]); h.IsFile(file) {
		return file
	}
	return ""
}

// Script is the file that the program runs if it is an interpreter and that is known.
func (o Options) Script(h buildenv.Host) string {
	dir := h.Real(h.Abs(o.Dir))
	return script(h, probe.Process{Identity: probe.Identity{Exe: h.Real(o.Binary)}, Words: o.Args, Dir: dir}, dir)
}

// UsedFile is a file that ran next to the binary, and that a proof is of: one of a child whose kernels count, or an interpreter's script.
type UsedFile struct {
	Path   string
	Inode  uint64 // of a child's file, as it ran; 0: not known
	Device uint64
}

// UsedFiles lists the files besides the binary that launched what counts, and the script that it was started with.
func (e Evidence) UsedFiles(r Rules, script string) (out []UsedFile) {
	add := func(a UsedFile) {
		if !slices.ContainsFunc(out, func(b UsedFile) bool { return a.Path == b.Path }) {
			out = append(out, a)
		}
	}
	for _, p := range e.Processes {
		if p.Forked || p.Launches() == 0 || !p.Self && !r.asksFor(p.Exe) {
			continue
		}
		if !p.Self || p.Script == e.Binary { // a child, or the script's interpreter
			add(UsedFile{Path: p.Exe, Inode: p.ExeInode, Device: p.ExeDevice})
		}
		if p.Script != "" && p.Script != e.Binary {
			add(UsedFile{Path: p.Script})
		}
	}
	if script != "" {
		add(UsedFile{Path: script})
	}
	return out
}
