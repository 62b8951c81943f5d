package msvc

import (
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestUnpacked has a toolset and an SDK that were unpacked into one directory, as portable-msvc.py does: its setup_x64.bat names neither a
// Visual Studio nor WindowsSdkDir. The tree is found by what the batch file sets, and by one variable alone.
func TestUnpacked(t *testing.T) {
	const root = `D:\my tools\msvc`
	const tools, kits = root + `\VC\Tools\MSVC\14.44.35207`, root + `\Windows Kits\10`
	files := "-- @empty --\n"
	for _, f := range []string{tools + `\bin\Hostx64\x64\cl.exe`, tools + `\bin\Hostx64\x64\link.exe`, tools + `\bin\Hostx64\x64\lib.exe`,
		tools + `\include\yvals_core.h`, tools + `\lib\x64\libcmt.lib`,
		kits + `\Include\10.0.26100.0\um\Windows.h`, kits + `\Include\10.0.26100.0\um\winsdkver.h`,
		kits + `\Include\10.0.26100.0\shared\winapifamily.h`, kits + `\Include\10.0.26100.0\ucrt\corecrt.h`,
		kits + `\Lib\10.0.26100.0\um\x64\kernel32.lib`, kits + `\Lib\10.0.26100.0\ucrt\x64\ucrt.lib`,
		kits + `\bin\10.0.26100.0\x64\rc.exe`} {
		files += f + "\n"
	}
	for story, env := range map[string]string{
		"setup_x64.bat": "VSCMD_ARG_HOST_ARCH=x64\nVSCMD_ARG_TGT_ARCH=x64\nVCToolsVersion=14.44.35207\n" +
			"WindowsSDKVersion=10.0.26100.0\\\nVCToolsInstallDir=" + tools + "\\\nWindowsSdkBinPath=" + kits + "\\bin\\\n",
		"the toolset's variable alone":                               "VCToolsInstallDir=" + tools + "\n",
		"the SDK's variable alone, beside a Visual Studio elsewhere": "VSINSTALLDIR=" + root + "\nWindowsSdkBinPath=" + kits + "\\bin\n",
	} {
		t.Run(story, func(t *testing.T) {
			h, err := hosttest.Parse([]byte("os: windows\n-- @env --\nPath=C:\\Windows\n" + env + files))
			if err != nil {
				t.Fatal(err)
			}
			f := Find(h, "amd64")
			sdk, ucrt := Best(f.SDKs), Best(f.UCRTs)
			if len(f.Toolsets) != 1 || f.Toolsets[0].Problem != "" || f.Toolsets[0].Install != root || sdk == nil || ucrt == nil ||
				sdk.Root != kits || ucrt.Root != kits {
				t.Errorf("toolsets %+v, SDK %+v, UCRT %+v", f.Toolsets, sdk, ucrt)
			}
		})
	}
}
