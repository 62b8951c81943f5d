package driver

import (
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/windows"
)

const builtIn = true

// Results of NVML that mean something to us (nvml.h of NVIDIA/go-nvml v0.13.0-1).
const nvmlSuccess = 0

// ChildMain asks the system's nvml.dll and writes the answer as one line of
// JSON; it answers the exit code. It may hang or not come back at all.
func ChildMain(w io.Writer) int {
	data, code := ask().encode()
	if _, err := w.Write(data); err != nil {
		return childFailed
	}
	return code
}

func ask() (a answer) {
	// From System32 only, where drivers since R418 put it: one beside the program or in the current directory is not the driver's.
	lib := windows.NewLazySystemDLL("nvml.dll")
	if err := lib.Load(); err != nil {
		a.Error = err.Error()
		return a
	}
	// first is the newest form of a function that this driver has; nil: none.
	first := func(names ...string) *windows.LazyProc {
		for _, n := range names {
			if p := lib.NewProc(n); p.Find() == nil {
				return p
			}
		}
		return nil
	}
	call := func(p *windows.LazyProc, args ...uintptr) int {
		ret, _, _ := p.Call(args...) // the last error means nothing here
		return int(int32(ret))
	}
	text := first("nvmlErrorString")
	said := func(ret int) string {
		if text != nil {
			if s, _, _ := text.Call(uintptr(ret)); s != 0 {
				return windows.BytePtrToString(*(**byte)(unsafe.Pointer(&s))) // a constant of the library's
			}
		}
		return fmt.Sprintf("NVML error %d", ret)
	}
	start := first("nvmlInit_v2", "nvmlInit")
	count := first("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	handle := first("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
	for name, p := range map[string]*windows.LazyProc{
		"nvmlInit_v2":                   start,
		"nvmlDeviceGetCount_v2":         count,
		"nvmlDeviceGetHandleByIndex_v2": handle,
	} {
		if p == nil {
			a.Error = "nvml.dll has no " + name
			return a
		}
	}
	if ret := call(start); ret != nvmlSuccess {
		a.Error = said(ret)
		return a
	}
	var buf [96]byte // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80, NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE 96
	str := func(p *windows.LazyProc, before ...uintptr) string {
		buf = [96]byte{}
		size := uintptr(len(buf))
		if len(before) == 0 {
			size = 80
		}
		if p == nil || call(p, append(before, uintptr(unsafe.Pointer(&buf[0])), size)...) != nvmlSuccess {
			return ""
		}
		return windows.ByteSliceToString(buf[:])
	}
	a.Driver = str(first("nvmlSystemGetDriverVersion"))
	var cuda int32
	if p := first("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"); p != nil &&
		call(p, uintptr(unsafe.Pointer(&cuda))) == nvmlSuccess {
		a.CUDA = int(cuda)
	}
	var n uint32
	if ret := call(count, uintptr(unsafe.Pointer(&n))); ret != nvmlSuccess {
		a.Error = said(ret)
		return a
	}
	uuid := first("nvmlDeviceGetUUID")
	name := first("nvmlDeviceGetName")
	memory := first("nvmlDeviceGetMemoryInfo")
	capability := first("nvmlDeviceGetCudaComputeCapability")
	for i := range min(int(n), maxDevices) {
		var dev uintptr
		if ret := call(handle, uintptr(i), uintptr(unsafe.Pointer(&dev))); ret != nvmlSuccess {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: %s", i, said(ret)))
			continue
		}
		d := childDevice{Index: i, UUID: str(uuid, dev), Name: str(name, dev)}
		var mem struct{ total, free, used uint64 }
		if memory != nil && call(memory, dev, uintptr(unsafe.Pointer(&mem))) == nvmlSuccess {
			d.Memory = mem.total
		}
		var major, minor int32
		if capability == nil {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: this driver is too old to tell its compute capability", i))
		} else if ret := call(capability, dev, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor))); ret != nvmlSuccess {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: no compute capability: %s", i, said(ret)))
		} else {
			d.Major, d.Minor = int(major), int(minor)
		}
		a.Devices = append(a.Devices, d)
	}
	// No shutdown: the process ends, and an old driver can hang in it.
	return a
}
