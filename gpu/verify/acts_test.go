package verify

import (
	"bufio"
	"bytes"
	"context"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/proc"
)

// actsFile has random programs of testdata/zoo/acts.c and what was said of them on a real GPU, a line each: verdict, tabulator, words. `.ci/gpu` writes it.
var actsFile = filepath.Join("..", "..", "testdata", "gpu", "acts.txt")

// acts are words of acts.c that a real driver understands, each as often as it is to be drawn.
var acts = strings.Fields(`product product product product launch launch launch fill sync sync stream own event query read read later
	refuse refuse finalize disable reset destroy cpu nap=20 in=0 in=1 joins mark marked elsewhere kept streams=3 streams=300
	alloc=70368744177664 try=70368744177664 try=1048576 tryload=0 tryload=1 ex together exec noise=3 lots=1 nospace handles vanish name=worker`)

// endings are how such a program ends; empty: it returns from main.
var endings = strings.Fields("- - - - - - exit=0 _exit=0 _exit=0 _exit=0 quick=0 exit=3 abort kill")

// randomActs is the nth random program, the same on every machine.
func randomActs(n int) []string {
	r := rand.New(rand.NewSource(int64(n)))
	words := []string{"driver"}
	block := ""
	for range 1 + r.Intn(6) {
		switch {
		case block != "" && r.Intn(2) == 0:
			words, block = append(words, "end"), ""
		case block == "" && r.Intn(12) == 0:
			block = pick(r, "atexit", "thread", "fork", "leave", "spawn")
			words = append(words, block)
			if block == "spawn" {
				words = append(words, "driver")
			}
			continue
		}
		words = append(words, pick(r, acts...))
	}
	if r.Intn(3) > 0 { // most launch something
		at := 1 + r.Intn(len(words))
		words = slices.Insert(words, at, pick(r, "product", "launch", "ex"))
	}
	if block != "" {
		words = append(words, "end")
	}
	if end := pick(r, endings...); end != "-" {
		words = append(words, end)
	}
	return words
}

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
