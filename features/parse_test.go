package features

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gpubuild/buildenv"

	"gpubuild/buildenv/hosttest"
)

func TestParsePkgID(t *testing.T) {
	tests := []struct{ id, kind, name, version, dir string }{
		{"path+file:///w/app#0.1.0", "path", "app", "0.1.0", "/w/app"},
		{"path+file:///w/core#core1@0.1.0", "path", "core1", "0.1.0", "/w/core"},
		{"path+file:///w/with%20space/app#0.1.0", "path", "app", "0.1.0", "/w/with space/app"},
		{"path+file:///w/with%20space#0.1.0", "path", "with space", "0.1.0", "/w/with space"},
		{"registry+https://registry.example/index#candle-core@0.11.1", "registry", "candle-core", "0.11.1", ""},
		{"sparse+https://registry.example/index/#cudarc@0.19.10", "sparse", "cudarc", "0.19.10", ""},
		{"git+https://git.example/u/candle?branch=main#candle-core@0.9.1", "git", "candle-core", "0.9.1", ""},
		{"git+https://git.example/u/candle.git?rev=abc#0.9.1", "git", "candle", "0.9.1", ""},
		{"app 0.1.0 (path+file:///w/app)", "path", "app", "0.1.0", "/w/app"},
		{"candle-core 0.9.1 (git+https://git.example/u/candle?rev=abc#0123abc)", "git", "candle-core", "0.9.1", ""},
		{"candle-core 0.9.1 (registry+https://registry.example/index)", "registry", "candle-core", "0.9.1", ""},
		{"", "", "", "", ""},
	}
	h := hosttest.Memory(nil)
	for _, tt := range tests {
		id := ParsePkgID(tt.id)
		if id.Kind != tt.kind || id.Name != tt.name || id.Version != tt.version || id.Dir(h) != tt.dir {
			t.Errorf("%s: %+v, dir %q", tt.id, id, id.Dir(h))
		}
	}
	win := buildenv.Host{OS: buildenv.Windows}
	if got := ParsePkgID("path+file:///C:/w/app#0.1.0").Dir(win); got != `C:\w\app` {
		t.Errorf("on Windows: %s", got)
	}
}

func TestParseTree(t *testing.T) {
	text := strings.Join([]string{
		"0app v0.1.0 (/w/app) cuda",
		"1candle-core v0.11.1 cpu,cuda",
		"2cudarc v0.19.10 (https://git.example/u/cudarc#abcd) driver",
		"2candle-kernels v0.11.1 ",
		"1candle-nn v0.11.1 (/w/a (copy)/nn) cuda",
		"2candle-core v0.11.1 cpu,cuda (*)",
		"1pm v0.1.0 (proc-macro) (/w/pm) ",
		"2candle-core v0.10.0 cuda",
		"",
		"0other v0.1.0 (/w/other) ",
		"1candle-core v0.11.1 cpu,cuda (*)",
	}, "\n")
	tree, err := ParseTree(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	names := func(root int) []string {
		var out []string
		for _, i := range tree.Linked(tree.Roots[root]) {
			out = append(out, tree.Nodes[i].Name+" "+tree.Nodes[i].Version)
		}
		return out
	}
	if got, want := names(0), []string{"app 0.1.0", "candle-core 0.11.1", "candle-nn 0.11.1", "cudarc 0.19.10", "candle-kernels 0.11.1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("app links %v", got)
	}
	if got, want := names(1), []string{"other 0.1.0", "candle-core 0.11.1", "cudarc 0.19.10", "candle-kernels 0.11.1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("other links %v: a repeated package keeps what it links", got)
	}
	if nn := tree.Nodes[tree.Roots[0]+4]; nn.Source != "/w/a (copy)/nn" {
		t.Errorf("a directory with brackets: %+v", nn)
	}
	for _, bad := range []string{"app v0.1.0", "2app v0.1.0", "0app", "0app v0.1.0 (/w"} {
		var ge *GraphError
		if _, err := ParseTree(strings.NewReader(bad)); !errors.As(err, &ge) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParseGraphRefuses(t *testing.T) {
	for story, text := range map[string]string{
		"no JSON":            "warning: something",
		"another version":    `{"version":2,"units":[],"roots":[]}`,
		"no version":         `{"units":[],"roots":[]}`,
		"a root too far":     `{"version":1,"units":[],"roots":[0]}`,
		"an edge too far":    `{"version":1,"units":[{"pkg_id":"a","dependencies":[{"index":1}]}],"roots":[0]}`,
		"a unit of nothing":  `{"version":1,"units":[{}],"roots":[0]}`,
		"cut off":            `{"version":1,"units":[{"pkg_id":"a"`,
		"features no list":   `{"version":1,"units":[{"pkg_id":"a","features":"x"}],"roots":[]}`,
		"a second text":      `{"version":1,"units":[],"roots":[]}{}`,
		"version as a text":  `{"version":"1","units":[],"roots":[]}`,
		"nothing whatsoever": "",
	} {
		var ge *GraphError
		if _, err := ParseGraph(strings.NewReader(text)); !errors.As(err, &ge) || ge.Hint() == "" {
			t.Errorf("%s: %v", story, err)
		}
	}
}

func TestLocate(t *testing.T) {
	text := strings.Join([]string{
		`# cuda = ["not this"]`, // 1
		`[package]`,
		`name = "a" # [features]`,
		`description = """`,
		`[features]`,
		`cuda = []`,
		`"""`,
		`version.workspace = true`, // 8
		`[ features ]`,
		`"with space" = [ # one`,
		`  "x]", 'y#',`,
		`  # comment ]`,
		`]`,
		`cuda = ["candle-core/cuda"]`, // 14
		`[dependencies]`,
		`candle-core = { version = "1", features = ["cuda"] }`,
		`cudarc.version = "0.19"`,
		`cudarc.optional = true`,
		`[target.'cfg(target_os = "linux")'.dependencies]`, // 19
		`nn = "1"`,
		`[dependencies.tokio]`,
		`version = "1"`,
		`[[bin]]`,
		`name = "x"`,
	}, "\r\n")
	got := locate([]byte(text))
	for path, line := range map[string]int{
		"package": 2, "package/name": 3, "package/version/workspace": 8, "features": 9, "features/with space": 10, "features/cuda": 14,
		"dependencies/candle-core/features": 16, "dependencies/cudarc": 17, "dependencies/cudarc/optional": 18,
		`target/cfg(target_os = "linux")/dependencies/nn`: 20, "dependencies/tokio": 21, "dependencies/tokio/version": 22, "bin/name": 24,
	} {
		key := strings.ReplaceAll(path, "/", "\x00")
		if got[key].line != line {
			t.Errorf("%s: line %d, want %d", path, got[key].line, line)
		}
	}
	cuda := got[spanKey([]string{"features", "cuda"})]
	if v := text[cuda.start:cuda.end]; v != `["candle-core/cuda"]` {
		t.Errorf("the value's bytes: %s", v)
	}
}

func TestCatalog(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Crates {
		e := &c.Crates[i]
		if c.Crate(e.Name) != e {
			t.Errorf("%s stands twice", e.Name)
		}
		if len(e.Sources) == 0 || e.Backend == "" || strings.ContainsAny(e.Name, " ()") {
			t.Errorf("%s: %+v", e.Name, e)
		}
		switch e.Role {
		case Carrier, Gated, Monitor, ByFile, Helper, FalseFriend:
		default:
			t.Errorf("%s: role %q", e.Name, e.Role)
		}
		if e.Role == Gated && len(e.CUDAFeatures) == 0 {
			t.Errorf("%s is gated by nothing", e.Name)
		}
		for f := range e.Lost {
			if _, ok := e.Features[f]; !ok {
				t.Errorf("%s loses something without %s, which it has not", e.Name, f)
			}
		}
	}
	if got := c.Crate("candle-kernels").Env(); !reflect.DeepEqual(got, []string{"CUDA_COMPUTE_CAP", "CUDA_HOME", "NVCC", "NVCC_CCBIN"}) {
		t.Errorf("variables of candle-kernels: %v", got)
	}
	if c.Crate("serde") != nil || c.Crate("serde").CUDA() {
		t.Error("a crate that nobody listed")
	}
	if _, err := parseCatalog("schema = 1\nunknown = 2\n"); err == nil {
		t.Error("an unknown key went unnoticed")
	}
}

func TestGatesCode(t *testing.T) {
	for text, want := range map[string]bool{
		`#[cfg(feature = "cuda")]` + "\nmod gpu;":                            true,
		`if cfg!(feature="cuda") {`:                                          true,
		`#[cfg(all(feature = "realizar", feature = "cuda"))]` + "\nfn f(){}": true,
		`// #[cfg(feature = "cuda")]`:                                        false,
		`//! built with feature = "cuda"`:                                    false,
		`#[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]`:                    false,
		`#[cfg(feature = "cuda")]` + "\n" + `compile_error!("no");`:          false,
		`#[cfg(feature = "cuda-11")]`:                                        false,
		`let x = "cuda";`:                                                    false,
	} {
		if got := gatesCode(text, testOf("cuda")); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestTreeOfSeveralTargets: what is asked of one target after the other is kept apart; one answer for several is none.
func TestTreeOfSeveralTargets(t *testing.T) {
	const linux, windows = "0app v0.1.0 (/w)\n\n", "0app v0.1.0 (/w)\n1cudarc v0.19.10\n\n"
	tree, err := ParseTree(strings.NewReader("[target] x86_64-unknown-linux-gnu\n" + linux + "[target] x86_64-pc-windows-msvc\n" + windows))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range tree.Roots {
		got = append(got, fmt.Sprint(tree.Nodes[r].Platform, " ", len(tree.Linked(r))))
	}
	if want := "x86_64-unknown-linux-gnu 1, x86_64-pc-windows-msvc 2"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	if tree, err := ParseTree(strings.NewReader(linux + windows)); err == nil {
		t.Errorf("an answer for two targets at once was read as %+v", tree)
	}
}
