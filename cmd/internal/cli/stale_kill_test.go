//go:build linux

package cli_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/stale"
)

// lots is a source of chance that GPUBUILD_TEST=seed=N moves elsewhere.
func lots(t *testing.T) (*rand.Rand, uint64) {
	t.Helper()
	seed := uint64(need.Count(t, "seed", 6))
	return rand.New(rand.NewPCG(seed, 0)), seed
}

// killed ends gpubuild or what it runs at random points, with the signal that nobody can catch. The next run must be right each time, and
// know it: the one after has nothing to do.
func (k *kernels) killed() {
	n := need.Count(k.t, "kill", 3)
	r, seed := lots(k.t)
	k.ready(small, k.usual("a"))
	began := time.Now()
	k.must(k.gpubuild(k.usual("b"), small))
	whole := time.Since(began)
	hit := map[string]int{}
	for i := range n {
		tree, arch := []string{"a", "b"}[r.IntN(2)], []string{"80", "90"}[r.IntN(2)]
		victim := []string{"gpubuild", "cargo", "nvcc", "everything"}[r.IntN(4)]
		env := k.usual(tree, "CUDA_COMPUTE_CAP="+arch, "GPUBUILD_TEST_MARK="+k.dir)
		delay := time.Duration(r.Int64N(int64(whole)))
		story := fmt.Sprintf("seed %d, round %d: nvcc %s for sm_%s, %s killed after %v", seed, i, k.version[tree], arch, victim,
			delay.Round(time.Millisecond))

		c := k.command(env, binary(k.t), "build", "-p", "kernels", "--features", small)
		var text bytes.Buffer
		c.Stdout, c.Stderr = &text, &text
		c.WaitDelay = time.Second // what is left of it may hold the pipe for longer
		noError(k.t, c.Start())
		done := make(chan struct{})
		go func() { _ = c.Wait(); close(done) }()
		select { // a whole run was measured when the machine may have had more to do
		case <-done:
		case <-time.After(delay):
		}
		if kill(k.t, "GPUBUILD_TEST_MARK="+k.dir, victim, done) {
			hit[victim]++
		}
		<-done
		if c.ProcessState.ExitCode() == 0 {
			if wrong := k.wrong(tree, arch); wrong != "" {
				k.t.Errorf("%s: it ended with 0 all the same, and %s\n%s", story, wrong, text.String())
			}
		}

		// Whoever was left alone is still at work when the next one comes, which is asked for something else half of the time.
		if r.IntN(2) == 0 {
			tree, arch = []string{"a", "b"}[r.IntN(2)], []string{"80", "90"}[r.IntN(2)]
			env = k.usual(tree, "CUDA_COMPUTE_CAP="+arch)
		}
		story += fmt.Sprintf(", then nvcc %s for sm_%s", k.version[tree], arch)
		next, code := k.gpubuild(env, small)
		if code != 0 {
			k.t.Fatalf("%s: ended with %d\n%s\nthe killed one:\n%s", story, code, next, text.String())
		}
		if wrong := k.wrong(tree, arch); wrong != "" {
			k.t.Fatalf("%s: %s\n%s\nthe killed one:\n%s", story, wrong, next, text.String())
		}
		k.record(story)
		if again := k.must(k.gpubuild(env, small)); len(compiled(again)) > 0 || didClean(again) {
			k.t.Errorf("%s: and again: something was done\n%s", story, again)
		}
	}
	k.t.Logf("%d rounds, seed %d; a run takes %v; killed in time: %v", n, seed, whole.Round(time.Millisecond), hit)
	if len(hit) == 0 {
		k.t.Error("nothing was killed in time: nothing was tested")
	}
}

// kill ends the processes with a mark in their environment that play a part, waiting for one to appear for as long as the whole goes on. It
// answers whether there was one.
func kill(t *testing.T, mark, victim string, done <-chan struct{}) bool {
	t.Helper()
	plays := func(program string) bool {
		switch victim {
		case "everything":
			return true
		case "nvcc":
			return slices.Contains([]string{"nvcc", "cicc", "ptxas", "cudafe++", "fatbinary"}, program)
		}
		return program == victim
	}
	for {
		found := false
		for _, pid := range marked(t, mark) {
			exe, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
			if err != nil || !plays(filepath.Base(exe)) {
				continue
			}
			if n, err := strconv.Atoi(pid); err == nil && syscall.Kill(n, syscall.SIGKILL) == nil {
				found = true
			}
		}
		if found {
			return true
		}
		select {
		case <-done:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// wrong says what is wrong with the program that was built for an architecture with a tree's nvcc; empty when nothing is.
func (k *kernels) wrong(tree, arch string) string {
	k.t.Helper()
	if _, err := os.Stat(k.program()); err != nil {
		return "there is no program"
	}
	is := k.held(k.program())
	if got, want := k.of(tree, is), kernelsOf(small); !slices.Equal(got, want) {
		return fmt.Sprintf("from nvcc %s are %q, want %q: %+v", k.version[tree], got, want, is)
	}
	for _, have := range archs(is) {
		if _, digits, _ := strings.Cut(have, " "); strings.TrimSuffix(digits, "a") != arch {
			return "it holds " + have + ", want " + arch
		}
	}
	return ""
}

// record reads the stamps of the target directory, of which there must be some, and all whole.
func (k *kernels) record(story string) {
	k.t.Helper()
	for _, path := range k.stamps("*") {
		data, err := os.ReadFile(path)
		if err == nil {
			_, err = stale.Decode(data)
		}
		if err != nil {
			k.t.Fatalf("%s: %s: %v\n%s", story, path, err, data)
		}
	}
}

// stamps lists those of a package; there must be one.
func (k *kernels) stamps(name string) []string {
	k.t.Helper()
	list, err := filepath.Glob(k.now("target", "*", "build", "kernels-"+name+"-*", stale.StampFile))
	noError(k.t, err)
	return list
}
