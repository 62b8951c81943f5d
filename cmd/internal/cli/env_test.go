package cli

import (
	"testing"

	"gpubuild/buildenv"
)

func TestUsualShell(t *testing.T) {
	for _, tt := range []struct {
		os, want string
		env      []string
	}{
		{"windows", "pwsh", nil},
		{"windows", "bash", []string{"MSYSTEM=MINGW64", `SHELL=C:\Program Files\Git\usr\bin\bash.exe`}},
		{"windows", "cmd", []string{"PROMPT=$P$G", `PSModulePath=C:\Program Files\WindowsPowerShell\Modules`}},
		{"windows", "pwsh", []string{"PROMPT=$P$G", `PSModulePath=C:\Users\u\Documents\PowerShell\Modules;C:\Program ` +
			`Files\PowerShell\Modules`}},
		{"linux", "fish", []string{"SHELL=/usr/bin/fish"}},
		{"linux", "bash", []string{"SHELL=/bin/dash"}},
	} {
		if got := buildenv.UsualShell(buildenv.Host{OS: tt.os, Home: `C:\Users\u`, Env: buildenv.NewEnv(tt.os, tt.env)}); got != tt.want {
			t.Errorf("%s %v: got %s, want %s", tt.os, tt.env, got, tt.want)
		}
	}
}
