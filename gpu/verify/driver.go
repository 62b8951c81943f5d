package verify

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/probe"
)

// versionOf reads the version in libcuda.so.580.65.06 and libcuda.so.1.1; the link name libcuda.so.1 says nothing.
var versionOf = lazyregexp.New(`^libcuda\.so\.(\d{3,4}(?:\.\d+){1,2})$`)

// complete adds to what a process said of its driver what the machine's files say of it.
func complete(h buildenv.Host, l Loaded) Loaded {
	if l.Backend == probe.Vulkan {
		return completeVulkan(l)
	}
	if h.OS == buildenv.Windows {
		return completeWindows(h, l, systemDirectory(), signature)
	}
	l.Module, l.WSL = driver.Kernel(h).Version, h.IsWSL()
	if l.LibCUDA == "" {
		return l
	}
	if real, err := h.Files.EvalSymlinks(l.LibCUDA); err == nil {
		l.Real = real
		l.Version = libraryVersion(h, real, l.Module)
	}
	return l
}

// embedded finds driver versions among a library's texts. libcuda holds its own, which the kernel module compares with its version.
var embedded = lazyregexp.New(`^\d{3,4}\.\d{1,3}(?:\.\d{1,3})?$`)

// libraryVersion reads a driver library's version in the library itself, because containers and packages call it as they like. Where the
// module's is in it, it is that; else that of the file's name, or the newest that is in it.
func libraryVersion(h buildenv.Host, path, module string) string {
	newest := ""
	if m := versionOf.FindStringSubmatch(h.Base(path)); m != nil {
		newest = m[1]
	}
	named := newest != ""
	f, err := h.Files.Open(path)
	if err != nil {
		return newest
	}
	defer f.Close()
	pieces, ofModule := 0, false
	fi, err := f.Stat()
	if err != nil {
		return newest
	}
	err = buildenv.Pieces(io.LimitReader(f, fi.Size()), 64, func(text []byte) bool {
		pieces++
		ofModule = module != "" && bytes.Contains(text, []byte(module))
		_, text, _ = bytes.Cut(text, []byte{0}) // a version has a zero byte on both sides
		text = text[:bytes.LastIndexByte(text, 0)+1]
		for part := range bytes.SplitSeq(text, []byte{0}) {
			if named || len(part) < 5 || part[0] < '0' || part[0] > '9' || !embedded.Match(part) {
				continue // most are no text, and a regular expression is slow
			}
			if v := string(part); slices.Compare(gpu.Numbers(v), gpu.Numbers(newest)) > 0 {
				newest = v
			}
		}
		return ofModule || pieces == 1024 // a gigabyte
	})
	if err == nil && ofModule {
		return module
	}
	return newest
}

// completeWindows does so on Windows. Files that carry no valid signature are only left out of Signed.
func completeWindows(h buildenv.Host, l Loaded, system string, signature func(string) error) Loaded {
	l.System = system
	if real, err := h.Files.EvalSymlinks(l.LibCUDA); err == nil && l.LibCUDA != "" {
		l.Real = real
	}
	for _, f := range append([]string{l.LibCUDA}, l.Drivers...) {
		if f != "" && !holdsPath(h, l.Signed, f) && signature(f) == nil {
			l.Signed = append(l.Signed, f)
		}
	}
	return l
}

func holdsPath(h buildenv.Host, list []string, path string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return h.SamePath(s, path) })
}

// RealDriver returns the predicate that the shipped gpubuild uses: is this the driver of a real GPU? The string says why not, or what
// the user should know of a driver that is real.
//
// On Linux a real driver has a device of NVIDIA's open, which no library can do without the kernel module: the probe and the control list
// only character devices with NVIDIA's major number. And its library carries a driver's version: the loaded kernel module's, where that
// can be read, or a newer one (forward compatibility; an older one the module refuses). Where the file lies and what it is called does not
// matter: containers mount it as they like. What the library computes is the control's to find out.
//
// On Windows every library in the process that offers the driver's functions is System32's nvcuda.dll, or the nvcuda64.dll of the driver
// store that it loads, and Windows holds their signatures valid.
func RealDriver(h buildenv.Host) func(Loaded) (bool, string) {
	return func(l Loaded) (bool, string) {
		if l.Backend == probe.Vulkan {
			return realVulkan(l)
		}
		switch h.OS {
		case buildenv.Linux:
			return realLinux(h, l)
		case buildenv.Windows:
			return realWindows(h, l)
		}
		return false, "a driver on " + h.OS + " cannot be checked yet"
	}
}

var nvidiaNode = lazyregexp.New(`^/dev/nvidia(ctl|\d+)$`)

func realLinux(h buildenv.Host, l Loaded) (bool, string) {
	for _, d := range l.Drivers {
		if l.Real == "" || h.Real(d) != l.Real && !ofWSL([]string{l.Real, d}) {
			return false, fmt.Sprintf("this driver is a stand-in, or a second one is loaded: both %s and %s are",
				cmp.Or(l.LibCUDA, "none"), d)
		}
	}
	tegra := hasNode(l.Nodes, "/dev/nvhost") || hasNode(l.Nodes, "/dev/nvmap") || hasNode(l.Nodes, "/dev/nvgpu")
	switch {
	case l.LibCUDA == "":
		return false, "which driver library it loaded is not known"
	case l.Real == "":
		return false, fmt.Sprintf("this driver is a stand-in: %s is not a file any more", l.LibCUDA)
	case l.WSL && !h.Below(l.Real, "/usr/lib/wsl"):
		return false, fmt.Sprintf("this driver is a stand-in: %s is not below /usr/lib/wsl", l.Real)
	case l.WSL && !hasNode(l.Nodes, "/dev/dxg"):
		return false, fmt.Sprintf("this driver is a stand-in, or its device could not be seen: with %s /dev/dxg is not open", l.Real)
	case l.WSL:
		return true, "WSL2: untested on hardware"
	case l.Version == "":
		return false, fmt.Sprintf("this driver is a stand-in: %s carries no driver version", l.Real)
	case !tegra && !slices.ContainsFunc(l.Nodes, nvidiaNode.MatchString):
		return false, fmt.Sprintf("this driver is a stand-in, or its device could not be seen: with %s no NVIDIA device is open", l.Real)
	case l.Module == "" && tegra:
		return true, "Jetson: untested on hardware"
	case l.Module == "":
		return true, fmt.Sprintf("driver %s, whose kernel module cannot be seen here", l.Version)
	case l.Version == l.Module:
		return true, ""
	case slices.Compare(gpu.Numbers(l.Version), gpu.Numbers(l.Module)) > 0:
		return true, fmt.Sprintf("forward-compatibility driver %s on kernel module %s", l.Version, l.Module)
	}
	return false, fmt.Sprintf("this driver is a stand-in: %s is version %s, the kernel module %s", l.Real, l.Version, l.Module)
}

func realWindows(h buildenv.Host, l Loaded) (bool, string) {
	switch {
	case l.LibCUDA == "":
		return false, "which driver library it loaded is not known"
	case l.System == "":
		return false, "the directory of Windows' own libraries is not known"
	}
	for _, f := range append([]string{l.LibCUDA}, l.Drivers...) {
		switch {
		case h.SamePath(f, h.Join(l.System, "nvcuda.dll")):
		case strings.EqualFold(h.Base(f), "nvcuda64.dll") && h.Below(f, h.Join(l.System, "DriverStore", "FileRepository")):
		case h.SamePath(f, l.LibCUDA):
			return false, fmt.Sprintf("this driver is a stand-in: %s is not %s", f, h.Join(l.System, "nvcuda.dll"))
		default:
			return false, fmt.Sprintf("this driver is a stand-in, or a second one is loaded: both %s and %s are", l.LibCUDA, f)
		}
		if !holdsPath(h, l.Signed, f) {
			return false, fmt.Sprintf("whether this driver is real is not known: %s carries no signature that Windows holds valid "+
				"(signed by a catalog: not checked)", f)
		}
	}
	return true, "Windows: untested on hardware"
}

func hasNode(nodes []string, prefix string) bool {
	return slices.ContainsFunc(nodes, func(n string) bool { return strings.HasPrefix(n, prefix) })
}

var gpuNode = lazyregexp.New(`^(nvidia(ctl$|\d)|dxg$|kfd$|nvmap$|nvhost-.*gpu)`)

// DeviceNodes lists the device nodes through which a GPU is used on this machine, by any API: NVIDIA's own (CUDA, OpenCL), WSL2's, those
// of Jetson, and the kernel's (Vulkan, OpenGL, AMD's and Intel's). Nobody uses a GPU without opening one of them. Source: NVIDIA's kernel
// modules, linux/drivers/gpu/drm, linux/drivers/hv/dxgkrnl.
func DeviceNodes(h buildenv.Host) []string {
	var out []string
	list := func(dir string, wanted func(name string) bool) {
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			if !e.IsDir() && wanted(e.Name()) {
				out = append(out, dir+"/"+e.Name())
			}
		}
	}
	list("/dev", gpuNode.MatchString)
	list("/dev/dri", func(n string) bool { return strings.HasPrefix(n, "renderD") })
	list("/dev/nvgpu/igpu0", func(string) bool { return true })
	return out
}

// HasNode reports whether this machine has a device node that CUDA uses.
func HasNode(h buildenv.Host) bool {
	return slices.ContainsFunc(DeviceNodes(h), func(n string) bool { return !ofAnother(probe.CUDA, n) })
}

// ofAnother reports whether a node is not the backend's: a program that opened one used, or asked for, another API of a GPU.
func ofAnother(b probe.Backend, node string) bool {
	return b == probe.CUDA && strings.HasPrefix(node, "/dev/dri/") || node == "/dev/kfd"
}
