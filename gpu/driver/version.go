package driver

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Where Linux says what the kernel has loaded, and where WSL2 has the Windows driver's libraries.
const (
	moduleDir     = "/sys/module/nvidia"
	moduleVersion = "/sys/module/nvidia/version"
	procDir       = "/proc/driver/nvidia"
	procVersion   = "/proc/driver/nvidia/version"
	wslDir        = "/usr/lib/wsl/lib"
)

// Version returns the driver as the kernel's own files describe it, without a process; the zero value when they show none. On WSL2 they
// show only that there is one: its version is then empty.
func Version(h buildenv.Host) gpu.Driver {
	if h.OS != buildenv.Linux {
		return gpu.Driver{}
	}
	for _, path := range []string{moduleVersion, procVersion} {
		data, err := h.ReadFile(path, 64<<10)
		if err != nil {
			continue
		}
		if v := versionIn(string(data)); v != "" {
			return gpu.Driver{Version: v, CUDA: Supports(h.OS, v), Origin: path}
		}
	}
	if h.IsFile(h.Join(wslDir, "libcuda.so.1")) || h.IsFile(h.Join(wslDir, "libnvidia-ml.so.1")) {
		return gpu.Driver{Origin: wslDir}
	}
	return gpu.Driver{}
}

var versionForm = lazyregexp.New(`(?:^|[\s])(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)(?:$|\s)`)

// versionIn finds a driver's version in a line such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun …".
func versionIn(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if m := versionForm.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// firstDrivers lists the driver that came with the first release of each CUDA version, and so the oldest one that supports it.
// Source: NVIDIA CUDA release notes, tables 2 and 3 (13.4: unbundled, its driver branch is R615); from 13.1 on the Windows driver is
// unbundled too, and 580 is the floor of 13.x there.
var firstDrivers = []struct {
	cuda           gpu.Version
	linux, windows string
}{
	{gpu.Version{Major: 11, Minor: 0}, "450.36.06", "451.22"},
	{gpu.Version{Major: 11, Minor: 1}, "455.23", "456.38"},
	{gpu.Version{Major: 11, Minor: 2}, "460.27.03", "460.82"},
	{gpu.Version{Major: 11, Minor: 3}, "465.19.01", "465.89"},
	{gpu.Version{Major: 11, Minor: 4}, "470.42.01", "471.11"},
	{gpu.Version{Major: 11, Minor: 5}, "495.29.05", "496.04"},
	{gpu.Version{Major: 11, Minor: 6}, "510.39.01", "511.23"},
	{gpu.Version{Major: 11, Minor: 7}, "515.43.04", "516.01"},
	{gpu.Version{Major: 11, Minor: 8}, "520.61.05", "522.06"},
	{gpu.Version{Major: 12, Minor: 0}, "525.60.13", "527.41"},
	{gpu.Version{Major: 12, Minor: 1}, "530.30.02", "531.14"},
	{gpu.Version{Major: 12, Minor: 2}, "535.54.03", "536.25"},
	{gpu.Version{Major: 12, Minor: 3}, "545.23.06", "545.84"},
	{gpu.Version{Major: 12, Minor: 4}, "550.54.14", "551.61"},
	{gpu.Version{Major: 12, Minor: 5}, "555.42.02", "555.85"},
	{gpu.Version{Major: 12, Minor: 6}, "560.28.03", "560.76"},
	{gpu.Version{Major: 12, Minor: 8}, "570.26", "570.65"},
	{gpu.Version{Major: 12, Minor: 9}, "575.51.03", "576.02"},
	{gpu.Version{Major: 13, Minor: 0}, "580.65.06", "580"},
	{gpu.Version{Major: 13, Minor: 1}, "590.44.01", ""},
	{gpu.Version{Major: 13, Minor: 2}, "595.45.04", ""},
	{gpu.Version{Major: 13, Minor: 3}, "610.43.02", ""},
	{gpu.Version{Major: 13, Minor: 4}, "615", ""},
}

// The newest branches that the table speaks of. What newer ones support is not known, and must not be taken for less than it is.
const (
	lastLinux   = 616
	lastWindows = 581
)

// Supports returns the newest CUDA version that a driver's version is known to support; zero when it is not known.
func Supports(os, driver string) gpu.Version {
	v := gpu.Numbers(driver)
	last := lastLinux
	if os == buildenv.Windows {
		last = lastWindows
	}
	if v == nil || v[0] > last {
		return gpu.Version{}
	}
	var newest gpu.Version
	for _, row := range firstDrivers {
		floor := row.linux
		if os == buildenv.Windows {
			floor = row.windows
		}
		if floor != "" && slices.Compare(v, gpu.Numbers(floor)) >= 0 {
			newest = row.cuda
		}
	}
	return newest
}
