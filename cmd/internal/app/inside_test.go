//go:build linux

package app_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/cmd/internal/app"
)

// BenchmarkInside is `gpubuild features` with nothing changed, without the price of a process: made for -cpuprofile. GPUBUILD_BENCH_PROJECT and
// GPUBUILD_BENCH_ARGS name another project and other words than --features cuda; with GPUBUILD_BENCH_ANEW nothing is kept from one time to the next.
func BenchmarkInside(b *testing.B) {
	dir := os.Getenv("GPUBUILD_BENCH_PROJECT")
	if dir == "" {
		dir = filepath.Join(repository, "testdata", "entrenar")
	}
	if !crates(dir) {
		b.Skip("its crates are not on this machine")
	}
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
	if given := os.Getenv("GPUBUILD_BENCH_ARGS"); given != "" {
		args = given
	}
	words := strings.Fields("gpubuild features " + args)
	b.ResetTimer()
	for range b.N {
		if os.Getenv("GPUBUILD_BENCH_ANEW") != "" {
			forget(b, kept)
		}
		if code := app.Main(words, strings.NewReader(""), io.Discard, io.Discard); code != 0 && code != 10 {
			b.Fatal(code)
		}
	}
}

// forget takes kept answers away, so that everything is found out anew; what cargo keeps of rustc stays.
func forget(b *testing.B, cache string) {
	b.Helper()
	if err := os.RemoveAll(filepath.Join(cache, "answers")); err != nil {
		b.Fatal(err)
	}
}
