package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestSelection: which packages -p, --workspace and --exclude mean, as cargo's package id specifications say.
func TestSelection(t *testing.T) {
	t.Parallel()
	p := hosttest.Must(Load(hosttest.Memory(map[string]string{
		"/w/Cargo.toml":   pkg("app", "[workspace]\nmembers = [\"a\", \"b\"]\n[dependencies]\nout = { path = \"../out\" }\n"),
		"/w/a/Cargo.toml": pkg("a-one", ""), "/w/b/Cargo.toml": pkg("b-two", ""), "/out/Cargo.toml": pkg("out", ""),
	}), "/w/Cargo.toml"))(t)
	for _, tt := range []struct {
		r     Request
		want  string
		known bool
	}{
		{Request{}, "app", true}, {Request{Workspace: true}, "a-one app b-two", true}, {Request{Workspace: true, Excludes: []string{"b-two"}}, "a-one app", true},
		{Request{Packages: []string{"a-one"}}, "a-one", true}, {Request{Packages: []string{"a-one", "app"}}, "a-one app", true}, {Request{Packages: []string{"?-*"}}, "a-one b-two", true},
		{Request{Packages: []string{"[!a]-two"}}, "b-two", true}, {Request{Packages: []string{"a-one@0.1.0"}}, "a-one", true}, {Request{Packages: []string{"a-one:0.1.0"}}, "a-one", true},
		{Request{Packages: []string{"path+file:///w/a#a-one@0.1.0"}}, "a-one", true}, {Request{Packages: []string{"out"}}, "out", true}, {Request{Packages: []string{"none"}}, "", false},
		{Request{Packages: []string{"none", "app"}}, "app", false}, {Request{Packages: []string{"app", "none"}}, "app", false}, {Request{Packages: []string{"["}}, "", false},
		{Request{Excludes: []string{"app"}}, "", true},
	} {
		if got, known := p.Selection(tt.r); names(got) != tt.want || known != tt.known {
			t.Errorf("%+v: %s %v", tt.r, names(got), known)
		}
	}
}

// TestAsked: what a command line's features ask of a package.
func TestAsked(t *testing.T) {
	t.Parallel()
	p := &Package{Name: "app", Features: map[string][]string{"b": nil, "a": nil}}
	for _, tt := range []struct {
		r    Request
		want string
		gpu  bool
	}{
		{Request{}, "default", false}, {Request{NoDefault: true}, "", false}, {Request{Features: []string{"x,y z\tw", "v"}}, "default x y z w v", false},
		{Request{AllFeatures: true}, "default a b", false}, {Request{AllFeatures: true, NoDefault: true}, "a b", false},
		{Request{Features: []string{"app/x", "other/y"}}, "default x", false}, {Request{Features: []string{"cuda"}}, "default cuda", true},
		{Request{Features: []string{"other?/cuda"}}, "default", true}, {Request{Features: []string{"glam/cuda"}}, "default", false}, {Request{Features: []string{"candle-core/cuda"}}, "default", true},
		{Request{Features: []string{"other/serde"}}, "default", false}, {Request{Features: []string{"fast"}, GPUFeatures: []string{"fast"}}, "default fast", true},
	} {
		a := ParseRequest(tt.r)
		if got := strings.Join(a.Of(p), " "); got != tt.want || a.RequestsGPU() != tt.gpu {
			t.Errorf("%+v: %q, a GPU %v", tt.r, got, a.RequestsGPU())
		}
	}
}

// TestMeaningOfNames: the backend that a feature's name means, and whether it may mean anything else.
func TestMeaningOfNames(t *testing.T) {
	t.Parallel()
	a := &Asked{Request: Request{GPUFeatures: []string{"fast", "my-vulkan"}}}
	known := func(word string) bool {
		return word == "whisper" || word == "foo_bar" || word == "llama-rs" || word == "abc"
	}
	for _, tt := range []struct {
		name, want string // "?" behind what may mean anything; "" none
		alone      bool   // IsBackend
		gpu, cuda  bool   // IsGPU, IsCUDA
	}{
		{"cuda", "cuda", true, true, true}, {"CUDA", "cuda", true, true, true}, {"cudnn", "cuda", true, true, true}, {"cuda12", "cuda", true, true, true}, {"cuda-12.4", "cuda", true, true, true},
		{"cuda-12080", "cuda", true, false, false}, {"with_cuda", "cuda", true, true, true}, {"nvidia-cuda-backend", "cuda", true, true, true}, {"rocm", "rocm", true, true, false}, {"hip", "rocm", true, true, false},
		{"wgpu", "vulkan", true, true, false}, {"vulkan", "vulkan", true, true, false}, {"metal", "metal", true, false, false}, {"gpu", "gpu", true, false, false}, {"gpu-cuda", "cuda", true, true, true},
		{"cuda-gpu", "cuda", true, true, true}, {"rocm-cuda", "cuda", true, true, true}, {"gpu-metal", "metal", true, false, false}, {"gpu-stats", "gpu?", false, false, false}, {"cuda-tests", "cuda?", false, true, false},
		{"barracuda", "cuda?", false, true, false}, {"_cuda", "cuda?", false, true, false}, {"whisper-cuda", "cuda", false, true, false}, {"foo-bar-cuda", "cuda", false, true, false}, {"llama-cuda", "cuda", false, true, false},
		{"abc-cuda", "cuda", false, true, false}, {"cuda_v12", "cuda", true, true, true}, {"other-cuda", "cuda?", false, true, false}, {"fast", "cuda", true, true, true}, {"my-vulkan", "vulkan", true, true, true}, {"serde", "", false, false, false}, {"", "", false, false, false},
		{"rocm-tests", "rocm?", false, false, false},
	} {
		b, loose := a.BackendOf(tt.name, known)
		if loose && b != "" {
			b += "?"
		}
		if b != tt.want || a.IsBackend(tt.name) != tt.alone || a.IsGPU(tt.name) != tt.gpu || a.IsCUDA(tt.name) != tt.cuda {
			t.Errorf("%q: %q alone %v gpu %v cuda %v", tt.name, b, a.IsBackend(tt.name), a.IsGPU(tt.name), a.IsCUDA(tt.name))
		}
	}
}

// TestQuestionsOfMembers: the features of members that mean a GPU; a package's name in one is a package of the build.
func TestQuestionsOfMembers(t *testing.T) {
	t.Parallel()
	p, err := Load(hosttest.Memory(map[string]string{
		"/w/Cargo.toml":        pkg("app", "[workspace]\nmembers = [\"engine\"]\n[features]\ncuda = []\ncuda-12080 = []\ncuda-f16 = []\nrocm-6 = []\n_cuda = []\nserde = []\nengine-cuda = []\nwhisper-cuda = []\nlocked-cuda = []\nnone-cuda = []\nfast = []\n[dependencies]\nwhisper = \"1\"\n"),
		"/w/Cargo.lock":        "version = 4\n[[package]]\nname = \"locked\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n",
		"/w/engine/Cargo.toml": pkg("engine", "[features]\nmetal = []\n"),
	}), "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, q := range p.Questions([]string{"fast"}) {
		got = append(got, q.Package.Name+"/"+q.Feature)
	}
	hosttest.Equal(t, strings.Join(got, " "), "app/cuda app/engine-cuda app/fast app/locked-cuda app/rocm-6 app/whisper-cuda engine/metal")
}

// TestLockedPackages: where the manifests of Cargo.lock's packages are, and that one that is missing makes all unknown.
func TestLockedPackages(t *testing.T) {
	t.Parallel()
	const registry, home = "/home/u/.cargo/registry/src/index-1/", "/home/u/.cargo/git/checkouts/"
	const git = "git+https://host.example/x#0123456789abcdef0123456789abcdef01234567"
	one := func(name, version, source string) string {
		return "[[package]]\nname = \"" + name + "\"\nversion = \"" + version + "\"\nsource = \"" + source + "\"\n"
	}
	at := func(version string) string { return "[package]\nname = \"x\"\nversion = \"" + version + "\"\n" }
	for _, tt := range []struct {
		story string
		lock  string
		files map[string]string
		want  string // versions
	}{
		{"a registry's", one("x", "1.0.0", "registry+i"), map[string]string{registry + "x-1.0.0/Cargo.toml": at("1.0.0")}, "1.0.0"},
		{"two versions", one("x", "1.0.0", "registry+i") + one("x", "2.0.0", "registry+i"), map[string]string{registry + "x-1.0.0/Cargo.toml": at("1.0.0"), registry + "x-2.0.0/Cargo.toml": at("2.0.0")}, "1.0.0 2.0.0"},
		{"of two versions one is not here", one("x", "1.0.0", "registry+i") + one("x", "2.0.0", "registry+i"), map[string]string{registry + "x-1.0.0/Cargo.toml": at("1.0.0")}, ""},
		{"another name", one("y", "1.0.0", "registry+i"), map[string]string{registry + "y-1.0.0/Cargo.toml": strings.Replace(at("1.0.0"), "x", "y", 1)}, ""},
		{"the user's own has no source", "[[package]]\nname = \"x\"\nversion = \"1.0.0\"\n", map[string]string{registry + "x-1.0.0/Cargo.toml": at("1.0.0")}, ""},
		{"vendored without a version", one("x", "1.0.0", "registry+i"), map[string]string{"/w/vendor/x/Cargo.toml": at("1.0.0")}, "1.0.0"},
		{"vendored in another version", one("x", "1.0.0", "registry+i"), map[string]string{"/w/vendor/x/Cargo.toml": at("1.1.0")}, ""},
		{"a checkout", one("x", "1.0.0", git), map[string]string{home + "x-1/0123456/Cargo.toml": at("1.0.0")}, "1.0.0"},
		{"deep in a checkout", one("x", "1.0.0", git), map[string]string{home + "x-1/0123456/crates/x/Cargo.toml": at("1.0.0")}, "1.0.0"},
		{"a checkout of another commit", one("x", "1.0.0", git), map[string]string{home + "x-1/1123456/Cargo.toml": at("1.0.0")}, ""},
		{"a name too short for a commit", one("x", "1.0.0", git), map[string]string{home + "x-1/012345/Cargo.toml": at("1.0.0")}, ""},
		{"a checkout whose manifest inherits the version", one("x", "1.0.0", git), map[string]string{home + "x-1/0123456/Cargo.toml": "[package]\nname = \"x\"\nversion.workspace = true\n"}, "-"},
	} {
		files := map[string]string{"/w/Cargo.toml": pkg("app", ""), "/w/Cargo.lock": "version = 4\n" + tt.lock}
		for path, text := range tt.files {
			files[path] = text
		}
		p := hosttest.Must(Load(hosttest.Memory(files), "/w/Cargo.toml"))(t)
		var got []string
		for _, m := range p.Locked("x") {
			got = append(got, map[bool]string{true: "-", false: m.Version}[m.Version == ""])
		}
		hosttest.Equal(t, strings.Join(got, " "), tt.want, tt.story)
	}
}

// TestBuildScripts: which file is a package's build script.
func TestBuildScripts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "/w/build.rs", "build = false": "", "build = true": "/w/build.rs", `build = "gen/make.rs"`: "/w/gen/make.rs", `build = "/else/x.rs"`: "/else/x.rs"} {
		h := hosttest.Memory(map[string]string{"/w/Cargo.toml": pkg("a", text+"\n"), "/w/build.rs": ""})
		hosttest.Equal(t, readOne(h, "/w/Cargo.toml").BuildScript, want, text)
	}
	h := hosttest.Memory(map[string]string{"/w/Cargo.toml": pkg("a", "")})
	if got := readOne(h, "/w/Cargo.toml").BuildScript; got != "" || readOne(h, "/none/Cargo.toml") != nil {
		t.Errorf("without build.rs: %s", got)
	}
}

// TestDependencyTables: every table and form of an entry, with the line of each.
func TestDependencyTables(t *testing.T) {
	t.Parallel()
	h := hosttest.Memory(map[string]string{"/w/Cargo.toml": "[package]\nname = \"a\"\n" +
		"[dependencies]\nplain = \"1\"\nb = { package = \"real\", version = \"2\", optional = true, default-features = false, features = [\"x\", \"y\"] }\nold = { version = \"1\", default_features = false }\n" +
		"[build_dependencies]\ngen = { path = \"../gen\" }\n[dev-dependencies]\nt = \"1\"\n[target.'cfg(windows)'.dependencies]\nwin = \"1\"\n[target.'cfg(unix)'.build-dependencies]\nun = \"1\"\n"})
	p := readOne(h, "/w/Cargo.toml")
	var got []string
	for _, d := range p.Dependencies {
		got = append(got, fmt.Sprintf("%s %s=%s %s%s%s%v%v %q %d", d.Kind, d.Key, d.Package, d.Version, d.Path, d.Target, d.Optional, d.DefaultFeatures, d.Features, p.DependencyLine(d)))
	}
	want := []string{`normal b=real 2truefalse ["x" "y"] 5`, `normal old=old 1falsefalse [] 6`, `normal plain=plain 1falsetrue [] 4`, `build gen=gen /genfalsetrue [] 8`,
		`dev t=t 1falsetrue [] 10`, `build un=un 1cfg(unix)falsetrue [] 14`, `normal win=win 1cfg(windows)falsetrue [] 12`}
	hosttest.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	if p.DependencyLine(Dependency{Key: "t", Kind: Normal}) != 0 || !p.Optional("b") || p.Optional("plain") || !p.Implicit("b") {
		t.Error("t is a dev-dependency, b an optional one with a feature of its name")
	}
	for feature, line := range map[string]int{"x": 3} { // no [features]: it goes before the dependencies
		hosttest.Equal(t, p.FeatureLine(feature), line, feature, "line")
	}
	if got := readOne(hosttest.Memory(map[string]string{"/w/Cargo.toml": "[package]\nname = \"a\"\n"}), "/w/Cargo.toml").FeatureLine("x"); got != 1 {
		t.Errorf("without dependencies: line %d", got)
	}
}

// TestWorkspaceRoots: where the look finds the workspace of a package, and which doubts it has.
func TestWorkspaceRoots(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, at string
		files     map[string]string
		root      string
		members   string
		doubt     bool
	}{
		{"a workspace that does not name it, above", "/w/x/Cargo.toml", map[string]string{"/w/Cargo.toml": "[workspace]\n", "/w/x/Cargo.toml": pkg("x", "")}, "/w", "x", false},
		{"no workspace above", "/w/x/Cargo.toml", map[string]string{"/w/Cargo.toml": pkg("up", ""), "/w/x/Cargo.toml": pkg("x", "")}, "/w/x", "x", false},
		{"two directories up", "/w/a/b/Cargo.toml", map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"a/b\"]\n", "/w/a/b/Cargo.toml": pkg("x", "")}, "/w", "x", false},
		{"a workspace that it names is not there", "/m/Cargo.toml", map[string]string{"/m/Cargo.toml": pkg("m", "workspace = \"../w\"\n")}, "/m", "m", false},
		{"excluded, but named", "/w/x/y/Cargo.toml", map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"x/y\"]\nexclude = [\"x\"]\n", "/w/x/y/Cargo.toml": pkg("y", "")}, "/w", "y", false},
		{"a path dependency with a workspace of its own", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": pkg("app", "[workspace]\n[dependencies]\nx = { path = \"x\" }\n"), "/w/x/Cargo.toml": pkg("x", "[workspace]\n")}, "/w", "app", false},
		{"one of a package that is no workspace", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": pkg("app", "[dependencies]\nx = { path = \"x\" }\n"), "/w/x/Cargo.toml": pkg("x", "")}, "/w", "app", false},
		{"one that is excluded", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": pkg("app", "[workspace]\nexclude = [\"x\"]\n[dependencies]\nx = { path = \"x\" }\n"), "/w/x/Cargo.toml": pkg("x", "")}, "/w", "app", false},
		{"a dependency of a dependency", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": pkg("app", "[workspace]\n[dependencies]\nx = { path = \"x\" }\n"), "/w/x/Cargo.toml": pkg("x", "[dev-dependencies]\ny = { path = \"../y\" }\n"), "/w/y/Cargo.toml": pkg("y", "")}, "/w", "app x y", false},
		{"a question mark", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"p?/lib\"]\n", "/w/p1/lib/Cargo.toml": pkg("p1", ""), "/w/p12/lib/Cargo.toml": pkg("p12", ""), "/w/q1/lib/Cargo.toml": pkg("q1", "")}, "/w", "p1", false},
		{"a negated class", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"[!p]*\"]\n", "/w/p/Cargo.toml": pkg("p", ""), "/w/q/Cargo.toml": pkg("q", "")}, "/w", "q", false},
		{"what was built is no member", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"l/**\"]\n", "/w/l/target/package/p/Cargo.toml": pkg("p", ""), "/w/l/q/Cargo.toml": pkg("q", "")}, "/w", "q", false},
		{"Cargo.lock is a directory", "/w/Cargo.toml", map[string]string{"/w/Cargo.toml": pkg("app", ""), "/w/Cargo.lock/x": ""}, "/w", "app", true},
	} {
		p := hosttest.Must(Load(hosttest.Memory(tt.files), tt.at))(t)
		if p.Root != tt.root || names(p.Members) != tt.members || (len(p.Doubts) > 0) != tt.doubt {
			t.Errorf("%s: root %s, members %s, doubts %q", tt.story, p.Root, names(p.Members), p.Doubts)
		}
	}
}

// TestUnboundedPattern: a member pattern that never ends is an error before cargo walks it.
func TestUnboundedPattern(t *testing.T) {
	t.Parallel()
	left := 3
	h := hosttest.Memory(map[string]string{"/w/a/x": "", "/w/b/x": "", "/w/c/x": ""})
	if _, _ = expand(h, "/w", "*", &left); left >= 0 {
		t.Errorf("one directory and its three entries are four, %d left", left)
	}
	left = 4
	if found, _ := expand(h, "/w", "*", &left); left != 0 || len(found) != 3 {
		t.Errorf("%d left, %v", left, found)
	}
}

// TestMetadataAnswers: what of cargo's metadata is taken, and what is not understood.
func TestMetadataAnswers(t *testing.T) {
	t.Parallel()
	if _, err := ParseMetadata([]byte("warning")); err == nil {
		t.Error("no JSON")
	}
	h := hosttest.Memory(map[string]string{"/w/Cargo.toml": pkg("app", "")})
	p := hosttest.Must(Load(h, "/w/Cargo.toml"))(t)
	m, err := ParseMetadata([]byte(`{"packages": [
		{"id": "path+file:///w#app@0.1.0", "name": "app", "manifest_path": "/w/Cargo.toml", "dependencies": [{"name": "two"}, {"name": "two", "kind": "build", "rename": "b"}, {"name": "lib-name"}, {"name": "macro"}], "targets": [{"kind": ["proc-macro"]}]},
		{"id": "r#two@1.0.0", "name": "two", "version": "1.0.0", "manifest_path": "/r/two-1/Cargo.toml"}, {"id": "r#two@2.0.0", "name": "two", "version": "2.0.0", "manifest_path": "/r/two-2/Cargo.toml"},
		{"id": "r#lib-name@1.0.0", "name": "lib-name", "version": "1.0.0", "manifest_path": "/r/l/Cargo.toml", "targets": [{"kind": ["lib"], "src_path": "/r/l/x.rs"}, {"kind": ["custom-build"], "src_path": "/r/l/b.rs"}]}],
		"workspace_members": ["path+file:///w#app@0.1.0"], "resolve": {"nodes": [{"id": "path+file:///w#app@0.1.0", "deps": [
			{"name": "two", "pkg": "r#two@2.0.0", "dep_kinds": [{"kind": "build"}]}, {"name": "two", "pkg": "r#two@1.0.0", "dep_kinds": [{}]}, {"name": "b", "pkg": "r#two@2.0.0", "dep_kinds": [{"kind": "build"}]},
			{"name": "other_name", "pkg": "r#lib-name@1.0.0", "dep_kinds": [{}]}]}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	known := p.With(m)
	app := known.Members[0]
	for i, want := range []string{"1.0.0", "2.0.0", "1.0.0", ""} {
		got := ""
		if to := known.Declaring(app, app.Dependencies[i]); to != nil {
			got = to.Version
		}
		if got != want {
			t.Errorf("%s leads to %q, want %q", app.Dependencies[i].Key, got, want)
		}
	}
	if l := known.Known("r#lib-name@1.0.0"); !app.ProcMacro || l.ProcMacro || l.BuildScript != "/r/l/b.rs" || len(l.Targets) != 1 || len(known.Questions(nil)) != 0 {
		t.Errorf("%+v %+v", app, l)
	}
	var none *Project
	if none.Declaring(app, app.Dependencies[0]) != nil {
		t.Error("without a project")
	}
}

// TestUnreadableIsADoubt: that a manifest is not there is none, that it cannot be read is.
func TestUnreadableIsADoubt(t *testing.T) {
	t.Parallel()
	p, err := Load(hosttest.Memory(map[string]string{"/w/Cargo.toml": pkg("a", "[dependencies]\nb = { path = \"../b\" }\n")}), "/w/Cargo.toml")
	if err != nil || len(p.Doubts) != 0 || p.HasLock {
		t.Errorf("%v %q", err, p.Doubts)
	}
	if _, err := Find(hosttest.Memory(nil), "/w"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestLinksInPatterns: two stars follow no link.
func TestLinksInPatterns(t *testing.T) {
	t.Parallel()
	h, err := hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /w\n-- @links --\n/w/libs/again -> x\n-- /w/Cargo.toml --\n[workspace]\nmembers = [\"libs/**\"]\n-- /w/libs/x/a/Cargo.toml --\n" + pkg("a", "")))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(h, "/w/Cargo.toml")
	if err != nil || names(p.Members) != "a" {
		t.Errorf("%s %v", names(p.Members), err)
	}
}
