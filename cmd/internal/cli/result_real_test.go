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
	if err != nil {
		b.t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		b.t.Fatalf("%s holds no %q", file, old)
	}
	b.write(file, bytes.ReplaceAll(data, []byte(old), []byte(new)))
}

func (b *twoToolkits) write(file string, data []byte) {
	b.t.Helper()
	path := filepath.Join(b.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *twoToolkits) remove(file string) {
	b.t.Helper()
	if err := os.Remove(filepath.Join(b.dir, file)); err != nil {
		b.t.Fatal(err)
	}
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
		if err := os.Remove(path); err != nil {
			b.t.Fatal(err)
		}
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
		if err := os.Chtimes(filepath.Join(filepath.Dir(b.outDir()), name), now, now); err != nil {
			t.Fatal(err)
		}
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

// TestScriptWithItsOwnNvcc has a build script that takes no notice of what it is told: one clean, then the evidence and 13, and no clean
// any more until something has changed.
func TestScriptWithItsOwnNvcc(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	find := "let nvcc = Nvcc::find();"
	fixed := `let nvcc = Nvcc { program: "` + b.other + `/bin/nvcc".into(), origin: "its own head" };`
	b.edit("build.rs", find, fixed)
	b.edit("build.rs", "    fn find() -> Nvcc {", "    #[allow(dead_code)]\n    fn find() -> Nvcc {")
	b.cargo(b.first)
	was, asked := nvccVersion(t, b.other), nvccVersion(t, b.first)
	evidence := []string{"error: matmul holds ", "code from nvcc " + was + "; the build asked for sm_90 from " + asked,
		"matmul.fatbin: kernel matmul: ", "hint: its build script does not use " + b.first}
	b.ends("its own nvcc", b.first, "sm_90", 13, 1, evidence...)
	text := b.ends("once more", b.first, "sm_90", 13, 0, evidence[0], evidence[1], evidence[3])
	b.rebuilt("once more", text)

	b.edit("build.rs", fixed, find)
	b.ends("mended", b.first, "sm_90", 0, 0, "!error")
	b.holds("mended", b.first, "sm_90")
}

// TestScriptWithItsOwnArchitecture has a build script that compiles for one architecture whatever it is told, as flash-attn does.
func TestScriptWithItsOwnArchitecture(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	b.edit("build.rs", "Ok(Some(bare))", `Ok(Some("80".to_string()))`)
	const note = "note: matmul holds sm_80 code; the build asked for sm_"
	b.ends("built from nothing", b.first, "sm_90", 0, 0, note, "chooses the architecture itself")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!note: matmul", "!Cleaned"))

	// The script runs again, since it watches the variable; what it makes is told once for what was asked now.
	b.ends("another architecture is asked", b.first, "sm_86", 0, 1, note, "asked for sm_86")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_86", 0, 0, "!note: matmul"))

	// Nothing of it runs on what was asked for.
	evidence := []string{"error: matmul holds sm_80 code", "asked for sm_75", "hint: request an architecture that matmul is built for"}
	b.ends("older than its own", b.first, "sm_75", 13, 1, evidence...)
	b.rebuilt("older than its own, once more", b.ends("once more", b.first, "sm_75", 13, 0, evidence...))
}

// TestStampThatLies has a stamp that says that all is right while the device code is of another toolkit: the code itself tells.
func TestStampThatLies(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	link, use := b.linkTo()
	read := func() (path string, s stale.Stamp) {
		t.Helper()
		path = filepath.Join(filepath.Dir(b.outDir()), stale.StampFile)
		data, err := os.ReadFile(path)
		if err == nil {
			s, err = stale.Decode(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path, s
	}
	use(b.other)
	b.gpubuild(link, "sm_90")
	_, right := read()
	if err := os.RemoveAll(filepath.Join(b.dir, "target")); err != nil {
		t.Fatal(err)
	}
	use(b.first)
	b.gpubuild(link, "sm_90")
	path, lie := read()
	lie.Inputs = right.Inputs
	data, err := lie.Encode()
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	use(b.other)
	evidence := "matmul: holds sm_90 code from nvcc " + nvccVersion(t, b.first) + "; the build asked for sm_90 from " +
		nvccVersion(t, b.other)
	text, code := b.runs(link, "sm_90", "--gpu-no-clean")
	b.said("--gpu-no-clean", text, code, 13, 0, "Unknown "+evidence, "hint: leave --gpu-no-clean out")
	text, code = b.asks(link, "sm_90")
	b.said("gpubuild stale", text, code, 13, 0, "unknown: "+evidence)
	b.holds("nothing was changed", b.first, "sm_90")
	b.rebuilt("cleaned", b.ends("cleaned", link, "sm_90", 0, 1, "Unknown "+evidence), "matmul")
	b.holds("cleaned", b.other, "sm_90")
	b.rebuilt("once more", b.ends("once more", link, "sm_90", 0, 0))
}

// TestShippedKernels has a package that brings compiled kernels along and copies them: nobody asked for what is in them, and it is told
// once.
func TestShippedKernels(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	out := filepath.Join(b.dir, "kernels", "shipped.cubin")
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	b.must(exec.Command(filepath.Join(b.other, "bin", "nvcc"), "-cubin", "-arch=sm_80", "-o", out,
		filepath.Join(b.dir, "src", "matmul.cu")))
	copying := "    nvcc.run(\"-fatbin\""
	b.edit("build.rs", copying, "    std::fs::copy(\"kernels/shipped.cubin\", out.join(\"copied.cubin\")).map_err(|e| e.to_string())?;\n"+
		copying)
	// Its source lies there, too, so that it may as well be a leftover that the script takes for good: that is said once, and is no error.
	b.ends("shipped with the package", b.first, "sm_90", 0, 0, "note: matmul holds sm_80 code",
		"it is a copy of a compiled kernel that is checked in with the package's sources", "!error", "!Wrong")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!note: matmul"))

	// The same file from elsewhere: its kernel is the package's own, so another nvcc made it. It is built from nothing once before that is
	// said.
	if err := os.Rename(filepath.Join(b.dir, "kernels"), filepath.Join(b.dir, "..", "kernels")); err != nil {
		t.Fatal(err)
	}
	b.edit("build.rs", "\"kernels/shipped.cubin\"", "\"../kernels/shipped.cubin\"")
	b.ends("from elsewhere", b.first, "sm_90", 13, 1, "error: matmul holds sm_80 code from nvcc "+nvccVersion(t, b.other),
		"copied.cubin: kernel matmul")
}

// TestCodeOutsideOfOutDir has a build script that keeps what it compiles beside the package, where no clean reaches it: the library tells.
func TestCodeOutsideOfOutDir(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	keep := filepath.Join(filepath.Dir(b.dir), "kept")
	if err := os.Mkdir(keep, 0o755); err != nil {
		t.Fatal(err)
	}
	b.edit("build.rs", `PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo has not set OUT_DIR")?)`, `PathBuf::from("`+keep+`")`)
	run := "    nvcc.run(\"-fatbin\""
	b.edit("build.rs", run, "    if out.join(\"matmul.ptx\").exists() { return Ok(()); }\n"+run)
	b.edit("src/gpu.rs", `concat!(env!("OUT_DIR"), "/matmul.`, `concat!("`+keep+`", "/matmul.`)
	b.gpubuild(b.other, "sm_90")
	b.holds("built from nothing", b.other, "sm_90")
	text := b.ends("another toolkit", b.first, "sm_90", 13, 1, "Stale nvcc", "error: matmul holds ", " from nvcc "+nvccVersion(t, b.other),
		"libmatmul.rlib: ")
	b.rebuilt("another toolkit", text, "cudarc", "matmul")

	for _, name := range []string{"matmul.ptx", "matmul.fatbin"} {
		if err := os.Remove(filepath.Join(keep, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, code := b.runs(b.first, "sm_90", "--gpu-force-clean")
	b.said("emptied by hand", text, code, 0, 1, "!error")
	b.holds("emptied by hand", b.first, "sm_90")
}

// TestWithoutAUnitGraph has settings that keep cargo from being asked for its unit graph: what is compiled is known from the tree and the
// manifests, and a toolkit that was replaced in its place is seen all the same.
func TestWithoutAUnitGraph(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	link := filepath.Join(filepath.Dir(b.dir), "cuda")
	use := func(root string) {
		t.Helper()
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(root, link); err != nil {
			t.Fatal(err)
		}
	}
	b.write(filepath.Join(".cargo", "config.toml"), []byte("[unstable]\nmtime-on-use = true\n"))
	use(b.first)
	if text := b.gpubuild(link, "sm_90"); !strings.Contains(text, "(cargo tree") {
		t.Fatalf("cargo was asked for its unit graph:\n%s", text)
	}
	b.holds("the first toolkit", b.first, "sm_90")
	b.rebuilt("nothing changed", b.gpubuild(link, "sm_90"))
	use(b.other)
	b.rebuilt("another toolkit in its place", b.gpubuild(link, "sm_90"), "matmul")
	b.holds("another toolkit in its place", b.other, "sm_90")
}
