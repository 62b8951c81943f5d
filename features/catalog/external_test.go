package catalog

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
)

// TestExternalDir: where the scripts look, in their own order (ort-sys src/internal/dirs.rs, candle-flash-attn build.rs).
func TestExternalDir(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ crate, os, home, env, want string }{
		{"ort-sys", "linux", "/home/u", "", "/home/u/.cache/ort.pyke.io/dfbin"},
		{"ort-sys", "linux", "/home/u", "XDG_CACHE_HOME=/x", "/x/dfbin"},
		{"ort-sys", "linux", "/home/u", "XDG_CACHE_HOME=/x ORT_CACHE_DIR=/o/../p", "/p/dfbin"},
		{"ort-sys", "linux", "/home/u", "ORT_CACHE_DIR=relative", ""},
		{"ort-sys", "linux", "", "", ""},
		{"ort-sys", "darwin", "/Users/u", "XDG_CACHE_HOME=/x", "/Users/u/Library/Caches/ort.pyke.io/dfbin"},
		{"ort-sys", "windows", `C:\Users\u`, `LOCALAPPDATA=D:\L`, `D:\L\ort.pyke.io\dfbin`},
		{"candle-flash-attn", "linux", "/home/u", "", ""},
		{"candle-flash-attn", "linux", "/home/u", "CANDLE_FLASH_ATTN_BUILD_DIR=/k/", "/k"},
		{"candle-flash-attn-v3", "windows", `C:\Users\u`, `CANDLE_FLASH_ATTN_BUILD_DIR=D:\k`, `D:\k`},
	}
	for _, tt := range tests {
		h := buildenv.Host{OS: tt.os, Home: tt.home, Env: buildenv.NewEnv(tt.os, strings.Fields(tt.env))}
		x := c.Crate(tt.crate).External
		if len(x) != 1 {
			t.Fatalf("%s keeps %d things outside", tt.crate, len(x))
		}
		if got := x[0].Dir(h); got != tt.want {
			t.Errorf("%s on %s with %q: %q, want %q", tt.crate, tt.os, tt.env, got, tt.want)
		}
	}
}

// TestExternalWrites: a path that a script does not write makes its whole directory one that is not emptied.
func TestExternalWrites(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	hash := strings.Repeat("0A", 32)
	for _, tt := range []struct {
		crate, path string
		want        bool
	}{
		{"candle-flash-attn", "flash_fwd_hdim64_fp16_sm80-1f2e3d4c5b6a7988.o", true},
		{"candle-flash-attn", "libflashattention.a", true},
		{"candle-flash-attn", ".cudaforge_cache.json", true},
		{"candle-flash-attn", "main.o", false},
		{"candle-flash-attn", "src/flash_api-1f.o", false},
		{"candle-flash-attn", "libflashattention.a.bak", false},
		{"candle-flash-attn", "libflashattentionXa", false},
		{"candle-flash-attn-v3", "libflashattentionv3.a", true},
		{"ort-sys", "x86_64-unknown-linux-gnu", true},
		{"ort-sys", "x86_64-unknown-linux-gnu/" + hash, true},
		{"ort-sys", "x86_64-unknown-linux-gnu/" + hash + "/libonnxruntime.a", true},
		{"ort-sys", "x86_64-unknown-linux-gnu/tmp.aB3_" + hash + "/libonnxruntime.a", true},
		{"ort-sys", "x86_64-unknown-linux-gnu/mine/libonnxruntime.a", false},
		{"ort-sys", "notes", false},
	} {
		if got := c.Crate(tt.crate).External[0].Writes(tt.path); got != tt.want {
			t.Errorf("%s writes %s: %v", tt.crate, tt.path, got)
		}
	}
	for _, bad := range []string{
		"[[crate]]\nname = \"x\"\n[[crate.external]]\nwhat = \"w\"\nplaces = [{path = \"/p\"}]\nholds = ['(']\nsources = [\"s\"]\n",
		"[[crate]]\nname = \"x\"\n[[crate.external]]\nwhat = \"w\"\nplaces = [{path = \"/p\"}]\nholds = ['a']\n",
	} {
		if _, err := parseCatalog(bad); err == nil || !strings.Contains(err.Error(), "x: external") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
