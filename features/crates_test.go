package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/gpu"
)

// linked is a graph of one program and the packages that it links, as "name version feature,feature".
func linked(t *testing.T, root string, list ...string) *graph.Graph {
	t.Helper()
	name, feats, _ := strings.Cut(root, " ")
	unit := func(id, kind, src, feats string, deps string) string {
		var quoted []string
		for _, f := range strings.FieldsFunc(feats, func(c rune) bool { return c == ',' }) {
			quoted = append(quoted, `"`+f+`"`)
		}
		return fmt.Sprintf(
			`{"pkg_id":"%s","target":{"kind":["%s"],"name":"x","src_path":"%s"},"mode":"build","features":[%s],"dependencies":[%s]}`,
			id,
			kind,
			src,
			strings.Join(quoted, ","),
			deps,
		)
	}
	var deps, units []string
	for i, s := range list {
		w := strings.SplitN(s+" ", " ", 3)
		deps = append(deps, fmt.Sprintf(`{"index":%d,"extern_crate_name":"%s"}`, i+1, strings.ReplaceAll(w[0], "-", "_")))
		units = append(
			units,
			unit(
				"registry+https://registry.example/index#"+w[0]+"@"+w[1],
				"lib",
				registryRoot+w[0]+"-"+w[1]+"/src/lib.rs",
				strings.TrimSpace(w[2]),
				"",
			),
		)
	}
	text := `{"version":1,"units":[` + strings.Join(
		append([]string{unit("path+file:///w/"+name+"#0.1.0", "bin", "/w/"+name+"/src/main.rs", feats, strings.Join(deps, ","))}, units...),
		",",
	) + `],"roots":[0]}`
	g, err := graph.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func judgeLinked(t *testing.T, g *graph.Graph, files map[string]string, env []string, r manifest.Request) *Reach {
	t.Helper()
	h := hosttest.Memory(files)
	h.Env = buildenv.NewEnv(buildenv.Linux, env)
	p, err := manifest.Load(h, "/w/app/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	a := judgeIn(h, Input{Project: p, Request: r, Graph: g})
	return a
}

// TestCudnnLeftOff: where CUDA is on and cuDNN was asked for, the crate that has cuDNN off is named; without CUDA that is said first.
func TestCudnnLeftOff(t *testing.T) {
	files := map[string]string{
		"/w/app/Cargo.toml":                            pkg("app", "[features]\ncuda = [\"candle-core/cuda\"]\ncudnn = [\"cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\n"),
		registryRoot + "candle-core-0.11.1/Cargo.toml": "[package]\nname = \"candle-core\"\n[features]\ncuda = []\ncudnn = [\"cuda\"]\n",
	}
	const off = "`cudnn` of app does not enable `cudnn` of candle-core 0.11.1"
	for on, want := range map[string]string{"cuda": off, "cuda,cudnn": "", "": "`cudnn`"} {
		a := judgeLinked(t, linked(t, "app cudnn,cuda", "candle-core 0.11.1 "+on), files, nil, ask("cudnn"))
		if found := len(a.Findings) > 0 && strings.Contains(a.Findings[0].Message, want); found != (want != "") || want == off && !a.Stops {
			t.Errorf("candle-core with %q: %+v", on, a.Findings)
		}
	}
}

// TestLibtorch: tch has no feature for CUDA, so the libtorch that torch-sys will find is looked for in its order.
func TestLibtorch(t *testing.T) {
	app := map[string]string{"/w/app/Cargo.toml": pkg("app", "[features]\ncuda = []\n[dependencies]\ntch = \"0.26\"\n")}
	tests := []struct {
		story    string
		files    map[string]string
		env      []string
		feats    string
		severity string
		says     string
	}{
		{"nothing named", nil, nil, "", Note, "no libtorch is named"},
		{"downloaded without a word", nil, nil, "download-libtorch", Error, "the libtorch for the CPU is downloaded"},
		{"downloaded for CUDA", nil, []string{"TORCH_CUDA_VERSION=cu128"}, "download-libtorch", Note, "for cu128 is downloaded"},
		{
			"a libtorch with CUDA",
			map[string]string{"/t/lib/libtorch_cuda.so": "x", "/t/lib/libtorch_cpu.so": "x"},
			[]string{"LIBTORCH=/t"},
			"",
			Note,
			"/t/lib holds a libtorch with CUDA",
		},
		{
			"a libtorch without CUDA",
			map[string]string{"/t/lib/libtorch_cpu.so": "x"},
			[]string{"LIBTORCH=/t"},
			"download-libtorch",
			Error,
			"holds a libtorch without CUDA",
		},
		{
			"LIBTORCH_LIB goes before LIBTORCH",
			map[string]string{"/t/lib/libtorch_cpu.so": "x", "/u/lib/libtorch_cuda.so": "x"},
			[]string{"LIBTORCH=/t", "LIBTORCH_LIB=/u"},
			"",
			Note,
			"/u/lib holds a libtorch with CUDA",
		},
		{
			"the system's",
			map[string]string{"/usr/lib/libtorch.so": "x"},
			nil,
			"download-libtorch",
			Error,
			"/usr/lib holds a libtorch without CUDA",
		},
		{"an empty directory says nothing", nil, []string{"LIBTORCH=/t"}, "", Note, "holds no libtorch"},
		{
			"PyTorch decides",
			map[string]string{"/t/lib/libtorch_cpu.so": "x"},
			[]string{"LIBTORCH_USE_PYTORCH=1", "LIBTORCH=/t"},
			"",
			Note,
			"python3",
		},
		{
			"cargo's configuration names it",
			map[string]string{"/w/.cargo/config.toml": "[env]\nTORCH_CUDA_VERSION = \"cu128\"\n"},
			nil,
			"download-libtorch",
			Note,
			"[env]",
		},
		{
			"cargo's configuration names another one than the system's",
			map[string]string{"/usr/lib/libtorch.so": "x", "/w/.cargo/config.toml": "[env]\nLIBTORCH = \"/t\"\n"},
			nil,
			"download-libtorch",
			Note,
			"[env]",
		},
		{"documentation only", nil, nil, "doc-only", Note, "no libtorch is linked"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			files := map[string]string{}
			for _, m := range []map[string]string{app, tt.files} {
				for p, s := range m {
					files[p] = s
				}
			}
			a := judgeLinked(t, linked(t, "app cuda", "tch 0.26.0", "torch-sys 0.26.0 "+tt.feats), files, tt.env, ask("cuda"))
			if len(a.Findings) != 1 || a.Findings[0].ID != map[string]string{Note: IDByFile, Error: IDFileCPU}[tt.severity] || a.Findings[0].Severity != tt.severity ||
				!strings.Contains(a.Findings[0].Message, tt.says) {
				t.Errorf("%+v, want %s with %q", a.Findings, tt.severity, tt.says)
			}
			if a.Stops != (tt.severity == Error) || a.Stops && a.Findings[0].Fix == "" {
				t.Errorf("stops %v, fix %q", a.Stops, a.Findings[0].Fix)
			}
			if quiet := judgeLinked(t, linked(t, "app", "tch 0.26.0", "torch-sys 0.26.0 "+tt.feats), files, tt.env, manifest.Request{}); len(
				quiet.Findings,
			) != 0 {
				t.Errorf("nothing was asked, and said is %+v", quiet.Findings)
			}
		})
	}
}

// mistralrs-quant 0.8.1 carries cudarc's old list of versions and stops with a newer nvcc, whatever CUDARC_CUDA_VERSION says.
func TestNewestCUDAThatScriptsKnow(t *testing.T) {
	list := "fn main() {\n    match v {\n        \"13.2\" => (13, 2),\n        \"12.10\" => (12, 10),\n        \"9.9\" => (9, 9),\n        v => panic!(\"Unsupported cuda toolkit version: `{v}`. Please raise a github issue.\"),\n    }\n}\n"
	if got := source.NewestKnown(list); got != (gpu.Version{Major: 13, Minor: 2}) {
		t.Errorf("newest %s", got)
	}
	if got := source.NewestKnown(strings.ReplaceAll(list, "Unsupported", "Odd")); !got.IsZero() {
		t.Errorf("a list that stops nothing: %s", got)
	}
	g := linked(t, "app cuda", "mistralrs-quant 0.8.1 cuda")
	source := registryRoot + "mistralrs-quant-0.8.1/build.rs"
	for _, mode := range []string{"build", "run-custom-build"} {
		u := graph.Unit{
			PkgID:    g.Units[1].PkgID,
			Mode:     mode,
			Features: []string{"cuda"},
			Target:   graph.Target{Kind: []string{"custom-build"}, Name: "build-script-build", SrcPath: source},
		}
		if mode == "run-custom-build" {
			u.Dependencies = []graph.UnitDep{{Index: 2, Name: "build_script_build"}}
			g.Units[1].Dependencies = []graph.UnitDep{{Index: 3, Name: "build_script_build"}}
		}
		g.Units = append(g.Units, u)
	}
	files := map[string]string{
		"/w/app/Cargo.toml": pkg("app", "[features]\ncuda = [\"mistralrs-quant/cuda\"]\n[dependencies]\nmistralrs-quant = \"0.8\"\n"),
		source:              list,
		registryRoot + "mistralrs-quant-0.8.1/Cargo.toml": "[package]\nname = \"mistralrs-quant\"\nversion = \"0.8.1\"\n[features]\ncuda = []\n",
	}
	a := judgeLinked(t, g, files, []string{"CUDARC_CUDA_VERSION=13040"}, ask("cuda"))
	if a.CudarcMax != (gpu.Version{Major: 13, Minor: 2}) || a.MaxBy != "mistralrs-quant 0.8.1" {
		t.Errorf("at most %s by %q", a.CudarcMax, a.MaxBy)
	}
}

func needs(a *Reach, what string) bool {
	return slices.ContainsFunc(a.Needs.Because, func(r NeedReason) bool { return r.Need == what })
}

// TestCrateOfMetal: a program that calls Metal itself has what `metal` asks for.
func TestCrateOfMetal(t *testing.T) {
	files := map[string]string{
		"/w/app/Cargo.toml": pkg("app", "[features]\nmetal = [\"dep:metal\"]\n[dependencies]\nmetal = { version = \"0.31\", optional = true }\n"),
	}
	a := judgeLinked(t, linked(t, "app metal", "metal 0.31.0"), files, nil, ask("metal"))
	if on := a.Roots[0].Backends(); len(a.Findings) != 0 || !slices.Equal(on, []string{"metal"}) {
		t.Errorf("%v, %+v", on, a.Findings)
	}
}

// Other GPUs are named for what they are, and ask for what they need.
func TestOtherBackends(t *testing.T) {
	files := map[string]string{
		"/w/app/Cargo.toml": pkg(
			"app",
			"[features]\nvulkan = [\"whisper-rs-sys/vulkan\"]\ncuda = [\"whisper-rs-sys/cuda\"]\n[dependencies]\nwhisper-rs-sys = \"0.15\"\n",
		),
	}
	tests := []struct {
		feats, backend string
		on             bool
		also, needs    string
	}{
		{"", "cuda", false, "", "CMake a C++ compiler libclang"},
		{"vulkan", "vulkan", true, "", "CMake a C++ compiler libclang Vulkan SDK"},
		{"hipblas", "rocm", true, "", "CMake a C++ compiler libclang ROCm"},
		{"cuda", "cuda", true, "", "cuda CMake a C++ compiler libclang"},
		{"cuda,vulkan", "cuda", true, "vulkan", "cuda CMake a C++ compiler libclang Vulkan SDK"},
	}
	for _, tt := range tests {
		a := judgeLinked(t, linked(t, "app", "whisper-rs-sys 0.15.0 "+tt.feats), files, nil, manifest.Request{})
		c := a.Roots[0].Crates[1]
		var got []string
		for _, n := range a.Needs.Because {
			got = append(got, n.Need)
		}
		if c.Backend != strings.Trim(tt.backend+","+tt.also, ",") || c.On != tt.on || strings.Join(got, " ") != tt.needs {
			t.Errorf("%s: %+v needs %q", tt.feats, c, got)
		}
	}
	torch := map[string]string{"/w/app/Cargo.toml": pkg("app", "[dependencies]\nort-sys = \"2\"\n")}
	for feats, want := range map[string]bool{"": false, "download-binaries": true, "download-binaries,disable-linking": false} {
		if a := judgeLinked(t, linked(t, "app", "ort-sys 2.0.0-rc.15 "+feats), torch, nil, manifest.Request{}); needs(a, "network") != want {
			t.Errorf("ort-sys with %q: network %v", feats, !want)
		}
	}
	for feats, want := range map[string]string{
		"cuda":              "cublas_v2.h libcublas libcublasLt_static.a libcublas_static.a libculibos.a",
		"cuda,dynamic-link": "cublas_v2.h libcublas", "vulkan": "",
	} {
		a := judgeLinked(t, linked(t, "app", "llama-cpp-sys-2 0.1.161 "+feats), torch, nil, manifest.Request{})
		if got := strings.Join(slices.Sorted(slices.Values(a.Needs.Files)), " "); got != want {
			t.Errorf("llama-cpp-sys-2 with %q: files %q, want %q", feats, got, want)
		}
	}
	a := judgeLinked(t, linked(t, "app", "ort-sys 2.0.0-rc.15 tensorrt"), torch, nil, manifest.Request{})
	if !a.Roots[0].Reached {
		t.Error("tensorrt takes ONNX Runtime's CUDA archive")
	}
}

// Crates that one edit fixes make one finding, each with what is lost.
func TestSiblingsTogether(t *testing.T) {
	files := map[string]string{
		"/w/app/Cargo.toml": pkg(
			"app",
			"[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\nmoshi = \"0.6\"\n",
		),
		registryRoot + "moshi-0.6.4/Cargo.toml": "[package]\nname = \"moshi\"\nversion = \"0.6.4\"\n[features]\ncuda = [\"candle-nn/cuda\", \"mistralrs-quant/cuda\"]\n[dependencies]\ncandle-nn = \"0.9\"\nmistralrs-quant = \"0.8\"\n",
	}
	for _, c := range []string{"candle-nn-0.9.2", "mistralrs-quant-0.8.1"} {
		name := c[:strings.LastIndex(c, "-")]
		files[registryRoot+c+"/Cargo.toml"] = "[package]\nname = \"" + name + "\"\n[features]\ncuda = []\n"
		files[registryRoot+c+"/src/lib.rs"] = "#[cfg(feature = \"cuda\")]\nfn f() {}\n"
	}
	g := linked(t, "app cuda", "candle-core 0.11.1 cuda", "moshi 0.6.4", "candle-nn 0.9.2", "mistralrs-quant 0.8.1")
	g.Units[0].Dependencies = g.Units[0].Dependencies[:2]
	g.Units[2].Dependencies = []graph.UnitDep{{Index: 3, Name: "candle_nn"}, {Index: 4, Name: "mistralrs_quant"}}
	a := judgeLinked(t, g, files, nil, ask("cuda"))
	if len(a.Findings) != 1 || !strings.Contains(a.Findings[0].Message, "candle-nn 0.9.2, mistralrs-quant 0.8.1") ||
		a.Findings[0].Fix != `cuda = ["candle-core/cuda", "moshi/cuda"]` {
		t.Errorf("%+v", a.Findings)
	}
}

// A cudarc without a version stops its build script: said before the build, with both ways out.
func TestCudarcWithoutVersion(t *testing.T) {
	files := map[string]string{
		"/w/app/Cargo.toml": pkg(
			"app",
			"[features]\ncuda = [\"dep:cudarc\"]\n[dependencies]\ncudarc = { version = \"0.19\", optional = true, default-features = false, features = [\"driver\"] }\n",
		),
		registryRoot + "cudarc-0.19.10/Cargo.toml": cudarcManifest + "\ncuda-version-from-build-system = []\n",
	}
	for _, tt := range []struct {
		feats string
		env   []string
		fault bool
	}{
		{"driver", nil, true},
		{"driver,cuda-13020", nil, false},
		{"driver,cuda-version-from-build-system", nil, false},
		{"driver", []string{"CUDARC_CUDA_VERSION=13020"}, false},
	} {
		a := judgeLinked(t, linked(t, "app cuda", "cudarc 0.19.10 "+tt.feats), files, tt.env, ask("cuda"))
		if got := len(a.Findings) == 1 && a.Findings[0].ID == IDNoVersion && a.Stops; got != tt.fault || !got && len(a.Findings) > 0 {
			t.Errorf("%s %v: %+v", tt.feats, tt.env, a.Findings)
		}
		if tt.fault && (!slices.Equal(a.Findings[0].Ask, []string{"cudarc/cuda-13040"}) || a.Findings[0].Line == 0) {
			t.Errorf("%+v", a.Findings[0])
		}
	}
	old := maps.Clone(files) // an older cudarc has a feature of its own, and its own name in the manifest
	old["/w/app/Cargo.toml"] = pkg("app", "[features]\ncuda = [\"dep:cudarc\", \"dep:old\"]\n[dependencies]\n"+
		"cudarc = { version = \"0.19\", optional = true }\nold = { package = \"cudarc\", version = \"0.17\", optional = true }\n")
	old[registryRoot+"cudarc-0.17.8/Cargo.toml"] = strings.ReplaceAll(cudarcManifest, "0.19.10", "0.17.8")
	g := linked(t, "app cuda", "cudarc 0.19.10 driver", "cudarc 0.17.8 driver,cuda-12080")
	g.Units[0].Dependencies[0].Name, g.Units[0].Dependencies[1].Name = "cudarc", "old"
	if a := judgeLinked(t, g, old, nil, ask("cuda")); len(a.Findings) != 1 || !slices.Equal(a.Findings[0].Ask, []string{"cudarc/cuda-13040"}) {
		t.Errorf("two versions: %+v", a.Findings)
	}
	files["/w/.cargo/config.toml"] = "[env]\nCUDARC_CUDA_VERSION = \"13020\"\n"
	if a := judgeLinked(t, linked(t, "app cuda", "cudarc 0.19.10 driver"), files, nil, ask("cuda")); len(a.Findings) != 0 {
		t.Errorf("cargo's configuration sets it, found: %+v", a.Findings)
	}
}

// TestCatalogSources: whatever is claimed of a crate is claimed of a version, and says where it was read.
func TestCatalogSources(t *testing.T) {
	c := catalog.Default()
	known := map[string]bool{
		"nvcc":                  true,
		"host_cxx":              true,
		"cuda_headers_or_libs":  true,
		"cudnn_headers_or_libs": true,
		"cmake":                 true,
		"libclang":              true,
		"capnp":                 true,
		"libtorch":              true,
		"rocm":                  true,
		"network":               true,
		"gpu_visible_or_env":    true,
		"nothing_but_rust":      true,
		"cxx":                   true,
		"vulkan_sdk":            true,
	}
	for i := range c.Crates {
		k := &c.Crates[i]
		if len(k.Sources) == 0 || k.SeenVersion == "" {
			t.Errorf("%s: no source or no version", k.Name)
		}
		lists := [][]string{k.BuildNeeds, k.AlwaysNeeds}
		for _, l := range k.FeatureNeeds {
			lists = append(lists, l)
		}
		for _, l := range lists {
			for _, n := range l {
				if !known[n] {
					t.Errorf("%s: needs %s, which nobody reads", k.Name, n)
				}
			}
		}
	}
}

// TestAnotherGPU: a bare gpu may mean any, and each crate's own feature for a backend comes first.
func TestAnotherGPU(t *testing.T) {
	for _, tt := range []struct{ feature, on, ask, fix string }{
		{`gpu = ["ort/directml"]`, "gpu directml", "gpu", ""},
		{"rocm = []", "rocm ", "rocm", `rocm = ["ort/rocm"]`},
	} {
		on, ort, _ := strings.Cut(tt.on, " ")
		files := map[string]string{"/w/app/Cargo.toml": pkg("app", "[features]\n"+tt.feature+"\n[dependencies]\nort = \"2\"\n"),
			registryRoot + "ort-2.0.0-rc.10/Cargo.toml": "[package]\nname = \"ort\"\nversion = \"2.0.0-rc.10\"\n[features]\ncuda = []\nrocm = []\nmigraphx = []\ndirectml = []\n"}
		a := judgeLinked(t, linked(t, "app "+on, "ort 2.0.0-rc.10 "+ort), files, nil, ask(tt.ask))
		if a.Stops != (tt.fix != "") || a.Stops && a.Findings[0].Fix != tt.fix {
			t.Errorf("%s: stops %v: %+v", tt.feature, a.Stops, a.Findings)
		}
	}
}

// TestNamedPackage: a package of the user's that gpu-packages names is off while its cuda is.
func TestNamedPackage(t *testing.T) {
	files := map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"app\", \"x\"]\n",
		"/w/app/Cargo.toml": pkg("app", "[features]\ncuda = []\n[dependencies]\nx = { path = \"../x\" }\n"), "/w/x/Cargo.toml": pkg("x", "[features]\ncuda = []\n")}
	h := hosttest.Memory(files)
	p, err := manifest.Load(h, "/w/app/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range [][]string{nil, {"x"}} {
		a := judgeIn(h, Input{Project: p, Request: ask("cuda"), Alone: p.Selected, Named: named})
		if !a.Stops || a.Findings[0].Fix != `cuda = ["x/cuda"]` {
			t.Errorf("%q: %+v", named, a.Findings)
		}
	}
}
