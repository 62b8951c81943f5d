package features

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

// chainFiles is a workspace of n packages, each with cuda and each passing it on to the one before it and to candle-core.
func chainFiles(n int) map[string]string {
	files := map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n"}
	text := "version = 4\n"
	for i := 0; i < n; i++ {
		deps, cuda, locked := "candle-core = { path = \"../candle-core\" }\n", "\"candle-core/cuda\"", " \"candle-core\",\n"
		if i > 0 {
			deps += fmt.Sprintf("p%d = { path = \"../p%d\" }\n", i-1, i-1)
			cuda += fmt.Sprintf(", \"p%d/cuda\"", i-1)
			locked += fmt.Sprintf(" \"p%d\",\n", i-1)
		}
		dir := fmt.Sprintf("/w/crates/p%d/", i)
		files[dir+"Cargo.toml"] = pkg(fmt.Sprintf("p%d", i), "[features]\ncuda = ["+cuda+"]\n[dependencies]\n"+deps)
		files[dir+"src/lib.rs"] = "#[cfg(feature = \"cuda\")]\npub fn fast() {}\n"
		text += fmt.Sprintf("\n[[package]]\nname = \"p%d\"\nversion = \"0.1.0\"\ndependencies = [\n%s]\n", i, locked)
	}
	files["/w/crates/candle-core/Cargo.toml"] = "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[features]\ncuda = []\n"
	files["/w/crates/candle-core/src/lib.rs"] = ""
	files["/w/Cargo.lock"] = text + "\n[[package]]\nname = \"candle-core\"\nversion = \"0.11.1\"\n"
	return files
}

// BenchmarkHook is the work of `features --manifest-only` in a workspace of 600 packages that all have cuda and pass it on.
func BenchmarkHook(b *testing.B) { hook(b, chainFiles(600)) }

// BenchmarkHookBroken is the same where no package passes it on to the one before.
func BenchmarkHookBroken(b *testing.B) {
	files := chainFiles(600)
	for path, text := range files {
		files[path] = strings.Replace(text, "[\"candle-core/cuda\", ", "[]\n# ", 1)
	}
	hook(b, files)
}

func hook(b *testing.B, files map[string]string) {
	h := hosttest.Memory(files)
	for b.Loop() {
		p, err := manifest.Load(h, "/w/Cargo.toml")
		if err != nil {
			b.Fatal(err)
		}
		check, err := NewEdgeCheck(h, Input{Project: p})
		if err != nil {
			b.Fatal(err)
		}
		checkAll(check)
	}
}
