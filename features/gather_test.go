package features

import (
	"io/fs"
	"slices"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
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
	p := hosttest.Must(manifest.Load(h, "/w/Cargo.toml")).With(hosttest.Must(manifest.ParseMetadata([]byte(`{"packages": [
		{"id": "path+file:///w#app@0.1.0", "name": "app", "manifest_path": "/w/Cargo.toml", "dependencies": [{"name": "kernels-build", "kind": "build"}],
			"targets": [{"kind": ["custom-build"], "src_path": "/w/build.rs"}]},
		{"id": "r#kernels-build@1.0.0", "name": "kernels-build", "manifest_path": "/r/kernels-build/Cargo.toml", "dependencies": [{"name": "bindgen_cuda"}]},
		{"id": "r#bindgen_cuda@0.1.5", "name": "bindgen_cuda", "manifest_path": "/r/bindgen_cuda/Cargo.toml"}],
		"workspace_members": ["path+file:///w#app@0.1.0"], "resolve": {"nodes": [
		{"id": "path+file:///w#app@0.1.0", "deps": [{"name": "kernels_build", "pkg": "r#kernels-build@1.0.0"}]},
		{"id": "r#kernels-build@1.0.0", "deps": [{"name": "bindgen_cuda", "pkg": "r#bindgen_cuda@0.1.5"}]}]}}`))))
	if s := NewSources(h, p).scriptFile(p.Members[0], nil); !slices.Equal(s.Helpers, []string{"kernels-build", "bindgen_cuda"}) {
		t.Errorf("helpers %v", s.Helpers)
	}
}

// TestGeneralHelper: cc names nvcc, and compiles C for whom does not ask it for CUDA.
func TestGeneralHelper(t *testing.T) {
	for text, want := range map[string]bool{
		`fn main() { cc::Build::new().file("a.c").compile("a") }`:             false,
		`fn main() { cc::Build::new().cuda(true).file("a.cu").compile("a") }`: true,
		`fn main() { /* nvcc, cuda(true) */ cc::Build::new().compile("a") }`:  false,
	} {
		h := hosttest.Memory(map[string]string{
			"/w/Cargo.toml": pkg("app", "[build-dependencies]\ncc = \"1\"\n"), "/w/build.rs": text,
			"/r/cc/src/lib.rs": "pub struct Build; impl Build { pub fn new() {}\npub fn compile(&self) { if self.cuda { run(\"nvcc\") } } }",
		})
		p := hosttest.Must(manifest.Load(h, "/w/Cargo.toml")).With(hosttest.Must(manifest.ParseMetadata([]byte(`{"packages": [
			{"id": "path+file:///w#app@0.1.0", "name": "app", "manifest_path": "/w/Cargo.toml", "dependencies": [{"name": "cc", "kind": "build"}],
				"targets": [{"kind": ["custom-build"], "src_path": "/w/build.rs"}]},
			{"id": "r#cc@1.2.0", "name": "cc", "manifest_path": "/r/cc/Cargo.toml"}],
			"workspace_members": ["path+file:///w#app@0.1.0"], "resolve": {"nodes": [
			{"id": "path+file:///w#app@0.1.0", "deps": [{"name": "cc", "pkg": "r#cc@1.2.0"}]}, {"id": "r#cc@1.2.0", "deps": []}]}}`))))
		if does := NewSources(h, p).scriptDoes(p.Members[0]); does.compiles() != want {
			t.Errorf("%s: %+v", text, does)
		}
	}
}

// TestRunsNvccOnce: what a registry's package runs is asked once for all; a package elsewhere may change.
func TestRunsNvccOnce(t *testing.T) {
	for dir, want := range map[string]int{registryRoot + "x-1.0.0": 1, "/w/vendor/x": 0} {
		h := hosttest.Memory(map[string]string{
			"/w/Cargo.toml": pkg("app", ""), dir + "/build.rs": `fn main() { run("make") }`, dir + "/Makefile": "a:\n\tnvcc a.cu\n",
		})
		p := hosttest.Must(manifest.Load(h, "/w/Cargo.toml"))
		kept := 0
		once := func(_ string, ask func() bool) bool { kept++; return ask() }
		if !NewSources(h, p).runsNvcc(source.Script{Source: dir + "/build.rs"}, dir, once) || kept != want {
			t.Errorf("%s: nvcc is not seen, or %d answers are kept, want %d", dir, kept, want)
		}
	}
}
