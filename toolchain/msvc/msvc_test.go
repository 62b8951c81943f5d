package msvc

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestFind tells of each machine which toolsets of which instances are found, where the instances came from, and which SDK is best.
func TestFind(t *testing.T) {
	for _, tt := range []struct {
		host string
		want []string
	}{
		{"windows-usual", []string{`14.44.35207 x64→x64 min 12.4 default of Visual Studio 2022 Community 17.14.36015.10`,
			`SDK 10.0.22621.0 UCRT 10.0.19041.0`}},
		{"windows-five-toolsets", []string{
			`14.52.36328 x64→x64 min 13.2 of Visual Studio 2026 Community 18.1.11304.174`,
			`14.51.36231 x64→x64 min 13.2 of Visual Studio 2026 Community 18.1.11304.174`,
			`14.44.35207 x64→x64 min 12.4 of Visual Studio 2026 Community 18.1.11304.174`,
			`14.29.30133 x64→x64 min 10.1 of Visual Studio 2026 Community 18.1.11304.174`,
			`14.16.27023 x64→x64 of Visual Studio 2026 Community 18.1.11304.174`, `SDK 10.0.26100.0 UCRT 10.0.26100.0`}},
		{"windows-build-tools-wheels", []string{`14.44.35207 x64→x64 min 12.4 of Visual Studio 2022 BuildTools 17.14.36015.10`,
			`SDK 10.0.26100.0 UCRT 10.0.26100.0`}},
		{"windows-broken-states", []string{`14.29.30133 x64→x64 min 10.1 of Visual Studio 2019 BuildTools 16`,
			`14.16.27023 x64→x64 of Visual Studio 2017 15.0.26228.4`, `SDK 10.0.19041.0 UCRT 10.0.19041.0`}},
		{"windows-arm64", []string{`14.44.35207 arm64→arm64 min 12.4 of Visual Studio 2022 Community 17.14.36015.10`,
			`14.39.33519 x64→arm64 min 11.6 of Visual Studio 2022 Community 17.14.36015.10`, `SDK 10.0.26100.0 UCRT 10.0.26100.0`}},
		{"windows-prompt", []string{`14.44.35207 x64→x64 min 12.4 of Visual Studio 2022 17.14.36015`,
			`14.29.30133 x64→x64 min 10.1 of Visual Studio 2022 17.14.36015`, `SDK 10.0.26100.0 UCRT 10.0.26100.0`}},
		{"windows-no-sdk", []string{`14.44.35207 x64→x64 min 12.4 of Visual Studio 2022 Community 17.14.36015.10`, `SDK none UCRT none`}},
		{"windows-no-visual-studio", []string{`SDK none UCRT none`}},
	} {
		t.Run(tt.host, func(t *testing.T) {
			h := hosttest.Load(t, tt.host)
			f := Find(h, h.Arch)
			var got []string
			for _, s := range f.Toolsets {
				line := fmt.Sprintf("%s %s→%s", s.Version, s.Host, s.Target)
				if !s.STL.MinCUDA.IsZero() {
					line += " min " + s.STL.MinCUDA.String()
				}
				if s.Default {
					line += " default"
				}
				if s.Problem != "" {
					line += " PROBLEM " + s.Problem
				}
				got = append(got, line+" of "+s.Product)
			}
			version := func(kits []Kit) string {
				if k := Best(kits); k != nil {
					return k.Version
				}
				return "none"
			}
			got = append(got, "SDK "+version(f.SDKs)+" UCRT "+version(f.UCRTs))
			if a, b := strings.Join(got, "\n"), strings.Join(tt.want, "\n"); a != b {
				t.Errorf("got\n%s\nwant\n%s", a, b)
			}
		})
	}
}

// TestIncomplete holds what makes a toolset useless, and that it comes behind the useful ones.
func TestIncomplete(t *testing.T) {
	const vs = `C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\`
	tools := func(dir string) string { return dir + "\\cl.exe\n" + dir + "\\link.exe\n" + dir + "\\lib.exe\n" }
	h, err := hosttest.Parse([]byte("os: windows\n-- @env --\nPath=C:\\Windows\n-- @empty --\n" +
		vs + "14.44.1\\bin\\Hostx64\\arm64\\cl.exe\n" + vs + "14.44.1\\include\\yvals_core.h\n" + // builds for ARM only
		tools(vs+"14.43.1\\bin\\Hostx64\\x64") + vs + "14.43.1\\lib\\x64\\a.lib\n" + // no headers
		tools(vs+"14.42.1\\bin\\Hostx64\\x64") + vs + "14.42.1\\include\\yvals_core.h\n" + // no libraries
		// a 32-bit cross compiler does
		tools(vs+"14.41.1\\bin\\Hostx86\\x64") + vs + "14.41.1\\include\\yvals_core.h\n" + vs + "14.41.1\\lib\\x64\\a.lib\n" +
		// from before yvals_core.h
		tools(vs+"14.11.25503\\bin\\HostX64\\x64") + vs + "14.11.25503\\include\\yvals.h\n" + vs + "14.11.25503\\lib\\x64\\a.lib\n" +
		// no linker
		vs + "14.40.1\\bin\\Hostx64\\x64\\cl.exe\n" + vs + "14.40.1\\bin\\Hostx64\\x64\\lib.exe\n" + vs +
		"14.40.1\\include\\yvals_core.h\n" + vs + "14.40.1\\lib\\x64\\a.lib\n" +
		// no librarian
		vs + "14.39.1\\bin\\Hostx64\\x64\\cl.exe\n" + vs + "14.39.1\\bin\\Hostx64\\x64\\link.exe\n" + vs +
		"14.39.1\\include\\yvals_core.h\n" + vs + "14.39.1\\lib\\x64\\a.lib\n" +
		vs + "14.40\\bin\\Hostx64\\x64\\cl.exe\n" + vs + "readme.txt\n" +
		"-- " + vs + "14.38.1\\bin\\Hostx64\\x64\\cl.exe --\n")) // a broken installation's, without a byte
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range Find(h, "amd64").Toolsets {
		got = append(got, s.Version+" "+s.Host+" "+s.Problem)
	}
	want := []string{"14.41.1 x86 ", "14.11.25503 x64 ", "14.44.1  it has no cl.exe that runs here and builds for x64",
		"14.43.1 x64 the headers of its standard library cannot be read: " + vs + `14.43.1\include\yvals_core.h`,
		"14.42.1 x64 it has no libraries for x64",
		"14.40.1 x64 it has no " + vs + `14.40.1\bin\Hostx64\x64\link.exe`, "14.39.1 x64 it has no " + vs +
			`14.39.1\bin\Hostx64\x64\lib.exe`, "14.38.1  it has no cl.exe that runs here and builds for x64"}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

func TestParseState(t *testing.T) {
	for _, tt := range []struct{ story, in, want string }{
		{"usual", `{"installationPath":"C:\\VS","installationVersion":"17.14.1","product":{"id":"Microsoft.VisualStudio.Product.BuildTools"},"packages":[]}`,
			`C:\VS 17.14.1 BuildTools`},
		{"byte order mark", "\xef\xbb\xbf" + `{"installationPath":"C:\\VS","installationVersion":"17.14.1"}`, `C:\VS 17.14.1 `},
		{"packages first", `{"packages":[{"id":"a"}],"installationPath":"C:\\VS","installationVersion":"17.14.1"}`, `C:\VS 17.14.1 `},
		{"early 15.0", `{"catalogInfo":{"buildVersion":"15.0.26228.4"},"installationPath":"C:\\VS"}`, `C:\VS 15.0.26228.4 `},
		{"cut off before", `{"installationPath":"C:\\V`, "error"},
		{"another type", `{"installationPath":7}`, "error"},
		{"no object", `[]`, "error"},
		{"empty", ``, "error"},
		{"no path", `{"installationVersion":"17"}`, "error"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			s, err := parseState([]byte(tt.in))
			got := s.path + " " + s.version + " " + s.product
			if err != nil {
				got = "error"
			}
			hosttest.Equal(t, got, tt.want, err)
		})
	}
}

func TestParseSTL(t *testing.T) {
	for _, tt := range []struct {
		story, in, want string
		line            int
	}{
		{"14.44", "#if 1\n    _EMIT_STL_ERROR(STL1002, \"Unexpected compiler version, expected CUDA 12.4 or newer.\");\n", "12.4", 2},
		{"an update", `_EMIT_STL_ERROR(STL1002, "Unexpected compiler version, expected CUDA 10.1 Update 2 or newer.");`, "10.1", 1},
		{"taken out by a comment", "// _EMIT_STL_ERROR(STL1002, \"expected CUDA 12.4 or newer.\");\n/* \n_EMIT_STL_ERROR(STL1002, " +
			"\"expected CUDA 12.5 or newer.\"); */", "", 0},
		{"a comment that opens in a string opens none", "x(\"/*\");\n_EMIT_STL_ERROR(STL1002, \"expected CUDA 13.2 or newer.\");", "13.2",
			2},
		{"the highest of two", "_EMIT_STL_ERROR(STL1002, \"expected CUDA 13.2 or newer.\");\n_EMIT_STL_ERROR(STL1002, \"expected CUDA " +
			"12.4 or newer.\");", "13.2", 1},
		{"another compiler's", `_EMIT_STL_ERROR(STL1000, "Unexpected compiler version, expected Clang 18 or newer.");`, "", 0},
		{"none", "#define _STL_COMPILER_PREPROCESSOR 1", "", 0},
		{"a comment without end", "/* _EMIT_STL_ERROR(STL1002, \"expected CUDA 13.2 or newer.\");", "", 0},
	} {
		t.Run(tt.story, func(t *testing.T) {
			s := parseSTL([]byte(tt.in))
			got := ""
			if !s.MinCUDA.IsZero() {
				got = s.MinCUDA.String()
			}
			if got != tt.want || s.Line != tt.line {
				t.Errorf("got %q in line %d", got, s.Line)
			}
		})
	}
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"installationPath":"C:\\VS","installationVersion":"17.14.1","product":{"id":"a.B"},"packages":[]}`))
	f.Add([]byte(`{"packages":[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := parseState(data); err == nil && s.path == "" {
			t.Errorf("no error and no path: %+v", s)
		}
	})
}

func FuzzParseSTL(f *testing.F) {
	f.Add([]byte("a\n_EMIT_STL_ERROR(STL1002, \"expected CUDA 12.4 or newer.\"); // b"))
	f.Add([]byte(`/* "*/ "\" /* STL1002 "CUDA 1.2`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := parseSTL(data)
		lines := 1 + strings.Count(string(data), "\n")
		if s.MinCUDA.IsZero() != (s.Line == 0) || s.Line > lines {
			t.Errorf("%+v of %d lines", s, lines)
		}
	})
}

// TestBadInput holds that what is odd or broken on the disk is passed over or told, never believed and never fatal.
func TestBadInput(t *testing.T) {
	const cache = `C:\ProgramData\Microsoft\VisualStudio\Packages\_Instances\`
	tool := func(dir string) string {
		bin := dir + "\\VC\\Tools\\MSVC\\14.44.1\\bin\\Hostx64\\x64\\"
		return bin + "cl.exe\n" + bin + "link.exe\n" + bin + "lib.exe\n" + dir + "\\VC\\Tools\\MSVC\\14.44.1\\include\\yvals_core.h\n" +
			dir + "\\VC\\Tools\\MSVC\\14.44.1\\lib\\x64\\a.lib\n"
	}
	for _, tt := range []struct{ story, machine, want, problem string }{
		{"a link that leads to itself", "-- @links --\nC:\\a -> C:\\b\nC:\\b -> C:\\a\n-- " + cache +
			"1\\state.json --\n{\"installationPath\":\"C:\\\\a\",\"installationVersion\":\"17\"}\n", "",
			`names C:\a, which does not exist`},
		{"two names of one tree", "-- @links --\nC:\\b -> C:\\a\n-- @empty --\n" + tool(`C:\a`) + "-- " + cache +
			"1\\state.json --\n{\"installationPath\":\"C:\\\\b\",\"installationVersion\":\"17.1\"}\n-- " + cache +
			"2\\state.json --\n{\"installationPath\":\"C:\\\\a\\\\\",\"installationVersion\":\"17.1\"}\n", `C:\b`, ""},
		{"a relative path", "-- @empty --\n" + tool(`C:\vs`) + "-- " + cache +
			"1\\state.json --\n{\"installationPath\":\"vs\",\"installationVersion\":\"17\"}\n", "", ""},
		{"a network share, per cent and apostrophe", "-- @empty --\n" + tool(`\\srv\tools\50% Jo's`) + "-- " + cache +
			"1\\state.json --\n{\"installationPath\":\"\\\\\\\\srv\\\\tools\\\\50% Jo's\",\"installationVersion\":\"17\"}\n",
			`\\srv\tools\50% Jo's`, ""},
		{"state.json that may not be read", "-- " + cache + "1\\state.json +unreadable --\n{}\n", "", "permission denied"},
		{"a directory in its place", "-- @dirs --\n" + cache + "1\\state.json\n", "", "state.json cannot be read"},
		{"instances that may not be listed", "-- @dirs --\n" + strings.TrimSuffix(cache, `\`) + " +unreadable\n", "", "permission denied"},
		{"two hundred instances that are gone", many(cache, 200), "", "does not exist"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte("os: windows\ncwd: C:\\\n" + tt.machine)))(t)
			h.Env = h.Env.Set("PATH", strings.Repeat(`C:\x;`, 16<<10))
			f := Find(h, "amd64")
			var got []string
			for _, i := range f.Instances {
				got = append(got, i.Path)
				if len(i.Toolsets) != 1 || i.Toolsets[0].Problem != "" {
					t.Errorf("%s: %+v", i.Path, i.Toolsets)
				}
			}
			hosttest.Equal(t, strings.Join(got, "|"), tt.want)
			if s := strings.Join(f.Problems, "\n"); (s == "") != (tt.problem == "") || !strings.Contains(s, tt.problem) {
				t.Errorf("told: %s", s)
			}
		})
	}
}

func many(cache string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "-- %s%d\\state.json --\n{\"installationPath\":\"C:\\\\gone%d\",\"installationVersion\":\"17\"}\n", cache, i, i)
	}
	return b.String()
}

// TestWhatIsNoInstance: Visual Studio 2015 and a cl.exe by itself are not used, and the reason is given.
func TestWhatIsNoInstance(t *testing.T) {
	h, err := hosttest.Parse([]byte("os: windows\narch: amd64\n-- @env --\nPATH=D:\\tools\nVS140COMNTOOLS=C:\\VS14\\Common7\\Tools\\\n" +
		"-- @empty --\nD:\\tools\\cl.exe\nC:\\VS14\\VC\\bin\\amd64\\cl.exe\nC:\\VS14\\Common7\\Tools\\VsDevCmd.bat\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := Find(h, "amd64")
	all := strings.Join(found.Problems, "\n")
	if len(found.Instances) > 0 || !strings.Contains(all, "Visual Studio 2015 and older are not supported") ||
		!strings.Contains(all, `D:\tools\cl.exe belongs to no Visual Studio`) {
		t.Errorf("%+v\n%s", found.Instances, all)
	}
}

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
		"the toolset's variable alone":                            "VCToolsInstallDir=" + tools + "\n",
		"the SDK's variable alone, and a Visual Studio elsewhere": "VSINSTALLDIR=" + root + "\nWindowsSdkBinPath=" + kits + "\\bin\n",
	} {
		t.Run(story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte("os: windows\n-- @env --\nPath=C:\\Windows\n" + env + files)))(t)
			f := Find(h, "amd64")
			sdk, ucrt := Best(f.SDKs), Best(f.UCRTs)
			if len(f.Toolsets) != 1 || f.Toolsets[0].Problem != "" || f.Toolsets[0].Install != root || sdk == nil || ucrt == nil ||
				sdk.Root != kits || ucrt.Root != kits {
				t.Errorf("toolsets %+v, SDK %+v, UCRT %+v", f.Toolsets, sdk, ucrt)
			}
		})
	}
}
