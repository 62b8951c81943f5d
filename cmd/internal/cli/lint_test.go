package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// TestJudgingHeedsTheEnd: a program that is ended while it judges manifests prints no half of the answer.
func TestJudgingHeedsTheEnd(t *testing.T) {
	need.Cargo(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Cargo.toml": "[package]\nname = \"app\"\n[features]\ncuda = []\n[dependencies]\ncandle-core = { path = \"gpu\" }\n",
		"Cargo.lock": "version = 4\n", "lib.rs": "",
		"gpu/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\n[features]\ncuda = []\n", "gpu/lib.rs": "",
	} {
		text = strings.Replace(text, "[features]", "[lib]\npath = \"lib.rs\"\n[features]", 1)
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	m, err := session.Here(nil, &console.Shell{Out: io.Discard, Err: &said}, verify.RealDriver, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &invocation{Machine: m}
	a.CacheDir = t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = a.runLint(ctx, featuresOptions{}, cargo.Line{ManifestPath: filepath.Join(dir, "Cargo.toml")})
	if code := exit.Of(err); code != exit.Interrupted || said.Len() > 0 {
		t.Errorf("ended with %d: %v, and said %q", code, err, said.String())
	}
}
