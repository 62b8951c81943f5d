package features

import (
	"fmt"
	"os/exec"
	"slices"
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
		if s.test {
			continue
		}
		t.Run(s.dir+" "+s.story, func(t *testing.T) {
			p, err := Load(h, "/w/"+s.dir+"/Cargo.toml")
			if err != nil {
				t.Fatal(err)
			}
			list, known := p.Selection(s.request)
			if !known {
				t.Fatal("the selection is not known")
			}
			plan := p.PlanSelection(list, s.request)
			if len(plan.Open) > 0 {
				t.Fatalf("not decided: %q", plan.Open)
			}
			decided++
			check(t, h, p, plan.Graph, nil, s.request, s.reach, s.findings, s.stops, s.strict)
		})
	}
	if decided < len(shapes)-1 {
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
		{story: "a patch that the lock file has not", files: map[string]string{"/w/Cargo.toml": app(registry + "[patch.crates-io]\ncandle-core = { path = \"core\" }\n"), "/w/Cargo.lock": lock}, want: "[patch] `candle-core` is not as Cargo.lock has it"},
		{story: "a patch that the lock file has", files: map[string]string{"/w/Cargo.toml": app(registry + "[patch.crates-io]\ncandle-core = { path = \"core\" }\n"), "/w/Cargo.lock": strings.Replace(lock, "source = \"registry+https://r.example/i\"\n", "", 1)}},
		{story: "a patch of another version", files: map[string]string{"/w/Cargo.toml": app(registry + "[patch.crates-io]\ncandle-core = { path = \"core\" }\n"), "/w/Cargo.lock": strings.Replace(strings.Replace(lock, "source = \"registry+https://r.example/i\"\n", "", 1), "0.11.1", "0.11.0", 1)}, want: "[patch]"},
		{story: "a patch that nothing uses", files: map[string]string{"/w/Cargo.toml": app(registry + "[patch.crates-io]\nother = { path = \"other\" }\n"), "/w/other/Cargo.toml": pkg("other", ""),
			"/w/Cargo.lock": lock + "[[patch.unused]]\nname = \"other\"\nversion = \"0.1.0\"\n", "/home/u/.cargo/registry/src/i/candle-core-0.11.1/Cargo.toml": core["/w/core/Cargo.toml"]}},
		{story: "a patch by git", files: map[string]string{"/w/Cargo.toml": app(registry + "[patch.crates-io]\ncandle-core = { git = \"https://g.example/candle\" }\n"),
			"/w/Cargo.lock": strings.Replace(lock, "registry+https://r.example/i", "git+https://g.example/candle#0123456789abcdef", 1), "/home/u/.cargo/git/checkouts/candle-aaaa/0123456/core/Cargo.toml": core["/w/core/Cargo.toml"]}},
		{story: "[replace]", files: map[string]string{"/w/Cargo.toml": app(path + "[replace]\n\"candle-core:0.11.1\" = { path = \"core\" }\n")}, want: "[replace]"},
		{story: "build.target", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[build]\ntarget = \"x86_64-pc-windows-msvc\"\n"}},
		{story: "build.target of which nothing is known", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[build]\ntarget = \"my.json\"\n"}, want: "build.target"},
		{story: "several targets by configuration", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[build]\ntarget = [\"a\"]\n"}, want: "build.target"},
		{story: "another compiler by configuration", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[build]\nrustc = \"x\"\n"}, want: "build.rustc"},
		{story: "which versions are chosen", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[resolver]\nincompatible-rust-versions = \"allow\"\n"}},
		{story: "feature unification by configuration", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[resolver]\nfeature-unification = \"workspace\"\n"}, want: "resolver.feature-unification"},
		{story: "a mirror of the registry", files: map[string]string{"/w/Cargo.toml": app(path), "/w/.cargo/config.toml": "[source.crates-io]\nreplace-with = \"m\"\n"}},
		{story: "a known target", files: map[string]string{"/w/Cargo.toml": app("[target.'cfg(windows)'.dependencies]\ncandle-core = { path = \"core\" }\n")}, r: Request{Targets: []string{"x86_64-pc-windows-msvc"}}},
		{story: "two targets", files: map[string]string{"/w/Cargo.toml": app(path)}, r: Request{Targets: []string{"x86_64-pc-windows-msvc", "x86_64-unknown-linux-gnu"}}, want: "several targets"},
		{story: "an architecture's table, and which rustc is called is known", files: map[string]string{"/w/Cargo.toml": app("[target.'cfg(target_arch = \"x86_64\")'.dependencies]\ncandle-core = { path = \"core\" }\n"), "/home/u/.rustup/toolchains/1.80-x86_64-unknown-linux-gnu/bin/rustc": ""}},
		{story: "paths", files: map[string]string{"/w/Cargo.toml": app(path), "/.cargo/config.toml": "paths = [\"x\"]\n"}, want: "`paths`"},
		{story: "a configuration that cannot be read", files: map[string]string{"/w/Cargo.toml": app(path), "/home/u/.cargo/config.toml": "[\n"}, want: "cannot be read"},
		{story: "CARGO_BUILD_TARGET", files: map[string]string{"/w/Cargo.toml": app(path)}, env: []string{"CARGO_BUILD_TARGET=x"}, want: "CARGO_BUILD_TARGET"},
		{story: "another target", files: map[string]string{"/w/Cargo.toml": app(path)}, r: Request{Targets: []string{"x"}}, want: "another target"},
		{story: "tests", files: map[string]string{"/w/Cargo.toml": app(path)}, r: Request{Dev: true}, want: "tests"},
		{story: "an architecture's table", files: map[string]string{"/w/Cargo.toml": app("[target.'cfg(target_arch = \"x86_64\")'.dependencies]\ncandle-core = { path = \"core\" }\n")}, want: "target_arch"},
		{story: "an architecture's table that leads nowhere", files: map[string]string{"/w/Cargo.toml": app(path + "[target.'cfg(target_arch = \"x86_64\")'.dependencies]\nhelp = { path = \"core/help\" }\n"), "/w/core/help/Cargo.toml": pkg("help", "")}},
		{story: "a lock file from the future", files: map[string]string{"/w/Cargo.toml": app(path), "/w/Cargo.lock": "# x\nversion = 99\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n"}, want: "version 99"},
		{story: "a lock file of today", files: map[string]string{"/w/Cargo.toml": app(path), "/w/Cargo.lock": "version = 4\n"}},
		{story: "no lock file", files: map[string]string{"/w/Cargo.toml": app(registry)}, want: "no Cargo.lock"},
		{story: "the crate's manifest is not here", files: map[string]string{"/w/Cargo.toml": app(registry), "/w/Cargo.lock": lock}, want: "not on this machine"},
		{story: "the crate's manifest is here", files: map[string]string{"/w/Cargo.toml": app(registry), "/w/Cargo.lock": lock, "/home/u/.cargo/registry/src/i/candle-core-0.11.1/Cargo.toml": core["/w/core/Cargo.toml"]}},
		{story: "the lock file is older than the manifest", files: map[string]string{"/w/Cargo.toml": app(registry + "candle-nn = \"0.11\"\n"), "/w/Cargo.lock": lock, "/home/u/.cargo/registry/src/i/candle-core-0.11.1/Cargo.toml": core["/w/core/Cargo.toml"]}, want: "Cargo.lock does not say"},
		{story: "a git source that is not checked out", files: map[string]string{"/w/Cargo.toml": app("[dependencies]\ncandle-core = { git = \"https://g.example/c\" }\n"), "/w/Cargo.lock": strings.Replace(lock, "registry+https://r.example/i", "git+https://g.example/c#0123456789abcdef", 1)}, want: "not on this machine"},
		{story: "a git source in a workspace of its own", files: map[string]string{"/w/Cargo.toml": app("[dependencies]\ncandle-core = { git = \"https://g.example/c.git\", branch = \"x\" }\n"), "/w/Cargo.lock": strings.Replace(lock, "registry+https://r.example/i", "git+https://g.example/c.git?branch=x#0123456789abcdef", 1),
			"/home/u/.cargo/git/checkouts/c-11/89abcde/crates/core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"9.9.9\"\n",
			"/home/u/.cargo/git/checkouts/c-11/0123456/crates/core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion.workspace = true\n[features]\ncuda = []\n", "/home/u/.cargo/git/checkouts/c-11/0123456/Cargo.toml": "[workspace]\nmembers = [\"crates/*\"]\n[workspace.package]\nversion = \"0.11.1\"\n"}},
		{story: "an inherited edition that decides the resolver", files: map[string]string{"/w/Cargo.toml": "[package]\nname = \"app\"\nedition.workspace = true\n[workspace]\nexclude = [\"core\"]\n[workspace.package]\nedition = \"2021\"\n[features]\ncuda = [\"candle-core/cuda\"]\n" + path}},
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
			if tt.story == "an inherited edition that decides the resolver" && p.Resolver != "2" {
				t.Errorf("resolver %s", p.Resolver)
			}
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

// TestPlatformsAgainstRustc holds what is known of target triples against the compiler.
func TestPlatformsAgainstRustc(t *testing.T) {
	rustc, err := exec.LookPath("rustc")
	if err != nil {
		t.Skip("no rustc on PATH")
	}
	known := 0
	for _, cpu := range []string{"x86_64", "aarch64", "i686", "armv7", "riscv64gc", "powerpc64le"} {
		for _, rest := range []string{"unknown-linux-gnu", "unknown-linux-musl", "pc-windows-msvc", "pc-windows-gnu", "apple-darwin", "unknown-linux-gnueabihf"} {
			triple := cpu + "-" + rest
			out, err := exec.Command(rustc, "--print", "cfg", "--target", triple).Output()
			if err != nil {
				continue // there is no such target
			}
			p, ok := platformOf(triple)
			if !ok {
				t.Errorf("%s is not known", triple)
				continue
			}
			known++
			for _, line := range strings.Fields(string(out)) {
				if p.applies("cfg("+line+")") == no {
					t.Errorf("%s: %s is said not to hold", triple, line)
				}
				if key, _, named := strings.Cut(line, "="); named && p.applies("cfg("+key+"=\"nonsense\")") == yes {
					t.Errorf("%s: %s holds for everything", triple, key)
				}
			}
			for _, other := range []string{"windows", "unix", "target_os = \"linux\"", "target_os = \"macos\"", "target_env = \"gnu\"", "target_env = \"msvc\"", "target_env = \"musl\"", "target_pointer_width = \"32\"", "target_vendor = \"apple\"", "target_arch = \"x86\""} {
				holds := strings.Contains("\n"+string(out), "\n"+strings.ReplaceAll(other, " ", "")+"\n")
				if got := p.applies("cfg(" + other + ")"); got != truthOf(holds) {
					t.Errorf("%s: cfg(%s) is %v, rustc says %v", triple, other, got, holds)
				}
			}
			if p.applies(triple) != yes || p.applies("wasm32-unknown-unknown") != no {
				t.Errorf("%s: triples as tables", triple)
			}
		}
	}
	if known < 12 {
		t.Errorf("only %d targets were compared", known)
	}
	// the triple found from files is that of the compiler
	out, err := exec.Command(rustc, "-vV").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := hostTriple(realHost(t)); got != "" && !strings.Contains(string(out), "host: "+got+"\n") {
		t.Errorf("rustc says\n%sthe files say %s", out, got)
	}
}

func TestHostTriple(t *testing.T) {
	tests := []struct {
		story string
		files []string
		env   []string
		want  string
	}{
		{story: "nothing is known"},
		{story: "one kind of toolchain", files: []string{"/home/u/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/x", "/home/u/.rustup/toolchains/1.80.0-x86_64-unknown-linux-gnu/x"}, want: "x86_64-unknown-linux-gnu"},
		{story: "two kinds", files: []string{"/home/u/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/x", "/home/u/.rustup/toolchains/stable-i686-unknown-linux-gnu/x"}},
		{story: "one of the user's own", files: []string{"/home/u/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/x", "/home/u/.rustup/toolchains/mine/x"}},
		{story: "a distribution's", files: []string{"/usr/bin/rustc", "/usr/lib/rustlib/aarch64-unknown-linux-gnu/lib/x", "/usr/lib/rustlib/etc/x"}, env: []string{"PATH=/usr/bin"}, want: "aarch64-unknown-linux-gnu"},
		{story: "a distribution's with a second target", files: []string{"/usr/bin/rustc", "/usr/lib/rustlib/aarch64-unknown-linux-gnu/lib/x", "/usr/lib/rustlib/x86_64-pc-windows-gnu/x"}, env: []string{"PATH=/usr/bin"}},
		{story: "another compiler", files: []string{"/home/u/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/x"}, env: []string{"RUSTC=/opt/rustc"}},
		{story: "a distribution's in front of rustup's", files: []string{"/usr/bin/rustc", "/usr/lib/rustlib/aarch64-unknown-linux-gnu/lib/x", "/home/u/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/x"}, env: []string{"PATH=/usr/bin"}, want: "aarch64-unknown-linux-gnu"},
	}
	for _, tt := range tests {
		files := map[string]string{}
		for _, f := range tt.files {
			files[f] = "x"
		}
		h := memHost(files)
		for p := range files {
			if strings.HasSuffix(p, "/rustc") {
				h.Files.(memFiles).m[rel(p)].Mode = 0o755
			}
		}
		for _, e := range tt.env {
			name, value, _ := strings.Cut(e, "=")
			h.Env = h.Env.Set(name, value)
		}
		if got := hostTriple(h); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.want)
		}
	}
}

// TestOneFindingALine: what is said of one line of a manifest is said once, with every edge that it lacks.
func TestOneFindingALine(t *testing.T) {
	h := memHost(map[string]string{
		"/w/Cargo.toml": pkg("a", "[features]\ncuda = []\ncudnn = [\"core/cudnn\"]\n[dependencies]\ncore = { path = \"core\" }\nnn = { path = \"nn\" }\n"),
	})
	p, err := Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/w/Cargo.toml"
	judged := func(id, severity, message, feature string, add ...string) Finding {
		return Finding{ID: id, Severity: severity, Message: message, Path: path, Line: p.Selected.FeatureLine(feature), Fix: "x", Edits: []Edit{{path, feature, add}}}
	}
	named := func(severity, feature, to string) Finding {
		f := Finding{ID: IDPropagation, Severity: severity, Path: path, Root: "a", Line: p.Selected.FeatureLine(feature), line: lineAt{feature, []string{to + "/" + feature}, []string{to}}}
		f.Message = propagationMessage([]Finding{f})
		return f
	}
	beside := func(message string) Finding {
		return Finding{ID: IDUnreached, Severity: Error, Message: message, Path: path, Line: 6, line: lineAt{feature: "cuda", edges: []string{"core/cuda"}}, beside: true}
	}
	other := Finding{ID: IDNoVersion, Severity: Error, Message: "no edge", Path: path}
	tests := []struct {
		story string
		list  []Finding
		want  []string
	}{
		{"names alone", []Finding{named(Note, "cuda", "nn"), named(Warning, "cuda", "core")}, []string{"warning 6 `cuda` of a is not passed on to nn, core, which have it, too: cuda = [\"nn/cuda\", \"core/cuda\"]"}},
		{"two lines", []Finding{named(Warning, "cuda", "nn"), named(Warning, "cudnn", "nn")}, []string{"warning 6 `cuda` of a is not passed on to nn, which has it, too: cuda = [\"nn/cuda\"]", "warning 7 `cudnn` of a is not passed on to nn, which has it, too: cudnn = [\"core/cudnn\", \"nn/cudnn\"]"}},
		{"judged goes before names", []Finding{judged(IDUnreached, Error, "it ends", "cuda", "core/cuda", "nn/cuda"), named(Warning, "cuda", "core"), named(Warning, "cuda", "nn")}, []string{"error 6 it ends: cuda = [\"core/cuda\", \"nn/cuda\"]"}},
		{"a name that was not judged adds its edge", []Finding{judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), named(Warning, "cuda", "nn")}, []string{"error 6 it ends: cuda = [\"core/cuda\", \"nn/cuda\"]"}},
		{"one that only forwards does not", []Finding{judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), named(Note, "cuda", "nn")}, []string{"error 6 it ends: cuda = [\"core/cuda\"]"}},
		{"two faults of a line, the worse one first", []Finding{judged(IDSibling, Warning, "nn is off", "cudnn", "cuda"), judged(IDCudnnAlone, Error, "own code is off", "cudnn", "cuda")}, []string{"error 7 own code is off; nn is off: cudnn = [\"core/cudnn\", \"cuda\"]"}},
		{"a part of others' mends is said where nothing is said of the package itself", []Finding{beside("on the way from b"), judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), beside("on the way from c")},
			[]string{"error 6 it ends: cuda = [\"core/cuda\"]"}},
		{"parts of others' mends alone", []Finding{beside("on the way from b"), beside("on the way from c")}, []string{"error 6 on the way from b; on the way from c: cuda = [\"core/cuda\"]"}},
		{"what no edge mends stays", []Finding{other, judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), other}, []string{"error 0 no edge: ", "error 6 it ends: cuda = [\"core/cuda\"]", "error 0 no edge: "}},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			var got []string
			for _, f := range p.PerLine(tt.list) {
				got = append(got, fmt.Sprintf("%s %d %s: %s", f.Severity, f.Line, f.Message, f.Fix))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestSameHint: faults of one line say the same hint, with every edge that it lacks; those of other lines, notes and what no edge mends keep theirs.
func TestSameHint(t *testing.T) {
	h := memHost(map[string]string{
		"/w/Cargo.toml": pkg("a", "[features]\ncuda = []\ncudnn = [\"core/cudnn\"]\n[dependencies]\ncore = { path = \"core\" }\nnn = { path = \"nn\" }\n"),
	})
	const path = "/w/Cargo.toml"
	p, err := Load(h, path)
	if err != nil {
		t.Fatal(err)
	}
	finding := func(severity, feature string, add ...string) Finding {
		return Finding{ID: IDSibling, Severity: severity, Path: path, Fix: "its own", Edits: []Edit{{path, feature, add}}}
	}
	list := []Finding{
		finding(Error, "cudnn", "cuda"), finding(Warning, "cudnn", "nn/cuda"), finding(Error, "cuda", "core/cuda"), finding(Note, "cudnn", "other/cuda"),
		{ID: IDNoVersion, Severity: Error, Path: path, Fix: "another crate"},
	}
	p.SameHint(list)
	var got []string
	for _, f := range list {
		got = append(got, f.Fix)
	}
	both := `cudnn = ["core/cudnn", "cuda", "nn/cuda"]`
	if want := []string{both, both, "its own", "its own", "another crate"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Two faults with the same mend keep it as it is.
	list = []Finding{finding(Error, "cudnn", "cuda"), finding(Warning, "cudnn", "cuda")}
	if p.SameHint(list); list[0].Fix != "its own" {
		t.Errorf("%q", list[0].Fix)
	}
}
