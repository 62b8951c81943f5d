//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
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

// TestStaleReadsTheCode has a record that says that all is right while the device code is of another toolkit, and then a program that is: `gpubuild stale`
// sees what the next build will see, and `gpubuild clean --minimal` cleans it.
func TestStaleReadsTheCode(t *testing.T) {
	b := sampleWithTwoToolkits(t)
	link, use := b.linkTo()
	read := func(file string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(b.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	entries := func(record []byte) (r struct {
		Schema  int                          `json:"schema"`
		Entries []map[string]json.RawMessage `json:"entries"`
	}) {
		t.Helper()
		if err := json.Unmarshal(record, &r); err != nil || len(r.Entries) != 1 {
			t.Fatalf("%v\n%s", err, record)
		}
		return r
	}
	was, asked := nvccVersion(t, b.first), nvccVersion(t, b.other)
	use(b.other)
	b.gpubuild(link, "sm_90")
	right := entries(read(recordFile))
	if err := os.RemoveAll(filepath.Join(b.dir, "target")); err != nil {
		t.Fatal(err)
	}
	use(b.first)
	b.gpubuild(link, "sm_90")
	old := read("target/debug/matmul")
	use(b.other)
	lie := entries(read(recordFile))
	lie.Entries[0]["inputs"] = right.Entries[0]["inputs"]
	data, err := json.Marshal(lie)
	if err != nil {
		t.Fatal(err)
	}
	b.write(recordFile, data)

	evidence := "matmul holds sm_90 code from nvcc " + was + "; the build asked for sm_90 from " + asked
	text, code := b.asks(link, "sm_90")
	b.said("a record that lies", text, code, 13, 0, evidence+"\n", "hint: gpubuild build cleans just matmul", "!Fresh")
	text, code = b.asks(link, "sm_90", "--explain")
	b.said("--explain", text, code, 13, 0, "matmul [cuda,default]: stale\n", "  nvcc: ", evidence+": a build cleans it once", "matmul.fatbin: kernel matmul: sm_90 code from nvcc "+was)
	text, code = b.says("clean", "--minimal", "--dry-run", "--features", "cuda", "--toolkit="+link, "--arch=sm_90")
	b.said("clean --minimal --dry-run", text, code, 0, 0, "Wrong "+evidence, "Would clean matmul")

	c := b.command(nil, binary(t), "stale", "--features", "cuda", "--toolkit="+link, "--arch=sm_90", "--json")
	out, _ := c.Output()
	var answer struct {
		OK       bool
		Reasons  []any
		Clean    []string
		Findings []struct{ ID, Message, Evidence string }
		Code     []struct {
			Package, State, Message string
			Evidence                []string
		}
		Units []struct {
			State string
			Holds []string
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if c.ProcessState.ExitCode() != 13 || answer.OK || len(answer.Reasons) != 0 || len(answer.Clean) != 1 || len(answer.Code) != 1 || answer.Code[0].State != "stale" ||
		answer.Code[0].Message != evidence || len(answer.Code[0].Evidence) == 0 || len(answer.Units) != 1 || answer.Units[0].State != "stale" || len(answer.Units[0].Holds) == 0 ||
		len(answer.Findings) != 1 || answer.Findings[0].Evidence == "" {
		t.Errorf("%+v\n%s", answer, out)
	}
	b.holds("stale changes nothing", b.first, "sm_90")

	// The build sees the same, and builds twice; a consumer of cargo's messages is told of one build.
	c = b.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+link, "--gpu-arch=sm_90", "--message-format=json")
	var said bytes.Buffer
	c.Stderr = &said
	if out, err = c.Output(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	b.said("the build sees the same", said.String(), 0, 0, 1, "Wrong "+evidence)
	if l := oneBuild(t, out, true); l.fresh["matmul bin"] || l.fresh["matmul lib"] || !l.fresh["cudarc lib"] {
		t.Errorf("matmul was compiled, and cudarc was not: %v\n%s", l.fresh, out)
	}
	b.holds("the build sees the same", b.other, "sm_90")
	text, code = b.asks(link, "sm_90", "--explain")
	b.said("and then nothing", text, code, 0, 0, "Fresh 1 GPU package", "  holds matmul.fatbin: kernel matmul: sm_90 code from nvcc "+asked, "!a build cleans")

	// The code is right, and the program is an old one that cargo takes for its own.
	f, err := os.OpenFile(filepath.Join(b.dir, "target", "debug", "matmul"), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.Write(old)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text, code = b.asks(link, "sm_90")
	b.said("an old program", text, code, 13, 0, "target/debug/matmul holds ", " from nvcc "+was, "of matmul, which was built since", "hint: gpubuild build cleans just matmul")
	b.ends("and the build", link, "sm_90", 0, 1, "Wrong target/debug/matmul holds ")
	text, code = b.asks(link, "sm_90")
	b.said("the program is mended", text, code, 0, 0, "Fresh 1 GPU package")
}

// TestStaleKnowsWhatWasConcluded: what building anew did not mend is told as that, with what to do; what was told to stay is no reason to end with 13.
func TestStaleKnowsWhatWasConcluded(t *testing.T) {
	b := sampleWithTwoToolkits(t)
	b.edit("build.rs", "Ok(Some(bare))", `Ok(Some("80".to_string()))`)
	text, code := b.asks(b.first, "sm_90")
	b.said("before the first build", text, code, 0, 0, "Fresh none of 1 GPU package is built here yet")
	b.ends("its own architecture", b.first, "sm_90", 0, 0, "note: matmul holds sm_80 code")
	text, code = b.asks(b.first, "sm_90", "--explain")
	b.said("told before", text, code, 0, 0, "matmul [cuda,default]: fresh\n", "matmul holds sm_80 code; the build asked for sm_90: it stays, as was told after an earlier build", "Fresh 1 GPU package")
	b.ends("nothing of it runs", b.first, "sm_75", 13, 1, "error: matmul holds sm_80 code")
	text, code = b.asks(b.first, "sm_75")
	b.said("building anew did not mend it", text, code, 13, 0, "matmul holds sm_80 code; the build asked for sm_75\n", "hint: building matmul anew did not mend it: ask for an architecture that matmul is built for",
		"!gpubuild build cleans just", "!Fresh")
	text, code = b.says("clean", "--minimal", "--features", "cuda", "--toolkit="+b.first, "--arch=sm_75")
	b.said("a clean would not help", text, code, 0, 0, "Wrong matmul holds sm_80 code", "Fresh nothing is stale")
}

// TestStaleReadsLibraries has a package whose OUT_DIR holds nothing of what its script compiles: the library does, and `gpubuild stale` looks there.
func TestStaleReadsLibraries(t *testing.T) {
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
	b.said("the library tells", text, code, 13, 0, "matmul [cuda,default]: stale\n", evidence, "libmatmul.rlib: ", "hint: building matmul anew did not mend it: its build script does not use "+b.first)
}
