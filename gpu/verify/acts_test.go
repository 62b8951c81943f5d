package verify

import (
	"bufio"
	"bytes"
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
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		want, words, _ := strings.Cut(lines.Text(), "\t")
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			v := runActs(t, l, z, strings.Fields(words))
			if v.Kind.String() != want {
				t.Errorf("%s: %s\non the GPU: %s", v.Kind, v.Why, want)
			}
		})
	}
}

func runActs(t *testing.T, l *lab, z *zooKeeper, words []string) Verdict {
	t.Helper()
	o := z.in(t).options(animal{Program: "acts", Args: words}, l.options(t))
	e, err := Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o)
	if err != nil {
		t.Fatal(err)
	}
	return Judge(e, o.Rules)
}
