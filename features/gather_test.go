package features

import (
	"io/fs"
	"slices"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

// counted counts what is asked of a machine's files.
type counted struct {
	buildenv.Files
	asked *int
}

func (c counted) Stat(path string) (fs.FileInfo, error) { *c.asked++; return c.Files.Stat(path) }
func (c counted) ReadDir(path string) ([]fs.DirEntry, error) {
	*c.asked++
	return c.Files.ReadDir(path)
}
func (c counted) Open(path string) (fs.File, error) { *c.asked++; return c.Files.Open(path) }
func (c counted) EvalSymlinks(path string) (s string, e error) {
	*c.asked++
	return c.Files.EvalSymlinks(path)
}

// TestHelpersOfHelpers: what a registry's helper itself uses counts for the script that uses the helper.
func TestHelpersOfHelpers(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": pkg("app", "[build-dependencies]\nkernels-build = \"1\"\n"), "/w/build.rs": "fn main() { kernels_build::run() }",
	})
	p := hosttest.Must(manifest.Load(h, "/w/Cargo.toml"))(t).With(hosttest.Must(manifest.ParseMetadata([]byte(`{"packages": [
		{"id": "path+file:///w#app@0.1.0", "name": "app", "manifest_path": "/w/Cargo.toml", "dependencies": [{"name": "kernels-build", "kind": "build"}],
			"targets": [{"kind": ["custom-build"], "src_path": "/w/build.rs"}]},
		{"id": "r#kernels-build@1.0.0", "name": "kernels-build", "manifest_path": "/r/kernels-build/Cargo.toml", "dependencies": [{"name": "bindgen_cuda"}]},
		{"id": "r#bindgen_cuda@0.1.5", "name": "bindgen_cuda", "manifest_path": "/r/bindgen_cuda/Cargo.toml"}],
		"workspace_members": ["path+file:///w#app@0.1.0"], "resolve": {"nodes": [
		{"id": "path+file:///w#app@0.1.0", "deps": [{"name": "kernels_build", "pkg": "r#kernels-build@1.0.0"}]},
		{"id": "r#kernels-build@1.0.0", "deps": [{"name": "bindgen_cuda", "pkg": "r#bindgen_cuda@0.1.5"}]}]}}`)))(t))
	f := Gather(h, Input{Project: p, Alone: p.Members[0]})
	if got := f.helpers(f.Roots[0].Node); !slices.Equal(got, []string{"kernels-build", "bindgen_cuda"}) {
		t.Errorf("helpers %v", got)
	}
}
