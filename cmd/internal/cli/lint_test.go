package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// passNothing writes a workspace whose members all have a feature that none passes on.
func passNothing(t *testing.T, members int) (manifest string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n")
	put("Cargo.lock", "version = 4\n")
	put("crates/candle-core/Cargo.toml", "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[features]\n"+
		"cuda = []\n")
	put("crates/candle-core/src/lib.rs", "#[cfg(feature = \"cuda\")]\npub fn device() {}\n")
	for i := range members {
		deps := "candle-core = { path = \"../candle-core\" }\n"
		for _, back := range []int{1, 7, 50} {
			if i >= back {
				deps += fmt.Sprintf("p%d = { path = \"../p%d\" }\n", i-back, i-back)
			}
		}
		put(fmt.Sprintf("crates/p%d/Cargo.toml", i), fmt.Sprintf("[package]\nname = \"p%d\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"+
			"[features]\ncuda = []\n[dependencies]\n%s", i, deps))
		put(fmt.Sprintf("crates/p%d/src/lib.rs", i), "")
	}
	return filepath.Join(dir, "Cargo.toml")
}

// TestJudgingHeedsTheEnd: who ends the program while manifests are judged waits for one member at most, and is told no half of it.
func TestJudgingHeedsTheEnd(t *testing.T) {
	need.Cargo(t)
	manifest := passNothing(t, 40)
	for _, verb := range []func(*invocation, context.Context, featuresOptions, cargo.Line) error{(*invocation).runLint} {
		var said bytes.Buffer
		m, err := session.Here(nil, &console.Shell{Out: io.Discard, Err: &said}, verify.RealDriver, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := &invocation{Machine: m}
		a.CacheDir = t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		began := time.Now()
		err = verb(a, ctx, featuresOptions{}, cargo.Line{ManifestPath: manifest})
		if code := exit.Of(err); code != exit.Interrupted || said.Len() > 0 {
			t.Errorf("ended with %d after %v: %v, and said %q", code, time.Since(began), err, said.String())
		}
	}
}
