package verify

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu/probe"
)

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
	list("/dev", func(n string) bool {
		rest, nvidia := strings.CutPrefix(n, "nvidia")
		return nvidia && (rest == "ctl" || rest != "" && isDigit(rest[0])) || n == "dxg" || n == "kfd" || n == "nvmap" ||
			strings.HasPrefix(n, "nvhost-") && strings.Contains(n, "gpu")
	})
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

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
