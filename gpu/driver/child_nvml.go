//go:build linux && cgo

package driver

import (
	"fmt"
	"io"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const builtIn = true

// ChildMain asks NVML and writes the answer as one line of JSON; it answers the exit code. It may hang or not come back at all.
func ChildMain(w io.Writer) int {
	data, code := ask().encode()
	if _, err := w.Write(data); err != nil {
		return childFailed
	}
	return code
}

func ask() (a answer) {
	lib := dl.New(library, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := lib.Open(); err != nil {
		a.Error = err.Error()
		return a
	}
	// Calling a function that the library lacks ends the process ("symbol lookup error"): each is looked up first. Old drivers lack some.
	has := func(names ...string) bool {
		for _, n := range names {
			if lib.Lookup(n) == nil {
				return true
			}
		}
		return false
	}
	said := func(ret nvml.Return) string {
		if has("nvmlErrorString") {
			return nvml.ErrorString(ret)
		}
		return fmt.Sprintf("NVML error %d", ret)
	}
	for _, names := range [][]string{
		{"nvmlInit_v2", "nvmlInit"},
		{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
		{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	} {
		if !has(names...) {
			a.Error = fmt.Sprintf("%s has no %s", library, names[0])
			return a
		}
	}
	n := nvml.New()
	if ret := n.Init(); ret != nvml.SUCCESS {
		a.Error = said(ret)
		return a
	}
	if has("nvmlSystemGetDriverVersion") {
		if v, ret := n.SystemGetDriverVersion(); ret == nvml.SUCCESS {
			a.Driver = v
		}
	}
	if has("nvmlSystemGetCudaDriverVersion_v2") {
		if v, ret := n.SystemGetCudaDriverVersion_v2(); ret == nvml.SUCCESS {
			a.CUDA = v
		}
	} else if has("nvmlSystemGetCudaDriverVersion") {
		if v, ret := n.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			a.CUDA = v
		}
	}
	count, ret := n.DeviceGetCount()
	if ret != nvml.SUCCESS {
		a.Error = said(ret)
		return a
	}
	for i := range min(count, maxDevices) {
		dev, ret := n.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: %s", i, said(ret)))
			continue
		}
		d := childDevice{Index: i}
		if has("nvmlDeviceGetUUID") {
			if v, ret := dev.GetUUID(); ret == nvml.SUCCESS {
				d.UUID = v
			}
		}
		if has("nvmlDeviceGetName") {
			if v, ret := dev.GetName(); ret == nvml.SUCCESS {
				d.Name = v
			}
		}
		if has("nvmlDeviceGetMemoryInfo") {
			if v, ret := dev.GetMemoryInfo(); ret == nvml.SUCCESS {
				d.Memory = v.Total
			}
		}
		if !has("nvmlDeviceGetCudaComputeCapability") {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: this driver is too old to tell its compute capability", i))
		} else if major, minor, ret := dev.GetCudaComputeCapability(); ret != nvml.SUCCESS {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: no compute capability: %s", i, said(ret)))
		} else {
			d.Major, d.Minor = major, minor
		}
		a.Devices = append(a.Devices, d)
	}
	// No shutdown: the process ends, and an old driver can hang in it.
	return a
}
