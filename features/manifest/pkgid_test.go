package manifest

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

func TestParsePkgID(t *testing.T) {
	tests := []struct{ id, kind, name, version, dir string }{
		{"path+file:///w/app#0.1.0", "path", "app", "0.1.0", "/w/app"},
		{"path+file:///w/core#core1@0.1.0", "path", "core1", "0.1.0", "/w/core"},
		{"path+file:///w/with%20space/app#0.1.0", "path", "app", "0.1.0", "/w/with space/app"},
		{"path+file:///w/with%20space#0.1.0", "path", "with space", "0.1.0", "/w/with space"},
		{"path+file:///w/with space/app#0.1.0", "path", "app", "0.1.0", "/w/with space/app"}, // not in cargo's own words
		{"registry+https://registry.example/index#candle-core@0.11.1", "registry", "candle-core", "0.11.1", ""},
		{"sparse+https://registry.example/index/#cudarc@0.19.10", "sparse", "cudarc", "0.19.10", ""},
		{"git+https://git.example/u/candle?branch=main#candle-core@0.9.1", "git", "candle-core", "0.9.1", ""},
		{"git+https://git.example/u/candle.git?rev=abc#0.9.1", "git", "candle", "0.9.1", ""},
		{"app 0.1.0 (path+file:///w/my%20app)", "path", "app", "0.1.0", "/w/my app"}, // cargo before 1.77
		{"candle-core 0.9.1 (git+https://git.example/u/candle?branch=main#0123abcd)", "git", "candle-core", "0.9.1", ""},
		{"", "", "", "", ""},
	}
	h := hosttest.Memory(nil)
	for _, tt := range tests {
		id := ParsePkgID(tt.id)
		if id.Kind != tt.kind || id.Name != tt.name || id.Version != tt.version || id.Dir(h) != tt.dir {
			t.Errorf("%s: %+v, dir %q", tt.id, id, id.Dir(h))
		}
	}
	win := buildenv.Host{OS: buildenv.Windows}
	for id, want := range map[string]string{"path+file:///C:/w/app#0.1.0": `C:\w\app`, "path+file:///w/app#0.1.0": `\w\app`, "path+file:///#app@0.1.0": `\`, "path+file:///wx:/app#0.1.0": `\wx:\app`} {
		hosttest.Equal(t, ParsePkgID(id).Dir(win), want, id, "on Windows")
	}
	hosttest.Equal(t, ParsePkgID("path+file:///C:/w#app@0.1.0").Dir(h), "/C:/w", "elsewhere")
}

func TestLocate(t *testing.T) {
	text := strings.Join([]string{
		`# cuda = ["not this"]`, // 1
		`[package]`,
		`name = "a" # [features]`,
		`description = """`,
		`[features]`,
		`cuda = []`,
		`"""`,
		`version.workspace = true`, // 8
		`[ features ]`,
		`"with space" = [ # one`,
		`  "x]", 'y#',`,
		`  # comment ]`,
		`]`,
		`cuda = ["candle-core/cuda"]`, // 14
		`[dependencies]`,
		`candle-core = { version = "1", features = ["cuda"] }`,
		`cudarc.version = "0.19"`,
		`cudarc.optional = true`,
		`[target.'cfg(target_os = "linux")'.dependencies]`, // 19
		`nn = "1"`,
		`[dependencies.tokio]`,
		`version = "1"`,
		`[[bin]]`,
		`name = "x"`,
	}, "\r\n")
	got := Locate([]byte(text))
	for path, line := range map[string]int{
		"package": 2, "package/name": 3, "package/version/workspace": 8, "features": 9, "features/with space": 10, "features/cuda": 14,
		"dependencies/candle-core/features": 16, "dependencies/cudarc": 17, "dependencies/cudarc/optional": 18,
		`target/cfg(target_os = "linux")/dependencies/nn`: 20, "dependencies/tokio": 21, "dependencies/tokio/version": 22, "bin/name": 24,
	} {
		key := strings.ReplaceAll(path, "/", "\x00")
		hosttest.Equal(t, got[key].Line, line, path, "line")
	}
	cuda, _ := got.At("features", "cuda")
	hosttest.Equal(t, text[cuda.Start:cuda.End], `["candle-core/cuda"]`, "the value's bytes")
}
