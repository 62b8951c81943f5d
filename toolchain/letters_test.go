package toolchain_test

import (
	"cmp"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
)

func TestLettersOfDirectories(t *testing.T) {
	for _, tt := range []struct {
		os, target, tmp string
		nvcc            bool
		want            []string
		at              string // of nvcc
	}{
		{"windows", `C:\src\app\target`, `C:\Users\DMITRI~1\AppData\Local\Temp`, true, nil, ""},
		{"windows", `C:\проект\target`, `C:\Users\Дмитрий\AppData\Local\Temp`, true,
			[]string{`the target directory is C:\проект\target`, `temporary files is C:\Users\Дмитрий`}, ""},
		{"windows", `C:\t`, `C:\tmp`, true, []string{`nvcc is C:\кэш\bin\nvcc.exe`}, `C:\кэш\bin\nvcc.exe`},
		{"windows", `C:\проект\target`, `C:\tmp`, false, nil, ""},
		{"linux", `/home/дмитрий/target`, `/tmp`, true, nil, ""},
	} {
		text := "os: " + tt.os + "\narch: amd64\n-- @env --\nTMP=" + tt.tmp + "\n"
		h, err := hosttest.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := toolchain.Unreadable(h, toolchain.Needs{NVCC: tt.nvcc}, &cuda.Toolkit{NVCC: cmp.Or(tt.at, `C:\cuda\bin\nvcc.exe`)}, tt.target)
		if len(got) != len(tt.want) {
			t.Errorf("%+v: %q", tt, got)
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%q, want %q", got[i], want)
			}
		}
	}
}

// TestLongPath: a PATH that cmd.exe cannot hand on is said, and stays as it is.
func TestLongPath(t *testing.T) {
	for length, want := range map[int]bool{7000: false, 7001: true} {
		h := buildenv.Host{OS: buildenv.Windows, Env: buildenv.NewEnv(buildenv.Windows, []string{"PATH=" + strings.Repeat("x", length)})}
		notes := toolchain.Unreadable(h, toolchain.Needs{NVCC: true}, &cuda.Toolkit{}, `C:\t`)
		if said := len(notes) > 0; said != want {
			t.Errorf("%d: %q", length, notes)
		}
	}
}
