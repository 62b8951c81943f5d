package verify

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu/probe"
)

// files is a machine's files, with links; paths are absolute.
type files struct {
	fstest.MapFS
	links map[string]string
}

func (f files) rel(path string) string                     { return strings.TrimPrefix(path, "/") }
func (f files) Stat(path string) (fs.FileInfo, error)      { return f.MapFS.Stat(f.rel(path)) }
func (f files) ReadDir(path string) ([]fs.DirEntry, error) { return f.MapFS.ReadDir(f.rel(path)) }
func (f files) Open(path string) (fs.File, error)          { return f.MapFS.Open(f.rel(path)) }
func (f files) EvalSymlinks(path string) (string, error) {
	if to, ok := f.links[path]; ok {
		path = to
	}
	_, err := f.Stat(path)
	return path, err
}

func TestRealDriver(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/"
	module := func(v string) map[string]string { return map[string]string{"sys/module/nvidia/version": v + "\n"} }
	proc := map[string]string{"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@x)\nGCC version: gcc 12\n"}
	nodes := []string{"/dev/nvidiactl", "/dev/nvidia0"}
	for _, tt := range []struct {
		story  string
		kernel string
		files  map[string]string
		file   string // what libcuda.so.1 in lib leads to; = and a version: the library holds it
		loaded Loaded
		want   bool
		text   string
	}{
		{"the module's version", "6.1", module("580.65.06"), lib + "libcuda.so.580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Nodes: nodes}, true, ""},
		{"the module's version by /proc", "6.1", proc, lib + "libcuda.so.580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Nodes: nodes}, true, ""},
		{"all that is mapped is one file", "6.1", proc, lib + "libcuda.so.580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Drivers: []string{lib + "libcuda.so.580.65.06"}, Nodes: nodes}, true, ""},
		{"an older version", "6.1", module("590.1.2"), lib + "libcuda.so.580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Nodes: nodes}, false, "is version 580.65.06, the kernel module 590.1.2"},
		{"forward compatibility", "6.1", module("535.1.2"), "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06", Loaded{LibCUDA: "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06", Nodes: nodes}, true, "forward-compatibility driver 580.65.06"},
		{"forward compatibility of an NGC container", "6.1", module("535.1.2"), "/usr/local/cuda/compat/lib.real/libcuda.so.1=580.65.06", Loaded{LibCUDA: "/usr/local/cuda/compat/lib.real/libcuda.so.1", Nodes: nodes}, true, "forward-compatibility driver 580.65.06"},
		{"forward compatibility of conda", "6.1", module("535.1.2"), "/opt/conda/cuda-compat/libcuda.so.590.44.01", Loaded{LibCUDA: "/opt/conda/cuda-compat/libcuda.so.590.44.01", Nodes: nodes}, true, "forward-compatibility driver 590.44.01"},
		{"Apptainer, which mounts a plain file", "6.1", module("580.65.06"), "/.singularity.d/libs/libcuda.so.1=580.65.06", Loaded{LibCUDA: "/.singularity.d/libs/libcuda.so.1", Nodes: nodes}, true, ""},
		{"a sandbox without /sys/module", "6.1", nil, lib + "libcuda.so.1=580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Nodes: nodes}, true, "whose kernel module cannot be seen"},
		{"a sandbox without /sys/module, and a stand-in", "6.1", nil, "/x/libcuda.so.1", Loaded{LibCUDA: "/x/libcuda.so.1", Nodes: nodes}, false, "carries no driver version"},
		{"Jetson", "5.15-tegra", nil, "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1=540.4.0", Loaded{LibCUDA: "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1", Nodes: []string{"/dev/nvmap", "/dev/nvhost-gpu"}}, true, "Jetson: untested"},
		{"a name that says another version than the file", "6.1", module("580.65.06"), lib + "libcuda.so.535.1.2=580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Nodes: nodes}, true, ""},
		{"memory of CUDA's only is open", "6.1", module("580.65.06"), lib + "libcuda.so.580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Nodes: []string{"/dev/nvidia-uvm"}}, false, "no NVIDIA device is open"},
		{"no device is open", "6.1", module("580.65.06"), lib + "libcuda.so.580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1"}, false, "no NVIDIA device is open"},
		{"a stub of the toolkit", "6.1", module("580.65.06"), "/usr/local/cuda/lib64/stubs/libcuda.so", Loaded{LibCUDA: "/usr/local/cuda/lib64/stubs/libcuda.so", Nodes: nodes}, false, "carries no driver version"},
		{"a stand-in", "6.1", module("580.65.06"), "/x/libcuda.so.1", Loaded{LibCUDA: "/x/libcuda.so.1", Nodes: nodes}, false, "/x/libcuda.so.1"},
		{"a stand-in beside the real one", "6.1", module("580.65.06"), lib + "libcuda.so.580.65.06", Loaded{LibCUDA: lib + "libcuda.so.1", Drivers: []string{"/x/libcuda.so.1"}, Nodes: nodes}, false, "a second one is loaded"},
		{"the file is gone", "6.1", module("580.65.06"), lib + "libcuda.so.580.65.06", Loaded{LibCUDA: "/x/libcuda.so.1 (deleted)", Nodes: nodes}, false, "not a file any more"},
		{"nothing is known", "6.1", module("580.65.06"), lib + "libcuda.so.580.65.06", Loaded{}, false, "is not known"},
		{"WSL2", "5.15.90.1-microsoft-standard-WSL2", nil, "/usr/lib/wsl/drivers/nv/libcuda.so.1.1", Loaded{LibCUDA: "/usr/lib/wsl/drivers/nv/libcuda.so.1.1", Nodes: []string{"/dev/dxg"}}, true, "untested on hardware"},
		{"WSL2's loader and what it loads", "5.15.90.1-microsoft-standard-WSL2", nil, "/usr/lib/wsl/lib/libcuda.so.1", Loaded{LibCUDA: "/usr/lib/wsl/lib/libcuda.so.1",
			Drivers: []string{"/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/drivers/nv_dispi.inf_amd64/libcuda.so.1.1"}, Nodes: []string{"/dev/dxg"}}, true, "untested on hardware"},
		{"WSL2 with another library", "5.15.90.1-microsoft-standard-WSL2", nil, "/x/libcuda.so.1", Loaded{LibCUDA: "/x/libcuda.so.1", Nodes: []string{"/dev/dxg"}}, false, "below /usr/lib/wsl"},
		{"WSL2 without the device", "5.15.90.1-microsoft-standard-WSL2", nil, "/usr/lib/wsl/lib/libcuda.so.1", Loaded{LibCUDA: "/usr/lib/wsl/lib/libcuda.so.1"}, false, "/dev/dxg"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			file, holds, _ := strings.Cut(tt.file, "=")
			data := append(make([]byte, 1<<20-3), "\x00"+holds+"\x00 1.2.3 \x00999\x00"...) // across the first megabyte
			f := files{MapFS: fstest.MapFS{strings.TrimPrefix(file, "/"): &fstest.MapFile{Data: data}}, links: map[string]string{}}
			if file != lib+"libcuda.so.1" {
				f.links[lib+"libcuda.so.1"] = file
			}
			for name, text := range tt.files {
				f.MapFS[name] = &fstest.MapFile{Data: []byte(text)}
			}
			h := buildenv.Host{OS: buildenv.Linux, Kernel: tt.kernel, Files: f}
			got, text := RealDriver(h)(complete(h, tt.loaded))
			if got != tt.want || !strings.Contains(text, tt.text) {
				t.Errorf("got %v, %q", got, text)
			}
			if !got && text == "" {
				t.Error("no reason")
			}
		})
	}
	if ok, why := RealDriver(buildenv.Host{OS: buildenv.Darwin})(Loaded{}); ok || !strings.Contains(why, "darwin") {
		t.Errorf("macOS cannot be checked: %v, %q", ok, why)
	}
}

func TestRealDriverOnWindows(t *testing.T) {
	const (
		system = `C:\Windows\system32`
		ours   = `C:\WINDOWS\System32\nvcuda.dll`
		store  = `C:\Windows\System32\DriverStore\FileRepository\nv_dispi.inf_amd64_1a2b\nvcuda64.dll`
		beside = `C:\app\nvcuda.dll`
	)
	tests := []struct {
		story  string
		loaded Loaded
		system string
		signed []string
		want   bool
		text   string
	}{
		{"the system's", Loaded{LibCUDA: ours}, system, []string{ours}, true, "untested on hardware"},
		{"the system's and what it loads", Loaded{LibCUDA: ours, Drivers: []string{ours, store}}, system, []string{ours, store}, true, "untested on hardware"},
		{"not signed", Loaded{LibCUDA: ours}, system, nil, false, "carries no signature"},
		{"what it loads is not signed", Loaded{LibCUDA: ours, Drivers: []string{ours, store}}, system, []string{ours}, false, store + " carries no signature"},
		{"one beside the program", Loaded{LibCUDA: beside, Drivers: []string{beside}}, system, []string{beside}, false, beside + ` is not C:\Windows\system32\nvcuda.dll`},
		{"the system's, and one beside the program", Loaded{LibCUDA: ours, Drivers: []string{ours, beside}}, system, []string{ours, beside}, false, "a second one is loaded: "},
		{"an nvcuda64.dll from elsewhere", Loaded{LibCUDA: ours, Drivers: []string{`C:\app\nvcuda64.dll`}}, system, []string{ours, `C:\app\nvcuda64.dll`}, false, `C:\app\nvcuda64.dll`},
		{"another library that plays the driver", Loaded{LibCUDA: ours, Drivers: []string{ours, `C:\Windows\System32\cuda.dll`}}, system, []string{ours, `C:\Windows\System32\cuda.dll`}, false, `System32\cuda.dll`},
		{"nothing is known", Loaded{}, system, nil, false, "is not known"},
		{"where System32 is is not known", Loaded{LibCUDA: ours}, "", []string{ours}, false, "is not known"},
	}
	h := buildenv.Host{OS: buildenv.Windows, Files: files{}}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			l := completeWindows(h, tt.loaded, tt.system, func(path string) error {
				if slices.Contains(tt.signed, path) {
					return nil
				}
				return errors.New("no signature")
			})
			got, text := RealDriver(h)(l)
			if got != tt.want || !strings.Contains(text, tt.text) {
				t.Errorf("got %v, %q of %+v", got, text, l)
			}
		})
	}
}

func TestSurroundings(t *testing.T) {
	for _, tt := range []struct {
		entry   string
		text    string // of the conflict
		against bool
	}{
		{"CUDA_INJECTION64_PATH=/x/nsys.so", "replaced by gpubuild's probe", false},
		{"CUDA_INJECTION64_PATH=/ours.so", "", false},
		{"CUDA_INJECTION64_PATH=", "", false},
		{"LD_AUDIT=/x/audit.so", "LD_AUDIT", true},
		{"PATH=/bin", "", false},
	} {
		t.Run(tt.entry, func(t *testing.T) {
			found := surroundings(buildenv.Host{OS: buildenv.Linux}, buildenv.NewEnv(buildenv.Linux, []string{tt.entry}), probe.Probe{Library: "/ours.so"})
			if (len(found) > 0) != (tt.text != "") {
				t.Fatalf("got %+v", found)
			}
			if tt.text != "" && (!strings.Contains(found[0].What, tt.text) || found[0].Against != tt.against) {
				t.Errorf("got %+v", found)
			}
		})
	}
}

func TestSurroundingsOnWindows(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Windows}
	env := buildenv.NewEnv(h.OS, []string{`Cuda_Injection64_Path=c:\PROBE.dll`, "LD_AUDIT=/usr/lib/x.so"})
	found := surroundings(h, env, probe.Probe{Library: `C:\probe.dll`})
	hosttest.Equal(t, len(found), 0, found)
}
