package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"sort"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

func names(list []*Package) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Name)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

func TestLoadWorkspaces(t *testing.T) {
	tests := []struct {
		story             string
		files             map[string]string
		manifest          string // default /w/Cargo.toml
		root              string // default /w
		members, defaults string
		locals            string
		doubts            int
	}{
		{story: "a single package", files: map[string]string{"/w/Cargo.toml": pkg("a", "")}, members: "a", defaults: "a"},
		{
			story: "a virtual workspace builds all",
			files: map[string]string{
				"/w/Cargo.toml":   "[workspace]\nmembers = [\"a\", \"b\"]\n",
				"/w/a/Cargo.toml": pkg("a", ""),
				"/w/b/Cargo.toml": pkg("b", ""),
			},
			members:  "a b",
			defaults: "a b",
		},
		{story: "globs, with directories that are no packages and one excluded", files: map[string]string{
			"/w/Cargo.toml": "[workspace]\nmembers = [\"crates/*\", \"tools/[ab]*\"]\nexclude = [\"crates/old\"]\nresolver = \"2\"\n", "/w/crates/a/Cargo.toml": pkg("a", ""), "/w/crates/docs/x.md": "", "/w/crates/old/Cargo.toml": pkg("old", ""),
			"/w/tools/bb/Cargo.toml": pkg(
				"bb",
				"",
			), "/w/tools/cc/Cargo.toml": pkg("cc", "")}, members: "a bb", defaults: "a bb"},
		{
			story: "two stars",
			files: map[string]string{
				"/w/Cargo.toml":            "[workspace]\nmembers = [\"libs/**\"]\n",
				"/w/libs/x/a/Cargo.toml":   pkg("a", ""),
				"/w/libs/x/y/b/Cargo.toml": pkg("b", ""),
			},
			members:  "a b",
			defaults: "a b",
		},
		{
			story:  "a glob that matches nothing",
			files:  map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"crates/*\"]\n"},
			doubts: 1,
		},
		{
			story: "default-members",
			files: map[string]string{
				"/w/Cargo.toml":   "[workspace]\nmembers = [\"a\", \"b\"]\ndefault-members = [\"b\"]\n",
				"/w/a/Cargo.toml": pkg("a", ""),
				"/w/b/Cargo.toml": pkg("b", ""),
			},
			members:  "a b",
			defaults: "b",
		},
		{
			story: "a root package with path dependencies inside and outside",
			files: map[string]string{
				"/w/Cargo.toml":    pkg("app", "[workspace]\n[dependencies]\nin = { path = \"in\" }\nout = { path = \"../out\" }\n"),
				"/w/in/Cargo.toml": pkg("in", ""),
				"/out/Cargo.toml":  pkg("out", ""),
			},
			members:  "app in",
			defaults: "app",
			locals:   "out",
		},
		{
			story:    "a member asked for",
			manifest: "/w/a/Cargo.toml",
			files: map[string]string{
				"/w/Cargo.toml":   "[workspace]\nmembers = [\"a\", \"b\"]\n",
				"/w/a/Cargo.toml": pkg("a", ""),
				"/w/b/Cargo.toml": pkg("b", ""),
			},
			members:  "a b",
			defaults: "a",
		},
		{
			story:    "package.workspace points aside",
			manifest: "/m/Cargo.toml",
			files: map[string]string{
				"/w/Cargo.toml": "[workspace]\nmembers = [\"../m\"]\nresolver = \"2\"\n",
				"/m/Cargo.toml": pkg("m", "workspace = \"../w\"\n"),
			},
			members:  "m",
			defaults: "m",
		},
		{
			story:    "an excluded package is its own workspace",
			manifest: "/w/old/Cargo.toml",
			root:     "/w/old",
			files: map[string]string{
				"/w/Cargo.toml":     "[workspace]\nmembers = []\nexclude = [\"old\"]\n",
				"/w/old/Cargo.toml": pkg("old", ""),
			},
			members:  "old",
			defaults: "old",
		},
		{
			story:    "a path dependency that is not there",
			files:    map[string]string{"/w/Cargo.toml": pkg("a", "[dependencies]\nb = { path = \"b\" }\n")},
			members:  "a",
			defaults: "a",
			doubts:   1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			if tt.manifest == "" {
				tt.manifest = "/w/Cargo.toml"
			}
			if tt.root == "" {
				tt.root = "/w"
			}
			p, err := Load(hosttest.Memory(tt.files), tt.manifest)
			if err != nil {
				t.Fatal(err)
			}
			if p.Root != tt.root || names(p.Members) != tt.members || names(p.Default) != tt.defaults || names(p.Locals) != tt.locals ||
				len(p.Doubts) != tt.doubts {
				t.Errorf(
					"root %s, members %s, default %s, locals %s, doubts %q",
					p.Root,
					names(p.Members),
					names(p.Default),
					names(p.Locals),
					p.Doubts,
				)
			}
		})
	}
}

func TestInheritance(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": strings.Join(
			[]string{"[workspace]", `members = ["a"]`, "[workspace.package]", `version = "3.1.0"`, "[workspace.dependencies]",
				`core = { package = "candle-core", version = "0.11", default-features = false, features = ["mkl"] }`, `local = { path = "local" }`, `nn = "0.11"`},
			"\n",
		),
		"/w/a/Cargo.toml": strings.Join([]string{"[package]", `name = "a"`, "version.workspace = true", "[dependencies]",
			`core = { workspace = true, optional = true, features = ["cuda"] }`, "local.workspace = true", "[dev-dependencies]", `core = { workspace = true, default-features = true }`,
			"[build-dependencies]", `nn = { workspace = true, default-features = false }`}, "\n"),
		"/w/local/Cargo.toml": pkg("local", ""),
	})
	p, err := Load(h, "/w/a/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range p.Selected.Dependencies {
		got = append(
			got,
			fmt.Sprintf(
				"%s %s=%s optional=%v default=%v %v %s line %d",
				d.Kind,
				d.Key,
				d.Package,
				d.Optional,
				d.DefaultFeatures,
				d.Features,
				d.Path,
				p.Selected.DependencyLine(d),
			),
		)
	}
	want := []string{
		"normal core=candle-core optional=true default=false [mkl cuda]  line 5",
		"normal local=local optional=false default=true [] /w/local line 6",
		"build nn=nn optional=false default=true []  line 10",
		"dev core=candle-core optional=false default=true [mkl]  line 8",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p.Selected.Version != "3.1.0" {
		t.Errorf("version %s", p.Selected.Version)
	}
}

func TestImplicitFeatures(t *testing.T) {
	h := hosttest.Memory(
		map[string]string{
			"/w/Cargo.toml": pkg("a", strings.Join([]string{"[features]", `cuda = ["dep:cudarc", "nn?/cuda"]`, "[dependencies]",
				`cudarc = { version = "1", optional = true }`, `nn = { version = "1", optional = true }`, `serde = "1"`}, "\n")),
		},
	)
	p, err := Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Selected.FeatureNames(), " "); got != "cuda nn" {
		t.Errorf("features %s: cudarc has none of its own because of dep:cudarc", got)
	}
}

func TestBrokenManifests(t *testing.T) {
	tests := []struct{ story, text, want string }{
		{"a list that is not closed", "[package]\nname = \"a\"\n[features]\ncuda = [\"x\"\nother = 1\n", "/w/Cargo.toml:5:1: "},
		{"a bare word", "[package]\nname = \"a\"\n\n[features]\ncuda = yes\n", "/w/Cargo.toml:5:8: "},
		{"twice the same key", "[features]\ncuda = []\ncuda = []\n", "/w/Cargo.toml:3:"},
		{
			"a feature that is no list",
			"[package]\nname = \"a\"\n[features]\ncuda = \"x\"\n",
			"/w/Cargo.toml:4:1: feature `cuda` is not a list of strings",
		},
		{"no name", "[package]\nversion = \"1.0.0\"\n", "/w/Cargo.toml:1:1: [package] has no name"},
		{"bytes that are no text", "[package]\nname = \"a\xff\"\n", "/w/Cargo.toml:2:"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			_, err := Load(hosttest.Memory(map[string]string{"/w/Cargo.toml": tt.text}), "/w/Cargo.toml")
			var me *Error
			if !errors.As(err, &me) {
				t.Fatalf("%v", err)
			}
			if !strings.HasPrefix(err.Error(), tt.want) || me.Hint() == "" {
				t.Errorf("got %s, want %s…", err, tt.want)
			}
			if me.Text != "" {
				lines := strings.Split(err.Error(), "\n")
				if caret := strings.Index(lines[len(lines)-1], "^"); caret < 0 ||
					caret-strings.Index(lines[len(lines)-1], "|") != me.Column+1 {
					t.Errorf("the caret stands wrong:\n%s", err)
				}
			}
		})
	}
	_, err := Load(hosttest.Memory(nil), "/w/Cargo.toml")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a manifest that is not there: %v", err)
	}
}

// TOML 1.1, which cargo reads since 1.94, lets an inline table go over several lines.
func TestInlineTableOverLines(t *testing.T) {
	h := hosttest.Memory(
		map[string]string{
			"/w/Cargo.toml": pkg("a", "[dependencies]\ncandle-core = {\n  version = \"1\", # why\n  features = [\"cuda\"],\n}\n"),
		},
	)
	p, err := Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	if d := p.Selected.Dependencies[0]; len(d.Features) != 1 || p.Selected.DependencyLine(d) != 6 {
		t.Errorf("%+v at line %d", d, p.Selected.DependencyLine(d))
	}
}

func TestFindManifest(t *testing.T) {
	h := hosttest.Memory(map[string]string{"/w/Cargo.toml": pkg("a", ""), "/w/src/deep/x.rs": "", "/other/x": ""})
	if m, err := Find(h, "/w/src/deep"); m != "/w/Cargo.toml" || err != nil {
		t.Errorf("%s, %v", m, err)
	}
	var none *NotFoundError
	if _, err := Find(h, "/other"); !errors.As(err, &none) || none.Hint() == "" {
		t.Errorf("%v", err)
	}
}

func lock(entries ...string) string {
	text := "# generated\nversion = 4\n"
	for _, e := range entries {
		name, deps, _ := strings.Cut(e, ": ")
		text += "\n[[package]]\nname = \"" + name + "\"\nversion = \"1.0.0\"\nsource = \"registry+https://registry.example/index\"\n"
		if deps != "" {
			text += "dependencies = [\n"
			for _, d := range strings.Fields(deps) {
				text += " \"" + d + "\",\n"
			}
			text += "]\n"
		}
	}
	return text
}

// TestGPUWork: names in manifests, in Cargo.lock and in the command line are looked at, and nothing else.
func TestGPUWork(t *testing.T) {
	for _, tt := range []struct {
		story, deps, lock, why string // why: empty is no
		request                Request
	}{
		{"no GPU crate", `serde = "1"`, lock("app: serde", "serde"), "", Request{}},
		{"one in the manifest", `candle-core = "1"`, lock("app: serde", "serde"), "app depends on candle-core", Request{}},
		{"one in the lock", `wrapper = "1"`, lock("app: wrapper", "wrapper: cudarc", "cudarc"), "Cargo.lock has cudarc", Request{}},
		{"no lock", `serde = "1"`, "", "there is no Cargo.lock: what serde leads to is not known", Request{}},
		{"no lock, and nothing of others", "", "", "", Request{}},
		{"a lock from before a dependency", `wrapper = "1"`, lock("app: serde", "serde"), "Cargo.lock does not have wrapper yet", Request{}},
		{"a named feature", `serde = "1"`, lock("app: serde", "serde"), "a GPU feature is requested",
			Request{Features: []string{"x fast"}, GPUFeatures: []string{"fast"}}},
		{"a feature that is declared", "[features]\nuse-cuda = []", lock("app"), "app has the feature `use-cuda`", Request{}},
		{"a name that contains cuda", "", lock("app"), "a GPU feature is requested", Request{Features: []string{"whisper-cuda"}}},
		{"a name that only selects a version", "", lock("app"), "", Request{Features: []string{"cuda-12080"}}},
		{"the feature of a dependency", "", lock("app"), "a GPU feature is requested", Request{Features: []string{"x/cuda"}}},
		{"libtorch decides", `tch = "1"`, lock("app: tch", "tch"), "app depends on tch", Request{}},
		{"a package nobody knows", "", lock("app"), "the packages asked for are not among the manifests", Request{Packages: []string{"nobody"}}},
		{"a platform's table, which may not apply", "[target.'cfg(windows)'.dependencies]\ncudarc = \"1\"", lock("app"),
			"app depends on cudarc", Request{}},
	} {
		files := map[string]string{"/w/Cargo.toml": pkg("app", "[dependencies]\n"+tt.deps+"\n")}
		if tt.lock != "" {
			files["/w/Cargo.lock"] = tt.lock
		}
		p, err := Load(hosttest.Memory(files), "/w/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		if got, why := p.GPUWork(tt.request); got != (tt.why != "") || got && why != tt.why {
			t.Errorf("%s: %v: %s", tt.story, got, why)
		}
	}
}
