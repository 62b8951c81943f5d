package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// WatchArg is the only argument of the re-executed child that writes samples until it is stopped.
const WatchArg = "__gpubuild-nvml-watch"

// Period is the time between two samples of a GPU.
const Period = 500 * time.Millisecond

// StartTimeout is how long the first sample may take: starting the driver of a big machine without persistence mode takes longer than
// Timeout.
const StartTimeout = 10 * time.Second

// round is one line of the child: a sample of every GPU.
type round struct {
	Schema  string       `json:"schema"`
	Samples []gpu.Sample `json:"samples,omitempty"`
	Error   string       `json:"error,omitempty"`
}

const roundSchema = "gpubuild/nvml-samples/1"

// Watch calls each with samples of every GPU, twice a second, until ctx ends. It asks NVML in a child, and nvidia-smi where that does not
// answer or stops answering for Timeout. A GPU that the driver no longer lists is lost. It answers in words what could not be asked;
// without any answer an error is returned.
func Watch(ctx context.Context, h buildenv.Host, run runner, self string, each func(gpu.Sample)) (notes []string, err error) {
	t := look(h)
	if !t.any {
		return nil, errors.New("there is " + noDriver(h))
	}
	type source struct {
		name  string
		cmd   buildenv.Cmd
		parse func(line []byte) ([]gpu.Sample, error)
	}
	var sources []source
	if builtIn && self != "" {
		c := ChildCmd(h, self, t.lib)
		c.Args, c.Timeout = []string{WatchArg}, 0
		sources = append(sources, source{"NVML", c, parseRound})
	}
	if t.smi != "" {
		sources = append(sources, source{"nvidia-smi", smiWatchCmd(h, t.smi), parseSMISample})
	}
	seen := false
	listed := &list{each: each, round: map[int]bool{}}
	for _, s := range sources {
		answered, why := stream(ctx, run, s.cmd, s.parse, listed)
		seen = seen || answered
		if ctx.Err() != nil {
			break
		}
		notes = append(notes, s.name+": "+why)
	}
	if !seen {
		why := strings.Join(notes, "; ")
		switch {
		case why == "" && len(sources) > 0:
			why = "the watch ended before the driver answered"
		case why == "":
			why = "neither NVML nor nvidia-smi can be asked by this gpubuild"
		}
		return notes, errors.New("no GPU could be watched: " + why)
	}
	return notes, nil
}

// errNoGPU says that the driver answers, and has no GPU.
var errNoGPU = errors.New("the driver has no GPU")

// list passes samples on. It adds one for each GPU that a whole round of them leaves out.
type list struct {
	each  func(gpu.Sample)
	known []gpu.Sample // the first of each GPU
	round map[int]bool // the GPUs of this one
}

func (l *list) take(s gpu.Sample) {
	if l.round[s.Index] {
		l.end()
	}
	l.round[s.Index] = true
	if !slices.ContainsFunc(l.known, func(k gpu.Sample) bool { return k.Index == s.Index }) {
		l.known = append(l.known, s)
	}
	l.each(s)
}

// end ends a round.
func (l *list) end() {
	for _, k := range l.known {
		if !l.round[k.Index] {
			l.each(gpu.Sample{Time: time.Now(), Index: k.Index, UUID: k.UUID, Name: k.Name, XidUnknown: true, Lost: true})
		}
	}
	clear(l.round)
}

// stream runs one source until it ends, ctx does, or it is silent for Timeout. It answers whether there were samples, and why it ended.
func stream(
	ctx context.Context, run runner, c buildenv.Cmd, parse func([]byte) ([]gpu.Sample, error), listed *list,
) (answered bool, why string) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence, patience := errors.New("no answer"), StartTimeout
	watchdog := time.AfterFunc(patience, func() { cancel(silence) })
	defer watchdog.Stop()
	var refused error
	lines := &lineWriter{line: func(line []byte) {
		samples, err := parse(line)
		if answered && errors.Is(err, errNoGPU) {
			listed.end()
			listed.end() // the one that is empty
		}
		if err != nil {
			refused = err
			return
		}
		if len(samples) == 0 {
			return
		}
		answered, patience = true, Timeout
		watchdog.Reset(patience)
		for _, s := range samples {
			listed.take(s)
		}
	}}
	c.Stdout = lines
	_, err := run.Run(ctx, c)
	lines.mu.Lock() // what was written is done with
	defer lines.mu.Unlock()
	switch {
	case refused != nil:
		return answered, refused.Error()
	case errors.Is(context.Cause(ctx), silence):
		return answered, fmt.Sprintf("no answer in %s", patience)
	case err != nil:
		return answered, reason(err)
	}
	return answered, "it ended"
}

// lineWriter calls a function with each whole line.
type lineWriter struct {
	mu   sync.Mutex
	rest []byte
	line func([]byte)
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			break
		}
		w.line(w.rest[:i])
		w.rest = w.rest[i+1:]
	}
	if len(w.rest) > childLimit {
		w.rest = nil // no line of ours is so long
	}
	return len(p), nil
}

// parseRound reads a line of the child; a line of another form is the library's own and is passed over.
func parseRound(line []byte) ([]gpu.Sample, error) {
	var r round
	if err := json.Unmarshal(line, &r); err != nil || r.Schema != roundSchema {
		return nil, nil
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r.Samples, nil
}

// smiWatchFields are asked in this order; the name is last, because it may have commas.
const smiWatchFields = "index,uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,clocks.sm,power.draw,power.limit," +
	"clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total,pcie.link.width.current,pcie.link.width.max,mig.mode.current,name"

func smiWatchCmd(h buildenv.Host, smi string) buildenv.Cmd {
	c := SMICmd(h, smi, smiWatchFields)
	c.Args = append(c.Args, fmt.Sprintf("--loop-ms=%d", Period.Milliseconds()))
	c.Timeout = 0
	return c
}

// parseSMISample reads a line of nvidia-smi. What a field says in brackets is no value, but "[GPU is lost]" is said in every field.
func parseSMISample(line []byte) ([]gpu.Sample, error) {
	text := strings.TrimSpace(string(line))
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(text, "No devices were found") {
		return nil, errNoGPU
	}
	f := strings.SplitN(text, ",", strings.Count(smiWatchFields, ",")+1)
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	index, err := strconv.Atoi(f[0])
	if err != nil || len(f) <= strings.Count(smiWatchFields, ",") {
		return nil, fmt.Errorf("an answer of another form: %s", firstLine(text, 200))
	}
	number := func(i int) float64 {
		v, _ := strconv.ParseFloat(f[i], 64)
		return v
	}
	whole := func(text string, base int) *uint64 {
		v, err := strconv.ParseUint(text, base, 64)
		if err != nil {
			return nil
		}
		return &v
	}
	used := whole(f[3], 10)
	if used != nil {
		*used <<= 20
	}
	var utilisation *int
	if v, err := strconv.Atoi(f[2]); err == nil {
		utilisation = &v
	}
	return []gpu.Sample{{
		Time: time.Now(), Index: index, UUID: f[1], Name: f[14], Utilisation: utilisation, MemoryUsed: used,
		MemoryTotal: uint64(number(4)) << 20, Temperature: int(number(5)), ClockMHz: int(number(6)),
		PowerMW: int(1000 * number(7)), PowerLimit: int(1000 * number(8)),
		Throttle: whole(strings.TrimPrefix(f[9], "0x"), 16), ECC: whole(f[10], 10),
		PCIeWidth: int(number(11)), PCIeMax: int(number(12)), MIG: f[13] == "Enabled", Lost: strings.Contains(text, "GPU is lost"),
		XidUnknown: true, Denied: strings.Contains(text, "[Insufficient Permissions]"),
	}}, nil
}
