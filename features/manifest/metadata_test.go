package manifest

import (
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestWithMetadata: what cargo says of packages replaces what the manifests show, and only that.
func TestWithMetadata(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\n[features]\ncuda = [\"kern/cuda\"]\nwgpu = [\"dep:wgpu\"]\n" +
			"[dependencies]\nkern = { path = \"kern\", package = \"kernels\" }\noff = { path = \"off\", optional = true }\nwgpu = { version = \"1\", optional = true }\n",
		"/w/kern/Cargo.toml": "[package]\nname = \"kernels\"\nversion = \"0.2.0\"\n",
		"/w/off/Cargo.toml":  "[package]\nname = \"off\"\nversion = \"0.1.0\"\n[features]\ncuda = []\n",
	})
	p := hosttest.Must(Load(h, "/w/Cargo.toml"))(t)
	m, err := ParseMetadata([]byte(`{"packages": [
{"id": "path+file:///w#app@0.1.0", "name": "app", "version": "0.1.0", "manifest_path": "/w/Cargo.toml",
 "features": {"cuda": ["kern/cuda"], "wgpu": ["dep:wgpu"], "off": ["dep:off"]},
 "dependencies": [
  {"name": "kernels", "rename": "kern", "kind": null, "req": "*", "path": "/w/kern", "uses_default_features": false, "features": ["fast"], "target": null},
  {"name": "off", "rename": null, "kind": null, "req": "*", "path": "/w/off", "optional": true, "uses_default_features": true, "features": []},
  {"name": "wgpu", "rename": null, "kind": null, "req": "^1", "optional": true, "uses_default_features": true, "features": []},
  {"name": "far", "rename": null, "kind": null, "req": "^1", "uses_default_features": true, "features": []}],
 "targets": [{"kind": ["bin"], "name": "app", "src_path": "/w/src/main.rs"}, {"kind": ["custom-build"], "name": "build-script-build", "src_path": "/w/make.rs"}]},
{"id": "path+file:///w/kern#kernels@0.2.0", "name": "kernels", "version": "0.2.0", "manifest_path": "/w/kern/Cargo.toml", "features": {"cuda": []}, "dependencies": [], "targets": []},
{"id": "registry+https://registry.example/index#far@1.0.0", "name": "far", "version": "1.0.0", "manifest_path": "/r/far-1.0.0/Cargo.toml", "features": {},
 "dependencies": [{"name": "only-tested", "kind": "dev", "req": "*", "features": []}], "targets": [{"kind": ["lib"], "name": "far", "src_path": "/r/far-1.0.0/src/lib.rs"}]}],
"workspace_members": ["path+file:///w#app@0.1.0"], "workspace_default_members": ["path+file:///w#app@0.1.0"],
"resolve": {"nodes": [{"id": "path+file:///w#app@0.1.0", "deps": [{"name": "kern", "pkg": "path+file:///w/kern#kernels@0.2.0"}, {"name": "far", "pkg": "registry+https://registry.example/index#far@1.0.0"}]}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := p.With(m)
	app := got.Selected
	if app == nil || !got.IsMember(app) || !slices.Equal(got.Default, []*Package{app}) || len(got.Members) != 1 || app.BuildScript != "/w/make.rs" || app.FeatureLine("cuda") != 5 {
		t.Fatalf("%+v", app)
	}
	if !app.Implicit("off") || app.Implicit("wgpu") || !app.Declares("wgpu") {
		t.Error("off is a feature by its dependency, wgpu by its own entry")
	}
	kern := app.Dependencies[0]
	if kern.Key != "kern" || kern.DefaultFeatures || !slices.Equal(kern.Features, []string{"fast"}) {
		t.Errorf("%+v", kern)
	}
	for i, want := range map[int]string{0: "kernels", 1: "off", 3: "far"} {
		if to := got.Declaring(app, app.Dependencies[i]); to == nil || to.Name != want {
			t.Errorf("%s leads to %+v", want, to)
		}
	}
	far := got.Known("registry+https://registry.example/index#far@1.0.0")
	if far == nil || len(far.Dependencies) != 0 || len(far.Targets) != 0 {
		t.Errorf("%+v", far)
	}
	hosttest.Equal(t, p.With(nil), p, "without metadata the manifests count")
}

// TestDefaultMembers: what a command line without -p builds, cargo says for the root; in a member's directory it is that member.
func TestDefaultMembers(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml":   "[workspace]\nmembers = [\"a\", \"b\"]\ndefault-members = [\"b\"]\n",
		"/w/a/Cargo.toml": pkg("a", ""),
		"/w/b/Cargo.toml": pkg("b", ""),
	})
	newer := `{"packages": [
{"id": "path+file:///w/a#0.1.0", "name": "a", "version": "0.1.0", "manifest_path": "/w/a/Cargo.toml", "features": {}},
{"id": "path+file:///w/b#0.1.0", "name": "b", "version": "0.1.0", "manifest_path": "/w/b/Cargo.toml", "features": {}}],
"workspace_members": ["path+file:///w/a#0.1.0", "path+file:///w/b#0.1.0"], "workspace_default_members": ["path+file:///w/b#0.1.0"]}`
	older, _, _ := strings.Cut(newer, `, "workspace_default_members"`) // cargo before 1.71
	older = strings.NewReplacer("path+file:///w/a#0.1.0", "a 0.1.0 (path+file:///w/a)", "path+file:///w/b#0.1.0", "b 0.1.0 (path+file:///w/b)").Replace(older) + "}"
	for _, data := range []string{newer, older} {
		m := hosttest.Must(ParseMetadata([]byte(data)))(t)
		for at, want := range map[string]string{"/w/Cargo.toml": "b", "/w/a/Cargo.toml": "a"} {
			p := hosttest.Must(Load(h, at))(t)
			if got, _ := p.With(m).Selection(Request{}); names(got) != want {
				t.Errorf("%s: %s", at, names(got))
			}
			if got, known := p.With(m).Selection(Request{Packages: []string{"a*", "b@0.1.0"}, Excludes: []string{"b"}}); names(got) != "a" || !known {
				t.Errorf("%s: -p: %s %t", at, names(got), known)
			}
		}
	}
}
