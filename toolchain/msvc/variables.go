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

// Settings are what vcvarsall.bat would set for a toolset and an SDK, as far as builds read it. Only directories that exist are named.
// Source: vcvars.bat, winsdk.bat and VsDevCmd.bat of Visual Studio 2017 and 2019, public dumps of 2022 and 2026.
//
// Of vcvarsall's list these are left out, because neither the cc crate (find-msvc-tools), nor the cmake crate and CMake, nor nvcc, cl,
// link and rc, nor a build script of the GPU crates reads them: Framework{Dir,Dir64,Version,Version64}, Framework40Version and the
// directory of .NET's at the end of LIBPATH (C++/CLI alone), IFCPATH (module interfaces of cl /std:c++latest, which nvcc does not know),
// WindowsSDK_ExecutablePath_*, CommandPromptType, __VSCMD_* and __DOTNET_* (its own book-keeping), and Platform, which msbuild would take
// for every project's. VCPKG_ROOT would do harm: the vcpkg crate reads it and would leave the user's own vcpkg for Visual Studio's, which
// holds no libraries. Setting DISTUTILS_USE_SDK it leaves to the user.
type Settings struct {
	Include, Lib, LibPath []string
	External              bool // EXTERNAL_INCLUDE gets the same list as INCLUDE, from Visual Studio 2022 on
	Path                  []string
	Comfort               []string // further directories before PATH, which a build can do without: msbuild, the IDE's tools
	Last                  []string // behind PATH: the instance's own cmake and ninja
	Scalars               []Variable
}

// Settings answers what a toolset means together with an SDK and a UCRT. A directory's trailing backslash is where vcvarsall has one.
func (t Toolset) Settings(h buildenv.Host, sdk, ucrt Kit) Settings {
	dirs := func(all ...string) (out []string) {
		for _, d := range all {
			if h.IsDir(d) {
				out = append(out, d)
			}
		}
		return out
	}
	vs, vc, arch := t.Install, h.Join(t.Install, "VC"), t.Target
	ide := h.Join(vs, "Common7", "IDE")
	cmake := h.Join(ide, "CommonExtensions", "Microsoft", "CMake")
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
		LibPath: dirs(
			h.Join(t.Dir, "ATLMFC", "lib", arch),
			h.Join(t.Dir, "lib", arch),
			h.Join(t.Dir, "lib", "x86", "store", "references"),
			h.Join(sdk.Root, "UnionMetadata", sdk.Version),
			h.Join(sdk.Root, "References", sdk.Version),
		),
		Path: dirs(t.Bin),
		Comfort: dirs(
			h.Join(vs, "MSBuild", "Current", "bin", "Roslyn"),
			h.Join(vs, "MSBuild", "Current", "Bin", "amd64"),
			h.Join(vs, "MSBuild", "Current", "Bin"),
			ide,
			h.Join(vs, "Common7", "Tools"),
		),
		Last: dirs(h.Join(cmake, "CMake", "bin"), h.Join(cmake, "Ninja")),
	}
	netfx := newest(h, h.Join(h.Dir(sdk.Root), "NETFXSDK"))
	if netfx != "" {
		s.Include = append(s.Include, dirs(h.Join(netfx, "include", "um"))...)
		s.Lib = append(s.Lib, dirs(h.Join(netfx, "lib", "um", arch))...)
	}
	major := Instance{Version: t.Release}.Major()
	s.External = major >= 17
	if t.Host != t.Target { // a cross compiler needs the DLLs of the native one: mspdb
		s.Path = append(s.Path, dirs(h.Join(h.Dir(t.Bin), t.Host))...)
	}
	sdkBin := h.Join(sdk.Root, "bin")
	s.Path = append(s.Path, dirs(h.Join(sdkBin, sdk.Version, t.Host), h.Join(sdkBin, t.Host))...)
	set := func(name, value string) { s.Scalars = append(s.Scalars, Variable{name, value}) }
	slash := func(dir string) string { return strings.TrimRight(dir, `\`) + `\` }
	set("VSINSTALLDIR", slash(vs))
	set("VCINSTALLDIR", slash(vc))
	set("VCToolsInstallDir", slash(t.Dir))
	set("VCToolsVersion", t.Version)
	if d := h.Join(ide, "VC"); h.IsDir(d) {
		set("VCIDEInstallDir", slash(d))
	}
	if h.IsDir(ide) {
		set("DevEnvDir", slash(ide))
	}
	// nvcc runs vcvars64.bat unless VSCMD_VER is set; any value does.
	set("VSCMD_VER", vscmd(t.Release))
	set("VSCMD_ARG_HOST_ARCH", t.Host)
	set("VSCMD_ARG_TGT_ARCH", arch)
	set("VSCMD_ARG_app_plat", "Desktop")
	if major > 0 {
		n := strconv.Itoa(major)
		set("VisualStudioVersion", n+".0")
		if d := h.Join(vs, "Common7", "Tools"); h.IsDir(d) {
			set("VS"+n+"0COMNTOOLS", slash(d))
		}
	}
	set("WindowsSdkDir", slash(sdk.Root))
	set("WindowsSDKVersion", sdk.Version+`\`)
	set("WindowsSDKLibVersion", sdk.Version+`\`)
	if h.IsDir(sdkBin) {
		set("WindowsSdkBinPath", slash(sdkBin))
		set("WindowsSdkVerBinPath", slash(h.Join(sdkBin, sdk.Version)))
	}
	if winmd := dirs(h.Join(sdk.Root, "UnionMetadata", sdk.Version), h.Join(sdk.Root, "References", sdk.Version)); winmd != nil {
		set("WindowsLibPath", h.JoinList(winmd...))
	}
	// What msbuild's projects, CMake's InstallRequiredSystemLibraries and setuptools read apart from the lists.
	if netfx != "" {
		set("NETFXSDKDir", slash(netfx))
	}
	for _, d := range dirs(h.Join(h.Dir(h.Dir(sdk.Root)), "Microsoft SDKs", "Windows Kits", "10", "ExtensionSDKs")) {
		set("ExtensionSdkDir", d)
	}
	if d := t.redist(h); d != "" {
		set("VCToolsRedistDir", slash(d))
	}
	if t.Host != t.Target && t.Host == "x64" {
		set("PreferredToolArchitecture", "x64")
	}
	// PyTorch's extensions and setuptools reject an open prompt (VSCMD_ARG_TGT_ARCH is set) unless this variable makes them use it
	// (pytorch/pytorch torch/utils/cpp_extension.py; `gpubuild exec -- pip install …`).
	set("DISTUTILS_USE_SDK", "1")
	set("UniversalCRTSdkDir", slash(ucrt.Root))
	set("UCRTVersion", ucrt.Version)
	return s
}

// newest is the directory in dir whose name is the highest version; empty when there is none.
func newest(h buildenv.Host, dir string) string {
	return newestOf(h, dir, func(string) bool { return true })
}

// newestOf is newest among the names that are wanted.
func newestOf(h buildenv.Host, dir string, wanted func(name string) bool) (best string) {
	var found []int
	for _, name := range h.Names(dir) {
		if v := numbers(name); wanted(name) && slices.Compare(v, found) > 0 {
			best, found = h.Join(dir, name), v
		}
	}
	return best
}

// redist is where the toolset's DLLs for shipping lie: of its own minor, which may be another patch. Source: vcvars.bat, VCRedistVersion.
func (t Toolset) redist(h buildenv.Host) string {
	return newestOf(h, h.Join(t.Install, "VC", "Redist", "MSVC"), func(name string) bool {
		return Toolset{Version: name}.Name() == t.Name()
	})
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
