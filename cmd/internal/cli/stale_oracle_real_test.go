//go:build linux

package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

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
		if err := os.Symlink(root, link); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestStaleKnowsWhatWasConcluded: what building anew did not mend is told as that, with what to do; what was told to stay is no reason to
// end with 13.
func TestStaleKnowsWhatWasConcluded(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	b.edit("build.rs", "Ok(Some(bare))", `Ok(Some("80".to_string()))`)
	text, code := b.asks(b.first, "sm_90")
	b.said("before the first build", text, code, 0, 0, "Fresh no GPU package has been built with these features: matmul")
	b.ends("its own architecture", b.first, "sm_90", 0, 0, "note: matmul holds sm_80 code")
	text, code = b.asks(b.first, "sm_90", "--explain")
	b.said("told before", text, code, 0, 0, "matmul [cuda,default]: fresh\n", "Fresh matmul: up to date")
	b.ends("nothing of it runs", b.first, "sm_75", 13, 1, "error: matmul holds sm_80 code")
	text, code = b.asks(b.first, "sm_75")
	b.said("building anew did not mend it", text, code, 13, 0, "matmul holds sm_80 code; the build asked for sm_75\n",
		"hint: request an architecture that matmul is built for",
		"!gpubuild build rebuilds only", "!Fresh")
	text, code = b.says("clean", "--minimal", "--features", "cuda", "--toolkit="+b.first, "--arch=sm_75")
	b.said("a clean would not help", text, code, 0, 0, "Fresh nothing is stale")
}

// TestStaleReadsLibraries has a package whose OUT_DIR holds nothing of what its script compiles: the library does, and `gpubuild stale`
// looks there.
func TestStaleReadsLibraries(t *testing.T) {
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
	b.ends("the old one kept", b.first, "sm_90", 13, 1, "libmatmul.rlib: ")
	evidence := " from nvcc " + nvccVersion(t, b.other) + "; the build asked for sm_90 from " + nvccVersion(t, b.first)
	text, code := b.asks(b.first, "sm_90", "--explain")
	b.said("the library tells", text, code, 13, 0, evidence, "hint: its build script does not use "+b.first)
}
