package msvc

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
)

// Variable is one variable with a single value.
type Variable struct{ Name, Value string }

// Settings are what builds read of what vcvarsall.bat would set for a toolset and an SDK: cl, link, rc and nvcc, the cc crate
// (find-msvc-tools), the cmake crate and CMake, setuptools. Only directories that exist are named. Source: vcvars.bat, winsdk.bat and
// VsDevCmd.bat of Visual Studio 2017 and 2019, public dumps of 2022 and 2026. VCPKG_ROOT would do harm: the vcpkg crate would leave the
// user's own vcpkg for Visual Studio's, which holds no libraries.
type Settings struct {
	Include, Lib []string
	Path         []string
	Last         []string // behind PATH: the instance's own cmake and ninja
	Scalars      []Variable
}

// Settings returns what a toolset means together with an SDK and a UCRT. A directory's trailing backslash is where vcvarsall has one.
func (t Toolset) Settings(h buildenv.Host, sdk, ucrt Kit) Settings {
	dirs := func(all ...string) []string {
		return slices.DeleteFunc(all, func(d string) bool { return !h.IsDir(d) })
	}
	vc, arch, sdkBin := h.Join(t.Install, "VC"), t.Target, h.Join(sdk.Root, "bin")
	cmake := h.Join(t.Install, "Common7", "IDE", "CommonExtensions", "Microsoft", "CMake")
	s := Settings{
		Include: dirs(
			h.Join(t.Dir, "include"),
			h.Join(t.Dir, "ATLMFC", "include"),
			h.Join(vc, "Auxiliary", "VS", "include"),
			h.Join(ucrt.Root, "Include", ucrt.Version, "ucrt"),
			h.Join(sdk.Root, "Include", sdk.Version, "um"),
			h.Join(sdk.Root, "Include", sdk.Version, "shared"),
			h.Join(sdk.Root, "Include", sdk.Version, "winrt"),
			h.Join(sdk.Root, "Include", sdk.Version, "cppwinrt"),
		),
		Lib: dirs(h.Join(t.Dir, "ATLMFC", "lib", arch), h.Join(t.Dir, "lib", arch),
			h.Join(ucrt.Root, "Lib", ucrt.Version, "ucrt", arch), h.Join(sdk.Root, "Lib", sdk.Version, "um", arch)),
		Path: dirs(t.Bin),
		Last: dirs(h.Join(cmake, "CMake", "bin"), h.Join(cmake, "Ninja")),
	}
	if t.Host != t.Target { // a cross compiler needs the DLLs of the native one: mspdb
		s.Path = append(s.Path, dirs(h.Join(h.Dir(t.Bin), t.Host))...)
	}
	s.Path = append(s.Path, dirs(h.Join(sdkBin, sdk.Version, t.Host), h.Join(sdkBin, t.Host))...)
	slash := func(dir string) string { return strings.TrimRight(dir, `\`) + `\` }
	s.Scalars = []Variable{
		{"VSINSTALLDIR", slash(t.Install)},
		{"VCINSTALLDIR", slash(vc)},
		{"VCToolsInstallDir", slash(t.Dir)},
		{"VCToolsVersion", t.Version},
		{"VSCMD_VER", vscmd(t.Release)}, // nvcc runs vcvars64.bat unless it is set; any value does
		{"VSCMD_ARG_HOST_ARCH", t.Host},
		{"VSCMD_ARG_TGT_ARCH", arch},
		{"WindowsSdkDir", slash(sdk.Root)},
		{"WindowsSDKVersion", sdk.Version + `\`},
		{"WindowsSDKLibVersion", sdk.Version + `\`},
		{"WindowsSdkVerBinPath", slash(h.Join(sdkBin, sdk.Version))},
		{"UniversalCRTSdkDir", slash(ucrt.Root)},
		{"UCRTVersion", ucrt.Version},
		// PyTorch's extensions and setuptools reject an open prompt (VSCMD_ARG_TGT_ARCH is set) unless this variable makes them use it
		// (pytorch/pytorch torch/utils/cpp_extension.py; `gpubuild exec -- pip install …`).
		{"DISTUTILS_USE_SDK", "1"},
	}
	if major := (Instance{Version: t.Release}).Major(); major > 0 {
		s.Scalars = append(s.Scalars, Variable{"VisualStudioVersion", strconv.Itoa(major) + ".0"})
	}
	return s
}

// vscmd is the version as developer prompts write it: 17.14.36015. One that is not known counts as 0.0.0.
func vscmd(release string) string {
	parts := strings.Split(release, ".")
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	parts[0] = cmp.Or(parts[0], "0")
	return strings.Join(parts[:3], ".")
}
