package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/loader"
)

// programs answers each program by its path, and with its first argument where that is listed; any other fails with an error.
type programs map[string]buildenv.Result

func (p programs) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	words := append(append([]string{c.Path}, c.Args...), "")
	r, ok := p[words[0]+" "+words[1]]
	if !ok {
		r, ok = p[c.Path]
	}
	if !ok {
		return r, errors.New(c.Path + ": it cannot be started")
	}
	if c.Stdout != nil {
		_, _ = c.Stdout.Write(r.Stdout)
	}
	if c.Stderr != nil {
		_, _ = c.Stderr.Write(r.Stderr)
	}
	if r.Code != 0 {
		return r, &buildenv.ExitError{Cmd: c, Result: r}
	}
	return r, nil
}

const cargoVersion = "cargo 1.95.0 (x 2026-01-01)\nrelease: 1.95.0\nhost: x86_64-unknown-linux-gnu\n"

func planted(t *testing.T, text string, run programs) *session.Machine {
	t.Helper()
	if !strings.Contains(text, "PATH=") {
		text += "-- @env --\nPATH=/usr/bin\n"
	}
	h := hosttest.Must(hosttest.Parse([]byte("os: linux\narch: amd64\nhome: /home/u\ncwd: /w\n" + text)))(t)
	return &session.Machine{Host: h, Runner: run, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, CacheDir: t.TempDir()}
}

func lineOf(t *testing.T, words string) cargo.Line {
	t.Helper()
	l, _ := hosttest.Must2(cargo.Split(strings.Fields(words), nil))(t)
	return l
}

const manifestText = "-- /w/src/main.rs --\nfn main() {}\n-- /w/Cargo.toml --\n[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"

// TestOwnFeature: with which feature a project is checked where none is asked for.
func TestOwnFeature(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ story, features, words, want string }{
		{"none", "fast = []\n", "build", ""},
		{"cuda", "acuda = []\ncuda = []\nrocm = []\n", "build", "cuda"},
		{"another name", "cudnn = []\ngpu-cuda = []\nrocm = []\n", "build", "gpu-cuda"},
		{"not one with cuDNN", "cuda-cudnn = []\n", "build", ""},
		{"rocm", "rocm = []\n", "build", "rocm"},
		{"hip", "hip = []\n", "build", "hip"},
		{"one is asked for", "cuda = []\nfast = []\n", "build --features fast", ""},
		{"all are asked for", "cuda = []\n", "build --all-features", ""},
	} {
		m := planted(t, manifestText+"[features]\n"+tt.features, nil)
		hosttest.Equal(t, ownFeature(m, lineOf(t, tt.words)), tt.want, tt.story)
	}
	hosttest.Equal(t, ownFeature(planted(t, "", nil), lineOf(t, "build")), "", "without a project")
}

// TestNeedsWithoutALock: what the GPU crates of the manifests may need, by the features that are asked for.
func TestNeedsWithoutALock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ story, dependency, features, words, want string }{
		{"no GPU crate", `serde = "1"`, "", "build", "as before"},
		{"a crate of kernels", `candle-kernels = "0.9"`, "", "build", "CUDA"},
		{"one with a feature of the manifest", `candle-core = { version = "0.9", features = ["cuda"] }`, "", "build", "CUDA"},
		{"a feature of the project", `candle-core = "0.9"`, `cuda = ["candle-core/cuda"]`, "build --features cuda", "CUDA"},
		{"only another backend", `cubecl = { version = "0.8", features = ["hip"] }`, "", "build", "ROCm"},
		{"another backend by the project's feature", `cubecl = "0.8"`, `rocm = ["cubecl/hip"]`, "build --features rocm", "ROCm"},
		{"both backends", `cubecl = { version = "0.8", features = ["hip", "cuda"] }`, "", "build", "CUDA ROCm"},
		{"a crate of ROCm", `cubecl-hip-sys = "7"`, "", "build", "ROCm"},
		{"two crates", "cubecl-hip-sys = \"7\"\ncandle-kernels = \"0.9\"", "", "build", "CUDA ROCm"},
		{"two crates, the other way round", "zz = { package = \"cubecl-hip-sys\", version = \"7\" }\ncandle-kernels = \"0.9\"", "", "build", "CUDA ROCm"},
	} {
		m := planted(t, manifestText+"[dependencies]\n"+tt.dependency+"\n[features]\n"+tt.features+"\n", nil)
		s := hosttest.Must(session.Open(m, lineOf(t, tt.words)))(t)
		f := Facts{Needs: toolchain.Needs{Libraries: true}}
		f.takeNamed(reach.Judged{Session: s})
		n, got := f.Needs, []string{}
		for _, part := range []struct {
			name string
			is   bool
		}{{"as before", n.Libraries}, {"CUDA", n.CUDA && n.NVCC && n.HostCompiler}, {"ROCm", n.ROCm}} {
			if part.is {
				got = append(got, part.name)
			}
		}
		if strings.Join(got, " ") != tt.want || n.CUDA != n.NVCC || n.CUDA != n.HostCompiler {
			t.Errorf("%s: %q, want %q (%+v)", tt.story, got, tt.want, n)
		}
	}
}

// TestNotOpened: why there is no project to look at, with what to do about it.
func TestNotOpened(t *testing.T) {
	t.Parallel()
	refused := func(stderr string) error { return &cargo.RefusedError{Stderr: []byte(stderr)} }
	for _, tt := range []struct {
		story string
		err   error
		why   string
		fix   string
		bad   bool
	}{
		{"there is none", fmt.Errorf("x: %w", manifest.ErrNotFound), "x: ", "", false},
		{"a mistake in a manifest", refused("error: invalid key\n --> Cargo.toml:3:1\n"), "invalid key", "correct the line that cargo shows", true},
		{"another refusal", refused("error: no such feature\n"), "no such feature", "", true},
		{"an error with its own hint", exit.Errorf(exit.Config, "do this", "a mistake --> here"), "a mistake", "do this", true},
		{"a password", refused("error: cannot fetch https://me:secret@host.example/x\n"), "https://…@host.example/x", "", true},
	} {
		var f Facts
		f.notOpened(tt.err)
		if r := f.NoProject; !strings.Contains(r.Why, tt.why) || tt.fix != "" && r.Fix != tt.fix || tt.fix == "" && strings.Contains(r.Fix, "correct the line") || f.ProjectBad != tt.bad || strings.Contains(r.Why, "secret") {
			t.Errorf("%s: %+v, bad %v", tt.story, f.NoProject, f.ProjectBad)
		}
	}
}

// TestWhichCargo: its version, and what it builds for.
func TestWhichCargo(t *testing.T) {
	t.Parallel()
	is := programs{"/usr/bin/cargo": {Stdout: []byte(cargoVersion)}}
	const there = "-- @empty --\n/usr/bin/cargo +x\n"
	for _, tt := range []struct {
		story, text, words string
		run                programs
		cargo, target, why string
	}{
		{"it answers", there, "build", is, "(PATH /usr/bin/cargo)", "x86_64-unknown-linux-gnu", ""},
		{"for another target", there, "build --target aarch64-unknown-linux-gnu", is, "(PATH /usr/bin/cargo)", "aarch64-unknown-linux-gnu", ""},
		{"none is there", "", "build", nil, "", "", "it is in no directory of PATH"},
		{"none is there, for a target", "", "build --target aarch64-unknown-linux-gnu", nil, "", "aarch64-unknown-linux-gnu", "it is in no directory of PATH"},
		{"it does not start", there, "build", nil, "", "", "it cannot be started"},
		{"it says something else", there, "build", programs{"/usr/bin/cargo": {Stdout: []byte("hello\n")}}, "", "", ""},
	} {
		var f Facts
		f.findCargo(t.Context(), planted(t, tt.text, tt.run), lineOf(t, tt.words))
		if !strings.Contains(f.Cargo, tt.cargo) || (f.Cargo == "") != (tt.cargo == "") || f.Target != tt.target || !strings.Contains(f.NoCargo.Why, tt.why) || (f.NoCargo.Why == "") != (tt.why == "") {
			t.Errorf("%s: %q for %q, %+v", tt.story, f.Cargo, f.Target, f.NoCargo)
		}
	}
}

// kit is a toolkit that a build takes, without its libraries to run with.
const kit = "-- @links --\n/opt/cuda/lib64/libcudart.so -> libcudart.so.12\n-- @empty --\n/opt/cuda/bin/nvcc +x\n/opt/cuda/nvvm/bin/cicc +x\n/opt/cuda/include/nv/target\n" +
	"/opt/cuda/include/cuda_runtime.h\n/opt/cuda/lib64/libcudart.so.12\n/opt/cuda/lib64/stubs/libcuda.so\n/opt/cuda/extras/CUPTI/lib64/libcupti.so.12\n" +
	"-- /opt/cuda/version.json --\n{\"cuda\": {\"name\": \"CUDA SDK\", \"version\": \"12.4.1\"}}\n" +
	"-- /opt/cuda/include/cuda.h --\n#define CUDA_VERSION 12040\n-- /opt/cuda/include/crt/host_config.h --\n#if __GNUC__ > 13\n#error -- unsupported GNU version!\n#endif\n"

const gcc = "-- @links --\n/usr/bin/gcc -> gcc-12\n/usr/bin/g++ -> g++-12\n-- @empty --\n/usr/bin/gcc-12 +x\n/usr/bin/g++-12 +x\n"

// TestGather: what is found out of a machine and a project, and what ends doctor.
func TestGather(t *testing.T) {
	t.Parallel()
	nvcc := buildenv.Result{Stdout: []byte("Cuda compilation tools, release 12.4, V12.4.9\n")}
	refuses := func(stderr string) programs {
		return programs{"/opt/cuda/bin/nvcc": nvcc, "/usr/bin/cargo": {Code: 101, Stderr: []byte(stderr)}, "/usr/bin/cargo -Vv": {Stdout: []byte(cargoVersion)}}
	}
	// unlocked is a cargo that writes no Cargo.lock and knows the workspace.
	unlocked := func(name, features, declared string) programs {
		p := refuses("error: cannot create the lock file /w/Cargo.lock because --locked was passed to prevent this\n")
		p["/usr/bin/cargo metadata"] = buildenv.Result{Stdout: []byte(`{"packages": [{"name": "app", "version": "1.0.0", "id": "path+file:///w#app@1.0.0", "manifest_path": "/w/Cargo.toml", "source": null,
			"features": {` + declared + `}, "targets": [{"kind": ["bin"], "name": "app", "src_path": "/w/src/main.rs"}],
			"dependencies": [{"name": "` + name + `", "req": "^0.9", "kind": null, "optional": false, "uses_default_features": true, "features": [` + features + `], "rename": null, "target": null, "source": "registry+x"}]}],
			"workspace_members": ["path+file:///w#app@1.0.0"], "workspace_default_members": ["path+file:///w#app@1.0.0"], "resolve": null, "workspace_root": "/w", "target_directory": "/w/target", "version": 1}`)}
		return p
	}
	const there = "-- @empty --\n/usr/bin/cargo +x\n"
	const project = manifestText + "[dependencies]\ncandle-kernels = \"0.9\"\n"
	for _, tt := range []struct {
		story, text string
		o           Options
		run         programs
		err         string
		check       func(Facts) bool
	}{
		{story: "a machine", text: gcc + kit, run: programs{"/opt/cuda/bin/nvcc": nvcc}, check: func(f Facts) bool {
			return f.ChooseErr == nil && f.Chosen.Toolkit != nil && f.Compiler == "gcc 12 (/usr/bin/gcc)" && f.CUPTI != "" && !f.ProjectBad && f.NoProject.Why == "there is no cargo to ask"
		}},
		{story: "an nvcc that does not start", text: gcc + kit, check: func(f Facts) bool { return f.ChooseErr != nil && f.Chosen.Toolkit == nil }},
		{story: "a compiler that is gone is not the probe's", text: gcc + kit + "-- @env --\nPATH=/usr/bin\nCC=/gone/gcc\n", run: programs{"/opt/cuda/bin/nvcc": nvcc},
			check: func(f Facts) bool { return f.Compiler == "gcc 12 (/usr/bin/gcc)" }},
		{story: "no compiler", text: kit, run: programs{"/opt/cuda/bin/nvcc": nvcc}, check: func(f Facts) bool { return f.Compiler == "" && f.ChooseErr != nil && f.CUPTI != "" }},
		{story: "what is asked for fits nothing and has CUPTI", text: kit, o: Options{Tools: tools.Options{Toolkit: "12.4"}}, run: programs{"/opt/cuda/bin/nvcc": nvcc},
			check: func(f Facts) bool { return f.ChooseErr != nil && strings.HasPrefix(f.CUPTI, "/opt/cuda") }},
		{story: "nothing", check: func(f Facts) bool { return f.ChooseErr != nil && f.CUPTI == "" && len(f.Run.Dirs) == 0 }},
		{story: "a download", o: Options{Tools: tools.Options{Toolkit: "fetch"}}, err: "doctor fetches nothing"},
		{story: "a download by a variable", text: "-- @env --\nPATH=/usr/bin\nGPUBUILD_CUDA=fetch\n", err: "doctor fetches nothing"},
		{story: "that the flag overrules", text: gcc + kit + "-- @env --\nPATH=/usr/bin\nGPUBUILD_CUDA=fetch\n", o: Options{Tools: tools.Options{Toolkit: "12.4"}}, run: programs{"/opt/cuda/bin/nvcc": nvcc},
			check: func(f Facts) bool { return f.ChooseErr == nil }},
		{story: "a flag that names nothing", o: Options{Tools: tools.Options{CCBin: "g++-9"}}, err: "it is not on PATH"},
		{story: "a project that cargo refuses", text: gcc + kit + there + project, run: refuses("error: no such thing\n --> Cargo.toml:1:1\n"),
			check: func(f Facts) bool { return f.ProjectBad && f.Project == "" && f.Needs.NVCC && f.Cargo != "" }},
		{story: "one without a lock", text: gcc + kit + there + project, run: unlocked("candle-kernels", "", ""),
			check: func(f Facts) bool {
				return f.NoLock && !f.ProjectBad && f.Project == "Cargo.toml" && f.Needs.NVCC && f.Assumed == ""
			}},
		{story: "one with a feature for CUDA", text: gcc + kit + there + manifestText + "[dependencies]\ncandle-core = \"0.9\"\n[features]\ncuda = [\"candle-core/cuda\"]\n",
			run:   unlocked("candle-core", "", `"cuda": ["candle-core/cuda"]`),
			check: func(f Facts) bool { return f.NoLock && f.Assumed == "cuda" && f.Needs.CUDA && !f.ProjectBad }},
		{story: "one with a feature that enables nothing", text: gcc + kit + there + manifestText + "[dependencies]\ncandle-core = \"0.9\"\n[features]\ncuda = []\n",
			run: unlocked("candle-core", "", `"cuda": []`),
			check: func(f Facts) bool {
				return f.Assumed == "cuda" && f.Stops != nil && strings.Contains(f.Stops.Fix, "features --fix")
			}},
		{story: "a rustup without a toolchain", text: gcc + kit + there, run: programs{"/usr/bin/cargo": {Code: 1, Stderr: []byte(
			"error: rustup could not choose a version of cargo to run\nhelp: run 'rustup default stable' to download the latest stable release of Rust\n")}},
			check: func(f Facts) bool { return f.Cargo == "" && f.NoCargo.Fix == "rustup default stable" }},
		{story: "no project", text: gcc + kit + there, run: refuses("error: x\n"), check: func(f Facts) bool { return !f.ProjectBad && f.Project == "" && f.Needs.NVCC }},
	} {
		m := planted(t, tt.text, tt.run)
		f, err := Gather(t.Context(), m, lineOf(t, "build"), tt.o)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || err == nil && !tt.check(f) {
			t.Errorf("%s: %v: project %q, %+v, bad %v, no lock %v; chosen %+v, %v; compiler %q, CUPTI %q; needs %+v", tt.story, err, f.Project, f.NoProject, f.ProjectBad, f.NoLock, f.Chosen.Toolkit, f.ChooseErr, f.Compiler, f.CUPTI, f.Needs)
		}
	}
}

// TestRunName: the name by which programs ask for a library, by the toolkit that is used.
func TestRunName(t *testing.T) {
	t.Parallel()
	kits := []cuda.Toolkit{{Version: gpu.Version{Major: 12, Minor: 4}}}
	for _, tt := range []struct {
		os, library, files string
		kits               []cuda.Toolkit
		want               string
	}{
		{"linux", "libcufft", "/d/libcufft.so.11 /d/libcufft.so /d/libcufftw.so.11", kits, "libcufft.so.11"},
		{"linux", "libcufft", "/d/libcufft.so", kits, ""},
		{"linux", "libcublas", "", kits, "libcublas.so.12"}, {"linux", "libcublasLt", "", kits, "libcublasLt.so.12"},
		{"linux", "libcudart", "", kits, "libcudart.so.12"}, {"linux", "libnvrtc", "", kits, "libnvrtc.so.12"},
		{"linux", "libcudart", "", nil, ""},
		{"linux", "libcudnn", "", kits, ""},
		{"windows", "libcublas", `C:\d\cublas64_12.dll C:\d\cublasLt64_12.dll`, kits, "cublas64_12.dll"},
		{"windows", "libnvrtc", `C:\d\nvrtc64_120_0.dll`, kits, "nvrtc64_120_0.dll"},
		{"windows", "libcudart", "", kits, ""},
		{"windows", "libnvrtc", `C:\d\nvrtc64_130_0.dll`, kits, ""}, // of another CUDA
	} {
		dir := map[string]string{"linux": "/d", "windows": `C:\d`}[tt.os]
		h := hosttest.Must(hosttest.Parse([]byte("os: " + tt.os + "\n-- @empty --\n" + strings.ReplaceAll(tt.files, " ", "\n") + "\n")))(t)
		hosttest.Equal(t, runName(h, tt.library, []string{dir}, tt.kits), tt.want, tt.library, tt.os, tt.files)
	}
}

// TestWhichLibrariesAreLookedFor: what a program loads by itself, and not the driver or what is built in.
func TestWhichLibrariesAreLookedFor(t *testing.T) {
	t.Parallel()
	m := planted(t, kit, nil)
	m.Self = "/gone"
	needs := []features.NeedReason{{Need: "the NVIDIA driver"}, {Need: "libcudart", Crate: "a", Why: "to start"}, {Need: "libcublas", Why: "built in, but for the driver"}, {Need: "libcufft", Crate: "b"}}
	r := runTime(t.Context(), m, needs, []cuda.Toolkit{{Root: "/opt/cuda", Lib: "/opt/cuda/lib64", Version: gpu.Version{Major: 12, Minor: 4}}})
	got := ""
	for _, l := range r.Libraries {
		got += fmt.Sprintf("%s of %s %s; ", l.Found.Name, l.Crate, l.Found.Kind)
	}
	hosttest.Equal(t, got, "libcudart.so.12 of a ; libcufft of b "+string(loader.Missing)+"; ")
	w := *m
	w.Host.OS = buildenv.Windows
	if none := runTime(t.Context(), &w, needs[3:], nil); none.Libraries[0].Found.Name != "cufft64_*.dll" {
		t.Errorf("on Windows: %+v", none.Libraries)
	}
	// ort up to rc.11 is built for CUDA 12, whatever toolkit builds
	eleven := runTime(t.Context(), m, []features.NeedReason{{Need: "libcudart", Crate: "ort-sys", Major: 11}}, []cuda.Toolkit{{Root: "/opt/cuda", Lib: "/opt/cuda/lib64", Version: gpu.Version{Major: 12, Minor: 4}}})
	hosttest.Equal(t, eleven.Libraries[0].Found.Name, "libcudart.so.11")
	f := Facts{Run: eleven, Chosen: toolchain.Set{Toolkit: &cuda.Toolkit{Version: gpu.Version{Major: 12, Minor: 4}}}}
	hosttest.Equal(t, runFix(f, []string{"libcudart.so.11"}), "gpubuild toolchain install 11.8 --parts run")
	f.Toolchain.Driver.CUDA = gpu.Version{Major: 11, Minor: 4}
	hosttest.Equal(t, runFix(f, []string{"libcudart.so.11"}), "gpubuild toolchain install 11.4 --parts run")
}

// TestTryCache: that nothing can be kept is said, unless it is known already why the cache is not used.
func TestTryCache(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dir, known string
		want       bool
	}{{t.TempDir(), "", false}, {"/dev/null/x", "", true}, {"/dev/null/x", "it is another user's", false}} {
		f := Facts{Cache: tt.dir, NoCache: Reason{Why: tt.known}}
		if f.TryCache(); (f.Unkept.Why != "") != tt.want {
			t.Errorf("%+v: %+v", tt, f.Unkept)
		}
	}
}

// TestBlame: which check says why nothing was chosen, and what the others say then.
func TestBlame(t *testing.T) {
	t.Parallel()
	gnu := toolchain.Facts{Toolkits: []cuda.Toolkit{{Root: "/a", Version: gpu.Version{Major: 13, Minor: 4}, Origin: "CUDA_HOME"}}}
	needs := toolchain.Needs{CUDA: true, NVCC: true}
	missing := func(part toolchain.Part) error { return &toolchain.MissingError{What: "x", Part: part, Fix: "y"} }
	loser := toolchain.Loser{What: "CUDA toolkit", Where: cuda.AdminLink, Why: "it is broken"}
	chosen := toolchain.Set{Toolkit: &gnu.Toolkits[0]}
	with := func(notes ...string) toolchain.Set {
		s := chosen
		s.Losers, s.Notes = []toolchain.Loser{loser, {What: "cuDNN", Where: cuda.AdminLink, Why: "odd"}, {What: "CUDA toolkit", Where: "/b", Why: "older"}}, notes
		return s
	}
	for _, tt := range []struct {
		story string
		f     Facts
		id    string
		want  string // "-": no such check; "!": not
		state State
	}{
		{"no SDK on a machine without one", Facts{Needs: needs, Toolchain: gnu, ChooseErr: missing(toolchain.PartSDK)}, "cuda.set", "x", Missing},
		{"the toolkit is at fault", Facts{Needs: needs, Toolchain: gnu, ChooseErr: &toolchain.MisfitError{What: "too old", Part: toolchain.PartToolkit}}, "cuda.toolkit", "too old", Misfit},
		{"the administrators' link", Facts{Needs: needs, Toolchain: gnu, Chosen: with()}, "cuda.toolkit", cuda.AdminLink + " is not used: it is broken", OK},
		{"and nothing else", Facts{Needs: needs, Toolchain: gnu, Chosen: with()}, "cuda.toolkit", "!odd", OK},
		{"nor another toolkit", Facts{Needs: needs, Toolchain: gnu, Chosen: with()}, "cuda.toolkit", "!older", OK},
		{"which a note says already", Facts{Needs: needs, Toolchain: gnu, Chosen: with(cuda.AdminLink + " is not used: it is broken")}, "cuda.toolkit", "!is not used", OK},
		{"what the toolkit lacks", Facts{Needs: needs, ChooseErr: missing(toolchain.PartToolkit)}, "cuda.toolkit", "no x", Missing},
		{"what another part lacks", Facts{Needs: needs, ChooseErr: missing(toolchain.PartCUDNN)}, "cuda.toolkit", "no CUDA toolkit", Missing},
		{"the driver alone", Facts{Needs: toolchain.Needs{CUDA: true}}, "cuda.toolkit", "these crates load the driver", Info},
		{"nothing to fit", Facts{Needs: toolchain.Needs{CUDA: true}}, "cuda.set", "nothing has to fit", Info},
		{"all fits", Facts{Needs: needs, Chosen: chosen}, "cuda.set", "fit together", OK},
		{"not chosen", Facts{Needs: needs, Toolchain: gnu, ChooseErr: missing(toolchain.PartCUDNN)}, "cuda.set", "not chosen (see cudnn)", Info},
		{"the fix of the build", Facts{Needs: toolchain.Needs{CUDNN: true}, Install: "other", ChooseErr: &toolchain.MisfitError{Part: toolchain.PartCUDNN, Fix: "pip"}}, "cudnn", "pip", Missing},
		{"a cuDNN", Facts{Needs: toolchain.Needs{CUDNN: true}, Chosen: toolchain.Set{CUDNN: &cudnn.Install{Root: "/d", Version: "9.1", Origin: "CUDNN_LIB"}}}, "cudnn", "(CUDNN_LIB)", OK},
		{"ROCm alone", Facts{Needs: toolchain.Needs{ROCm: true}}, "driver", "-", OK},
		{"of which nothing is proven", Facts{Needs: toolchain.Needs{ROCm: true}}, "probe", "proves nothing there", Info},
		{"Vulkan alone", Facts{Vulkan: &Vulkan{}, Project: "Cargo.toml"}, "driver", "-", OK},
		{"of which something is", Facts{Vulkan: &Vulkan{}, Project: "Cargo.toml"}, "probe", "no C compiler", Info},
		{"CUPTI of the toolkit that is used", Facts{Needs: needs, Chosen: chosen}, "cupti", "no libcupti", Info},
		{"a GPU in the way of a proof", Facts{Needs: needs, Prove: true}, "devices", "no GPU is visible", Missing},
		{"what rustc builds for is unknown", Facts{Needs: needs}, "rust.target", "not known", Info},
	} {
		at := Check{Says: "-"}
		for _, c := range Run(tt.f) {
			if c.ID == tt.id {
				at = c
			}
		}
		want, not := strings.CutPrefix(tt.want, "!")
		if strings.Contains(at.Says+"\n"+at.Fix, want) == not || tt.want != "-" && at.State != tt.state || (tt.id == "devices") != strings.Contains(at.Fix, "--gpus all") {
			t.Errorf("%s: %s %q, fix %q; want %s %q", tt.story, at.State, at.Says, at.Fix, tt.state, tt.want)
		}
	}
}

// TestLongPATH: what a build warns of before nvcc on Windows starts, doctor says, too.
func TestLongPATH(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Windows, Env: buildenv.NewEnv(buildenv.Windows, []string{"PATH=" + strings.Repeat(`C:\directory;`, 700)})}
	c := checkSet(Facts{Host: h, Needs: toolchain.Needs{NVCC: true}, Chosen: toolchain.Set{Toolkit: &cuda.Toolkit{}}})
	if c.State != Warning || !strings.Contains(c.Says, "no more than 8191") {
		t.Errorf("%+v", c)
	}
}

// TestWithoutAToolkit: what is needed and hangs on a toolkit that is not there is not called unneeded.
func TestWithoutAToolkit(t *testing.T) {
	for _, tt := range []struct {
		story      string
		needs      toolchain.Needs
		capability string
	}{
		{"kernels are compiled", toolchain.Needs{NVCC: true, Libraries: true}, "see cuda.toolkit"},
		{"a library is linked", toolchain.Needs{Libraries: true}, "nothing is compiled"},
		{"nothing of a toolkit is needed", toolchain.Needs{}, "nothing is compiled"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			f := Facts{Needs: tt.needs, ChooseErr: &toolchain.MissingError{What: "CUDA toolkit", Part: toolchain.PartToolkit}}
			if got := checkCapability(f); got.State != Info || !strings.Contains(got.Says, tt.capability) {
				t.Errorf("capability: %+v", got)
			}
		})
	}
}

// TestHiddenDevices: a GPU that CUDA_VISIBLE_DEVICES hides is not ready to prove with.
func TestHiddenDevices(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"-": "ok RTX (GPU-a, capability 8.6); listed by NVML", "": "missing CUDA_VISIBLE_DEVICES= hides all GPUs", "GPU-b": "missing CUDA_VISIBLE_DEVICES=GPU-b hides all GPUs", "GPU-a": "ok RTX (GPU-a, capability 8.6); listed by NVML",
		"1": "missing CUDA_VISIBLE_DEVICES=1 hides all GPUs", "5,0": "missing CUDA_VISIBLE_DEVICES=5,0 hides all GPUs", "0,1": "ok RTX (GPU-a, capability 8.6); listed by NVML"} {
		f := Facts{Prove: true, Notes: []string{"no NVML"}, Toolchain: toolchain.Facts{Driver: gpu.Driver{Origin: "NVML"}, Devices: []gpu.Device{{UUID: "GPU-a", Name: "RTX", Capability: gpu.Capability{Major: 8, Minor: 6}}}}}
		if value != "-" {
			f.Host.Env = buildenv.NewEnv(buildenv.Linux, []string{"CUDA_VISIBLE_DEVICES=" + value})
		}
		c := checkDevices(f)
		hosttest.Equal(t, string(c.State)+" "+c.Says, want)
	}
}

// TestDriverBelowToolkit: what a toolkit of a newer major version builds cannot run here, and nothing can be proven of it.
func TestDriverBelowToolkit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		have gpu.Version
		fix  string
	}{
		{gpu.Version{Major: 12, Minor: 8}, "gpubuild toolchain install 12.8, or a newer driver"}, {gpu.Version{Major: 11, Minor: 8}, "a newer driver"},
		{gpu.Version{Major: 13}, ""}, {gpu.Version{}, ""},
	} {
		f := Facts{Chosen: toolchain.Set{Toolkit: &cuda.Toolkit{Version: gpu.Version{Major: 13, Minor: 5}}}}
		f.Toolchain.Driver = gpu.Driver{Version: "570.1", CUDA: tt.have, Origin: "NVML"}
		c := checkDriver(f)
		hosttest.Equal(t, c.Fix, tt.fix)
		hosttest.Equal(t, strings.Contains(Verdict([]Check{c}), "Not ready to prove: driver 570.1 runs CUDA up to"), tt.fix != "", Verdict([]Check{c}))
		hosttest.Equal(t, strings.Contains(c.Says, "NVML"), true, c.Says)
	}
}
