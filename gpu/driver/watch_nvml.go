//go:build linux && cgo

package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpubuild/gpu"
)

// WatchMain writes a line of samples every Period until nobody reads them; it answers the exit code. It may hang or not come back at all.
func WatchMain(w io.Writer) int {
	out := json.NewEncoder(w)
	fail := func(why string) int {
		_ = out.Encode(round{Schema: roundSchema, Error: why}) // the exit code says it, too
		return childFailed
	}
	s, err := startNVML()
	if err != nil {
		return fail(err.Error())
	}
	if why := s.open(); why != "" {
		return fail(why)
	}
	for next := time.Now(); ; next = next.Add(Period) {
		if out.Encode(round{Schema: roundSchema, Samples: s.samples()}) != nil {
			return childDone // nobody reads any more
		}
		s.wait(next.Add(Period))
	}
}

// startNVML loads NVML and initialises it. Nothing shuts it down: the process ends, and an old driver can hang in it.
func startNVML() (*sampler, error) {
	lib := dl.New(library, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := lib.Open(); err != nil {
		return nil, err
	}
	s := &sampler{n: nvml.New(), has: func(name string) bool { return lib.Lookup(name) == nil }}
	for _, name := range []string{"nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"} {
		if !s.has(name+"_v2") && !s.has(name) {
			return nil, fmt.Errorf("%s has no %s_v2", library, name)
		}
	}
	if ret := s.n.Init(); ret != nvml.SUCCESS {
		return nil, errors.New(s.said(ret))
	}
	return s, nil
}

// sampler asks one NVML. has says whether the library has a function: calling one that it lacks would end the process.
type sampler struct {
	n       nvml.Interface
	has     func(string) bool
	devices []nvml.Device
	fixed   []gpu.Sample // what does not change
	events  nvml.EventSet
	xid     map[int][]uint64
}

func (s *sampler) said(ret nvml.Return) string {
	if s.has("nvmlErrorString") {
		return nvml.ErrorString(ret)
	}
	return fmt.Sprintf("NVML error %d", ret)
}

// open finds the devices, and asks for events of errors where the driver has them.
func (s *sampler) open() string {
	count, ret := s.n.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return s.said(ret)
	}
	if count == 0 {
		return errNoGPU.Error()
	}
	s.xid = map[int][]uint64{}
	if s.has("nvmlEventSetCreate") && s.has("nvmlDeviceRegisterEvents") && s.has("nvmlEventSetWait_v2") {
		if set, ret := s.n.EventSetCreate(); ret == nvml.SUCCESS {
			s.events = set
		}
	}
	why := ""
	for i := range min(count, maxDevices) {
		dev, ret := s.n.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS { // this one does not answer, the others may
			why = fmt.Sprintf("GPU %d: %s", i, s.said(ret))
			f := gpu.Sample{Index: i, Lost: ret == nvml.ERROR_GPU_IS_LOST, Denied: ret == nvml.ERROR_NO_PERMISSION}
			s.devices, s.fixed = append(s.devices, nil), append(s.fixed, f)
			continue
		}
		f := gpu.Sample{
			Index: i, UUID: value(s, "nvmlDeviceGetUUID", nil, dev.GetUUID), Name: value(s, "nvmlDeviceGetName", nil, dev.GetName),
			PowerLimit: int(value(s, "nvmlDeviceGetEnforcedPowerLimit", nil, dev.GetEnforcedPowerLimit)),
			PCIeMax:    value(s, "nvmlDeviceGetMaxPcieLinkWidth", nil, dev.GetMaxPcieLinkWidth),
			Slowdown: int(value(s, "nvmlDeviceGetTemperatureThreshold", nil, func() (uint32, nvml.Return) {
				return dev.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
			})),
			MIG: value(s, "nvmlDeviceGetMigMode", nil, func() (int, nvml.Return) {
				now, _, ret := dev.GetMigMode()
				return now, ret
			}) == nvml.DEVICE_MIG_ENABLE,
		}
		if s.events != nil && dev.RegisterEvents(nvml.EventTypeXidCriticalError, s.events) != nvml.SUCCESS {
			s.events = nil // not on this driver: the time is waited for instead
		}
		s.devices, s.fixed = append(s.devices, dev), append(s.fixed, f)
	}
	if !slices.ContainsFunc(s.devices, func(d nvml.Device) bool { return d != nil }) &&
		!slices.ContainsFunc(s.fixed, func(f gpu.Sample) bool { return f.Lost }) {
		return why
	}
	return ""
}

// known asks for something, if the library has the function. It is nil where the driver has no answer, and notes a lost GPU and a refusal.
func known[T any](s *sampler, function string, of *gpu.Sample, ask func() (T, nvml.Return)) *T {
	if !s.has(function) {
		return nil
	}
	got, ret := ask()
	if of != nil {
		of.Lost = of.Lost || ret == nvml.ERROR_GPU_IS_LOST
		of.Denied = of.Denied || ret == nvml.ERROR_NO_PERMISSION
	}
	if ret != nvml.SUCCESS {
		return nil
	}
	return &got
}

// value is known with the zero value for nil.
func value[T any](s *sampler, function string, of *gpu.Sample, ask func() (T, nvml.Return)) (none T) {
	if got := known(s, function, of, ask); got != nil {
		return *got
	}
	return none
}

// samples asks every device.
func (s *sampler) samples() []gpu.Sample {
	var out []gpu.Sample
	for i, dev := range s.devices {
		v := s.fixed[i]
		v.Time, v.Xid, v.XidUnknown = time.Now(), s.xid[i], s.events == nil
		delete(s.xid, i)
		if dev == nil {
			out = append(out, v)
			continue
		}
		v.Utilisation = known(s, "nvmlDeviceGetUtilizationRates", &v, func() (int, nvml.Return) {
			u, ret := dev.GetUtilizationRates()
			return int(u.Gpu), ret
		})
		if memory := known(s, "nvmlDeviceGetMemoryInfo", &v, dev.GetMemoryInfo); memory != nil {
			v.MemoryUsed, v.MemoryTotal = &memory.Used, memory.Total
		}
		v.Temperature = int(value(s, "nvmlDeviceGetTemperature", &v, func() (uint32, nvml.Return) {
			return dev.GetTemperature(nvml.TEMPERATURE_GPU)
		}))
		v.ClockMHz = int(value(s, "nvmlDeviceGetClockInfo", &v, func() (uint32, nvml.Return) { return dev.GetClockInfo(nvml.CLOCK_SM) }))
		v.PowerMW = int(value(s, "nvmlDeviceGetPowerUsage", &v, dev.GetPowerUsage))
		v.Throttle = known(s, "nvmlDeviceGetCurrentClocksThrottleReasons", &v, dev.GetCurrentClocksThrottleReasons)
		if v.Throttle == nil { // the same by its newer name
			v.Throttle = known(s, "nvmlDeviceGetCurrentClocksEventReasons", &v, dev.GetCurrentClocksEventReasons)
		}
		v.ECC = known(s, "nvmlDeviceGetTotalEccErrors", &v, func() (uint64, nvml.Return) {
			return dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		})
		v.PCIeWidth = value(s, "nvmlDeviceGetCurrPcieLinkWidth", &v, dev.GetCurrPcieLinkWidth)
		out = append(out, v)
	}
	return out
}

// wait waits until then and keeps the errors that the driver reports meanwhile.
func (s *sampler) wait(then time.Time) {
	for left := time.Until(then); left > 0; left = time.Until(then) {
		if s.events == nil {
			time.Sleep(left)
			return
		}
		e, ret := s.events.Wait(uint32(max(left.Milliseconds(), 1)))
		switch ret {
		case nvml.SUCCESS:
			for i, dev := range s.devices {
				if dev == e.Device {
					s.xid[i] = append(s.xid[i], e.EventData)
				}
			}
		case nvml.ERROR_TIMEOUT:
		default:
			s.events = nil
		}
	}
}
