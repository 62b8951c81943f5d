package toolchain_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/msvc"
)

// windows gathers what is found on a stored Windows machine.
func windows(h buildenv.Host) toolchain.Facts {
	found := msvc.Find(h, h.Arch)
	f := toolchain.Facts{Toolkits: cuda.Find(h, nil), Places: cuda.UsualPlaces(h), MSVC: &found, Compilers: toolchain.Compilers(h, found)}
	var roots []string
	for _, t := range f.Toolkits {
		if t.Problem == "" {
			roots = append(roots, t.Root)
		}
	}
	f.CUDNN = cudnn.Find(h, roots)
	return f
}

// TestWindowsMachines tells of every stored Windows machine which set is chosen and why, and what a build's environment becomes.
func TestWindowsMachines(t *testing.T) {
	linked := with(kernels, func(n *toolchain.Needs) { n.Libraries = true })
	for _, tt := range []struct {
		host  string
		needs toolchain.Needs
	}{
		{"windows-usual", reads("cudarc", "cmake")},
		{"windows-toolset-too-new", kernels},
		{"windows-five-toolsets", linked},
		{"windows-build-tools-wheels", linked},
		{"windows-no-visual-studio", kernels},
		{"windows-no-sdk", kernels},
		{"windows-conda", linked},
		{"windows-edited-header", kernels},
		{"windows-no-cxx", kernels},
		{"windows-prompt", kernels},
		{"windows-prompt-too-new", kernels},
		{"windows-arm64", linked},
		{"windows-broken-states", kernels},
		{"windows-two-nvcc", kernels},
		{"windows-cudnn-installer", candle},
	} {
		t.Run(tt.host, func(t *testing.T) {
			h := hosttest.Load(t, tt.host)
			f := windows(h)
			var b strings.Builder
			for _, p := range f.MSVC.Problems {
				fmt.Fprintln(&b, "problem:", p)
			}
			b.WriteString(strings.ReplaceAll(story(h, f, tt.needs), "  gcc up to 0, clang up to 0\n", ""))
			golden(t, tt.host, b.String())
		})
	}
}

// TestPrompted holds that what Environment makes is a developer prompt: applied once, nothing of Microsoft's is left to change, whatever
// letter case PATH is written in, and no directory stands in PATH twice.
func TestPrompted(t *testing.T) {
	for _, name := range []string{"windows-usual", "windows-five-toolsets", "windows-build-tools-wheels", "windows-prompt-too-new",
		"windows-arm64", "windows-two-nvcc"} {
		h := hosttest.Load(t, name)
		for range 2 {
			s, err := toolchain.Choose(windows(h), kernels, toolchain.Wish{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			h.Env = h.Apply(h.Env, toolchain.Environment(h, s, kernels))
			if cl, err := h.LookPath("cl"); err != nil || !h.SamePath(cl, s.MSVC.Toolset.CL) {
				t.Errorf("%s: nvcc would take %s, %v", name, cl, err)
			}
			if nvcc, err := h.LookPath("nvcc"); err != nil || !h.SamePath(nvcc, s.Toolkit.NVCC) {
				t.Errorf("%s: the first nvcc is %s, %v", name, nvcc, err)
			}
		}
		s := hosttest.Must(toolchain.Choose(windows(h), kernels, toolchain.Wish{}))(t)
		if d := toolchain.Environment(h, s, kernels); len(d.Changes) > 0 {
			t.Errorf("%s: the second time it would still do %s", name, changed(d))
		}
		seen := map[string]bool{}
		for _, dir := range h.SplitList(h.Env.Get("PATH")) {
			if low := strings.ToLower(strings.TrimRight(dir, `\`)); seen[low] {
				t.Errorf("%s: %s stands in PATH twice", name, dir)
			} else {
				seen[low] = true
			}
		}
		if h.Env.Get("VSCMD_VER") == "" {
			t.Errorf("%s: nvcc would run vcvars64.bat", name)
		}
	}
}

// TestGates holds both gates on one machine with one toolset and one toolkit, each shut alone and together, and that the switch which lifts
// nvcc's own does not lift the library's.
func TestGates(t *testing.T) {
	const header = "#if _MSC_VER < %d || _MSC_VER >= %d\n#error -- unsupported Microsoft Visual Studio version!\n#endif\n"
	for _, tt := range []struct {
		story, toolset, stl, cuda string
		lo, hi                    int
		unchecked                 bool
		want                      string // nothing: it fits; else words of the error and of its hint
		hint                      []string
	}{
		{"both open", "14.44.35207", "12.4", "12.6", 1910, 1950, false, "", nil},
		{"nvcc's gate alone", "14.51.36231", "12.4", "12.6", 1910, 1950, false, "its _MSC_VER is 1951, and CUDA 12.6 takes _MSC_VER up " +
			"to 1949 only", []string{"install the 14.44 toolset, which CUDA 12.6 takes"}},
		{"the library's gate alone", "14.44.35207", "12.4", "12.3", 1910, 1950, false, "its standard library takes CUDA 12.4 and newer, " +
			"not 12.3", []string{"install the 14.39 toolset", "or use CUDA 12.4 or newer"}},
		{"both shut", "14.51.36231", "13.2", "12.6", 1910, 1950, false, "its standard library takes CUDA 13.2 and newer, not 12.6",
			[]string{"install the 14.44 toolset", "or use CUDA 13.2 or newer"}},
		{"too old for nvcc", "14.16.27023", "", "13.4", 1920, 1960, false, "its _MSC_VER is 1916, and CUDA 13.4 takes _MSC_VER from " +
			"1920 only", []string{"install the 14.44 toolset, which CUDA 13.4 takes"}},
		{"nvcc's gate is lifted by the user", "14.51.36231", "12.4", "12.6", 1910, 1950, true, "", nil},
		{"which does not lift the library's", "14.51.36231", "13.2", "12.6", 1910, 1950, true,
			"its standard library takes CUDA 13.2 and newer, not 12.6", []string{"install the 14.44 toolset"}},
	} {
		t.Run(tt.story, func(t *testing.T) {
			v := hosttest.Must(gpu.ParseVersion(tt.cuda))(t)
			emit := ""
			if tt.stl != "" {
				emit = fmt.Sprintf(`_EMIT_STL_ERROR(STL1002, "Unexpected compiler version, expected CUDA %s or newer.");`, tt.stl)
			}
			h := hosttest.Must(hosttest.Parse([]byte(`os: windows
-- @env --
CUDA_PATH=C:\cuda
Path=C:\Windows
-- @empty --
C:\cuda\bin\nvcc.exe
C:\cuda\nvvm\bin\cicc.exe
C:\cuda\include\cuda_runtime.h
C:\cuda\include\nv\target
C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\` + tt.toolset + `\bin\Hostx64\x64\cl.exe
C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\` + tt.toolset + `\bin\Hostx64\x64\link.exe
C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\` + tt.toolset + `\bin\Hostx64\x64\lib.exe
C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\` + tt.toolset + `\lib\x64\libcmt.lib
C:\Program Files (x86)\Windows Kits\10\Include\10.0.1.0\um\Windows.h
C:\Program Files (x86)\Windows Kits\10\Include\10.0.1.0\um\winsdkver.h
C:\Program Files (x86)\Windows Kits\10\Include\10.0.1.0\shared\winapifamily.h
C:\Program Files (x86)\Windows Kits\10\Include\10.0.1.0\ucrt\corecrt.h
C:\Program Files (x86)\Windows Kits\10\Lib\10.0.1.0\um\x64\kernel32.lib
C:\Program Files (x86)\Windows Kits\10\Lib\10.0.1.0\ucrt\x64\ucrt.lib
-- C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\` + tt.toolset + `\include\yvals_core.h --
` + emit + `
-- C:\cuda\include\cuda.h --
#define CUDA_VERSION ` + fmt.Sprint(v.Major*1000+v.Minor*10) + `
-- C:\cuda\include\crt\host_config.h --
` + fmt.Sprintf(header, tt.lo, tt.hi))))(t)
			w := toolchain.Wish{}
			if tt.unchecked {
				w.Unchecked = "NVCC_APPEND_FLAGS"
			}
			s, err := toolchain.Choose(windows(h), kernels, w)
			if tt.want == "" {
				if err != nil || s.MSVC == nil || s.MSVC.Toolset.Version != tt.toolset {
					t.Errorf("got %v, %v", s.MSVC, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v", err)
			}
			hint := err.(interface{ Hint() string }).Hint()
			for _, w := range tt.hint {
				if !strings.Contains(hint, w) {
					t.Errorf("hint: %s", hint)
				}
			}
		})
	}
}

// TestAskedRoot holds that a toolkit is meant by its root in any letter case and with either slash, as Windows has it.
func TestAskedRoot(t *testing.T) {
	h := hosttest.Load(t, "windows-usual")
	for wish, want := range map[string]bool{
		`c:\program files\nvidia gpu computing toolkit\cuda\V12.6\`: true, "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.6": true,
		`C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.5`: false, "12.6": true, "12.5": false,
	} {
		if _, err := toolchain.Choose(windows(h), kernels, toolchain.Wish{CUDA: wish}); (err == nil) != want {
			t.Errorf("%s: %v", wish, err)
		}
	}
}

// TestAskedToolset holds how a user names a toolset: by version, by the path of cl.exe or its directory, or by a variable.
func TestAskedToolset(t *testing.T) {
	dir := `C:\Program Files\Microsoft Visual Studio\18\Insiders\VC\Tools\MSVC\14.29.30133\bin\Hostx64\x64`
	for _, tt := range []struct{ story, ccbin, env, want string }{
		{"nobody", "", "", "14.44.35207"},
		{"version", "14.29", "", "14.29.30133"},
		{"whole version", "14.29.30133", "", "14.29.30133"},
		{"alias with Visual Studio's own version", "14.29.16.11", "", "14.29.30133"},
		{"path", dir + `\CL.exe`, "", "14.29.30133"},
		{"directory with a slash", strings.ReplaceAll(dir, `\`, "/") + "/", "", "14.29.30133"},
		{"NVCC_CCBIN", "", "NVCC_CCBIN=" + dir, "14.29.30133"},
		{"VCToolsVersion", "", "VCToolsVersion=14.29.30133", "14.29.30133"},
		{"a variable that does not fit gives way", "", "VCToolsVersion=14.51.36231", "14.44.35207"},
		{"cl is what PATH says", "", "NVCC_CCBIN=cl.exe", "14.44.35207"},
		{"what is asked for is never replaced", "14.51", "", "no host compiler here fits CUDA 13.0"},
		{"what is not there", "14.30", "", "no host compiler here fits CUDA 13.0"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Load(t, "windows-five-toolsets")
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				h.Env = h.Env.Set(name, value)
			}
			s, err := toolchain.Choose(windows(h), kernels, toolchain.Wish{CCBin: tt.ccbin})
			got := ""
			if err != nil {
				got = err.Error()
				if hint := err.(interface{ Hint() string }).Hint(); hint != "ask for a toolset that is here and fits: 14.44.35207, "+
					"14.29.30133" {
					t.Errorf("hint: %s", hint)
				}
			} else {
				got = s.MSVC.Toolset.Version
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestPromptsThatAreNotRight has prompts in which a cl.exe is there and nvcc or the cc crate would still take the wrong one.
func TestPromptsThatAreNotRight(t *testing.T) {
	const bin = `\VC\Tools\MSVC\14.44.35207\bin\HostX64\x64`
	for _, tt := range []struct {
		story   string
		change  *strings.Replacer
		changed []string
	}{
		{"of x86", strings.NewReplacer("\nPATH=C:\\Program Files\\Microsoft Visual Studio\\2022\\Community"+bin,
			"\nVSCMD_ARG_TGT_ARCH=x86\nPlatform=x86\nPATH=C:\\Program Files\\Microsoft Visual Studio\\2022\\Community"+
				strings.ReplaceAll(bin, "64", "86"),
			`35207\lib\x64;`, `35207\lib\x86;`, `ucrt\x64;`, `ucrt\x86;`, "um\\x64\n--", "um\\x86\n--", "-- @empty --\n",
			"-- @empty --\nC:\\Program Files\\Microsoft Visual Studio\\2022\\Community"+strings.ReplaceAll(bin, "64", "86")+"\\cl.exe\n"),
			[]string{"PATH", "LIB", "VSCMD_ARG_TGT_ARCH"}},
		{"in which VCToolsVersion was set by hand to what is not there", strings.NewReplacer("VCToolsVersion=14.44.35207",
			"VCToolsVersion=14.99.1"), []string{"VCToolsVersion"}},
		{"of another processor by its variable alone", strings.NewReplacer("VCToolsVersion=14.44.35207", "VSCMD_ARG_TGT_ARCH=arm64"),
			[]string{"VSCMD_ARG_TGT_ARCH"}},
	} {
		t.Run(tt.story, func(t *testing.T) {
			text := hosttest.Must(os.ReadFile("../testdata/hosts/windows-prompt.txtar"))(t)
			h := hosttest.Must(hosttest.Parse([]byte(tt.change.Replace(string(text)))))(t)
			s := hosttest.Must(toolchain.Choose(windows(h), kernels, toolchain.Wish{}))(t)
			d := toolchain.Environment(h, s, kernels)
			for _, name := range tt.changed {
				if !strings.Contains(changed(d), " "+name+"=") {
					t.Errorf("%s is left: %s", name, changed(d))
				}
			}
			env := h.Apply(h.Env, d)
			if strings.Contains(env.Get("LIB"), `\x86`) || env.Get("VCToolsVersion") != "14.44.35207" ||
				env.Get("VSCMD_ARG_TGT_ARCH") != "x64" {
				t.Errorf("LIB=%s VCToolsVersion=%s VSCMD_ARG_TGT_ARCH=%s", env.Get("LIB"), env.Get("VCToolsVersion"),
					env.Get("VSCMD_ARG_TGT_ARCH"))
			}
			h.Env = env
			if cl, err := h.LookPath("cl"); err != nil || cl != s.MSVC.Toolset.CL {
				t.Errorf("nvcc would take %s, %v", cl, err)
			}
		})
	}
}

// TestNoCompilerForARM holds that a Visual Studio on ARM without a compiler for ARM is to get that one, not a second Visual Studio.
func TestNoCompilerForARM(t *testing.T) {
	text := hosttest.Must(os.ReadFile("../testdata/hosts/windows-arm64.txtar"))(t)
	h, err := hosttest.Parse([]byte(strings.NewReplacer(`\arm64\cl.exe`, `\x64\cl.exe`).Replace(string(text))))
	if err != nil {
		t.Fatal(err)
	}
	_, err = toolchain.Choose(windows(h), kernels, toolchain.Wish{})
	if err == nil || !strings.Contains(err.Error(), "it has no cl.exe that runs here and builds for arm64") ||
		!strings.Contains(err.(interface{ Hint() string }).Hint(), `to Visual Studio 2022 Community 17.14.36015.10: Visual Studio `+
			`Installer, Modify, Individual components, "MSVC … C++ ARM64/ARM64EC build tools"`) {
		t.Errorf("got %v", err)
	}
}

// TestBrokenVisualStudio: what is installed is repaired, what is too old is not; without any, Microsoft's Installer is not there either.
func TestBrokenVisualStudio(t *testing.T) {
	text, err := os.ReadFile("../testdata/hosts/windows-usual.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const winget = "install the Build Tools with C++: `winget install"
	for _, tt := range []struct {
		story, want string
		change      []string
	}{
		{"cl.exe is gone", "repair Visual Studio 2022 Community", []string{`\cl.exe`, `\gone.exe`}},
		{"the libraries are gone", "repair Visual Studio 2022 Community", []string{`\lib\x64\libcmt.lib`, `\gone\x`}},
		{"2017 alone", winget, []string{"17.14.36015", "15.9.36015", "14.44.35207", "14.16.27023", "< 1910", "< 1920"}},
		{"no Visual Studio", winget, []string{`\Microsoft Visual Studio`, `\Other`, "_Instances", "Other"}},
	} {
		h, err := hosttest.Parse([]byte(strings.NewReplacer(tt.change...).Replace(string(text))))
		if err != nil {
			t.Fatal(err)
		}
		f := windows(h)
		if _, err = toolchain.Choose(f, kernels, toolchain.Wish{}); !strings.HasPrefix(exit.Hint(err), tt.want) {
			t.Errorf("%s: %v: %q", tt.story, err, exit.Hint(err))
		}
		if fix := toolchain.SDKFix(f); strings.HasPrefix(fix, winget) != (tt.story == "no Visual Studio") {
			t.Errorf("%s: an SDK: %s", tt.story, fix)
		}
	}
}
