package verify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/proc"
)

// actsFile has random programs of testdata/zoo/acts.c and what was said of them on a real GPU, a line each: verdict, tabulator, words. `.ci/gpu` writes it.
var actsFile = filepath.Join("..", "..", "testdata", "gpu", "acts.txt")

// TestActsAsOnAGPU runs the random programs on the stand-in driver: what is said of them is what was said on a real GPU.
func TestActsAsOnAGPU(t *testing.T) {
	need.Asked(t, "long")
	data, err := os.ReadFile(actsFile)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	z := newZooKeeper(t, l)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) < 100 {
		t.Fatalf("%s has only %d programs", actsFile, len(lines))
	}
	for _, line := range lines {
		want, words, _ := strings.Cut(line, "\t")
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			o := z.in(t).options(animal{Program: "acts", Args: strings.Fields(words)}, l.options(t))
			e, err := Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o)
			if err != nil {
				t.Fatal(err)
			}
			v := Judge(e, o.Rules)
			if v.Kind.String() != want {
				t.Errorf("%s: %s\non the GPU: %s", v.Kind, v.Why, want)
			}
		})
	}
}
