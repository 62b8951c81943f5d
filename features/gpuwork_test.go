package features

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

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

// nothing is what the build scripts of Cargo.lock's packages compile.
func nothing(func() []string) []string { return nil }

// TestGPUWork: names in manifests, in Cargo.lock and in the command line are looked at, and nothing else.
func TestGPUWork(t *testing.T) {
	for _, tt := range []struct {
		story, deps, lock, why string // why: empty is no
		request                manifest.Request
	}{
		{"no GPU crate", `serde = "1"`, lock("app: serde", "serde"), "", manifest.Request{}},
		{"one in the manifest", `candle-core = "1"`, lock("app: serde", "serde"), "app depends on candle-core", manifest.Request{}},
		{"one in the lock", `wrapper = "1"`, lock("app: wrapper", "wrapper: cudarc", "cudarc"), "Cargo.lock has cudarc", manifest.Request{}},
		{"no lock", `serde = "1"`, "", "there is no Cargo.lock: what serde leads to is not known", manifest.Request{}},
		{"no lock, and nothing of others", "", "", "", manifest.Request{}},
		{"a lock from before a dependency", `wrapper = "1"`, lock("app: serde", "serde"), "Cargo.lock does not have wrapper yet", manifest.Request{}},
		{"a named feature", `serde = "1"`, lock("app: serde", "serde"), "a GPU feature is requested",
			manifest.Request{Features: []string{"x fast"}, GPUFeatures: []string{"fast"}}},
		{"a feature that is declared", "[features]\nuse-cuda = []", lock("app"), "app has the feature `use-cuda`", manifest.Request{}},
		{"a name that contains cuda", "", lock("app"), "a GPU feature is requested", manifest.Request{Features: []string{"whisper-cuda"}}},
		{"a name that only selects a version", "", lock("app"), "", manifest.Request{Features: []string{"cuda-12080"}}},
		{"the feature of a dependency", "", lock("app"), "a GPU feature is requested", manifest.Request{Features: []string{"x/cuda"}}},
		{"a manifest that cannot be read", "x = { path = \"../broken\" }", lock("app"), "not decided from the manifests: ", manifest.Request{}},
		{"a backend of Apple's", "[features]\nmetal = []", lock("app"), "app has the feature `metal`", manifest.Request{}},
		{"an optional dependency that Cargo.lock has not", `wrapper = { version = "1", optional = true }`, lock("app"), "", manifest.Request{}},
		{"libtorch decides", `tch = "1"`, lock("app: tch", "tch"), "app depends on tch", manifest.Request{}},
		{"a platform's table, which may not apply", "[target.'cfg(windows)'.dependencies]\ncudarc = \"1\"", lock("app"),
			"app depends on cudarc", manifest.Request{}},
	} {
		files := map[string]string{"/w/Cargo.toml": pkg("app", "[dependencies]\n"+tt.deps+"\n")}
		if tt.lock != "" {
			files["/w/Cargo.lock"] = tt.lock
		}
		files["/broken/Cargo.toml"] = "[package\n"
		h := hosttest.Memory(files)
		p := hosttest.Must(manifest.Load(h, "/w/Cargo.toml"))(t)
		if got, why := NewSources(h, p).GPUWork(tt.request, nothing); got != (tt.why != "") || !strings.HasPrefix(why, tt.why) || got && !strings.HasSuffix(tt.why, ": ") && why != tt.why {
			t.Errorf("%s: %v: %s", tt.story, got, why)
		}
	}
}
