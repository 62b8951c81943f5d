package config

import (
	"errors"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

func TestUserPath(t *testing.T) {
	for _, tt := range []struct {
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
	} {
		hosttest.Equal(t, UserPath(buildenv.Host{OS: tt.os, Home: tt.home, Env: buildenv.NewEnv(tt.os, tt.env)}), tt.want, tt.name)
	}
}

func TestWithCUDA(t *testing.T) {
	for name, tt := range map[string]struct{ data, cuda, want, err string }{
		"a new file": {"", "13.4", "cuda = \"13.4\"\n", ""},
		"another one": {
			"# mine\ncuda = \"12.8\" # old\nredist = \"/r\"\n",
			"13.4",
			"# mine\ncuda = \"13.4\" # old\nredist = \"/r\"\n",
			"",
		},
		"of Windows' lines":    {"cuda = '12'\r\ntrust = []\r\n", "13", "cuda = \"13\"\r\ntrust = []\r\n", ""},
		"none":                 {"# mine\ncuda = '12.8'", "", "# mine\n", ""},
		"none where none was":  {"redist = \"/r\"\n", "", "redist = \"/r\"\n", ""},
		"next to another":      {"redist = \"/r\"\n", "13", "cuda = \"13\"\nredist = \"/r\"\n", ""},
		"a path of Windows":    {"", `C:\Program Files\cüda`, "cuda = \"C:\\\\Program Files\\\\cüda\"\n", ""},
		"in several lines":     {"cuda = \"\"\"\n13\"\"\"\n", "12", "", "cannot be changed"},
		"a file that is wrong": {"cuda = \n", "12", "", "config.toml:1"},
		"an unknown key":       {"cuda = '12'\nfetch = true\n", "13", "", `config.toml:2: unknown key "fetch"`},
		"a key of a table":     {"[on.x]\nplace = 'slurm'\nargs = []\ncuda = '12'\n", "13", "", `unknown key "on.x.cuda"`},
		"a place that is none": {"[on.a]\n", "13", "", "either a command or a place"},
		"a trusted name":       {"trust = ['/a', 'b']\n", "13", "", `config.toml:1: trust: "b" is no absolute path`},
		"a trusted ~":          {"trust = ['~/b']\n", "13", "", "is no absolute path"},
		"a trusted pattern":    {"trust = ['/b/*']\n", "13", "", "is no absolute path"},
		"trusted, and empty":   {"trust = ['']\n", "13", "", "is no absolute path"},
		"trusted on Windows":   {"trust = ['C:\\b']\n", "13", "cuda = \"13\"\ntrust = ['C:\\b']\n", ""},
		"no download":          {"cuda = 'fetch'\n", "13", "", "names no toolkit"},
	} {
		got, err := WithCUDA("config.toml", []byte(tt.data), tt.cuda)
		var hint *Error
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || !errors.As(err, &hint) || hint.Hint() == ""):
			t.Errorf("%s: got %v, want %q", name, err, tt.err)
		case tt.err == "" && (err != nil || string(got) != tt.want):
			t.Errorf("%s: got %q, %v; want %q", name, got, err, tt.want)
		}
	}
}
