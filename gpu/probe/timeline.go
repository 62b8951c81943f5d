package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Launch is one launch as it was recorded; Count is more than one where the probe summed several of one kernel up.
type Launch struct {
	Pid int
	Kernel
}

const maxLaunches = 1 << 20

// Timeline answers the launches that were recorded in a directory, in the order
// of their files, up to a million. What is no record is skipped.
func Timeline(dir string) ([]Launch, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var out []Launch
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			continue // ReadDir says what that means
		}
		out = timeline(f, out)
		f.Close()
	}
	return out, nil
}

// tail is how much of a file LastKernel reads.
const tail = 64 << 10

// LastKernel is the name of the kernel that ended last, of what the probe has written so far below a directory of runs; empty: none.
func LastKernel(runs string) string {
	files, err := filepath.Glob(filepath.Join(runs, "*", "target", "*.jsonl"))
	if err != nil {
		return "" // the pattern is wrong, which it is not
	}
	var last Launch
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			continue // it is gone with its run
		}
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			_, _ = f.Seek(0, io.SeekStart) // the file is shorter
		}
		for _, l := range timeline(f, nil) {
			if l.End >= last.End {
				last = l
			}
		}
		f.Close()
	}
	return last.Name
}

func timeline(r io.Reader, out []Launch) []Launch {
	in, pid := bufio.NewScanner(io.LimitReader(r, maxFile)), 0
	in.Buffer(nil, maxLine)
	for in.Scan() && len(out) < maxLaunches {
		switch text := in.Bytes(); eventOf(text) {
		case "injected":
			var e heartbeat
			if json.Unmarshal(text, &e) == nil {
				pid = e.Pid
			}
		case "kernel":
			var e launches
			if json.Unmarshal(text, &e) != nil {
				continue
			}
			if k, ok := e.kernel(); ok {
				out = append(out, Launch{pid, k})
			}
		}
	}
	return out
}

// traceEvent is an event of Chrome's trace format ("Trace Event Format"), which Perfetto and chrome://tracing open.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"` // microseconds
	Long  float64        `json:"dur,omitempty"`
	Pid   int            `json:"pid"`
	Tid   uint32         `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

func label(what string, pid int, tid uint32, name string) traceEvent {
	return traceEvent{Name: what, Phase: "M", Pid: pid, Tid: tid, Args: map[string]any{"name": name}}
}

// WriteTrace writes launches as a Chrome trace: a track for each process, in it
// one for each stream. name answers what a kernel is called there.
func WriteTrace(w io.Writer, launches []Launch, name func(string) string) error {
	events, named := []traceEvent{}, map[[2]int]bool{}
	var first uint64
	for i, l := range launches {
		if i == 0 || l.Start < first {
			first = l.Start
		}
	}
	for _, l := range launches {
		if track := [2]int{l.Pid, int(l.Stream)}; !named[track] {
			named[track] = true
			events = append(events,
				label("process_name", l.Pid, 0, fmt.Sprintf("process %d, GPU", l.Pid)),
				label("thread_name", l.Pid, l.Stream, fmt.Sprintf("device %d, stream %d", l.Device, l.Stream)))
		}
		args := map[string]any{"kernel": l.Name, "device": l.Device, "context": l.Context, "grid": l.Grid, "block": l.Block}
		if l.Count > 1 {
			args["launches"] = l.Count
		}
		events = append(events, traceEvent{Name: name(l.Name), Phase: "X", Pid: l.Pid, Tid: l.Stream, Args: args,
			Time: float64(l.Start-first) / 1e3, Long: float64(l.End-l.Start) / 1e3})
	}
	return json.NewEncoder(w).Encode(map[string]any{"displayTimeUnit": "ns", "traceEvents": events})
}
