package msvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

// whereRunner answers as vswhere.exe.
type whereRunner struct {
	asked []buildenv.Cmd
	says  string
	err   error
}

func (w *whereRunner) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	w.asked = append(w.asked, c)
	return buildenv.Result{Stdout: []byte(w.says)}, w.err
}

func TestVswhereIsAskedLast(t *testing.T) {
	const vswhere = `C:\Program Files (x86)\Microsoft Visual Studio\Installer\vswhere.exe`
	studio := func(dir string) string {
		bin := dir + `\VC\Tools\MSVC\14.44.35207\bin\Hostx64\x64\`
		return bin + "cl.exe\n" + bin + "link.exe\n" + bin + "lib.exe\n" + dir + `\VC\Tools\MSVC\14.44.35207\include\yvals_core.h` + "\n" +
			dir + `\VC\Tools\MSVC\14.44.35207\lib\x64\a.lib` + "\n"
	}
	const odd = `D:\Werkzeuge für %C++% 'x'`
	answer := `[{"installationPath":"D:\\Werkzeuge für %C++% ` +
		`'x'","installationVersion":"17.14.36015.10","productId":"Microsoft.VisualStudio.Product.BuildTools"}]`
	for _, tt := range []struct {
		story, files, says string
		err                error
		asked              bool
		want               string
	}{
		{"nothing else tells of it", studio(odd), answer, nil, true, odd + " Visual Studio 2022 BuildTools 17.14.36015.10 from " + vswhere},
		{"the disk tells of one: vswhere is not run", studio(`C:\Program Files\Microsoft Visual Studio\2022\Community`), answer, nil, false,
			`C:\Program Files\Microsoft Visual Studio\2022\Community Visual Studio 2022 Community 17 from C:\Program Files\Microsoft ` +
				`Visual Studio`},
		{"the disk tells of one without C++", `C:\Program Files\Microsoft Visual Studio\2022\Community\Common7\IDE\devenv.exe` + "\n" +
			studio(odd), answer, nil, true,
			odd + " Visual Studio 2022 BuildTools 17.14.36015.10 from " + vswhere + "\n" + `C:\Program Files\Microsoft Visual ` +
				`Studio\2022\Community Visual Studio 2022 Community 17 from C:\Program Files\Microsoft Visual Studio`},
		{"it names what is gone", "", answer, nil, true, "problem: " + vswhere + " names " + odd + ", which does not exist"},
		{"it knows none", "", "[]", nil, true, ""},
		{"its answer is cut off", studio(odd), answer[:40], nil, true, "problem: " + vswhere +
			" answered what cannot be read: unexpected end of JSON input"},
		{"it does not answer", studio(odd), "", errors.New("ended after 10s"), true, "problem: " + vswhere +
			" does not answer: ended after 10s"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h, err := hosttest.Parse([]byte("os: windows\narch: amd64\n-- @env --\nPath=C:\\Windows\n-- @empty --\n" + vswhere + "\n" +
				tt.files))
			if err != nil {
				t.Fatal(err)
			}
			run := &whereRunner{says: tt.says, err: tt.err}
			f := Find(context.Background(), h, "amd64", run)
			var got []string
			for _, i := range f.Instances {
				got = append(got, fmt.Sprintf("%s %s from %s", i.Path, i, i.Origin))
				if len(i.Toolsets) != 1 && !strings.HasPrefix(i.Path, `C:\`) {
					t.Errorf("toolsets %v", i.Toolsets)
				}
			}
			for _, p := range f.Problems {
				got = append(got, "problem: "+p)
			}
			if text := strings.Join(got, "\n"); text != tt.want {
				t.Errorf("got\n%s\nwant\n%s", text, tt.want)
			}
			if (len(run.asked) == 1) != tt.asked {
				t.Errorf("asked %v", run.asked)
			}
			if tt.asked && (run.asked[0].Path != vswhere || run.asked[0].Timeout == 0 || !slices.Contains(run.asked[0].Args, "-utf8") ||
				!slices.Contains(run.asked[0].Args, "-prerelease")) {
				t.Errorf("asked %v", run.asked[0])
			}
		})
	}
	h, err := hosttest.Parse([]byte("os: windows\n-- @env --\nPath=C:\\Windows\n"))
	if err != nil {
		t.Fatal(err)
	}
	run := &whereRunner{}
	if f := Find(context.Background(), h, "amd64", run); len(f.Instances) != 0 || run.asked != nil {
		t.Errorf("no vswhere, and %v was run", run.asked)
	}
}

// TestFurtherVariables holds what a developer prompt sets beside the lists of headers and libraries.
func TestFurtherVariables(t *testing.T) {
	const vs, kits = `C:\VS`, `C:\Program Files (x86)\Windows Kits`
	h, err := hosttest.Parse([]byte("os: windows\n-- @env --\nPath=C:\\Windows\n-- @empty --\n" +
		vs + `\VC\Redist\MSVC\14.44.35112\x64\a.dll` + "\n" + vs + `\VC\Redist\MSVC\14.44.35211\x64\a.dll` + "\n" + vs +
		`\VC\Redist\MSVC\14.50.1\x64\a.dll` + "\n" + vs + `\VC\Redist\MSVC\v143\x` + "\n" +
		kits + `\NETFXSDK\4.6.1\include\um\x.h` + "\n" + kits + `\NETFXSDK\4.8\include\um\x.h` + "\n" + kits +
		`\NETFXSDK\4.8\lib\um\arm64\x.lib` + "\n" +
		kits + `\10\UnionMetadata\10.0.26100.0\x.winmd` + "\n" + `C:\Program Files (x86)\Microsoft SDKs\Windows Kits\10\ExtensionSDKs\x` +
		"\n"))
	if err != nil {
		t.Fatal(err)
	}
	k := Kit{Root: kits + `\10`, Version: "10.0.26100.0"}
	s := Toolset{Version: "14.44.35207", Dir: vs + `\VC\Tools\MSVC\14.44.35207`, Bin: vs + `\b\x64`, Host: "x64", Target: "arm64",
		Install: vs, Release: "17.14.3.1"}.Settings(h, k, k)
	got := map[string]string{}
	for _, v := range s.Scalars {
		got[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"VCToolsRedistDir": vs + `\VC\Redist\MSVC\14.44.35211\`, "NETFXSDKDir": kits + `\NETFXSDK\4.8\`, "WindowsLibPath": kits +
			`\10\UnionMetadata\10.0.26100.0`,
		"ExtensionSdkDir": `C:\Program Files (x86)\Microsoft SDKs\Windows Kits\10\ExtensionSDKs`, "PreferredToolArchitecture": "x64",
		"WindowsSDKVersion": `10.0.26100.0\`, "UCRTVersion": "10.0.26100.0", "UniversalCRTSdkDir": kits + `\10\`,
	} {
		if got[name] != want {
			t.Errorf("%s=%s, want %s", name, got[name], want)
		}
	}
	if !slices.Contains(s.Include, kits+`\NETFXSDK\4.8\include\um`) || !slices.Contains(s.Lib, kits+`\NETFXSDK\4.8\lib\um\arm64`) {
		t.Errorf("INCLUDE %v LIB %v", s.Include, s.Lib)
	}
}
