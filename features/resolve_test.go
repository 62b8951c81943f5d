package features

import (
	"strings"
	"testing"
)

// TestShapesFromManifests judges the shapes from their manifests alone. What is decided must be what cargo's graph says of them; which ones
// are left open is held, too, so that openness does not grow unseen.
func TestShapesFromManifests(t *testing.T) {
	files := map[string]string{}
	for p, text := range shapeFiles(t) {
		files["/w/"+p] = text
	}
	h := memHost(files)
	decided := 0
	for _, s := range shapes {
		if s.test || s.request.Workspace || len(s.request.Packages) > 1 {
			continue
		}
		t.Run(s.dir+" "+s.story, func(t *testing.T) {
			p, err := Load(h, "/w/"+s.dir+"/Cargo.toml")
			if err != nil {
				t.Fatal(err)
			}
			list, known := p.Selection(s.request)
			if !known || len(list) != 1 {
				t.Logf("%d packages are selected, which manifests alone leave open", len(list))
				return
			}
			plan := p.PlanBuild(list[0], s.request)
			if len(plan.Open) > 0 {
				if !strings.Contains(strings.Join(s.request.Features, ","), "/") {
					t.Errorf("not decided: %q", plan.Open)
				}
				return
			}
			decided++
			findings := append([]string{}, s.findings...)
			for i := range findings { // what only the host has is not looked at
				findings[i] = strings.TrimSuffix(findings[i], "copy for build scripts")
			}
			check(t, h, p, plan.Graph, nil, s.request, s.reach, findings, s.stops, s.strict)
		})
	}
	if decided < 30 {
		t.Errorf("only %d shapes were decided", decided)
	}
}

// TestPlanLeavesOpen lists what manifests and Cargo.lock cannot say.
func TestPlanLeavesOpen(t *testing.T) {
	core := map[string]string{"/w/core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\n[features]\ncuda = []\n"}
	app := func(rest string) string {
		return pkg("app", "[workspace]\nexclude = [\"core\"]\n[features]\ncuda = [\"candle-core/cuda\"]\n"+rest)
	}
	path := "[dependencies]\ncandle-core = { path = \"core\" }\n"
	registry := "[dependencies]\ncandle-core = \"0.11\"\n"
	lock := "[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"candle-core\",\n]\n[[package]]\nname = \"candle-core\"\nversion = \"0.11.1\"\nsource = \"registry+https://r.example/i\"\n"
	tests := []struct {
		story string
		files map[string]string
		r     Request
		env   []string
		want  string // a piece of why; empty: decided
	}{
		{story: "nothing stands in the way", files: map[string]string{"/w/Cargo.toml": app(path)}},
		{story: "a patch", files: map[string]string{"/w/Cargo.toml": app(path + "[patch.crates-io]\ncandle-core = { path = \"core\" }\n")}, want: "[patch]"},
		{story: "build.target", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[build]\ntarget = \"x86_64-pc-windows-msvc\"\n"}, want: "build.target"},
		{story: "paths", files: map[string]string{"/w/Cargo.toml": app(path), "/.cargo/config.toml": "paths = [\"x\"]\n"}, want: "`paths`"},
		{story: "a configuration that cannot be read", files: map[string]string{"/w/Cargo.toml": app(path), "/home/u/.cargo/config.toml": "[\n"}, want: "cannot be read"},
		{story: "CARGO_BUILD_TARGET", files: map[string]string{"/w/Cargo.toml": app(path)}, env: []string{"CARGO_BUILD_TARGET=x"}, want: "CARGO_BUILD_TARGET"},
		{story: "another target", files: map[string]string{"/w/Cargo.toml": app(path)}, r: Request{Targets: []string{"x"}}, want: "another target"},
		{story: "tests", files: map[string]string{"/w/Cargo.toml": app(path)}, r: Request{Dev: true}, want: "tests"},
		{story: "an architecture's table", files: map[string]string{"/w/Cargo.toml": app("[target.'cfg(target_arch = \"x86_64\")'.dependencies]\ncandle-core = { path = \"core\" }\n")}, want: "target_arch"},
		{story: "an architecture's table that leads nowhere", files: map[string]string{"/w/Cargo.toml": app(path + "[target.'cfg(target_arch = \"x86_64\")'.dependencies]\nhelp = { path = \"core/help\" }\n"), "/w/core/help/Cargo.toml": pkg("help", "")}},
		{story: "no lock file", files: map[string]string{"/w/Cargo.toml": app(registry)}, want: "no Cargo.lock"},
		{story: "the crate's manifest is not here", files: map[string]string{"/w/Cargo.toml": app(registry), "/w/Cargo.lock": lock}, want: "not on this machine"},
		{story: "the crate's manifest is here", files: map[string]string{"/w/Cargo.toml": app(registry), "/w/Cargo.lock": lock, "/home/u/.cargo/registry/src/i/candle-core-0.11.1/Cargo.toml": core["/w/core/Cargo.toml"]}},
		{story: "the lock file is older than the manifest", files: map[string]string{"/w/Cargo.toml": app(registry + "candle-nn = \"0.11\"\n"), "/w/Cargo.lock": lock, "/home/u/.cargo/registry/src/i/candle-core-0.11.1/Cargo.toml": core["/w/core/Cargo.toml"]}, want: "Cargo.lock does not say"},
		{story: "a source that is no registry", files: map[string]string{"/w/Cargo.toml": app("[dependencies]\ncandle-core = { git = \"https://g.example/c\" }\n"), "/w/Cargo.lock": strings.Replace(lock, "registry+", "git+", 1)}, want: "not from a registry"},
		{story: "an inherited edition that decides the resolver", files: map[string]string{"/w/Cargo.toml": "[package]\nname = \"app\"\nedition.workspace = true\n[workspace]\nexclude = [\"core\"]\n[workspace.package]\nedition = \"2021\"\n[features]\ncuda = [\"candle-core/cuda\"]\n" + path}, want: "inherits its edition"},
		{story: "a path that is not there", files: map[string]string{"/w/Cargo.toml": app(path + "gone = { path = \"gone\" }\n")}, want: "gone"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			for p, text := range core {
				tt.files[p] = text
			}
			h := memHost(tt.files)
			for _, e := range tt.env {
				name, value, _ := strings.Cut(e, "=")
				h.Env = h.Env.Set(name, value)
			}
			p, err := Load(h, "/w/Cargo.toml")
			if err != nil {
				t.Fatal(err)
			}
			tt.r.Features = []string{"cuda"}
			plan := p.PlanBuild(p.Selected, tt.r)
			got := strings.Join(plan.Open, "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("open: %q, want %q", got, tt.want)
			}
			if tt.want == "" {
				if a, err := Judge(h, Input{Project: p, Request: tt.r, Graph: plan.Graph}); err != nil || a.Stops || reached(a, "") != "candle-core" {
					t.Errorf("%v %+v", err, a)
				}
			}
		})
	}
}

func TestPropagation(t *testing.T) {
	h := memHost(map[string]string{
		"/w/Cargo.toml":   "[workspace]\nmembers = [\"a\", \"b\", \"c\", \"d\"]\nresolver = \"2\"\n",
		"/w/a/Cargo.toml": pkg("a", "[features]\ncuda = [\"b/cuda\"]\n[dependencies]\nb = { path = \"../b\" }\nc = { path = \"../c\" }\nd = { path = \"../d\", optional = true }\n[dev-dependencies]\nd = { path = \"../d\" }\n"),
		"/w/b/Cargo.toml": pkg("b", "[features]\ncuda = []\n"),
		"/w/c/Cargo.toml": pkg("c", "[features]\ncuda = []\n"), "/w/c/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn fast() {}\n",
		"/w/d/Cargo.toml": pkg("d", "[features]\ncuda = []\n"), "/w/d/src/lib.rs": "",
	})
	p, err := Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Propagation(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list {
		got = append(got, f.Severity+" "+f.Fix)
	}
	want := "warning cuda = [\"b/cuda\", \"c/cuda\"]\nnote cuda = [\"b/cuda\", \"d?/cuda\"]"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// FuzzPlan: whatever two manifests say, in circles too, the plan ends, and its graph is one that can be judged.
func FuzzPlan(f *testing.F) {
	f.Add("[features]\ncuda = [\"fast\", \"b/cuda\"]\nfast = [\"cuda\", \"b?/fast\"]\n[dependencies]\nb = { path = \"b\", optional = true }\n", "[features]\ncuda = []\n[dependencies]\na = { path = \"..\" }\n")
	f.Add("[features]\ncuda = [\"candle-core/cuda\"]\n[target.'cfg(windows)'.dependencies]\ncandle-core = \"1\"\n", "[lib]\nproc-macro = true\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		h := memHost(map[string]string{"/w/Cargo.toml": pkg("a", a), "/w/b/Cargo.toml": pkg("b", b)})
		p, err := Load(h, "/w/Cargo.toml")
		if err != nil || p.Selected == nil {
			return
		}
		r := Request{Features: []string{"cuda"}}
		plan := p.PlanBuild(p.Selected, r)
		if len(plan.Open) > 0 {
			return
		}
		if _, err := Judge(h, Input{Project: p, Request: r, Graph: plan.Graph}); err != nil {
			t.Fatal(err)
		}
	})
}
