package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Period is the time between two samples of a GPU.
const Period = 500 * time.Millisecond

// StartTimeout is how long nvidia-smi's first answer may take: without persistence mode the driver wakes its GPUs first, about a
// second for each.
const StartTimeout = 10 * time.Second

// Watch calls each with samples of every GPU, twice a second, until ctx ends or the driver stops answering for Timeout. A GPU that the
// driver no longer lists is lost. It answers in words what could not be asked; without any answer an error is returned.
func (m Machine) Watch(ctx context.Context, each func(gpu.Sample)) (notes []string, err error) {
	sources, anything := m.sources()
	if !anything {
		return nil, errors.New("there is " + noDriver(m.Host))
	}
	seen := false
	listed := &list{each: each, round: map[int]bool{}}
	for _, s := range sources {
		if smi, is := s.(smiSource); is {
			r, _ := m.Runner.Run(ctx, smi.temperatures()) // without an answer, the samples say what is wrong
			limits := ParseSlowdowns(string(r.Stdout))
			listed.each = func(s gpu.Sample) {
				if s.Index < len(limits) {
					s.Slowdown = limits[s.Index]
				}
				each(s)
			}
		}
		answered, why := stream(ctx, m.Runner, s, listed)
		seen = seen || answered
		if ctx.Err() != nil {
			break
		}
		if why != noLibrary {
			notes = append(notes, s.name()+": "+why)
		}
		if strings.HasPrefix(why, noAnswer) {
			break // another source would ask the same driver
		}
	}
	switch {
	case seen:
		return notes, nil
	case len(notes) == 0 && ctx.Err() == nil:
		return nil, errors.New("no GPU could be watched: nvidia-smi is not on PATH")
	case len(notes) == 0:
		return nil, errors.New("no GPU could be watched: the watch ended before the driver answered")
	}
	return notes, errors.New("no GPU could be watched: " + strings.Join(notes, "; "))
}

// In nvidia-smi -q -d TEMPERATURE a GPU has the temperature at which it slows down, or since Ada Lovelace how far it is from its limit,
// and how far it is then.
var (
	ofGPU       = lazyregexp.New(`(?m)^GPU [0-9A-Fa-f:.]+\s*$`)
	slowdownAt  = lazyregexp.New(`GPU Slowdown Temp\s*: (\d+) C`)
	temperature = lazyregexp.New(`GPU Current Temp\s*: (\d+) C`)
	margin      = lazyregexp.New(`GPU T\.Limit Temp\s*: (-?\d+) C`)
	slowdownOf  = lazyregexp.New(`GPU Slowdown T\.Limit Temp\s*: (-?\d+) C`)
)

// ParseSlowdowns reads in nvidia-smi -q -d TEMPERATURE at which the GPUs slow down by themselves, by index; 0: not reported.
func ParseSlowdowns(text string) (out []int) {
	at := ofGPU.FindAllStringIndex(text, maxDevices)
	for i, from := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		number := func(of *lazyregexp.Regexp) (int, bool) {
			m := of.FindStringSubmatch(text[from[0]:end])
			if m == nil {
				return 0, false
			}
			n, err := strconv.Atoi(m[1])
			return n, err == nil
		}
		limit, _ := number(slowdownAt)
		now, has1 := number(temperature)
		left, has2 := number(margin)
		then, has3 := number(slowdownOf)
		if limit == 0 && has1 && has2 && has3 {
			limit = now + left - then
		}
		out = append(out, limit)
	}
	return out
}

const (
	// noLibrary is why NVML is not asked where it is not installed; then it is not worth a word.
	noLibrary = "there is no " + libraryName
	// noAnswer begins the reason of a source that was silent for too long.
	noAnswer = "no answer in "
)

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

func (l *list) end() {
	for _, k := range l.known {
		if !l.round[k.Index] {
			l.each(gpu.Sample{Time: time.Now(), Index: k.Index, UUID: k.UUID, Name: k.Name, Lost: true})
		}
	}
	clear(l.round)
}

// stream runs one source until it ends, ctx does, or it is silent for Timeout. It answers whether there were samples, and why it ended.
func stream(ctx context.Context, run buildenv.Runner, from source, listed *list) (answered bool, why string) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence, patience := errors.New("no answer"), StartTimeout
	watchdog := time.AfterFunc(patience, func() { cancel(silence) })
	defer watchdog.Stop()
	var refused error
	lines := &buildenv.Lines{Each: func(line []byte) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return // it was stopped within a line
		}
		samples, err := from.samples(line)
		if answered && errors.Is(err, errNoGPU) {
			listed.end()
			listed.end() // the one that is empty
		}
		if err != nil {
			refused = err
			return
		}
		if len(samples) > 0 {
			answered, patience = true, Timeout
			watchdog.Reset(patience)
		}
		for _, sample := range samples {
			listed.take(sample)
		}
	}}
	c := from.watch()
	c.Stdout = lines
	_, err := run.Run(ctx, c)
	lines.End() // what was written is done with
	switch {
	case refused != nil:
		return answered, refused.Error()
	case errors.Is(context.Cause(ctx), silence):
		return answered, noAnswer + patience.String()
	case err != nil:
		return answered, reason(err)
	}
	return answered, "it ended"
}

// smiWatchFields are asked in this order; the name is last, because it may have commas.
const smiWatchFields = "index,uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,clocks.sm,power.draw,power.limit," +
	"clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total,pcie.link.width.current,pcie.link.width.max,mig.mode.current,name"

func (s smiSource) watch() buildenv.Cmd {
	c := smiCmd(s.host, s.path, smiWatchFields)
	c.Args = append(c.Args, fmt.Sprintf("--loop-ms=%d", Period.Milliseconds()))
	c.Timeout = 0
	return c
}

// samples reads a line of nvidia-smi. What a field says in brackets is no value, but "[GPU is lost]" is said in every field.
func (smiSource) samples(line []byte) ([]gpu.Sample, error) {
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
		Denied: strings.Contains(text, "[Insufficient Permissions]"),
	}}, nil
}
