package probe

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"gpubuild/buildenv"
	"gpubuild/buildenv/local"
)

// noRunner fails: a release compiles nothing.
type noRunner struct{}

func (noRunner) Run(context.Context, buildenv.Cmd) (buildenv.Result, error) {
	return buildenv.Result{}, errors.New("a compiler was started")
}

// TestAReleaseNeedsNoCompiler: what a release carries is written out, hashed and used; of a part alone nothing is.
func TestAReleaseNeedsNoCompiler(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	h.OS = buildenv.Linux
	for _, backend := range []Backend{CUDA, Vulkan} {
		carried := fstest.MapFS{}
		for _, p := range parts(buildenv.Linux, backend) {
			if carriedIn(carried, backend) != nil {
				t.Fatalf("%s is missing, and the others are taken", p.name)
			}
			carried[releasedDir+"/"+p.name] = &fstest.MapFile{Data: []byte("program " + p.name)}
		}
		p, err := build(t.Context(), h, noRunner{}, t.TempDir(), Compiler{}, backend, carriedIn(carried, backend))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{p.Library, p.Control, p.Watch} {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", file, info, err)
			}
		}
		if p.SourceHash != SourceHash() || p.Digest == "" {
			t.Errorf("%+v", p)
		}
		if _, err := build(t.Context(), h, noRunner{}, t.TempDir(), Compiler{}, backend, nil); err == nil || !strings.Contains(err.Error(), "no host compiler") {
			t.Errorf("without them: %v", err)
		}
	}
}
