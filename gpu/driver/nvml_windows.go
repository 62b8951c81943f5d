package driver

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Results of NVML that mean something to us (nvml.h of NVIDIA/go-nvml v0.13.0-1).
const (
	nvmlSuccess      = 0
	nvmlNoPermission = 4
	nvmlGPUIsLost    = 15
)

// nvmlDLL is the system's nvml.dll. A function that this driver lacks is nil.
type nvmlDLL struct {
	lib    *windows.LazyDLL
	handle *windows.LazyProc
	count  int
	buf    [96]byte // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80, NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE 96
}

// startNVML loads and starts it. There is no way back: the process ends, and an old driver can hang in nvmlShutdown.
func startNVML() (*nvmlDLL, error) {
	// From System32 only, where drivers since R418 put it: one in the program's or the current directory is not the driver's.
	n := &nvmlDLL{lib: windows.NewLazySystemDLL("nvml.dll")}
	if err := n.lib.Load(); err != nil {
		return nil, err
	}
	start := n.first("nvmlInit_v2", "nvmlInit")
	count := n.first("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	n.handle = n.first("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
	for name, p := range map[string]*windows.LazyProc{
		"nvmlInit_v2": start, "nvmlDeviceGetCount_v2": count, "nvmlDeviceGetHandleByIndex_v2": n.handle,
	} {
		if p == nil {
			return nil, fmt.Errorf("nvml.dll has no %s", name)
		}
	}
	if ret := n.call(start); ret != nvmlSuccess {
		return nil, n.said(ret)
	}
	var found uint32
	if ret := n.call(count, uintptr(unsafe.Pointer(&found))); ret != nvmlSuccess {
		return nil, n.said(ret)
	}
	n.count = min(int(found), maxDevices)
	return n, nil
}

// first is the newest form of a function that this driver has; nil: none.
func (n *nvmlDLL) first(names ...string) *windows.LazyProc {
	for _, name := range names {
		if p := n.lib.NewProc(name); p.Find() == nil {
			return p
		}
	}
	return nil
}

// call calls a function. The directive keeps what the arguments point to where it is, as it does for LazyProc.Call.
//
//go:uintptrescapes
func (n *nvmlDLL) call(p *windows.LazyProc, args ...uintptr) int {
	ret, _, _ := p.Call(args...) // the last error means nothing here
	return int(int32(ret))
}

// said is what NVML calls a result.
func (n *nvmlDLL) said(ret int) error {
	if text := n.first("nvmlErrorString"); text != nil {
		if s, _, _ := text.Call(uintptr(ret)); s != 0 {
			return fmt.Errorf("%s", windows.BytePtrToString(*(**byte)(unsafe.Pointer(&s)))) // a constant of the library's
		}
	}
	return fmt.Errorf("NVML error %d", ret)
}

// device is the handle of a GPU.
func (n *nvmlDLL) device(i int) (dev uintptr, ret int) {
	ret = n.call(n.handle, uintptr(i), uintptr(unsafe.Pointer(&dev)))
	return dev, ret
}

// text asks for a string; before are the arguments that come first. Empty: there is none.
func (n *nvmlDLL) text(name string, before ...uintptr) string {
	n.buf = [96]byte{}
	size := uintptr(len(n.buf))
	if len(before) == 0 {
		size = 80
	}
	p := n.first(name)
	if p == nil || n.call(p, append(before, uintptr(unsafe.Pointer(&n.buf[0])), size)...) != nvmlSuccess {
		return ""
	}
	return windows.ByteSliceToString(n.buf[:])
}
