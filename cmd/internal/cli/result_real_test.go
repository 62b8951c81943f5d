//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

const recordFile = "target/.gpubuild-record.json"

// TestUnrecordedBuild takes away what is known of a build, in each way in which that happens, and sees it taken over when it is right and made anew
// when it is not.
func TestUnrecordedBuild(t *testing.T) {
	b := sampleWithTwoToolkits(t)
	b.gpubuild(b.first, "sm_90")
	stamp := filepath.Join(filepath.Dir(b.outDir()), "invoked.timestamp")
	for _, tt := range []struct {
		story string
		lose  func()
		why   string
	}{
		{"a cache of CI without the record", func() { b.remove(recordFile) }, "no earlier build of it is recorded"},
		{"a record that cannot be read", func() { b.write(recordFile, []byte("{")) }, "no earlier build of it is recorded"},
		{"a cache of CI with new times, or a run of plain cargo", func() {
			now := time.Now()
			if err := os.Chtimes(stamp, now, now); err != nil {
				t.Fatal(err)
			}
		}, "its build script has run since without gpubuild"},
	} {
		tt.lose()
		text := b.ends(tt.story, b.first, "sm_90", 0, 0, "Adopted matmul: "+tt.why, "taken on trust: ")
		b.rebuilt(tt.story, text)
		b.rebuilt(tt.story+", and once more", b.ends(tt.story, b.first, "sm_90", 0, 0, "!Adopted"))

		tt.lose()
		text = b.ends(tt.story+", another architecture", b.first, "sm_80", 0, 1, "Stale arch ", "→ sm_80: matmul", "!Adopted")
		b.rebuilt(tt.story, text, "matmul")
		b.holds(tt.story, b.first, "sm_80")
		b.gpubuild(b.first, "sm_90")
	}
	b.remove(recordFile)
	text, code := b.says("stale", "--features", "cuda", "--toolkit="+b.other, "--arch=sm_90")
	b.said("gpubuild stale", text, code, 13, 0, "nvcc "+nvccVersion(t, b.first)+" → "+nvccVersion(t, b.other)+": matmul")
	b.ends("another toolkit", b.other, "sm_90", 0, 1, "Stale nvcc "+nvccVersion(t, b.first)+" → "+nvccVersion(t, b.other)+": matmul")
	b.holds("another toolkit", b.other, "sm_90")

	// Without device code nothing can be told: cleaned once, with the reason.
	b.remove(recordFile)
	entries, err := os.ReadDir(b.outDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(b.outDir(), e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	b.ends("an empty OUT_DIR", b.other, "sm_90", 0, 1, "Unknown matmul: no earlier build of it is recorded, and its output directory holds no device code")
	b.holds("an empty OUT_DIR", b.other, "sm_90")
}

// TestScriptWithItsOwnNvcc has a build script that takes no notice of what it is told: one clean, then the evidence and 13, and no clean any more until
// something has changed.
func TestScriptWithItsOwnNvcc(t *testing.T) {
	b := sampleWithTwoToolkits(t)
	find := "let nvcc = Nvcc::find();"
	fixed := `let nvcc = Nvcc { program: "` + b.other + `/bin/nvcc".into(), origin: "its own head" };`
	b.edit("build.rs", find, fixed)
	b.edit("build.rs", "    fn find() -> Nvcc {", "    #[allow(dead_code)]\n    fn find() -> Nvcc {")
	b.cargo(b.first)
	was, asked := nvccVersion(t, b.other), nvccVersion(t, b.first)
	evidence := []string{"error: matmul holds ", "code from nvcc " + was + "; the build asked for sm_90 from " + asked, "matmul.fatbin: kernel matmul: ", "hint: its build script does not use " + b.first}
	b.ends("its own nvcc", b.first, "sm_90", 13, 1, evidence...)
	text := b.ends("once more", b.first, "sm_90", 13, 0, evidence...)
	b.rebuilt("once more", text)

	b.edit("build.rs", fixed, find)
	b.ends("mended", b.first, "sm_90", 0, 0, "!error")
	b.holds("mended", b.first, "sm_90")
}

// TestScriptWithItsOwnArchitecture has a build script that compiles for one architecture whatever it is told, as flash-attn does.
func TestScriptWithItsOwnArchitecture(t *testing.T) {
	b := sampleWithTwoToolkits(t)
	b.edit("build.rs", "Ok(Some(bare))", `Ok(Some("80".to_string()))`)
	const note = "note: matmul holds sm_80 code; the build asked for sm_"
	b.ends("built from nothing", b.first, "sm_90", 0, 0, note, "chooses the architecture itself")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!note: matmul", "!Cleaned"))

	// The script runs again, since it watches the variable; what it makes is told once for what was asked now.
	b.ends("another architecture is asked", b.first, "sm_86", 0, 1, note, "asked for sm_86")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_86", 0, 0, "!note: matmul"))

	// Without a record it is still known that this is its own choice.
	b.remove(recordFile)
	b.rebuilt("no record", b.ends("no record", b.first, "sm_86", 0, 0, "Adopted matmul"))

	// Nothing of it runs on what was asked for.
	evidence := []string{"error: matmul holds sm_80 code", "asked for sm_75", "hint: ask for an architecture that matmul is built for"}
	b.ends("older than its own", b.first, "sm_75", 13, 1, evidence...)
	b.rebuilt("older than its own, once more", b.ends("once more", b.first, "sm_75", 13, 0, evidence...))

	// In an old target directory it is built anew once, because until then it may have been a leftover.
	b.remove(recordFile)
	if err := os.RemoveAll(filepath.Join(filepath.Dir(b.dir), "cache", "memo", "accepted-1")); err != nil {
		t.Fatal(err)
	}
	b.ends("an old target directory", b.first, "sm_90", 0, 1, note)
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!note: matmul"))
}

// TestRecordThatLies has a record that says that all is right while the device code is of another toolkit: only the code itself tells.
func TestRecordThatLies(t *testing.T) {
	b := sampleWithTwoToolkits(t)
	// One name for both toolkits, so that no variable changes and cargo sees nothing either.
	link := filepath.Join(filepath.Dir(b.dir), "cuda")
	use := func(root string) {
		t.Helper()
		_ = os.Remove(link)
		if err := os.Symlink(root, link); err != nil {
			t.Fatal(err)
		}
	}
	type record struct {
		Schema  int              `json:"schema"`
		Entries []map[string]any `json:"entries"`
	}
	read := func() (r record) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(b.dir, recordFile))
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(data))
			d.UseNumber()
			err = d.Decode(&r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	use(b.other)
	b.gpubuild(link, "sm_90")
	right := read()
	if err := os.RemoveAll(filepath.Join(b.dir, "target")); err != nil {
		t.Fatal(err)
	}
	use(b.first)
	b.gpubuild(link, "sm_90")
	old, err := os.ReadFile(filepath.Join(b.dir, "target", "debug", "matmul"))
	if err != nil {
		t.Fatal(err)
	}
	lie := func() {
		t.Helper()
		now := read()
		if len(now.Entries) != 1 || len(right.Entries) != 1 {
			t.Fatalf("%d and %d entries", len(now.Entries), len(right.Entries))
		}
		now.Entries[0]["inputs"] = right.Entries[0]["inputs"]
		data, err := json.Marshal(now)
		if err != nil {
			t.Fatal(err)
		}
		b.write(recordFile, data)
	}
	lie()
	use(b.other)
	text, code := b.runs(link, "sm_90", "--gpu-no-clean")
	b.said("--gpu-no-clean", text, code, 13, 0, "code from nvcc "+nvccVersion(t, b.first)+"; the build asked for sm_90 from "+nvccVersion(t, b.other), "hint: leave --gpu-no-clean out")
	b.holds("--gpu-no-clean", b.first, "sm_90")

	text, code = b.says("check", "--features", "cuda", "--gpu-toolkit="+link, "--gpu-arch=sm_90", "--gpu-no-clean")
	b.said("check", text, code, 13, 0, "code from nvcc "+nvccVersion(t, b.first))

	text = b.ends("a lying record", link, "sm_90", 0, 1, "Wrong matmul holds ", "code from nvcc "+nvccVersion(t, b.first)+"; the build asked for sm_90 from "+nvccVersion(t, b.other))
	b.rebuilt("a lying record", text, "matmul")
	b.holds("a lying record", b.other, "sm_90")
	b.rebuilt("once more", b.ends("once more", link, "sm_90", 0, 0))

	// The code is right, and the program is an old one that cargo takes for its own.
	program, err := os.OpenFile(filepath.Join(b.dir, "target", "debug", "matmul"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.Write(old); err != nil {
		t.Fatal(err)
	}
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	b.holds("an old program", b.first, "sm_90")
	b.ends("an old program", link, "sm_90", 0, 1, "Wrong target/debug/matmul holds ", "of matmul, which was built since")
	b.holds("an old program, mended", b.other, "sm_90")
}

// TestShippedKernels has a package that brings compiled kernels along and copies them: nobody asked for what is in them, and it is told once.
func TestShippedKernels(t *testing.T) {
	b := sampleWithTwoToolkits(t)
	out := filepath.Join(b.dir, "kernels", "shipped.cubin")
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	b.must(exec.Command(filepath.Join(b.other, "bin", "nvcc"), "-cubin", "-arch=sm_80", "-o", out, filepath.Join(b.dir, "src", "matmul.cu")))
	copying := "    nvcc.run(\"-fatbin\""
	b.edit("build.rs", copying, "    std::fs::copy(\"kernels/shipped.cubin\", out.join(\"copied.cubin\")).map_err(|e| e.to_string())?;\n"+copying)
	// Its source lies there, too, so that it may as well be a leftover that the script takes for good: that is said once, and is no error.
	b.ends("shipped with the package", b.first, "sm_90", 0, 0, "note: matmul holds sm_80 code", "it is copied from a compiled kernel that lies in the package's sources", "!error", "!Wrong")
	b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!note: matmul"))

	// The same file from elsewhere: its kernel is the package's own, so another nvcc made it. It was copied in this very run: no clean would help.
	if err := os.Rename(filepath.Join(b.dir, "kernels"), filepath.Join(b.dir, "..", "kernels")); err != nil {
		t.Fatal(err)
	}
	b.edit("build.rs", "\"kernels/shipped.cubin\"", "\"../kernels/shipped.cubin\"")
	b.ends("from elsewhere", b.first, "sm_90", 13, 0, "error: matmul holds sm_80 code from nvcc "+nvccVersion(t, b.other), "copied.cubin: kernel matmul")
}

// TestCodeOutsideOfOutDir has a build script that keeps what it compiles beside the package, where no clean reaches it: the library tells.
func TestCodeOutsideOfOutDir(t *testing.T) {
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
	text := b.ends("another toolkit", b.first, "sm_90", 13, 1, "Stale nvcc", "error: matmul holds ", " from nvcc "+nvccVersion(t, b.other), "libmatmul.rlib: ")
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

// TestWithoutAUnitGraph has settings that keep cargo from being asked for its unit graph: what is compiled is known from the tree and the manifests, and
// a toolkit that was replaced in its place is seen all the same.
func TestWithoutAUnitGraph(t *testing.T) {
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
