package features

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// unitsOf reads a unit graph, whose first unit is its root, from lines NAME[@VERSION][:KIND] [FEATURE,…] [-> NAME[=CALLED] …]. A package
// with a version is a registry's, any other is below /w. KIND run is a build script's run; :test a test of the package.
func unitsOf(t *testing.T, platform, text string) *graph.Graph {
	t.Helper()
	g, at := &graph.Graph{Version: 1, Roots: []int{0}}, map[string]int{}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		head, _, _ := strings.Cut(line, " ->")
		what, feats, _ := strings.Cut(strings.TrimSpace(head), " ")
		id, kind, _ := strings.Cut(what, ":")
		name, version, foreign := strings.Cut(id, "@")
		u := graph.Unit{Mode: "build", Platform: platform, PkgID: "path+file:///w/" + name + "#0.1.0", Features: strings.FieldsFunc(feats, func(c rune) bool { return c == ',' }),
			Target: graph.Target{Kind: []string{kind}, Name: "x", SrcPath: "/w/" + name + "/src/lib.rs"}}
		if foreign {
			u.PkgID = "registry+https://registry.example/index#" + name + "@" + version
			u.Target.SrcPath = registryRoot + name + "-" + version + "/src/lib.rs"
		}
		switch kind {
		case "":
			u.Target.Kind = []string{map[bool]string{true: "bin", false: "lib"}[i == 0]}
		case "run":
			u.Mode, u.Target.Kind, u.Target.SrcPath = "run-custom-build", []string{"custom-build"}, strings.Replace(u.Target.SrcPath, "src/lib.rs", "build.rs", 1)
		case "script":
			u.Target.Kind = []string{"custom-build"}
		case "doctest":
			u.Mode, u.Target.Kind = "doctest", []string{"lib"}
		case "test":
			u.Mode, u.Target.Kind = "test", []string{"lib"}
		}
		g.Units = append(g.Units, u)
		at[what] = i
	}
	for i, line := range lines {
		_, deps, _ := strings.Cut(line, "->")
		for _, d := range strings.Fields(deps) {
			to, called, renamed := strings.Cut(d, "=")
			index, known := at[to]
			if name, _, _ := strings.Cut(to, "@"); !renamed {
				called, _, _ = strings.Cut(name, ":")
			}
			if !known {
				t.Fatalf("%s: no unit %s", line, to)
			}
			g.Units[i].Dependencies = append(g.Units[i].Dependencies, graph.UnitDep{Index: index, Name: strings.ReplaceAll(called, "-", "_")})
		}
	}
	return g
}

// filesOf takes a text apart that has a line "=== PATH" before each file. PATH is below /w, unless it begins with /; of a registry's package it is NAME@VERSION and
// what comes below. A Cargo.toml begins with what is not said of its package.
func filesOf(text string) map[string]string {
	files := map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"app\"]\n"}
	for _, one := range strings.Split("\n"+text, "\n=== ")[1:] {
		path, body, _ := strings.Cut(one, "\n")
		dir, file, _ := strings.Cut(path, "/")
		name, version, foreign := strings.Cut(dir, "@")
		if dir == "" {
			files[path] = body
			continue
		}
		if file == "" {
			file = "Cargo.toml"
		}
		if file == "Cargo.toml" && !strings.Contains(body, "[package]") {
			body = "[package]\nname = \"" + name + "\"\nversion = \"" + map[bool]string{true: version, false: "0.1.0"}[foreign] + "\"\nedition = \"2021\"\n" + body
		}
		if dir = "/w/" + dir; foreign {
			dir = registryRoot + name + "-" + version
		}
		files[dir+"/"+file] = body + "\n"
	}
	return files
}

// build is one build that is judged, and what is to be said of it.
type build struct {
	story  string
	files  string
	units  string // the unit graph; empty: by manifests, app alone
	ask    string
	env    []string
	target string
	os     string // default: linux
	host   string // the triple of the machine; empty: not known
	line   int    // of the first finding, in its manifest; 0: not looked at
	lint   bool
	named  []string

	compiled bool // kernels, by our nvcc, for each build script

	missing []string
	want    []string // SEVERITY ID: FIX, or "ask FEATURES"; * for any; then " ~ PIECE" of the message
	on      string   // the crates that are on in the root, unless it is "-"
	needs   string   // see needsOf; unless it is empty
	opens   string   // what is said of it if the build shows nothing, and broken: a package in between is known to end it; unless it is empty
	scripts string   // see inputsOf; unless it is empty
	without string   // the crates that are listed without a backend other than CUDA, or none; unless it is empty
	anyway  string   // the bindings that count as linked without the request; unless it is empty
}

// root is the manifest of the root unit.
func (b build) root() string {
	name := strings.FieldsFunc(b.units+" app", func(c rune) bool { return c == ' ' || c == ':' || c == '\n' })[0]
	return "/w/" + name + "/Cargo.toml"
}

func (b build) input(t *testing.T) (buildenv.Host, Input) {
	t.Helper()
	h := hosttest.Memory(filesOf(b.files))
	h.Env = buildenv.NewEnv(buildenv.Linux, b.env)
	p := hosttest.Must(manifest.Load(h, b.root()))(t)
	h.OS = cmp.Or(b.os, h.OS)
	in := Input{Project: p, Request: ask(b.ask), Lint: b.lint, Named: b.named, Missing: b.missing}
	in.Compiled = func(*manifest.Package) bool { return b.compiled }
	if b.host != "" {
		in.Target = func() string { return b.host }
	}
	switch b.ask {
	case "":
		in.Request = manifest.Request{}
	case "*":
		in.Request = manifest.Request{AllFeatures: true}
	}
	if in.Alone = p.Selected; b.units != "" {
		in.Alone, in.Graph = nil, unitsOf(t, b.target, b.units)
	}
	return h, in
}

func (b build) check(t *testing.T) *Reach {
	t.Helper()
	h, in := b.input(t)
	a := judgeIn(h, in)
	if b.on == "-" { // what is linked is not the question
		a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool { return f.ID == IDUndecided })
	}
	var got, on []string
	for _, f := range a.Findings {
		fix := f.Fix
		if len(f.Ask) > 0 {
			fix = "ask " + strings.Join(f.Ask, ",")
		}
		if f.Choice() != strings.Contains(f.Fix, "# or: ") || f.Choice() && len(f.Edits) > 0 {
			t.Errorf("%s: a choice %v with edits %+v: %s", b.story, f.Choice(), f.Edits, f.Fix)
		}
		if where := "` of " + f.Root; f.Root != "" && !strings.Contains(f.Message, where) {
			t.Errorf("%s: no %q in %s", b.story, where, f.Message)
		}
		got = append(got, fmt.Sprintf("%s %s: %s ~ %s", f.Severity, strings.TrimPrefix(f.ID, "features."), strings.ReplaceAll(fix, "\n", "; "), f.Message))
	}
	bad := len(got) != len(b.want)
	for i := 0; i < len(got) && !bad; i++ {
		want, piece, _ := strings.Cut(b.want[i], " ~ ")
		any, prefix := strings.CutSuffix(want, "*")
		bad = !strings.HasPrefix(got[i], any) || !prefix && !strings.HasPrefix(got[i], want+" ~ ") || !strings.Contains(got[i], piece)
	}
	if bad {
		t.Errorf("%s:\n\t%s\nwant\n\t%s", b.story, strings.Join(got, "\n\t"), strings.Join(b.want, "\n\t"))
	}
	for _, f := range a.Findings {
		if len(f.Edits) > 0 {
			b.applied(t, f)
		}
		if len(f.Ask) > 0 && (f.Fix != "" || len(f.Edits) > 0) {
			t.Errorf("%s: two fixes: %+v", b.story, f)
		}
		if f.Root != "" && (f.Path == "" || f.Line == 0 || strings.HasPrefix(f.Evidence, "manifests") != (b.units == "")) {
			t.Errorf("%s: no place, or no evidence: %+v", b.story, f)
		}
	}
	if b.line != 0 && (len(a.Findings) == 0 || a.Findings[0].Line != b.line) {
		t.Errorf("%s: another line than %d: %+v", b.story, b.line, a.Findings)
	}
	for _, r := range a.Roots {
		silent := !slices.ContainsFunc(a.Findings, func(f Finding) bool {
			return f.ID != IDPartial && f.ID != IDUndecided && f.ID != IDNoArchive && !strings.HasPrefix(f.ID, "features.cudarc")
		})
		partial := slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.ID == IDPartial || f.ID == IDUndecided }) // of those that are on, or by the request
		anyway := slices.ContainsFunc(r.Crates, func(c CrateState) bool { return c.Anyway })
		if silent != (len(r.Ineffective) == 0) && !partial && !anyway && len(r.Asked)+len(r.Named) > 0 {
			t.Errorf("%s: without effect %q", b.story, r.Ineffective)
		}
		for _, c := range r.Crates {
			hosttest.Equal(t, c.Anyway, c.On && c.Steps == nil && c.Name != r.Package && c.Backend != "own", b.story, c)
		}
	}
	if b.opens != "" && (len(a.Roots[0].Open) == 0 || a.Roots[0].Open[0].Fix+map[bool]string{true: " broken"}[len(a.Roots[0].Open[0].Middle) > 0] != b.opens) {
		t.Errorf("%s: open: %+v, want %q", b.story, a.Roots[0].Open, b.opens)
	}
	if b.anyway != "" && (len(a.Roots[0].Open) == 0 || strings.Join(a.Roots[0].Open[0].Always, " ") != b.anyway) {
		t.Errorf("%s: open: %+v, want %q anyway", b.story, a.Roots[0].Open, b.anyway)
	}
	if b.without != "" {
		hosttest.Equal(t, cmp.Or(strings.Join(a.Roots[0].OtherOff, " "), "none"), b.without, b.story)
	}
	if b.on != "-" && len(a.Roots) > 0 {
		for _, c := range a.Roots[0].Crates {
			if c.On && c.Backend != "own" && c.Backend != "unknown" {
				on = append(on, c.Name)
			}
		}
		hosttest.Equal(t, strings.Join(on, " "), b.on, b.story)
	}
	if got := needsOf(a.Needs); b.needs != "" && got != b.needs {
		t.Errorf("%s: needs %q, want %q", b.story, got, b.needs)
	}
	var scripts []string
	for _, u := range a.Units {
		scripts = append(scripts, u.Name+": "+inputsOf(u.Inputs))
	}
	if got := strings.Join(scripts, "; "); b.scripts != "" && got != b.scripts {
		t.Errorf("%s: scripts %q, want %q", b.story, got, b.scripts)
	}
	return a
}

// applied writes the edits of a finding, and looks by manifests whether what it is about is on then.
func (b build) applied(t *testing.T, f Finding) {
	t.Helper()
	files := filesOf(b.files)
	for _, e := range f.Edits {
		text, err := edit.AddEdges([]byte(files[e.Manifest]), e)
		hosttest.Equal(t, err, nil, b.story)
		files[e.Manifest] = string(text)
	}
	p := hosttest.Must(manifest.Load(hosttest.Memory(files), b.root()))(t)
	if refused := RefusedEdges(p, p.Selected, ""); len(refused) > 0 {
		t.Errorf("%s: cargo refuses what was written: %+v", b.story, refused)
	}
	r := ask(cmp.Or(b.ask, strings.Join(b.missing, ",")))
	r.AllFeatures = b.ask == "*"
	v := graph.Possible(p, catalog.Default(), p.Selected).Alone(r, false)
	for _, l := range f.Lacks {
		at := slices.IndexFunc(v.Nodes, func(n graph.Node) bool { return n.Name == l.Crate })
		if at >= 0 && !l.On(v.Nodes[at].Features) {
			t.Errorf("%s: %s is off with %s", b.story, l, f.Fix)
		}
	}
}

// words are the names of what is set.
func words(is map[string]bool) string {
	var out []string
	for name, set := range is {
		if set {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func needsOf(n Needs) string {
	return words(map[string]bool{"cuda": n.CUDA, "nvcc": n.NVCC, "host": n.HostCXX, "libs": n.CUDALibs, "cudnn": n.CUDNN, "torch": n.LibTorch,
		"rocm": n.ROCm, "ptx": n.EmbedsPTX, "version": n.NVCCVersion})
}

func inputsOf(in Inputs) string {
	text := words(map[string]bool{"nvcc": in.NVCC, "version": in.Version, "host": in.Host, "arch": in.Arch, "root": in.Root, "binds": in.Binds,
		"cudnn": in.CUDNN, "cxx": in.CXX, "torch": in.Torch, "passes": in.PassesCXX})
	return text + " " + strings.Join(in.Env, " ") + " "
}

const (
	appOf  = "=== app\n"
	core   = "\n=== candle-core@0.11.1\n[features]\ncuda = []\ncudnn = [\"cuda\"]\nmetal = []\n"
	nn     = "\n=== candle-nn@0.11.1\n[features]\ncuda = []\nmetal = []\n"
	whisp  = "\n=== whisper-rs-sys@0.15.0\n[features]\ncuda = []\nvulkan = []\nhipblas = []\n"
	burnWg = "\n=== wgpu@26.0.0\n[features]\nvulkan = []\nmetal = []\n"
)

// TestFixesOfBuilds: what is missing in a build, and which lines of which manifests would bring it.
func TestFixesOfBuilds(t *testing.T) {
	t.Parallel()
	for _, b := range []build{
		{story: "a bare gpu may mean CUDA or Vulkan: both are offered, none is written", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"\nwhisper-rs-sys = \"0.15\"" + core + whisp,
			units: "app gpu -> candle-core@0.11.1 whisper-rs-sys@0.15.0\ncandle-core@0.11.1\nwhisper-rs-sys@0.15.0", ask: "gpu",
			want: []string{`error unreached: gpu = ["candle-core/cuda", "whisper-rs-sys/cuda"] # or: gpu = ["whisper-rs-sys/vulkan"]`}},
		{story: "a bare gpu gets the program's own cuda", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\ngpu = []\nmkl = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app gpu -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "gpu", want: []string{`error unreached: gpu = ["cuda"]`}},
		{story: "… but not one that turns gpu on", files: appOf + "[features]\ncuda = [\"gpu\", \"candle-core/cuda\"]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app gpu -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "gpu", want: []string{`error unreached: gpu = ["candle-core/cuda"]`}},
		{story: "a bare gpu for Apple is Metal", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app gpu -> candle-core@0.11.1\ncandle-core@0.11.1", target: "aarch64-apple-darwin", ask: "gpu",
			want: []string{`error unreached: gpu = ["candle-core/metal"]`}},
		{story: "a bare gpu where the crate has Vulkan and ROCm", files: appOf + "[features]\ngpu = []\n[dependencies]\nwhisper-rs-sys = \"0.15\"" + strings.Replace(whisp, "cuda = []\n", "", 1),
			units: "app gpu -> whisper-rs-sys@0.15.0\nwhisper-rs-sys@0.15.0", ask: "gpu", want: []string{`error unreached: gpu = ["whisper-rs-sys/vulkan"]`}},
		{story: "a bare gpu where the crate has ROCm alone", files: appOf + "[features]\ngpu = []\n[dependencies]\nwhisper-rs-sys = \"0.15\"\n=== whisper-rs-sys@0.15.0\n[features]\nhipblas = []\n",
			units: "app gpu -> whisper-rs-sys@0.15.0\nwhisper-rs-sys@0.15.0", ask: "gpu", want: []string{"error unreached: ask whisper-rs-sys/hipblas"}},
		{story: "a bare gpu that turned one backend on lacks nothing of the others", files: appOf + "[features]\ngpu = [\"whisper-rs-sys/vulkan\"]\n[dependencies]\ncandle-core = \"0.11\"\nwhisper-rs-sys = \"0.15\"" + core + whisp,
			units: "app gpu -> candle-core@0.11.1 whisper-rs-sys@0.15.0\ncandle-core@0.11.1\nwhisper-rs-sys@0.15.0 vulkan", ask: "gpu", on: "whisper-rs-sys"},
		{story: "cudnn alone gets the program's own cuda, too", files: appOf + "[features]\ncuda = []\ncudnn = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cudnn -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cudnn",
			want: []string{`error unreached: cuda = ["candle-core/cuda"]; cudnn = ["cuda", "candle-core/cudnn"]`}},
		{story: "a cudnn that has cuda gets its own edge alone", files: appOf + "[features]\ncuda = []\ncudnn = [\"cuda\"]\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda,cudnn -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cudnn",
			want: []string{`error unreached: cudnn = ["cuda", "candle-core/cudnn"]; cuda = ["candle-core/cuda"]`}},
		{story: "a registry's package on the way has no such feature", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{"error unreached:  ~ it ends in engine 1.0.0, whose maintainer would add cuda = [\"candle-core/cuda\"] to [features]"}},
		{story: "two crates end in one package: one line", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core + nn + "\n=== engine@1.0.0\n[dependencies]\ncandle-core = \"0.11\"\ncandle-nn = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1 candle-nn@0.11.1\ncandle-core@0.11.1\ncandle-nn@0.11.1", ask: "cuda",
			want: []string{"error unreached:  ~ it ends in engine 1.0.0, whose maintainer would add cuda = [\"candle-core/cuda\", \"candle-nn/cuda\"] to [features]"}},
		{story: "the CUDA version of what is linked already is no gate", files: appOf + "[features]\ncuda = []\n[dependencies]\nx = { path = \"../x\" }\n=== x\n[features]\ncuda-12080 = []",
			ask: "cuda", want: []string{"note undecided: "}},
		{story: "its manifest is not here", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core,
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{"error unreached:  ~ the manifest of engine 1.0.0 is not on this machine"}},
		{story: "its manifest does not have the dependency", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{"error unreached:  ~ candle-core 0.11.1 is no dependency in the manifest of engine"}},
		{story: "its feature of another name leads on", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[features]\nnvidia = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{`error unreached: cuda = ["engine/nvidia"]`}},
		{story: "of several features the one that turns least on", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[features]\nall = [\"nvidia\", \"x\"]\nnvidia = [\"candle-core/cuda\"]\nx = []\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{`error unreached: cuda = ["engine/nvidia"]`}},
		{story: "not one that turns another GPU on", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[features]\na = [\"candle-core/cuda\", \"candle-core/metal\"]\nwith = [\"candle-core/cuda\", \"x\", \"y\"]\nx = []\ny = []\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{`error unreached: cuda = ["engine/with"]`}},
		{story: "the feature of the asked name before a smaller one", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[features]\ncuda = [\"candle-core/cuda\", \"x\"]\na = [\"candle-core/cuda\"]\nx = []\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{`error unreached: cuda = ["engine/cuda"]`}},
		{story: "its default is not what is asked for", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = { version = \"1\", default-features = false }" + core + "\n=== engine@1.0.0\n[features]\ndefault = [\"candle-core/cuda\"]\ngo = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{`error unreached: cuda = ["engine/go"]`}},
		{story: "a member on the way gets a line of its own", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = []\n[dependencies]\nengine = { path = \"../engine\" }" + core + "\n=== engine\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine\nengine -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{"error unreached: cuda = [\"engine/cuda\"] # app; [features]; cuda = [\"candle-core/cuda\"] # engine"}},
		{story: "what an optional crate of the catalog turns on of its own is no reason to wait for the build", files: appOf + "[features]\ncuda = [\"dep:candle-core\"]\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }" + core +
			"[dependencies]\npulp = { version = \"1\", features = [\"simd\"] }\n=== pulp@1.0.0\n[features]\nsimd = [\"dep:version-check\"]\n[build-dependencies]\nversion-check = { version = \"1\", optional = true }",
			units: "app cuda -> candle-core@0.11.1\ncandle-core@0.11.1 -> pulp@1.0.0\npulp@1.0.0 simd -> pulp@1.0.0:run\npulp@1.0.0:run -> version-check@1.0.0\nversion-check@1.0.0", ask: "cuda",
			want: []string{`error unreached: cuda = ["dep:candle-core", "candle-core?/cuda"]`}},
		{story: "a member on the way gets the line where the request ends, in the feature of the backend, and not another one of its features", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ngpu = [\"engine/gpu\"]\n[dependencies]\nengine = { path = \"../engine\" }" + core +
			"\n=== engine\n[features]\ngpu = [\"cuda\", \"rocm\"]\ncuda = []\nrocm = []\nall = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app gpu -> engine\nengine cuda,gpu,rocm -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "gpu", opens: "cuda = [\"candle-core/cuda\"] # engine broken",
			want: []string{"note undecided: cuda = [\"candle-core/cuda\"] # engine"}},
		{story: "… not in a second feature that is called as the one of the request", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\nuse-cuda = [\"engine/cuda\"]\n[dependencies]\nengine = { path = \"../engine\" }" + core +
			"\n=== engine\n[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app use-cuda -> engine\nengine cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "use-cuda",
			want: []string{"note undecided: cuda = [\"candle-core/cuda\"] # engine"}},
		{story: "… but a part of CUDA is no affair of the one for all of it", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncudnn = [\"engine/cuda\"]\n[dependencies]\nengine = { path = \"../engine\" }" + core +
			"\n=== engine\n[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cudnn -> engine\nengine cuda -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "cudnn", on: "candle-core",
			want: []string{"warning partial: cudnn = [\"engine/cuda\", \"engine/cudnn\"] # app; cudnn = [\"candle-core/cudnn\"] # engine"}},
		{story: "… also where the program depends on the crate itself", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = [\"engine/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\nengine = { path = \"../engine\" }" + core +
			"\n=== engine\n[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> candle-core@0.11.1 engine\nengine cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", opens: "cuda = [\"candle-core/cuda\"] # engine",
			want: []string{"note undecided:  ~ known after the build"}},
		{story: "… but nobody here writes into a package of a registry", files: appOf + "[features]\ncuda = [\"engine/cuda\"]\n[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[features]\ncuda = []\ngo = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> engine@1.0.0\nengine@1.0.0 cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{"note undecided: cuda = [\"engine/cuda\", \"engine/go\"]"}},
		{story: "a part of CUDA has its own feature, whatever that is called", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\nuse-cudnn = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda,use-cudnn -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "cuda,use-cudnn", on: "candle-core",
			want: []string{"warning partial: use-cudnn = [\"candle-core/cudnn\"]"}},
		{story: "a part of CUDA gets the program's own cuda", files: appOf + "[features]\ncuda = []\ntensorrt = []\n[dependencies]\ncandle-core = \"0.11\"\nort = \"2.0.0-rc.11\"" + core + "\n=== ort@2.0.0-rc.11\n[features]\ncuda = []\ntensorrt = []\n",
			units: "app tensorrt -> candle-core@0.11.1 ort@2.0.0-rc.11\ncandle-core@0.11.1\nort@2.0.0-rc.11", ask: "tensorrt",
			want: []string{"error unreached: cuda = [\"candle-core/cuda\"]; tensorrt = [\"cuda\", \"ort/tensorrt\"]"}},
		{story: "a renamed dependency", files: appOf + "[features]\ncuda = []\n[dependencies]\nc = { package = \"candle-core\", version = \"0.11\" }" + core,
			units: "app cuda -> candle-core@0.11.1=c\ncandle-core@0.11.1", ask: "cuda", want: []string{`error unreached: cuda = ["c/cuda"]`}},
		{story: "an optional one that something else turned on gets a weak edge", files: appOf + "[features]\ncuda = []\ninfer = [\"dep:candle-core\"]\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }" + core,
			units: "app cuda,infer -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda,infer", want: []string{`error unreached: cuda = ["candle-core?/cuda"]`}},
		{story: "the feature of a dependency, asked for by its name, that leaves another crate off", files: appOf + "[dependencies]\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app -> engine@1.0.0\nengine@1.0.0 cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "engine/cuda", on: "",
			want: []string{"note undecided: "}},
		{story: "asked of a dependency, the crate next to it is asked for, too", files: appOf + "[dependencies]\ncandle-core = \"0.11\"\nengine = \"1\"" + core + "\n=== engine@1.0.0\n[features]\ncuda = []",
			units: "app -> candle-core@0.11.1 engine@1.0.0\nengine@1.0.0 cuda\ncandle-core@0.11.1", ask: "engine/cuda", on: "",
			want: []string{"note undecided: "}},
		{story: "one of two crates that are off cannot be led to", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-nn = \"0.11\"\nengine = \"1\"" + core + nn,
			units: "app cuda -> candle-nn@0.11.1 engine@1.0.0\ncandle-nn@0.11.1\nengine@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda",
			want: []string{`error unreached: cuda = ["candle-nn/cuda"] ~ the manifest of engine`}},
		{story: "one that comes with an optional member", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = []\n[dependencies]\nengine = { path = \"../engine\", optional = true }\n=== engine\n[dependencies]\ncudarc = \"0.19\"",
			units: "app cuda", ask: "cuda", want: []string{`note undecided: cuda = ["engine"] ~ (the CUDA code of engine stays off)`}},
		{story: "a feature that is made of a dependency of its name", files: appOf + "[dependencies]\ncuda = { package = \"candle-core\", version = \"0.11\", optional = true }" + core,
			units: "app cuda -> candle-core@0.11.1=cuda\ncandle-core@0.11.1", ask: "cuda", want: []string{`error unreached: [features]; cuda = ["dep:cuda", "cuda?/cuda"]`}},
		{story: "a feature of a dependency that has nothing to turn on", files: appOf + "[dependencies]\nengine = \"1\"\n=== engine@1.0.0\n[features]\ncuda = []",
			units: "app -> engine@1.0.0\nengine@1.0.0 cuda", ask: "engine/cuda", want: []string{"note undecided: *"}},
		{story: "a bare gpu next to an optional crate is CUDA", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }" + core,
			units: "app gpu", ask: "gpu", want: []string{`note undecided: gpu = ["candle-core/cuda"] ~ (the GPU code of candle-core stays off)`}},
		{story: "next to an optional wgpu it is that", files: appOf + "[features]\ngpu = []\n[dependencies]\nwgpu = { version = \"26\", optional = true }",
			units: "app gpu", ask: "gpu", want: []string{`note undecided: gpu = ["wgpu"] ~ (the GPU code of wgpu stays off)`}},
		{story: "a crate for another platform", files: appOf + "[features]\ncuda = []\n[target.'cfg(windows)'.dependencies]\ncandle-core = { version = \"0.11\", optional = true }",
			units: "app cuda", ask: "cuda", want: []string{"note undecided:  ~ (candle-core is a dependency of cfg(windows) only)"}},
		{story: "a crate for this one", files: appOf + "[features]\ncuda = []\n[target.'cfg(unix)'.dependencies]\ncandle-core = { version = \"0.11\", optional = true }",
			units: "app cuda", ask: "cuda", want: []string{`note undecided: cuda = ["candle-core/cuda"] ~ (the CUDA code of candle-core stays off)`}},
		{story: "a crate for all but one", files: appOf + "[features]\ncuda = []\n[target.'cfg(not(windows))'.dependencies]\ncandle-core = { version = \"0.11\", optional = true }",
			units: "app cuda", ask: "cuda", want: []string{`note undecided: cuda = ["candle-core/cuda"] ~ (the CUDA code of candle-core stays off)`}},
		{story: "one of two engines", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }\ncandle-nn = { version = \"0.11\", optional = true }\nwhisper-rs-sys = { version = \"0.15\", optional = true }",
			units: "app cuda", ask: "cuda", want: []string{`note undecided: cuda = ["candle-core/cuda", "candle-nn/cuda"] # or: cuda = ["whisper-rs-sys/cuda"] ~ (the CUDA code of candle-core, candle-nn, whisper-rs-sys stays off)`}},
		{story: "a member with a feature of the name", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = []\n[dependencies]\nengine = { path = \"../engine\" }\n=== engine\n[features]\ncuda = []",
			units: "app cuda -> engine\nengine", ask: "cuda", want: []string{"note undecided: # may be meant: engine/cuda"}},
		{story: "one that only tests have", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = []\n[dev-dependencies]\nengine = { path = \"../engine\" }\n=== engine\n[features]\ncuda = []",
			units: "app cuda", ask: "cuda", want: []string{"note undecided: "}},
		{story: "a weak edge, and the feature that is meant to come with it", files: appOf + "[features]\ncuda = [\"candle-nn?/cuda\"]\ninfer = [\"dep:candle-nn\"]\n[dependencies]\ncandle-nn = { version = \"0.11\", optional = true }",
			units: "app cuda", ask: "cuda", want: []string{"note undecided: ask infer ~ (`candle-nn?/cuda` of app counts only if something else enables `candle-nn`)"}},
		{story: "by manifests alone", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"", ask: "cuda", want: []string{`error unreached: cuda = ["candle-core/cuda"]`}},
		{story: "by manifests alone, a feature that is not declared", files: appOf + "[dependencies]\ncandle-core = \"0.11\"", missing: []string{"cuda"}, want: []string{`error unreached: [features]; cuda = ["candle-core/cuda"]`}},
		{story: "by manifests alone, it is there", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"", ask: "cuda", on: "candle-core cudarc candle-kernels"},
	} {
		b.check(t)
	}
}

// TestRulesOfBuilds: what is said of features that turn something else on, or nothing.
func TestRulesOfBuilds(t *testing.T) {
	t.Parallel()
	const whisper = "[features]\nvulkan = [\"whisper-rs-sys/vulkan\"]\ncuda = []\n"
	for _, b := range []build{
		{story: "a bare gpu next to cuda asks for nothing more", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"\nwhisper-rs-sys = \"0.15\"" + core + whisp,
			units: "app cuda,gpu -> candle-core@0.11.1 whisper-rs-sys@0.15.0\ncandle-core@0.11.1 cuda\nwhisper-rs-sys@0.15.0 vulkan", ask: "cuda,gpu", on: "candle-core whisper-rs-sys", want: []string{`warning partial: cuda = ["candle-core/cuda", "whisper-rs-sys/cuda"]`}},
		{story: "Vulkan for one of two crates that compute", files: appOf + "[features]\nvulkan = [\"whisper-rs-sys/vulkan\"]\n[dependencies]\nllama-cpp-sys-2 = \"0.1\"\nwhisper-rs-sys = \"0.15\"" + whisp + "\n=== llama-cpp-sys-2@0.1.160\n[features]\ncuda = []\nvulkan = []\n",
			units: "app vulkan -> llama-cpp-sys-2@0.1.160 whisper-rs-sys@0.15.0\nllama-cpp-sys-2@0.1.160\nwhisper-rs-sys@0.15.0 vulkan", ask: "vulkan", on: "whisper-rs-sys", without: "llama-cpp-sys-2 0.1.160",
			want: []string{`warning partial: vulkan = ["whisper-rs-sys/vulkan", "llama-cpp-sys-2/vulkan"] ~ without its Vulkan code: its operations cannot use Vulkan`}},
		{story: "one that has another way to Vulkan only", files: appOf + "[features]\nvulkan = [\"whisper-rs-sys/vulkan\"]\n[dependencies]\nort-sys = \"2.0.0-rc.11\"\nwhisper-rs-sys = \"0.15\"" + whisp + "\n=== ort-sys@2.0.0-rc.11\n[features]\ncuda = []\nwebgpu = []\n",
			units: "app vulkan -> ort-sys@2.0.0-rc.11 whisper-rs-sys@0.15.0\nort-sys@2.0.0-rc.11\nwhisper-rs-sys@0.15.0 vulkan", ask: "vulkan", on: "whisper-rs-sys", without: "none"},
		{story: "burn on the CPU next to an engine that is on", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\nburn = \"0.22\"\ncandle-core = \"0.11\"" + core + "\n=== burn@0.22.1\n[features]\ncuda = []\n",
			units: "app cuda -> burn@0.22.1 candle-core@0.11.1\nburn@0.22.1\ncandle-core@0.11.1 cuda", ask: "cuda", on: "candle-core", want: []string{`warning partial: cuda = ["candle-core/cuda", "burn/cuda"]`}},
		{story: "by manifests alone, what only a crate links of which a file decides", files: appOf + "[features]\ncuda = []\n[dependencies]\nort = { version = \"=2.0.0-rc.10\", features = [\"load-dynamic\"] }",
			ask: "cuda", lint: true, want: []string{"note by-file: *"}},
		{story: "nobody asked for the gpu of the defaults", files: appOf + "[features]\ndefault = [\"gpu\"]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app default,gpu -> candle-core@0.11.1\ncandle-core@0.11.1", ask: ""},
		{story: "cuda of the defaults is asked for", files: appOf + "[features]\ndefault = [\"cuda\"]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app default,cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "", want: []string{`error unreached: cuda = ["candle-core/cuda"]`}},
		{story: "metal asked for on Linux", files: appOf + "[features]\nmetal = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app metal -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "metal", want: []string{"note undecided:  ~ counts on Apple's systems only"}},
		{story: "metal beside what is on", files: appOf + "[features]\nmetal = []\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda,metal -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "cuda,metal", on: "candle-core", want: []string{"note undecided:  ~ counts on Apple's systems only"}},
		{story: "metal for Apple is", files: appOf + "[features]\nmetal = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app metal -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "metal", target: "aarch64-apple-darwin", want: []string{`error unreached: metal = ["candle-core/metal"]`}},
		{story: "metal that enables nothing on Linux", files: appOf + "[features]\nmetal = []\n[dependencies]\nserde = \"1\"",
			units: "app metal -> serde@1.0.0\nserde@1.0.0", ask: "metal", want: []string{"note undecided: *"}},
		{story: "a name that may mean anything", files: appOf + "[features]\ngpu-stats = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app gpu-stats -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "gpu-stats", want: []string{"note undecided:  ~ gpu-stats"}},
		{story: "one next to cuda says nothing", files: appOf + "[features]\ngpu-stats = []\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app gpu-stats,cuda -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "gpu-stats,cuda", on: "candle-core"},
		{story: "one that turns a crate on", files: appOf + "[features]\ngpu-stats = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app gpu-stats -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "gpu-stats", on: "candle-core"},
		{story: "on, but by the dependency's entry", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = { version = \"0.11\", features = [\"cuda\"] }" + core,
			units: "app cuda -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "cuda", on: "candle-core"},
		{story: "on, and nobody asked", files: appOf + "[dependencies]\ncandle-core = { version = \"0.11\", features = [\"cuda\"] }" + core,
			units: "app -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "", on: "candle-core"},
		{story: "on by the defaults that nobody turned off", files: appOf + "[features]\ndefault = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = { version = \"0.11\" }" + core,
			units: "app default -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "", on: "candle-core"},
		{story: "on by another part of the build", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = { version = \"0.11\" }" + core,
			units: "app cuda -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "cuda", on: "candle-core", want: []string{`warning borrowed: cuda = ["candle-core/cuda"] ~ dependencies of tests or build scripts`}},
		{story: "a dev-dependency of a program", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[dev-dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda", ask: "cuda", want: []string{"note undecided:  ~ candle-core is a dev-dependency"}},
		{story: "of its test", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[dev-dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app:test cuda -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "cuda", on: "candle-core"},
		{story: "off in a dev-dependency, which only its test links", files: appOf + "[features]\ncuda = []\n[dev-dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app:test cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{`note undecided: cuda = ["candle-core/cuda"] ~ known after the build`}},
		{story: "off in a dev-dependency, and the program links it through another package", files: appOf + "[features]\ncuda = []\n[dependencies]\nengine = \"1\"\n[dev-dependencies]\ncandle-core = \"0.11\"" + core + "\n=== engine@1.0.0\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app:test cuda -> candle-core@0.11.1 engine@1.0.0\ncandle-core@0.11.1\nengine@1.0.0 -> candle-core@0.11.1", ask: "cuda", want: []string{`error unreached: cuda = ["candle-core/cuda"]`}},
		{story: "both kinds of dependency", files: appOf + "[features]\ncuda = [\"candle-core?/cuda\"]\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }\n[dev-dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda", ask: "cuda", want: []string{`note undecided: cuda = ["candle-core/cuda"] ~ counts only if something else enables`}},
		{story: "a build-dependency", files: appOf + "[features]\ncuda = [\"gen/cuda\"]\n[build-dependencies]\ngen = \"1\"",
			units: "app cuda", ask: "cuda", want: []string{"note undecided: "}},
		{story: "an optional one", files: appOf + "[features]\ncuda = [\"dep:gen\"]\n[dependencies]\ngen = { version = \"1\", optional = true }",
			units: "app cuda -> gen@1.0.0:proc-macro\ngen@1.0.0:proc-macro", ask: "cuda", want: []string{"note undecided: "}},
		{story: "the root is a procedural macro", files: appOf + "[features]\ncuda = []\n[lib]\nproc-macro = true",
			units: "app:proc-macro cuda", ask: "cuda", want: []string{"note undecided:  ~ procedural macro"}},
		{story: "another backend's crate", files: appOf + "[features]\ncuda = [\"whisper-rs-sys/vulkan\"]\n[dependencies]\nwhisper-rs-sys = \"0.15\"" + strings.Replace(whisp, "cuda = []\n", "", 1),
			units: "app cuda -> whisper-rs-sys@0.15.0\nwhisper-rs-sys@0.15.0 vulkan", ask: "cuda", on: "whisper-rs-sys", want: []string{`note undecided: cuda = ["whisper-rs-sys/vulkan", "whisper-rs-sys/cuda"] ~ (the CUDA code of whisper-rs-sys stays off)`}},
		{story: "a feature of what is not here", files: appOf + "[features]\ncuda = [\"far/cuda\"]\n[dependencies]\nfar = \"1\"",
			units: "app cuda -> far@1.0.0\nfar@1.0.0 cuda", ask: "cuda", want: []string{"note undecided: "}},
		{story: "a program without code for cuda does not need it for cudnn", files: appOf + "[features]\ncuda = []\ncudnn = [\"candle-core/cudnn\"]\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cudnn -> candle-core@0.11.1\ncandle-core@0.11.1 cuda,cudnn", ask: "cudnn", on: "candle-core"},
		{story: "a member that is named", files: appOf + "[features]\ncuda = []\n[dependencies]\nx = { path = \"../x\" }\n=== x\n[features]\ncuda = []",
			ask: "cuda", named: []string{"x"}, want: []string{`error unreached: cuda = ["x/cuda"]`}},
		{story: "a member that is not named", files: appOf + "[features]\ncuda = []\n[dependencies]\nx = { path = \"../x\" }\n=== x\n[features]\ncuda = []",
			ask: "cuda", want: []string{"note undecided: # may be meant: x/cuda"}},
		{story: "more crates than are named", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"\ncandle-nn = \"0.11\"\nwhisper-rs-sys = \"0.15\"\nllama-cpp-sys-2 = \"0.1\"" + core + nn + whisp,
			units: "app cuda -> candle-core@0.11.1 candle-nn@0.11.1 whisper-rs-sys@0.15.0 llama-cpp-sys-2@0.1.0\ncandle-core@0.11.1\ncandle-nn@0.11.1\nwhisper-rs-sys@0.15.0\nllama-cpp-sys-2@0.1.0", ask: "cuda",
			want: []string{"error unreached: cuda = [\"candle-core/cuda\", \"candle-nn/cuda\", \"whisper-rs-sys/cuda\", \"llama-cpp-sys-2/cuda\"] ~ and 1 more"}},
		{story: "a member's feature that a second feature completes, which nobody asked for", lint: true, files: appOf + "[features]\ncuda = [\"candle-core?/cuda\"]\ninfer = [\"dep:candle-core\"]\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }\ncandle-nn = \"0.11\"" + core + nn,
			units: "app cuda -> candle-nn@0.11.1\ncandle-nn@0.11.1", ask: "cuda", want: []string{"error unreached: cuda = [\"candle-core?/cuda\", \"candle-nn/cuda\"]"}},
		{story: "crates whose manifests are not here are judged by the catalog, as with them", lint: true, files: appOf + "[features]\ncudnn = [\"candle-nn/cudnn\"]\n[dependencies]\ncandle-nn = \"0.11\"",
			ask: "cudnn", on: "candle-core cudarc candle-kernels", want: []string{`warning partial: cudnn = ["candle-nn/cudnn", "candle-nn/cuda"]`}},
		{story: "a binding by the request, and an engine by another part of the build", files: appOf + "[features]\ncuda = [\"dep:cudarc\"]\n[dependencies]\ncandle-core = { version = \"0.11\" }\ncudarc = { version = \"0.17\", optional = true }" + core + "\n=== cudarc@0.17.8\n[features]\ndriver = []",
			units: "app cuda -> candle-core@0.11.1 cudarc@0.17.8\ncandle-core@0.11.1 cuda\ncudarc@0.17.8", ask: "cuda", on: "candle-core cudarc", want: []string{`warning borrowed: cuda = ["dep:cudarc", "candle-core/cuda"]`, "note undecided: "}},
		{story: "what another target lacks does not excuse a crate that this one has", lint: true, files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[target.'cfg(windows)'.dependencies]\ncandle-core = \"0.11\"\n[target.'cfg(unix)'.dependencies]\ncandle-nn = \"0.11\"" + core + nn,
			units: "app cuda -> candle-nn@0.11.1\ncandle-nn@0.11.1 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{"error unreached: *"}},
		{story: "a dependency of no table that applies", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[target.'cfg(not(unix))'.dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda", ask: "cuda", want: []string{"note undecided:  ~ (candle-core is a dependency of cfg(not(unix)) only)"}},
		{story: "the feature waits for an optional dependency", lint: true, files: appOf + "[features]\ncuda = [\"candle-nn?/cuda\"]\n[dependencies]\ncandle-nn = { version = \"0.11\", optional = true }" + nn,
			units: "app cuda", ask: "cuda", want: []string{`warning conditional: cuda = ["candle-nn/cuda"] ~ counts only if something else enables`}},
		{story: "a member in between lacks the edge", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"mid\"]\n" + appOf + "[features]\ncuda = [\"mid/cuda\"]\n[dependencies]\nmid = { path = \"../mid\" }\n=== mid\n[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda -> mid\nmid cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{"note undecided: cuda = [\"candle-core/cuda\"] # mid ~ (`cuda` of mid leaves candle-core 0.11.1 without CUDA code)"}},
		{story: "the same, and nobody asked", lint: true, files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"mid\"]\n" + appOf + "[features]\ncuda = [\"mid/cuda\"]\n[dependencies]\nmid = { path = \"../mid\" }\n=== mid\n[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda -> mid\nmid cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{"warning partial: cuda = [\"candle-core/cuda\"] # mid ~ `cuda` of app: `cuda` of mid leaves"}},
		{story: "an older copy that is not linked is not the one", files: appOf + "[features]\ncuda = []\n[dependencies]\nacandle = { package = \"candle-core\", version = \"0.8\", optional = true }\ncandle-core = \"0.11\"" + core,
			units: "app cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{`error unreached: cuda = ["candle-core/cuda"]`}},
		{story: "a build script of another kind", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"\n=== app/build.rs\n" + core,
			units: "app cuda -> candle-core@0.11.1 app:run\ncandle-core@0.11.1\napp:run", ask: "cuda", want: []string{`error unreached: cuda = ["candle-core/cuda"]`}},
		{story: "one that our nvcc has compiled kernels for", compiled: true, files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"\n=== app/build.rs\n" + core,
			units: "app cuda -> candle-core@0.11.1 app:run\ncandle-core@0.11.1\napp:run", ask: "cuda", want: []string{"note undecided: *"}},
		{story: "a feature of what a build script is compiled with", files: appOf + "[features]\ncuda = [\"kb/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\n[build-dependencies]\nkb = \"1\"\n=== app/build.rs\n" + core + "\n=== kb@1.0.0\n[features]\ncuda = []\n",
			units: "app cuda -> candle-core@0.11.1 app:run\ncandle-core@0.11.1\napp:run -> app:script\napp:script -> kb@1.0.0\nkb@1.0.0 cuda", ask: "cuda", want: []string{"note undecided: *"}},
		{story: "kernels beside the package", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"\n=== app/build.rs\n" + core + "\n=== kernels/cuda/add.cu\n",
			units: "app cuda -> candle-core@0.11.1 app:run\ncandle-core@0.11.1\napp:run", ask: "cuda", want: []string{"note undecided: *"}},
		{story: "the same that was asked for", files: appOf + "[features]\ncuda = [\"candle-nn?/cuda\"]\n[dependencies]\ncandle-nn = { version = \"0.11\", optional = true }" + nn,
			units: "app cuda", ask: "cuda", want: []string{`note undecided: cuda = ["candle-nn/cuda"] ~ counts only if something else enables`}},
		{story: "a member is to get nothing that it does not know", files: appOf + whisper + "[dependencies]\nwhisper-rs-sys = \"0.15\"" + whisp,
			units: "app vulkan -> whisper-rs-sys@0.15.0\nwhisper-rs-sys@0.15.0 vulkan", ask: "vulkan", on: "whisper-rs-sys"},
		{story: "CUDA where the request is for Vulkan", files: appOf + whisper + "[dependencies]\nwhisper-rs-sys = \"0.15\"" + whisp,
			units: "app cuda -> whisper-rs-sys@0.15.0\nwhisper-rs-sys@0.15.0 vulkan", ask: "cuda", on: "whisper-rs-sys", want: []string{`error unreached: cuda = ["whisper-rs-sys/cuda"]`}},
		{story: "asked of a dependency for another root", files: appOf + "[dependencies]\ncandle-core = \"0.11\"" + core, units: "app -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "candle-core/cuda"},
		{story: "all features: a gpu counts as asked for", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"" + core, units: "app gpu -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "*", want: []string{`error unreached: gpu = ["candle-core/cuda"]`}},
		{story: "asked of the package by its name", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"" + core, units: "app gpu -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "app/gpu", want: []string{`error unreached: gpu = ["candle-core/cuda"]`}},
		{story: "two backends, both without effect", files: appOf + "[features]\ncuda = []\nvulkan = []\n[dependencies]\nwhisper-rs-sys = \"0.15\"" + whisp, units: "app cuda,vulkan -> whisper-rs-sys@0.15.0\nwhisper-rs-sys@0.15.0", ask: "cuda,vulkan",
			want: []string{`error unreached: cuda = ["whisper-rs-sys/cuda"]`, `error unreached: vulkan = ["whisper-rs-sys/vulkan"]`}},
		{story: "a wgpu that always has its backends", files: appOf + "[features]\nwgpu = [\"dep:wgpu\"]\n[dependencies]\nwgpu = { version = \"0.19\", optional = true }\n=== wgpu@0.19.0\n[features]\nwebgl = []", units: "app wgpu -> wgpu@0.19.0\nwgpu@0.19.0", ask: "wgpu", on: "wgpu", want: []string{"note undecided: "}},
		{story: "a member that forwards by gpu", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = []\n[dependencies]\nengine = { path = \"../engine\" }\n=== engine\n[features]\ngpu = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }",
			units: "app cuda -> engine\nengine", ask: "cuda", want: []string{`note undecided: cuda = ["engine/gpu"] ~ (the CUDA code of engine stays off)`}},
		{story: "a member without code of its own", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\nengine = { path = \"../engine\" }\n=== engine\n[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> candle-core@0.11.1 engine\ncandle-core@0.11.1 cuda\nengine -> candle-core@0.11.1", ask: "cuda", on: "candle-core"},
		{story: "cudnn leaves off what cuda would bring", files: appOf + "[features]\ncuda = [\"candle-nn/cuda\"]\ncudnn = [\"candle-core/cudnn\"]\n[dependencies]\ncandle-core = \"0.11\"\ncandle-nn = \"0.11\"" + core + nn,
			units: "app cudnn -> candle-core@0.11.1 candle-nn@0.11.1\ncandle-core@0.11.1 cuda,cudnn\ncandle-nn@0.11.1", ask: "cudnn", on: "candle-core", want: []string{`warning partial: cudnn = ["candle-core/cudnn", "cuda"]`}},
		{story: "cudnn leaves off what cuda would leave off, too", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\ncudnn = [\"candle-core/cudnn\"]\n[dependencies]\ncandle-core = \"0.11\"\ncandle-nn = \"0.11\"" + core + nn,
			units: "app cudnn -> candle-core@0.11.1 candle-nn@0.11.1\ncandle-core@0.11.1 cuda,cudnn\ncandle-nn@0.11.1", ask: "cudnn", on: "candle-core", want: []string{`warning partial: cuda = ["candle-core/cuda", "candle-nn/cuda"]*`}},
		{story: "on by another part of the build, and nobody asked", files: appOf + "[dependencies]\ncandle-core = \"0.11\"" + core, units: "app -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "", on: "candle-core"},
		{story: "the line of the feature", files: appOf + "[features]\nx = []\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"" + core, units: "app cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{"error unreached: *"}, line: 7},
		{story: "one is on anyway, another is off", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = { version = \"0.11\", features = [\"cuda\"] }\ncandle-nn = \"0.11\"" + core + nn, units: "app cuda -> candle-core@0.11.1 candle-nn@0.11.1\ncandle-core@0.11.1 cuda\ncandle-nn@0.11.1", ask: "cuda", on: "candle-core",
			want: []string{`warning partial: cuda = ["candle-nn/cuda"]`}},
		{story: "a bare gpu on a Mac", os: "darwin", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"" + core, units: "app gpu -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "gpu", want: []string{`error unreached: gpu = ["candle-core/metal"]`}},
		{story: "a bare gpu on a Mac for Linux", os: "darwin", target: "x86_64-unknown-linux-gnu", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"" + core, units: "app gpu -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "gpu", want: []string{`error unreached: gpu = ["candle-core/cuda"]`}},
		{story: "the program is a GPU crate itself", files: "=== Cargo.toml\n[workspace]\nmembers = [\"trueno-gpu\"]\n=== trueno-gpu\n[features]\ncuda = []", units: "trueno-gpu cuda", ask: "cuda", on: "trueno-gpu"},
		{story: "it is one, and what it is built on is off", files: "=== Cargo.toml\n[workspace]\nmembers = [\"candle-nn\"]\n=== candle-nn\n[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "candle-nn cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", on: "candle-nn", want: []string{`error unreached: cuda = ["candle-core/cuda"]`}},
		{story: "it is one, for another GPU", files: "=== Cargo.toml\n[workspace]\nmembers = [\"burn-wgpu\"]\n=== burn-wgpu\n[features]\ncuda = []", units: "burn-wgpu cuda", ask: "cuda", on: "burn-wgpu", want: []string{"note undecided: "}},
		{story: "wgpu without a backend finds no device", files: appOf + "[features]\nwgpu = [\"dep:wgpu\"]\n[dependencies]\nwgpu = { version = \"26\", optional = true }" + burnWg,
			units: "app wgpu -> wgpu@26.0.0\nwgpu@26.0.0", ask: "wgpu", want: []string{`error unreached: wgpu = ["dep:wgpu", "wgpu?/vulkan"]`}},
		{story: "wgpu with one", files: appOf + "[features]\nwgpu = [\"wgpu/vulkan\"]\n[dependencies]\nwgpu = \"26\"" + burnWg,
			units: "app wgpu -> wgpu@26.0.0\nwgpu@26.0.0 vulkan", ask: "wgpu", on: "wgpu", want: []string{"note undecided: "}},
		{story: "asked of a package that has a binding anyway", files: appOf + "[dependencies]\neng = \"1\"\n=== eng@1.0.0\n[features]\ncuda = []\n[dependencies]\ncudarc = \"0.19\"\ncandle-core = \"0.11\"" + core,
			units: "app -> eng@1.0.0\neng@1.0.0 cuda -> cudarc@0.19.10 candle-core@0.11.1\ncudarc@0.19.10 cuda-13000\ncandle-core@0.11.1", ask: "eng/cuda", on: "cudarc", anyway: "cudarc", want: []string{"note undecided: "}},
		{story: "asked of a package that is not linked", files: appOf + "[dependencies]\nserde = \"1\"", units: "app -> serde@1.0.0\nserde@1.0.0\nfar@1.0.0 cuda", ask: "far/cuda"},
		{story: "a feature of tests next to a member that could forward", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = [\"probe/cuda\"]\n[dependencies]\nengine = { path = \"../engine\" }\n[dev-dependencies]\nprobe = \"1\"\n=== engine\n[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }",
			units: "app cuda -> engine\nengine", ask: "cuda", want: []string{"note undecided:  ~ probe is a dev-dependency"}},
		{story: "a member that could forward", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = []\n[dependencies]\nengine = { path = \"../engine\" }\n=== engine\n[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = { version = \"0.11\", optional = true }",
			units: "app cuda -> engine\nengine", ask: "cuda", want: []string{`note undecided: cuda = ["engine/cuda"] ~ (the CUDA code of engine stays off)`}},
		{story: "another feature completes the edge, and nobody asked", lint: true, files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = [\"engine?/cuda\"]\n[dependencies]\nengine = { path = \"../engine\", optional = true }\ncandle-core = \"0.11\"\n=== engine\n[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{"warning conditional: *"}},
		{story: "the same that was asked for", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"engine\"]\n" + appOf + "[features]\ncuda = [\"engine?/cuda\"]\n[dependencies]\nengine = { path = \"../engine\", optional = true }\ncandle-core = \"0.11\"\n=== engine\n[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"",
			units: "app cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{`error unreached: cuda = ["engine?/cuda", "candle-core/cuda"]`}},
		{story: "a registry's package that the feature brings in", files: appOf + "[features]\ncuda = [\"far/cuda\"]\n[dependencies]\nfar = { version = \"1\", optional = true }\n=== far@1.0.0\n[features]\ncuda = []\n=== far@1.0.0/src/lib.rs\n#[cfg(feature = \"cuda\")]\nfn f() {}",
			units: "app cuda,far -> far@1.0.0\nfar@1.0.0 cuda", ask: "cuda", want: []string{"note undecided: "}},
		{story: "a bare gpu that DirectML has on Windows", target: "x86_64-pc-windows-msvc", files: appOf + "[features]\ngpu = [\"ort/directml\"]\n[dependencies]\nort = \"2\"\n=== ort@2.0.0\n[features]\ncuda = []\ndirectml = []", units: "app gpu -> ort@2.0.0\nort@2.0.0 directml", ask: "gpu", on: "ort"},
		{story: "the same on Linux, where nothing has DirectML", files: appOf + "[features]\ngpu = [\"ort/directml\"]\n[dependencies]\nort = \"2\"\n=== ort@2.0.0\n[features]\ncuda = []\ndirectml = []", units: "app gpu -> ort@2.0.0\nort@2.0.0 directml", ask: "gpu", want: []string{"error unreached: *"}},
		{story: "libtorch's crate says nothing of another that is off", files: appOf + "[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"\ntch = \"1\"" + core,
			units: "app cuda -> candle-core@0.11.1 tch@0.20.0\ncandle-core@0.11.1\ntch@0.20.0", ask: "cuda", want: []string{`error unreached: cuda = ["candle-core/cuda"] ~ ; the libtorch that the build finds decides: CUDA only`}},
		{story: "nor for a bare gpu", files: appOf + "[features]\ngpu = []\n[dependencies]\ncandle-core = \"0.11\"\ntch = \"1\"" + core,
			units: "app gpu -> candle-core@0.11.1 tch@0.20.0\ncandle-core@0.11.1\ntch@0.20.0", ask: "gpu", want: []string{"error unreached: *"}},
		{story: "libtorch by the request, and candle for the CPU", files: appOf + "[features]\ncuda = [\"dep:tch\"]\n[dependencies]\ncandle-core = \"0.11\"\ntch = { version = \"1\", optional = true }" + core,
			units: "app cuda -> candle-core@0.11.1 tch@0.20.0\ncandle-core@0.11.1\ntch@0.20.0", ask: "cuda", want: []string{"note by-file: *", `warning partial: cuda = ["dep:tch", "candle-core/cuda"] ~ leaves candle-core 0.11.1 without its CUDA code`}},
		{story: "a package that the request turns on depends on libtorch", files: appOf + "[features]\ncuda = [\"far/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\nfar = \"1\"" + core + "\n=== far@1.0.0\n[features]\ncuda = []\n[dependencies]\ntch = \"1\"",
			units: "app cuda -> candle-core@0.11.1 far@1.0.0\ncandle-core@0.11.1\nfar@1.0.0 cuda -> tch@0.20.0\ntch@0.20.0", ask: "cuda", want: []string{"note by-file: *", `warning partial: *`}},
		{story: "kernels of another package, with libtorch anyway", files: appOf + "[features]\ncuda = [\"far/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\nfar = \"1\"\ntch = \"1\"" + core + "\n=== far@1.0.0\n[features]\ncuda = []",
			units: "app cuda -> candle-core@0.11.1 far@1.0.0 tch@0.20.0\ncandle-core@0.11.1\nfar@1.0.0 cuda\ntch@0.20.0", ask: "cuda", want: []string{"note undecided: "}},
		{story: "what is off computes with libtorch, and all that only it links", files: appOf + "[features]\ncuda = []\n[dependencies]\nburn = \"0.22\"",
			units: "app cuda -> burn@0.22.1\nburn@0.22.1 -> burn-core@0.22.1 burn-tch@0.22.1\nburn-core@0.22.1\nburn-tch@0.22.1 -> tch@0.20.0\ntch@0.20.0", ask: "cuda", want: []string{"note by-file: *"}},
		{story: "libtorch's crate for a bare gpu", files: appOf + "[features]\ngpu = []\n[dependencies]\ntch = \"1\"", units: "app gpu -> tch@0.20.0\ntch@0.20.0", ask: "gpu", want: []string{"note by-file: *"}},
		{story: "a member that the request turns on ends it", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"mid\", \"kern\"]\n" + appOf + "[features]\ncuda = [\"mid/cuda\"]\n[dependencies]\nmid = { path = \"../mid\" }\n=== mid\n[features]\ncuda = []\n[dependencies]\nkern = { path = \"../kern\" }\n=== kern\n[features]\ncuda = []",
			units: "app cuda -> mid\nmid cuda -> kern\nkern", ask: "cuda", want: []string{"note undecided: "}, opens: "# may be meant: kern/cuda in mid"},
		{story: "one that is on the way to a crate that is off", files: "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"mid\"]\n" + appOf + "[features]\ncuda = [\"mid/cuda\"]\n[dependencies]\nmid = { path = \"../mid\" }\n=== mid\n[features]\ncuda = []\n[dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app cuda -> mid\nmid cuda -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda", want: []string{`note undecided: cuda = ["candle-core/cuda"] # mid`}, opens: `cuda = ["candle-core/cuda"] # mid broken`},
		{story: "documentation tests have the dev-dependencies", files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n[dev-dependencies]\ncandle-core = \"0.11\"" + core,
			units: "app:doctest cuda -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", ask: "cuda", on: "candle-core"},
		{story: "a part of CUDA that enables nothing", files: appOf + "[features]\nnccl = []\n[dependencies]\ncandle-core = \"0.11\"\n=== candle-core@0.11.1\n[features]\ncuda = []\nnccl = [\"cuda\"]",
			units: "app nccl -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "nccl", want: []string{`error unreached: nccl = ["candle-core/nccl"]`}},
		{story: "and CUDA enables nothing", files: appOf + "[features]\ncuda = []\nnccl = []\n[dependencies]\ncandle-core = \"0.11\"\n=== candle-core@0.11.1\n[features]\ncuda = []\nnccl = [\"cuda\"]",
			units: "app cuda,nccl -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda,nccl", want: []string{`error unreached: nccl = ["candle-core/nccl"]; cuda = ["candle-core/cuda"]`}},
		{story: "libtorch's crate for Vulkan", files: appOf + "[features]\nvulkan = []\n[dependencies]\ntch = \"1\"", units: "app vulkan -> tch@0.20.0\ntch@0.20.0", ask: "vulkan", want: []string{"note undecided: "}},
		{story: "what only watches a GPU", files: appOf + "[features]\ncuda = [\"trueno/cuda\"]\n[dependencies]\ntrueno = \"0.17\"", units: "app cuda -> trueno@0.17.0\ntrueno@0.17.0 cuda", ask: "cuda", on: "trueno", want: []string{"note undecided: "}},
		{story: "a cuda that means another thing", files: appOf + "[features]\ncuda = [\"glam/cuda\"]\n[dependencies]\nglam = \"0.30\"", units: "app cuda -> glam@0.30.0\nglam@0.30.0 cuda", ask: "cuda", want: []string{"note undecided: "}},
		{story: "the same, asked of it", files: appOf + "[dependencies]\nglam = \"0.30\"", units: "app -> glam@0.30.0\nglam@0.30.0 cuda", ask: "glam/cuda"},
	} {
		b.check(t)
	}
}

// TestCudarcOfBuilds: which CUDA versions several cudarcs, their features and a variable can have together.
func TestCudarcOfBuilds(t *testing.T) {
	t.Parallel()
	const app = appOf + "[features]\ncuda = [\"dep:cudarc\"]\n[dependencies]\ncudarc = { version = \"0.19\", optional = true }\nold = { package = \"cudarc\", version = \"0.17\" }"
	const now = "\n=== cudarc@0.19.10\n[features]\ncuda-11040 = []\ncuda-12080 = []\ncuda-13040 = []\ncuda-version-from-build-system = []"
	const old = "\n=== cudarc@0.17.8\n[features]\ncuda-11040 = []\ncuda-12080 = []\ncuda-version-from-build-system = []"
	two := func(a, b string) string {
		return "app cuda -> cudarc@0.19.10 cudarc@0.17.8=old\ncudarc@0.19.10 " + a + "\ncudarc@0.17.8 " + b
	}
	for _, tt := range []struct {
		build
		max, pin string // of CUDA
	}{
		{build{story: "one version in both", units: two("cuda-12080", "cuda-12080")}, "unknown", "unknown"},
		{build{story: "two versions, each in one", units: two("cuda-12080", "cuda-11040")}, "unknown", "unknown"},
		{build{story: "one is set, the other asks nvcc", units: two("cuda-13040", "cuda-version-from-build-system")}, "12.8", "unknown"},
		{build{story: "both ask: the lower limit counts", units: two("cuda-version-from-build-system", "cuda-version-from-build-system")}, "12.8", "unknown"},
		{build{story: "one that only a build script links does not make two versions", units: "app cuda -> cudarc@0.19.10 app:run\ncudarc@0.19.10 cuda-13040\napp:run -> cudarc@0.17.8\ncudarc@0.17.8 cuda-12080"}, "unknown", "unknown"},
		{build{story: "nor does one that links its libraries there pin a toolkit", units: "app cuda -> cudarc@0.19.10 app:run\ncudarc@0.19.10 cuda-13040\napp:run -> cudarc@0.17.8\ncudarc@0.17.8 cuda-12080,dynamic-linking"}, "unknown", "unknown"},
		{build{story: "it asks all the same, and knows a lower one", units: "app cuda -> cudarc@0.19.10 app:run\ncudarc@0.19.10 cuda-13040\napp:run -> cudarc@0.17.8\ncudarc@0.17.8 cuda-version-from-build-system"}, "12.8", "unknown"},
		{build{story: "two versions in one", units: two("cuda-12080,cuda-11040", "cuda-12080"), want: []string{"error cudarc-pins: * ~ cuda-12080, cuda-11040"}}, "unknown", "unknown"},
		{build{story: "a variable next to another feature", env: []string{"CUDARC_CUDA_VERSION=11040"}, units: two("cuda-12080", "driver"), want: []string{"warning cudarc-variable: * ~ CUDARC_CUDA_VERSION=11040"}}, "unknown", "unknown"},
		{build{story: "a variable that says the same", env: []string{"CUDARC_CUDA_VERSION=12080"}, units: two("cuda-12080", "driver")}, "unknown", "unknown"},
		{build{story: "a variable for one that would ask", env: []string{"CUDARC_CUDA_VERSION=12080"}, units: two("cuda-version-from-build-system", "driver")}, "unknown", "unknown"},
		{build{story: "linked libraries hold the version", units: two("cuda-12080,dynamic-linking", "cuda-12080")}, "unknown", "12.8"},
		{build{story: "linked statically", units: two("cuda-12080,static-linking", "cuda-12080")}, "unknown", "12.8"},
		{build{story: "without a version", units: two("driver", "cuda-12080"), want: []string{"error cudarc-version: ask cudarc/cuda-13040"}}, "unknown", "unknown"},
		{build{story: "the older one is without", units: two("cuda-12080", "driver"), want: []string{"error cudarc-version: ask old/cuda-12080"}}, "unknown", "unknown"},
		{build{story: "one of another's is without", units: "app cuda -> cudarc@0.19.10 far@1.0.0\ncudarc@0.19.10 cuda-12080\nfar@1.0.0 -> cudarc@0.17.8\ncudarc@0.17.8 driver",
			want: []string{"error cudarc-version: export CUDARC_CUDA_VERSION=12080"}}, "unknown", "unknown"},
		{build{story: "one alone, without a version", units: "app cuda -> cudarc@0.19.10\ncudarc@0.19.10 driver", line: 8, want: []string{"error cudarc-version: ask cudarc/cuda-13040"}}, "unknown", "unknown"},
		{build{story: "cargo's configuration sets it", files: "\n=== .cargo/config.toml\n[env]\nCUDARC_CUDA_VERSION = \"13020\"", units: "app cuda -> cudarc@0.19.10\ncudarc@0.19.10 driver"}, "unknown", "unknown"},
	} {
		tt.files, tt.ask, tt.on = app+now+old+tt.files, "cuda", "-"
		a := tt.check(t)
		if a.CudarcMax.String() != tt.max || a.Pin.String() != tt.pin {
			t.Errorf("%s: at most %s by %s, pinned to %s; want %s and %s", tt.story, a.CudarcMax, a.MaxBy, a.Pin, tt.max, tt.pin)
		}
	}
}

// TestScriptsOfBuilds: what the build scripts of a build need, and what of the machine their output depends on.
func TestScriptsOfBuilds(t *testing.T) {
	t.Parallel()
	own := func(script, deps, extra string) build {
		return build{files: appOf + "[features]\ncuda = []\n" + deps + "\n=== app/build.rs\n" + script + extra, units: "app cuda -> app:run\napp:run cuda", ask: "cuda", on: "-"}
	}
	of := func(story string, b build, needs, scripts string) build {
		b.story, b.needs, b.scripts = story, needs, scripts
		return b
	}
	const cmake = "[build-dependencies]\ncmake = \"0.1\"\n"
	cudarc := func(feats string, env ...string) build {
		return build{files: appOf + "[features]\ncuda = []\n[dependencies]\ncudarc = \"0.19\"", units: "app cuda -> cudarc@0.19.10\ncudarc@0.19.10 " + feats + " -> cudarc@0.19.10:run\ncudarc@0.19.10:run " + feats, ask: "cuda", on: "-", env: env}
	}
	other := func(name, feats, script string) build {
		return build{files: appOf + "[features]\ncuda = []\n[dependencies]\n=== " + name + "\n[features]\ncuda = []\n_cuda = []\ncudnn = []\n=== " + name + "/build.rs\n" + script, units: "app cuda -> " + name + "\n" + name + " " + feats + " -> " + name + ":run\n" + name + ":run " + feats, ask: "cuda", on: "-"}
	}
	for _, b := range []build{
		of("a stranger's script whatever its text says", other("far@1.0.0", "", `fn main() { run("nvcc"); println!("cargo:rustc-link-lib=cudart") }`), "", ""),
		of("a script that is known", other("candle-kernels@0.9.2", "", "fn main() {}"), "cuda host libs nvcc ptx", "candle-kernels: arch host nvcc root CUDA_COMPUTE_CAP CUDA_HOME NVCC NVCC_CCBIN "),
		of("a script that is known, and does nothing with CUDA off", other("whisper-rs-sys@0.15.0", "", `fn main() { run("nvcc") }`), "", ""),
		of("a known one that needs cuDNN", other("mistralrs-core@0.8.1", "cuda,cudnn", "fn main() {}"), "cuda cudnn host libs nvcc ptx", "mistralrs-core: arch cudnn host nvcc root CUDA_COMPUTE_CAP CUDA_NVCC_FLAGS CUDA_PATH CUDNN_LIB_DIR NVCC NVCC_CCBIN "),
		of("the same without cuDNN", other("mistralrs-core@0.8.1", "cuda", "fn main() {}"), "cuda host libs nvcc ptx", "mistralrs-core: arch host nvcc root CUDA_COMPUTE_CAP CUDA_NVCC_FLAGS CUDA_PATH CUDNN_LIB_DIR NVCC NVCC_CCBIN "),
		of("libtorch's", other("torch-sys@0.20.0", "", "fn main() {}"), "", "torch-sys: *torch"),
		of("a helper's own script", other("bindgen_cuda@0.1.5", "", `fn main() { run("nvcc") }`), "", ""),
		of("a monitor's script", other("trueno@0.17.0", "cuda", `fn main() { run("nvcc") }`), "", ""),
		of("cudarc opens its libraries", cudarc("cuda-12080,dynamic-loading"), "cuda", ""),
		of("cudarc reads a header alone", cudarc("cuda-12080,dynamic-loading,nccl-version-from-build-system"), "", "cudarc: *CUDNN_PATH"),
		of("cudarc asks nvcc", cudarc("cuda-version-from-build-system,dynamic-loading"), "cuda nvcc version", ""),
		of("cudarc asks nvcc, or takes its newest", cudarc("cuda-version-from-build-system,fallback-latest,dynamic-loading"), "cuda", ""),
		of("cudarc is told", cudarc("cuda-version-from-build-system", "CUDARC_CUDA_VERSION=12080"), "cuda", ""),
		of("cudarc links", cudarc("cuda-12080,dynamic-linking"), "cuda libs", ""),
		of("cudarc links statically, with cuDNN", cudarc("cuda-12080,static-linking,cudnn"), "cuda cudnn libs", ""),
		of("cudarc reads cuDNN's header", cudarc("cuda-12080,cudnn-version-from-build-system"), "cuda cudnn", ""),
		of("an own script in a build that asks for CUDA, whatever its text says", own(`fn main() { Command::new("nvcc").arg("--ptx"); cc::Build::new().cuda(true) }`, cmake, "\n=== app/a.cu\n"), "", "app: arch cxx host nvcc passes root CUDACXX CUDAHOSTCXX CUDAFLAGS CUDAARCHS CMAKE_* "),
		of("one whose compiler is nvcc's own", own(`fn main() { cc::Build::new().cuda(true).ccbin(false) }`, "", ""), "", "app: *arch host nvcc root"),
		of("a helper that runs nvcc", own(`fn main() { bindgen_cuda::Builder::default() }`, "[build-dependencies]\nbindgen_cuda = \"0.1\"\n", ""), "cuda host nvcc ptx", "app: arch host nvcc root CUDA_COMPUTE_CAP CUDA_PATH CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR CUDNN_LIB NVCC_CCBIN "),
		of("a build-dependency that compiles kernels by itself", own(`fn main() {}`, "[build-dependencies]\ncandle-kernels = \"0.9\"\n", ""), "", "app: *arch host nvcc root"),
		of("an optional helper that no feature turns on", own(`fn main() { }`, "[build-dependencies]\nbindgen_cuda = { version = \"0.1\", optional = true }\n", ""), "", "app: *arch host nvcc root  "),
	} {
		h, in := b.input(t)
		a := judgeIn(h, in)
		part, any := strings.CutPrefix(b.scripts[strings.Index(b.scripts, ":")+1:], " *")
		if got := needsOf(a.Needs); got != b.needs && !(any && b.needs == "") {
			t.Errorf("%s: needs %q, want %q", b.story, got, b.needs)
		}
		var got []string
		for _, u := range a.Units {
			got = append(got, u.Name+": "+inputsOf(u.Inputs))
		}
		if text := strings.Join(got, "; "); any && (len(got) != 1 || !strings.Contains(text, part)) || !any && text != b.scripts && (b.scripts != "" || b.needs == "" || b.needs == "cuda" && !strings.Contains(b.story, "newest")) {
			t.Errorf("%s: %q, want %q", b.story, text, b.scripts)
		}
	}
}

// TestOtherScripts: what a script takes from the machine does not depend on whether the features of this build make it a GPU package's.
func TestOtherScripts(t *testing.T) {
	t.Parallel()
	for ask, want := range map[string][2]int{"cuda": {1, 0}, "": {0, 1}} {
		b := build{files: appOf + "[build-dependencies]\ncc = \"1\"\n=== app/build.rs\nfn main() {}\n", units: "app -> app:run\napp:run", ask: ask}
		if ask != "" {
			b.files, b.units = strings.Replace(b.files, "[build-", "[features]\ncuda = []\n[build-", 1), "app cuda -> app:run\napp:run cuda"
		}
		h, in := b.input(t)
		a := judgeIn(h, in)
		if got := [2]int{len(a.Units), len(a.Others)}; got != want {
			t.Fatalf("%q: %v, want %v", ask, got, want)
		}
		if got := inputsOf(append(a.Units, a.Others...)[0].Inputs); !strings.Contains(got, "arch cxx host nvcc root") {
			t.Errorf("%q: %q", ask, got)
		}
	}
}

// TestCould: what in a build may bring GPU code although no row of the catalog says so, while candle is off. "" stops before the build.
func TestCould(t *testing.T) {
	t.Parallel()
	const head = "=== Cargo.toml\n[workspace]\nmembers = [\"app\", \"kern\"]\n" + appOf + "[dependencies]\ncandle-core = \"0.11\"\nkern = { path = \"../kern\" }\n[features]\ncuda = ["
	const links = " -> candle-core@0.11.1 kern"
	for _, tt := range []struct {
		story, edges, kern, units string
		named                     []string
		before                    bool
	}{
		{"nothing", "", "", "app cuda" + links + "\nkern", nil, true},
		{"a script that is not led to", "", "\n=== kern/build.rs\n\n=== kern/a.cu\n", "app cuda" + links + "\nkern -> kern:run\nkern:run", nil, true},
		{"a feature of a dependency", "\"kern/cuda\"", "[features]\ncuda = []", "app cuda" + links + "\nkern cuda", nil, false},
		{"a feature of candle that is not its gate", "\"candle-core/fast\"", "\n=== candle-core@0.11.1\n[features]\ncuda = []\nfast = []", "app cuda" + links + "\nkern\ncandle-core@0.11.1 fast", nil, true},
		{"the program's own script", "", "\n=== app/build.rs\n", "app cuda" + links + " app:run\nkern\napp:run", nil, true},
		{"… with a file of device code", "", "\n=== app/build.rs\n\n=== app/src/k/a.CU\n", "app cuda" + links + " app:run\nkern\napp:run", nil, false},
		{"… with a shared library", "", "\n=== app/build.rs\n\n=== app/libs/libmine.so\n", "app cuda" + links + " app:run\nkern\napp:run", nil, false},
		{"… with a library next to it in the workspace", "", "\n=== app/build.rs\n\n=== lib/mine.lib\n", "app cuda" + links + " app:run\nkern\napp:run", nil, false},
		{"… in another package below it, with its own script", "", "\n=== app/build.rs\n\n=== app/x/a.cu\n\n=== app/x/build.rs\n\n=== app/x/Cargo.toml\n", "app cuda" + links + " app:run\nkern\napp:run", nil, true},
		{"… in another package below it, which has no script", "", "\n=== app/build.rs\n\n=== app/x/a.cu\n\n=== app/x/Cargo.toml\n", "app cuda" + links + " app:run\nkern\napp:run", nil, false},
		{"… that was built", "", "\n=== app/build.rs\n\n=== app/target/a.cu\n\n=== app/.x/a.cu\n", "app cuda" + links + " app:run\nkern\napp:run", nil, true},
		{"… with a helper", "", "\n=== app/build.rs\n", "app cuda" + links + " app:run\nkern\napp:run -> app:script\napp:script -> cc@1.2.0\ncc@1.2.0", nil, false},
		{"the program is named", "", "", "app cuda" + links + "\nkern", []string{"app"}, false},
		{"a dependency is named, and is off", "", "[features]\ncuda = []", "app cuda" + links + "\nkern", []string{"kern"}, true},
	} {
		core := core
		if strings.Contains(tt.kern, "candle-core@") {
			core = ""
		}
		b := build{files: head + tt.edges + "]" + core + "\n=== kern\n" + tt.kern, units: tt.units + "\ncandle-core@0.11.1", ask: "cuda", named: tt.named}
		h, in := b.input(t)
		r := judgeIn(h, in)
		if r.Stops != tt.before || len(r.Roots[0].Open) == 1 == tt.before {
			t.Errorf("%s: stops %v, left open %+v: %+v", tt.story, r.Stops, r.Roots[0].Open, r.Findings)
		}
	}
	named := build{story: "a named dependency that is on", files: head + "\"kern/cuda\"]" + core + "\n=== kern\n[features]\ncuda = []", units: "app cuda" + links + "\nkern cuda\ncandle-core@0.11.1", ask: "cuda",
		named: []string{"kern"}, on: "kern", want: []string{"warning partial: cuda = [\"kern/cuda\", \"candle-core/cuda\"]"}}
	named.check(t)
}

// TestLeads: whether a member brings CUDA with features, by manifests alone.
func TestLeads(t *testing.T) {
	t.Parallel()
	files := filesOf(appOf + "[features]\ndefault = [\"on\"]\non = [\"candle-core/cuda\"]\ncuda = []\nfast = [\"candle-core/cuda\"]\nslow = []\ntorch = [\"dep:tch\"]\n" +
		"[dependencies]\ncandle-core = \"0.11\"\ntch = { version = \"0.1\", optional = true }")
	h := hosttest.Memory(files)
	p := hosttest.Must(manifest.Load(h, "/w/app/Cargo.toml"))(t)
	for _, tt := range []struct {
		feature   string
		noDefault bool
		want      bool
	}{{"slow", false, true}, {"slow", true, false}, {"fast", true, true}, {"cuda", true, true}, {"torch", true, true}} {
		hosttest.Equal(t, Leads(h, p, p.Selected, tt.noDefault, tt.feature), tt.want, tt.feature, "no defaults", tt.noDefault)
	}
}

// TestFloorsOfBuilds: the lowest architecture of kernels that a build compiles, and of none that it leaves off.
func TestFloorsOfBuilds(t *testing.T) {
	t.Parallel()
	const app = appOf + "[features]\ncuda = []\n[dependencies]\ncandle-kernels = \"0.9\"\n=== candle-kernels@0.9.2\n=== candle-kernels@0.9.2/build.rs\n"
	for text, want := range map[string]string{`"src/moe/moe_wmma.cu"`: "candle-kernels 0.9.2 8.0", "fn main() {}": ""} {
		a := build{story: text, files: app + text, units: "app cuda -> candle-kernels@0.9.2\ncandle-kernels@0.9.2", ask: "cuda", on: "candle-kernels"}.check(t)
		got := ""
		for _, f := range a.Needs.Floors {
			got += f.Crate + " " + f.Arch.String()
		}
		hosttest.Equal(t, got, want, text)
	}
}

// TestRunNeeds: what a program needs to start, or later, by the features of its cudarc.
func TestRunNeeds(t *testing.T) {
	t.Parallel()
	for feats, want := range map[string]string{
		"driver,dynamic-loading,cuda-12080":        "the NVIDIA driver of cudarc 0.19.10 when they are first used; libcudart of candle-kernels 0.11.1 ",
		"driver,dynamic-linking,cuda-12080,cublas": "the NVIDIA driver of cudarc 0.19.10 to start; libcublas of cudarc 0.19.10 to start; libcublasLt of cudarc 0.19.10 to start; libcudart of candle-kernels 0.11.1 ",
		"runtime,dynamic-linking,cuda-12080":       "libcudart of cudarc 0.19.10 to start", // said once
	} {
		a := build{story: feats, files: appOf + "[features]\ncuda = []\n[dependencies]\ncudarc = \"0.19\"", units: "app cuda -> cudarc@0.19.10 candle-kernels@0.11.1\ncudarc@0.19.10 " + feats + "\ncandle-kernels@0.11.1", ask: "cuda", on: "cudarc candle-kernels"}.check(t)
		var got []string
		for _, n := range a.Needs.Run {
			got = append(got, n.Need+" of "+n.Crate+" "+n.Why)
		}
		hosttest.Equal(t, strings.Join(got, "; "), want, feats)
	}
}

// TestNeedsWithoutGraph: where cargo gives no graph, the build scripts that count are those of metadata: the user's own, and known ones.
func TestNeedsWithoutGraph(t *testing.T) {
	t.Parallel()
	const script = "\n=== candle-kernels@0.9.2/build.rs\nfn main() {}\n=== far@0.9.2/build.rs\nfn main() { run(\"nvcc\") }\n=== kern/build.rs\nfn main() { run(\"nvcc\") }\n=== plain/src/lib.rs\n"
	for _, tt := range []struct{ dep, want string }{
		{"candle-kernels@0.9.2", "cuda host libs nvcc ptx"}, {"far@0.9.2", ""}, {"kern", ""}, {"plain", ""}, {"candle-kernels@0.9.2 -", "cuda ptx"},
	} {
		name, version, foreign := strings.Cut(strings.TrimSuffix(tt.dep, " -"), "@")
		dir, id := "/w/"+name, "path+file:///w/"+name+"#"+name+"@0.1.0"
		if foreign {
			dir, id = registryRoot+name+"-"+version, "registry+https://registry.example/index#"+name+"@"+version
		}
		targets := `{"kind": ["custom-build"], "src_path": "` + dir + `/build.rs"}`
		if name == "plain" || strings.HasSuffix(tt.dep, " -") {
			targets = ""
		}
		h, in := build{files: appOf + "[dependencies]\n" + name + " = \"0.9\"" + script}.input(t)
		m := hosttest.Must(manifest.ParseMetadata([]byte(`{"packages": [
			{"id": "path+file:///w/app#0.1.0", "name": "app", "version": "0.1.0", "manifest_path": "/w/app/Cargo.toml", "dependencies": [{"name": "` + name + `"}]},
			{"id": "` + id + `", "name": "` + name + `", "version": "0.9.2", "manifest_path": "` + dir + `/Cargo.toml", "targets": [` + targets + `]}],
			"workspace_members": ["path+file:///w/app#0.1.0"], "workspace_default_members": ["path+file:///w/app#0.1.0"],
			"resolve": {"nodes": [{"id": "path+file:///w/app#0.1.0", "deps": [{"name": "` + strings.ReplaceAll(name, "-", "_") + `", "pkg": "` + id + `", "dep_kinds": [{}]}]}]}}`)))(t)
		in.Project, in.Alone, in.Unknown = in.Project.With(m), nil, "an old cargo"
		hosttest.Equal(t, needsOf(judgeIn(h, in).Needs), tt.want, tt.dep)
	}
}

// TestWorkOfBuilds: whether a judged build has to do with a GPU.
func TestWorkOfBuilds(t *testing.T) {
	t.Parallel()
	const app = appOf + "[features]\ncuda = []\nfast = []\n[dependencies]\n"
	for _, tt := range []struct {
		units, ask string
		want       bool
	}{
		{"app -> serde@1.0.0\nserde@1.0.0", "", false}, {"app fast -> serde@1.0.0\nserde@1.0.0", "fast", false}, {"app cuda -> serde@1.0.0\nserde@1.0.0", "cuda", true}, {"app -> candle-core@0.11.1\ncandle-core@0.11.1", "", false},
		{"app -> candle-core@0.11.1\ncandle-core@0.11.1 cuda", "", true}, {"app -> torch-sys@0.20.0\ntorch-sys@0.20.0 -> torch-sys@0.20.0:run\ntorch-sys@0.20.0:run", "", true},
		{"app cuda -> serde@1.0.0\nserde@1.0.0", "", true}, {"app -> wgpu@26.0.0\nwgpu@26.0.0 vulkan", "", false},
	} {
		h, in := build{files: app, units: tt.units, ask: tt.ask}.input(t)
		hosttest.Equal(t, judgeIn(h, in).GPUWork(), tt.want, tt.units, tt.ask)
	}
	h, in := build{files: appOf + "[dependencies]\ncandle-kernels = \"0.9\""}.input(t)
	in.Alone, in.Unknown = nil, "an old cargo"
	if a := judgeIn(h, in); !a.GPUWork() || needsOf(a.Needs) != "cuda host libs nvcc ptx" {
		t.Errorf("without a graph: %v, %s", a.GPUWork(), needsOf(a.Needs))
	}
}

func TestBackends(t *testing.T) {
	on := func(backend string) CrateState { return CrateState{Backend: backend, On: true} }
	for _, tt := range []struct {
		story  string
		root   Root
		want   []string
		vulkan bool
	}{
		{"nothing", Root{}, []string{"cpu"}, false},
		{"off", Root{Crates: []CrateState{{Backend: "wgpu"}}}, []string{"cpu"}, false},
		{"wgpu", Root{Crates: []CrateState{on("own"), on("wgpu"), on("vulkan")}}, []string{"vulkan", "wgpu"}, true},
		{"ash alone", Root{Crates: []CrateState{on("vulkan")}}, []string{"vulkan"}, true},
		{"both", Root{Reached: true, Crates: []CrateState{on("cuda,wgpu")}}, []string{"cuda", "wgpu"}, false},
		{"wgpu where cuda is requested", Root{Asked: []string{"cuda"}, Crates: []CrateState{on("wgpu")}}, []string{"wgpu"}, false},
		{"several of burn", Root{Crates: []CrateState{on("rocm,wgpu")}}, []string{"rocm", "wgpu"}, true},
	} {
		if got := tt.root.Backends(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.story, got, tt.want)
		}
		hosttest.Equal(t, (&Reach{Roots: []Root{tt.root}}).UsesVulkan(), tt.vulkan, tt.story, "Vulkan is")
	}
}

// pkg is a short way to write a manifest.
func pkg(name, rest string) string {
	return "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n" + rest
}

// judgeIn gathers and decides.
func judgeIn(h buildenv.Host, in Input) *Reach {
	facts := Gather(h, in)
	return Judge(&facts)
}

// looks is the quick look, which keeps nothing.
func looks(h buildenv.Host, p *manifest.Project, r manifest.Request) (bool, string) {
	return NewSources(h, p).GPUWork(r, func(list func() []string) []string { return list() })
}

func FuzzParseGraph(f *testing.F) {
	f.Add(
		[]byte(
			`{"version":1,"units":[{"pkg_id":"path+file:///w/a#0.1.0","target":{"kind":["bin"],"name":"a","src_path":"/w/a/src/main.rs"},"platform":null,"mode":"build","features":["cuda"],"dependencies":[{"index":1,"extern_crate_name":"candle_core"}]},{"pkg_id":"registry+https://registry.example/i#candle-core@0.11.1","target":{"kind":["lib"],"name":"candle_core","src_path":"/r/candle-core-0.11.1/src/lib.rs"},"mode":"build","features":["cuda"],"dependencies":[{"index":1}]}],"roots":[0]}`,
		),
	)
	f.Add([]byte(`{"version":1,"units":[],"roots":[]}`))
	f.Add([]byte(`{"version":1,"units":[{"pkg_id":"path+file:///w/b#0.1.0","target":{"kind":["bin"],"name":"b","src_path":"/w/b/src/main.rs"},"platform":null,"mode":"build","features":["cuda"],"dependencies":[]}],"roots":[0]}`)) // not of the project
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := graph.Parse(bytes.NewReader(data))
		if err != nil {
			return
		}
		h := hosttest.Memory(map[string]string{"/w/a/Cargo.toml": pkg("a", "[features]\ncuda = []\n")})
		p := hosttest.Must(manifest.Load(h, "/w/a/Cargo.toml"))(t)
		judgeIn(h, Input{Project: p, Graph: g, Request: ask("cuda")})
	})
}
