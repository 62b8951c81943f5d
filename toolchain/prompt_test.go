package toolchain_test

import (
	"os"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
)

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
			text, err := os.ReadFile("../testdata/hosts/windows-prompt.txtar")
			if err != nil {
				t.Fatal(err)
			}
			h, err := hosttest.Parse([]byte(tt.change.Replace(string(text))))
			if err != nil {
				t.Fatal(err)
			}
			s, err := toolchain.Choose(windows(h), kernels, toolchain.Wish{})
			if err != nil {
				t.Fatal(err)
			}
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
	text, err := os.ReadFile("../testdata/hosts/windows-arm64.txtar")
	if err != nil {
		t.Fatal(err)
	}
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
