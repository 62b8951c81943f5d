//go:build linux

package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/stale"
)

// runs is gpubuild build with a toolkit for an architecture; it answers what was said and the exit code.
func (b *twoToolkits) runs(root, arch string, more ...string) (string, int) {
	b.t.Helper()
	return b.says(append([]string{"build", "--features", "cuda", "--gpu-toolkit=" + root, "--gpu-arch", arch}, more...)...)
}

func (b *twoToolkits) says(words ...string) (string, int) {
	b.t.Helper()
	c := b.command(nil, append([]string{binary(b.t)}, words...)...)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return text.String(), c.ProcessState.ExitCode()
}

// ends runs a build and holds its code and how often it cleaned against what they should be; each of says must be in its words.
func (b *twoToolkits) ends(story, root, arch string, code, cleans int, says ...string) string {
	b.t.Helper()
	text, got := b.runs(root, arch)
	b.said(story, text, got, code, cleans, says...)
	return text
}

func (b *twoToolkits) said(story, text string, got, code, cleans int, says ...string) {
	b.t.Helper()
	if got != code {
		b.t.Errorf("%s: ended with %d, want %d", story, got, code)
	}
	if n := len(cleaning.FindAllString(text, -1)); n != cleans {
		b.t.Errorf("%s: cleaned %d times, want %d", story, n, cleans)
	}
	for _, s := range says {
		if not, ok := strings.CutPrefix(s, "!"); ok == strings.Contains(text, not) {
			b.t.Errorf("%s: %q", story, s)
		}
	}
	if b.t.Failed() {
		b.t.Fatal(text)
	}
}

// edit replaces text in a file of the sample; where it is not there, the test tests nothing.
func (b *twoToolkits) edit(file, old, new string) {
	b.t.Helper()
	path := filepath.Join(b.dir, file)
	data, err := os.ReadFile(path)
	noError(b.t, err)
	if !bytes.Contains(data, []byte(old)) {
		b.t.Fatalf("%s holds no %q", file, old)
	}
	b.write(file, bytes.ReplaceAll(data, []byte(old), []byte(new)))
}

func (b *twoToolkits) write(file string, data []byte) {
	b.t.Helper()
	path := filepath.Join(b.dir, file)
	noError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	noError(b.t, os.WriteFile(path, data, 0o644))
}

func (b *twoToolkits) remove(file string) {
	b.t.Helper()
	noError(b.t, os.Remove(filepath.Join(b.dir, file)))
}

// outDir is the newest OUT_DIR of the sample.
func (b *twoToolkits) outDir() string {
	b.t.Helper()
	all, err := filepath.Glob(filepath.Join(b.dir, "target", "debug", "build", "matmul-*", "out"))
	if err != nil || len(all) != 1 {
		b.t.Fatalf("OUT_DIRs: %q, %v", all, err)
	}
	return all[0]
}

// unstamp removes the stamps of the sample.
func (b *twoToolkits) unstamp() {
	b.t.Helper()
	list, err := filepath.Glob(filepath.Join(b.dir, "target", "debug", "build", "matmul-*", stale.StampFile))
	if err != nil || len(list) == 0 {
		b.t.Fatalf("no stamp: %v", err)
	}
	for _, path := range list {
		noError(b.t, os.Remove(path))
	}
}

// TestUnstampedBuild takes away what is known of a build: it is built once more, and then known. A stamp survives what CI's caches do to a
// directory.
func TestUnstampedBuild(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	b.gpubuild(b.first, "sm_90")
	now := time.Now()
	for _, name := range []string{"invoked.timestamp", "output"} {
		noError(t, os.Chtimes(filepath.Join(filepath.Dir(b.outDir()), name), now, now))
	}
	b.ends("a cache of CI with new times", b.first, "sm_90", 0, 0, "!Unknown", "!Stale")
	const why = "Unknown matmul: there is no record of what it was built with"
	b.unstamp()
	text := b.ends("no stamp", b.first, "sm_90", 0, 1, why)
	b.rebuilt("no stamp", text, "matmul")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!Unknown"))
	b.unstamp()
	text, code := b.says("stale", "--features", "cuda", "--toolkit="+b.other, "--arch=sm_90")
	b.said("gpubuild stale", text, code, 13, 0, "unknown: matmul: there is no record of what it was built with")
	b.ends("another toolkit", b.other, "sm_90", 0, 1, why)
	b.holds("another toolkit", b.other, "sm_90")
}

// TestScriptWithItsOwnNvcc has a build script that takes no notice of what is chosen: one warning where it ran, and none while nothing changes.
func TestScriptWithItsOwnNvcc(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	fixed := `let nvcc = Nvcc { program: "` + b.other + `/bin/nvcc".into(), origin: "its own head" };`
	b.edit("build.rs", "let nvcc = Nvcc::find();", fixed)
	b.edit("build.rs", "    fn find() -> Nvcc {", "    #[allow(dead_code)]\n    fn find() -> Nvcc {")
	const warning = "warning: matmul did not use the chosen nvcc: it holds "
	b.ends("its own nvcc", b.first, "sm_90", 0, 0, warning, " from nvcc "+nvccVersion(t, b.other)+"; nvcc ", "so every file of the package counts")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!warning"))
}

// TestWithoutAUnitGraph has settings that keep cargo from being asked for its unit graph: what the build needs is known from the manifests,
// and what is not known is said.
func TestWithoutAUnitGraph(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	b.write(filepath.Join(".cargo", "config.toml"), []byte("[unstable]\nmtime-on-use = true\n"))
	text := b.gpubuild(b.first, "sm_90")
	for _, want := range []string{"features.unknown", "nothing is rebuilt"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	b.holds("the toolkit", b.first, "sm_90")
}
