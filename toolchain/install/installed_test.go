package install

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/install/tree"
)

// partial lists what an installation that was cut off left in a toolkit, and whether its nvcc is not whole.
func partial(t *testing.T, in Installation) (bad []string) {
	t.Helper()
	err := filepath.WalkDir(in.Root, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".gpubuild-new") {
			bad = append(bad, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/nvcc", "include/cuda.h", "lib/stubs/libcuda.so"} {
		if fi, err := os.Stat(filepath.Join(in.Root, name)); err != nil || fi.Size() == 0 {
			bad = append(bad, name)
		}
	}
	return bad
}

// TestOneTreeOfAVersion: parts are added to it, its files stay, and of an earlier gpubuild's several trees the fullest counts.
func TestOneTreeOfAVersion(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	first := plan(t, c, h, dir, Want{})
	old := first
	old.Root += "-c6c75aa4"
	root, err := old.Run(context.Background(), &fakeWorld{shelf: s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(root, "bin", "nvcc"))
	if err != nil {
		t.Fatal(err)
	}
	// What an installation that was cut off leaves is in no list: it does not count, and the next one writes over it.
	half := filepath.Join(root, "lib", "libcublas.so.13")
	if err := os.WriteFile(half, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	cut := &fakeWorld{shelf: s, fail: func(what string, cmd buildenv.Cmd) error {
		if what == "download" {
			return exitsWith1(cmd, "network is down")
		}
		return nil
	}}
	if _, err := plan(t, c, h, dir, Want{Parts: []string{"cublas"}}).Run(context.Background(), cut, nil); err == nil {
		t.Fatal("no error")
	}
	if in := Installed(h, dir); len(in) != 1 || in[0].Has("cublas") {
		t.Errorf("%+v", in)
	}
	world := &fakeWorld{shelf: s}
	second := plan(t, c, h, dir, Want{Parts: []string{"cublas"}})
	if got, err := second.Run(context.Background(), world, nil); err != nil || got != root {
		t.Fatalf("%s, %v; want %s", got, err, root)
	}
	if data, err := os.ReadFile(half); err != nil || string(data) != "cublas 13.4" {
		t.Errorf("%q, %v", data, err)
	}
	if strings.Contains(world.asked, "nvcc") || !strings.Contains(world.asked, "cublas") {
		t.Errorf("fetched %s", world.asked)
	}
	after, err := os.Stat(filepath.Join(root, "bin", "nvcc"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("nvcc was replaced (%v)", err)
	}
	in := Installed(h, dir)
	if len(in) != 1 || !in[0].Has("cublas") || !in[0].Has("nvcc") || len(partial(t, in[0])) > 0 {
		t.Errorf("%+v", in)
	}
	if slices.Contains(in[0].Stubs(), "cublas") || !slices.Contains(in[0].Stubs(), "cudnn") || in[0].Bytes == 0 || in[0].Parts[3].Bytes == 0 {
		t.Errorf("%+v", in[0])
	}
	if p := plan(t, c, h, dir, Want{Parts: []string{"all"}}); !p.Installed || p.Root != root {
		t.Errorf("not installed: %+v", p)
	}
}

// A directory without its marker, with a broken one or of a later schema is no toolkit.
func TestHalfToolkitsAreNotSeen(t *testing.T) {
	h, dir := testHost(t), t.TempDir()
	for name, marker := range map[string]string{"no-marker": "", "cut": `{"schema":2,"cuda":"13.`, "later": `{"schema":3,"cuda":"13.4","parts":[{}]}`, "first": `{"schema":1,"cuda":"13.4","parts":[{}]}`, "bare": `{"schema":2}`,
		".staging-x": `{"schema":2,"cuda":"13.4","parts":[{}]}`} {
		root := filepath.Join(dir, toolkitsDir, name)
		if err := os.MkdirAll(root, 0o700); err != nil {
			t.Fatal(err)
		}
		if marker != "" {
			if err := os.WriteFile(filepath.Join(root, tree.MarkerFile), []byte(marker), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if in := Installed(h, dir); len(in) != 0 {
		t.Errorf("seen: %+v", in)
	}
	half := rest(h, dir)
	if len(half) != 5 || half[0].Name != "bare" {
		t.Errorf("incomplete: %+v", half)
	}
	release, err := cache.Lock(context.Background(), lockFile(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := rest(h, dir)[0].Unusable(); !strings.Contains(text, "another gpubuild is installing it (pid ") || strings.Contains(text, "remove") {
		t.Error(text)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	for _, in := range half {
		if err := Remove(context.Background(), h, dir, in.Name, nil); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, toolkitsDir)); err != nil || len(rest(h, dir)) > 0 || len(left) == 0 {
		t.Errorf("left %v, %v", left, err) // the staging of a run at work, and the lock
	}
	if in := Installed(h, filepath.Join(dir, "nowhere")); in != nil {
		t.Errorf("seen: %+v", in)
	}
}

// TestAVanishedProgram: without nvcc, or with an empty program, as after the loss of power, a toolkit is not used; it is installed again.
func TestAVanishedProgram(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	for want, damage := range map[string]func(string) error{
		"bin/nvcc is missing": func(root string) error { return os.Remove(filepath.Join(root, "bin", "nvcc")) },
		"bin/nvcc is empty":   func(root string) error { return os.Truncate(filepath.Join(root, "bin", "nvcc"), 0) },
	} {
		root, err := plan(t, c, h, dir, Want{}).Run(context.Background(), &fakeWorld{shelf: s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if in := Installed(h, dir); len(in) != 1 || len(partial(t, in[0])) > 0 {
			t.Fatalf("%+v", in)
		}
		if err := damage(root); err != nil {
			t.Fatal(err)
		}
		if in := rest(h, dir); len(in) != 1 || !strings.Contains(in[0].Unusable(), want) || len(Installed(h, dir)) != 0 {
			t.Errorf("%s: %+v", want, in)
		}
	}
}

// TestAToolkitThatWasDamagedMeanwhile: what was to be added to it alone makes no toolkit, and what is there is the user's to remove.
func TestAToolkitThatWasDamagedMeanwhile(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	for name, damage := range map[string]func(string) error{
		"no nvcc":   func(root string) error { return os.Remove(filepath.Join(root, "bin", "nvcc")) },
		"no marker": func(root string) error { return os.Remove(filepath.Join(root, tree.MarkerFile)) },
	} {
		h, dir := testHost(t), t.TempDir()
		root, err := plan(t, c, h, dir, Want{Parts: []string{"build"}}).Run(context.Background(), &fakeWorld{shelf: s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		more := plan(t, c, h, dir, Want{Parts: []string{"build", "cupti"}})
		if err := damage(root); err != nil {
			t.Fatal(err)
		}
		if _, err := more.Run(context.Background(), &fakeWorld{shelf: s}, nil); exit.Of(err) != exit.Missing {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(root, "include", "cuda.h")); err != nil {
			t.Errorf("%s: what was there is gone: %v", name, err)
		}
		if _, err := plan(t, c, h, dir, Want{Parts: []string{"build", "cupti"}}).Run(context.Background(), &fakeWorld{shelf: s}, nil); err != nil {
			t.Errorf("%s, planned again: %v", name, err)
		}
		if in := Installed(h, dir); len(in) != 1 || !in[0].Has("cupti") || len(partial(t, in[0])) > 0 {
			t.Errorf("%s, installed again: %+v", name, in)
		}
	}
}

// rest is what Toolkits lists behind the complete ones.
func rest(h buildenv.Host, cacheDir string) []Installation {
	_, out := Toolkits(h, cacheDir)
	return out
}
