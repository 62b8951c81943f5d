package manifest

import (
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
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
	for _, tt := range []struct {
		story             string
		files             map[string]string
		manifest          string // default /w/Cargo.toml
		root              string // default /w
		members, defaults string
		locals            string
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
	} {
		t.Run(tt.story, func(t *testing.T) {
			if tt.manifest == "" {
				tt.manifest = "/w/Cargo.toml"
			}
			if tt.root == "" {
				tt.root = "/w"
			}
			p := hosttest.Must(Load(hosttest.Memory(tt.files), tt.manifest))(t)
			if p.Root != tt.root || names(p.Members) != tt.members || names(p.Default) != tt.defaults || names(p.Locals) != tt.locals ||
				len(p.Doubts) != 0 {
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

// TestInheritedNames: of an inherited dependency the look knows what it is and where. Nothing is missed when the workspace renames it.
func TestInheritedNames(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": strings.Join([]string{"[workspace]", `members = ["a"]`, "[workspace.dependencies]",
			`core = { package = "candle-core", version = "0.11" }`, `local = { path = "other/local" }`, `nn = "0.11"`}, "\n"),
		"/w/a/Cargo.toml": pkg("a", strings.Join([]string{"[dependencies]", `core = { workspace = true, optional = true }`,
			"local.workspace = true", "[build-dependencies]", `nn = { workspace = true }`}, "\n")),
		"/w/other/local/Cargo.toml": pkg("local", ""),
	})
	p := hosttest.Must(Load(h, "/w/a/Cargo.toml"))(t)
	var got []string
	for _, d := range p.Selected.Dependencies {
		got = append(got, fmt.Sprintf("%s %s=%s optional=%v %s line %d", d.Kind, d.Key, d.Package, d.Optional, d.Path, p.Selected.DependencyLine(d)))
	}
	want := []string{"normal core=candle-core optional=true  line 6", "normal local=local optional=false /w/other/local line 7",
		"build nn=nn optional=false  line 9"}
	if !reflect.DeepEqual(got, want) || names(p.Members) != "a local" {
		t.Errorf("%s: got\n%s\nwant\n%s", names(p.Members), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestImplicitFeatures(t *testing.T) {
	h := hosttest.Memory(
		map[string]string{
			"/w/Cargo.toml": pkg("a", strings.Join([]string{"[features]", `cuda = ["dep:cudarc", "nn?/cuda"]`, "[dependencies]",
				`cudarc = { version = "1", optional = true }`, `nn = { version = "1", optional = true }`, `serde = "1"`}, "\n")),
		},
	)
	p := hosttest.Must(Load(h, "/w/Cargo.toml"))(t)
	if got := strings.Join(p.Selected.FeatureNames(), " "); got != "cuda nn" {
		t.Errorf("features %s: cudarc has none of its own because of dep:cudarc", got)
	}
}

// TestBrokenManifests: a manifest that cannot be understood, of whichever package, is for cargo to judge: there may be GPU work.
func TestBrokenManifests(t *testing.T) {
	for story, files := range map[string]map[string]string{
		"of the package":     {"/w/Cargo.toml": "[package]\nname = \"a\"\n[features]\ncuda = [\"x\"\n"},
		"twice the same key": {"/w/Cargo.toml": "[features]\na = []\na = []\n"},
		"no text":            {"/w/Cargo.toml": "[package]\nname = \"a\xff\"\n"},
		"of a member":        {"/w/Cargo.toml": pkg("a", "[workspace]\nmembers = [\"b\"]\n"), "/w/b/Cargo.toml": "[package\n"},
		"of a dependency":    {"/w/Cargo.toml": pkg("a", "[dependencies]\nb = { path = \"../b\" }\n"), "/b/Cargo.toml": "= 1"},
	} {
		p := hosttest.Must(Load(hosttest.Memory(files), "/w/Cargo.toml"))(t)
		if why := strings.Join(p.Doubts, " "); !strings.Contains(why, "Cargo.toml: ") {
			t.Errorf("%s: %s", story, why)
		}
	}
	if _, err := Load(hosttest.Memory(nil), "/w/Cargo.toml"); err == nil || !strings.Contains(err.Error(), "/w/Cargo.toml") {
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
	p := hosttest.Must(Load(h, "/w/Cargo.toml"))(t)
	if d := p.Selected.Dependencies[0]; len(d.Features) != 1 || p.Selected.DependencyLine(d) != 6 {
		t.Errorf("%+v at line %d", d, p.Selected.DependencyLine(d))
	}
}

func TestFindManifest(t *testing.T) {
	h := hosttest.Memory(map[string]string{"/w/Cargo.toml": pkg("a", ""), "/w/src/deep/x.rs": "", "/other/x": ""})
	if m, err := Find(h, "/w/src/deep"); m != "/w/Cargo.toml" || err != nil {
		t.Errorf("%s, %v", m, err)
	}
	if _, err := Find(h, "/other"); !errors.Is(err, ErrNotFound) || exit.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(
		"[package]\nname = \"a\"\n[features]\ncuda = [\"dep:cudarc\", \"x?/y\"]\n[dependencies]\ncudarc = { version = \"1\", optional = true, path = \"../c\" }\n[target.'cfg(unix)'.dependencies]\nx.workspace = true\n",
		"crates/*",
	)
	f.Add("[workspace]\nmembers = [\"a\", \"**\"]\n", "**/[a-")
	f.Add("\uFEFF[package]\r\nname = '''a'''\r\n", "..")
	f.Fuzz(func(t *testing.T, text, member string) {
		h := hosttest.Memory(map[string]string{"/w/Cargo.toml": text, "/w/crates/b/Cargo.toml": pkg("b", ""), "/w/Cargo.lock": text})
		p := hosttest.Must(Load(h, "/w/Cargo.toml"))(t)
		left := globLimit
		expand(h, "/w", member, &left)
		parseLock(text)
		for _, m := range p.Members {
			m.FeatureLine("cuda")
			m.FeatureNames()
		}
	})
}

// FuzzLocate holds the line locator against the TOML reader: what one finds, the other must, too.
func FuzzLocate(f *testing.F) {
	f.Add("a = 1\n[b]\nc.d = [1, {e = 2}]\nf = { g = 'h', i = \"\"\"j\n\"\"\" }\n[[k]]\nl = 1979-05-27 07:32:00\n")
	f.Add("[features]\ncuda = [ # x\n \"a\", ]\n\"quoted.key\" = []\n")
	f.Fuzz(func(t *testing.T, text string) {
		spans := Locate([]byte(text))
		var v map[string]any
		md, err := toml.Decode(text, &v)
		if err != nil || strings.Contains(text, `\`) || len(text) > 500 {
			return
		}
		for _, k := range md.Keys() {
			if _, ok := spans.At(k...); !ok && !inArray(md, k) {
				t.Errorf("%q is not located in %q", k, text)
			}
		}
	})
}

// inArray says whether a key lies in an inline array, whose insides are not located.
func inArray(md toml.MetaData, k toml.Key) bool {
	for i := 1; i < len(k); i++ {
		if kind := md.Type(k[:i]...); kind == "Array" || kind == "ArrayHash" {
			return true
		}
	}
	return false
}

// pkg is a short way to write a manifest.
func pkg(name, rest string) string {
	return "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n" + rest
}

// readOne reads a manifest that belongs to no project.
func readOne(h buildenv.Host, path string) *Package {
	p := Project{host: h, byPath: map[string]*Package{}}
	return p.Read(path)
}
