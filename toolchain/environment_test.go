package toolchain_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// usual is a machine with one toolkit at /usr/local/cuda (a link) and gcc 12.
const usual = `os: linux
cpus: 8
-- @env --
PATH=/usr/local/cuda/bin:/usr/bin
-- @links --
/usr/local/cuda -> cuda-12.4
/usr/bin/gcc -> x86_64-linux-gnu-gcc-12
/usr/bin/g++ -> x86_64-linux-gnu-g++-12
-- @dirs --
/usr/local/cuda-12.4/lib64/stubs
/opt/old
-- @empty --
/usr/bin/x86_64-linux-gnu-gcc-12 +x
/usr/bin/x86_64-linux-gnu-g++-12 +x
/usr/bin/nvidia-smi +x
/usr/local/cuda-12.4/bin/nvcc +x
/usr/local/cuda-12.4/nvvm/bin/cicc +x
/usr/local/cuda-12.4/include/nv/target
/usr/local/cuda-12.4/include/cuda_runtime.h
/usr/local/cuda-12.4/include/crt/host_config.h
/usr/local/cuda-12.4/lib64/libcudart.so
/opt/cuda-12.6/bin/nvcc +x
/opt/cuda-12.6/include/cuda.h
-- /usr/local/cuda-12.4/include/cuda.h --
#define CUDA_VERSION 12040
`

// changed words the changes without their reasons.
func changed(d buildenv.Delta) string {
	var out []string
	for _, c := range d.Changes {
		out = append(out, fmt.Sprintf("%s %s=%s", c.Op, c.Name, c.Value))
	}
	return strings.Join(out, "; ")
}

// TestEnvironment holds that nothing is changed that already leads to the same tree, and that everything that does not is.
func TestEnvironment(t *testing.T) {
	onlyCudarc := reads("cudarc")
	for _, tt := range []struct {
		story string
		env   []string // on top of the machine's own
		needs toolchain.Needs
		want  string
	}{
		{"everything is as it should be", nil, onlyCudarc, ""},
		{"a slash at the end is the same root", []string{"CUDA_HOME=/usr/local/cuda/"}, onlyCudarc, ""},
		{"the root's other name is the same root", []string{"CUDA_PATH=/usr/local/cuda-12.4", "PATH=/usr/local/cuda-12.4/bin:/usr/bin"},
			onlyCudarc, ""},
		{"one of two variables names another toolkit", []string{"CUDA_PATH=/opt/old", "CUDA_HOME=/usr/local/cuda"}, onlyCudarc,
			"set CUDA_PATH=/usr/local/cuda"},
		{"a variable that is set and empty drops cudarc's usual roots", []string{"CUDA_PATH="}, onlyCudarc,
			"set CUDA_HOME=/usr/local/cuda; set CUDA_PATH=/usr/local/cuda; set CUDA_ROOT=/usr/local/cuda; set " +
				"CUDA_TOOLKIT_ROOT_DIR=/usr/local/cuda"},
		{"CUDNN_LIB alone drops them, too", []string{"CUDNN_LIB=/opt/cudnn"}, onlyCudarc,
			"set CUDA_HOME=/usr/local/cuda; set CUDA_PATH=/usr/local/cuda; set CUDA_ROOT=/usr/local/cuda; set " +
				"CUDA_TOOLKIT_ROOT_DIR=/usr/local/cuda"},
		{"no nvcc on PATH", []string{"PATH=/usr/bin"}, onlyCudarc, "prepend PATH=/usr/local/cuda/bin"},
		{"a variable that nothing reads is left alone", []string{"CUDA_PATH=/opt/old"}, reads("cudaforge"), "set CUDA_COMPUTE_CAP=75"},
		{"a build script of one's own that reads CUDA_HOME only", nil, reads("CUDA_HOME", "PATH"), "set CUDA_HOME=/usr/local/cuda"},
		{"ggml would ask the GPU of this machine", nil, reads("CUDAARCHS", "CMAKE_*"),
			"set CUDAARCHS=75; set CMAKE_CUDA_ARCHITECTURES=75"},
		{"the user's own list for CMake", []string{"CMAKE_CUDA_ARCHITECTURES=80;90", "CUDAARCHS=80;90"},
			reads("CUDAARCHS", "CMAKE_*"), ""},
		{"a build script that links and may not know the stubs", []string{"LIBRARY_PATH=/x"},
			with(kernels, func(n *toolchain.Needs) { n.Libraries, n.Reads = true, []string{"CUDA_ROOT"} }),
			"set CUDA_ROOT=/usr/local/cuda; append LIBRARY_PATH=/usr/local/cuda/lib64"},
		{"a build script that links and reads no variable", nil, with(kernels, func(n *toolchain.Needs) { n.Libraries, n.Reads = true, nil }),
			"append LIBRARY_PATH=/usr/local/cuda/lib64; set CUDA_COMPUTE_CAP=75"},
		{"cudarc names the directories itself", nil,
			with(kernels, func(n *toolchain.Needs) { n.Libraries, n.Reads = true, []string{"cudarc"} }), ""},
		{"the same with CUDA_PATH set as well, which it reads too", []string{"CUDA_PATH=/usr/local/cuda"},
			reads("CUDA_HOME", "CUDA_PATH"), ""},
		{"NVCC of another toolkit", []string{"NVCC=/opt/cuda-12.6/bin/nvcc"}, reads("NVCC"), "unset NVCC="},
		{"NVCC with a launcher before it names no program", []string{"NVCC=ccache /usr/local/cuda/bin/nvcc"},
			reads("NVCC"), "unset NVCC="},
		{"NVCC by its bare name means PATH", []string{"NVCC=nvcc"}, reads("NVCC"), ""},
		{"the user's thread count stays", []string{"RAYON_NUM_THREADS=3", "CUDA_COMPUTE_CAP=75"}, reads("cudaforge"), ""},
		{"the arch that was asked for is set already", []string{"CUDA_COMPUTE_CAP=75"}, reads("bindgen_cuda"), ""},
		{"CMake reads its own variable", []string{"CUDAToolkit_ROOT=/opt/old"},
			reads("cmake"), "set CUDAToolkit_ROOT=/usr/local/cuda; set " +
				"CUDA_PATH=/usr/local/cuda"},
		{"CMake's own nvcc and host compiler are others", []string{"CUDACXX=/opt/cuda-12.6/bin/nvcc", "CUDAHOSTCXX=/usr/bin/g++-9",
			"CUDA_PATH=/usr/local/cuda", "CUDAToolkit_ROOT=/usr/local/cuda"}, reads("cmake"), "unset CUDACXX=; unset CUDAHOSTCXX="},
		{"what CMake reads and nothing here does", []string{"CUDACXX=/opt/cuda-12.6/bin/nvcc", "CUDAHOSTCXX=/usr/bin/g++-9"}, onlyCudarc,
			""},
		{"an arch in a form that build scripts panic at", []string{"CUDA_COMPUTE_CAP=5.0"},
			reads("bindgen_cuda"), "set CUDA_COMPUTE_CAP=75"},
		{"NVCC_CCBIN of a compiler that is gone", []string{"NVCC_CCBIN=/usr/bin/g++-9"}, onlyCudarc, "unset NVCC_CCBIN="},
		{"NVCC_CCBIN of the very compiler", []string{"NVCC_CCBIN=/usr/bin/g++"}, onlyCudarc, ""},
		{"crates that need a driver only", []string{"CUDA_PATH=/opt/old"}, toolchain.Needs{CUDA: true}, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
			for _, v := range tt.env {
				name, value, _ := strings.Cut(v, "=")
				h.Env = h.Env.Set(name, value)
			}
			s := hosttest.Must(toolchain.Choose(gather(h, nil), tt.needs, toolchain.Wish{CUDA: "12.4"}))(t)
			hosttest.Equal(t, changed(toolchain.Environment(h, s, tt.needs)), tt.want)
		})
	}
}

// TestArchOfAFlag: an architecture on the command line wins over the variables of CMake, however the flag is called there; one of the
// configuration does not.
func TestArchOfAFlag(t *testing.T) {
	t.Parallel()
	needs := reads("CUDAARCHS")
	for origin, want := range map[string]string{"--gpu-arch": "set CUDAARCHS=90", "--arch": "set CUDAARCHS=90", "gpubuild.toml": ""} {
		h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
		h.Env = h.Env.Set("CUDAARCHS", "80")
		s := hosttest.Must(toolchain.Choose(gather(h, nil), needs, toolchain.Wish{CUDA: "12.4", Arch: "90", ArchOrigin: origin}))(t)
		hosttest.Equal(t, changed(toolchain.Environment(h, s, needs)), want, origin)
	}
}

// TestArchOfOxide: cuda-oxide compiles for the architecture that the user has said, and chooses itself where nobody did.
func TestArchOfOxide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ arch, origin, old, read, want string }{
		{"90a", "--arch", "", "CUDA_OXIDE_TARGET", "set CUDA_OXIDE_TARGET=sm_90a"},
		{"90", "--arch", "sm_80", "CUDA_OXIDE_TARGET", "set CUDA_OXIDE_TARGET=sm_90"},
		{"90", "gpubuild.toml", "", "CUDA_OXIDE_TARGET", "set CUDA_OXIDE_TARGET=sm_90"},
		{"90", "gpubuild.toml", "sm_80", "CUDA_OXIDE_TARGET", ""},
		{"", "", "", "CUDA_OXIDE_TARGET", ""},
		{"90", "--arch", "", "CUDA_OXIDE_DEVICE_ARCH", ""},
	} {
		needs := reads(tt.read)
		h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
		if tt.old != "" {
			h.Env = h.Env.Set("CUDA_OXIDE_TARGET", tt.old)
		}
		s := hosttest.Must(toolchain.Choose(gather(h, nil), needs, toolchain.Wish{CUDA: "12.4", Arch: tt.arch, ArchOrigin: tt.origin}))(t)
		hosttest.Equal(t, changed(toolchain.Environment(h, s, needs)), tt.want, tt)
	}
}

// TestEnvironmentIsFixed holds on every machine that what we set leads to the same choice again and then changes nothing: a shell that took
// our environment over, or an editor, builds with the same one.
func TestEnvironmentIsFixed(t *testing.T) {
	for _, name := range []string{
		"linux-usual", "linux-two-toolkits", "linux-variables-disagree", "linux-removed-toolkit", "linux-container-stubs", "linux-debian",
		"linux-conda",
		"linux-arch", "linux-edited-header", "linux-incomplete", "linux-cudnn-two-majors", "linux-cudnn-deb", "linux-hpc-sdk",
		"linux-odd-paths",
	} {
		for kind, needs := range map[string]toolchain.Needs{"kernels": kernels, "candle": candle} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				h, run := hosttest.LoadCommands(t, name)
				first, err := toolchain.Choose(gather(h, run), needs, toolchain.Wish{})
				if err != nil {
					t.Logf("no set here, so no environment: %v", err)
					return
				}
				d := toolchain.Environment(h, first, needs)
				env := h.Apply(h.Env, d)
				h.Env = env
				arch, origin := toolchain.ArchWish("", "", env, "", "")
				second := hosttest.Must(toolchain.Choose(gather(h, run), needs, toolchain.Wish{Arch: arch, ArchOrigin: origin}))(t)
				if second.Toolkit.Real != first.Toolkit.Real || second.Compiler.Real != first.Compiler.Real ||
					second.Capability != first.Capability {
					t.Errorf("first %s, %s, %s; then %s, %s, %s", first.Toolkit.Named(), first.Compiler.Named(), first.Capability,
						second.Toolkit.Named(), second.Compiler.Named(), second.Capability)
				}
				again := h.Apply(env, toolchain.Environment(h, second, needs))
				if !slices.Equal(again.Entries(), env.Entries()) {
					t.Errorf("changed once more: %s", changed(toolchain.Environment(h, second, needs)))
				}
			})
		}
	}
}

// TestEnvironmentWithDevice holds that nvidia-smi's answer is not said again, and that another choice is.
func TestEnvironmentWithDevice(t *testing.T) {
	h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
	needs := reads("bindgen_cuda")
	for _, tt := range []struct {
		story   string
		devices []string
		arch    string
		want    string
	}{
		{"one GPU", []string{"8.9"}, "", ""},
		{"the lowest is not the first", []string{"8.9", "8.6"}, "", "set CUDA_COMPUTE_CAP=86"},
		{"another arch is asked for, with a suffix that bindgen_cuda cannot read", []string{"8.9"}, "90a", "set CUDA_COMPUTE_CAP=90"},
		{"none", nil, "86", "set CUDA_COMPUTE_CAP=86"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			f := gather(h, nil)
			f.Devices, f.Driver = devices(tt.devices...), gpu.Driver{Version: "580.65.06", CUDA: version("13.0")}
			s := hosttest.Must(toolchain.Choose(f, needs, toolchain.Wish{Arch: tt.arch, ArchOrigin: "--gpu-arch", CUDA: "12.4"}))(t)
			hosttest.Equal(t, changed(toolchain.Environment(h, s, needs)), tt.want)
		})
	}
}

// TestPreviousUnset holds that a second build, which asks no driver, leaves the variable as the first one had it.
func TestPreviousUnset(t *testing.T) {
	h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
	needs := reads("bindgen_cuda")
	for _, tt := range []struct {
		driver string
		unset  bool
		want   string
	}{{"580.65.06", true, ""}, {"580.65.06", false, "set CUDA_COMPUTE_CAP=89"}, {"", true, "set CUDA_COMPUTE_CAP=89"}} {
		f := gather(h, nil)
		f.Driver.Version = tt.driver
		s := hosttest.Must(toolchain.Choose(f, needs, toolchain.Wish{Previous: []gpu.Arch{{Capability: capability("89")}}, PreviousUnset: tt.unset, CUDA: "12.4"}))(t)
		hosttest.Equal(t, changed(toolchain.Environment(h, s, needs)), tt.want, tt)
	}
}

// TestReadDirectly holds that a script which reads the variable itself is told the architecture, whatever nvidia-smi answers.
func TestReadDirectly(t *testing.T) {
	h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
	needs := reads("PATH", "CUDA_COMPUTE_CAP")
	f := gather(h, nil)
	f.Devices, f.Driver = devices("8.9"), gpu.Driver{Version: "580.65.06", CUDA: version("13.0")}
	s := hosttest.Must(toolchain.Choose(f, needs, toolchain.Wish{CUDA: "12.4"}))(t)
	if got := changed(toolchain.Environment(h, s, needs)); !strings.Contains(got, "set CUDA_COMPUTE_CAP=89") {
		t.Errorf("got %s", got)
	}
}

// TestSuffix holds that an arch's suffix reaches cudaforge.
func TestSuffix(t *testing.T) {
	d := toolchain.Environment(buildenv.Host{OS: buildenv.Linux}, toolchain.Set{Capability: capability("100"), Suffix: "f"},
		toolchain.Needs{NVCC: true, Reads: []string{"cudaforge"}})
	hosttest.Equal(t, changed(d), "set CUDA_COMPUTE_CAP=100f")
}

// TestListForCMake: build scripts are given the lowest architecture of a list, CMake all.
func TestListForCMake(t *testing.T) {
	s := hosttest.Must(toolchain.Choose(toolchain.Facts{}, toolchain.Needs{}, toolchain.Wish{Arch: "sm_120,9.0a,80,90,80", ArchOrigin: "--gpu-arch"}))(t)
	d := toolchain.Environment(buildenv.Host{OS: buildenv.Linux}, s, toolchain.Needs{NVCC: true, Reads: []string{"CUDA_COMPUTE_CAP", "CUDAARCHS", "CMAKE_*"}})
	hosttest.Equal(t, changed(d), "set CUDA_COMPUTE_CAP=80; set CUDAARCHS=80;90;90a;120; set CMAKE_CUDA_ARCHITECTURES=80;90;90a;120")
}

// TestSuffixIsKept: a directory that was built for sm_100f is built for that again, not for sm_100, when nothing is said.
func TestSuffixIsKept(t *testing.T) {
	s, err := toolchain.Choose(toolchain.Facts{}, toolchain.Needs{}, toolchain.Wish{Previous: []gpu.Arch{{Capability: capability("100"), Suffix: "f"}}})
	if err != nil || s.Suffix != "f" || s.Capability != capability("100") {
		t.Errorf("got %s%s, %v", s.Capability, s.Suffix, err)
	}
}

// TestEnvironmentCUDNN holds where cuDNN's root must be told: not inside the toolkit nor in the system's directories.
func TestEnvironmentCUDNN(t *testing.T) {
	h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
	tk := cuda.Find(h, nil)[0]
	all := "set CUDNN_LIB=/opt/cudnn; set CUDNN_PATH=/opt/cudnn; set CUDA_HOME=/usr/local/cuda; set CUDA_PATH=/usr/local/cuda; set " +
		"CUDA_ROOT=/usr/local/cuda; set CUDA_TOOLKIT_ROOT_DIR=/usr/local/cuda"
	for _, tt := range []struct {
		story   string
		install cudnn.Install
		want    string
		path    string // CUDNN_PATH of the user
	}{
		{"named by its libraries, where no script finds it", cudnn.Install{Root: "/opt/cudnn", Real: "/opt/cudnn", Named: true}, all, "/opt/cudnn/lib64"},
		{"named by its programs, where no script finds it", cudnn.Install{Root: "/opt/cudnn", Real: "/opt/cudnn", Named: true}, all, "/opt/cudnn/bin"},
		{"inside the toolkit", cudnn.Install{Root: tk.Root, Real: tk.Real}, "", ""},
		{"in the system's directories", cudnn.Install{Root: "/usr", Real: "/usr", System: true}, "", ""},
		{"elsewhere, and then the toolkit's root must be told, too", cudnn.Install{Root: "/opt/cudnn", Real: "/opt/cudnn"}, all, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := h
			if tt.path != "" {
				h.Env = h.Env.Set("CUDNN_PATH", tt.path)
			}
			d := toolchain.Environment(h, toolchain.Set{Toolkit: &tk, CUDNN: &tt.install}, toolchain.Needs{Libraries: true, CUDNN: true,
				Reads: []string{"cudarc"}})
			hosttest.Equal(t, changed(d), tt.want)
		})
	}
}

// TestCUDNNToRun: a program that opens cuDNN finds the one for the toolkit's CUDA, which no build needs.
func TestCUDNNToRun(t *testing.T) {
	h := hosttest.Load(t, "windows-cudnn-installer")
	f := windows(h)
	for _, n := range []toolchain.Needs{{CUDA: true, RunCUDNN: true}, {CUDA: true, NVCCVersion: true, RunCUDNN: true, Reads: []string{"cudarc"}}} {
		s, err := toolchain.Choose(f, n, toolchain.Wish{})
		got := changed(toolchain.Environment(h, s, n))
		if err != nil || !strings.Contains(got, `prepend PATH=C:\Program Files\NVIDIA\CUDNN\v9.17\bin\12.9\x64`) || strings.Contains(got, "CUDNN_LIB") {
			t.Errorf("%+v: %v, %s", n, err, got)
		}
	}
	f.CUDNN = nil
	if _, err := toolchain.Choose(f, toolchain.Needs{NVCCVersion: true, RunCUDNN: true}, toolchain.Wish{}); err != nil {
		t.Errorf("without one: %v", err)
	}
}

// TestFindCUDAHelper: it links from /usr/local/cuda and /opt/cuda only, unless CUDA_LIBRARY_PATH names another root.
func TestFindCUDAHelper(t *testing.T) {
	h, _ := hosttest.LoadCommands(t, "linux-usual")
	for root, want := range map[string]string{"/srv/cuda": "prepend CUDA_LIBRARY_PATH=/srv/cuda", "/usr/local/cuda": ""} {
		set := toolchain.Set{Toolkit: &cuda.Toolkit{Root: root, Real: h.Real(root), NVCC: root + "/bin/nvcc"}}
		got := ""
		for _, c := range toolchain.Environment(h, set, toolchain.Needs{Libraries: true, Reads: []string{"cust_raw"}}).Changes {
			if c.Name == "CUDA_LIBRARY_PATH" {
				got = fmt.Sprintf("%s %s=%s", c.Op, c.Name, c.Value)
			}
		}
		hosttest.Equal(t, got, want, root)
	}
}

// TestEnvironmentOfASet: what depends on one property of the set alone.
func TestEnvironmentOfASet(t *testing.T) {
	h := hosttest.Must(hosttest.Parse([]byte("os: linux\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/usr/bin/nvidia-smi +x\n")))(t)
	set := func(v string, change func(*toolchain.Set)) toolchain.Set {
		k := kit(v, "75", "121")
		s := toolchain.Set{Toolkit: &k, Driver: gpu.Driver{Version: "595.1"}, Capability: capability("89")}
		change(&s)
		return s
	}
	msvc := func(s *toolchain.Set) {
		s.Compiler = &hostcc.Compiler{Kind: hostcc.MSVC, Path: "cl.exe", CXX: "cl.exe", Default: true}
	}
	wsl := func(s *toolchain.Set) { s.LibCUDA = "/usr/lib/wsl/lib/libcuda.so" }
	unset := func(s *toolchain.Set) { s.CapabilityUnset = true }
	links := toolchain.Needs{CUDA: true, Libraries: true, Reads: []string{"cudarc"}}
	forge := reads("cudaforge")
	for _, tt := range []struct {
		story string
		set   toolchain.Set
		needs toolchain.Needs
		want  string
		is    bool
	}{
		{"cl.exe with the first CUDA whose CCCL is strict", set("13.2", msvc), kernels, "/Zc:preprocessor", true},
		{"cl.exe with the one before", set("13.1", msvc), kernels, "/Zc:preprocessor", false},
		{"WSL's libcuda where there is a stub", set("13.2", wsl), links, "/usr/lib/wsl/lib", false},
		{"WSL's libcuda without a stub", set("13.2", func(s *toolchain.Set) { wsl(s); s.Toolkit.Stubs = "" }), links, "/usr/lib/wsl/lib", true},
		{"a script that may read the architecture itself", set("13.2", unset), with(kernels, func(n *toolchain.Needs) { n.Reads = nil }),
			"CUDA_COMPUTE_CAP=89", true},
		{"one that asks nvidia-smi, as before", set("13.2", unset), forge, "CUDA_COMPUTE_CAP=89", false},
	} {
		if got := changed(toolchain.Environment(h, tt.set, tt.needs)); strings.Contains(got, tt.want) != tt.is {
			t.Errorf("%s: %s", tt.story, got)
		}
	}
}

// TestGenerator holds which generator CMake crates get on Windows, and that a user's own stays.
func TestGenerator(t *testing.T) {
	const vs = `C:\Program Files\Microsoft Visual Studio\2022\Community`
	const bin = vs + `\VC\Tools\MSVC\14.44.35207\bin\HostX64\x64`
	text := hosttest.Must(os.ReadFile("../testdata/hosts/windows-prompt.txtar"))(t)
	cmake := reads("cmake")
	for _, tt := range []struct {
		story, env, files string
		needs             toolchain.Needs
		want              string
	}{
		{"ninja on PATH", "", `C:\Windows\system32\ninja.exe` + "\n", cmake, "Ninja"},
		{"no ninja: CMake chooses", "", bin + `\nmake.exe` + "\n", cmake, ""},
		{"the user's own", "CMAKE_GENERATOR=Visual Studio 17 2022\n", bin + `\nmake.exe` + "\n", cmake, ""},
		{"no CMake in the build", "", bin + `\nmake.exe` + "\n", kernels, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h, err := hosttest.Parse([]byte(strings.NewReplacer("-- @env --\n", "-- @env --\n"+tt.env, "-- @empty --\n", "-- @empty --\n"+
				tt.files).Replace(string(text))))
			if err != nil {
				t.Fatal(err)
			}
			s := hosttest.Must(toolchain.Choose(windows(h), tt.needs, toolchain.Wish{}))(t)
			got := ""
			for _, c := range toolchain.Environment(h, s, tt.needs).Changes {
				if c.Name == "CMAKE_GENERATOR" {
					got = c.Value
				}
			}
			hosttest.Equal(t, got, tt.want)
		})
	}
}

func TestSteers(t *testing.T) {
	for _, tt := range []struct {
		os, name string
		want     bool
	}{
		{"windows", "nvcc_ccbin", true}, {"linux", "nvcc_ccbin", false}, {"linux", "NVCC_CCBIN", true}, {"windows", "Include", true},
		{"linux", "CUDNN_LIB", true},
		{"windows", "Path", false}, {"linux", "RUST_LOG", false}, {"linux", "CARGO_HOME", false}, {"linux", "LD_PRELOAD", false},
	} {
		hosttest.Equal(t, toolchain.SelectsToolchain(buildenv.Host{OS: tt.os}, tt.name), tt.want, tt.name, tt.os)
	}
	s := toolchain.Set{Toolkit: &cuda.Toolkit{NVCC: "/cuda/bin/nvcc"}, Compiler: &hostcc.Compiler{CXX: "/usr/bin/g++"}}
	for name, want := range map[string]string{"NVCC_CCBIN": "/usr/bin/g++", "CUDACXX": "/cuda/bin/nvcc", "NVCC_APPEND_FLAGS": ""} {
		hosttest.Equal(t, toolchain.InPlace(s, name), want, name)
	}
	hosttest.Equal(t, toolchain.InPlace(toolchain.Set{}, "NVCC"), "", "without a toolkit")
}

func TestLettersOfDirectories(t *testing.T) {
	for _, tt := range []struct {
		os, target, tmp string
		nvcc            bool
		want            []string
		at              string // of nvcc
	}{
		{"windows", `C:\src\app\target`, `C:\Users\DMITRI~1\AppData\Local\Temp`, true, nil, ""},
		{"windows", `C:\проект\target`, `C:\Users\Дмитрий\AppData\Local\Temp`, true,
			[]string{"`$env:CARGO_TARGET_DIR = 'C:\\target'` (cmd: `set CARGO_TARGET_DIR=C:\\target`)", `temporary files is C:\Users\Дмитрий`}, ""},
		{"windows", `C:\t`, `C:\tmp`, true, []string{`nvcc is C:\кэш\bin\nvcc.exe`}, `C:\кэш\bin\nvcc.exe`},
		{"windows", `C:\проект\target`, `C:\tmp`, false, nil, ""},
		{"linux", `/home/дмитрий/target`, `/tmp`, true, nil, ""},
	} {
		text := "os: " + tt.os + "\narch: amd64\n-- @env --\nTMP=" + tt.tmp + "\n"
		h := hosttest.Must(hosttest.Parse([]byte(text)))(t)
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
		hosttest.Equal(t, len(notes) > 0, want, length, notes)
	}
}

func TestPlanted(t *testing.T) {
	set := toolchain.Set{Toolkit: &cuda.Toolkit{NVCC: `C:\CUDA\bin\nvcc.exe`}, Compiler: &hostcc.Compiler{CXX: `C:\VC\bin\cl.exe`}}
	const chosen = "C:\\CUDA\\bin\\nvcc.exe\nC:\\VC\\bin\\cl.exe\n"
	for _, tt := range []struct{ story, os, dir, files, want string }{
		{"nothing there", "windows", `C:\app`, "C:\\app\\build.rs\n" + chosen, ""},
		{"cl.exe, which nvcc itself takes first", "windows", `C:\app`, "C:\\app\\CL.exe\n" + chosen,
			`C:\app\cl.exe lies where the build runs, and Windows would run it instead of C:\VC\bin\cl.exe`},
		{"a batch file of that name, which cmd takes first", "windows", `C:\app`, "C:\\app\\nvcc.bat\n" + chosen,
			`C:\app\nvcc.bat lies where`},
		{"a part of nvcc's, which cmd takes first", "windows", `C:\app`, "C:\\app\\cudafe++.exe\n" + chosen,
			`C:\app\cudafe++.exe lies where the build runs, and Windows would run it instead of C:\CUDA\bin\cudafe++.exe`},
		{"another part, as a batch file", "windows", `C:\app`, "C:\\app\\ptxas.cmd\n" + chosen, `C:\app\ptxas.cmd lies where`},
		{"the librarian", "windows", `C:\app`, "C:\\app\\lib.exe\n" + chosen, `C:\app\lib.exe lies where the build runs, and Windows ` +
			`would run it instead of C:\VC\bin\lib.exe`},
		{"a batch file of the project's own", "windows", `C:\app`, "C:\\app\\lib.bat\nC:\\app\\link.cmd\n" + chosen, ""},
		{"built in the toolkit's own directory", "windows", `C:\CUDA\bin`, "C:\\CUDA\\bin\\ptxas.exe\n" + chosen, ""},
		{"built in the compiler's own directory", "windows", `C:\VC\bin`, chosen, ""},
		{"where the current directory is not searched", "linux", "/app", "/app/cl +x\n/app/nvcc +x\n", ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte("os: " + tt.os + "\ncwd: " + tt.dir + "\n-- @empty --\n" + tt.files)))(t)
			got := hosttest.Outcome("", toolchain.Planted(h, set, []string{tt.dir}))
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
