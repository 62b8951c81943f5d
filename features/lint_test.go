package features

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

func TestPropagation(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": "[workspace]\nmembers = [\"a\", \"b\", \"c\", \"d\"]\nresolver = \"2\"\n",
		"/w/a/Cargo.toml": pkg(
			"a",
			"[features]\ncuda = [\"b/cuda\"]\n[dependencies]\nb = { path = \"../b\" }\nc = { path = \"../c\" }\nd = { path = \"../d\", optional = true }\n[dev-dependencies]\nd = { path = \"../d\" }\n",
		),
		"/w/b/Cargo.toml": pkg("b", "[features]\ncuda = []\n"),
		"/w/c/Cargo.toml": pkg("c", "[features]\ncuda = []\n"), "/w/c/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn fast() {}\n",
		"/w/d/Cargo.toml": pkg("d", "[features]\ncuda = []\n"), "/w/d/src/lib.rs": "",
	})
	p, err := manifest.Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	check, err := NewEdgeCheck(h, Input{Project: p})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range checkAll(check) {
		got = append(got, f.Severity+" "+f.Fix)
	}
	want := "error cuda = [\"b/cuda\", \"c/cuda\"]"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// checkAll checks every GPU feature of every member.
func checkAll(c *EdgeCheck) []Finding {
	var out []Finding
	for _, q := range c.Project.Questions(nil) {
		out = append(out, c.Of(q)...)
	}
	return out
}

// TestWhatLooksLikeAMissingEdge: what the lint calls a missing edge works as it stands, and has to do with CUDA.
func TestWhatLooksLikeAMissingEdge(t *testing.T) {
	t.Parallel()
	for story, files := range map[string]map[string]string{
		"the dependency does not declare the feature": {
			"app":   "[features]\ncuda = [\"whisper-rs/cuda\"]\n[dependencies]\nwhisper-rs = \"1\"\nother = { path = \"../other\" }\n",
			"other": "[dependencies]\nort = \"2\"\n",
		},
		"the catalog knows what a crate that is not here enables": {
			"app":   "[features]\ncuda = [\"llama-cpp-2/cuda\"]\n[dependencies]\nllama-cpp-2 = \"1\"\nllama-cpp-sys-2 = \"1\"\n",
			"other": "",
		},
		"a part that is nobody's to ask for": {
			"app":   "[features]\n_cuda = []\ncuda = [\"_cuda\", \"other/cuda\"]\n[dependencies]\nother = { path = \"../other\" }\n",
			"other": "[features]\ncuda = []\n",
			"code":  "#[cfg(feature = \"cuda\")]\npub fn fast() {}\n",
		},
		"another kind of GPU": {
			"app":   "[features]\ngpu = [\"fast\"]\nfast = []\n[dependencies]\nother = { path = \"../other\" }\n",
			"code":  "#[cfg(feature = \"gpu\")]\npub fn fast() {}\n",
			"other": "[features]\ngpu = [\"dep:wgpu\"]\n[dependencies]\nwgpu = { version = \"29\", optional = true }\n",
		},
		"a choice within a crate that is on": {
			"app": "[features]\ncuda = [\"dep:burn-cuda\"]\n[dependencies]\nother = { path = \"../other\" }\n" +
				"burn-cuda = { path = \"../burn-cuda\", optional = true, default-features = false }\n",
			"other":     "[features]\ncuda = [\"burn-cuda\"]\n[dependencies]\nburn-cuda = { path = \"../burn-cuda\", optional = true }\n",
			"burn-cuda": "[features]\ndefault = [\"fast\"]\nfast = []\n",
		},
		"an engine next to another": {
			"app":   "[features]\ncandle-cuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"1\"\nburn = { version = \"0.21\", optional = true }\n",
			"other": "[features]\ncandle-cuda = [\"app/candle-cuda\"]\n[dependencies]\napp = { path = \"../app\" }\n",
		},
	} {
		on := "#[cfg(any(feature = \"cuda\", feature = \"gpu\", feature = \"fast\"))]\npub fn fast() {}\n"
		h := hosttest.Memory(map[string]string{
			"/w/Cargo.toml":     "[workspace]\nmembers = [\"app\", \"other\"]\nresolver = \"2\"\n",
			"/w/app/Cargo.toml": pkg("app", files["app"]), "/w/app/src/lib.rs": on,
			"/w/other/Cargo.toml": pkg("other", files["other"]), "/w/other/src/lib.rs": files["code"],
			"/w/burn-cuda/Cargo.toml": pkg("burn-cuda", files["burn-cuda"]), "/w/burn-cuda/src/lib.rs": on,
		})
		p, err := manifest.Load(h, "/w/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		check, err := NewEdgeCheck(h, Input{Project: p})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range checkAll(check) {
			t.Errorf("%s: %s: %s", story, f.Message, f.Fix)
		}
	}
}

// TestEdgesToNothing: an edge to a feature that its dependency does not have is a fault; one to a dependency that is not here is not
// judged.
func TestEdgesToNothing(t *testing.T) {
	t.Parallel()
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": "[workspace]\nmembers = [\"app\", \"kernels\"]\nresolver = \"2\"\n",
		"/w/app/Cargo.toml": pkg(
			"app",
			"[features]\ncuda = [\"kernels/cuda\", \"far/cuda\"]\n[dependencies]\nkernels = { path = \"../kernels\" }\nfar = \"1\"\n",
		),
		"/w/kernels/Cargo.toml": pkg("kernels", "[features]\nrocm = []\n"), "/w/kernels/src/lib.rs": "",
	})
	p, err := manifest.Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	check, err := NewEdgeCheck(h, Input{Project: p})
	if err != nil {
		t.Fatal(err)
	}
	list := checkAll(check)
	if len(list) != 1 || list[0].Severity != Error || list[0].Line == 0 ||
		list[0].Fix != `cuda = ["far/cuda"]` ||
		list[0].Message != "`cuda` of app enables `kernels/cuda`, and kernels has no feature `cuda`" {
		t.Errorf("%+v", list)
	}
}

// TestRefusedEdges: what cargo accepts in no manifest is a fault of the hook's, too, and is replaced by what it accepts.
func TestRefusedEdges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ features, message, fix string }{
		{`cuda = ["engine/cuda", "nope/cuda"]`, "app has no dependency `nope`", `cuda = ["engine/cuda"]`},
		{`cuda = ["engine/cuda", "missing"]`, "app has no feature `missing`", `cuda = ["engine/cuda"]`},
		{`cuda = ["dep:gone"]`, "app has no dependency `gone`", `cuda = ["engine/cuda"]`},
		{`cuda = ["dep:engine"]`, "`engine` is not optional", `cuda = ["engine/cuda"]`},
		{`cuda = ["engine?/cuda"]`, "`engine` is not optional", `cuda = ["engine/cuda"]`},
		{`cuda = ["engine"]`, "`engine` is a dependency that is not optional", `cuda = ["engine/cuda"]`},
		{"other = [\"dep:extra\"]\ncuda = [\"engine/cuda\", \"extra\"]", "`extra` is no feature", `cuda = ["engine/cuda", "dep:extra"]`},
		{"cuda = [\"engine/cuda\"]\nother = [\"gone\"]", "`other` of app enables `gone`", `other = []`},
		{`cuda = ["engine/cuda", "extra?/x", "extra"]`, "", ""},
	} {
		h := hosttest.Memory(map[string]string{
			"/w/Cargo.toml": "[workspace]\nmembers = [\"app\", \"engine\"]\nresolver = \"2\"\n",
			"/w/app/Cargo.toml": pkg("app", "[features]\n"+c.features+
				"\n[dependencies]\nengine = { path = \"../engine\" }\nextra = { version = \"1\", optional = true }\n"),
			"/w/engine/Cargo.toml": pkg("engine", "[features]\ncuda = []\n"),
			"/w/engine/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn fast() {}\n",
		})
		p, err := manifest.Load(h, "/w/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		check, err := NewEdgeCheck(h, Input{Project: p})
		if err != nil {
			t.Fatal(err)
		}
		list := checkAll(check)
		if c.fix == "" && len(list) == 0 {
			continue
		}
		if len(list) != 1 || list[0].Fix != c.fix || !strings.Contains(list[0].Message, c.message) || list[0].Line == 0 {
			t.Errorf("%s: %+v", c.features, list)
		}
	}
}

// TestChoiceOfADependency: a member that chooses the device by cfg! must get the feature.
func TestChoiceOfADependency(t *testing.T) {
	t.Parallel()
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml":        "[workspace]\nmembers = [\"app\", \"device\"]\nresolver = \"2\"\n",
		"/w/app/Cargo.toml":    pkg("app", "[features]\ncuda = []\n[dependencies]\ndevice = { path = \"../device\" }\n"),
		"/w/app/src/main.rs":   "fn main() { println!(\"{}\", cfg!(feature = \"cuda\")); }\n",
		"/w/device/Cargo.toml": pkg("device", "[features]\ncuda = []\n"),
		"/w/device/src/lib.rs": "pub fn gpu() -> bool { cfg!(feature = \"cuda\") }\n",
	})
	p, err := manifest.Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	check, err := NewEdgeCheck(h, Input{Project: p})
	if err != nil {
		t.Fatal(err)
	}
	if list := checkAll(check); len(list) != 1 || list[0].Severity != Error || list[0].Fix != `cuda = ["device/cuda"]` {
		t.Errorf("%+v", list)
	}
}

// TestNoFalseAlarms: edges that would enable nothing more are not asked for.
func TestNoFalseAlarms(t *testing.T) {
	t.Parallel()
	candle := "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[features]\ncuda = []\ncudnn = [\"cuda\"]\n"
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": "[workspace]\nmembers = [\"app\", \"data\", \"attn\", \"candle-core\"]\nresolver = \"2\"\n",
		// cudnn brings cuda by candle-core; data has no code of its own; attn gets cuda by the feature that activates it; cuda-12080 is a
		// version
		"/w/app/Cargo.toml": pkg(
			"app",
			"[features]\ncuda = [\"candle-core/cuda\"]\ncudnn = [\"candle-core/cudnn\"]\ncuda-12080 = []\nflash = [\"cuda\", \"dep:attn\", \"attn/cuda\"]\n"+
				"[dependencies]\ncandle-core = { path = \"../candle-core\" }\ndata = { path = \"../data\" }\nattn = { path = \"../attn\", optional = true }\n",
		),
		"/w/data/Cargo.toml": pkg("data", "[dependencies]\ncandle-core = { path = \"../candle-core\" }\n"), "/w/data/src/lib.rs": "",
		"/w/attn/Cargo.toml": pkg(
			"attn",
			"[features]\ncuda = []\n",
		), "/w/attn/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn attend() {}\n",
		"/w/candle-core/Cargo.toml": candle, "/w/candle-core/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn device() {}\n",
	})
	p, err := manifest.Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	check, err := NewEdgeCheck(h, Input{Project: p})
	if err != nil {
		t.Fatal(err)
	}
	if list := checkAll(check); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}
