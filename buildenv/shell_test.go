package buildenv_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// a base environment with what real ones have: a PATH, an empty variable, one with blanks.
func base(os string) buildenv.Env {
	if os == buildenv.Windows {
		return buildenv.NewEnv(os, []string{`Path=C:\Windows\system32;C:\Windows`, `INCLUDE=C:\inc`, `ProgramFiles(x86)=C:\Program Files (x86)`, "OLD=1"})
	}
	return buildenv.NewEnv(os, []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH=", "GREETING=hello world", "OLD=1", "HOME=/nonexistent"})
}

func change(op buildenv.Op, name, value string) buildenv.Change {
	return buildenv.Change{Name: name, Op: op, Value: value, Reason: "a test"}
}

func delta(c ...buildenv.Change) buildenv.Delta { return buildenv.Delta{Changes: c} }

// stories are deltas that every POSIX-like shell must carry out.
var stories = []struct {
	name  string
	delta buildenv.Delta
}{
	{"nothing", delta()},
	{"a toolkit", delta(
		change(buildenv.Prepend, "PATH", "/opt/cuda/bin"),
		change(buildenv.Set, "CUDA_HOME", "/opt/cuda"),
		change(buildenv.Set, "CUDA_PATH", "/opt/cuda"),
		change(buildenv.Unset, "OLD", ""))},
	{"two directories, the last one first", delta(
		change(buildenv.Prepend, "PATH", "/opt/cuda/bin"),
		change(buildenv.Prepend, "PATH", "/opt/gcc 12/bin"))},
	{"a directory behind", delta(change(buildenv.Append, "PATH", "/opt/late"))},
	{"before and behind", delta(change(buildenv.Prepend, "PATH", "/a"), change(buildenv.Append, "PATH", "/z"))},
	{"a directory that was there already moves to the front", delta(change(buildenv.Prepend, "PATH", "/usr/bin"))},
	{"a list that was empty gets no empty entry", delta(change(buildenv.Prepend, "LD_LIBRARY_PATH", "/opt/cuda/lib64"))},
	{"a list that was not set", delta(change(buildenv.Append, "LIBRARY_PATH", "/opt/cuda/lib64"))},
	{"both around a list that was not set", delta(change(buildenv.Prepend, "CPATH", "/a"), change(buildenv.Append, "CPATH", "/z"))},
	{"a list with another name", delta(change(buildenv.Prepend, "CLASSES", "/x"), change(buildenv.Prepend, "GREETING", "/y"))},
	{"set, then put before", delta(change(buildenv.Set, "PATH", "/bin"), change(buildenv.Prepend, "PATH", "/x y"))},
	{"set and unset again", delta(change(buildenv.Set, "GONE", "1"), change(buildenv.Unset, "GONE", ""))},
	{"an empty value", delta(change(buildenv.Set, "EMPTY", ""))},
	{"blanks", delta(change(buildenv.Set, "V", "  two  blanks\t "))},
	{"quotes", delta(change(buildenv.Set, "V", `it's "so" '' \' \" `+"`id`"))},
	{"dollars and percent", delta(change(buildenv.Set, "V", "$HOME ${HOME} $(id) %PATH% !! ~ * ? [a] {b,c} &;|<># \\"))},
	{"lines", delta(change(buildenv.Set, "V", "one\ntwo\n\n'three'\n"))},
	{"tabs and bells", delta(change(buildenv.Set, "V", "\a\b\t\x1b[0m\x7f\r"))},
	{"letters", delta(change(buildenv.Set, "V", "Grüße 世界 😀 ‘quoted’"))},
	{"a directory of any name", delta(change(buildenv.Prepend, "PATH", `/o'p"t/$x/%y%/ü`))},
	{"a list with a backslash", delta(change(buildenv.Set, "MY_PATH", `/a\b:/c:d`))},
}

// sourced reads the text in a shell whose environment is base, and answers the environment that its children get.
func sourced(t testing.TB, shell, text string, env []string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "env.txt")
	hosttest.OK(t, os.WriteFile(file, []byte(text), 0o600))
	args := map[string][]string{
		"bash": {"--noprofile", "--norc", "-c", `. "$0" && exec /usr/bin/env -0`, file},
		"zsh":  {"-f", "-c", `. "$0" && exec /usr/bin/env -0`, file},
		"fish": {"--no-config", "-c", "source '" + file + "'; and exec /usr/bin/env -0"},
		"pwsh": {"-NoProfile", "-NonInteractive", "-Command", ". '" + file + ".ps1'; & /usr/bin/env -0"},
	}[shell]
	if shell == "pwsh" {
		hosttest.OK(t, os.Rename(file, file+".ps1"))
	}
	path := need.Tool(t, shell)
	cmd := exec.Command(path, args...)
	cmd.Env = append(env, "XDG_CONFIG_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s\nof\n%s", shell, err, &stderr, text)
	}
	return entries(string(out))
}

func entries(out string) map[string]string {
	got := map[string]string{}
	for _, e := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		name, value, _ := strings.Cut(e, "=")
		got[name] = value
	}
	return got
}

// compare looks at every variable of the wanted environment, and at those that must be gone.
func compare(t testing.TB, text string, got map[string]string, want buildenv.Env, d buildenv.Delta) {
	t.Helper()
	for _, name := range want.Names() {
		if v, ok := got[name]; !ok || v != want.Get(name) {
			t.Errorf("%s is %q (%v), want %q, from\n%s", name, v, ok, want.Get(name), text)
		}
	}
	for _, c := range d.Changes {
		if _, ok := want.Lookup(c.Name); !ok {
			if v, ok := got[c.Name]; ok {
				t.Errorf("%s is still %q, from\n%s", c.Name, v, text)
			}
		}
	}
}

// TestShellsCarryOutADelta asks the shells themselves: what they make of the text is what Host.Apply says.
func TestShellsCarryOutADelta(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Linux}
	for _, shell := range []string{"bash", "zsh", "fish", "pwsh"} {
		t.Run(shell, func(t *testing.T) {
			need.Tool(t, shell)
			for _, s := range stories {
				t.Run(s.name, func(t *testing.T) {
					text, err := buildenv.Export(shell, h, base(h.OS), s.delta)
					var cannot *buildenv.ExportError
					if errors.As(err, &cannot) {
						if shell == "bash" || shell == "zsh" {
							t.Fatal(err)
						}
						return // refused
					}
					if err != nil {
						t.Fatal(err)
					}
					compare(t, text, sourced(t, shell, text, base(h.OS).Entries()), h.Apply(base(h.OS), s.delta), s.delta)
				})
			}
		})
	}
}

// TestRelativeListsFollowTheVariable: text that was stored must not take away what PATH gets later.
func TestRelativeListsFollowTheVariable(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Linux}
	d := delta(change(buildenv.Prepend, "PATH", "/opt/cuda/bin"), change(buildenv.Prepend, "LD_LIBRARY_PATH", "/l"))
	later := []string{"PATH=/new:/usr/bin:/bin"}
	for _, shell := range []string{"bash", "zsh", "fish", "pwsh"} {
		t.Run(shell, func(t *testing.T) {
			need.Tool(t, shell)
			text := hosttest.Must(buildenv.Export(shell, h, base(h.OS), d))(t)
			got := sourced(t, shell, text, later)
			if got["PATH"] != "/opt/cuda/bin:/new:/usr/bin:/bin" || got["LD_LIBRARY_PATH"] != "/l" {
				t.Errorf("PATH=%s LD_LIBRARY_PATH=%s from\n%s", got["PATH"], got["LD_LIBRARY_PATH"], text)
			}
		})
	}
}

// Files have readers of their own, written here after their documentation.
func TestFileFormsSayADelta(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Linux}
	readers := map[string]func(*testing.T, string) map[string]string{
		"github": readGitHub, "cargo-config": readCargo, "json": readJSON, "vscode": readVSCode,
	}
	for shell, read := range readers {
		written := 0
		for _, s := range stories {
			t.Run(shell+"/"+s.name, func(t *testing.T) {
				text, err := buildenv.Export(shell, h, base(h.OS), s.delta)
				var cannot *buildenv.ExportError
				if errors.As(err, &cannot) {
					return // refused
				}
				if err != nil {
					t.Fatal(err)
				}
				written++
				got := read(t, text)
				want := h.Apply(base(h.OS), s.delta)
				for _, c := range s.delta.Changes {
					w, set := want.Lookup(c.Name)
					if g, ok := got[c.Name]; ok != set || g != w {
						t.Errorf("%s is %q (%v), want %q (%v), from\n%s", c.Name, g, ok, w, set, text)
					}
				}
			})
		}
		if written < len(stories)/2 {
			t.Errorf("%s refused all but %d of %d", shell, written, len(stories))
		}
	}
}

func readGitHub(t *testing.T, text string) map[string]string {
	got := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" {
			continue
		}
		name, end, ok := strings.Cut(lines[i], "<<")
		if !ok {
			t.Fatalf("no block: %q", lines[i])
		}
		var value []string
		for i++; lines[i] != end; i++ {
			value = append(value, lines[i])
		}
		got[name] = strings.Join(value, "\n")
	}
	return got
}

func readCargo(t *testing.T, text string) map[string]string {
	var c struct {
		Env map[string]struct {
			Value string
			Force bool
		}
	}
	if _, err := toml.Decode(text, &c); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	got := map[string]string{}
	for name, v := range c.Env {
		if !v.Force {
			t.Errorf("%s would not override", name)
		}
		got[name] = v.Value
	}
	return got
}

func readJSON(t *testing.T, text string) map[string]string {
	var v struct {
		Changes   []buildenv.Change
		Variables map[string]*string
	}
	hosttest.OK(t, json.Unmarshal([]byte(text), &v))
	return present(v.Variables)
}

func readVSCode(t *testing.T, text string) map[string]string {
	var v map[string]map[string]*string
	hosttest.OK(t, json.Unmarshal([]byte(text), &v))
	got := present(v["rust-analyzer.cargo.extraEnv"])
	for name, value := range present(v["terminal.integrated.env.linux"]) {
		env := base(buildenv.Linux)
		if value = strings.ReplaceAll(value, "${env:"+name+"}", env.Get(name)); value != got[name] {
			t.Errorf("the terminal's %s is %q, rust-analyzer's %q", name, value, got[name])
		}
	}
	return got
}

func present(in map[string]*string) map[string]string {
	out := map[string]string{}
	for name, v := range in {
		if v != nil {
			out[name] = *v
		}
	}
	return out
}

// TestWindowsForms holds the text itself: those shells are not on this machine.
func TestWindowsForms(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Windows}
	toolkit := delta(
		change(buildenv.Prepend, "PATH", `C:\Program Files\CUDA\v13.2\bin`),
		change(buildenv.Set, "CUDA_PATH", `C:\Program Files\CUDA\v13.2`),
		change(buildenv.Unset, "OLD", ""))
	for _, tt := range []struct {
		name, shell string
		delta       buildenv.Delta
		want        string
	}{
		{"cmd, a toolkit", "cmd", toolkit, "@set \"PATH=C:\\Program Files\\CUDA\\v13.2\\bin;%PATH%\"\r\n@set \"CUDA_PATH=C:\\Program Files\\CUDA\\v13.2\"\r\n@set \"OLD=\"\r\n"},
		{"cmd, percent and ampersand", "cmd", delta(change(buildenv.Set, "V", `50%PATH% & "`)), `!V cannot be written for cmd: cmd cannot quote a value that holds " and one of & | < > ^`},
		{"cmd, percent", "cmd", delta(change(buildenv.Set, "V", `50%PATH% & ^x`)), "@set \"V=50%%PATH%% & ^x\"\r\n"},
		{"cmd, a list that was not set", "cmd", delta(change(buildenv.Prepend, "LIB", `C:\l`)), "@set \"LIB=C:\\l\"\r\n"},
		{"cmd, letters", "cmd", delta(change(buildenv.Set, "V", `C:\Jürgen`)), "@for /f \"tokens=2 delims=:.\" %%a in ('chcp') do @set \"GPUBUILD_CODEPAGE=%%a\"\r\n@chcp 65001>nul\r\n@set \"V=C:\\Jürgen\"\r\n@chcp %GPUBUILD_CODEPAGE%>nul\r\n@set \"GPUBUILD_CODEPAGE=\"\r\n"},
		{"cmd, lines", "cmd", delta(change(buildenv.Set, "V", "a\nb")), "!V cannot be written for cmd: cmd ends a command at a line break"},
		{"cmd, too long", "cmd", delta(change(buildenv.Set, "V", strings.Repeat("x", 8200))), "!V cannot be written for cmd: cmd reads no line of more than 8191 characters"},
		{"cmd, a name with parentheses", "cmd", delta(change(buildenv.Set, "ProgramFiles(x86)", `C:\x`)), "@set \"ProgramFiles(x86)=C:\\x\"\r\n"},
		{"pwsh, a toolkit", "pwsh", toolkit, "$env:PATH = 'C:\\Program Files\\CUDA\\v13.2\\bin' + $(if ($env:PATH) { ';' + $env:PATH })\n$env:CUDA_PATH = 'C:\\Program Files\\CUDA\\v13.2'\nRemove-Item -LiteralPath 'Env:OLD' -ErrorAction SilentlyContinue\n"},
		{"powershell, as Windows calls it", "powershell", delta(change(buildenv.Set, "V", "x")), "$env:V = 'x'\n"},
		{"pwsh, quotes", "pwsh", delta(change(buildenv.Set, "ProgramFiles(x86)", "it's ’so’ $x `y")), "${env:ProgramFiles(x86)} = 'it''s ’’so’’ $x `y'\n"},
		{"Git Bash", "bash", toolkit, "export PATH='/c/Program Files/CUDA/v13.2/bin'\"${PATH:+:$PATH}\"\nexport CUDA_PATH='C:\\Program Files\\CUDA\\v13.2'\nunset OLD\n"},
		{"Git Bash, another list", "bash", delta(change(buildenv.Prepend, "INCLUDE", `C:\new`)), "export INCLUDE='C:\\new'\"${INCLUDE:+;$INCLUDE}\"\n"},
		{"Git Bash, the whole PATH", "bash", delta(change(buildenv.Prepend, "PATH", `c:\windows`)), "export PATH='/c/windows:/c/Windows/system32'\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := buildenv.Export(tt.shell, h, base(h.OS), tt.delta)
			if err != nil {
				got = "!" + err.Error()
			}
			hosttest.Equal(t, got, tt.want)
		})
	}
}

// TestRefusals: what a form cannot say is an error that names the variable, never a text that means something else.
func TestRefusals(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Linux}
	set := func(name, value string) buildenv.Delta { return delta(change(buildenv.Set, name, value)) }
	tests := []struct {
		shell string
		delta buildenv.Delta
		want  string
	}{
		{"bash", set("A-B", "1"), "A-B cannot be written for bash: only letters, digits and _ may stand in a name there"},
		{"bash", set("X; rm -rf /", "1"), "X; rm -rf / cannot be written for bash: only letters, digits and _ may stand in a name there"},
		{"bash", set("V", "a\x00b"), "V cannot be written for bash: it holds a NUL byte, which no environment can"},
		{"json", set("V", "\xff"), "V cannot be written for json: it is not UTF-8"},
		{"github", delta(change(buildenv.Unset, "OLD", "")), "OLD cannot be written for github: a step cannot unset a variable for the steps after it"},
		{"github", set("GITHUB_TOKEN", "x"), "GITHUB_TOKEN cannot be written for github: GitHub keeps that variable for itself"},
		{"vscode", set("V", "${env:HOME}"), "V cannot be written for vscode: VS Code would replace its ${…}"},
		{"cargo-config", set("CARGO_HOME", "/x"), "CARGO_HOME cannot be written for cargo-config: cargo does not let [env] set it"},
		{"pwsh", set("V", ""), "V cannot be written for pwsh: PowerShell removes a variable that is set to nothing (before 7.5)"},
	}
	if _, err := buildenv.Export("tcsh", h, base(h.OS), delta()); err == nil || err.Error() != `unknown shell "tcsh"` {
		t.Errorf("got %v", err)
	}
	for _, tt := range tests {
		t.Run(tt.shell+" "+tt.want, func(t *testing.T) {
			text, err := buildenv.Export(tt.shell, h, base(h.OS), tt.delta)
			if err == nil || err.Error() != tt.want || text != "" {
				t.Fatalf("got %q, %v, want %s", text, err, tt.want)
			}
			if hint, ok := err.(interface{ Hint() string }); !ok || hint.Hint() == "" {
				t.Error("the error has no hint")
			}
		})
	}
}

// TestGitHubBlockCannotBeLeft: a value that holds the delimiter does not begin a variable of its own.
func TestGitHubBlockCannotBeLeft(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Linux}
	value := "a\nGPUBUILD_END\nGPUBUILD_END_1\nEVIL<<X\nyes\nX"
	text := hosttest.Must(buildenv.Export("github", h, base(h.OS), delta(change(buildenv.Set, "V", value))))(t)
	if got := readGitHub(t, text); len(got) != 1 || got["V"] != value {
		t.Errorf("got %q", got)
	}
}

// FuzzExport lets bash read any name and value: it gets what was meant, or the form refuses.
func FuzzExport(f *testing.F) {
	for _, s := range stories {
		for _, c := range s.delta.Changes {
			f.Add(c.Name, c.Value, c.Op == buildenv.Prepend)
		}
	}
	bash := need.Tool(f, "bash")
	h := buildenv.Host{OS: buildenv.Linux}
	f.Fuzz(func(t *testing.T, name, value string, prepend bool) {
		d := delta(change(buildenv.Set, name, value))
		if prepend {
			d.Changes[0].Op = buildenv.Prepend
		}
		env := base(h.OS)
		for _, shell := range buildenv.Shells() {
			text, err := buildenv.Export(shell, h, env, d)
			if err != nil && text != "" {
				t.Errorf("%s: %v and a text", shell, err)
			}
			if err == nil && shell != "sh" && shell != "bash" && shell != "zsh" && !utf8.ValidString(text) {
				t.Errorf("%s: not UTF-8", shell)
			}
		}
		// bash keeps some variables for itself.
		switch name {
		case "UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "_", "PWD", "OLDPWD", "SHLVL", "RANDOM", "SECONDS", "LINENO", "POSIXLY_CORRECT", "BASH_ENV", "ENV":
			return
		}
		text, err := buildenv.Export("bash", h, env, d)
		if err != nil || strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "EPOCH") || name == "LANG" || name == "GROUPS" || name == "SRANDOM" || name == "FUNCNAME" || name == "DIRSTACK" || name == "HISTCMD" {
			return
		}
		cmd := exec.Command(bash, "--noprofile", "--norc", "-c", `eval "$0"; exec /usr/bin/env -0`, text)
		cmd.Env = env.Entries()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v of\n%s", err, text)
		}
		compare(t, text, entries(string(out)), h.Apply(env, d), d)
	})
}

func TestDiff(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Windows}
	env := buildenv.NewEnv(h.OS, []string{`Path=C:\Windows`, "GONE=1"})
	d := buildenv.Delta{}
	d.Add(buildenv.Prepend, "PATH", `C:\sdk`, "the SDK")
	d.Add(buildenv.Prepend, "PATH", `C:\cl`, "the SDK")
	d.Add(buildenv.Set, "VSCMD_VER", "17.14", "the prompt")
	d.Add(buildenv.Unset, "gone", "", "in the way")
	d.Add(buildenv.Prepend, "Path", `C:\cuda`, "the toolkit")
	const want = `-PATH=C:\Windows
+PATH=C:\cuda;C:\cl;C:\sdk;C:\Windows
 # the SDK
 # the toolkit
+VSCMD_VER=17.14
 # the prompt
-gone=1
 # in the way
`
	hosttest.Equal(t, buildenv.Diff(h, env, d), want)
}
