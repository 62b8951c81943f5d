package config

import (
	"testing"

	"gpubuild/buildenv"
)

func TestUserPath(t *testing.T) {
	tests := []struct {
		name, os, home string
		env            []string
		want           string
	}{
		{"linux", buildenv.Linux, "/home/u", nil, "/home/u/.config/gpubuild/config.toml"},
		{"linux, XDG", buildenv.Linux, "/home/u", []string{"XDG_CONFIG_HOME=/data/c"}, "/data/c/gpubuild/config.toml"},
		{
			"linux, a relative XDG is ignored",
			buildenv.Linux,
			"/home/u",
			[]string{"XDG_CONFIG_HOME=c"},
			"/home/u/.config/gpubuild/config.toml",
		},
		{"no home", buildenv.Linux, "", nil, ""},
		{"mac", buildenv.Darwin, "/Users/u", nil, "/Users/u/Library/Application Support/gpubuild/config.toml"},
		{"windows", buildenv.Windows, `C:\Users\u`, []string{`APPDATA=D:\Roaming`}, `D:\Roaming\gpubuild\config.toml`},
		{"windows without the variable", buildenv.Windows, `C:\Users\u`, nil, `C:\Users\u\AppData\Roaming\gpubuild\config.toml`},
		{"our own variable", buildenv.Linux, "/home/u", []string{"GPUBUILD_CONFIG=/x/mine.toml", "XDG_CONFIG_HOME=/y"}, "/x/mine.toml"},
	}
	for _, tt := range tests {
		if got := UserPath(buildenv.Host{OS: tt.os, Home: tt.home, Env: buildenv.NewEnv(tt.os, tt.env)}); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
