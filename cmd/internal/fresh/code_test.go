package fresh

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
)

// tree makes files below a new directory; a name that ends in a slash is a directory.
func tree(t *testing.T, files map[string]string) (*State, string) {
	t.Helper()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &session.Machine{
		Host:     h,
		CacheDir: filepath.Join(dir, ".cache"),
		Shell:    &console.Shell{Out: io.Discard, Err: io.Discard},
		Began:    time.Now(),
	}
	b := Build{Machine: m, Reach: &features.Reach{}}
	return &State{b: b, read: newReader(b)}, dir
}

func TestBelow(t *testing.T) {
	s, dir := tree(t, map[string]string{
		"a.ptx": "x", "b.cubin": "x", "c.o": "x", "deep/er/libk.a": "x", "no-ending": "x", "k.obj": "x",
		"empty.ptx": "", "gen.rs": "x", "flags.make": "x", "ptx.cu": "x",
		"libcublas_static.a": "x", "libcudnn_ops.so.9": "x", "cublas.lib": "x",
		".cudaforge_cache.json": "{}", "build/CMakeCache.txt": "x", "cache.json": "x",
		"build/CMakeFiles/3.25.1/CompilerIdCUDA/a.out": "x", "build/CMakeFiles/3.25.1/CMakeDetermineCompilerABI_CUDA.bin": "x", "build/CMakeFiles/CMakeScratch/x.o": "x",
		"build/CMakeFiles/k.dir/k.cu.o": "x", "src/.git/objects/aa": "x",
	})
	code, notes, _, err := below(s.b.Machine.Host, dir)
	if err != nil {
		t.Fatal(err)
	}
	rel := func(list []string) (out []string) {
		for _, p := range list {
			r, err := filepath.Rel(dir, p)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, filepath.ToSlash(r))
		}
		slices.Sort(out)
		return out
	}
	if got, want := rel(code), []string{"a.ptx", "b.cubin", "build/CMakeFiles/k.dir/k.cu.o", "c.o", "deep/er/libk.a", "empty.ptx", "k.obj", "no-ending"}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("code: got %q, want %q", got, want)
	}
	if got, want := rel(notes), []string{"gen.rs"}; !slices.Equal(got, want) {
		t.Errorf("notes: got %q, want %q", got, want)
	}
	if code, notes, _, err := below(s.b.Machine.Host, filepath.Join(dir, "none")); err != nil || len(code)+len(notes) > 0 {
		t.Errorf("a directory that is not there: %v %v %v", code, notes, err)
	}
}

func TestGrouped(t *testing.T) {
	arch := func(s string) gpu.Arch {
		a, err := gpu.ParseArch(s)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	cubin := func(sm string, kernels ...string) fatbin.Image {
		return fatbin.Image{Kind: fatbin.Cubin, Arch: arch(sm), Toolkit: "13.4.92", Kernels: kernels}
	}
	says := func(list []stale.Code) string {
		var out []string
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s+%d%v", c.Kernel, c.Kernels-1, c.Makes))
		}
		return strings.Join(out, "; ")
	}
	tests := []struct {
		story  string
		images []fatbin.Image
		want   string
	}{
		{
			"many kernels of one make are one line",
			[]fatbin.Image{cubin("sm_90", "c", "b"), cubin("sm_90", "a")},
			"a+2[sm_90 code from nvcc 13.4.92]",
		},
		{"order and repetition mean nothing", []fatbin.Image{cubin("sm_90", "a"), cubin("sm_80", "a", "b"), cubin("sm_90", "b", "a")},
			"a+1[sm_80 code from nvcc 13.4.92 sm_90 code from nvcc 13.4.92]"},
		{"one kernel has less", []fatbin.Image{cubin("sm_90", "a", "b"), cubin("sm_80", "a")},
			"a+0[sm_80 code from nvcc 13.4.92 sm_90 code from nvcc 13.4.92]; b+0[sm_90 code from nvcc 13.4.92]"},
		{
			"an empty image in addition to kernels says nothing",
			[]fatbin.Image{cubin("sm_90", "a"), cubin("sm_52")},
			"a+0[sm_90 code from nvcc 13.4.92]",
		},
		{"an empty image alone", []fatbin.Image{cubin("sm_52")}, "+0[sm_52 code from nvcc 13.4.92]"},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		if got := says(grouped("f", tt.images)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.story, got, tt.want)
		}
	}
}

func TestHoldsIsReadAgain(t *testing.T) {
	const ptx = "." + "version 9.4\n." + "target sm_90\n." + "address_size 64\n.visible ." + "entry %s()\n{\n ret;\n}\n"
	s, dir := tree(t, map[string]string{"out/k.ptx": fmt.Sprintf(ptx, "one"), "out/sub/note.txt": ""})
	out := filepath.Join(dir, "out")
	read := func() string {
		t.Helper()
		held, err := s.read.holds(out)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range held.Code {
			names = append(names, c.Kernel)
		}
		return strings.Join(names, " ")
	}
	if got := read() + read(); got != "oneone" {
		t.Error(got)
	}
	if err := cache.WriteFile(filepath.Join(out, "k.ptx"), []byte(fmt.Sprintf(ptx, "two")), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "two" {
		t.Errorf("the file holds two, and %s was reported", got)
	}
	if err := os.WriteFile(filepath.Join(out, "sub", "l.ptx"), []byte(fmt.Sprintf(ptx, "three")), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "two three" {
		t.Errorf("after a file came: %s", got)
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "" {
		t.Errorf("kept of a directory that is gone: %s", got)
	}
}

// TestSumNamesFiles: two OUT_DIRs have one sum only where the same files hold the same; where no device code is known, all files count.
func TestSumNamesFiles(t *testing.T) {
	t.Parallel()
	ptx := func(name string) string {
		return "." + "version 9.4\n." + "target sm_90\n." + "address_size 64\n.visible ." + "entry " + name + "()\n{\n ret;\n}\n"
	}
	s, dir := tree(t, map[string]string{
		"a/j.ptx": ptx("one"), "a/k.ptx": ptx("two"), "a/note": "1",
		"elsewhere/j.ptx": ptx("one"), "elsewhere/k.ptx": ptx("two"), "elsewhere/note": "2",
		"swapped/j.ptx": ptx("two"), "swapped/k.ptx": ptx("one"),
		"twice/j.ptx": ptx("one"), "twice/k.ptx": ptx("one"), "once/k.ptx": ptx("one"),
		"deep/x/k.ptx": ptx("one"), "hex/k.hex": "2e76", "truncated/k.hex": "2e", "empty/k.hex": "", "hex2/j.hex": "2e76",
	})
	of := map[string]string{}
	for _, name := range []string{"a", "elsewhere", "swapped", "twice", "once", "deep", "hex", "truncated", "empty", "hex2"} {
		held, err := s.read.holds(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for other, sum := range of {
			if same := other == "a" && name == "elsewhere"; (sum == held.Sum) != same {
				t.Errorf("%s and %s: the same sum: %t", other, name, !same)
			}
		}
		if name != "elsewhere" {
			of[name] = held.Sum
		}
	}
}

// TestRunByAnotherCargo: what another cargo's script left is taken for what it was only where there is device code to compare.
func TestRunByAnotherCargo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	known := []stale.Code{{File: "k.ptx", Kernel: "k"}}
	for _, c := range []struct {
		story string
		code  []stale.Code
		arch  bool
		later time.Duration
		want  string
	}{
		{"nothing ran", nil, true, 0, agrees},
		{"from an archive", nil, true, time.Second, agrees},
		{"the same device code", known, true, time.Hour, agrees},
		{"nothing to compare", nil, true, time.Hour, unknown},
		{"a script that compiles nothing", nil, false, time.Hour, agrees},
	} {
		p := Package{ScriptUnit: features.ScriptUnit{PkgID: "p", Name: "k", Dir: filepath.Join(b.top, "package")}}
		p.Inputs.Arch = c.arch
		now, err := b.s.inputsOf(t.Context(), p, false, false)
		if err != nil {
			t.Fatal(err)
		}
		o := out{pkg: p, dir: filepath.Join(b.top, "out"), finished: true, stamped: true, held: holding{Sum: "1", Code: c.code}}
		o.stamp = stale.Stamp{PkgID: "p", Inputs: now, Sum: "1", Ran: 1}
		o.ran = 1 + int64(c.later)
		if o, err = b.s.judge(t.Context(), o); err != nil || o.state != c.want {
			t.Errorf("%s: %s (%s) %v", c.story, o.state, o.why, err)
		}
	}
}
