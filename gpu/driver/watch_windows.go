package driver

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"gpubuild/gpu"
)

// WatchMain writes a line of samples every Period until nobody reads them; it answers the exit code. It may hang or not come back at all.
// NVML reports Xid errors by its events, which are "for Linux only" (nvml.h, nvmlDeviceRegisterEvents).
func WatchMain(w io.Writer) int {
	out := json.NewEncoder(w)
	fail := func(err error) int {
		_ = out.Encode(round{Schema: roundSchema, Error: err.Error()}) // the exit code says it, too
		return childFailed
	}
	n, err := startNVML()
	if err != nil {
		return fail(err)
	}
	if n.count == 0 {
		return fail(errNoGPU)
	}
	var gpus []*watchedGPU
	var why error
	for i := range n.count {
		dev, ret := n.device(i)
		if ret != nvmlSuccess { // this one does not answer, the others may
			why = fmt.Errorf("GPU %d: %w", i, n.said(ret))
			gpus = append(gpus, &watchedGPU{fixed: gpu.Sample{Index: i, Lost: ret == nvmlGPUIsLost, Denied: ret == nvmlNoPermission}})
			continue
		}
		gpus = append(gpus, n.watched(i, dev))
	}
	if !slices.ContainsFunc(gpus, func(g *watchedGPU) bool { return g.n != nil || g.fixed.Lost }) {
		return fail(why)
	}
	for next := time.Now(); ; {
		var samples []gpu.Sample
		for _, g := range gpus {
			samples = append(samples, g.sample())
		}
		if out.Encode(round{Schema: roundSchema, Samples: samples}) != nil {
			return childDone // nobody reads any more
		}
		next = next.Add(Period)
		time.Sleep(time.Until(next))
	}
}

// watchedGPU is one GPU, with the functions that this driver has.
type watchedGPU struct {
	n            *nvmlDLL
	dev          uintptr
	fixed        gpu.Sample // what does not change
	lost, denied bool
	procs        map[string]*windows.LazyProc
	value        uint32 // where number gets its answer: on the heap, which does not move
}

func (n *nvmlDLL) watched(i int, dev uintptr) *watchedGPU {
	g := &watchedGPU{n: n, dev: dev, procs: map[string]*windows.LazyProc{}}
	g.fixed = gpu.Sample{Index: i, UUID: n.text("nvmlDeviceGetUUID", dev), Name: n.text("nvmlDeviceGetName", dev)}
	const slowdown = 1 // NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
	g.fixed.Slowdown = int(g.number("nvmlDeviceGetTemperatureThreshold", slowdown))
	g.fixed.PowerLimit = int(g.number("nvmlDeviceGetEnforcedPowerLimit"))
	g.fixed.PCIeMax = int(g.number("nvmlDeviceGetMaxPcieLinkWidth"))
	var mig struct{ is, will uint32 }
	g.fixed.MIG = g.ask("nvmlDeviceGetMigMode", uintptr(unsafe.Pointer(&mig.is)), uintptr(unsafe.Pointer(&mig.will))) && mig.is == 1
	return g
}

// ask calls a function for the GPU, and says whether it answered.
//
//go:uintptrescapes
func (g *watchedGPU) ask(name string, args ...uintptr) bool {
	p, looked := g.procs[name]
	if !looked {
		p = g.n.first(name)
		g.procs[name] = p
	}
	if p == nil {
		return false
	}
	ret := g.n.call(p, append([]uintptr{g.dev}, args...)...)
	g.lost, g.denied = g.lost || ret == nvmlGPUIsLost, g.denied || ret == nvmlNoPermission
	return ret == nvmlSuccess
}

// number asks for a number of 32 bits; before are the arguments that come first. 0: there is no answer.
func (g *watchedGPU) number(name string, before ...uintptr) uint32 {
	g.value = 0
	if !g.ask(name, append(before, uintptr(unsafe.Pointer(&g.value)))...) {
		return 0
	}
	return g.value
}

// sample asks for what changes. The structures and enumerations are those of nvml.h.
func (g *watchedGPU) sample() gpu.Sample {
	g.lost, g.denied = false, false
	v := g.fixed
	v.Time, v.XidUnknown = time.Now(), true
	if g.n == nil { // its handle could not be had
		return v
	}
	var utilisation struct{ gpu, memory uint32 }
	if g.ask("nvmlDeviceGetUtilizationRates", uintptr(unsafe.Pointer(&utilisation))) {
		v.Utilisation = new(int(utilisation.gpu))
	}
	var memory struct{ total, free, used uint64 }
	if g.ask("nvmlDeviceGetMemoryInfo", uintptr(unsafe.Pointer(&memory))) {
		v.MemoryUsed, v.MemoryTotal = new(memory.used), memory.total
	}
	// NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
	const ofGPU, ofSM, uncorrected, volatile = 0, 1, 1, 0
	v.Temperature = int(g.number("nvmlDeviceGetTemperature", ofGPU))
	v.ClockMHz = int(g.number("nvmlDeviceGetClockInfo", ofSM))
	v.PowerMW = int(g.number("nvmlDeviceGetPowerUsage"))
	v.PCIeWidth = int(g.number("nvmlDeviceGetCurrPcieLinkWidth"))
	if throttle := new(uint64); g.ask("nvmlDeviceGetCurrentClocksThrottleReasons", uintptr(unsafe.Pointer(throttle))) ||
		g.ask("nvmlDeviceGetCurrentClocksEventReasons", uintptr(unsafe.Pointer(throttle))) { // the same by its newer name
		v.Throttle = throttle
	}
	if ecc := new(uint64); g.ask("nvmlDeviceGetTotalEccErrors", uncorrected, volatile, uintptr(unsafe.Pointer(ecc))) {
		v.ECC = ecc
	}
	v.Lost, v.Denied = g.lost, g.denied
	return v
}
