//go:build linux

package cli_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/gpu/fatbin"
)

// kernels is a copy of testdata/kernels, one small crate for each way in which GPU crates compile their kernels, with two real toolkits
// beside it. Below dir lie now (the workspace, its target directory and gpubuild's cache: what a user has), snap (copies of now to go back
// to), trees/a and trees/b (the toolkits, as hard links where that works) and live, a link to trees/a.
type kernels struct {
	t            *testing.T
	dir          string
	first, other string // the toolkits themselves, never touched
	env          []string
	version      map[string]string // nvcc's, by tree: "a", "b"
	dirty        bool              // the trees were changed
}

// small is everything but what takes seconds: CMake's own questions to nvcc, and cudarc.
const small = "archive,cc"

// newKernels copies the fixture and builds it once, with everything, by gpubuild.
func newKernels(t *testing.T) *kernels {
	t.Helper()
	need.Asked(t, "long")
	roots := need.Toolkits(t, 2)
	k := &kernels{t: t, dir: t.TempDir(), first: roots[0], other: roots[1]}
	need.Asked(t, "cmake")
	need.Program(t, "gxx", "g++-11")
	need.Program(t, "gxx", "g++-12")
	from, err := filepath.Abs(filepath.Join(repository, "testdata", "kernels"))
	if err != nil {
		t.Fatal(err)
	}
	need.Crates(t, from)
	k.version = map[string]string{"a": nvccVersion(t, k.first), "b": nvccVersion(t, k.other)}
	if k.version["a"] == k.version["b"] {
		t.Fatal("both toolkits hold the same nvcc: nothing would be seen")
	}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "CUDA"), strings.HasPrefix(name, "NVCC"), strings.HasPrefix(name, "GPUBUILD_"),
			strings.HasPrefix(name, "CARGO_TARGET"),
			name == "CC", name == "CXX", name == "PATH":
		default:
			k.env = append(k.env, e)
		}
	}
	k.env = append(k.env, "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_TARGET_DIR="+k.now("target"), "GPUBUILD_CACHE="+
		k.now("cache"))
	k.trees()
	k.sh("mkdir -p now snap oracle && cp -a " + quote(from) + " now/ws && rm -rf now/ws/target")
	k.must(k.gpubuild(k.usual("a"), "all"))
	k.save("all")
	return k
}

// now is a path below what the user has.
func (k *kernels) now(parts ...string) string {
	return filepath.Join(append([]string{k.dir, "now"}, parts...)...)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sh runs a line of shell in dir: copying trees with their times and links is what cp -a does best.
func (k *kernels) sh(line string) {
	k.t.Helper()
	c := exec.Command("sh", "-ec", line)
	c.Dir = k.dir
	if out, err := c.CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// trees puts both toolkits in their places, as they were.
func (k *kernels) trees() {
	k.t.Helper()
	k.sh("rm -rf trees live; mkdir trees; ln -s trees/a live")
	k.plant(k.first, "a")
	k.plant(k.other, "b")
	k.dirty = false
}

// plant puts a copy of a toolkit at trees/NAME.
func (k *kernels) plant(from, name string) {
	k.t.Helper()
	k.sh(copyToolkit(from, "trees/"+name))
	k.dirty = true
}

// copyToolkit is the line of shell that copies a toolkit: by hard links where that works, except for the static libraries. A further link
// to a file, which another test makes, changes the file's change time, and a library that changed while it was linked is linked again.
func copyToolkit(from, to string) string {
	return fmt.Sprintf("rm -rf %[2]s; cp -al %[1]s/. %[2]s 2>/dev/null || { rm -rf %[2]s; cp -a %[1]s/. %[2]s; }; "+
		"for f in %[2]s/lib/*.a; do [ ! -f $f ] || { cp -p $f $f.own; mv -f $f.own $f; }; done", quote(from), quote(to))
}

// own makes a file of a tree one that may be changed: no longer a link to the toolkit's own.
func (k *kernels) own(path string) {
	k.t.Helper()
	k.sh(fmt.Sprintf("cp -a %s own.tmp && mv -f own.tmp %[1]s", quote(path)))
	k.dirty = true
}

func (k *kernels) save(name string) {
	k.t.Helper()
	k.sh("rm -rf snap/" + name + "; cp -a now snap/" + name)
}

func (k *kernels) restore(name string) {
	k.t.Helper()
	k.sh("rm -rf now; cp -a snap/" + name + " now")
	if k.dirty {
		k.trees()
	}
}

// ready goes back to a target directory in which gpubuild has built these features with the usual toolkit in an environment.
func (k *kernels) ready(features string, env []string) {
	k.t.Helper()
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(features+"\x00"+strings.Join(env, "\x00"))))[:16]
	if _, err := os.Stat(filepath.Join(k.dir, "snap", name)); err == nil {
		k.restore(name)
		return
	}
	k.restore("all")
	k.must(k.gpubuild(env, features))
	k.save(name)
}

// onPath is an environment with a tree's nvcc first on PATH and nothing else of CUDA but the architecture.
func (k *kernels) onPath(tree string, more ...string) []string {
	root := k.root(tree)
	return append([]string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "CUDA_COMPUTE_CAP=90"}, more...)
}

// usual is an environment as an installer's instructions have it: in it gpubuild adds nothing that cargo watches.
func (k *kernels) usual(tree string, more ...string) []string {
	root := k.root(tree)
	return append(k.onPath(tree, "CUDA_HOME="+root, "CUDA_PATH="+root), more...)
}

// root is the root of a tree as the environment names it: "a" is reached through the link live.
func (k *kernels) root(tree string) string {
	if tree == "a" {
		return filepath.Join(k.dir, "live")
	}
	return filepath.Join(k.dir, "trees", tree)
}

// run is a command in the workspace; of a variable that stands twice, the last counts.
func (k *kernels) run(env []string, words ...string) (string, int) {
	k.t.Helper()
	c := k.command(env, words...)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		k.t.Fatalf("%v: %v", words, err)
	}
	return text.String(), c.ProcessState.ExitCode()
}

func (k *kernels) command(env []string, words ...string) *exec.Cmd {
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = k.now("ws"), append(append([]string{}, k.env...), env...)
	return c
}

func (k *kernels) cargo(env []string, features string, more ...string) (string, int) {
	k.t.Helper()
	return k.run(env, append([]string{"cargo", "build", "-p", "kernels", "--features", features}, more...)...)
}

func (k *kernels) gpubuild(env []string, features string, more ...string) (string, int) {
	k.t.Helper()
	return k.run(env, append([]string{binary(k.t), "build", "-p", "kernels", "--features", features}, more...)...)
}

func (k *kernels) must(text string, code int) string {
	k.t.Helper()
	if code != 0 {
		k.t.Fatalf("ended with %d:\n%s", code, text)
	}
	return text
}

// image is what a program holds of one kernel in one form; Sum is the hash of its bytes, which nvcc makes the same every time.
type image struct{ Kernel, Kind, Arch, Toolkit, Sum string }

// held reads the device code of a program, by kernel.
func (k *kernels) held(program string) []image {
	k.t.Helper()
	h, err := local.Host()
	if err != nil {
		k.t.Fatal(err)
	}
	r, err := fatbin.ScanFile(h, program)
	if err != nil {
		k.t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		k.t.Fatal(err)
	}
	var out []image
	for _, im := range r.Images {
		version := im.Toolkit
		if version == "" {
			version = "PTX " + im.PTXVersion
		}
		out = append(out, image{strings.Join(im.Kernels, " "), im.Kind, im.Arch.String(), version,
			fmt.Sprintf("%x", sha256.Sum256(data[im.Offset:im.Offset+im.Size]))[:12]})
	}
	sort.Slice(out, func(a, b int) bool { return fmt.Sprint(out[a]) < fmt.Sprint(out[b]) })
	return out
}

func (k *kernels) program() string { return k.now("target", "debug", "kernels") }

// of lists the kernels that are from a tree's nvcc; from no other. The hand-written one is from none.
func (k *kernels) of(tree string, images []image) []string {
	k.t.Helper()
	from := map[string]map[bool]bool{}
	for _, im := range images {
		name, ok := strings.CutSuffix(im.Kernel, "_scale")
		if !ok {
			k.t.Errorf("a program holds an unknown kernel: %+v", im)
		}
		if from[name] == nil {
			from[name] = map[bool]bool{}
		}
		// nvcc 13.4 writes PTX 9.4 (PTX ISA 9.0 came with CUDA 13.0).
		ptx := "PTX " + strings.Replace(strings.Join(strings.Split(k.version[tree], ".")[:2], "."), "13.", "9.", 1)
		from[name][im.Toolkit == k.version[tree] || im.Toolkit == ptx] = true
	}
	var out []string
	for name, is := range from {
		if is[true] && !is[false] {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// archs lists what each kernel's machine code, or text, is for: "ptx 90a".
func archs(images []image) []string {
	seen := map[string]bool{}
	for _, im := range images {
		_, digits, _ := strings.Cut(im.Arch, "_")
		seen[strings.TrimSuffix(im.Kernel, "_scale")+" "+digits] = true
	}
	out := make([]string, 0, len(seen))
	for s := range seen {
		out = append(out, s)
	}
	sort.Strings(out)
	return out
}

// compiled lists the packages that cargo compiled, sorted, without the fixture's prefix; the program itself is "program".
func compiled(text string) []string {
	out := []string{}
	for _, m := range compiling.FindAllStringSubmatch(text, -1) {
		name := strings.TrimPrefix(m[1], "kernels-")
		if name == "kernels" {
			name = "program"
		}
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// comment is what the compilers of the host wrote into the program about themselves.
func (k *kernels) comment(program string) string {
	k.t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".comment")
	if s == nil {
		return ""
	}
	data, err := s.Data()
	if err != nil {
		k.t.Fatal(err)
	}
	return string(bytes.ReplaceAll(data, []byte{0}, []byte("\n")))
}

// kernelsOf lists the kernels that a program with these features holds, the hand-written one left out.
func kernelsOf(features string) []string {
	out := []string{"ptx"}
	for _, f := range strings.Split(features, ",") {
		switch f {
		case "all":
			out = append(out, "archive", "cc", "cmake")
		case "archive", "cc", "cmake":
			out = append(out, f)
		}
	}
	sort.Strings(out)
	return slices.Compact(out)
}

// shift moves the times of the files below a directory with a word in their path, or makes them all now.
func (k *kernels) shift(dir, word string, by time.Duration) {
	k.t.Helper()
	now := time.Now()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(path[len(dir):], word) {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		at := fi.ModTime().Add(by)
		if by == 0 {
			at = now
		}
		return os.Chtimes(path, at, at)
	})
	if err != nil {
		k.t.Fatal(err)
	}
}
