//go:build linux

package cli_test

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/cli"
)

var anew = flag.Bool("anew", false, "let BenchmarkInside keep nothing from one time to the next")

// BenchmarkInside is `gpubuild features` with nothing changed, without the price of a process: made for -cpuprofile.
// GPUBUILD_TEST=project=DIR names another project, args=… other words than --features cuda; with -anew nothing is kept from one time to the
// next.
func BenchmarkInside(b *testing.B) {
	dir := need.Given("project")
	if dir == "" {
		dir = filepath.Join(repository, "testdata", "entrenar")
	}
	needCrates(b, dir)
	kept := b.TempDir()
	b.Setenv("GPUBUILD_CACHE", kept)
	before, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		b.Fatal(err)
	}
	defer os.Chdir(before)
	args := "--features cuda"
	if given := need.Given("args"); given != "" {
		args = given
	}
	words := strings.Fields("gpubuild features " + args)
	b.ResetTimer()
	for range b.N {
		if *anew {
			forget(b, kept)
		}
		if code := cli.Main(words, strings.NewReader(""), io.Discard, io.Discard); code != 0 && code != 10 {
			b.Fatal(code)
		}
	}
}

// forget takes cargo's kept answers away, so that it is asked again; what is known of files by their content stays.
func forget(b *testing.B, cache string) {
	b.Helper()
	graphs, err := filepath.Glob(filepath.Join(cache, "memo", "graph-*"))
	for _, g := range graphs {
		err = errors.Join(err, os.RemoveAll(g))
	}
	if err != nil {
		b.Fatal(err)
	}
}
