package driver

import (
	"fmt"
	"unsafe"
)

const builtIn = true

func ask() (a answer) {
	n, err := startNVML()
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.Driver = n.text("nvmlSystemGetDriverVersion")
	var cuda int32
	if p := n.first("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"); p != nil &&
		n.call(p, uintptr(unsafe.Pointer(&cuda))) == nvmlSuccess {
		a.CUDA = int(cuda)
	}
	memory := n.first("nvmlDeviceGetMemoryInfo")
	capability := n.first("nvmlDeviceGetCudaComputeCapability")
	for i := range n.count {
		dev, ret := n.device(i)
		if ret != nvmlSuccess {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: %s", i, n.said(ret)))
			continue
		}
		d := childDevice{Index: i, UUID: n.text("nvmlDeviceGetUUID", dev), Name: n.text("nvmlDeviceGetName", dev)}
		var mem struct{ total, free, used uint64 }
		if memory != nil && n.call(memory, dev, uintptr(unsafe.Pointer(&mem))) == nvmlSuccess {
			d.Memory = mem.total
		}
		var major, minor int32
		if capability == nil {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: this driver is too old to report its compute capability", i))
		} else if ret := n.call(capability, dev, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor))); ret != nvmlSuccess {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: no compute capability: %s", i, n.said(ret)))
		} else {
			d.Major, d.Minor = int(major), int(minor)
		}
		a.Devices = append(a.Devices, d)
	}
	return a
}
