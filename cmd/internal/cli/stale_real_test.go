//go:build linux

package cli_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/gpu/fatbin"
)

// twoToolkits is a copy of a sample with two real toolkits beside it.
type twoToolkits struct {
	t            *testing.T
	dir          string
	first, other string // roots
	env          []string
}

// sampleWithTwoToolkits copies testdata/matmul; it needs two toolkits of different versions.
func sampleWithTwoToolkits(t *testing.T) *twoToolkits {
	t.Helper()
	need.Asked(t, "long")
	roots := need.Toolkits(t, 2)
	first, other := roots[0], roots[1]
	from, err := filepath.Abs(filepath.Join(repository, "testdata", "matmul"))
	noError(t, err)
	need.Crates(t, from)
	if nvccVersion(t, first) == nvccVersion(t, other) {
		t.Fatal("both toolkits hold the same nvcc: nothing would be seen")
	}
	b := &twoToolkits{t: t, dir: filepath.Join(t.TempDir(), "matmul"), first: first, other: other}
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "target" {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(b.dir, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(b.dir, rel), data, 0o644)
	})
	noError(t, err)
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "CUDA") && !strings.HasPrefix(name, "NVCC") && !strings.HasPrefix(name, "GPUBUILD_") &&
			name != "CARGO_TARGET_DIR" {
			b.env = append(b.env, e)
		}
	}
	b.env = append(b.env, "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "GPUBUILD_CACHE="+filepath.Join(filepath.Dir(b.dir), "cache"))
	return b
}

var nvccSays = regexp.MustCompile(`V(\d+\.\d+\.\d+)`)

func nvccVersion(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(root, "bin", "nvcc"), "--version").Output()
	m := nvccSays.FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("nvcc of %s: %v\n%s", root, err, out)
	}
	return string(m[1])
}

func (b *twoToolkits) command(env []string, words ...string) *exec.Cmd {
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = b.dir, append(append([]string{}, b.env...), env...)
	return c
}

// cargo is plain cargo with a toolkit's nvcc first on PATH.
func (b *twoToolkits) cargo(root string) string {
	b.t.Helper()
	return b.must(b.command([]string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}, "cargo", "build", "--features",
		"cuda"))
}

// gpubuild builds with a toolkit for an architecture.
func (b *twoToolkits) gpubuild(root, arch string, more ...string) string {
	b.t.Helper()
	return b.must(b.command(nil, append([]string{binary(b.t), "build", "--features", "cuda", "--gpu-toolkit=" + root, "--gpu-arch", arch},
		more...)...))
}

func (b *twoToolkits) must(c *exec.Cmd) string {
	b.t.Helper()
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Run(); err != nil {
		b.t.Fatalf("%v: %v\n%s", c.Args, err, text.String())
	}
	return text.String()
}

var compiling = regexp.MustCompile(`(?m)^ +Compiling (\S+)`)

// rebuilt holds what cargo compiled against what it should have, in any order.
func (b *twoToolkits) rebuilt(story, text string, want ...string) {
	b.t.Helper()
	var got []string
	for _, m := range compiling.FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got) // which of two that do not depend on each other cargo starts first is a matter of the machine's load
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: rebuilt %q, want %q\n%s", story, got, want, text)
	}
}

var cleaning = regexp.MustCompile(`(?m)^ +Cleaned (.*)$`)

// cleaned holds what gpubuild had cargo clean against what it should have.
func (b *twoToolkits) cleaned(story, text, want string) {
	b.t.Helper()
	m := cleaning.FindStringSubmatch(text)
	if m == nil || m[1] != want {
		b.t.Errorf("%s: cleaned %q, want %q", story, m, want)
	}
}

// holds says that every cubin of the program is from this toolkit's nvcc and for this architecture ("" for any), and that there is one.
func (b *twoToolkits) holds(story, root, arch string) {
	b.t.Helper()
	h, err := local.Host()
	noError(b.t, err)
	r, err := fatbin.ScanFile(h, filepath.Join(b.dir, "target", "debug", "matmul"))
	noError(b.t, err)
	cubins := 0
	for _, im := range r.Images {
		if im.Kind != fatbin.Cubin {
			continue
		}
		cubins++
		if want := nvccVersion(b.t, root); im.Toolkit != want || arch != "" && im.Arch.String() != arch {
			b.t.Errorf("%s: the program holds %s code from nvcc %s, want %s from %s", story, im.Arch, im.Toolkit, arch, want)
		}
	}
	if cubins == 0 {
		b.t.Errorf("%s: the program holds no cubin: %+v", story, r)
	}
}

// TestStaleAfterAnotherNvcc shows that plain cargo keeps the kernels of a toolkit that is not used any more, and that gpubuild does not.
func TestStaleAfterAnotherNvcc(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	b.cargo(b.first)
	b.rebuilt("plain cargo with another nvcc first on PATH", b.cargo(b.other))
	b.holds("plain cargo is fooled", b.first, "")

	// The first run in an old target directory: nothing is recorded, so what holds kernels is made anew, and nothing else.
	text := b.gpubuild(b.other, "sm_90")
	// cargo itself makes cudarc anew, although it loads its libraries at run time and compiles nothing: its script declares CUDA_HOME
	// (rerun-if-env-changed), and matmul's own script reads the same variable. gpubuild cleans matmul alone.
	b.rebuilt("first run in an old target directory", text, "cudarc", "matmul")
	b.cleaned("first run in an old target directory", text, "matmul")
	b.holds("first run in an old target directory", b.other, "sm_90")
	b.rebuilt("nothing changed", b.gpubuild(b.other, "sm_90"))

	text = b.gpubuild(b.first, "sm_90")
	if !strings.Contains(text, "nvcc ") || !strings.Contains(text, "→") || !strings.Contains(text, ": matmul") {
		t.Errorf("no reason was said:\n%s", text)
	}
	b.rebuilt("another toolkit", text, "cudarc", "matmul")
	b.cleaned("another toolkit", text, "matmul")
	b.holds("another toolkit", b.first, "sm_90")

	// Two architectures, and back.
	b.rebuilt("another architecture", b.gpubuild(b.first, "sm_80"), "matmul")
	b.holds("another architecture", b.first, "sm_80")
	b.rebuilt("and back", b.gpubuild(b.first, "sm_90"), "matmul")
	b.holds("and back", b.first, "sm_90")

	// A slash at the end of the root is no reason.
	b.rebuilt("a slash at the end of the root", b.gpubuild(b.first+"/", "sm_90"))
	b.holds("a slash at the end of the root", b.first, "sm_90")

	// A feature set without kernels in between.
	b.must(b.command(nil, binary(t), "build"))
	b.gpubuild(b.other, "sm_90")
	b.holds("after a build without the feature", b.other, "sm_90")
}

// asks is gpubuild stale with a toolkit for an architecture.
func (b *twoToolkits) asks(root, arch string, more ...string) (string, int) {
	b.t.Helper()
	return b.says(append([]string{"stale", "--features", "cuda", "--toolkit=" + root, "--arch=" + arch}, more...)...)
}

// linkTo is a name that both toolkits are given in turn, so that no variable changes and cargo sees nothing either.
func (b *twoToolkits) linkTo() (link string, use func(root string)) {
	link = filepath.Join(filepath.Dir(b.dir), "cuda")
	return link, func(root string) {
		b.t.Helper()
		_ = os.Remove(link)
		noError(b.t, os.Symlink(root, link))
	}
}
