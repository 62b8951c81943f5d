package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sample is the state of one GPU at one moment. A value that the driver does not report is zero, or nil where zero is a value.
type Sample struct {
	Time        time.Time `json:"time"`
	Index       int       `json:"index"`
	UUID        string    `json:"uuid,omitempty"`
	Name        string    `json:"name,omitempty"`
	Utilisation *int      `json:"utilisation_percent,omitempty"` // share of the last period in which a kernel ran; nil with MIG and WSL2
	MemoryUsed  *uint64   `json:"memory_used_bytes,omitempty"`   //
	MemoryTotal uint64    `json:"memory_total_bytes,omitempty"`  //
	Temperature int       `json:"temperature_celsius,omitempty"`
	Slowdown    int       `json:"slowdown_celsius,omitempty"` // where the GPU begins to slow down by itself
	ClockMHz    int       `json:"sm_clock_mhz,omitempty"`
	PowerMW     int       `json:"power_milliwatts,omitempty"`
	PowerLimit  int       `json:"power_limit_milliwatts,omitempty"`
	Throttle    *uint64   `json:"throttle_reasons,omitempty"`   // NVML's bits, see Throttling
	ECC         *uint64   `json:"ecc_uncorrected,omitempty"`    // errors since the driver was loaded
	Xid         []uint64  `json:"xid,omitempty"`                // errors since the last sample: docs.nvidia.com/deploy/xid-errors
	XidWatched  bool      `json:"xid_watched,omitempty"`        // those are reported: by NVML only
	Processes   []Process `json:"processes,omitempty"`          // those that compute on it, as NVML lists them
	PCIeWidth   int       `json:"pcie_width,omitempty"`         // lanes
	PCIeMax     int       `json:"pcie_width_maximum,omitempty"` // lanes that GPU and slot have
	Lost        bool      `json:"lost,omitempty"`               // it no longer answers
	MIG         bool      `json:"mig,omitempty"`
	Denied      bool      `json:"denied,omitempty"` // this user may not read all of it
}

// Process is one that computes on a GPU.
type Process struct {
	Pid    int    `json:"pid"`
	Memory uint64 `json:"memory_bytes,omitempty"`
}

// Bits of Sample.Throttle that slow the GPU down without a request by its owner. Source: nvmlClocksEventReason* in nvml.h 12.
const (
	throttlePowerCap     = 0x4
	throttleHWSlowdown   = 0x8
	throttleSWThermal    = 0x20
	throttleHWThermal    = 0x40
	throttleHWPowerBrake = 0x80
)

// Throttling says why a GPU is slowed down: "heat", "power", or both; empty when it is not, or idle.
func (s Sample) Throttling() string {
	var why []string
	reasons := value(s.Throttle)
	if reasons&(throttleSWThermal|throttleHWThermal) != 0 {
		why = append(why, "heat")
	}
	if reasons&(throttlePowerCap|throttleHWPowerBrake) != 0 {
		why = append(why, "power")
	}
	if len(why) == 0 && reasons&throttleHWSlowdown != 0 {
		why = append(why, "the hardware")
	}
	return strings.Join(why, " and ")
}

// value is what is pointed at, or zero.
func value[T any](p *T) (none T) {
	if p == nil {
		return none
	}
	return *p
}

// busy reports whether a kernel ran in 5 % of the last period. Of an unknown utilisation neither busy nor idle is true.
func (s Sample) busy() bool { return value(s.Utilisation) >= 5 }
func (s Sample) idle() bool { return s.Utilisation != nil && !s.busy() }

// Visible says of which GPUs a program may use each: those that CUDA_VISIBLE_DEVICES names by UUID, or by index where CUDA counts as NVML
// does. Where that is uncertain, the program may use the GPU.
func Visible(devices string, isSet bool, order string) func(Sample) bool {
	return func(s Sample) bool {
		if !isSet {
			return true
		}
		for _, d := range strings.Split(devices, ",") {
			d = strings.TrimSpace(d)
			index, err := strconv.Atoi(d)
			switch {
			case err == nil && index < 0, d == "":
				return false // CUDA reads no further than the first that is invalid
			case err == nil && (index == s.Index || order != "PCI_BUS_ID"), strings.HasPrefix(d, "MIG"),
				err != nil && (s.UUID == "" || strings.HasPrefix(s.UUID, d)):
				return true
			}
		}
		return false
	}
}

// answered reports whether the GPU answered anything. One that needs a reset, or whose driver was unloaded, does not.
func (s Sample) answered() bool {
	return s.Utilisation != nil || s.MemoryUsed != nil || s.Throttle != nil || s.ECC != nil ||
		s.Temperature+s.ClockMHz+s.PowerMW+s.PCIeWidth > 0
}

// The kinds of alerts, as --fail-on names them.
const (
	AlertTemperature = "temperature"
	AlertThrottle    = "throttle"
	AlertMemory      = "memory"
	AlertECC         = "ecc"
	AlertXid         = "xid"
	AlertPCIe        = "pcie"
	AlertIdle        = "idle"
	AlertLost        = "lost"
)

// AlertKinds are all of them.
var AlertKinds = []string{AlertTemperature, AlertThrottle, AlertMemory, AlertECC, AlertXid, AlertPCIe, AlertIdle, AlertLost}

// Thresholds say from when on something is an alert.
type Thresholds struct {
	TemperatureMargin int           // degrees Celsius below the GPU's slowdown temperature
	MemoryPercent     int           // of the GPU's memory
	Hold              time.Duration // how long heat, throttling or full memory must last
	Idle              time.Duration // how long a GPU may be idle while a program runs
}

// DefaultThresholds are those of a project that sets none.
func DefaultThresholds() Thresholds {
	return Thresholds{TemperatureMargin: 3, MemoryPercent: 95, Hold: 3 * time.Second, Idle: 30 * time.Second}
}

// Alert is something that needs a person's attention.
type Alert struct {
	Kind    string    `json:"kind"`
	Time    time.Time `json:"time"`
	Index   int       `json:"index"`
	Message string    `json:"message"`
}

// Usage is what one GPU did over a while.
type Usage struct {
	Index       int      `json:"index"`
	UUID        string   `json:"uuid,omitempty"`
	Name        string   `json:"name,omitempty"`
	Seconds     float64  `json:"seconds"`
	Busy        *float64 `json:"busy_share,omitempty"` // mean utilisation, 0 to 1; nil: unknown
	Temperature int      `json:"temperature_maximum_celsius,omitempty"`
	Memory      *uint64  `json:"memory_maximum_bytes,omitempty"` // nil, as zero otherwise: unknown
	MemoryTotal uint64   `json:"memory_total_bytes,omitempty"`
	Joules      float64  `json:"energy_joules,omitempty"`
	Throttled   *float64 `json:"throttled_seconds,omitempty"`
	// kinds of alerts whose values it did not report all the time
	Unseen      []string      `json:"unseen,omitempty"`
	Denied      bool          `json:"denied,omitempty"` // this user may not read all of it
	busy, known time.Duration // counted so far
	throttled   time.Duration
	slow        bool    // throttling was reported
	narrow      bool    // an idle sample had less PCIe lanes than possible, which power saving can cause
	worked      bool    // a sample with PCIe lanes was not idle
	counter     *uint64 // the last ECC that was reported
	errors      uint64  // by which it rose
	first, last Sample
	seen        time.Time
	samples     int
	judged      map[string]int           // how many samples had what a kind of alert needs
	missed      map[string]time.Duration // for how long a kind of alert could not be judged
}

// longestStep is the longest time between two samples over which a watch counts as whole. They come twice a second.
const longestStep = 2 * time.Second

// forgiven is how long a kind of alert may have been impossible in all, in a watch of some length: as long as a silent driver is waited
// for, and a bit more in a long watch.
func forgiven(watch time.Duration) time.Duration { return 5*time.Second + watch/100 }

// cover notes what a sample has. The time since the last one is missing where it lacks something, or comes too late.
func (u *Usage) cover(t time.Time, judged map[string]bool) {
	passed := max(t.Sub(u.seen), 0)
	for _, k := range AlertKinds {
		if judged[k] {
			u.judged[k]++
		}
		if !judged[k] || passed > longestStep {
			u.missed[k] += passed
		}
	}
	u.seen = t
	u.samples++
}

// missing is for how long a kind of alert could not be judged.
func (u *Usage) missing(kind string, until time.Time) time.Duration {
	rest := until.Sub(u.seen)
	if rest <= longestStep {
		rest = 0
	}
	return u.missed[kind] + rest
}

// Watch judges samples as they arrive. It is pure: the samples carry the time.
type Watch struct {
	limits  Thresholds
	program func(Sample) bool // says whether the program that runs may use a GPU; nil: none runs
	began   time.Time
	usage   []*Usage
	since   map[string]time.Time // when a condition of a GPU began
	raised  map[string]bool      // and whether it was reported
	alerts  []Alert
	doubt   bool // some GPUs were idle for too long, and the program may or may not use them
}

// NewWatch begins; program says whether the program that runs meanwhile may use a GPU, see Visible; nil: none runs.
func NewWatch(limits Thresholds, program func(Sample) bool, began time.Time) *Watch {
	return &Watch{limits: limits, program: program, began: began, since: map[string]time.Time{}, raised: map[string]bool{}}
}

// Add takes one sample and returns the alerts that it raises: each once, and again only after its condition ended.
func (w *Watch) Add(s Sample) []Alert {
	already := len(w.alerts)
	u := w.count(s)
	name := fmt.Sprintf("GPU %d", s.Index)
	judged := w.judged(s)
	u.cover(s.Time, judged)
	// A missing reading neither begins nor ends an alert.
	hold := func(kind string, is bool, lasting time.Duration, message string) {
		if judged[kind] {
			w.hold(s, kind, is, lasting, message)
		}
	}
	hold(AlertLost, s.Lost, 0, name+" no longer answers: it has fallen off the bus, or its driver has stopped")
	for _, xid := range s.Xid {
		w.alerts = append(w.alerts, Alert{Kind: AlertXid, Time: s.Time, Index: s.Index,
			Message: fmt.Sprintf("%s: the driver reports Xid %d (docs.nvidia.com/deploy/xid-errors)", name, xid)})
	}
	hold(AlertTemperature, s.Temperature >= s.Slowdown-w.limits.TemperatureMargin, w.limits.Hold,
		fmt.Sprintf("%s has %d °C; from %d °C on it slows down", name, s.Temperature, s.Slowdown))
	var state []string
	for _, v := range []struct {
		value int
		unit  string
	}{{s.ClockMHz, "MHz"}, {s.Temperature, "°C"}, {s.PowerMW / 1000, "W"}} {
		if v.value > 0 {
			state = append(state, fmt.Sprint(v.value, " ", v.unit))
		}
	}
	slowed := fmt.Sprintf("%s is slowed down by %s", name, s.Throttling())
	if len(state) > 0 {
		slowed += ": " + strings.Join(state, ", ")
	}
	hold(AlertThrottle, s.Throttling() != "", w.limits.Hold, slowed)
	used := value(s.MemoryUsed)
	hold(AlertMemory, used*100 >= s.MemoryTotal*uint64(w.limits.MemoryPercent), w.limits.Hold,
		fmt.Sprintf("%s: %d %% of its memory is in use (%.1f of %.1f GB)", name, used*100/max(s.MemoryTotal, 1),
			float64(used)/1e9, float64(s.MemoryTotal)/1e9))
	hold(AlertECC, u.errors > 0, 0, fmt.Sprintf("%s: uncorrected memory errors since the start: %d", name, u.errors))
	// nvidia-smi's manual: the link's width "may be reduced when the GPU is not in use". So an idle sample neither begins nor ends the
	// alert.
	if narrow := s.PCIeWidth > 0 && s.PCIeWidth < s.PCIeMax; narrow && s.idle() {
		u.narrow = true
	} else {
		u.worked = u.worked || s.PCIeWidth > 0 && !s.idle()
		hold(AlertPCIe, narrow, w.limits.Hold, fmt.Sprintf("%s works over %d of %d PCIe lanes", name, s.PCIeWidth, s.PCIeMax))
	}
	if judged[AlertIdle] {
		w.judgeIdle(s, u)
	}
	return w.alerts[already:]
}

// judged says for each kind of alert whether a sample has what it needs. It is the only place that knows.
func (w *Watch) judged(s Sample) map[string]bool {
	if s.Lost {
		return map[string]bool{AlertLost: true}
	}
	if !s.answered() {
		return nil
	}
	mine := w.mine()
	return map[string]bool{
		AlertTemperature: s.Slowdown > 0 && s.Temperature > 0,
		AlertThrottle:    s.Throttle != nil,
		AlertMemory:      s.MemoryUsed != nil && s.MemoryTotal > 0 && !s.MIG, // an instance can be full while the GPU is not
		AlertECC:         s.ECC != nil,
		AlertXid:         s.XidWatched,
		AlertPCIe:        s.PCIeWidth > 0 && s.PCIeMax > 0,
		AlertIdle: w.program == nil || slices.ContainsFunc(mine, func(u *Usage) bool { return u.last.busy() }) ||
			!slices.ContainsFunc(mine, func(u *Usage) bool { return u.last.Utilisation == nil }),
		AlertLost: true,
	}
}

// mine are the GPUs that the program may use.
func (w *Watch) mine() []*Usage {
	return slices.DeleteFunc(slices.Clone(w.usage), func(u *Usage) bool { return w.program != nil && !w.program(u.last) })
}

// judgeIdle raises an alert when all GPUs that the program may use are idle. Where only some are, nothing says which of them it uses.
func (w *Watch) judgeIdle(s Sample, u *Usage) {
	mine := w.mine()
	last, who, why := w.usage[len(w.usage)-1], "CUDA_VISIBLE_DEVICES hides all GPUs from the program: they have", ""
	if len(mine) > 0 {
		last, who, why = mine[len(mine)-1], fmt.Sprintf("GPU %d has", mine[0].Index), "; is the data loader the limit?"
	}
	if len(mine) > 1 {
		who = fmt.Sprintf("all %d GPUs have", len(mine))
	}
	if w.program == nil || u != last { // once in a round of samples
		return
	}
	all := !slices.ContainsFunc(mine, func(u *Usage) bool { return !u.last.idle() })
	some := all || slices.ContainsFunc(mine, func(u *Usage) bool { return !u.last.busy() })
	w.hold(s, AlertIdle, all, w.limits.Idle,
		fmt.Sprintf("%s been idle for %.0f s while the program runs%s", who, w.limits.Idle.Seconds(), why))
	if w.lasts("some", s.Time, some, w.limits.Idle) && !all && len(mine) > 1 {
		w.doubt = true
	}
}

// hold raises an alert when a condition has lasted.
func (w *Watch) hold(s Sample, kind string, is bool, lasting time.Duration, message string) {
	if key := fmt.Sprint(kind, s.Index); w.lasts(key, s.Time, is, lasting) && !w.raised[key] {
		w.raised[key] = true
		w.alerts = append(w.alerts, Alert{Kind: kind, Time: s.Time, Index: s.Index, Message: message})
	}
}

// lasts reports whether a condition has lasted.
func (w *Watch) lasts(key string, now time.Time, is bool, lasting time.Duration) bool {
	if !is {
		delete(w.since, key)
		delete(w.raised, key)
		return false
	}
	if _, known := w.since[key]; !known {
		w.since[key] = now
	}
	return now.Sub(w.since[key]) >= lasting
}

// count adds a sample to its GPU's usage.
func (w *Watch) count(s Sample) *Usage {
	i := slices.IndexFunc(w.usage, func(u *Usage) bool { return u.Index == s.Index })
	if i < 0 {
		w.usage = append(w.usage, &Usage{Index: s.Index, UUID: s.UUID, Name: s.Name, first: s, last: s, seen: w.began,
			judged: map[string]int{}, missed: map[string]time.Duration{}})
		i = len(w.usage) - 1
	}
	u := w.usage[i]
	passed := max(s.Time.Sub(u.last.Time), 0)
	if !s.Lost {
		u.Temperature = max(u.Temperature, s.Temperature)
		if s.MemoryUsed != nil && *s.MemoryUsed >= value(u.Memory) {
			u.Memory = s.MemoryUsed
		}
		if now, before := value(s.ECC), value(u.counter); s.ECC != nil {
			if u.counter != nil && now > before {
				u.errors += now - before
			} else if u.counter != nil && now < before { // it was reset
				u.errors += now
			}
			u.counter = s.ECC
		}
		u.slow = u.slow || s.Throttle != nil
		u.MemoryTotal = max(u.MemoryTotal, s.MemoryTotal)
		u.Joules += passed.Seconds() * float64(u.last.PowerMW) / 1000
		if s.Throttling() != "" {
			u.throttled += passed
		}
		if s.Utilisation != nil {
			u.known += passed
			u.busy += passed * time.Duration(*s.Utilisation) / 100
		}
		u.Denied = u.Denied || s.Denied
		u.last = s
	}
	return u
}

// Summary is the result of a watch.
type Summary struct {
	GPUs   []Usage  `json:"gpus"`
	Alerts []Alert  `json:"alerts"`
	Notes  []string `json:"notes,omitempty"` // what could not be watched, and why
	// kinds of alerts that were not possible all the time, because a GPU did not report what they need
	Unseen []string `json:"unseen,omitempty"`
	FailOn []string `json:"fail_on,omitempty"` // kinds of alerts that fail the command
}

// Coverage reports whether samples of every GPU came all the time, for how long they did, and for how long they should have.
func (w *Watch) Coverage(until time.Time, answering bool) (watched, asked time.Duration, whole bool) {
	asked = max(until.Sub(w.began), 0)
	for _, u := range w.usage { // the last sample comes after the end
		asked = max(asked, u.seen.Sub(w.began))
	}
	if len(w.usage) > 0 {
		watched = asked
	}
	for _, u := range w.usage {
		watched = min(watched, max(asked-u.missing(AlertLost, until), 0))
	}
	return watched, asked, w.whole(AlertLost, until, answering)
}

// whole reports whether a kind of alert could be judged of every GPU all the time.
func (w *Watch) whole(kind string, until time.Time, answering bool) bool {
	return answering && len(w.usage) > 0 && (kind != AlertIdle || !w.doubt) && !slices.ContainsFunc(w.usage, func(u *Usage) bool {
		return w.unseen(u, kind, until) || kind == AlertPCIe && u.narrow && !u.worked
	})
}

// unseen reports whether a kind of alert could not be judged of a GPU all the time: not in most samples, or for too long in all.
func (w *Watch) unseen(u *Usage, kind string, until time.Time) bool {
	return 2*u.judged[kind] <= u.samples || u.missing(kind, until) > forgiven(until.Sub(w.began))
}

// Summary ends a watch that was to last until then; answering says whether the driver still answered.
func (w *Watch) Summary(until time.Time, answering bool) Summary {
	s := Summary{GPUs: []Usage{}, Alerts: append([]Alert{}, w.alerts...)}
	for _, k := range AlertKinds {
		if !w.whole(k, until, answering) {
			s.Unseen = append(s.Unseen, k)
		}
	}
	if w.doubt {
		s.Notes = append(s.Notes, fmt.Sprintf("unknown whether the program left its GPU idle: some of those that it may use were not busy "+
			"for %.0f s; set CUDA_VISIBLE_DEVICES to the UUIDs of those that it uses", w.limits.Idle.Seconds()))
	}
	for _, u := range w.usage {
		out := *u
		out.Seconds = u.last.Time.Sub(u.first.Time).Seconds()
		for _, k := range AlertKinds {
			if w.unseen(u, k, until) {
				out.Unseen = append(out.Unseen, k)
			}
		}
		if u.narrow && !u.worked {
			s.Notes = append(s.Notes, fmt.Sprintf("GPU %d was never busy, and its PCIe link can be narrow just for that reason", u.Index))
		}
		if u.slow {
			out.Throttled = new(u.throttled.Seconds())
		}
		if u.known > 0 {
			out.Busy = new(u.busy.Seconds() / u.known.Seconds())
		}
		s.GPUs = append(s.GPUs, out)
	}
	return s
}

// Text says a GPU's usage in one line.
func (u Usage) Text() string {
	text := fmt.Sprintf("GPU %d", u.Index)
	if u.Name != "" {
		text += " (" + u.Name + ")"
	}
	switch {
	case u.Busy != nil:
		text += fmt.Sprintf(" was busy %.0f %% of %.0f s", 100**u.Busy, u.Seconds)
	case u.last.Utilisation != nil:
		text += fmt.Sprintf(" was asked only once: utilisation %d %%", *u.last.Utilisation)
	default:
		text += " utilisation unknown"
	}
	var most []string
	if u.Temperature > 0 {
		most = append(most, fmt.Sprintf("%d °C", u.Temperature))
	}
	if u.Memory != nil {
		most = append(most, fmt.Sprintf("%.1f of %.1f GB", float64(*u.Memory)/1e9, float64(u.MemoryTotal)/1e9))
	}
	if len(most) > 0 {
		text += "; at most " + strings.Join(most, " and ") + " in samples" // between two of them it may have been more
	}
	if u.Joules > 0 {
		text += fmt.Sprintf("; %.0f J", u.Joules)
	}
	if u.Throttled != nil && *u.Throttled > 0 {
		text += fmt.Sprintf("; slowed down for %.0f s", *u.Throttled)
	}
	return text
}
