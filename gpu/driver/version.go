package driver

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/memo"
	"gpubuild/gpu"
)

// Where Linux says what the kernel has loaded, and where WSL2 has the Windows driver's libraries.
const (
	moduleDir     = "/sys/module/nvidia"
	moduleVersion = "/sys/module/nvidia/version"
	procDir       = "/proc/driver/nvidia"
	procVersion   = "/proc/driver/nvidia/version"
	wslDir        = "/usr/lib/wsl/lib"
	bootID        = "/proc/sys/kernel/random/boot_id"
)

// Kernel returns the driver as the kernel's own files describe it, without a process; the zero value when they show none. On WSL2 they
// show only that there is one: its version is then empty.
func Kernel(h buildenv.Host) gpu.Driver {
	if h.OS != buildenv.Linux {
		return gpu.Driver{}
	}
	for _, path := range []string{moduleVersion, procVersion} {
		data, err := h.ReadFile(path, buildenv.System)
		if err != nil {
			continue
		}
		// such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun …"
		line, _, _ := strings.Cut(string(data), "\n")
		if m := versionForm.FindStringSubmatch(line); m != nil {
			cuda, atLeast := Supports(buildenv.Linux, m[1])
			return gpu.Driver{Version: m[1], CUDA: cuda, AtLeast: atLeast, Origin: path}
		}
	}
	if h.IsFile(h.Join(wslDir, "libcuda.so.1")) || h.IsFile(h.Join(wslDir, "libnvidia-ml.so.1")) {
		return gpu.Driver{Origin: wslDir}
	}
	return gpu.Driver{}
}

var versionForm = lazyregexp.New(`(?:^|[\s])(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)(?:$|\s)`)

// firstDrivers lists the driver that came with the first release of each CUDA version, and so the oldest one that supports it.
// Source: NVIDIA CUDA release notes, tables 2 and 3 (13.4: unbundled, its driver branch is R615), and for 12.7, of which there was no
// toolkit, the PTX ISA's release notes; from 13.1 on the Windows driver is unbundled too, and 580 is the floor of 13.x there.
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
	{gpu.Version{Major: 12, Minor: 7}, "565", "565"},
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

// tableOf is the operating system whose driver numbers a machine has: WSL2 has Windows' driver, whatever its kernel is called.
func tableOf(h buildenv.Host) string {
	if h.IsWSL() || Kernel(h).Origin == wslDir {
		return buildenv.Windows
	}
	return h.OS
}

// Supports returns the newest CUDA version that a driver's version is known to support. Of a branch that is newer than the table it is not
// known: there is only a version that the driver supports at least, which refuses nothing.
// A branch alone, such as 570, is its newest driver.
func Supports(os, driver string) (newest, atLeast gpu.Version) {
	v, last := gpu.Numbers(driver), lastLinux
	switch len(v) {
	case 0:
		return newest, atLeast
	case 1:
		v = append(v, math.MaxInt)
	}
	if os == buildenv.Windows {
		last = lastWindows
	}
	for _, row := range firstDrivers {
		floor := row.linux
		if os == buildenv.Windows {
			floor = row.windows
		}
		if floor != "" && slices.Compare(v, gpu.Numbers(floor)) >= 0 {
			newest = row.cuda
		}
	}
	if v[0] > last {
		return gpu.Version{}, newest
	}
	return newest, gpu.Version{}
}

// Has reports whether a driver has what a CUDA version brought. A driver that is newer than the table has all that is in the table: drivers
// only gain.
func Has(os, driver string, cuda gpu.Version) gpu.Answer {
	newest, atLeast := Supports(os, driver)
	switch beyond := newest.IsZero() && !atLeast.IsZero(); {
	case gpu.Numbers(driver) == nil, max(newest.Compare(cuda), atLeast.Compare(cuda)) < 0 && beyond:
		return gpu.Unknown
	case max(newest.Compare(cuda), atLeast.Compare(cuda)) < 0:
		return gpu.No
	case cuda == gpu.Version{Major: 12, Minor: 7} && newest == cuda:
		return gpu.Unknown // no toolkit 12.7 was published, so nobody measured its driver
	}
	return gpu.Yes
}

// Newest is the newest version of a toolkit whose PTX a driver is known to translate.
func Newest(os, driver string) gpu.Version {
	newest, atLeast := Supports(os, driver)
	if newest.IsZero() {
		newest = atLeast
	}
	if newest == (gpu.Version{Major: 12, Minor: 7}) { // no toolkit of it was published
		newest.Minor--
	}
	return newest
}

// First is the oldest driver that is certain to have what a CUDA version brought; empty: none is known.
func First(os string, cuda gpu.Version) string {
	for _, row := range firstDrivers {
		floor := row.linux
		if os == buildenv.Windows {
			floor = row.windows
		}
		if row.cuda.Compare(cuda) >= 0 && floor != "" && row.cuda != (gpu.Version{Major: 12, Minor: 7}) {
			return floor
		}
	}
	return ""
}

// memoKind names the entries of keep; the number changes whenever what is kept does.
const memoKind = "driver-1"

// Version returns the driver that is here, of which everybody takes the CUDA version. Where the kernel's files do not say it (Windows,
// WSL2, a sandbox without them, a branch that is newer than our table), the driver is asked once and remembered as long as its library is the same file.
func (m Machine) Version(ctx context.Context) gpu.Driver {
	d := Kernel(m.Host)
	if !d.CUDA.IsZero() {
		return d
	}
	if m.Memo != nil {
		var kept gpu.Driver
		if m.Memo.GetJSON(memoKind, memo.Key(m.library()), &kept) {
			return kept
		}
	}
	if asked, _, _ := m.Inventory(ctx); asked.Version != "" {
		return asked
	}
	return d
}

// unasked is the driver where none of those that could be asked answers: on Windows that of which nvcuda.dll says in its VS_FIXEDFILEINFO to
// be. The last five digits are the driver's: 31.0.15.2206 is 522.06.
func (m Machine) unasked(kernel gpu.Driver) gpu.Driver {
	if m.Host.OS != buildenv.Windows {
		return kernel
	}
	data, err := m.Host.ReadFile(m.library(), buildenv.Kind{Most: 256 << 20})
	at := bytes.Index(data, []byte("\xbd\x04\xef\xfe\x00\x00\x01\x00"))
	if err != nil || at < 0 || len(data) < at+16 {
		return kernel
	}
	low := binary.LittleEndian.Uint32(data[at+12:])
	digits := low>>16%10*10000 + low&0xffff
	version := fmt.Sprintf("%d.%02d", digits/100, digits%100)
	cuda, atLeast := Supports(buildenv.Windows, version)
	return gpu.Driver{Version: version, CUDA: cuda, AtLeast: atLeast, Origin: "nvcuda.dll"}
}

// library is the file that changes with the driver.
func (m Machine) library() string {
	switch {
	case m.Host.OS == buildenv.Windows:
		return m.Host.Join(systemDir(m.Host), "nvcuda.dll")
	case tableOf(m.Host) == buildenv.Windows:
		return m.Host.Join(wslDir, "libcuda.so.1")
	case !m.Host.IsFile(moduleVersion):
		smi, _ := findSMI(m.Host)
		return smi
	}
	return moduleVersion
}

func (m Machine) keep(d gpu.Driver) {
	library := m.library()
	if d.Version == "" || m.Memo == nil || !m.Host.IsFile(library) {
		return
	}
	if kept := (gpu.Driver{}); !m.Memo.GetJSON(memoKind, memo.Key(library), &kept) || kept != d {
		_ = m.Memo.PutJSON(memoKind, memo.Key(library), m.Memo.Watch(library), d) // without it the driver is asked again
	}
}
