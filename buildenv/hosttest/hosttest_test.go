package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
)

func TestALinuxMachine(t *testing.T) {
	h := Load(t, "sample-linux")
	if h.OS != "linux" || h.Arch != "amd64" || h.Kernel != "6.1.0-18-amd64" || h.Home != "/home/u" || h.Cwd != "/home/u/app" || h.CPUs != 8 {
		t.Errorf("got %+v", h)
	}
	if v, ok := h.Env.Lookup("EMPTY"); v != "" || !ok || h.Env.Get("QUOTED") != `"as it is" # no comment` || len(h.Env.Names()) != 4 {
		t.Errorf("got %q", h.Env.Entries())
	}
	read := func(path string) string {
		data, err := h.ReadFile(path, buildenv.Note)
		return Outcome(string(data), err)
	}
	real := func(path string) string { return Outcome(h.Files.EvalSymlinks(path)) }
	for _, tt := range []struct{ name, got, want string }{
		{"a file", read("/usr/local/cuda-13.4/version.json"), "{\"cuda\": {\"version\": \"13.4.92\"}}\n"},
		{"through a link", read("/usr/local/cuda/include/cuda.h"), "#define CUDA_VERSION 13040"},
		{"hex", read("/usr/lib/libtiny.so"), "\x7fELF\x02\x01\x01\x00"},
		{"base64", read("/etc/text"), "hello"},
		{"crlf", read("/etc/crlf"), "one\r\ntwo\r\n"},
		{"size", read("/var/big"), "head\n" + strings.Repeat("\x00", 995)},
		{"blanks in a name", read("/home/u/app/a name with blanks"), "yes\n"},
		{"empty", read("/usr/local/cuda/lib64/libcudart.so"), ""},
		{"unreadable", read("/etc/secret"), "open /etc/secret: permission denied"},
		{"nothing there", read("/etc/none"), "open /etc/none: file does not exist"},
		{"below a file", read("/etc/text/none"), "open /etc/text/none: not a directory: file does not exist"},
		{"a directory", read("/etc"), "read /etc: is a directory"},
		{"links in a circle", read("/etc/loop"), "open /etc/loop: too many levels of symbolic links"},
		{"a link to nothing", read("/etc/dangling"), "open /etc/dangling: file does not exist"},
		{"a relative path", read("etc/text"), "open etc/text: file does not exist"},
		{"the real name", real("/usr/local/cuda/lib64/libcudart.so"), "/usr/local/cuda-13.4/lib64/libcudart.so.13"},
		{"a link with dots goes up from where it leads", real("/opt/up/nvcc"), "/usr/local/cuda-13.4/bin/nvcc"},
		{"the root", real("/.."), "/"},
		{"PATH", Outcome(h.LookPath("nvcc")), "/usr/local/cuda/bin/nvcc"},
		{"PATH, a program that is not there", Outcome(h.LookPath("cl")), "cl is not in any directory of PATH"},
		{"WSL", fmt.Sprint(h.IsWSL()), "false"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	if !h.IsDir("/home/u/app/target") || h.IsFile("/home/u/app/target") || !h.IsDir("/usr/local/cuda") {
		t.Error("directories are none")
	}
	if _, err := h.Files.ReadDir("/root"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if fi, err := h.Files.Stat("/etc/mode"); err != nil || fi.Mode() != 0o640 {
		t.Errorf("got %v, %v", fi, err)
	}
	if _, err := h.Registry.String(`HKLM\SOFTWARE`, "x", 64); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestADirectoryIsListedAsTheSystemDoes(t *testing.T) {
	h := Load(t, "sample-linux")
	list, err := h.Files.ReadDir("/usr/local")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprint(e.Type(), " ", e.Name()))
	}
	if want := []string{"L--------- cuda", "d--------- cuda-13.4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAFileCanBeReadAnywhere(t *testing.T) {
	f, err := Load(t, "sample-linux").Files.Open("/etc/text")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := make([]byte, 2)
	if _, err := f.(io.ReaderAt).ReadAt(at, 3); err != nil || string(at) != "lo" {
		t.Errorf("got %q, %v", at, err)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != 5 || fi.Name() != "text" {
		t.Errorf("got %v, %v", fi, err)
	}
}

func TestAWindowsMachine(t *testing.T) {
	h := Load(t, "sample-windows")
	value := func(key, name string, view int) string { return Outcome(h.Registry.String(key, name, view)) }
	list := func(names []string, err error) string { return Outcome(strings.Join(names, ", "), err) }
	const cuda = `HKLM\SOFTWARE\NVIDIA Corporation\GPU Computing Toolkit\CUDA`
	for _, tt := range []struct{ name, got, want string }{
		{"letter case does not count", Outcome(h.Files.EvalSymlinks(`c:\PROGRAM FILES\cuda\BIN\NVCC.EXE`)), `C:\Program Files\CUDA\bin\nvcc.exe`},
		{"both separators", Outcome(h.Files.EvalSymlinks(`C:/Windows/./x/../system32/cmd.exe`)), `C:\Windows\system32\cmd.exe`},
		{"a junction", Outcome(h.Files.EvalSymlinks(`C:\cuda\bin\nvcc.exe`)), `C:\Program Files\CUDA\bin\nvcc.exe`},
		{"a share", Outcome(h.Files.EvalSymlinks(`\\SERVER\share\tools\cl.exe`)), `\\server\share\tools\cl.exe`},
		{"no such drive", Outcome(h.Files.EvalSymlinks(`D:\x`)), `lstat D:\x: file does not exist`},
		{"PATH", Outcome(h.LookPath("nvcc")), `C:\Program Files\CUDA\bin\nvcc.exe`},
		{"variables", h.Env.Get("PROGRAMFILES(X86)"), `C:\Program Files (x86)`},
		{"a value", value(cuda+`\v13.2`, "installdir", 64), `C:\Program Files\CUDA`},
		{"the default value", value(cuda+`\v13.2`, "", 64), "the default value"},
		{"not in the other view", value(cuda+`\v13.2`, "InstallDir", 32), "open key " + cuda + `\v13.2: file does not exist`},
		{"only in the other view", value(`HKLM\SOFTWARE\Microsoft\Microsoft SDKs\Windows\v10.0`, "InstallationFolder", 32), `C:\Program Files (x86)\Windows Kits\10\`},
		{"a value with =", value(`hkey_local_machine\software\microsoft\microsoft sdks\windows\V10.0`, "odd", 32), "a=b"},
		{"in both views", value(`HKLM\SOFTWARE\Shared`, "x", 32) + value(`HKLM\SOFTWARE\Shared`, "x", 64), "11"},
		{"keys that Windows shares", value(`HKLM\SYSTEM\CurrentControlSet\Control`, "x", 32) + value(`HKCU\Software\Mine`, "x", 32), "23"},
		{"no such value", value(`HKLM\SOFTWARE\Shared`, "y", 64), `read value HKLM\SOFTWARE\Shared\y: file does not exist`},
		{"unreadable", value(`HKLM\SOFTWARE\Secret`, "x", 64), `open key HKLM\SOFTWARE\Secret: permission denied`},
		{"keys", list(h.Registry.Keys(cuda, 64)), "v13.2"},
		{"keys on the way", list(h.Registry.Keys(`HKLM\SOFTWARE`, 64)), "NVIDIA Corporation, Secret, Shared"},
		{"values", list(h.Registry.Values(cuda+`\v13.2`, 64)), ", 64BitInstalled, InstallDir"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	if h.CPUs != 4 {
		t.Errorf("%d processors", h.CPUs)
	}
}

func TestMistakesInAMachine(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"arch: amd64\n", `os: "": want linux, windows or darwin`},
		{"os: beos\n", `os: "beos": want linux, windows or darwin`},
		{"os: linux\ncolour: red\n", `line 2: unknown key "colour": want os, arch, kernel, home, cwd or cpus`},
		{"os: linux\nhello\n", `line 2: "hello": want key: value`},
		{"os: linux\ncpus: many\n", `line 2: strconv.Atoi: parsing "many": invalid syntax`},
		{"os: linux\n-- etc/x --\n", "section etc/x: neither an absolute path by the rules of linux nor one of @env, @links, @dirs, @empty, @registry, $ command"},
		{"os: linux\n-- C:\\x --\n", "section C:\\x: neither an absolute path by the rules of linux nor one of @env, @links, @dirs, @empty, @registry, $ command"},
		{"os: linux\n-- /x --\n-- /x --\n", "section /x: /x: given twice"},
		{"os: windows\n-- C:\\x --\n-- c:/X --\n", "section c:/X: c:/X: given twice"},
		{"os: linux\n-- /x --\n-- /x/y --\n", "section /x/y: /x/y: x is given as a file or link, too"},
		{"os: linux\n-- /x +fast --\n", "section /x +fast: unknown attribute +fast"},
		{"os: linux\n-- /x +hex --\nxyz\n", "section /x +hex: encoding/hex: invalid byte: U+0078 'x'"},
		{"os: linux\n-- @links --\n/a /b\n", `section @links: "/a /b": want LINK -> TARGET`},
		{"os: linux\n-- @registry --\nx=1\n", `section @registry: "x=1": want NAME=VALUE below a [KEY]`},
		{"os: linux\n-- --\n", "line 2: a section without a name"},
		{"os: linux\n-- $ gcc 'x --\n", "section $ gcc 'x: a quote ' is never closed"},
	} {
		if _, err := Parse([]byte(tt.text)); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestCommandsOfAMachine(t *testing.T) {
	_, s := LoadCommands(t, "sample-linux")
	ctx := context.Background()
	for i := 0; i < 2; i++ {
		r, err := s.Run(ctx, buildenv.Cmd{Path: "/usr/bin/gcc", Args: []string{"--version"}})
		if err != nil || string(r.Stdout) != "gcc (Debian 12.2.0-14+deb12u1) 12.2.0\n" {
			t.Errorf("got %s, %v", r.Stdout, err)
		}
	}
	r, err := s.Run(ctx, buildenv.Cmd{Path: "/usr/bin/nvidia-smi", Args: []string{"--query gpu", ""}})
	var exit *buildenv.ExitError
	if !errors.As(err, &exit) || r.Code != 9 || err.Error() != "nvidia-smi --query gpu: exit status 9:\nNVIDIA-SMI has failed" {
		t.Errorf("got %+v, %v", r, err)
	}
	if got := len(s.Asked()); got != 3 {
		t.Errorf("%d commands were asked", got)
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }

func TestAScriptThatIsNotKept(t *testing.T) {
	rec := &recorder{TB: t}
	s := NewScript(rec,
		Step{Path: "cargo", Prefix: []string{"build"}, Check: func(c buildenv.Cmd) error {
			if len(c.Env) == 0 {
				return errors.New("no environment")
			}
			return nil
		}},
		Step{Path: "/bin/never", Args: []string{}},
		Step{Path: "broken", Err: io.ErrUnexpectedEOF},
		Step{Path: "maybe", Many: true},
	)
	ctx := context.Background()
	var out strings.Builder
	if _, err := s.Run(ctx, buildenv.Cmd{Path: `C:\x\cargo`, Args: []string{"build", "-v"}, Stdout: &out}); err != nil {
		t.Error(err)
	}
	if _, err := s.Run(ctx, buildenv.Cmd{Path: "/x/broken"}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Run(ctx, buildenv.Cmd{Path: "/x/cargo", Args: []string{"build"}}); err == nil {
		t.Error("a step answered twice")
	}
	for _, f := range rec.cleanups {
		f()
	}
	want := []string{`C:\x\cargo build -v: no environment`, "unexpected command: /x/cargo build", "never run: /bin/never"}
	if !slices.Equal(rec.errors, want) {
		t.Errorf("got %q, want %q", rec.errors, want)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Run(ctx, buildenv.Cmd{Path: "maybe"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// FuzzParse: a machine that a user sends may be anything.
func FuzzParse(f *testing.F) {
	f.Add(read(f, "sample-linux"))
	f.Add(read(f, "sample-windows"))
	f.Add([]byte("os: windows\n-- @links --\nC:\\ -> \\\\a\\b\n\\\\x\\y\\z -> ..\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Parse(data)
		if err != nil {
			return
		}
		for _, p := range []string{"/etc/loop", `C:\cuda\bin`, `\\x\y\z`, h.Cwd, h.Home} {
			if real, err := h.Files.EvalSymlinks(p); err == nil {
				if again, err := h.Files.EvalSymlinks(real); err != nil || again != real {
					t.Errorf("%s is really %s is really %s, %v", p, real, again, err)
				}
			}
			if list, err := h.Files.ReadDir(p); err == nil && !slices.IsSortedFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
				t.Errorf("%s is not sorted", p)
			}
		}
	})
}
