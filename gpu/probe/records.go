package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"gpubuild/gpu"
)

// Bounds on what is read: a record file is written by a foreign process.
const (
	maxLine    = 64 << 10
	maxFile    = 1 << 30
	maxFiles   = 4096
	maxKernels = 1 << 14  // distinct names and devices kept for a process; more are counted, not named
	maxNames   = 64 << 20 // bytes of those names
	maxImages  = 64       // programs that one process became by exec
	maxTotal   = 1 << 16  // distinct names and devices kept for a directory
)

// Kernel is what was recorded of the launches of one kernel on one device in one process.
type Kernel struct {
	Name    string `json:"name"` // as the driver calls it: mangled unless extern "C"
	Cut     bool   `json:"cut,omitempty"`
	Device  int    `json:"device"`  // the process's own number of the device
	Count   uint64 `json:"count"`   // launches with end > start
	Total   uint64 `json:"total"`   // nanoseconds on the device
	Start   uint64 `json:"start"`   // of the first
	End     uint64 `json:"end"`     // of the last
	Context uint32 `json:"context"` // of the first, like all that follows
	Stream  uint32 `json:"stream"`
	Grid    [3]int `json:"grid"`
	Block   [3]int `json:"block"`
}

// Device is one device as the process's own driver described it.
type Device struct {
	Ordinal    int            `json:"ordinal"`
	UUID       string         `json:"uuid"`
	Name       string         `json:"name"`
	Capability gpu.Capability `json:"capability"`
}

// Interposed says that a function of the driver's was met in another file than the driver.
type Interposed struct {
	Symbol string `json:"symbol"`
	By     string `json:"by"`
}

// Fault is an error of the driver's after which a context and all that it computed is lost.
type Fault struct {
	RC       int    `json:"rc"`       // CUresult
	Function string `json:"function"` // of the driver, that answered it
}

// Unavailable says why a process could not be recorded.
type Unavailable struct {
	Step      string   `json:"step"` // load, enable, …
	RC        int      `json:"rc"`   // CUPTI's answer
	Why       string   `json:"why,omitempty"`
	Profilers []string `json:"profilers,omitempty"` // other tools that are loaded in the process
}

func (u Unavailable) String() string {
	if len(u.Profilers) > 0 {
		by := strings.Join(u.Profilers, ", ")
		u.Profilers = nil
		return u.String() + ", beside " + by
	}
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
	Flush      int    `json:"flush"` // CUPTI's answer to the forced flush
	Kernels    uint64 `json:"kernels"`
	Status     *int   `json:"status,omitempty"` // that the process ended with; nil: not known
	Unfinished uint64 `json:"unfinished"`
	Untimed    uint64 `json:"untimed,omitempty"` // launches whose times CUPTI could not collect
	Dropped    uint64 `json:"dropped"`
	Accepted   uint64 `json:"accepted"` // launches that the driver accepted, by callbacks; see Process.Callbacks
	LostWrites uint64 `json:"lost_writes"`
	Forks      uint64 `json:"forks,omitempty"`   // children that it made by fork, whoever waited for them
	Ignores    bool   `json:"ignores,omitempty"` // its children vanish without being waited for (SIG_IGN, SA_NOCLDWAIT)
	// launches that are written down before this; more than Kernels were not all written by the probe
	Written uint64 `json:"written,omitempty"`
}

// Process is what one program recorded; a process that became another program by exec is two of them.
type Process struct {
	Pid         int          `json:"pid"`
	Parent      int          `json:"parent"`
	Started     uint64       `json:"started"` // clock ticks since boot: with the pid it names a process for good
	Exe         string       `json:"exe"`
	ExeDevice   uint64       `json:"exe_device"` // what that file is, whatever is called so elsewhere
	ExeInode    uint64       `json:"exe_inode"`
	Caller      string       `json:"caller,omitempty"` // the file whose code called the probe: the driver
	Forked      bool         `json:"forked,omitempty"` // a fork of a recorded process: CUDA does not work there
	Recording   bool         `json:"recording"`        // CUPTI was switched on
	CUPTI       uint32       `json:"cupti,omitempty"`
	LibCUPTI    string       `json:"libcupti,omitempty"`
	LibCUDA     string       `json:"libcuda,omitempty"`
	Drivers     []string     `json:"drivers,omitempty"` // every file called libcuda.so* that was mapped
	Nodes       []string     `json:"nodes,omitempty"`   // NVIDIA device nodes that were open
	CUDA        int          `json:"cuda,omitempty"`    // cuDriverGetVersion
	Callbacks   int          `json:"callbacks"`         // 0: accepted launches are counted; else CUPTI's refusal
	Unavailable *Unavailable `json:"unavailable,omitempty"`
	Devices     []Device     `json:"devices,omitempty"`
	Kernels     []Kernel     `json:"kernels,omitempty"`
	Interposed  []Interposed `json:"interposed,omitempty"`
	Faults      []Fault      `json:"faults,omitempty"` // the first few
	Dropped     uint64       `json:"dropped,omitempty"`
	Unnamed     uint64       `json:"unnamed,omitempty"` // launches beyond the names that are kept
	BadBuffers  int          `json:"bad_buffers,omitempty"`
	End         *End         `json:"end,omitempty"`
}

// Launches answers how many finished launches were recorded.
func (p Process) Launches() uint64 {
	n := p.Unnamed
	for _, k := range p.Kernels {
		n += k.Count
	}
	return n
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

// line is any record line.
type line struct {
	Event      string   `json:"event"`
	Version    int      `json:"version"`
	Pid        int      `json:"pid"`
	PPid       int      `json:"ppid"`
	Started    uint64   `json:"started"`
	Exe        string   `json:"exe"`
	ExeDevice  uint64   `json:"exe_device"`
	ExeInode   uint64   `json:"exe_inode"`
	Caller     string   `json:"caller"`
	Forked     bool     `json:"forked"`
	CUPTI      uint32   `json:"cupti"`
	LibCUPTI   string   `json:"libcupti"`
	LibCUDA    string   `json:"libcuda"`
	Driver     int      `json:"driver"`
	Drivers    []string `json:"drivers"`
	Nodes      []string `json:"nodes"`
	Step       string   `json:"step"`
	RC         int      `json:"rc"`
	Why        string   `json:"why"`
	Ordinal    int      `json:"ordinal"`
	UUID       string   `json:"uuid"`
	Name       string   `json:"name"`
	Major      int      `json:"major"`
	Minor      int      `json:"minor"`
	Cut        bool     `json:"cut"`
	Device     int      `json:"device"`
	Context    uint32   `json:"context"`
	Stream     uint32   `json:"stream"`
	Grid       [3]int   `json:"grid"`
	Block      [3]int   `json:"block"`
	Start      uint64   `json:"start"`
	End        uint64   `json:"end"`
	Count      *uint64  `json:"count"`
	Total      uint64   `json:"total"`
	Symbol     string   `json:"symbol"`
	By         string   `json:"by"`
	Profilers  []string `json:"profilers"`
	Function   string   `json:"function"`
	Status     *int     `json:"status"`
	Untimed    uint64   `json:"untimed"`
	Flush      int      `json:"flush"`
	Kernels    uint64   `json:"kernels"`
	Unfinished uint64   `json:"unfinished"`
	Dropped    uint64   `json:"dropped"`
	Accepted   uint64   `json:"accepted"`
	Callbacks  *int     `json:"callbacks"`
	LostWrites uint64   `json:"lost_writes"`
	Forks      uint64   `json:"forks"`
	Ignores    bool     `json:"ignores"`
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
			out.Truncated = read > maxFile
			return out, nil
		default:
			return out, err
		}
	}
}

type kernelKey struct {
	name   string
	device int
}

type parser struct {
	out   *Records
	at    *Process
	index map[kernelKey]int
	names int // bytes

	profilers []string // told of by the process that is being read
}

func (p *parser) line(text []byte) {
	text = bytes.TrimSpace(text)
	var l line
	if len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &l) != nil {
		p.out.Bad++
		return
	}
	if l.Event == "injected" {
		if l.Version != 1 || l.Pid <= 0 || len(p.out.Processes) >= maxImages {
			p.out.Bad++
			return
		}
		p.out.Processes = append(p.out.Processes, Process{
			Pid: l.Pid, Parent: l.PPid, Started: l.Started, Exe: l.Exe, ExeDevice: l.ExeDevice, ExeInode: l.ExeInode,
			Caller: l.Caller, Forked: l.Forked,
		})
		p.at, p.index, p.names, p.profilers = &p.out.Processes[len(p.out.Processes)-1], map[kernelKey]int{}, 0, nil
		return
	}
	if p.at == nil || !p.add(l) { // nothing counts before a heartbeat
		p.out.Bad++
	}
}

func (p *parser) add(l line) bool {
	at := p.at
	switch l.Event {
	case "recording":
		if at.Recording { // a program begins and ends to record once: two of them write into one file
			return false
		}
		at.Recording, at.CUPTI, at.LibCUPTI, at.LibCUDA, at.CUDA = true, l.CUPTI, l.LibCUPTI, l.LibCUDA, l.Driver
		at.Drivers = union(at.Drivers, l.Drivers)
		if at.Callbacks = -1; l.Callbacks != nil {
			at.Callbacks = *l.Callbacks
		}
	case "driver":
		at.Drivers, at.Nodes = union(at.Drivers, l.Drivers), union(at.Nodes, l.Nodes)
	case "unavailable":
		at.Unavailable = &Unavailable{Step: l.Step, RC: l.RC, Why: l.Why, Profilers: p.profilers}
	case "profilers":
		p.profilers = union(nil, l.Profilers)
	case "fault":
		if len(at.Faults) < 16 {
			at.Faults = append(at.Faults, Fault{RC: l.RC, Function: l.Function})
		}
	case "device":
		if len(at.Devices) >= 256 || l.Ordinal < 0 {
			return false
		}
		c := gpu.Capability{Major: l.Major, Minor: l.Minor}
		at.Devices = append(at.Devices, Device{Ordinal: l.Ordinal, UUID: l.UUID, Name: l.Name, Capability: c})
	case "interposed":
		if len(at.Interposed) < 64 {
			at.Interposed = append(at.Interposed, Interposed{Symbol: l.Symbol, By: l.By})
		}
	case "kernel":
		return p.kernel(l)
	case "dropped":
		if l.Count == nil {
			return false
		}
		at.Dropped = plus(at.Dropped, *l.Count)
	case "bad-buffer":
		at.BadBuffers++
	case "note":
	case "end":
		if at.End != nil {
			return false
		}
		at.End = &End{Flush: l.Flush, Kernels: l.Kernels, Unfinished: l.Unfinished, Dropped: l.Dropped, Accepted: l.Accepted,
			LostWrites: l.LostWrites, Forks: l.Forks, Ignores: l.Ignores, Written: at.Launches(), Status: l.Status, Untimed: l.Untimed}
	default:
		return false
	}
	return true
}

func (p *parser) kernel(l line) bool {
	count, total := uint64(1), l.End-l.Start
	if l.Count != nil {
		count, total = *l.Count, l.Total
	}
	if l.Name == "" || l.Start == 0 || l.End <= l.Start || count == 0 || total < count || l.Device < 0 {
		return false
	}
	key := kernelKey{l.Name, l.Device}
	i, ok := p.index[key]
	if !ok {
		if p.names += len(l.Name); len(p.at.Kernels) >= maxKernels || p.names > maxNames {
			p.at.Unnamed = plus(p.at.Unnamed, count)
			return true
		}
		p.index[key] = len(p.at.Kernels)
		p.at.Kernels = append(p.at.Kernels, Kernel{
			Name: l.Name, Cut: l.Cut, Device: l.Device, Count: count, Total: total, Start: l.Start, End: l.End,
			Context: l.Context, Stream: l.Stream, Grid: l.Grid, Block: l.Block,
		})
		return true
	}
	k := &p.at.Kernels[i]
	k.Count, k.Total = plus(k.Count, count), plus(k.Total, total)
	k.Start, k.End = min(k.Start, l.Start), max(k.End, l.End)
	return true
}

// plus adds without turning over.
func plus(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

func union(a, b []string) []string {
	for _, s := range b {
		known := len(a) >= 64
		for _, t := range a {
			known = known || s == t
		}
		if !known {
			a = append(a, s)
		}
	}
	return a
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
		out.Bad, out.Cut, out.Truncated = out.Bad+r.Bad, out.Cut+r.Cut, out.Truncated || r.Truncated
		for _, p := range r.Processes {
			if name != strconv.Itoa(p.Pid)+"-"+strconv.FormatUint(p.Started, 10) {
				out.Bad++
				continue
			}
			if kernels += len(p.Kernels); kernels > maxTotal {
				out.Truncated = true
				return out, nil
			}
			out.Processes = append(out.Processes, p)
		}
	}
	sort.SliceStable(out.Processes, func(i, j int) bool {
		a, b := out.Processes[i], out.Processes[j]
		if a.Started != b.Started {
			return a.Started < b.Started
		}
		return a.Pid < b.Pid
	})
	return out, nil
}
