package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	const list = "gpubuild-files.json"
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
		os.WriteFile(at("include/stddef.h"), []byte("#error"), 0o644), // would be read instead of the compiler's
		os.MkdirAll(at("include/nv/inner"), 0o755), os.WriteFile(at("include/nv/inner/target"), nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	bad, err := Verify(context.Background(), h, Installed(h, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range bad {
		got = append(got, b.String())
	}
	want := []string{"bin/nvcc: has another content", "bin/nvcc.profile: can be written by everybody", "include/cuda.h: cannot be read: no such file or directory",
		"lib/libcudart.so: cannot be followed: no such file or directory", "lib/libcudart.so.13: has 0 bytes, not 11",
		"lib/libcupti.so.13: leads to " + filepath.Join(dir, "elsewhere"), "lib/stubs/libcuda.so: cannot be executed",
		"include/nv: was not put there by gpubuild", "include/stddef.h: was not put there by gpubuild"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := os.WriteFile(at(list), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if bad, _ := Verify(context.Background(), h, Installed(h, dir)[0]); len(bad) != 1 || bad[0].Path != list {
		t.Errorf("a list that was changed: %v", bad)
	}
}

// A directory without its marker, with a broken one or of a later schema is no toolkit.
func TestHalfToolkitsAreNotSeen(t *testing.T) {
	h, dir := testHost(t), t.TempDir()
	for name, marker := range map[string]string{"no-marker": "", "cut": `{"schema":1,"cuda":"13.`, "later": `{"schema":2,"cuda":"13.4","parts":[{}]}`, "bare": `{"schema":1}`,
		".staging-x": `{"schema":1,"cuda":"13.4","parts":[{}]}`} {
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
	half := Incomplete(h, dir)
	if len(half) != 4 || half[0].Name != "bare" {
		t.Errorf("incomplete: %+v", half)
	}
	for _, in := range half {
		if bad, err := Verify(context.Background(), h, in); err != nil || len(bad) != 1 || bad[0].Path != tree.MarkerFile {
			t.Errorf("verify %s: %v, %v", in.Name, bad, err)
		}
		if err := Remove(context.Background(), h, dir, in.Name, nil); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, toolkitsDir)); err != nil || len(Incomplete(h, dir)) > 0 || len(left) == 0 {
		t.Errorf("left %v, %v", left, err) // the staging of a run at work, and the lock
	}
	if in := Installed(h, filepath.Join(dir, "nowhere")); in != nil {
		t.Errorf("seen: %+v", in)
	}
}
