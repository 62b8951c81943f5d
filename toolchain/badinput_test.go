package toolchain_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/msvc"
)

// vanishing is a disk on which everything below a directory is removed after a number of looks.
type vanishing struct {
	buildenv.Files
	below string
	left  int
	saw   map[string]bool // the names of the files that were there
}

func (v *vanishing) gone(path string) error {
	if v.left--; v.left < 0 && strings.HasPrefix(path, v.below) {
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return nil
}

func (v *vanishing) Stat(p string) (fs.FileInfo, error) {
	if err := v.gone(p); err != nil {
		return nil, err
	}
	fi, err := v.Files.Stat(p)
	if err == nil {
		v.saw[strings.TrimSuffix(p[strings.LastIndexAny(p, `/\\`)+1:], ".exe")] = true
	}
	return fi, err
}

func (v *vanishing) ReadDir(p string) ([]fs.DirEntry, error) {
	if err := v.gone(p); err != nil {
		return nil, err
	}
	return v.Files.ReadDir(p)
}

func (v *vanishing) Open(p string) (fs.File, error) {
	if err := v.gone(p); err != nil {
		return nil, err
	}
	return v.Files.Open(p)
}

func (v *vanishing) EvalSymlinks(p string) (string, error) {
	if err := v.gone(p); err != nil {
		return "", err
	}
	return v.Files.EvalSymlinks(p)
}

// TestAToolkitRemovedWhileWeRead takes the toolkit away after every single look: what comes of it is the toolkit as it was, or an error
// that says what is missing, and never one without nvcc that is taken for whole.
func TestAToolkitRemovedWhileWeRead(t *testing.T) {
	for _, m := range []struct{ host, below string }{{"linux-usual", "/usr/local/cuda"}, {"windows-usual", `C:\Program Files\NVIDIA GPU`}} {
		whole, failed := 0, 0
		for n := 0; n < 5000; n++ {
			h, run := hosttest.LoadCommands(t, m.host)
			disk := &vanishing{h.Files, m.below, n, map[string]bool{}}
			h.Files = disk
			var f toolchain.Facts
			if h.OS == buildenv.Windows {
				f = windows(h)
			} else {
				f = gather(h, run)
			}
			s, err := toolchain.Choose(f, kernels, toolchain.Wish{})
			var missing *toolchain.MissingError
			var misfit *toolchain.MisfitError
			switch {
			case err == nil && !(disk.saw["nvcc"] && disk.saw["cicc"] && disk.saw["host_config.h"] && disk.saw["cuda_runtime.h"]):
				t.Fatalf("%s after %d looks: taken for whole: %+v", m.host, n, s.Toolkit)
			case err == nil:
				whole++
			case errors.As(err, &missing) || errors.As(err, &misfit):
				failed++
			default:
				t.Fatalf("%s after %d looks: %v", m.host, n, err)
			}
			if disk.left >= 0 {
				break
			}
		}
		if whole == 0 || failed == 0 {
			t.Errorf("%s: %d whole, %d not", m.host, whole, failed)
		}
	}
}

// TestBadMachines has one machine for each kind of bad input that is not told by a stored one.
func TestBadMachines(t *testing.T) {
	toolkit := func(root string) string {
		return "-- @empty --\n" + root + "/bin/nvcc +x\n" + root + "/nvvm/bin/cicc +x\n" + root + "/include/cuda_runtime.h\n" + root +
			"/include/nv/target\n/usr/bin/gcc-12 +x\n/usr/bin/g++-12 +x\n" +
			"-- " + root + "/include/cuda.h --\n#define CUDA_VERSION 13020\n-- " + root + "/include/crt/host_config.h --\n#if __GNUC__ " +
			"> 15\n#error -- unsupported GNU version! gcc versions later than 15 are not supported!\n#endif\n"
	}
	links := "-- @links --\n/usr/bin/gcc -> gcc-12\n/usr/bin/g++ -> g++-12\n"
	var long strings.Builder
	for n := 0; long.Len() < 64<<10; n++ {
		fmt.Fprintf(&long, "/opt/program number %d/bin:", n)
	}
	for _, tt := range []struct{ story, machine, want string }{
		{"a cycle of links in the place of a toolkit", "os: linux\n-- @env --\nPATH=/usr/bin\nCUDA_HOME=/opt/a\n" + links +
			"/opt/a -> b\n/opt/b -> a\n" + toolkit("/usr/local/cuda-13.2"), "/usr/local/cuda-13.2 /usr/bin/gcc"},
		{"a directory that holds itself", "os: linux\n-- @env --\nPATH=/usr/bin\n" + links + "/usr/local/cuda-13.2/include/self -> .\n" +
			"/usr/local/cuda-13.2/lib64 -> lib64\n" + toolkit("/usr/local/cuda-13.2"), "/usr/local/cuda-13.2 /usr/bin/gcc"},
		{"a compiler that is a cycle of links", "os: linux\n-- @env --\nPATH=/bad:/usr/bin\n" + links + "/bad/gcc -> g\n/bad/g -> gcc\n" +
			toolkit("/usr/local/cuda-13.2"), "/usr/local/cuda-13.2 /usr/bin/gcc"},
		{"a PATH of 64 KB", "os: linux\n-- @env --\nPATH=" + long.String() + "/usr/bin\nCUDA_HOME=/tk\n" + links + toolkit("/tk"),
			"/tk /usr/bin/gcc"},
		{"blanks, quotes, % and letters of many scripts", "os: linux\n-- @env --\nPATH=/usr/bin\nCUDA_HOME=/opt/Größe 'x' \"y\" %z% 世界\n" +
			links + toolkit("/opt/Größe 'x' \"y\" %z% 世界"), "/opt/Größe 'x' \"y\" %z% 世界 /usr/bin/gcc"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte(tt.machine)))(t)
			s, err := toolchain.Choose(gather(h, silent{}), kernels, toolchain.Wish{})
			if err != nil {
				t.Fatal(err)
			}
			hosttest.Equal(t, s.Toolkit.Root+" "+s.Compiler.Path, tt.want)
			env := h.Apply(h.Env, toolchain.Environment(h, s, kernels))
			for _, dir := range h.SplitList(env.Get("PATH")) {
				if strings.Count(":"+env.Get("PATH")+":", ":"+dir+":") > 1 && dir != "" {
					t.Errorf("PATH names %s twice", dir)
				}
			}
		})
	}
}

// silent runs nothing.
type silent struct{}

func (silent) Run(context.Context, buildenv.Cmd) (buildenv.Result, error) {
	return buildenv.Result{}, errors.New("nothing is run here")
}

// TestWhatCouldNotBeReadIsTold holds that where no compiler or no SDK is found, the error names what could not be looked at: the compiler
// may be there.
func TestWhatCouldNotBeReadIsTold(t *testing.T) {
	const kits = `HKLM\SOFTWARE\Microsoft\Windows Kits\Installed Roots`
	h := hosttest.Load(t, "windows-no-visual-studio")
	for _, tt := range []struct{ story, more, want string }{
		{"a state.json that is cut off", "-- C:\\ProgramData\\Microsoft\\VisualStudio\\Packages\\_Instances\\1a\\state.json --\n" +
			"{\"installationPath\":\"D:\\\\BuildTo\n", `_Instances\1a\state.json cannot be read: `},
		{"a key that may not be read", "-- @registry --\n[unreadable " + `HKLM\SOFTWARE\Microsoft\VisualStudio\Setup` + "]\n",
			`VisualStudio\Setup cannot be read: open key`},
		{"the list of Visual Studios", "-- @registry --\n[unreadable " + `HKLM\SOFTWARE\Microsoft\VisualStudio\SxS\VS7` + "]\n",
			`SxS\VS7 cannot be read: open key`},
		{"where the SDK is told", "-- @registry --\n[unreadable " + kits + "]\n", kits + " cannot be read: open key"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			other, err := hosttest.Parse([]byte("os: windows\n-- @env --\nPath=C:\\Windows\n" + tt.more))
			if err != nil {
				t.Fatal(err)
			}
			f := windows(h)
			found := msvc.Find(other, "amd64")
			f.MSVC, f.Compilers = &found, toolchain.Compilers(other, found)
			for what, n := range map[string]toolchain.Needs{"a kernel": kernels, "C++ alone": {HostCompiler: true}} {
				_, err = toolchain.Choose(f, n, toolchain.Wish{})
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
