package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
)

// kit is a complete toolkit of a planted machine.
func kit(root, version string) string {
	major, minor, _ := strings.Cut(version, ".")
	return strings.NewReplacer("ROOT", root, "VERSION", version, "NUMBER", major+"0"+minor+"0", "ELF", "\x7fELF").Replace(`-- @links --
ROOT/lib64/libcudart.so -> libcudart.so.12
-- ROOT/bin/nvcc +x --
ELF
-- ROOT/nvvm/bin/cicc +x --
c
-- @empty --
ROOT/include/nv/target
ROOT/include/cuda_runtime.h
ROOT/lib64/libcudart.so.12
ROOT/lib64/stubs/libcuda.so
-- ROOT/version.json --
{"cuda": {"name": "CUDA SDK", "version": "VERSION.1"}}
-- ROOT/include/cuda.h --
#define CUDA_VERSION NUMBER
-- ROOT/include/crt/host_config.h --
#if __GNUC__ > 13
#error -- unsupported GNU version!
#endif
`)
}

const (
	gcc = "-- @links --\n/usr/bin/gcc -> gcc-12\n/usr/bin/g++ -> g++-12\n-- @empty --\n/usr/bin/gcc-12 +x\n/usr/bin/g++-12 +x\n"
	smi = "-- @empty --\n/usr/bin/nvidia-smi +x\n/usr/lib64/libcuda.so.1\n"
)

// answers is a runner: what a program prints, by its path, and an error for any other.
type answers struct {
	of    map[string]string
	mu    sync.Mutex
	asked []string
	envs  []buildenv.Env
}

func (a *answers) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, c.Path)
	a.envs = append(a.envs, buildenv.NewEnv(buildenv.Linux, c.Env))
	text, ok := a.of[c.Path]
	if !ok {
		return buildenv.Result{}, errors.New(c.Path + ": it cannot be started")
	}
	return buildenv.Result{Stdout: []byte(text), Stderr: []byte(text)}, nil
}

const release = "Cuda compilation tools, release %s, V%[1]s.9\n"

// planted is a machine of that text, of which each toolkit's nvcc and one GPU answer.
func planted(t *testing.T, text string) (*session.Machine, *answers, *bytes.Buffer) {
	t.Helper()
	if !strings.Contains(text, "@env") {
		text += "-- @env --\nPATH=/usr/bin\n"
	}
	run := &answers{of: map[string]string{"/usr/bin/nvidia-smi": "0, GPU-1, L4, 8.9, 23034, 580.65\n"}}
	for _, at := range []string{"/usr/local/cuda-12.4", "/opt/cuda", "/r/app/cuda", "/usr/local/cuda-13.4"} {
		version := "12.4"
		if strings.HasSuffix(at, "13.4") {
			version = "13.4"
		}
		run.of[at+"/bin/nvcc"] = fmt.Sprintf(release, version)
	}
	var said bytes.Buffer
	return &session.Machine{Host: hostOf(t, text), Runner: run, Shell: &console.Shell{Out: &said, Err: &said}, CacheDir: t.TempDir()}, run, &said
}

// TestWhatIsLookedFor: a build asks only for what its crates need, and a GPU only where it decides the architecture.
func TestWhatIsLookedFor(t *testing.T) {
	t.Parallel()
	all := gcc + smi + kit("/usr/local/cuda-12.4", "12.4") + "-- @empty --\n/opt/rocm/bin/hipcc +x\n/opt/rocm/include/hip/hip_runtime.h\n" +
		"-- @links --\n/usr/lib64/libcudnn.so -> libcudnn.so.9\n-- @empty --\n/usr/lib64/libcudnn.so.9\n-- /usr/include/cudnn_version.h --\n" +
		"#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n-- /sys/module/nvidia/version --\n580.65.06\n"
	for _, tt := range []struct {
		story      string
		needs      toolchain.Needs
		wish       toolchain.Wish
		everything bool
		want       string
	}{
		{"a driver alone", toolchain.Needs{CUDA: true}, toolchain.Wish{}, false, ""},
		{"kernels", toolchain.Needs{NVCC: true}, toolchain.Wish{}, false, "gpu toolkit compiler"},
		{"libraries", toolchain.Needs{Libraries: true}, toolchain.Wish{}, false, "gpu toolkit compiler"},
		{"nvcc's version", toolchain.Needs{NVCCVersion: true}, toolchain.Wish{}, false, "toolkit compiler"},
		{"C++ alone", toolchain.Needs{HostCompiler: true}, toolchain.Wish{}, false, "toolkit compiler"},
		{"an architecture is asked for", toolchain.Needs{NVCC: true}, toolchain.Wish{Arch: "80"}, false, "toolkit compiler"},
		{"one is known from earlier", toolchain.Needs{NVCC: true}, toolchain.Wish{Previous: []gpu.Arch{{Capability: gpu.Capability{Major: 8}}}}, false, "toolkit compiler"},
		{"cuDNN", toolchain.Needs{CUDNN: true}, toolchain.Wish{}, false, "toolkit compiler cudnn"},
		{"cuDNN to run", toolchain.Needs{RunCUDNN: true}, toolchain.Wish{}, false, "toolkit compiler cudnn"},
		{"ROCm", toolchain.Needs{ROCm: true}, toolchain.Wish{}, false, "rocm"},
		{"everything", toolchain.Needs{}, toolchain.Wish{Arch: "80"}, true, "gpu toolkit compiler rocm"},
	} {
		m, run, _ := planted(t, all)
		f, notes := discovery{machine: m, host: m.Host, needs: tt.needs, wish: wish{Wish: tt.wish}, everything: tt.everything}.run(t.Context())
		var got []string
		for _, part := range []struct {
			name  string
			there bool
		}{{"gpu", len(f.Devices) == 1}, {"toolkit", len(f.Toolkits) == 1}, {"compiler", len(f.Compilers) > 0}, {"cudnn", len(f.CUDNN) > 0}, {"rocm", len(f.ROCm) > 0}} {
			if part.there {
				got = append(got, part.name)
			}
		}
		if strings.Join(got, " ") != tt.want || slices.Contains(run.asked, "/usr/bin/nvidia-smi") != (len(f.Devices) > 0) || (notes != nil) != (len(f.Devices) > 0) {
			t.Errorf("%s: found %q, asked %q, notes %q; want %s", tt.story, got, run.asked, notes, tt.want)
		}
	}
}

// TestCUDNNOfABrokenToolkit: a cuDNN inside a toolkit counts, and not one inside a toolkit that is of no use.
func TestCUDNNOfABrokenToolkit(t *testing.T) {
	t.Parallel()
	const inside = "-- @links --\n/opt/cuda/lib64/libcudnn.so -> libcudnn.so.9\n-- @empty --\n/opt/cuda/lib64/libcudnn.so.9\n" +
		"-- /opt/cuda/include/cudnn_version.h --\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"
	for toolkit, want := range map[string]int{kit("/opt/cuda", "12.4"): 1, "-- @empty --\n/opt/cuda/bin/x\n": 0} {
		m, _, _ := planted(t, gcc+inside+toolkit+"-- @env --\nPATH=/usr/bin\nCUDA_HOME=/opt/cuda\n")
		f, _ := discovery{machine: m, host: m.Host, needs: toolchain.Needs{CUDNN: true}, wish: wish{Wish: toolchain.Wish{Arch: "80"}}}.run(t.Context())
		hosttest.Equal(t, len(f.CUDNN), want, f.Toolkits, f.CUDNN)
	}
}

// TestNVCCIsAScript: where nvcc on PATH is a script of the user's, nvcc itself says which toolkit it starts.
func TestNVCCIsAScript(t *testing.T) {
	t.Parallel()
	const nvcc, path = "/home/u/bin/nvcc", "-- @env --\nPATH=/home/u/bin:/usr/bin\n"
	script := "-- " + nvcc + " +x --\n#!/bin/sh\n"
	for _, tt := range []struct {
		story, text, says string // says: what --dryrun prints; "!": it fails
		root, problem     string
		asked             bool
	}{
		{"it starts one", script + kit("/opt/cuda", "12.4"), "#$ TOP=/opt/cuda/bin/..\n", "/opt/cuda", "", true},
		{"it says nothing", script, "hello\n", nvcc, "names no toolkit", true},
		{"it fails", script, "!", nvcc, "it fails", true},
		{"a program with nothing around it", "-- " + nvcc + " +x --\n\x7fELF\n", "", "/home/u", "only nvcc is there", false},
		{"a program of Windows", "-- " + nvcc + " +x --\nMZ\x00\x00\n", "", "/home/u", "only nvcc is there", false},
		{"a toolkit's own", kit("/home/u", "12.4"), "", "/home/u", "", false},
		{"a toolkit's own, which is a script", strings.ReplaceAll(kit("/home/u", "12.4"), "\x7fELF", "#!/bin/sh"), "", "/home/u", "", false},
		{"next to the toolkit of a variable", script + kit("/opt/cuda", "12.4") + kit("/usr/local/cuda-12.4", "12.4") + "-- @env --\nPATH=/home/u/bin:/usr/bin\nCUDA_HOME=/usr/local/cuda-12.4\n",
			"#$ TOP=/opt/cuda/bin/..\n", "/opt/cuda", "", true},
	} {
		if !strings.Contains(tt.text, "@env") {
			tt.text += path
		}
		m, run, _ := planted(t, gcc+tt.text)
		if run.of[nvcc] = tt.says; tt.says == "!" {
			delete(run.of, nvcc)
		}
		found := findToolkits(t.Context(), m.Host, run, []cuda.Candidate{{Root: "/gone", Origin: "x"}})
		at := slices.IndexFunc(found, func(f cuda.Toolkit) bool { return f.Root == tt.root || f.NVCC == tt.root })
		if at < 0 || !strings.Contains(found[at].Problem, tt.problem) || tt.problem == "" && found[at].Problem != "" || slices.Contains(run.asked, nvcc) != tt.asked {
			t.Errorf("%s: %+v, asked %q", tt.story, found, run.asked)
		}
		if tt.root == "/opt/cuda" && slices.ContainsFunc(found, func(f cuda.Toolkit) bool { return f.Root == nvcc || f.Root == "/home/u" }) {
			t.Errorf("%s: the script is listed as a toolkit: %+v", tt.story, found)
		}
	}
}

// TestLaunchers: ccache or a script in front of nvcc stays where it calls the chosen nvcc, and is named where it calls another one.
func TestLaunchers(t *testing.T) {
	t.Parallel()
	const at = "/home/u/ccache/nvcc"
	file := "-- " + at + " +x --\n#!/bin/sh\n-- /home/u/x/nvcc +x --\n#!/bin/sh\n"
	for _, tt := range []struct {
		story, env, says string
		want, note       string
	}{
		{"none", "PATH=/usr/bin", "", "", ""},
		{"NVCC", "PATH=/usr/bin\nNVCC=" + at, "12.4", at, ""},
		{"CUDACXX", "PATH=/usr/bin\nCUDACXX=" + at, "12.4", at, ""},
		{"both", "PATH=/usr/bin\nNVCC=" + at + "\nCUDACXX=" + at, "12.4", at, ""},
		{"first on PATH", "PATH=/home/u/ccache:/usr/bin", "12.4", at, ""},
		{"second on PATH", "PATH=/opt/cuda/bin:/home/u/ccache:/usr/bin", "12.4", "", ""},
		{"another version", "PATH=/usr/bin\nNVCC=" + at, "11.8", "", "it is nvcc 11.8.9"},
		{"no version", "PATH=/usr/bin\nNVCC=" + at, "", "", "it is nvcc unknown"},
		{"a relative one", "PATH=/usr/bin\nNVCC=ccache/nvcc", "12.4", "", ""},
		{"gone", "PATH=/usr/bin\nNVCC=/home/u/gone/nvcc", "12.4", "", ""},
		{"the toolkit's own", "PATH=/usr/bin\nNVCC=/opt/cuda/bin/nvcc", "12.4", "", ""},
		{"another toolkit's own", "PATH=/usr/bin\nNVCC=/usr/local/cuda-13.4/bin/nvcc", "12.4", "", ""},
	} {
		m, run, said := planted(t, file+kit("/opt/cuda", "12.4")+kit("/usr/local/cuda-13.4", "13.4")+"-- @env --\n"+tt.env+"\n")
		if run.of[at] = "hello"; tt.says != "" {
			run.of[at] = fmt.Sprintf(release, tt.says)
		}
		c := Tools{Facts: toolchain.Facts{Toolkits: cuda.Find(m.Host, nil)}}
		for i := range c.Facts.Toolkits {
			if c.Facts.Toolkits[i].Root == "/opt/cuda" {
				c.Set.Toolkit = &c.Facts.Toolkits[i]
			}
		}
		if got := strings.Join(c.launchers(t.Context(), m, m.Host), " "); got != tt.want || !strings.Contains(said.String(), tt.note) || tt.note == "" && said.Len() > 0 {
			t.Errorf("%s: %q and %q, want %q and %q", tt.story, got, said, tt.want, tt.note)
		}
	}
	m, _, _ := planted(t, "")
	for _, none := range []toolchain.Set{{}, {Toolkit: &cuda.Toolkit{Root: "/x"}}} {
		if got := (Tools{Set: none}).launchers(t.Context(), m, m.Host); got != nil {
			t.Errorf("without an nvcc: %q", got)
		}
	}
}

// TestChoose: what a build is given on a planted machine, and what ends it.
func TestChoose(t *testing.T) {
	t.Parallel()
	kernels := features.Reach{Needs: features.Needs{CUDA: true, NVCC: true}, Units: []features.ScriptUnit{{Name: "k", Dir: "/r/app", Inputs: features.Inputs{NVCC: true}}}}
	driver := features.Reach{Needs: features.Needs{CUDA: true}}
	bad := errors.New("the sources cannot be read")
	own := func(u Undeclared, err error) Options {
		return Options{Undeclared: func(string) (Undeclared, error) { return u, err }}
	}
	in := func(env string) string { return "-- /r/app/.cargo/config.toml --\n[env]\n" + env + "\n" }
	const toolkit = "/usr/local/cuda-12.4"
	for _, tt := range []struct {
		story, text string
		words       string
		reach       features.Reach
		o           Options
		broken      bool   // no nvcc starts
		want        string // the toolkit and the architecture, or the error
		says        string
	}{
		{story: "kernels", text: gcc + smi + kit(toolkit, "12.4"), reach: kernels, want: toolkit + " 8.9", says: "Targeting sm_89"},
		{story: "an architecture", text: gcc + smi + kit(toolkit, "12.4"), reach: kernels, o: Options{Arch: "80"}, want: toolkit + " 8.0"},
		{story: "what it was built for", text: gcc + smi + kit(toolkit, "12.4"), reach: kernels, o: Options{BuiltFor: []gpu.Arch{{Capability: gpu.Capability{Major: 9}}}}, want: toolkit + " 9.0"},
		{story: "a driver alone", text: smi, reach: driver, want: "none unknown", says: "no toolkit: the GPU crates"},
		{story: "no toolkit", text: gcc, reach: kernels, want: "there is no CUDA toolkit"},
		{story: "no compiler", text: kit(toolkit, "12.4"), reach: kernels, want: "there is no host compiler for nvcc"},
		{story: "no compiler, which is said before a toolkit is fetched", text: smi, reach: kernels, o: Options{Toolkit: "fetch"}, want: "there is no host compiler"},
		{story: "a launcher as a word before nvcc is refused with a sentence", text: gcc + smi + kit(toolkit, "12.4") + "-- @empty --\n/usr/bin/sccache +x\n-- @env --\nPATH=/usr/bin\nNVCC=sccache nvcc\n", reach: kernels, want: toolkit + " 8.9", says: "NVCC is sccache nvcc: it is taken for the name of one program; name nvcc alone"},
		{story: "the same, with nvcc on PATH", text: gcc + smi + kit(toolkit, "12.4") + "-- @env --\nPATH=/usr/local/cuda-12.4/bin:/usr/bin\nNVCC=sccache nvcc\n", reach: kernels, want: toolkit + " 8.9",
			says: "NVCC is sccache nvcc: it is taken for the name of one program"},
		{story: "an nvcc that does not start", text: gcc + kit(toolkit, "12.4"), broken: true, reach: kernels, want: "there is no CUDA toolkit"},
		{story: "a build tool is absent", text: gcc + kit(toolkit, "12.4"), want: "there is no CMake",
			reach: features.Reach{Needs: features.Needs{NVCC: true, Because: []features.NeedReason{{Need: "CMake", Crate: "w 1.0.0"}}}}},
		{story: "a flag that names nothing", text: gcc + kit(toolkit, "12.4"), reach: kernels, o: Options{Prefix: "--gpu-", CCBin: "/gone/g++"}, want: "--gpu-ccbin /gone/g++: it does not exist"},
		{story: "sources that cannot be read", text: gcc, reach: driver, o: own(Undeclared{}, bad), want: bad.Error()},
		{story: "an undeclared package", text: gcc + smi + kit(toolkit, "12.4"), reach: driver, o: own(Undeclared{Package: "kern"}, nil), want: toolkit + " 8.9"},
		{story: "one whose architecture is known", text: gcc + smi + kit(toolkit, "12.4"), reach: driver,
			o: own(Undeclared{Package: "kern", Archs: []gpu.Arch{{Capability: gpu.Capability{Major: 8}}}}, nil), want: toolkit + " 8.0"},
		{story: "one without a toolkit", text: gcc, reach: driver, o: own(Undeclared{Package: "kern"}, nil), want: "none unknown", says: "no toolkit is set up for kern"},
		{story: "one that gpubuild.toml names, without a toolkit", text: gcc, reach: driver, o: own(Undeclared{Package: "kern", Named: true}, nil), want: "none unknown", says: "no toolkit is set up for kern"},
		{story: "the same for a type check, which a stand-in serves", text: gcc, words: "check", reach: driver, o: own(Undeclared{Package: "kern", Named: true}, nil), want: "there is no CUDA toolkit"},
		{story: "a download that is forbidden", text: gcc + smi + kit(toolkit, "12.4"), words: "build --offline", reach: kernels, o: Options{Toolkit: "fetch"}, want: toolkit + " 8.9", says: "nothing is fetched (--offline)"},
		{story: "a download that is not possible", text: gcc + "-- @env --\nPATH=/usr/bin\nGPUBUILD_REDIST=never\n", reach: kernels, o: Options{Toolkit: "fetch"}, want: "no pip to fetch the toolkit with"},
		{story: "the repository's launcher", text: gcc + smi + kit(toolkit, "12.4") + "-- /r/app/nvcc +x --\n#!/bin/sh\n" + in("NVCC = \"/r/app/nvcc\""), reach: kernels,
			o: Options{Cargo: cargo.Tool{Path: "/usr/bin/cargo"}}, want: "/r/app/nvcc is in the repository"},
		{story: "the repository's toolkit", text: gcc + kit("/r/app/cuda", "12.4") + in("CUDA_HOME = \"/r/app/cuda\""), reach: kernels,
			o: Options{Cargo: cargo.Tool{Path: "/usr/bin/cargo"}}, want: "/bin/nvcc is in the repository, and only the repository names it"},
		{story: "which the user trusts", text: gcc + smi + kit("/r/app/cuda", "12.4") + in("CUDA_HOME = \"/r/app/cuda\""), reach: kernels,
			o: Options{TrustProject: true, Cargo: cargo.Tool{Path: "/usr/bin/cargo"}}, want: "/r/app/cuda 8.9"},
		{story: "an [env] table without a cargo to read it", text: gcc + smi + kit(toolkit, "12.4") + in("CUDA_HOME = \"/r/app/cuda\""), reach: kernels, want: toolkit + " 8.9"},
		{story: "an [env] table that forces another value", text: gcc + smi + kit(toolkit, "12.4") + in("CUDA_COMPUTE_CAP = { value = \"70\", force = true }"), reach: kernels,
			o: Options{TrustProject: true, Arch: "80", Cargo: cargo.Tool{Path: "/usr/bin/cargo"}}, want: toolkit + " 8.0", says: "forces CUDA_COMPUTE_CAP=70"},
		{story: "a configuration that cannot be read", text: gcc + kit(toolkit, "12.4") + "-- @env --\nPATH=/usr/bin\nGPUBUILD_CONFIG=/gone.toml\n", reach: kernels, want: "GPUBUILD_CONFIG names this file"},
		{story: "the trust of one that cannot be read", text: gcc + kit(toolkit, "12.4") + in("CUDA_HOME = \"/x\"") + "-- @env --\nPATH=/usr/bin\nGPUBUILD_CONFIG=/gone.toml\n", reach: kernels,
			o: Options{Toolkit: "12.4", Cargo: cargo.Tool{Path: "/usr/bin/cargo"}}, want: "GPUBUILD_CONFIG names this file"},
	} {
		m, run, said := planted(t, tt.text)
		if tt.broken {
			run.of = nil
		}
		line, _, err := cargo.Split(strings.Fields(tt.words+" --features x"), nil)
		if tt.words == "" {
			line, _, err = cargo.Split([]string{"build"}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := &session.Session{Machine: m, Line: line, Project: &manifest.Project{Root: "/r/app"}}
		chosen, err := Choose(t.Context(), s, session.Graph{}, &tt.reach, tt.o)
		got := "none " + chosen.Set.Capability.String()
		if chosen.Set.Toolkit != nil {
			got = chosen.Set.Toolkit.Root + " " + chosen.Set.Capability.String()
		}
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), "\n")
		}
		if !strings.Contains(got, tt.want) || !strings.Contains(said.String(), tt.says) {
			t.Errorf("%s: %q and %q, want %q and %q", tt.story, got, said, tt.want, tt.says)
		}
		if err == nil && chosen.Set.Toolkit != nil && chosen.Undeclared.Package == "" && (chosen.Env.Get("CUDA_COMPUTE_CAP") != chosen.Set.Capability.Digits() || !strings.Contains(chosen.Env.Get("PATH"), chosen.Set.Toolkit.Root)) {
			t.Errorf("%s: the build's environment is %q", tt.story, chosen.Env.Entries())
		}
	}
}

// TestLauncherStays: what stands in front of the chosen nvcc is what build scripts get.
func TestLauncherStays(t *testing.T) {
	t.Parallel()
	const ccache = "/home/u/ccache/nvcc"
	for version, want := range map[string]string{"12.4": ccache, "11.8": ""} {
		m, run, _ := planted(t, gcc+kit("/opt/cuda", "12.4")+"-- "+ccache+" +x --\n#!/bin/sh\n-- @env --\nPATH=/usr/bin\nCUDA_HOME=/opt/cuda\nNVCC="+ccache+"\n")
		run.of[ccache] = fmt.Sprintf(release, version)
		s := &session.Session{Machine: m, Project: &manifest.Project{Root: "/r/app"}}
		chosen, err := Choose(t.Context(), s, session.Graph{}, &features.Reach{Needs: features.Needs{NVCC: true}}, Options{Arch: "80"})
		if got := chosen.Env.Get("NVCC"); err != nil || got != want {
			t.Errorf("ccache of %s: NVCC=%q, %v; want %q", version, got, err, want)
		}
	}
}

// TestPlantedOnWindows: a program in the directory of the build that Windows would run in place of the chosen one ends the build.
func TestPlantedOnWindows(t *testing.T) {
	text := hosttest.Must(os.ReadFile("../../../testdata/hosts/windows-prompt.txtar"))(t)
	t.Chdir(t.TempDir()) // to Linux the name of the cache, which has backslashes, is one of a file here
	for file, want := range map[string]string{"x.bat": "", "nvcc.bat": "lies where the build runs"} {
		h, err := hosttest.Parse([]byte(string(text) + "-- C:\\planted\\" + file + " --\n@echo off\n"))
		if err != nil {
			t.Fatal(err)
		}
		run := &answers{of: map[string]string{}}
		for _, f := range cuda.Find(h, nil) {
			run.of[f.NVCC] = fmt.Sprintf(release, f.Version)
		}
		s := &session.Session{Machine: &session.Machine{Host: h, Runner: run, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, CacheDir: t.TempDir()}, Project: &manifest.Project{Root: h.Cwd}}
		reach := &features.Reach{Needs: features.Needs{NVCC: true}, Units: []features.ScriptUnit{{Name: "k", Dir: `C:\planted`, Inputs: features.Inputs{NVCC: true}}}}
		_, err = Choose(t.Context(), s, session.Graph{}, reach, Options{})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestTheDriverDecides: on Windows a driver that is too old for the toolkit is refused, whether an architecture is asked for, remembered or
// neither; nvidia-smi is started once.
func TestTheDriverDecides(t *testing.T) {
	text := string(hosttest.Must(os.ReadFile("../../../testdata/hosts/windows-usual.txtar"))(t)) +
		"-- @empty --\nC:\\Windows\\system32\\nvidia-smi.exe\nC:\\Windows\\System32\\nvcuda.dll\n"
	t.Chdir(t.TempDir()) // to Linux the name of the cache, which has backslashes, is one of a file here
	reach := &features.Reach{Needs: features.Needs{NVCC: true, EmbedsPTX: true}}
	for driver, want := range map[string]string{"522.06": "driver 522.06 accepts only up to CUDA 11.8", "561.09": "", "700.1": ""} {
		for _, o := range []Options{{}, {Arch: "86"}, {BuiltFor: []gpu.Arch{{Capability: gpu.Capability{Major: 8, Minor: 6}}}}} {
			h := hosttest.Must(hosttest.Parse([]byte(text)))(t)
			run := &answers{of: map[string]string{`C:\Windows\system32\nvidia-smi.exe`: "0, GPU-1, RTX 3080, 8.6, 10240, " + driver + "\r\n"}}
			for _, f := range cuda.Find(h, nil) {
				run.of[f.NVCC] = fmt.Sprintf(release, f.Version)
			}
			s := &session.Session{Machine: &session.Machine{Host: h, Runner: run, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, CacheDir: t.TempDir()}, Project: &manifest.Project{Root: h.Cwd}}
			_, err := Choose(t.Context(), s, session.Graph{}, reach, o)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %+v: %v", driver, o, err)
			}
		}
	}
}

// TestClangSys: libclang is needed where clang-sys is part of the build.
func TestClangSys(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"clang-sys": true, "serde": false} {
		g := session.Graph{Units: &graph.Graph{Units: []graph.Unit{{PkgID: "registry+https://host.example/index#" + name + "@1.0.0"}}}}
		reach := &features.Reach{Needs: features.Needs{Because: []features.NeedReason{{Need: "libclang", Crate: "cust_raw 0.11.3"}}}}
		if err := AbsentTools(hosttest.Memory(nil), g, reach, func(string) bool { return false }); (err != nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
