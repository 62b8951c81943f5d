package msvc

import (
	"cmp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// Kit is one version of the Windows SDK, or of the C run-time library (UCRT) that comes with it.
type Kit struct {
	Root    string `json:"root"`    // such as C:\Program Files (x86)\Windows Kits\10
	Version string `json:"version"` // such as 10.0.26100.0
	Origin  string `json:"origin"`
	Problem string `json:"problem,omitempty"` // what is missing
}

// Best is the first kit that is complete; nil when none is.
func Best(kits []Kit) *Kit {
	if i := slices.IndexFunc(kits, func(k Kit) bool { return k.Problem == "" }); i >= 0 {
		return &kits[i]
	}
	return nil
}

// kitRoots lists the roots of Windows Kits. Order of the registry: winsdk.bat of Visual Studio.
func (f *finder) kitRoots() (roots, origins []string) {
	h := f.h
	note := func(dir, origin string) {
		if dir == "" || !h.IsAbs(dir) {
			return
		}
		dir = h.Clean(dir)
		for _, r := range roots {
			if h.SamePath(h.Real(r), h.Real(dir)) {
				return
			}
		}
		roots, origins = append(roots, dir), append(origins, origin)
	}
	note(h.Env.Get("WindowsSdkDir"), "WindowsSdkDir")
	// All that the setup.bat of an unpacked toolset sets (mmozeiko's portable-msvc.py and its kin).
	if bin := h.Env.Get("WindowsSdkBinPath"); h.IsAbs(bin) {
		note(h.Dir(h.Clean(bin)), "WindowsSdkBinPath")
	}
	note(h.Env.Get("UniversalCRTSdkDir"), "UniversalCRTSdkDir")
	for _, i := range f.instances { // which unpack it with the toolset
		if kits := h.Join(i.Path, "Windows Kits", "10"); h.IsDir(kits) {
			note(kits, i.Path)
		}
	}
	for _, k := range [][]string{
		{"InstallationFolder", `HKLM\SOFTWARE\Microsoft\Microsoft SDKs\Windows\v10.0`, `HKCU\SOFTWARE\Microsoft\Microsoft SDKs\Windows\v10.0`},
		{"KitsRoot10", `HKLM\SOFTWARE\Microsoft\Windows Kits\Installed Roots`},
	} {
		for _, view := range []int{32, 64} {
			for _, key := range k[1:] {
				note(f.registry(key, k[0], view), key)
			}
		}
	}
	for _, pf := range slices.Backward(programFiles(h)) {
		note(h.Join(pf, "Windows Kits", "10"), "a usual place")
	}
	return roots, origins
}

// kits lists the SDKs and UCRTs of a machine, complete ones first, and of these what WindowsSDKVersion names, then the newest by number:
// 10.0.9 is older than 10.0.10, which sorting as text gets wrong.
func (f *finder) kits() (sdks, ucrts []Kit) {
	h, target := f.h, f.target
	roots, origins := f.kitRoots()
	for n, root := range roots {
		for _, v := range h.Names(h.Join(root, "Include")) {
			if !strings.HasPrefix(v, "10.") || gpu.Numbers(v) == nil {
				continue
			}
			k := Kit{Root: root, Version: v, Origin: origins[n]}
			inc, lib := h.Join(root, "Include", v), h.Join(root, "Lib", v)
			sdk, ucrt := k, k
			sdk.Problem = lacks(h, h.Join(inc, "um", "Windows.h"), h.Join(inc, "um", "winsdkver.h"),
				h.Join(inc, "shared", "winapifamily.h"), h.Join(lib, "um", target, "kernel32.lib"))
			ucrt.Problem = lacks(h, h.Join(inc, "ucrt", "corecrt.h"), h.Join(lib, "ucrt", target, "ucrt.lib"))
			sdks, ucrts = append(sdks, sdk), append(ucrts, ucrt)
		}
	}
	asked := strings.Trim(h.Env.Get("WindowsSDKVersion"), `\ `)
	rank := map[bool]int{true: 1}
	order := func(a, b Kit) int {
		return cmp.Or(rank[a.Problem != ""]-rank[b.Problem != ""], rank[b.Version == asked]-rank[a.Version == asked],
			slices.Compare(gpu.Numbers(b.Version), gpu.Numbers(a.Version)))
	}
	slices.SortStableFunc(sdks, order)
	slices.SortStableFunc(ucrts, order)
	return sdks, ucrts
}

func lacks(h buildenv.Host, files ...string) string {
	if i := slices.IndexFunc(files, func(p string) bool { return !h.IsFile(p) }); i >= 0 {
		return files[i] + " is missing"
	}
	return ""
}
