package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/regular"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
)

// Options say what to run and how.
type Options struct {
	Binary   string // the file whose process must have launched the kernel
	Args     []string
	Launcher []string     // the words of a user's own runner, put before the binary's path; its first is an absolute path
	Dir      string       // where it starts; empty: the current directory
	Env      buildenv.Env // its environment, run-time library directories included; the probe's variables are added
	CUPTI    string       // libcupti; empty: the usual names by the loader's own search
	Others   []string     // further ones, each tried where the one before did not record the control
	Probe    probe.Probe
	Control  Control // recorded for an earlier program in the same circumstances; else one is recorded
	Rules
	Timeout time.Duration // 0: none
	// UntilProved stops the program as soon as its kernel is proven: a server, or a long training run.
	UntilProved bool
	Stdin       io.Reader
	Stdout      io.Writer
	Stderr      io.Writer
	Real        func(Loaded) (bool, string) // is this driver that of a real GPU? nil: RealDriver
	RunDir      string                      // where the private directory of this run is made
	Keep        bool                        // leave the records there
	Nodes       []string                    // the GPUs' device nodes; nil: those of this machine, DeviceNodes

	layerDirs []string // Vulkan: where the loader has to look for layers, if it is an old one
}

// BinaryError says that the binary cannot be run.
func BinaryError(path string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Path == path { // the path is said once
		err = p.Err
	}
	fix := "give the path of an executable file"
	if errors.Is(err, fs.ErrNotExist) {
		fix = "build it first, and give the path of the executable file"
	}
	return exit.Errorf(exit.Usage, fix, "%s: %w", path, err)
}

const controlTimeout = 60 * time.Second // PTX is compiled, and a first cuInit on a large machine takes seconds

// Run gathers the evidence of one run of the program: the positive control first, then the program with its own streams, while its tree
// of processes is looked at. A non-zero status is evidence, not an error; the error says what kept the program from being run at all.
// When ctx is cancelled the runner ends the tree; the run's private directory is removed in any case unless Keep is set.
func Run(ctx context.Context, h buildenv.Host, run buildenv.Runner, o Options) (Evidence, error) {
	e := Evidence{Schema: 1, Backend: o.Probe.Backend, Binary: h.Abs(o.Binary), Args: o.Args, CUPTI: o.CUPTI,
		Probe: o.Probe.Digest, Launcher: len(o.Launcher) > 0}
	if o.Real == nil {
		o.Real = RealDriver(h)
	}
	switch h.OS {
	case buildenv.Linux:
	case buildenv.Windows:
		e.OS = h.OS
	default:
		return e, exit.Errorf(0, "prove on Linux or on Windows", "a program cannot be proven on %s yet", h.OS)
	}
	if err := executable(h, e.Binary); err != nil {
		return e, BinaryError(e.Binary, err)
	}
	original, err := remember(h, e.Binary, o.Env)
	if err != nil {
		return e, BinaryError(e.Binary, err)
	}
	e.Conflicts = surroundings(h, o.Env, o.Probe)
	dir, err := os.MkdirTemp(o.RunDir, "gpubuild-run-")
	if err != nil {
		return e, probe.CacheError(o.RunDir, err)
	}
	if !o.Keep {
		defer os.RemoveAll(dir)
	}
	targetDir := h.Join(dir, "target")
	if err := os.Mkdir(targetDir, 0o700); err != nil {
		return e, probe.CacheError(dir, err)
	}
	look := o.Nodes == nil && h.OS == buildenv.Linux
	if look {
		o.Nodes = DeviceNodes(h)
	}
	if o, err = e.runControls(ctx, h, run, o, dir); err != nil {
		return e, err
	}
	if look { // a driver may make them at its first use, which was the control's
		o.Nodes = DeviceNodes(h)
	}
	if devices, ok := o.Env.Lookup("CUDA_VISIBLE_DEVICES"); ok && o.Probe.Backend == probe.CUDA && e.Control.Outcome == ControlNoDevice {
		e.Hidden = "CUDA_VISIBLE_DEVICES=" + devices
	}

	if err := e.runProgram(ctx, h, run, o, targetDir, h.Join(dir, "watch.jsonl"), original); err != nil {
		return e, err
	}
	if err := e.otherCUPTIs(ctx, h, run, o, dir); err != nil {
		return e, err
	}
	if e.Control.Outcome == ControlRecorded && survey(e, o.Rules).matched == 0 { // the verdict will hang on silence
		after, err := runControl(ctx, h, run, o, dir)
		e.After = &after
		return e, err
	}
	return e, nil
}

// runProgram runs the program, looks at its tree of processes meanwhile, and reads what the probe has recorded.
func (e *Evidence) runProgram(
	ctx context.Context, h buildenv.Host, run buildenv.Runner, o Options, targetDir, watchFile string, binary original,
) error {
	cmd := watching(command(e.Binary, targetDir, o), o, watchFile)
	s := newSampler(h, o.Probe.Backend, targetDir)
	s.asks = func(p *Seen) bool {
		return o.asksFor(p.Exe) || p.Root && o.Child != "" || e.Control.Outcome == ControlNoLibrary
	}
	stop := make(chan struct{})
	var looking sync.WaitGroup
	if o.Probe.Watch != "" && h.OS == buildenv.Linux { // on Windows the watcher looks by itself
		looking.Go(func() { s.follow(watchFile, stop) })
	}
	var running []processID
	proved := make(chan struct{})
	if cmd.Stop = proved; o.UntilProved { // so that a timeout asks by SIGTERM, too
		looking.Go(func() { running = e.whenProved(h, o, targetDir, watchFile, binary, stop, proved) })
	}
	result, err := run.Run(ctx, cmd)
	close(stop)
	looking.Wait()
	exited, failed := errors.AsType[*buildenv.ExitError](err)
	if err != nil && !failed {
		return err
	}
	if failed && result.Code == 0 && result.Signal == "" {
		result = exited.Result
	}
	seen, refused, err := readWatch(h, watchFile)
	if err != nil {
		return err
	}
	if refused != 0 {
		return binary.refused(syscall.Errno(refused))
	}
	e.Ran = true
	e.Exit = Exit{Code: result.Code, Signal: result.Signal, TimedOut: result.TimedOut, Stopped: result.Stopped, Elapsed: result.Elapsed}
	e.Watch = seen.with(s)
	e.Changed = binary.changed()

	err = e.read(h, o, targetDir, binary)
	for i := range e.Processes {
		p := &e.Processes[i]
		p.Running = slices.Contains(running, processID{p.Pid, p.Started})
	}
	if err != nil {
		e.Removed = err.Error()
	}
	return nil
}

// executable is what is wrong with a file that is to be started.
func executable(h buildenv.Host, binary string) error {
	fi, err := h.Files.Stat(binary)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return errors.New("is a directory")
	case h.OS != buildenv.Windows && fi.Mode()&0o111 == 0:
		return errors.New("is not executable")
	}
	return nil
}

// runControls runs the positive control, with one CUPTI after the other until one records it, unless it was recorded before. The options
// are those with which it ended.
func (e *Evidence) runControls(ctx context.Context, h buildenv.Host, run buildenv.Runner, o Options, dir string) (_ Options, err error) {
	for e.Control = o.Control; e.Control.Outcome != ControlRecorded; {
		if e.Control, err = runControl(ctx, h, run, o, dir); err != nil {
			return o, err
		}
		if o.Probe.Backend == probe.Vulkan && e.Control.Outcome == ControlUnrecorded && o.layerDirs == nil {
			o.layerDirs = layerDirs(h) // a loader of before 1.3.207
			continue
		}
		if len(o.Others) == 0 || e.Control.Outcome != ControlUnrecorded {
			break
		}
		// Which drivers a CUPTI works with, only it knows: one that is newer does not start (CUPTI documentation 12.8, 13.4).
		o.CUPTI, o.Others = o.Others[0], o.Others[1:]
		e.CUPTI = o.CUPTI
	}
	return o, nil
}

// command starts the program so that it records into a directory.
func command(binary, dir string, o Options) buildenv.Cmd {
	cmd := buildenv.Cmd{
		Path: binary, Args: o.Args, Dir: o.Dir, Env: probed(o, dir).Entries(), Timeout: o.Timeout,
		Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Grace: buildenv.ProgramGrace,
	}
	if len(o.Launcher) > 0 {
		cmd.Path, cmd.Args = o.Launcher[0], slices.Concat(o.Launcher[1:], []string{binary}, o.Args)
	}
	return cmd
}

// read adds what the processes recorded so far.
func (e *Evidence) read(h buildenv.Host, o Options, dir string, b original) error {
	records, err := probe.ReadDir(dir)
	e.BadLines, e.CutFiles, e.LostFiles, e.Truncated = records.Bad, records.Cut, records.Lost, records.Truncated
	e.Processes, e.Conflicts = nil, slices.Clip(e.Conflicts)
	for _, p := range records.Processes {
		// By the file, not by its name: in another root the same name is another file, and cargo links one file under two names.
		// A script is run by its interpreter, in the process that was started.
		is := func(id cache.Identity) bool {
			return p.ExeInode != 0 && p.ExeInode == id.Inode && p.ExeDevice == id.Device
		}
		program := e.isProgram(Process{Process: p})
		self := is(b.id) || is(b.interpreter) && program && interprets(b.line, p.Words, e.Binary)
		q := Process{Process: p, Self: self, Tree: e.Watch.holds(p), Loaded: complete(h, o.loaded(p)),
			Script: script(h, p, h.Abs(o.Dir))}
		q.Real, q.RealNote = o.Real(q.Loaded)
		e.Processes = append(e.Processes, q)
		e.Conflicts = append(e.Conflicts, within(q)...)
	}
	return err
}

// interprets reports whether an interpreter with these words runs this script, whose first line is given: nothing but options of that line
// stands before it. Linux gives the whole path by which the script was started; a relative word may be another file, after a chdir. A
// program that has changed its title has empty words; one that was started again without any has none.
func interprets(line string, words []string, script string) bool {
	for _, w := range words {
		if w != "" && !(strings.HasPrefix(w, "-") && strings.Contains(line, w)) {
			return w == script
		}
	}
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return w != "" })
}

// stopPeriod is how often the records of a running program are judged.
const stopPeriod = 250 * time.Millisecond

// whenProved closes proved once what is recorded so far proves the kernel, and returns the recorded processes that ran then; it looks until
// the program has ended.
func (e Evidence) whenProved(h buildenv.Host, o Options, dir, watchFile string, b original, ended <-chan struct{},
	proved chan<- struct{}) (running []processID) {
	e.Ran, e.Exit = true, Exit{Code: o.ExpectExit, Stopped: true}
	s := sampler{h: h}
	wait := stopPeriod
	for {
		select {
		case <-ended:
			return nil
		case <-time.After(wait):
		}
		began, now := time.Now(), e
		w, _, err := readWatch(h, watchFile)
		if now.Watch = w; err == nil && now.read(h, o, dir, b) == nil {
			running = nil
			for i := range now.Processes {
				p := &now.Processes[i]
				st, ok := s.stat(p.Pid)
				now, err := cache.Identify(fmt.Sprintf("/proc/%d/exe", p.Pid)) // it may have become another program
				p.Running = ok && !st.Ended && st.Started == p.Started && p.Namespace == w.Namespace &&
					err == nil && now.Inode == p.ExeInode && now.Device == p.ExeDevice
				if p.Running {
					running = append(running, processID{p.Pid, p.Started})
				}
			}
			if Judge(now, o.Rules).Kind == Proved {
				close(proved)
				return running
			}
		}
		wait = max(stopPeriod, 10*time.Since(began)) // records may be many
	}
}

// watching puts the watcher in front of a command.
func watching(cmd buildenv.Cmd, o Options, record string) buildenv.Cmd {
	if o.Probe.Watch != "" {
		cmd.Args = append([]string{record, strings.Join(o.Nodes, "\n"), cmd.Path}, cmd.Args...)
		cmd.Path = o.Probe.Watch
	}
	return cmd
}

// probed is the program's environment with the probe in it.
func probed(o Options, dir string) buildenv.Env {
	if o.Probe.Backend == probe.Vulkan {
		return layered(o.Env.Set(probe.DirVariable, dir), o.Probe.Library, o.layerDirs)
	}
	env := o.Env.Set(probe.InjectionVariable, o.Probe.Library).Set(probe.DirVariable, dir).Unset(probe.UntilProvedVariable)
	if o.UntilProved {
		env = env.Set(probe.UntilProvedVariable, "1")
	}
	if o.CUPTI != "" {
		return env.Set(probe.CUPTIVariable, o.CUPTI)
	}
	return env.Unset(probe.CUPTIVariable)
}

func (o Options) loaded(p probe.Process) Loaded {
	l := Loaded{Backend: o.Probe.Backend, LibCUDA: p.LibCUDA, Drivers: p.Drivers, Nodes: p.Nodes, LibCUPTI: p.LibCUPTI}
	if l.Backend == probe.Vulkan {
		l.Devices = p.Devices
	}
	return l
}

// surroundings finds what in an environment changes what a record means.
func surroundings(h buildenv.Host, env buildenv.Env, p probe.Probe) (out []Conflict) {
	if v := env.Get(probe.InjectionVariable); p.Backend == probe.CUDA && v != "" && !h.SamePath(v, p.Library) {
		out = append(out, Conflict{What: probe.InjectionVariable + " was set: replaced by gpubuild's probe for this run"})
	}
	if env.Get("LD_AUDIT") != "" && h.OS != buildenv.Windows { // its value is nothing for a receipt
		out = append(out, Conflict{What: "LD_AUDIT is set: it can put other functions in the driver's place", Against: true})
	}
	return out
}

// within finds what in a recorded process speaks against its records.
func within(p Process) (out []Conflict) {
	for _, i := range p.Interposed {
		out = append(out, Conflict{
			What: fmt.Sprintf("%s of process %d comes from %s, not from the driver", i.Symbol, p.Pid, i.By), Against: true,
		})
	}
	return out
}

// otherCUPTIs runs the positive control with each CUPTI that a process brought with it, as PyTorch does, and that recorded in place of
// ours.
func (e *Evidence) otherCUPTIs(ctx context.Context, h buildenv.Host, run buildenv.Runner, o Options, dir string) error {
	tried := []string{h.Real(o.CUPTI)}
	for _, p := range e.Processes {
		brought := h.Real(p.LibCUPTI)
		if !p.Recording || o.CUPTI == "" || slices.Contains(tried, brought) {
			continue
		}
		tried, o.CUPTI = append(tried, brought), p.LibCUPTI
		control, err := runControl(ctx, h, run, o, dir)
		if err != nil {
			return err
		}
		if control.Outcome != ControlRecorded {
			e.Conflicts = append(e.Conflicts, Conflict{
				What: fmt.Sprintf("process %d was recorded by %s, which it brought, and which does not record a control kernel",
					p.Pid, p.LibCUPTI),
				Against: true,
			})
		}
	}
	return nil
}

type controlLine struct {
	Control    int      `json:"control"`
	OK         bool     `json:"ok"`
	Step       string   `json:"step"`
	RC         int      `json:"rc"`
	Why        string   `json:"why"`
	Device     string   `json:"device"`
	UUID       string   `json:"uuid"`
	Capability string   `json:"capability"`
	Driver     int      `json:"driver"`
	LibCUDA    string   `json:"libcuda"`
	Nodes      []string `json:"nodes"`

	Devices []probe.Device `json:"devices"` // Vulkan: all of this machine
}

// Exit statuses of the control program, csrc/control.c.
const (
	controlNoLibrary = 3
	controlNoDevice  = 4
)

// ask runs the control as it is, without the probe, and answers what it printed.
func ask(ctx context.Context, h buildenv.Host, run buildenv.Runner, p probe.Probe) (l controlLine, code int, err error) {
	result, err := run.Run(ctx, buildenv.Cmd{Path: p.Control, Env: h.Env.Entries(), Timeout: controlTimeout, Limit: 64 << 10})
	if exit, ok := errors.AsType[*buildenv.ExitError](err); ok {
		result, err = exit.Result, nil
	}
	if err == nil {
		err = json.Unmarshal(result.Stdout, &l)
	}
	return l, result.Code, err
}

// HasDevice asks the control whether there is a device that the backend can use. Where the control cannot answer, it is a yes: a proof then
// says what is missing.
func HasDevice(ctx context.Context, h buildenv.Host, run buildenv.Runner, p probe.Probe) bool {
	_, code, err := ask(ctx, h, run, p)
	return err != nil || code != controlNoLibrary && code != controlNoDevice
}

// runControl runs the control, which records into a new directory below that of the run.
func runControl(ctx context.Context, h buildenv.Host, run buildenv.Runner, o Options, runDir string) (Control, error) {
	if o.Probe.Control == "" {
		return Control{Why: "there is no control program next to the probe"}, nil
	}
	dir, err := os.MkdirTemp(runDir, "control-")
	if err != nil {
		return Control{}, probe.CacheError(runDir, err)
	}
	watchFile := h.Join(dir, "watch")
	result, err := run.Run(ctx, watching(buildenv.Cmd{
		Path: o.Probe.Control, Dir: o.Dir, Env: probed(o, dir).Entries(), Timeout: controlTimeout, Limit: 64 << 10,
	}, o, watchFile))
	switch exited, failed := errors.AsType[*buildenv.ExitError](err); {
	case failed:
		result = exited.Result
	case err != nil && ctx.Err() != nil:
		return Control{}, err
	case err != nil:
		return Control{Outcome: ControlCannotRun, Why: err.Error()}, nil
	}
	var l controlLine
	if err := json.Unmarshal(result.Stdout, &l); err != nil || l.Control != 1 {
		why := fmt.Sprintf("it ended with status %d and without an answer", result.Code)
		if result.Signal != "" {
			why = "it was ended by " + result.Signal
		}
		if result.TimedOut {
			why = "it did not end within " + controlTimeout.String()
		}
		return Control{Outcome: ControlCannotRun, Why: why}, nil
	}
	c := Control{Outcome: ControlFailed, Device: l.Device, UUID: l.UUID, CUDA: gpu.VersionOf(l.Driver),
		Loaded: Loaded{Backend: o.Probe.Backend, LibCUDA: l.LibCUDA, Nodes: l.Nodes}}
	if l.Device != "" {
		c.Capability = l.Capability
	}
	if !l.OK {
		c.Why = fmt.Sprintf("%s: %s", l.Step, l.Why)
		if l.RC != 0 && o.Probe.Backend == probe.Vulkan {
			c.Why += fmt.Sprintf(" (VkResult %d)", l.RC)
		} else if l.RC != 0 {
			c.Why += fmt.Sprintf(" (CUDA error %d%s)", l.RC, prefixed(": ", refusals[l.RC].what))
			if l.LibCUDA != "" && refusals[l.RC].what != "" {
				c.Why += ", in " + l.LibCUDA
			}
		}
	}
	records, err := probe.ReadDir(dir)
	if err != nil {
		return c, err
	}
	if w, _, err := readWatch(h, watchFile); err == nil && w.Watched > 0 {
		c.Nodes = w.Nodes
	}
	recorded, why := o.controlRecord(h, records, &c)
	c.Loaded = complete(h, c.Loaded)
	c.Real, c.RealNote = o.Real(c.Loaded)
	switch {
	case l.OK && result.Code == 0 && recorded:
		c.Outcome = ControlRecorded
	case l.OK && result.Code == 0:
		c.Outcome, c.Why = ControlUnrecorded, why
	case result.Code == controlNoLibrary:
		c.Outcome = ControlNoLibrary
	case result.Code == controlNoDevice:
		c.Outcome = ControlNoDevice
	}
	return c, nil
}

// controlRecord looks for the control's own kernel among its records and says why it is not there.
func (o Options) controlRecord(h buildenv.Host, r probe.Records, c *Control) (bool, string) {
	why, recorder := "the driver did not load the probe", "CUPTI"
	if o.Probe.Backend == probe.Vulkan {
		why, recorder = "the Vulkan loader did not load the layer", "the layer"
	}
	if r.Lost > 0 {
		why = "it " + lostRecords
	}
	for _, p := range r.Processes {
		if !h.SamePath(h.Real(p.Exe), h.Real(o.Probe.Control)) {
			continue
		}
		if p.Recording {
			c.Loaded = o.loaded(p)
		}
		switch {
		case p.Unavailable != nil:
			why = recorder + " could not record: " + p.Unavailable.String()
		case p.Dropped > 0, p.End != nil && p.End.Dropped > 0:
			why = recorder + " dropped the record"
		case p.End == nil:
			why = "the control's records have no end"
		default:
			why = recorder + " recorded no kernel"
		}
		for _, k := range p.Kernels {
			if k.Name == "gpubuild_control" && k.End > k.Start && k.Count == 1 && p.End != nil && p.End.Flush == 0 {
				return true, ""
			}
		}
	}
	return false, why
}

// original is the program's file as it was before the run.
type original struct {
	path        string
	id          cache.Identity
	script      []byte         // the text, if another program runs it
	line        string         // its first line behind #!, as it is
	interpreter cache.Identity // that program, if it was found
}

// remember notes what a program's file is. env is where `#!/usr/bin/env NAME` looks NAME up.
func remember(h buildenv.Host, file string, env buildenv.Env) (o original, err error) {
	o.path = file
	if o.id, err = cache.Identify(file); err != nil || h.OS != buildenv.Linux {
		return o, err
	}
	f, err := regular.Open(file)
	if errors.Is(err, fs.ErrPermission) {
		return o, nil // it may be run, and not read
	}
	if err != nil {
		return o, err
	}
	defer f.Close()
	if o.script, err = io.ReadAll(io.LimitReader(f, 2)); err != nil || string(o.script) != "#!" {
		o.script = nil
		return o, err
	}
	if o.script, err = io.ReadAll(io.NewSectionReader(f, 0, 16<<20)); err != nil {
		return o, err
	}
	first, _, _ := bytes.Cut(o.script[2:], []byte("\n"))
	o.line = strings.Trim(string(first), " \t")
	words := strings.Fields(o.line)
	if len(words) > 1 && path.Base(words[0]) == "env" { // env(1): -S, and NAME=VALUE before the program
		for words = words[1:]; len(words) > 1 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")); {
			words = words[1:]
		}
		h.Env = env
		if found, err := h.LookPath(words[0]); err == nil && !strings.Contains(words[0], "/") {
			words[0] = found
		}
	}
	if len(words) > 0 {
		o.interpreter, _ = cache.Identify(words[0]) // without it no process is one of it
	}
	return o, nil
}

// changed reports whether the file is another one now, or holds something else. One that was only touched does not.
func (o original) changed() bool {
	now, err := cache.Identify(o.path)
	if err != nil || now == o.id {
		return err != nil
	}
	if now.Inode != o.id.Inode || now.Device != o.id.Device || now.Size != o.id.Size {
		return true
	}
	if o.script == nil {
		return false // nobody can write into a program that runs
	}
	text, err := os.ReadFile(o.path)
	return err != nil || !bytes.Equal(text, o.script)
}

// refused words why the system does not run the file.
func (o original) refused(err syscall.Errno) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return exit.Errorf(exit.Usage, "build it for this machine: leave --target out, or give one that fits",
			"%s: this machine does not run it: it is for another processor, or no program", o.path)
	case o.script == nil || !errors.Is(err, fs.ErrNotExist):
		return BinaryError(o.path, err)
	case strings.HasSuffix(o.line, "\r"):
		return BinaryError(o.path, errors.New("its first line ends with CR LF, which is part of the interpreter's name: write it with LF"))
	}
	interpreter, _, _ := strings.Cut(o.line, " ")
	return BinaryError(o.path, fmt.Errorf("its interpreter %s does not exist", interpreter))
}
