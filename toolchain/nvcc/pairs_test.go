package nvcc

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// pair is two calls with a change in between: the second one must not get what the first one left where nvcc makes something else.
type pair struct {
	story  string
	files  map[string]string // before
	args   string
	change func(b *bench)
}

// TestPairs holds the kinds of changes for which a cache that does not preprocess returned a wrong kernel, and others, in random forms: header
// names, values, flags, modes. Whatever the second call gets must be what the toolkit makes. GPUBUILD_TEST=toolkit,random=200 runs 200.
func TestPairs(t *testing.T) {
	t.Parallel()
	benches(t, func(b *bench) {
		seed, n := need.Count(b.t, "seed", 1), need.Count(b.t, "random", map[bool]int{true: 12, false: 6}[need.Has("long") && !b.real])
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		hits, clean := map[string]int{}, b.env
		for i := range n {
			b.env = slices.Clone(clean)
			if err := os.RemoveAll(b.dir); err != nil {
				b.t.Fatal(err)
			}
			v, w := random.IntN(1000), 1000+random.IntN(1000)
			kinds := pairs(b, v, w)
			p := kinds[((seed-1)*n+i)%len(kinds)] // the next seed goes on with the next kinds
			for name, text := range p.files {
				b.write(name, text)
			}
			mode := []string{"-c", "-ptx", "-cubin", "-c -O1", "-dc", "-c -std=c++17"}[random.IntN(6)]
			if strings.Contains(p.files["k.cu"], "asm(") {
				mode = "-c"
			}
			args := slices.Concat(strings.Fields(mode), strings.Fields(p.args), []string{"-I.", "k.cu"})
			story := fmt.Sprintf("seed %d, pair %d, %s %s", seed, i, p.story, mode)
			hits[b.right(story, 1+random.IntN(2), args...)]++
			p.change(b)
			hits[b.right(story+" changed", 1+random.IntN(3)/2, args...)]++
		}
		b.t.Logf("seed %d, %d pairs: %v", seed, n, hits)
	})
}

// pairs are the kinds, with two values.
func pairs(b *bench, v, w int) []pair {
	kernel := func(include string) string {
		return include + "\n__global__ void k(float *x) { x[threadIdx.x] *= A; }\nint host_value() { return A; }\n"
	}
	define := func(n int) string { return fmt.Sprintf("#define A %d\n", n) }
	rewrite := func(name, text string) func(*bench) { return func(b *bench) { b.write(name, text) } }
	at := func(b *bench, name string, when time.Time) {
		if err := os.Chtimes(filepath.Join(b.dir, name), when, when); err != nil {
			b.t.Fatal(err)
		}
	}
	old := time.Unix(1_600_000_000, 0)
	include := kernel(`#include "a.h"`)
	absolute := filepath.Join(b.dir, "there", "a.h")
	once := fmt.Sprintf("#pragma once\n#ifdef B\n#undef B\n#define B %d\n#else\n#define B 1\n#endif\n", v)
	return []pair{
		{"a header", map[string]string{"k.cu": include, "a.h": define(v)}, "", rewrite("a.h", define(w))},
		{"two equal headers with #pragma once get two times", map[string]string{
			"k.cu": kernel("#include \"one/a.h\"\n#include \"two/a.h\"\n#define A B"), "one/a.h": once, "two/a.h": once,
		}, "", func(b *bench) { at(b, "one/a.h", old) }},
		{"two equal headers by #import, one of them gets another time", map[string]string{
			"k.cu": kernel("#import \"one/a.h\"\n#import \"two/a.h\"\n#define A B"), "one/a.h": once[len("#pragma once\n"):],
			"two/a.h": once[len("#pragma once\n"):],
		}, "-Xcompiler -w", func(b *bench) { at(b, "two/a.h", old) }},
		{"a linked directory that is another one", map[string]string{"k.cu": kernel("#include <a.h>"), "one/a.h": define(v), "two/a.h": define(w)},
			"-Iinc -Ione", func(b *bench) { b.link("two", "inc") }},
		{"a linked directory that no longer is", map[string]string{"k.cu": kernel("#if __has_include(<b.h>)\n#include <b.h>\n#else\n#include <a.h>\n#endif"),
			"one/a.h": define(v), "two/b.h": define(w)}, "-Ione -Iinc", func(b *bench) { b.link("two", "inc") }},
		{"-include a.h,b.h", map[string]string{"k.cu": kernel(""), "a.h": define(v), "b.h": "int b;\n"}, "-include a.h,b.h", rewrite("a.h", define(w))},
		{"-include a header that appears here", map[string]string{"k.cu": kernel(""), "inc/c.h": define(v)}, "-include c.h -Iinc", rewrite("c.h", define(w))},
		{"--pre-include", map[string]string{"k.cu": kernel(""), "a.h": define(v)}, "--pre-include=a.h", rewrite("a.h", define(w))},
		{"__has_include with an absolute path", map[string]string{
			"k.cu": kernel(fmt.Sprintf("#if __has_include(%q)\n#define A %d\n#else\n#define A %d\n#endif", absolute, v, w)),
		}, "", rewrite("there/a.h", "")},
		{"__has_include with a macro", map[string]string{
			"k.cu": kernel(fmt.Sprintf("#define H <late.h>\n#if __has_include(H)\n#define A %d\n#else\n#define A %d\n#endif", v, w)),
		}, "-Isub", rewrite("sub/late.h", "")},
		{"__has_include by pasting", map[string]string{
			"k.cu": kernel(fmt.Sprintf("#define S(x) #x\n#define T(x) S(x)\n#if __has_include(T(late.h))\n#define A %d\n#else\n#define A %d\n#endif", v, w)),
		}, "", rewrite("late.h", "")},
		{".INCBIN", map[string]string{"k.cu": "asm(\".data\\n.INCBIN \\\"text\\\"\\n.text\");\n", "text": fmt.Sprint(v)}, "", rewrite("text", fmt.Sprint(w))},
		{".inc bin in pieces", map[string]string{"k.cu": "asm(\".data\\n.inc\" \"bin \\\"text\\\"\\n.text\");\n", "text": fmt.Sprint(v)}, "", rewrite("text", fmt.Sprint(w))},
		{"a macro that makes a directive", map[string]string{
			"k.cu": fmt.Sprintf("#define HASH #\n%s", kernel(fmt.Sprintf("#define A %d", v))), "a.h": "",
		}, "", rewrite("a.h", define(w))},
		{"a flag", map[string]string{"k.cu": include, "a.h": define(v)}, "", func(b *bench) {
			b.write("a.h", define(v))
			b.env = append(b.env, fmt.Sprintf("NVCC_APPEND_FLAGS=-DX%d", w))
		}},
		{"a nearer header", map[string]string{"k.cu": kernel("#include <a.h>"), "inc/a.h": define(v)}, "-Inear -Iinc", rewrite("near/a.h", define(w))},
		{"a header beside the source", map[string]string{"k.cu": include, "inc/a.h": define(v)}, "-Iinc", rewrite("a.h", define(w))},
		{"cuda_runtime.h here", map[string]string{"k.cu": kernel(fmt.Sprintf("#ifdef C\n#define A %d\n#else\n#define A %d\n#endif", v, w))}, "",
			func(b *bench) { b.write("cuda_runtime.h", "#define C\n#include_next <cuda_runtime.h>\n") }},
		{"CPATH", map[string]string{"k.cu": kernel("#include <extra.h>"), "one/extra.h": define(v), "two/extra.h": define(w)}, "-isystem one",
			func(b *bench) { b.env = append(b.env, "CPATH="+filepath.Join(b.dir, "two")) }},
		{"an equal size and an old time", map[string]string{"k.cu": include, "a.h": define(100 + v%800)}, "", func(b *bench) {
			at(b, "a.h", old)
			b.write("a.h", define(100+w%800))
			at(b, "a.h", old)
		}},
		{"the source is a link", map[string]string{"one.cu": kernel(fmt.Sprintf("#define A %d", v)), "two.cu": kernel(fmt.Sprintf("#define A %d", w)), "k.cu": kernel("#define A 1")}, "",
			func(b *bench) { b.link("two.cu", "k.cu") }},
		{"a macro of an options file", map[string]string{"k.cu": kernel(""), "flags": fmt.Sprintf("-DA=%d", v)}, "-optf flags", rewrite("flags", fmt.Sprintf("-DA=%d", w))},
		{"a header of the second architecture", map[string]string{
			"k.cu": kernel(define(v) + "#if __CUDA_ARCH__ >= 900\n#include \"h.h\"\n#endif"), "h.h": "",
		}, "-gencode=arch=compute_90,code=sm_90", rewrite("h.h", "#undef A\n"+define(w))},
		{"a header of the host", map[string]string{"k.cu": kernel(define(v) + "#ifndef __CUDA_ARCH__\n#include \"h.h\"\n#endif"), "h.h": ""}, "",
			rewrite("h.h", "#undef A\n"+define(w))},
		{"a comment that PTX repeats", map[string]string{"k.cu": "// one\n" + kernel(define(v))}, "-lineinfo -source-in-ptx",
			rewrite("k.cu", "// two\n"+kernel(define(v)))},
		{"a directory for the host compiler", map[string]string{"k.cu": kernel("#include <a.h>"), "inc/a.h": define(v)}, "-Xcompiler=-Iinc", rewrite("inc/a.h", define(w))},
		{"a nearer directory for the host compiler", map[string]string{"k.cu": kernel("#include <a.h>"), "inc/a.h": define(v)}, "-Xcompiler=-Inear -Xcompiler=-Iinc",
			rewrite("near/a.h", define(w))},
		{"quotes in a variable", map[string]string{"k.cu": kernel("")}, fmt.Sprintf("-DA=%d", v), func(b *bench) { b.env = append(b.env, `NVCC_APPEND_FLAGS="-DB=a b"`) }},
		{"a header with four compilers at once", map[string]string{"k.cu": include, "a.h": define(v)}, "-t4 -v", rewrite("a.h", define(w))},
		{"a library, and a header", map[string]string{"k.cu": include, "a.h": define(v)}, "-lcudart --split-compile=2", rewrite("a.h", define(w))},
		{"a header that is gone", map[string]string{"k.cu": kernel("#include <a.h>"), "near/a.h": define(v), "inc/a.h": define(w)}, "-Inear -Iinc",
			func(b *bench) { _ = os.Remove(filepath.Join(b.dir, "near/a.h")) }},
		{"a directory becomes a link", map[string]string{"k.cu": kernel("#include \"inc/../a.h\""), "a.h": define(v), "inc/x": "", "far/a.h": define(w), "far/inc/x": ""}, "",
			func(b *bench) { _ = os.RemoveAll(filepath.Join(b.dir, "inc")); b.link("far/inc", "inc") }},
	}
}
