//go:build linux && cgo

package driver

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const builtIn = true

func ask() (a answer) {
	s, err := startNVML()
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.Driver = value(s, "nvmlSystemGetDriverVersion", nil, s.n.SystemGetDriverVersion)
	if a.CUDA = value(s, "nvmlSystemGetCudaDriverVersion_v2", nil, s.n.SystemGetCudaDriverVersion_v2); a.CUDA == 0 {
		a.CUDA = value(s, "nvmlSystemGetCudaDriverVersion", nil, s.n.SystemGetCudaDriverVersion)
	}
	count, ret := s.n.DeviceGetCount()
	if ret != nvml.SUCCESS {
		a.Error = s.said(ret)
		return a
	}
	for i := range min(count, maxDevices) {
		dev, ret := s.n.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: %s", i, s.said(ret)))
			continue
		}
		d := childDevice{Index: i, UUID: value(s, "nvmlDeviceGetUUID", nil, dev.GetUUID),
			Name:   value(s, "nvmlDeviceGetName", nil, dev.GetName),
			Memory: value(s, "nvmlDeviceGetMemoryInfo", nil, dev.GetMemoryInfo).Total}
		if !s.has("nvmlDeviceGetCudaComputeCapability") {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: this driver is too old to report its compute capability", i))
		} else if major, minor, ret := dev.GetCudaComputeCapability(); ret != nvml.SUCCESS {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: no compute capability: %s", i, s.said(ret)))
		} else {
			d.Major, d.Minor = major, minor
		}
		a.Devices = append(a.Devices, d)
	}
	return a
}
