//go:build linux

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// row is one change of the machine or of the environment between two builds.
type row struct {
	story    string
	features string
	before   []string // environment; nil: the usual one with tree a
	after    []string
	change   func() // what happens to the machine in between

	// What plain cargo does: the kernels that it leaves as they were although they should be others (the hole), and what it compiles ("?":
	// either way).
	missed, compiles string

	// What must be after gpubuild: the tree that all kernels are from, their architecture, what was compiled, and how it ends.
	tree, arch string
	rebuilt    string
	atMost     bool // any of these may be left out
	counted    bool // only where everything is counted: TestStaleChanges makes the same change, or it takes long and shows little
	code       int
	also       func(text string) // holds of the program, besides; not of plain cargo's
	hole       func() bool       // whether plain cargo's program is stale in what also looks at
}

func words(s string) []string {
	f := strings.Fields(s)
	slices.Sort(f)
	return f
}

// TestKernels changes and kills on one fixture, which takes a while to build; TestStaleRandom draws by lot.
func TestKernels(t *testing.T) {
	t.Parallel()
	k := newKernels(t)
	k.part("rows", k.rows)
	k.part("in turn", k.inTurn)
	k.part("killed", k.killed)
}

// part runs a part of the test; what fails there fails there.
func (k *kernels) part(name string, f func()) {
	whole := k.t
	whole.Run(name, func(t *testing.T) {
		k.t = t
		defer func() { k.t = whole }()
		f()
	})
}

// rows holds gpubuild to each row of what cargo misses, and in .ci/long plain cargo, too (cargo 1.95).
func (k *kernels) rows() {
	a, b := k.usual("a"), k.usual("b")
	nvcc := "NVCC=" + filepath.Join(k.root("b"), "bin", "nvcc")
	bin := filepath.Join(k.dir, "compilers") // gcc and g++, as the distribution's alternatives have them
	compilers := func(version string) func() {
		return func() {
			k.sh("mkdir -p compilers && ln -sfn $(command -v g++-" + version + ") compilers/g++ && ln -sfn $(command -v gcc-" + version +
				") compilers/gcc")
		}
	}
	compilers("12")()
	byCompilers := append(k.usual("a"), "PATH="+bin+":"+strings.TrimPrefix(a[0], "PATH="))
	newCompiler := func(text string) {
		if c := k.comment(k.program()); !strings.Contains(c, " 11.") {
			k.t.Errorf("no host code of the program is from g++ 11:\n%s\n%s", c, text)
		}
	}
	oldCompiler := func() bool { return !strings.Contains(k.comment(k.program()), " 11.") }
	mark := k.markOf("lib/libcudart_static.a")
	newLibrary := func(text string) {
		if !k.mentions(mark) {
			k.t.Errorf("the program does not hold the new libcudart_static.a (%q)\n%s", mark, text)
		}
	}
	var before []image
	remember := func() { before = k.held(k.program()) }
	same := func() bool { return slices.Equal(before, k.held(k.program())) }

	rows := []row{
		{story: "another nvcc first on PATH", features: "all", before: k.onPath("a"), after: k.onPath("b"),
			missed: "ptx archive cc cmake", tree: "b", rebuilt: "ptx archive cc cmake cudarc program"},
		{story: "the toolkit replaced in the same path", features: small, change: func() { k.plant(k.other, "a") },
			missed: "ptx archive cc", tree: "b", rebuilt: "ptx archive cc program"},
		{story: "a link to the toolkit switched", features: small, counted: true, change: func() { k.sh("ln -sfn trees/b live"); k.dirty = true },
			missed: "ptx archive cc", tree: "b", rebuilt: "ptx archive cc program"},
		{story: "nvcc, cudart and cuda.h touched, their content the same", features: small, change: func() {
			for _, f := range []string{"bin/nvcc", "include/cuda.h", "include/cuda_runtime.h", "lib/libcudart_static.a"} {
				k.own("trees/a/" + f)
				k.sh("touch trees/a/" + f)
			}
		}, tree: "a"},
		{story: "CUDA_HOME, CUDA_PATH, CUDA_ROOT and PATH to another root", features: "archive,bindings",
			after:  append(b, "CUDA_ROOT="+k.root("b")),
			missed: "ptx archive", compiles: "cudarc program", tree: "b", rebuilt: "ptx archive cudarc program"},
		{story: "NVCC names another nvcc", features: small, before: k.onPath("a"), after: k.onPath("a", nvcc),
			missed: "ptx archive", compiles: "archive cc program", tree: "b", rebuilt: "ptx archive cc program"},
		{story: "NVCC names another nvcc than every other variable", features: small, after: append(a, nvcc),
			missed: "ptx archive", compiles: "archive cc program", tree: "a", also: func(text string) {
				if !strings.Contains(text, "NVCC names "+k.root("b")) {
					k.t.Errorf("not said that NVCC is overruled\n%s", text)
				}
			}},
		{story: "NVCC_CCBIN names another host compiler", features: "archive", after: append(a, "NVCC_CCBIN=/usr/bin/g++-11"),
			hole: oldCompiler, compiles: "ptx archive program", tree: "a", rebuilt: "ptx archive program", also: newCompiler},
		{story: "the host compiler replaced", features: "archive", before: byCompilers, after: byCompilers, change: compilers("11"),
			hole: oldCompiler, tree: "a", rebuilt: "ptx archive program", also: newCompiler},
		{story: "CUDA_COMPUTE_CAP", features: "archive,cc,cmake", after: append(a, "CUDA_COMPUTE_CAP=80"),
			missed: "cmake", compiles: "ptx archive cc program", tree: "a", arch: "80", rebuilt: "ptx archive cc cmake program"},
		{story: "PTXAS_FLAGS, which nvcc takes from the environment", features: "archive", after: append(a, "PTXAS_FLAGS=-O0"),
			change: func() { remember() },
			hole:   same, tree: "a", rebuilt: "ptx archive program", also: func(string) {
				if same() {
					k.t.Error("the kernels are still what ptxas made without it")
				}
			}},
		{story: "no nvcc on PATH any more", features: small, before: k.onPath("a"), after: []string{"PATH=" + os.Getenv("PATH"),
			"CUDA_COMPUTE_CAP=90"},
			tree: "a", code: 11},
		{story: "cudart's package upgraded alone: headers and library", features: small, change: func() {
			remember()
			for _, f := range []string{"include/cuda.h", "include/cuda_runtime_api.h", "lib/libcudart_static.a"} {
				k.sh("cp --remove-destination trees/b/" + f + " trees/a/" + f)
			}
			k.dirty = true
		}, hole: same, tree: "a", rebuilt: "ptx archive cc program", also: func(text string) {
			newLibrary(text)
			for _, im := range k.held(k.program()) {
				if slices.Contains(before, im) {
					k.t.Errorf("%s is still what the old header made", im.Kernel)
				}
			}
		}},
		// The user's own spelling stays, so that plain cargo in the same shell finds nothing changed; what cargo makes of it holds no
		// kernel.
		{story: "a slash at the end of CUDA_HOME, and CUDA_ROOT unset", features: "bindings", counted: true, before: append(a, "CUDA_ROOT="+k.root("a")),
			after:    append(a, "CUDA_HOME="+k.root("a")+"/"),
			compiles: "cudarc program", tree: "a", rebuilt: "cudarc program", atMost: true},
		{story: "the toolkit moved", features: small, after: k.usual("moved"),
			change: func() { k.sh("mv trees/a trees/moved"); k.dirty = true },
			tree:   "a", rebuilt: "ptx archive cc program", atMost: true},
		{story: "the target directory restored with new times", features: small, counted: true, change: func() { k.shift(k.now("target"), "", 0) },
			compiles: "?", tree: "a", rebuilt: "?"}, // cargo itself makes anew whatever now looks older than what it was made from
		{story: "the stamps lost", features: small, counted: true, change: func() { k.sh("rm now/target/debug/build/*/gpubuild-stamp.json") },
			tree: "a", rebuilt: "ptx archive cc program"},
		{story: "a static library replaced", features: small, change: func() {
			k.sh("cp --remove-destination trees/b/lib/libcudart_static.a trees/a/lib/")
			k.dirty = true
		}, hole: func() bool { return !k.mentions(mark) }, tree: "a", rebuilt: "archive cc program", atMost: true, also: newLibrary},
		{story: "a kernel edited", features: small, counted: true, change: func() { k.edit(k.now("ws"), "archive", 1) }, compiles: "archive program",
			tree: "a", rebuilt: "archive program"},
	}
	for _, r := range rows {
		if r.counted && !need.Full(k.t) {
			continue
		}
		k.part(r.story, func() { k.row(r) })
	}
}

// inTurn has plain cargo, as an editor runs it, and gpubuild build in turn: neither finds anything to do.
func (k *kernels) inTurn() {
	k.ready("all", k.usual("a"))
	k.must(k.cargo(k.usual("a"), "all"))
	for i := range 3 {
		if text := k.must(k.cargo(k.usual("a"), "all")); len(compiled(text)) > 0 {
			k.t.Fatalf("round %d: plain cargo compiled %q\n%s", i, compiled(text), text)
		}
		if text := k.must(k.gpubuild(k.usual("a"), "all")); len(compiled(text)) > 0 || didClean(text) {
			k.t.Fatalf("round %d: gpubuild did something\n%s", i, text)
		}
	}
}

// didClean says whether gpubuild found something stale or unknown, or cleaned.
func didClean(text string) bool { return cleans.MatchString(text) }

var cleans = regexp.MustCompile(`(?m)^ +(Cleaned|Stale|Unknown) `)

func (k *kernels) row(r row) {
	t := k.t
	if r.before == nil {
		r.before = k.usual("a")
	}
	if r.after == nil {
		r.after = r.before
	}
	if r.change == nil {
		r.change = func() {}
	}
	if need.Full(t) { // what another cargo may do otherwise; no fault of gpubuild's shows there
		k.plainRow(r)
	}

	k.ready(r.features, r.before)
	r.change()
	text, code := k.gpubuild(r.after, r.features)
	if code != r.code {
		t.Fatalf("ended with %d, want %d\n%s", code, r.code, text)
	}
	if got := compiled(text); r.rebuilt != "?" && !slices.Equal(got, words(r.rebuilt)) && !(r.atMost && within(got, words(r.rebuilt))) {
		t.Errorf("compiled %q, want %q\n%s", got, words(r.rebuilt), text)
	}
	if code != 0 {
		return
	}
	is := k.held(k.program())
	if got, want := k.of(r.tree, is), kernelsOf(r.features); !slices.Equal(got, want) {
		t.Errorf("from nvcc %s are %q, want %q\n%+v\n%s", k.version[r.tree], got, want, is, text)
	}
	arch := r.arch
	if arch == "" {
		arch = "90"
	}
	for _, have := range archs(is) {
		if name, digits, _ := strings.Cut(have, " "); name != "driver" && strings.TrimSuffix(digits, "a") != arch {
			t.Errorf("%s is for %s, want %s", name, digits, arch)
		}
	}
	if r.also != nil {
		r.also(text)
	}
	if text := k.must(k.gpubuild(r.after, r.features)); len(compiled(text)) > 0 || didClean(text) {
		t.Errorf("and again: something was done\n%s", text)
	}
}

// plainRow holds plain cargo, which was content just before, to what a row says of it.
func (k *kernels) plainRow(r row) {
	t := k.t
	k.ready(r.features, r.before)
	k.must(k.cargo(r.before, r.features))
	was := k.held(k.program())
	r.change()
	text := k.must(k.cargo(r.after, r.features))
	if got := compiled(text); r.compiles != "?" && !slices.Equal(got, words(r.compiles)) {
		t.Errorf("plain cargo compiled %q, expected %q\n%s", got, words(r.compiles), text)
	}
	is := k.held(k.program())
	var missed []string
	for _, name := range kernelsOf(r.features) {
		if slices.Contains(k.of("a", was), name) && slices.Contains(words(r.missed), name) && kernelSame(was, is, name) {
			missed = append(missed, name)
		}
	}
	if !slices.Equal(missed, words(r.missed)) {
		t.Errorf("plain cargo left %q as they were, expected %q: the hole is not there\n%s", missed, words(r.missed), text)
	}
	if r.hole != nil && !r.hole() {
		t.Errorf("plain cargo's program is not stale: the hole is not there\n%s", text)
	}
}

// within says whether every word of some is among all.
func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func kernelSame(was, is []image, name string) bool {
	only := func(list []image) []image {
		return slices.DeleteFunc(slices.Clone(list), func(im image) bool { return im.Kernel != name+"_scale" })
	}
	return slices.Equal(only(was), only(is))
}

// edit makes a package's kernel its nth form, below a copy of the workspace; 0 is the one of testdata.
func (k *kernels) edit(ws, name string, n int) {
	k.t.Helper()
	path := filepath.Join(ws, name, "src", "kernel.cu")
	data, err := os.ReadFile(path)
	if err != nil {
		k.t.Fatal(err)
	}
	text := editable.ReplaceAllString(string(data), fmt.Sprintf("x[i] *= %d + ", n))
	if n == 0 {
		text = editable.ReplaceAllString(text, "x[i] *= ")
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

var editable = regexp.MustCompile(`x\[i\] \*= (\d+ \+ )?`)

// markOf is a text that a file of tree b holds, that of tree a does not, and that the linker takes over: a name of an error.
func (k *kernels) markOf(file string) string {
	k.t.Helper()
	read := func(root string) []byte {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			k.t.Fatal(err)
		}
		return data
	}
	old, now := read(k.first), read(k.other)
	for _, text := range bytes.FieldsFunc(now, func(r rune) bool { return r < ' ' || r > '~' }) {
		if bytes.HasPrefix(text, []byte("libcudart_static_")) && !bytes.Contains(old, text) {
			return string(text)
		}
	}
	k.t.Fatalf("nothing tells the two %s apart", file)
	return ""
}

// mentions says whether the program holds a text.
func (k *kernels) mentions(text string) bool {
	k.t.Helper()
	data, err := os.ReadFile(k.program())
	if err != nil {
		k.t.Fatal(err)
	}
	return bytes.Contains(data, []byte(text))
}
