package probe

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpubuild/gpu"
)

// Bounds on what is read: a record file is written by a foreign process.
const (
	maxLine     = 64 << 10
	maxFile     = 1 << 30
	maxFiles    = 4096
	maxKernels  = 1 << 16  // distinct names, devices and streams of a process, and of a directory
	maxNames    = 64 << 20 // bytes of those names
	maxImages   = 64       // programs that one process became by exec
	maxRefused  = 1024     // that a process lists
	maxContexts = 256      // of a process, whose waits are kept
)

// Kernel is what was recorded of the launches of one kernel on one device in one process.
type Kernel struct {
	Name    string `json:"name"`    // as the driver calls it: mangled unless extern "C"
	Device  int    `json:"device"`  // the process's own number of the device
	Count   uint64 `json:"count"`   // launches with end > start
	Total   uint64 `json:"total"`   // nanoseconds on the device
	Start   uint64 `json:"start"`   // of the first
	End     uint64 `json:"end"`     // of the last
	Context uint32 `json:"context"` // of the first, like all that follows
	Stream  uint32 `json:"stream"`
	Block   [3]int `json:"block"`
	Last    uint64 `json:"last,omitempty"` // correlation of the last: it grows from call to call
	// how many of them a wait for their context came after that the driver answered with success
	Waited     uint64 `json:"waited,omitempty"`
	WaitedTime uint64 `json:"waited_time,omitempty"` // nanoseconds of those on the device
	// Vulkan: how many launches Total measures by the device's clock; 0: it is from submission to completion
	Timed uint64 `json:"timed,omitempty"`
	Shape string `json:"shape,omitempty"` // Vulkan: what the shader takes, as csrc/layer.c describes it
	// Vulkan: dispatched indirectly or under a condition, so perhaps no workgroup ran
	Unsure bool `json:"unsure,omitempty"`
}

// Device is one device as the process's own driver described it.
type Device struct {
	Ordinal    int            `json:"ordinal"`
	UUID       string         `json:"uuid"`
	Name       string         `json:"name"`
	Capability gpu.Capability `json:"capability"`

	Type       string `json:"type,omitempty"` // Vulkan: discrete, integrated, virtual, cpu, other
	Vendor     uint32 `json:"vendor,omitempty"`
	DriverID   int    `json:"driver_id,omitempty"` // VkDriverId
	Driver     string `json:"driver,omitempty"`
	DriverInfo string `json:"driver_info,omitempty"`
	API        string `json:"api,omitempty"` // the version of Vulkan
}

// Interposed says that a function of the driver's was met in another file than the driver.
type Interposed struct {
	Symbol string `json:"symbol"`
	By     string `json:"by"`
}

// CallKind is what a call of the driver does, as far as a verdict depends on it. csrc/calls.h has the calls.
type CallKind string

// Kinds of calls.
const (
	Launches CallKind = "launch"
	Waits    CallKind = "wait"
	Copies   CallKind = "copy"    // that read what a kernel may have made
	Memory   CallKind = "memory"  // allocations
	Code     CallKind = "code"    // loads of device code
	Lost     CallKind = "lost"    // Vulkan: whatever it was, the device is lost
	Contexts CallKind = "context" // makes a context or a stream
	Lookups  CallKind = "lookup"  // of a kernel by its name
	Uploads  CallKind = "upload"  // copies to the device, and what fills its memory
	Pinned   CallKind = "pinned"  // allocations of host memory that the device reaches
	Absent   CallKind = "device"  // calls for a device or a context that is not there
	Settling CallKind = "settle"  // the probe's own last wait
)

// Refusal is a call that the driver answered with an error.
type Refusal struct {
	RC          int      `json:"rc"` // CUresult or VkResult
	Function    string   `json:"function"`
	Kind        CallKind `json:"kind,omitempty"`
	Context     uint32   `json:"context,omitempty"`     // 0: not known, or the thread had none
	Correlation uint64   `json:"correlation,omitempty"` // greater than that of each launch before it
	On          *int     `json:"on,omitempty"`          // the device that a context was to be made on
	All         bool     `json:"all,omitempty"`         // it came after all launches
	Last        bool     `json:"last,omitempty"`        // later refusals are not listed
	Early       bool     `json:"early,omitempty"`       // CUPTI had reported no launch before it
	// the program's own waits that had gone well before it, where it is one that may come of the end (Ends)
	Before []Wait `json:"before,omitempty"`
}

// Wait is the last wait for a context's kernels that the driver answered with success.
type Wait struct {
	Context     uint32  `json:"context,omitempty"`
	Stream      *uint32 `json:"stream,omitempty"` // nil: all of the context
	Function    string  `json:"function,omitempty"`
	Correlation uint64  `json:"correlation"`     // of what was launched before it, a kernel has a smaller one
	All         bool    `json:"all,omitempty"`   // it came after all launches that are written down
	Probe       bool    `json:"probe,omitempty"` // it was the probe's own, when the process ended
}

// Unavailable says why a process could not be recorded.
type Unavailable struct {
	Step string `json:"step"` // load, enable, …
	RC   int    `json:"rc"`   // CUPTI's answer
	Why  string `json:"why,omitempty"`
}

func (u Unavailable) String() string {
	switch {
	case u.Why != "" && u.RC != 0:
		return fmt.Sprintf("%s: %s (%d)", u.Step, u.Why, u.RC)
	case u.Why != "":
		return u.Step + ": " + u.Why
	}
	return fmt.Sprintf("%s: CUPTI answered %d", u.Step, u.RC)
}

// End is what the probe said when the process ended in an orderly way.
type End struct {
	Flush      int     `json:"flush"` // CUPTI's answer to the forced flush
	Kernels    uint64  `json:"kernels"`
	Status     *int    `json:"status,omitempty"` // that the process ended with; nil: not known
	Unfinished uint64  `json:"unfinished"`
	Untimed    uint64  `json:"untimed,omitempty"` // launches whose times CUPTI could not collect
	Dropped    uint64  `json:"dropped"`
	Accepted   uint64  `json:"accepted"` // launches that the driver accepted, by callbacks; see Process.Callbacks
	LostWrites uint64  `json:"lost_writes"`
	Contexts   *uint64 `json:"contexts,omitempty"`  // that it made or had; nil: not known
	Forks      uint64  `json:"forks,omitempty"`     // children that it made by fork, whoever waited for them
	Sandboxed  bool    `json:"sandboxed,omitempty"` // it forbade itself system calls (seccomp), so that the probe looked at nothing
	Ignores    bool    `json:"ignores,omitempty"`   // its children vanish without being waited for (SIG_IGN, SA_NOCLDWAIT)
	Exited     bool    `json:"exited,omitempty"`    // its exit handlers and destructors came to their end, too
	// launches that are written down before this; more than Kernels were not all written by the probe
	Written uint64 `json:"written,omitempty"`
}

// Identity says which program a process ran. Pid, Started and Namespace together identify the process.
type Identity struct {
	Pid       int    `json:"pid"`
	Parent    int    `json:"parent"`
	Started   uint64 `json:"started"`             // clock ticks since boot
	Namespace uint64 `json:"namespace,omitempty"` // inode of the PID namespace; 0: not known, or on Windows
	Exe       string `json:"exe"`
	ExeDevice uint64 `json:"exe_device"` // what that file is, whatever is called so elsewhere
	ExeInode  uint64 `json:"exe_inode"`
	Caller    string `json:"caller,omitempty"` // the file whose code called the probe: the driver
	Forked    bool   `json:"forked,omitempty"` // a fork of a recorded process: CUDA does not work there
	// pid and start time of those who started it, up to the first process, as it was when the probe began
	Ancestors [][2]uint64 `json:"ancestors,omitempty"`
}

// Process is what one program recorded; a process that became another program by exec is two of them.
type Process struct {
	Identity
	Words       []string     `json:"-"`         // what it was started with, behind its name: nothing for a receipt
	Dir         string       `json:"-"`         // where it was when the probe began
	Recording   bool         `json:"recording"` // CUPTI was switched on
	CUPTI       uint32       `json:"cupti,omitempty"`
	LibCUPTI    string       `json:"libcupti,omitempty"`
	ByRecords   bool         `json:"by_records,omitempty"` // by a CUPTI that it brought; the driver's answers come late, with the kernels
	ByDlmopen   bool         `json:"by_dlmopen,omitempty"` // the driver has a namespace of the loader's own
	LibCUDA     string       `json:"libcuda,omitempty"`
	Drivers     []string     `json:"drivers,omitempty"` // every file called libcuda.so* that was mapped
	Nodes       []string     `json:"nodes,omitempty"`   // NVIDIA device nodes that were open
	CUDA        int          `json:"cuda,omitempty"`    // cuDriverGetVersion
	Callbacks   int          `json:"callbacks"`         // 0: accepted launches are counted; else CUPTI's refusal
	Unavailable *Unavailable `json:"unavailable,omitempty"`
	Devices     []Device     `json:"devices,omitempty"`
	Kernels     []Kernel     `json:"kernels,omitempty"`
	Interposed  []Interposed `json:"interposed,omitempty"`
	Refused     []Refusal    `json:"refused,omitempty"` // without those that succeeded later, except copies
	Waits       []Wait       `json:"waits,omitempty"`   // the last of each context
	Late        bool         `json:"late,omitempty"`    // it launched something after it had written its end
	APIs        []string     `json:"apis,omitempty"`    // libraries of other APIs of the GPU that were mapped at its end
	Another     string       `json:"another,omitempty"` // a second driver that it loaded, whose kernels are not recorded
	Dropped     uint64       `json:"dropped,omitempty"`
	BadBuffers  int          `json:"bad_buffers,omitempty"`
	End         *End         `json:"end,omitempty"`
	Engine      string       `json:"engine,omitempty"` // Vulkan: what the program calls its engine, such as wgpu-hal
}

// OpenedDevice reports whether a process made a context, which counting the devices does not need, or may have.
func (p Process) OpenedDevice() bool {
	return p.Launches() > 0 || p.End == nil || p.End.Contexts == nil || *p.End.Contexts > 0
}

// Launches returns how many finished launches were recorded.
func (p Process) Launches() uint64 {
	var n uint64
	for _, k := range p.Kernels {
		n += k.Count
	}
	return n
}

// Injection is the variable by which the probe comes into a process.
func (b Backend) Injection() string {
	if b == Vulkan {
		return LayersVariable
	}
	return InjectionVariable
}

// Records is what a record file, or a directory of them, held.
type Records struct {
	Processes []Process `json:"processes"`
	Bad       int       `json:"bad"`           // lines that are no records
	Cut       int       `json:"cut,omitempty"` // files whose last line was not finished: a process was killed
	// files that are empty or may not be read: a process began to record and could write nothing, or did so as another user
	Lost      int  `json:"lost,omitempty"`
	Truncated bool `json:"truncated,omitempty"`
}

// ParseRecords reads the records of one process. What is no record is counted and skipped; the error is the reader's.
func ParseRecords(r io.Reader) (Records, error) {
	var out Records
	p := parser{out: &out}
	in := bufio.NewReaderSize(io.LimitReader(r, maxFile+1), maxLine)
	var read int64
	for {
		text, err := in.ReadSlice('\n')
		read += int64(len(text))
		switch {
		case err == nil:
			p.line(text)
		case errors.Is(err, bufio.ErrBufferFull):
			out.Bad++
			for errors.Is(err, bufio.ErrBufferFull) {
				text, err = in.ReadSlice('\n')
				read += int64(len(text))
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return out, err
			}
		case errors.Is(err, io.EOF):
			if len(text) > 0 { // a last line without its end is not believed, even if it reads well
				out.Cut++
			}
			out.Truncated = out.Truncated || read > maxFile
			return out, nil
		default:
			return out, err
		}
	}
}

type parser struct {
	out   *Records
	at    *Process
	index map[Kernel]int // by what a line of one kernel has in common with the others
	names int            // bytes
	lost  bool
}

func (p *parser) line(text []byte) {
	text = bytes.TrimSpace(text)
	rest, _ := bytes.CutPrefix(text, []byte(`{"event":"`)) // with which the probe begins each line
	event, _, _ := bytes.Cut(rest, []byte(`"`))
	take, known := events[string(event)]
	switch {
	case p.lost:
	case p.out.Processes == nil && bytes.HasPrefix(text, []byte(`-"event":"injected"`)):
		p.lost = true // the probe could neither write nor take away what it had written: see lose in csrc/os_linux.h
		p.out.Lost++
	case !known || p.at == nil && string(event) != "injected" || !take(p, text): // nothing counts before the heartbeat
		p.out.Bad++
	}
}

// on reads a line into a value of its own, and hands it over; false: it is not of that form, or cannot be true.
func on[T any](take func(*parser, T) bool) func(*parser, []byte) bool {
	return func(p *parser, text []byte) bool {
		var e T
		return json.Unmarshal(text, &e) == nil && take(p, e)
	}
}

// noted is on for what can always be true.
func noted[T any](take func(*parser, T)) func(*parser, []byte) bool {
	return on(func(p *parser, e T) bool { take(p, e); return true })
}

// events are the lines that the probe and the layer write.
var events = map[string]func(*parser, []byte) bool{
	"injected":    on((*parser).begin),
	"recording":   on((*parser).recording),
	"kernel":      on((*parser).launched),
	"device":      on((*parser).device),
	"end":         on((*parser).end),
	"unavailable": noted(func(p *parser, e Unavailable) { p.at.Unavailable = &e }),
	"recovered":   noted(func(p *parser, e Refusal) { p.at.Refused = slices.DeleteFunc(p.at.Refused, e.cancels) }),
	"another":     noted(func(p *parser, e Identity) { p.at.Another = e.Caller }),
	"late":        noted(func(p *parser, _ struct{}) { p.at.Late = true }),
	"bad-buffer":  noted(func(p *parser, _ struct{}) { p.at.BadBuffers++ }),
	"note":        noted(func(*parser, struct{}) {}),
	"driver": noted(func(p *parser, e struct{ Drivers, Nodes, APIs []string }) {
		p.at.Drivers, p.at.Nodes, p.at.APIs = union(p.at.Drivers, e.Drivers), union(p.at.Nodes, e.Nodes), union(p.at.APIs, e.APIs)
	}),
	"fault": on(func(p *parser, e Refusal) bool {
		e.Kind, e.All = Lost, true
		return p.refused(e)
	}),
	"refused": on((*parser).refused),
	"early":   on(func(p *parser, e Refusal) bool { e.Early = true; return p.refused(e) }),
	"settled": on(func(p *parser, e Refusal) bool {
		if e.RC == 0 {
			p.waited(Wait{Context: e.Context, Function: e.Function, Correlation: e.Correlation, All: e.All, Probe: true})
			return true
		}
		e.Kind = Settling
		return p.refused(e)
	}),
	"waited": noted(func(p *parser, e struct {
		Wait
		Correlation *uint64 `json:"correlation"` // nil, of Vulkan: all that is written down was completed
	}) {
		if e.Wait.All = e.Correlation == nil; !e.Wait.All {
			e.Wait.Correlation = *e.Correlation
		}
		p.waited(e.Wait)
	}),
	"interposed": noted(func(p *parser, e Interposed) {
		if len(p.at.Interposed) < 64 {
			p.at.Interposed = append(p.at.Interposed, e)
		}
	}),
	"dropped": on(func(p *parser, e struct{ Count *uint64 }) bool {
		if e.Count != nil {
			p.at.Dropped += *e.Count
		}
		return e.Count != nil
	}),
	"exited": on(func(p *parser, _ struct{}) bool {
		if p.at.End != nil {
			p.at.End.Exited = true
		}
		return p.at.End != nil
	}),
}

func (p *parser) begin(e struct {
	Identity
	Version int      `json:"version"`
	PPid    int      `json:"ppid"`
	Words   []string `json:"words"`
	Dir     string   `json:"dir"`
}) bool {
	if e.Version != 1 || e.Pid <= 0 || len(p.out.Processes) >= maxImages {
		return false
	}
	e.Parent = e.PPid
	p.out.Processes = append(p.out.Processes, Process{Identity: e.Identity, Words: e.Words, Dir: e.Dir})
	p.at, p.index, p.names = &p.out.Processes[len(p.out.Processes)-1], map[Kernel]int{}, 0
	return true
}

// launched takes a line about one kernel: one launch, or several that were summed up.
func (p *parser) launched(e struct {
	Kernel
	Count       *uint64 `json:"count"` // nil: one
	Correlation uint64  `json:"correlation"`
}) bool {
	k := e.Kernel
	k.Last = e.Correlation
	if e.Count != nil {
		k.Count = *e.Count
	} else {
		k.Count, k.Total = 1, k.End-k.Start
	}
	if k.Name == "" || k.Start == 0 || k.End <= k.Start || k.Count == 0 || k.Total < k.Count || k.Device < 0 {
		return false
	}
	p.kernel(k)
	for i, r := range p.at.Refused {
		p.at.Refused[i].Early = r.Early && r.Correlation < k.Last
	}
	return true
}

// recording is taken once: a program begins to record once, and two of them would write into one file.
func (p *parser) recording(e struct {
	CUPTI     uint32   `json:"cupti"`
	LibCUPTI  string   `json:"libcupti"`
	ByRecords bool     `json:"by_records"`
	LibCUDA   string   `json:"libcuda"`
	Driver    int      `json:"driver"`
	Drivers   []string `json:"drivers"`
	Callbacks *int     `json:"callbacks"`
	ByDlmopen bool     `json:"own_namespace"`
	Engine    string   `json:"engine"`
}) bool {
	at := p.at
	if at.Recording {
		return false
	}
	at.Recording, at.CUPTI, at.LibCUPTI, at.LibCUDA, at.CUDA, at.Engine = true, e.CUPTI, e.LibCUPTI, e.LibCUDA, e.Driver, e.Engine
	at.Drivers, at.ByRecords, at.ByDlmopen = union(at.Drivers, e.Drivers), e.ByRecords, e.ByDlmopen
	if at.Callbacks = -1; e.Callbacks != nil {
		at.Callbacks = *e.Callbacks
	}
	return true
}

func (p *parser) refused(e Refusal) bool {
	if len(p.at.Refused) >= maxRefused {
		return false
	}
	if e.Ends() {
		e.Before = slices.Clone(p.at.Waits)
	}
	p.at.Refused = append(p.at.Refused, e)
	return true
}

func (p *parser) device(e struct {
	Device
	Major, Minor int
	DriverName   string `json:"driver_name"`
}) bool {
	if len(p.at.Devices) >= 256 || e.Ordinal < 0 {
		return false
	}
	e.Capability, e.Driver = gpu.Capability{Major: e.Major, Minor: e.Minor}, e.DriverName
	p.at.Devices = append(p.at.Devices, e.Device)
	return true
}

func (p *parser) end(e struct {
	End
	Unsettled bool `json:"unsettled"`
}) bool {
	if p.at.End != nil {
		return false
	}
	e.Exited, e.Written = false, p.at.Launches()
	p.at.End = &e.End
	if e.Flush == 0 && !e.Unsettled && p.at.CUPTI == 0 {
		p.waited(Wait{All: true, Probe: true}) // the layer waits before it ends
	}
	return true
}

// waited notes a wait that went well, and counts what it came after.
func (p *parser) waited(w Wait) {
	i := slices.IndexFunc(p.at.Waits, func(of Wait) bool {
		return of.Context == w.Context && (of.Stream == nil) == (w.Stream == nil) && (w.Stream == nil || *of.Stream == *w.Stream)
	})
	if i < 0 && len(p.at.Waits) >= maxContexts { // the stream that was waited for the longest time ago
		oldest := -1
		for j, of := range p.at.Waits {
			if of.Stream != nil && (oldest < 0 || of.Correlation < p.at.Waits[oldest].Correlation) {
				oldest = j
			}
		}
		if oldest < 0 {
			return
		}
		p.at.Waits = slices.Delete(p.at.Waits, oldest, oldest+1)
	}
	switch {
	case i < 0:
		p.at.Waits = append(p.at.Waits, w)
	case w.CameAfter(p.at.Waits[i].Correlation) || w.Probe:
		p.at.Waits[i] = w
	}
	for i := range p.at.Kernels {
		if k := &p.at.Kernels[i]; w.Of(*k) {
			k.Waited, k.WaitedTime = k.Count, k.Total
		}
	}
}

// Of reports whether a wait came after all launches of a kernel, in its context and stream.
func (w Wait) Of(k Kernel) bool {
	return k.Context == w.Context && (w.Stream == nil || *w.Stream == k.Stream) && w.CameAfter(k.Last)
}

// CameAfter reports whether a wait came after the call with that number.
func (w Wait) CameAfter(correlation uint64) bool { return w.All || w.Correlation > correlation }

// CameAfter reports whether a call was refused after the one with that number.
func (r Refusal) CameAfter(correlation uint64) bool { return r.All || r.Correlation > correlation }

// LastWait is the last wait for kernels of a context that went well.
func (p Process) LastWait(context uint32) (last Wait, ok bool) {
	for _, w := range p.Waits {
		if w.Context == context && (!ok || !last.All && w.CameAfter(last.Correlation)) {
			last, ok = w, true
		}
	}
	return last, ok
}

func (p *parser) kernel(k Kernel) {
	// Records are handed over late: what a wait came after may be written down behind it. Of Vulkan a wait is written behind what it is of.
	if k.Context != 0 && slices.ContainsFunc(p.at.Waits, func(w Wait) bool { return w.Of(k) }) {
		k.Waited, k.WaitedTime = k.Count, k.Total
	}
	key := Kernel{Name: k.Name, Shape: k.Shape, Device: k.Device, Context: k.Context, Stream: k.Stream, Unsure: k.Unsure}
	i, ok := p.index[key]
	if !ok {
		if p.names += len(k.Name) + len(k.Shape); len(p.at.Kernels) >= maxKernels || p.names > maxNames {
			p.out.Truncated = true
			return
		}
		p.index[key] = len(p.at.Kernels)
		p.at.Kernels = append(p.at.Kernels, k)
		return
	}
	sum := &p.at.Kernels[i]
	sum.Count += k.Count
	sum.Total += k.Total
	sum.Timed += k.Timed
	sum.Start, sum.End, sum.Last = min(sum.Start, k.Start), max(sum.End, k.End), max(sum.Last, k.Last)
	sum.Waited, sum.WaitedTime = sum.Waited+k.Waited, sum.WaitedTime+k.WaitedTime
}

// lost are the errors after which a context, and with it what its kernels computed, is lost: those of which cuda.h says that the process
// must be restarted, and 214, 220 (uncorrectable), 709 (destroyed), 710 (assertion), 999 (unknown).
var lost = []int{214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999}

// Loses reports whether the context, or the device, is lost with it.
func (r Refusal) Loses() bool { return r.Kind == Lost || slices.Contains(lost, r.RC) }

// ofStream reports whether the call makes a stream, not a context.
func (r Refusal) ofStream() bool { return strings.HasPrefix(r.Function, "cuStream") }

// Ends reports whether it is an answer of a driver, a context or a handle that has ended: 4, 201, 400, 709.
func (r Refusal) Ends() bool { return slices.Contains([]int{4, 201, 400, 709}, r.RC) }

// cancels reports whether a call that succeeded makes up for a refusal before it: a wait of the same kind in the same context, any
// allocation, any device code, a context on the same device, where that is known. What a refused copy was to read stays unknown, and a lost
// context stays lost.
func (r Refusal) cancels(before Refusal) bool {
	switch {
	case before.Last || before.Kind != r.Kind || before.Loses():
		return false
	case r.Kind == Contexts && !r.ofStream():
		return !before.ofStream() && before.On != nil && r.On != nil && *before.On == *r.On
	case r.Kind == Waits || r.Kind == Contexts || r.Kind == Uploads || strings.HasPrefix(r.Function, "cuGraphInstantiate"):
		return before.Function == r.Function && (before.Context == r.Context || before.Context == 0)
	}
	return r.Kind == Memory || r.Kind == Code
}

func union(a, b []string) []string {
	for _, s := range b {
		if len(a) < 64 && !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// fileName is what the probe calls the record file of a process, without ".jsonl".
func (p Identity) fileName() string {
	name := strconv.Itoa(p.Pid) + "-" + strconv.FormatUint(p.Started, 10)
	if p.Namespace != 0 {
		name += "-" + strconv.FormatUint(p.Namespace, 10)
	}
	return name
}

// ReadDir reads every record file of a directory. A file whose name and heartbeat disagree is counted as bad: it was not written by the
// process that it speaks of.
func ReadDir(dir string) (Records, error) {
	var out Records
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out, err
	}
	files, kernels := 0, 0
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".jsonl")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if files++; files > maxFiles {
			out.Truncated = true
			break
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrPermission) {
			out.Lost++
			continue
		}
		if err != nil {
			return out, err
		}
		r, err := ParseRecords(f)
		fi, statErr := f.Stat()
		f.Close()
		if err = errors.Join(err, statErr); err != nil {
			return out, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if fi.Size() == 0 {
			out.Lost++
		}
		out.Bad, out.Cut, out.Lost, out.Truncated = out.Bad+r.Bad, out.Cut+r.Cut, out.Lost+r.Lost, out.Truncated || r.Truncated
		for _, p := range r.Processes {
			if name != p.fileName() {
				out.Bad++
				continue
			}
			if kernels += len(p.Kernels); kernels > maxKernels {
				out.Truncated = true
				return out, nil
			}
			out.Processes = append(out.Processes, p)
		}
	}
	slices.SortStableFunc(out.Processes, func(a, b Process) int { return cmp.Or(cmp.Compare(a.Started, b.Started), a.Pid-b.Pid) })
	return out, nil
}
