package verify

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu/probe"
)

// Drivers that compute on the processor: VkDriverId in vulkan_core.h.
const (
	swiftShader = 10
	llvmpipe    = 13
)

// Software returns the name of the rasteriser if a device of Vulkan's is one, which computes on the processor: by its type, the driver's
// number, or the name, which a virtual GPU passes on from its host. Otherwise it returns nothing.
func Software(d probe.Device) string {
	name := strings.ToLower(d.Name)
	switch {
	case d.DriverID == llvmpipe, strings.Contains(name, "llvmpipe"), strings.Contains(name, "lavapipe"):
		return "llvmpipe"
	case d.DriverID == swiftShader, strings.Contains(name, "swiftshader"):
		return "SwiftShader"
	case strings.Contains(name, "basic render driver"):
		return "WARP"
	case strings.Contains(name, "softpipe"), d.Type == "cpu":
		return d.Name
	}
	return ""
}

// wgpusOwn are wgpu-core's own pipelines by the workgroup and the shape of their shaders: the checks of an indirect dispatch's and an
// indirect draw's arguments, and the scaling of timestamps (wgpu-core 25 to 30, src/indirect_validation and
// src/timestamp_normalization). They have no label, and their entry point is main.
var wgpusOwn = []struct {
	block [3]int
	shape string
	sure  bool // no program's own shader is like that: it would take a set of bindings for each buffer
}{
	{[3]int{1, 1, 1}, "push 1, buffers 0.0 1.0", true},
	{[3]int{64, 1, 1}, "push 2, buffers 0.0 1.0 2.0", true},
	{[3]int{64, 1, 1}, "push 2, buffers 0.0", false},
}

// noUse is what was dispatched through Vulkan and is no use of a GPU by the program.
type noUse struct {
	software uint64 // dispatches on a software rasteriser
	by       string // its name
	own      uint64 // dispatches of wgpu's own pipelines
	unsure   uint64 // dispatches that were indirect or conditional: perhaps nothing ran; and those of pipelines that may be wgpu's own
	other    string // a function of Vulkan by which it perhaps ran something else than a pipeline's dispatch
}

// add notes a kernel if it is one of those.
func (a *noUse) add(p Process, k probe.Kernel, d probe.Device) bool {
	if by := Software(d); by != "" {
		a.software += k.Count
		a.by = by
		return true
	}
	if k.Unsure {
		a.unsure += k.Count
		if strings.HasPrefix(k.Name, "vkCmd") { // OTHER_WORK of layer.c
			a.other = k.Name
		}
		return true
	}
	if p.Engine != "wgpu-hal" || k.Name != "main" {
		return false
	}
	for _, o := range wgpusOwn {
		switch {
		case o.block != k.Block || o.shape != k.Shape:
		case o.sure:
			a.own += k.Count
			return true
		default:
			a.unsure += k.Count
			return true
		}
	}
	return false
}

// beyondVulkan names a device node whose opening Vulkan does not explain. Its drivers open a GPU's nodes with every instance, the
// control's, too.
func (e Evidence) beyondVulkan() string {
	by := e.Control.onSoftware()
	for _, n := range e.Watch.Nodes {
		switch {
		case e.Backend != probe.Vulkan:
		case by != "":
			return n + " was opened while it ran, and Vulkan has only " + by + " here: by another API of the GPU, or by another program"
		case !slices.Contains(e.Control.Nodes, n):
			return n + " was opened while it ran, and not while the control ran: by another API of the GPU, or by another program"
		}
	}
	return ""
}

// Adapter names the Vulkan device that the program computed on, or else the one that it opened, or else the control's, with its type and
// driver; empty of CUDA, or if there is no device.
func (e Evidence) Adapter() string {
	devices := e.Control.Loaded.Devices
	for _, p := range e.Processes {
		computed := func(d probe.Device) bool { return len(p.Kernels) > 0 && d.Ordinal == p.Kernels[0].Device }
		if i := slices.IndexFunc(p.Devices, computed); p.Self && len(p.Devices) > 0 {
			devices = p.Devices[max(i, 0):]
		}
	}
	if e.Backend != probe.Vulkan || len(devices) == 0 {
		return ""
	}
	d := devices[0]
	driver := cmp.Or(strings.TrimSpace(d.Driver+" "+d.DriverInfo), "unknown driver")
	return fmt.Sprintf("%s (%s), %s, Vulkan %s", d.Name, d.Type, driver, d.API)
}

// onSoftware returns the rasteriser that the control ran on, if it did: there is no other device here that Vulkan could use.
func (c Control) onSoftware() string {
	if len(c.Loaded.Devices) == 0 {
		return ""
	}
	return Software(c.Loaded.Devices[0])
}

// realVulkan reports whether the devices that a process opened are real: a rasteriser is what it says, and any other driver has a GPU's
// device node open, which no library can do without a kernel module.
func realVulkan(l Loaded) (bool, string) {
	for _, d := range l.Devices {
		switch {
		case Software(d) != "":
		case !slices.Contains([]string{"discrete", "integrated", "virtual"}, d.Type):
			return false, fmt.Sprintf("what kind of device %s is, its driver does not say (%s)", d.Name, cmp.Or(d.Type, "none"))
		case len(l.Nodes) == 0:
			return false, fmt.Sprintf("the driver of %s is a stand-in, or its device could not be seen: no GPU's device node is open",
				d.Name)
		}
	}
	return true, ""
}

// completeVulkan adds the driver's version to what a process said.
func completeVulkan(l Loaded) Loaded {
	for _, d := range l.Devices {
		if l.Version == "" || Software(d) == "" {
			l.Version = strings.TrimSpace(d.Driver+" "+d.DriverInfo) + ", Vulkan " + d.API
		}
	}
	return l
}

// layerDirs are where the Vulkan loader looks for layers by default, for a loader that does not know VK_ADD_LAYER_PATH.
// Source: LoaderLayerInterface.md, "Linux Layer Discovery".
func layerDirs(h buildenv.Host) []string {
	dirs := []string{"/usr/local/etc/vulkan/explicit_layer.d", "/etc/vulkan/explicit_layer.d", "/usr/local/share/vulkan/explicit_layer.d",
		"/usr/share/vulkan/explicit_layer.d"}
	if h.Home != "" {
		dirs = append(dirs, h.Join(h.Home, ".local/share/vulkan/explicit_layer.d"))
	}
	return dirs
}

// layered is an environment with our layer in it, next to the driver: layers that the user set come before it.
func layered(env buildenv.Env, library string, replaced []string) buildenv.Env {
	dir := filepath.Dir(library)
	before := func(name string, entries ...string) {
		if old := env.Get(name); old != "" {
			entries = append(entries, old)
		}
		env = env.Set(name, strings.Join(entries, ":"))
	}
	before(probe.AddLayersVariable, dir)
	switch {
	case env.Get(probe.LayerPathVariable) != "": // the loader then ignores the other variable
		before(probe.LayerPathVariable, dir)
	case replaced != nil:
		before(probe.LayerPathVariable, append([]string{dir}, replaced...)...)
	}
	layers := probe.LayerName
	if old := env.Get(probe.LayersVariable); old != "" {
		layers = old + ":" + layers
	}
	return env.Set(probe.LayersVariable, layers)
}

// VulkanDevices asks the control which devices Vulkan has on this machine, with their types; without any it says why.
func VulkanDevices(ctx context.Context, h buildenv.Host, run buildenv.Runner, p probe.Probe) (devices []probe.Device, why string) {
	l, _, err := ask(ctx, h, run, p)
	if err != nil {
		return nil, fmt.Sprintf("the control gave no answer: %v", err)
	}
	return l.Devices, strings.TrimPrefix(l.Step+": "+l.Why, "load: ")
}
