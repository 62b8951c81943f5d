//go:build linux && cgo && (amd64 || arm64)

package driver

/*
#include <stdlib.h>
const char *gpubuild_nvml_open(const char *library);
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpubuild/gpu"
)

// hasNVML reports whether this build can ask NVML.
const hasNVML = true

// libraries are where NVML is: first as the loader finds it, then where WSL2 and NixOS have it.
var libraries = [...]string{libraryName, wslDir + "/" + libraryName, "/run/opengl-driver/lib/" + libraryName}

// Child asks NVML and writes answers, a line each: with Watch one with samples every Period until nobody reads them, else one with the
// devices. It returns the exit code. The driver's library can hang, or end this process.
func Child(words []string, w io.Writer) int {
	out := json.NewEncoder(w)
	s, err := startNVML()
	if err == nil {
		err = s.open()
	}
	if err != nil {
		_ = out.Encode(reply{Schema: replySchema, Error: err.Error()}) // the exit code says it, too
		return 1
	}
	if len(words) == 0 || words[0] != watchWord {
		if out.Encode(s.describe()) != nil {
			return 1
		}
		return 0
	}
	if len(s.devices) == 0 {
		_ = out.Encode(reply{Schema: replySchema, Error: errNoGPU.Error()})
		return 1
	}
	for next := time.Now(); ; next = next.Add(Period) {
		if out.Encode(reply{Schema: replySchema, Samples: s.samples()}) != nil {
			return 0 // nobody reads any more
		}
		s.wait(next.Add(Period))
	}
}

// noFile ends the loader's reason where there is no such library.
const noFile = "No such file or directory"

// startNVML loads NVML and initialises it. Nothing shuts it down: the process ends, and an old driver can hang in it.
func startNVML() (*sampler, error) {
	for _, library := range libraries {
		name := C.CString(library)
		why := C.gpubuild_nvml_open(name)
		C.free(unsafe.Pointer(name))
		if why != nil {
			if text := C.GoString(why); !strings.HasSuffix(text, noFile) {
				return nil, errors.New(text)
			}
			continue
		}
		n := nvml.New(nvml.WithLibraryPath(library))
		if ret := n.Init(); ret != nvml.SUCCESS {
			return nil, ret
		}
		return &sampler{n: n, xid: map[int][]uint64{}}, nil
	}
	return nil, errors.New(noLibrary)
}

type sampler struct {
	n       nvml.Interface
	devices []nvml.Device // nil: it does not answer
	fixed   []gpu.Sample  // what does not change
	notes   []string
	events  nvml.EventSet
	xid     map[int][]uint64
}

// open finds the devices, and asks for events of errors where the driver has them.
func (s *sampler) open() error {
	count, ret := s.n.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return ret
	}
	if set, ret := s.n.EventSetCreate(); ret == nvml.SUCCESS {
		s.events = set
	}
	for i := range min(count, maxDevices) {
		dev, ret := s.n.DeviceGetHandleByIndex(i)
		f := gpu.Sample{Index: i, Lost: ret == nvml.ERROR_GPU_IS_LOST, Denied: ret == nvml.ERROR_NO_PERMISSION}
		if ret != nvml.SUCCESS { // this one does not answer, the others may
			s.notes = append(s.notes, fmt.Sprintf("GPU %d: %s", i, ret.Error()))
			s.devices, s.fixed = append(s.devices, nil), append(s.fixed, f)
			continue
		}
		f.UUID, f.Name = value(nil, dev.GetUUID), value(nil, dev.GetName)
		f.PowerLimit, f.PCIeMax = int(value(nil, dev.GetEnforcedPowerLimit)), value(nil, dev.GetMaxPcieLinkWidth)
		f.Slowdown = int(value(nil, func() (uint32, nvml.Return) {
			return dev.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
		}))
		f.MIG = value(nil, func() (int, nvml.Return) { now, _, ret := dev.GetMigMode(); return now, ret }) == nvml.DEVICE_MIG_ENABLE
		if s.events != nil && dev.RegisterEvents(nvml.EventTypeXidCriticalError, s.events) != nvml.SUCCESS {
			s.events = nil // not on this driver: the time is waited for instead
		}
		s.devices, s.fixed = append(s.devices, dev), append(s.fixed, f)
	}
	return nil
}

// describe lists the GPUs that answer, each with its MIG instances.
func (s *sampler) describe() reply {
	cuda, _ := s.n.SystemGetCudaDriverVersion_v2()
	if cuda == 0 {
		cuda, _ = s.n.SystemGetCudaDriverVersion()
	}
	r := reply{Schema: replySchema, Driver: value(nil, s.n.SystemGetDriverVersion), CUDA: gpu.VersionOf(cuda), Notes: s.notes}
	for i, dev := range s.devices {
		if dev == nil {
			continue
		}
		d := gpu.Device{Index: i, UUID: s.fixed[i].UUID, Name: s.fixed[i].Name, Memory: value(nil, dev.GetMemoryInfo).Total}
		major, minor, ret := dev.GetCudaComputeCapability()
		if d.Capability = (gpu.Capability{Major: major, Minor: minor}); ret != nvml.SUCCESS {
			d.Capability = gpu.Capability{}
			r.Notes = append(r.Notes, fmt.Sprintf("GPU %d: NVML reports no compute capability: %s", i, ret.Error()))
		}
		for n := range value(nil, dev.GetMaxMigDeviceCount) {
			if mig, ret := dev.GetMigDeviceHandleByIndex(n); s.fixed[i].MIG && ret == nvml.SUCCESS {
				d.MIG = append(d.MIG, gpu.Instance{
					UUID: value(nil, mig.GetUUID), Name: value(nil, mig.GetName), Memory: value(nil, mig.GetMemoryInfo).Total,
				})
			}
		}
		r.Devices = append(r.Devices, d)
	}
	return r
}

// known asks for something. It is nil where the driver has no answer, and notes a lost GPU and a refusal.
func known[T any](of *gpu.Sample, ask func() (T, nvml.Return)) *T {
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
func value[T any](of *gpu.Sample, ask func() (T, nvml.Return)) (none T) {
	if got := known(of, ask); got != nil {
		return *got
	}
	return none
}

func (s *sampler) samples() []gpu.Sample {
	var out []gpu.Sample
	for i, dev := range s.devices {
		v := s.fixed[i]
		v.Time, v.Xid, v.XidWatched = time.Now(), s.xid[i], s.events != nil
		delete(s.xid, i)
		if dev != nil {
			sample(dev, &v)
		}
		out = append(out, v)
	}
	return out
}

func sample(dev nvml.Device, v *gpu.Sample) {
	v.Utilisation = known(v, func() (int, nvml.Return) { u, ret := dev.GetUtilizationRates(); return int(u.Gpu), ret })
	if memory := known(v, dev.GetMemoryInfo); memory != nil {
		v.MemoryUsed, v.MemoryTotal = &memory.Used, memory.Total
	}
	v.Temperature = int(value(v, func() (uint32, nvml.Return) { return dev.GetTemperature(nvml.TEMPERATURE_GPU) }))
	v.ClockMHz = int(value(v, func() (uint32, nvml.Return) { return dev.GetClockInfo(nvml.CLOCK_SM) }))
	v.PowerMW = int(value(v, dev.GetPowerUsage))
	if v.Throttle = known(v, dev.GetCurrentClocksThrottleReasons); v.Throttle == nil { // its newer name
		v.Throttle = known(v, dev.GetCurrentClocksEventReasons)
	}
	v.ECC = known(v, func() (uint64, nvml.Return) {
		return dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	})
	v.PCIeWidth = value(v, dev.GetCurrPcieLinkWidth)
	for _, p := range value(nil, dev.GetComputeRunningProcesses) {
		v.Processes = append(v.Processes, gpu.Process{Pid: int(p.Pid), Memory: p.UsedGpuMemory})
	}
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
