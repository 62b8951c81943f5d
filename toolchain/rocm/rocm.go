// Package rocm finds AMD's ROCm and its HIP SDK for Windows. It only finds: gpubuild builds with CUDA, and for crates that want ROCm it
// says which one is there and sets the variables that their build scripts read. Nothing is run, neither hipconfig nor rocminfo.
package rocm

import (
	"cmp"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Install is one ROCm. Paths are absolute; a part that is not there is empty.
type Install struct {
	Root    string `json:"root"`              // what ROCM_PATH and HIP_PATH are to be
	Real    string `json:"real"`              // without links
	Version string `json:"version,omitempty"` // of HIP, 6.2.41133; of ROCm where only that is known
	Hipcc   string `json:"hipcc,omitempty"`   // the compiler driver
	Include string `json:"include,omitempty"` // directory that holds hip/
	System  bool   `json:"system,omitempty"`  // a distribution's own, below /usr, where compilers look by themselves
	Origin  string `json:"origin"`
	Named   bool   `json:"named,omitempty"`   // a variable of the user names it
	Problem string `json:"problem,omitempty"` // why it is of no use
}

func (i Install) String() string {
	v := cmp.Or(i.Version, "of unknown version")
	return "ROCm " + v + " in " + i.Root
}

// Variables lists the variables that name a root, in the order in which they count:
// PyTorch asks ROCM_HOME, then ROCM_PATH; cubecl-hip-sys and llama-cpp-sys-2 ROCM_PATH and
// HIP_PATH. On Windows the HIP SDK's installer sets HIP_PATH with a backslash at the end.
func Variables() []string { return []string{"ROCM_HOME", "ROCM_PATH", "HIP_PATH"} }

// Find lists every ROCm of a machine: what the variables name, hipcc's on PATH,
// and the usual places. A tree with several names is listed once.
func Find(h buildenv.Host) []Install {
	f := finder{h: h}
	for _, v := range Variables() {
		if dir := h.Env.Get(v); dir != "" {
			f.add(h.Abs(dir), v, true)
		}
	}
	if p, err := h.LookPath("hipcc"); err == nil { // /opt/rocm/bin/hipcc or /usr/bin/hipcc
		f.add(h.Dir(h.Dir(p)), "hipcc on PATH", false)
	}
	switch h.OS {
	case buildenv.Linux:
		f.add("/opt/rocm", "a usual place", false)
		f.versioned("/opt", "rocm-")
		if h.IsFile("/usr/bin/hipcc") {
			f.add("/usr", "a usual place", false)
		}
	case buildenv.Windows:
		base := cmp.Or(h.Env.Get("ProgramFiles"), `C:\Program Files`)
		f.versioned(h.Join(base, "AMD", "ROCm"), "")
	}
	return f.found
}

type finder struct {
	h     buildenv.Host
	found []Install
}

// versioned adds a directory's subdirectories that are a prefix and a version, the newest first.
func (f *finder) versioned(dir, prefix string) {
	for _, n := range gpu.Versioned(f.h.Names(dir), prefix) {
		f.add(f.h.Join(dir, n), "a usual place", false)
	}
}

func (f *finder) add(root, origin string, named bool) {
	h := f.h
	root = h.Clean(root)
	i := Install{Root: root, Real: h.Real(root), Origin: origin, Named: named, System: root == "/usr"}
	for n, o := range f.found {
		if h.SamePath(o.Real, i.Real) {
			f.found[n].Named = o.Named || named
			if !strings.Contains(o.Origin, origin) {
				f.found[n].Origin = o.Origin + ", " + origin
			}
			return
		}
	}
	i.Hipcc = h.ProgramIn(h.Join(root, "bin"), "hipcc")
	if d := h.Join(root, "include"); h.IsFile(h.Join(d, "hip", "hip_runtime.h")) {
		i.Include = d
	}
	i.Version = f.version(root)
	switch {
	case i.Hipcc == "" && i.Include == "" && !named:
		return
	case i.Hipcc == "" && i.Include == "":
		i.Problem = "there is neither bin/hipcc nor include/hip/hip_runtime.h"
	case i.Include == "":
		i.Problem = "its headers are missing: include/hip/hip_runtime.h"
	}
	f.found = append(f.found, i)
}

var (
	hip  = lazyregexp.New(`(?m)^(?:\s*#\s*define\s+)?HIP_VERSION_(MAJOR|MINOR|PATCH)[\s=]+(\d{1,9})\b`)
	info = lazyregexp.New(`^\s*(\d+\.\d+(?:\.\d+)*)`)
)

// version reads include/hip/hip_version.h; where it is missing share/hip/version or bin/.hipVersion, from which hipconfig reads the version
// without headers; then .info/version of ROCm itself. Source: ROCm/HIP hip_version.h.in and bin/hipconfig.pl; Debian's hipcc package keeps
// share/hip/version.
func (f *finder) version(root string) string {
	h := f.h
	for _, file := range []string{
		h.Join(root, "include", "hip", "hip_version.h"), h.Join(root, "share", "hip", "version"), h.Join(root, "bin", ".hipVersion"),
	} {
		data, _ := h.ReadFile(file, buildenv.Note) // what cannot be read says nothing
		n := map[string]string{}
		for _, m := range hip.FindAllSubmatch(data, -1) {
			n[string(m[1])] = string(m[2])
		}
		if len(n) == 3 {
			return n["MAJOR"] + "." + n["MINOR"] + "." + n["PATCH"]
		}
	}
	data, _ := h.ReadFile(h.Join(root, ".info", "version"), buildenv.Note)
	if m := info.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}
