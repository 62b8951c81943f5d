package cuda

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// today is the shape of the header of CUDA 13: the blocks of other compilers stand around those of gcc and clang, with other numbers.
const today = `/* check host compiler version  */
#if !__NV_NO_HOST_COMPILER_CHECK
#if defined(__GRCO_CLANG_COMPILER__)
#if (__GRCO_CLANG_COMPILER__ == 1) && ((__clang_major__ < 16) || (__clang_major__ > 19))
#error -- Grace
#endif
#endif
#if defined(__powerpc__)
#if defined(__ibmxl_vrm__) && !(__ibmxl_vrm__ >= 0x0d010000 && __ibmxl_vrm__ < 0x0d020000) && \
                              !(__ibmxl_vrm__ >= 0x10010000)
#error -- xlC
#endif
#endif
#if defined(__GNUC__)
#if __GNUC__ > 16

#error -- unsupported GNU version! gcc versions later than 16 are not supported!

#endif /* __GNUC__ > 99 */
#if defined(__HORIZON__)
#if (__clang_major__ >= 12) || (__clang_major__ < 5)
#error -- HOS
#endif
#endif
#if defined(__clang__) && !defined(__ibmxl_vrm__) && !defined(__ICC) && !defined(__HORIZON__) && !defined(__APPLE__)
#if (__clang_major__ >= 23) || (__clang_major__ < 3) || ((__clang_major__ == 3) &&  (__clang_minor__ < 3))
#error -- unsupported clang version!
#endif
#endif
#endif /* __GNUC__ */
#if defined(_WIN32)
#if _MSC_VER < 1920 || _MSC_VER >= 1960
#error -- unsupported Microsoft Visual Studio version!
#elif _MSC_VER >= 1920 && _MSC_VER < 1930
#pragma message("deprecated")
#endif
#endif
#endif
`

func TestParseHostConfig(t *testing.T) {
	type limits struct{ gccMin, gcc, clangMin, clang, mscMin, msc int }
	for _, tt := range []struct {
		story, header string
		want          limits
	}{
		{"a header of today", today, limits{0, 16, 3, 22, 1920, 1960}},
		{
			"its #error lines were taken out",
			"#if __GNUC__ > 9\n#endif\n#if _MSC_VER < 1700 || _MSC_VER >= 1930\n#error no\n#endif",
			limits{mscMin: 1700, msc: 1930},
		},
		{"the #error was commented out", "#if __GNUC__ > 9\n// #error no\n/* #error\n#error */\n#endif", limits{}},
		{
			"the check was put under #if 0",
			"#if 0\n#if __GNUC__ > 9\n#error no\n#endif\n#endif\n#if __GNUC__ > 10\n#error no\n#endif",
			limits{gcc: 10},
		},
		{"the check was switched off above it", "#define __NV_NO_HOST_COMPILER_CHECK 1\n" + today, limits{}},
		{"the switch is there and says no", "#define __NV_NO_HOST_COMPILER_CHECK 0\n" + today, limits{0, 16, 3, 22, 1920, 1960}},
		{"other comparisons, odd blanks", "#  if __GNUC__>=14||__GNUC__<6\n#  error no\n#  endif", limits{gccMin: 6, gcc: 13}},
		{"an edited bound", "#if _MSC_VER < 1920 || _MSC_VER > 1950\r\n#error no\r\n#endif\r\n", limits{mscMin: 1920, msc: 1951}},
		{"an error that has nothing to do with versions", "#if !defined(__GNUC__)\n#error no\n#endif", limits{}},
		{"cut off in the middle", today[:len(today)/2], limits{gcc: 16}},
		{"nothing", "", limits{}},
	} {
		t.Run(tt.story, func(t *testing.T) {
			b := ParseHostConfig([]byte(tt.header))
			hosttest.Equal(t, (limits{b.GCCMin, b.GCCMax, b.ClangMin, b.ClangMax, b.MSCMin, b.MSCMax}), tt.want)
		})
	}
	b := ParseHostConfig([]byte(today))
	if want := (Quote{Text: "#if __GNUC__ > 16", Error: "-- unsupported GNU version! gcc versions later than 16 are not supported!", Line: 15}); b.GCC != want {
		t.Errorf("got %+v, want %+v", b.GCC, want)
	}
}

func TestBoundsFits(t *testing.T) {
	b := Bounds{
		GCCMax:   13,
		ClangMin: 3,
		ClangMax: 17,
		MSCMin:   1910,
		MSCMax:   1950,
		GCC:      Quote{Text: "#if __GNUC__ > 13", Line: 9},
		File:     "/c/host_config.h",
	}
	for _, tt := range []struct {
		kind  string
		major int
		want  string
	}{
		{"gcc", 13, ""},
		{"gcc", 14, "gcc up to 13 only: `#if __GNUC__ > 13` in /c/host_config.h, line 9"},
		{"gcc", 4, ""},
		{"clang", 17, ""},
		{"clang", 18, "clang up to 17 only: `` in /c/host_config.h, line 0"},
		{"msvc", 1949, ""},
		{"msvc", 1950, "_MSC_VER up to 1949 only: `` in /c/host_config.h, line 0"},
		{"msvc", 1900, "_MSC_VER from 1910 only: `` in /c/host_config.h, line 0"},
	} {
		if ok, got := b.Fits(tt.kind, tt.major); got != tt.want || ok != (tt.want == "") {
			t.Errorf("%s %d: got %v %q, want %q", tt.kind, tt.major, ok, got, tt.want)
		}
	}
	if ok, _ := (Bounds{}).Fits("gcc", 99); !ok {
		t.Error("no bound must take every compiler")
	}
}

func FuzzParseHostConfig(f *testing.F) {
	f.Add([]byte(today))
	f.Add([]byte("#if __GNUC__ > 9 \\\n && 1\n#else\n#error\n#endif\n#endif\n#endif /*"))
	f.Add([]byte("#elif __GNUC__ > 999999\n#error\n/"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := Uncommented(string(data)); strings.Count(got, "\n") != strings.Count(string(data), "\n") {
			t.Errorf("comments moved lines: %q", got)
		}
		b := ParseHostConfig(data)
		for _, n := range []int{b.GCCMin, b.GCCMax, b.ClangMin, b.ClangMax, b.MSCMin, b.MSCMax} {
			if n < 0 || n > 1_000_001 {
				t.Errorf("bound %d", n)
			}
		}
		for _, q := range []Quote{b.GCC, b.Clang, b.MSC} {
			if q.Line < 0 {
				t.Errorf("line %d", q.Line)
			}
		}
	})
}
