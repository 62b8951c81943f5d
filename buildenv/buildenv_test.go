package buildenv_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

func machine(t *testing.T, text string) buildenv.Host {
	return hosttest.Must(hosttest.Parse([]byte(text)))(t)
}

func TestNamesOfVariables(t *testing.T) {
	entries := []string{"Path=a", "PATH=b", "EMPTY=", "A=1=2", `=C:=C:\dir`, "nonsense", "", "="}
	w := buildenv.NewEnv(buildenv.Windows, entries)
	if got, want := w.Entries(), []string{"A=1=2", `=C:=C:\dir`, "EMPTY=", "PATH=b"}; !slices.Equal(got, sorted(want)) {
		t.Errorf("windows: got %q, want %q", got, want)
	}
	if v, ok := w.Lookup("path"); v != "b" || !ok {
		t.Errorf("windows: got %q, %v", v, ok)
	}
	l := buildenv.NewEnv(buildenv.Linux, entries)
	if l.Get("Path") != "a" || l.Get("PATH") != "b" || l.Get("path") != "" {
		t.Errorf("linux: got %q", l.Entries())
	}
	if v, ok := l.Lookup("EMPTY"); v != "" || !ok {
		t.Error("set and empty is taken for unset")
	}
}

func sorted(s []string) []string { s = slices.Clone(s); slices.Sort(s); return s }

func TestAnEnvIsNeverChanged(t *testing.T) {
	e := buildenv.NewEnv(buildenv.Windows, []string{"Path=a"})
	set, unset := e.Set("PATH", "b"), e.Unset("PATH")
	if e.Get("Path") != "a" || len(unset.Names()) != 0 || !slices.Equal(set.Entries(), []string{"Path=b"}) {
		t.Errorf("got %q, %q, %q", e.Entries(), set.Entries(), unset.Entries())
	}
	var zero buildenv.Env
	if got := zero.Set("A", "1").Entries(); !slices.Equal(got, []string{"A=1"}) || len(zero.Unset("A").Names()) != 0 {
		t.Errorf("got %q", got)
	}
}

func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name, os, list string
		op             buildenv.Op
		value, want    string
	}{
		{"before", "linux", "/a:/b", buildenv.Prepend, "/c", "/c:/a:/b"},
		{"before, out of its later places", "linux", "/a:/c/:/b:/c", buildenv.Prepend, "/c", "/c:/a:/b"},
		{"before nothing", "linux", "", buildenv.Prepend, "/c", "/c"},
		{"empty entries go: they mean the current directory", "linux", ":/a::/b:", buildenv.Prepend, "/c", "/c:/a:/b"},
		{"the root is no other directory", "linux", "/:.", buildenv.Prepend, ".", ".:/"},
		{"a backslash belongs to a name", "linux", `/a\`, buildenv.Prepend, "/a", `/a:/a\`},
		{"behind", "linux", "/a:/b", buildenv.Append, "/c", "/a:/b:/c"},
		{"behind, there already", "linux", "/a:/c/", buildenv.Append, "/c", "/a:/c/"},
		{"letters and separators", "windows", `C:\A;C:\b\;D:\c`, buildenv.Prepend, "c:/B", `c:/B;C:\A;D:\c`},
		{"quotes stay", "windows", `"C:\a;b";"C:\c d"`, buildenv.Prepend, `C:\x`, `C:\x;"C:\a;b";"C:\c d"`},
		{"quotes do not make another directory", "windows", `"C:\c d";C:\e`, buildenv.Prepend, `C:\c d`, `C:\c d;C:\e`},
		{"a drive's root", "windows", `C:\;C:\a`, buildenv.Append, `c:/`, `C:\;C:\a`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := buildenv.Host{OS: tt.os}
			e := buildenv.NewEnv(tt.os, []string{"Path=" + tt.list})
			var d buildenv.Delta
			d.Add(tt.op, "Path", tt.value, "a test")
			hosttest.Equal(t, h.Apply(e, d).Get("Path"), tt.want)
			hosttest.Equal(t, e.Get("Path"), tt.list, "the environment itself was changed")
		})
	}
}

func TestPaths(t *testing.T) {
	l, w := buildenv.Host{OS: "linux", Cwd: "/home/u"}, buildenv.Host{OS: "windows", Cwd: `C:\src`}
	is := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	there := w
	there.Env = buildenv.NewEnv(buildenv.Windows, []string{`=D:=D:\data`})
	for _, tt := range []struct{ name, got, want string }{
		{"join", l.Join("/a", "", "b/../c"), "/a/c"},
		{"join, nothing", l.Join("", ""), ""},
		{"join, windows", w.Join(`C:\a`, "b/c", `..\d`), `C:\a\b\d`},
		{"join, a drive", w.Join(`C:\`, "x"), `C:\x`},
		{"a backslash on linux", l.Join("/a", `b\c`), `/a/b\c`},
		{"clean, no way above a drive", w.Clean(`C:/..\..\x`), `C:\x`},
		{"clean, no way above a share", w.Clean(`//server/share/../../x`), `\\server\share\x`},
		{"clean, a share", w.Clean(`\\server\share\`), `\\server\share`},
		{"clean, a long path", w.Clean(`\\?\C:\a\.\b`), `\\?\C:\a\b`},
		{"dir", l.Dir("/a/b"), "/a"},
		{"dir, the root", l.Dir("/"), "/"},
		{"dir, just below the root", l.Dir("/a"), "/"},
		{"dir, a name", l.Dir("a"), "."},
		{"dir, windows", w.Dir(`C:\a\b.exe`), `C:\a`},
		{"dir, just below a drive", w.Dir(`C:\a`), `C:\`},
		{"dir, a drive", w.Dir(`C:\`), `C:\`},
		{"dir, a share", w.Dir(`\\server\share`), `\\server\share`},
		{"dir, below a share", w.Dir(`\\server\share\a`), `\\server\share`},
		{"base", w.Base(`C:\a/b.EXE`), "b.EXE"},
		{"ext", w.Ext(`C:\a.b\c`), ""},
		{"abs", is(l.IsAbs("/a")) + is(l.IsAbs("a")) + is(l.IsAbs(`C:\a`)), "yesnono"},
		{"abs, windows", is(w.IsAbs(`c:/a`)) + is(w.IsAbs(`C:a`)) + is(w.IsAbs(`\a`)) + is(w.IsAbs(`\\s\x`)), "yesnonoyes"},
		{"abs from here", l.Abs("x/../y"), "/home/u/y"},
		{"abs from here, windows", w.Abs(`x\y`), `C:\src\x\y`},
		{"abs on this drive", w.Abs(`c:x\..\y`) + w.Abs(`C:`), `C:\src\yC:\src`},
		{"abs on another drive", w.Abs(`d:x`) + w.Abs(`D:`), `d:\xD:\`},
		{"abs on another drive with a current directory", there.Abs(`d:x`), `D:\data\x`},
		{"abs from the drive's root", w.Abs(`\x`) + w.Abs(`/`), `C:\xC:\`},
		{"from a share, its root", w.From(`\\s\share\a`, `\x`), `\\s\share\x`},
		{"from a directory on another drive", w.From(`D:\data`, `D:x`) + w.From(`D:\data`, `C:\x`), `D:\data\xC:\x`},
		{"a colon on linux", l.Abs("C:x"), "/home/u/C:x"},
		{"same", is(w.SamePath(`C:\A\`, "c:/a")) + is(l.SamePath("/A", "/a")) + is(l.SamePath("/a/", "/a")), "yesnoyes"},
		{"below", is(l.Below("/a/b", "/a")) + is(l.Below("/ab", "/a")) + is(l.Below("/a", "/")) + is(l.Below("/a/../b", "/a")), "yesnoyesno"},
		{"below, windows", is(w.Below(`c:\A\b`, `C:\a`)) + is(w.Below(`C:\a`, `C:\`)) + is(w.Below(`D:\a`, `C:\`)), "yesyesno"},
		{"list", strings.Join(w.SplitList(`C:\a;;"C:\b;c";`), "|"), `C:\a|C:\b;c`},
		{"list, linux", strings.Join(l.SplitList(`:/a::"/b"`), "|"), `/a|"/b"`},
		{"exe", w.Exe("nvcc") + " " + w.Exe("NVCC.EXE") + " " + l.Exe("nvcc"), "nvcc.exe NVCC.EXE nvcc"},
	} {
		hosttest.Equal(t, tt.got, tt.want, tt.name)
	}
}

func FuzzPaths(f *testing.F) {
	f.Add(`C:\a\..\b`, "x")
	f.Add(`\\server\share\..`, "..")
	f.Add("//", "C:")
	f.Add("A:", "")
	f.Add(`C\..\b:`, "")
	f.Fuzz(func(t *testing.T, p, q string) {
		for _, os := range []string{"linux", "windows"} {
			h := buildenv.Host{OS: os}
			c := h.Clean(p)
			hosttest.Equal(t, h.Clean(c), c, os, p)
			if !h.SamePath(p, c) || h.IsAbs(p) != h.IsAbs(c) {
				t.Errorf("%s: %q and %q are two", os, p, c)
			}
			if !h.IsAbs(p) {
				continue
			}
			if !h.Below(h.Join(p, "x"), p) {
				t.Errorf("%s: %q is not below %q", os, h.Join(p, "x"), p)
			}
			if d := h.Dir(p); !h.IsAbs(d) || !h.Below(p, d) {
				t.Errorf("%s: %q is the directory of %q", os, d, p)
			}
			_ = h.Join(p, q)
		}
	})
}

func TestProgramsOnPATH(t *testing.T) {
	linux := machine(t, `os: linux
cwd: /repo
-- @env --
PATH=:.:bin:/repo/../usr/bin:/usr/bin/:/opt/bin:/none
-- @empty --
/repo/cargo +x
/repo/bin/cargo +x
/usr/bin/cargo +x
/opt/bin/cargo +x
/opt/bin/readme
-- @dirs --
/opt/bin/dir
`)
	windows := machine(t, `os: windows
cwd: C:\repo
-- @env --
Path=.;C:\Tools;"C:\My Tools";C:\last
PATHEXT=.COM; .EXE;;.BAT;nonsense
-- @empty --
C:\repo\cargo.exe
C:\Tools\cargo
C:\Tools\cargo.bat
C:\Tools\cargo.exe
C:\My Tools\CARGO.COM
C:\last\python3.11.exe
`)
	for _, tt := range []struct {
		name, program string
		h             buildenv.Host
		want          string
	}{
		{"never the current directory, each directory once", "cargo", linux, "/usr/bin/cargo /opt/bin/cargo"},
		{"a path is no name", "./cargo", linux, ""},
		{"a path with a directory", "bin/cargo", linux, ""},
		{"not executable", "readme", linux, ""},
		{"a directory", "dir", linux, ""},
		{"nothing", "", linux, ""},
		{"windows: by PATHEXT, in its order, quotes off", "cargo", windows, `C:\Tools\cargo.exe C:\My Tools\cargo.com`},
		{"windows: with its extension", "Cargo.BAT", windows, `C:\Tools\Cargo.BAT`},
		{"windows: a dot that is no extension", "python3.11", windows, `C:\last\python3.11.exe`},
		{"windows: a path is no name", `.\cargo.exe`, windows, ""},
		{"windows: a path on a drive is no name", `C:cargo.exe`, windows, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosttest.Equal(t, strings.Join(tt.h.LookPathAll(tt.program), " "), tt.want)
		})
	}
	var none *buildenv.NotOnPathError
	if _, err := linux.LookPath("nvcc"); !errors.As(err, &none) || none.Hint() != "install nvcc or add its directory to PATH" {
		t.Errorf("got %v", err)
	}
}

func TestReadFile(t *testing.T) {
	h := machine(t, "os: linux\n-- /f +chomp --\n12345\n")
	if data, err := h.ReadFile("/f", buildenv.Kind{Most: 5}); err != nil || string(data) != "12345" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := h.ReadFile("/f", buildenv.Kind{Most: 4}); !errors.Is(err, buildenv.ErrUnbounded) || err.Error() != "/f: larger than 4 bytes" {
		t.Errorf("got %v", err)
	}
	if _, err := h.ReadFile("/none", buildenv.Note); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	hosttest.Equal(t, h.Real("/none"), "/none", "a path that cannot be followed is not itself")
}

func TestIsWSL(t *testing.T) {
	for kernel, want := range map[string]bool{
		"5.15.167.4-microsoft-standard-WSL2": true, "4.4.0-19041-Microsoft": true, "6.18.2-WSL2-STABLE+": true, "6.1.0-18-amd64": false, "": false,
	} {
		hosttest.Equal(t, (buildenv.Host{OS: "linux", Kernel: kernel}).IsWSL(), want, kernel)
	}
}

func TestExitError(t *testing.T) {
	c := buildenv.Cmd{Path: `C:\CUDA\bin\nvcc.exe`, Args: []string{"--version", "-v"}, Timeout: 5 * time.Second}
	for _, tt := range []struct {
		name   string
		result buildenv.Result
		want   string
	}{
		{"a code", buildenv.Result{Code: 2}, "nvcc.exe --version: exit status 2"},
		{"a signal", buildenv.Result{Code: 139, Signal: "SIGSEGV"}, "nvcc.exe --version: ended by signal SIGSEGV"},
		{"a timeout", buildenv.Result{Code: 137, Signal: "SIGKILL", TimedOut: true}, "nvcc.exe --version: ended after 5s without an answer"},
		{"the last lines", buildenv.Result{Code: 1, Stderr: []byte("1\n2\n3\n4\n5\n6\n\n")}, "nvcc.exe --version: exit status 1:\n2\n3\n4\n5\n6"},
		{"nvcc.exe complains on stdout, with CR LF", buildenv.Result{Code: 1, Stdout: []byte("nvcc fatal   : one\r\ntwo\r\n")}, "nvcc.exe --version: exit status 1:\nnvcc fatal   : one\ntwo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosttest.Equal(t, (&buildenv.ExitError{Cmd: c, Result: tt.result}).Error(), tt.want)
		})
	}
	hosttest.Equal(t, c.String(), `C:\CUDA\bin\nvcc.exe --version -v`)
}

// TestWords: what a user pastes is quoted for the shells of the system.
func TestWords(t *testing.T) {
	for _, tt := range []struct{ os, word, want string }{
		{buildenv.Linux, "a b", "'a b'"},
		{buildenv.Linux, `a\b`, `'a\b'`},
		{buildenv.Windows, `target\debug\app.exe`, `target\debug\app.exe`},
		{buildenv.Windows, `C:\my dir\`, `"C:\my dir\\"`},
		{buildenv.Windows, `say "hi\"`, `"say \"hi\\\""`},
		{buildenv.Windows, "", `""`},
	} {
		if got := buildenv.Words(tt.os, tt.word, "x"); got != tt.want+" x" {
			t.Errorf("%s on %s: %s", tt.word, tt.os, got)
		}
	}
	if got := buildenv.HowToSet(buildenv.Windows, "X", `D:/a b`); got != "`$env:X = 'D:\\a b'` (cmd: `set X=D:\\a b`)" {
		t.Error(got)
	}
}
