package install

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install/tree"
)

func TestVerifyFindsWhatChanged(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	root, err := plan(t, c, h, dir, Want{}).Run(context.Background(), &fakeWorld{shelf: s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(root, p) }
	for _, err := range []error{
		os.WriteFile(at("bin/nvcc"), []byte("#!nvcc 13.X"), 0o755),
		os.WriteFile(at("lib/libcudart.so.13"), nil, 0o644),
		os.Remove(at("include/cuda.h")),
		os.Remove(at("lib/libcudart.so")), os.Symlink("nowhere", at("lib/libcudart.so")),
		os.Chmod(at("lib/stubs/libcuda.so"), 0o644),
		os.Chmod(at("bin/nvcc.profile"), 0o666),
		os.WriteFile(filepath.Join(dir, "elsewhere"), []byte("cupti 13.4"), 0o644), // the same content, for now
		os.Remove(at("lib/libcupti.so.13")), os.Symlink(filepath.Join(dir, "elsewhere"), at("lib/libcupti.so.13")),
		os.WriteFile(at("include/unlisted.h"), nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	bad, err := Verify(context.Background(), h, rest(h, dir)[0]) // others may write to nvcc.profile
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range bad {
		got = append(got, b.String())
	}
	want := []string{"bin/nvcc: has another content", "bin/nvcc.profile: can be written by everybody", "include/cuda.h: cannot be read: no such file or directory",
		"lib/libcudart.so: cannot be followed: no such file or directory", "lib/libcudart.so.13: has 0 bytes, not 11",
		"lib/libcupti.so.13: leads to " + filepath.Join(dir, "elsewhere"), "lib/stubs/libcuda.so: cannot be executed"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	lists, _ := filepath.Glob(at("gpubuild-files-*.json"))
	if len(lists) != 1 {
		t.Fatalf("lists %v", lists)
	}
	if err := os.WriteFile(lists[0], []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at("bin/nvcc.profile"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := plan(t, c, h, dir, Want{Parts: []string{"all"}}).Run(context.Background(), &fakeWorld{shelf: s}, nil); err == nil {
		t.Error("something was added to a toolkit whose files are not known")
	}
	bad, _ = Verify(context.Background(), h, Installed(h, dir)[0])
	if len(bad) != 1 || bad[0].Path != filepath.Base(lists[0]) {
		t.Errorf("a list that was changed: %v", bad)
	}
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
	} else if bad, err := Verify(context.Background(), h, in[0]); err != nil || len(bad) > 0 {
		t.Errorf("%v, %v", bad, err)
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
	if bad, err := Verify(context.Background(), h, in[0]); err != nil || len(bad) > 0 || len(in) != 1 || !in[0].Has("cublas") || !in[0].Has("nvcc") {
		t.Errorf("%+v: %v, %v", in, bad, err)
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
		if bad, err := Verify(context.Background(), h, in); err != nil || len(bad) != 1 || bad[0].Path != tree.MarkerFile {
			t.Errorf("verify %s: %v, %v", in.Name, bad, err)
		}
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

// A program of a build that was installed and has vanished damages a toolkit; one that was never installed does not.
func TestAVanishedProgram(t *testing.T) {
	t.Parallel()
	h, dir := testHost(t), t.TempDir()
	root := filepath.Join(dir, toolkitsDir, "cuda-13.4")
	list, err := json.Marshal([]tree.File{{Path: "bin/nvcc", Size: 1}, {Path: "bin/ptxas", Size: 1}})
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(list))
	for name, text := range map[string]string{
		"bin/nvcc": "x", "bin/ptxas": "x", "gpubuild-files-" + sum[:16] + ".json": string(list),
		tree.MarkerFile: `{"schema":2,"cuda":"13.4","parts":[{"name":"nvcc"}],"list_sha256":"` + sum + `"}`,
	} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	kit := cuda.Toolkit{Root: root, Real: root}
	if damaged := Damaged(h, Installed(h, dir), kit); damaged != nil {
		t.Error(damaged)
	}
	if err := os.Truncate(filepath.Join(root, "bin", "ptxas"), 0); err != nil {
		t.Fatal(err)
	}
	if damaged := Damaged(h, Installed(h, dir), kit); damaged == nil || damaged.Problem != "bin/ptxas is empty" {
		t.Error(damaged)
	}
	if err := os.Remove(filepath.Join(root, "bin", "ptxas")); err != nil {
		t.Fatal(err)
	}
	damaged := Damaged(h, Installed(h, dir), kit)
	if damaged == nil || damaged.Problem != "bin/ptxas is missing" || damaged.Hint() != "gpubuild toolchain install 13.4" {
		t.Error(damaged)
	}
	if damaged := Damaged(h, Installed(h, dir), cuda.Toolkit{Root: dir, Real: dir}); damaged != nil {
		t.Error(damaged)
	}
}

// rest is what Toolkits lists behind the complete ones.
func rest(h buildenv.Host, cacheDir string) []Installation {
	_, out := Toolkits(h, cacheDir)
	return out
}
