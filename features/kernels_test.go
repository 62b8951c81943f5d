package features

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

// TestScriptsAreGPUWork: a package with a build script and CUDA source may be GPU work, whatever the features and the packages are called, and
// whatever the text of the script says.
func TestScriptsAreGPUWork(t *testing.T) {
	const nvcc = "fn main() { Command::new(\"nvcc\") }"
	const optional = "[features]\naccel = [\"dep:kern\"]\n[dependencies]\nkern = { OF, optional = true }\n"
	const always = "[dependencies]\nkern = { OF }\n"
	of := func(deps, source string) string { return pkg("app", strings.ReplaceAll(deps, "OF", source)) }
	lock := func(source string) string {
		return "version = 4\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\"kern\"]\n[[package]]\nname = \"kern\"\n" +
			"version = \"0.1.0\"\nsource = \"" + source + "\"\n"
	}
	const git, registry = "git+https://host.example/x/kern#0123456789abcdef0123456789abcdef01234567", "registry+https://host.example/index"
	const checkout = "/home/u/.cargo/git/checkouts/kern-1111/0123456/"
	const gated = "fn main() { if env::var(\"CARGO_FEATURE_CUDA\").is_ok() { Command::new(\"nvcc\") } }"
	for _, tt := range []struct {
		story string
		files map[string]string
		ask   []string
		want  string
	}{
		{"its own script", map[string]string{"/w/Cargo.toml": pkg("app", ""), "/w/build.rs": nvcc, "/w/k/a.cu": ""}, nil, "app"},
		{"its own, for a feature that is off", map[string]string{"/w/Cargo.toml": pkg("app", "[features]\ncuda = []\n"), "/w/build.rs": gated}, nil, "cuda"},
		{"kernels of a crate below that has no script for them", map[string]string{"/w/Cargo.toml": pkg("app", ""), "/w/build.rs": nvcc, "/w/kern/Cargo.toml": pkg("kern", ""), "/w/kern/a.cu": ""}, nil, "app"},
		{"of one that has", map[string]string{"/w/Cargo.toml": pkg("app", ""), "/w/build.rs": nvcc, "/w/kern/Cargo.toml": pkg("kern", ""), "/w/kern/build.rs": "", "/w/kern/a.cu": ""}, nil, ""},
		{"a script without CUDA source, whatever it says", map[string]string{"/w/Cargo.toml": pkg("app", ""), "/w/build.rs": gated, "/w/a.c": ""}, nil, ""},
		{"a path dependency that is off: cargo's graph shows that", map[string]string{
			"/w/Cargo.toml": of(optional, `path = "kern"`), "/w/kern/Cargo.toml": pkg("kern", ""), "/w/kern/build.rs": nvcc, "/w/kern/k/a.cu": "",
		}, nil, "kern"},
		{"one that a feature turns on", map[string]string{
			"/w/Cargo.toml": of(optional, `path = "kern"`), "/w/kern/Cargo.toml": pkg("kern", ""), "/w/kern/build.rs": nvcc, "/w/kern/k/a.cu": "",
		}, []string{"accel"}, "kern"},
		{"a helper of its script", map[string]string{"/w/Cargo.toml": pkg("app", "[build-dependencies]\nbindgen_cuda = \"0.1\"\n"), "/w/build.rs": ""}, nil, "bindgen_cuda"},
		{"CUDA source that nobody compiles", map[string]string{"/w/Cargo.toml": pkg("app", ""), "/w/src/lib.rs": nvcc, "/w/a.cu": ""}, nil, ""},
		{"a registry's package", map[string]string{
			"/w/Cargo.toml": of(always, `version = "0.1"`), "/w/Cargo.lock": lock(registry),
			registryRoot + "kern-0.1.0/Cargo.toml": pkg("kern", ""), registryRoot + "kern-0.1.0/build.rs": nvcc, registryRoot + "kern-0.1.0/k/a.cu": "",
		}, nil, "kern"},
		{"one without nvcc", map[string]string{
			"/w/Cargo.toml": of(always, `version = "0.1"`), "/w/Cargo.lock": lock(registry),
			registryRoot + "kern-0.1.0/Cargo.toml": pkg("kern", ""), registryRoot + "kern-0.1.0/build.rs": "fn main() {}",
		}, nil, ""},
		{"a vendored package", map[string]string{
			"/w/Cargo.toml": of(always, `version = "0.1"`), "/w/Cargo.lock": lock(registry),
			"/w/vendor/kern/Cargo.toml": pkg("kern", ""), "/w/vendor/kern/build.rs": nvcc, "/w/vendor/kern/k/a.cu": "",
		}, nil, "kern"},
		{"a repository's package", map[string]string{
			"/w/Cargo.toml": of(always, `git = "https://host.example/x/kern"`), "/w/Cargo.lock": lock(git),
			checkout + "Cargo.toml": pkg("kern", ""), checkout + "build.rs": nvcc, checkout + "k/a.cu": "",
		}, nil, "kern"},
		{"one without nvcc", map[string]string{
			"/w/Cargo.toml": of(always, `git = "https://host.example/x/kern"`), "/w/Cargo.lock": lock(git),
			checkout + "Cargo.toml": pkg("kern", ""), checkout + "build.rs": "fn main() {}",
		}, nil, ""},
		{"a registry's package that is patched", map[string]string{
			"/w/Cargo.toml": of(always, `version = "0.1"`) + "[patch.crates-io]\nkern = { path = \"../mine\" }\n",
			"/w/Cargo.lock": strings.ReplaceAll(lock(""), "source = \"\"\n", ""), "/mine/Cargo.toml": pkg("kern", ""), "/mine/build.rs": nvcc, "/mine/k/a.cu": "",
		}, nil, "kern"},
		{"one that cargo's configuration patches", map[string]string{
			"/w/Cargo.toml": of(always, `version = "0.1"`), "/w/.cargo/config.toml": "[patch.crates-io]\nkern = { path = \"../mine\" }\n",
			"/w/Cargo.lock": strings.ReplaceAll(lock(""), "source = \"\"\n", ""), "/mine/Cargo.toml": pkg("kern", ""), "/mine/build.rs": nvcc, "/mine/k/a.cu": "",
			registryRoot + "kern-0.1.0/Cargo.toml": pkg("kern", ""), registryRoot + "kern-0.1.0/build.rs": "fn main() {}",
		}, nil, "kern"},
		{"one that is not unpacked yet", map[string]string{"/w/Cargo.toml": of(always, `version = "0.1"`), "/w/Cargo.lock": lock(registry)}, nil, "kern"},
		{"one for another platform, which cargo never unpacks", map[string]string{
			"/w/Cargo.toml": pkg("app", "[target.'cfg(windows)'.dependencies]\nkern = \"0.1\"\n"), "/w/Cargo.lock": lock(registry),
		}, nil, ""},
		{"one that is not checked out yet", map[string]string{
			"/w/Cargo.toml": of(always, `git = "https://host.example/x/kern"`), "/w/Cargo.lock": lock(git),
		}, nil, "kern"},
	} {
		if tt.files["/w/Cargo.lock"] == "" {
			tt.files["/w/Cargo.lock"] = "version = 4\n"
		}
		h := hosttest.Memory(tt.files)
		p := hosttest.Must(manifest.Load(h, "/w/Cargo.toml"))(t)
		work, why := looks(h, p, manifest.Request{Features: tt.ask})
		if work != (tt.want != "") || work && !strings.Contains(why, tt.want) {
			t.Errorf("%s: %v: %s, want %q", tt.story, work, why, tt.want)
		}
	}
}

// TestKernelsNextTo: those of a package that lie next to it, and not what lies next to its git repository or belongs to another package.
func TestKernelsNextTo(t *testing.T) {
	for file, want := range map[string]bool{"/w/app/README.md": true, "/w/app/.git/HEAD": false, "/w/kernels/Cargo.toml": false, "/w/kernels/cuda/Cargo.toml": false} {
		h := hosttest.Memory(map[string]string{"/w/app/Cargo.toml": pkg("app", ""), "/w/app/Cargo.lock": "version = 4\n", "/w/kernels/cuda/a.cu": "", file: ""})
		p := hosttest.Must(manifest.Load(h, "/w/app/Cargo.toml"))(t)
		hosttest.Equal(t, NewSources(h, p).holdsDeviceCode(p.Members[0]), want, file)
	}
}
