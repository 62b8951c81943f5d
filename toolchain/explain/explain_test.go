package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"gpubuild/buildenv/hosttest"
)

func table(t testing.TB) *Rules { return hosttest.Must(Default())(t) }

func ask(t testing.TB, text string) Match {
	return hosttest.Must(Read(table(t), strings.NewReader(text)))(t)
}

// first is the rule that a text is explained with; empty: none.
func first(t testing.TB, text string) string { return append(ids(ask(t, text)), "")[0] }

func ids(a Match) []string {
	out := []string{}
	for _, f := range a.Found {
		out = append(out, f.ID)
	}
	return out
}

// special are the rules found that know a failure itself, and not only what a tool says is missing.
func special(a Match) []string {
	a.Found = slices.DeleteFunc(a.Found, func(f Found) bool { return f.Kind == General })
	return ids(a)
}

// TestEveryExampleIsRecognised holds each reported text to its rule, alone and in the middle of a long log, whatever shape the log has.
func TestEveryExampleIsRecognised(t *testing.T) {
	rs := table(t)
	good := strings.Repeat("   Compiling serde v1.0.228\n", 500)
	shapes := map[string]func(string) string{
		"alone":    func(s string) string { return s },
		"in a log": func(s string) string { return good + s + "\n" + good },
		"CRLF":     func(s string) string { return strings.ReplaceAll(good+s+"\n"+good, "\n", "\r\n") },
		"UTF-16LE": func(s string) string { return wide(good+s+"\n", true, true) },
		"UTF-16BE": func(s string) string { return wide(good+s+"\n", false, true) },
		"no mark":  func(s string) string { return wide(good+s+"\n", true, false) },
		"GitHub": func(s string) string {
			return "2026-05-01T10:00:00.0000000Z " + strings.ReplaceAll(s, "\n", "\n2026-05-01T10:00:00.0000000Z ")
		},
		"coloured": coloured,
		"prefixed": func(s string) string { return "#12 94.1 " + strings.ReplaceAll(s, "\n", "\n#12 94.2 ") },
		"in JSON": func(s string) string {
			return `{"reason":"compiler-message","message":"` + strings.ReplaceAll(s, `"`, `\"`) + `"}`
		},
		"interleaved": func(s string) string { // two other compilers write between any two lines
			noise := "\n   Compiling tokio v1.40.0\n[c 45/60] building kernel.o\n"
			return strings.ReplaceAll(s, "\n", noise) + noise
		},
		"no end": func(s string) string { return good + s },
		"cargo -vv": func(s string) string {
			return "[candle-kernels 0.9.1] " + strings.ReplaceAll(s, "\n", "\n[candle-kernels 0.9.1] ")
		},
	}
	// How a text is written has nothing to do with the rule, and one prefix is to it as another: each tenth example has all shapes.
	written := []string{"CRLF", "UTF-16LE", "UTF-16BE", "no mark", "coloured", "no end", "in a log"}
	prefixes := []string{"GitHub", "prefixed", "cargo -vv"}
	n := 0
	for _, r := range rs.All {
		if r.Kind != Silent && len(r.Examples) == 0 {
			t.Errorf("%s has no example", r.ID)
		}
		for i, e := range r.Examples {
			n++
			for shape, make := range shapes {
				if n%10 > 0 && slices.Contains(written, shape) || n%10 > 0 && slices.Contains(prefixes, shape) && shape != prefixes[n%len(prefixes)] {
					continue
				}
				if got := ids(ask(t, make(e))); !slices.Contains(got, r.ID) {
					t.Errorf("%s, example %d, %s: got %v\n%s", r.ID, i, shape, got, e)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d examples were looked at", n)
	}
}

func wide(s string, little, mark bool) string {
	units := utf16.Encode([]rune(s))
	if mark {
		units = append([]uint16{0xfeff}, units...)
	}
	var b []byte
	for _, u := range units {
		if little {
			b = append(b, byte(u), byte(u>>8))
		} else {
			b = append(b, byte(u>>8), byte(u))
		}
	}
	return string(b)
}

// coloured puts a colour around every word, and a link and a title into the text, as terminals get them.
func coloured(s string) string {
	s = strings.ReplaceAll(s, " ", "\x1b[0m \x1b[1m\x1b[38;5;9m")
	return "\x1b]0;title\x07\x1b]8;;https://example.org\x1b\\" + s + "\x1b]8;;\x1b\\\x1b[m\n"
}

// TestLocalisedCompilers: Microsoft's tools translate their words, never the number and the file's name.
func TestLocalisedCompilers(t *testing.T) {
	for text, want := range map[string]string{
		`LINK : fatal error LNK1181: Eingabedatei "cudnn.lib" kann nicht geöffnet werden.`:  "lnk1181-cudnn",
		`LINK : fatal error LNK1181: impossible d'ouvrir le fichier en entrée 'cudart.lib'`: "lnk1181-cudart-lib64",
		"/usr/bin/ld: 找不到 -lcuda: 没有那个文件或目录":                                                "ld-cannot-find-lcuda",
		"x.c:(.text+0x16)：对‘cudaMalloc’未定义的引用":                                              "cudart-not-linked",
		"x.c:(.text+0x16): Nicht definierter Verweis auf `cudaMalloc'":                      "cudart-not-linked",
		"x.c:(.text+0x16): référence indéfinie vers « cuInit »":                             "libcuda-not-linked",
		"x.c:(.text+0x16): неопределённая ссылка на «cudaMalloc»":                           "cudart-not-linked",
		"/usr/bin/ld : ne peut trouver -lcudart":                                            "link-cuda-libraries",
		"/usr/bin/ld: -lcudart が見つかりません":                                                    "link-cuda-libraries",
		"./app: error while loading shared libraries: libcuda.so.1: 无法打开共享对象文件: 没有那个文件或目录":  "libcuda-not-found",
		"kernel.cu:1:10: fatal error: cuda_fp16.h: Datei oder Verzeichnis nicht gefunden":   "cuda-header-missing",
		"wrapper.h:1:10: fatal error: cuda.h：没有那个文件或目录":                                     "cuda-header-missing",
		`LINK : fatal error LNK1181: 无法打开输入文件“nccl.lib”`:                                    "lnk1181-nccl",
		`LINK : fatal error LNK1181: 入力ファイル 'stdc++.lib' を開けません。`:                           "lnk1181-stdcxx",
		"C:\\CUDA\\include\\crt/host_config.h(153): schwerwiegender Fehler C1189: #error:  -- unsupported Microsoft Visual Studio version! Only the versions between 2017 and 2022 (inclusive) are supported!": "msvc-too-new-for-cuda",
		"kernel.cu : warning C4819: \xb8\xc3\xce\xc4\xbc\xfe\xb0\xfc\xba\xac\xb2\xbb\xc4\xdc\xd4\xda (936)":                                                                                                    "c4819-codepage",
		`esaxx.lib(esaxx.o) : error LNK2038: Konflikt ermittelt für "RuntimeLibrary": Wert "MT_StaticRelease" stimmt nicht mit Wert "MD_DynamicRelease" überein`:                                               "lnk2038-md-mt",
		`yvals_core.h(931): erreur STL1002: Unexpected compiler version, expected CUDA 12.4 or newer.`:                                                                                                         "stl1002-cuda-too-old-for-stl",
		// C1083 as Microsoft's pages have it: learn.microsoft.com/{de-de,fr-fr,ja-jp,zh-cn}/cpp/error-messages/compiler-errors-1/fatal-error-c1083
		`kernel.cu: fatal error C1083: Datei (Include) kann nicht geöffnet werden: "cuda_runtime.h": No such file or directory`: "toolkit-without-runtime",
		`kernel.cu: fatal error C1083: Impossible d'ouvrir le fichier include : 'nv/target' : No such file or directory`:        "toolkit-without-cccl",
		`kernel.cu: fatal error C1083: include ファイルを開けません。'cuda_runtime.h': No such file or directory`:                          "toolkit-without-runtime",
		`kernel.cu: fatal error C1083: 无法打开包括文件: “nv/target”: No such file or directory`:                                        "toolkit-without-cccl",
		`kernel.cu(1): fatal error C1083: Cannot open include file: 'cuda_runtime.h': No such file or directory`:                "toolkit-without-runtime",
	} {
		hosttest.Equal(t, first(t, text), want, text)
	}
}

// TestLooseWordsMatchNothing: lines that speak of the same things and are no failure, or are the failure of something else.
func TestLooseWordsMatchNothing(t *testing.T) {
	for _, text := range []string{
		"// Cannot find compiler 'cl.exe' is what nvcc says then",
		"called `Result::unwrap()` on an `Err` value: NotPresent\nnote: run with `RUST_BACKTRACE=1`",
		"LINK : fatal error LNK1181: cannot open input file 'libpq.lib'",
		"a.cpp(1): fatal error C1083: Cannot open include file: 'my_cuda_runtime.h': No such file or directory",
		"a.cpp(1): fatal error C1083: Cannot open include file: 'nv/targets': No such file or directory",
		"undefined reference to `cublas_wrapper_init'",
		"error MSB3721: The command \"cl.exe\" exited with code 2.",
		"my_fp16.hpp(3): error: identifier \"NV_IF_TARGET\" is undefined",
		"LINK : fatal error LNK1181: cannot open input file 'mycuda_helper.lib'",
		"rust-lld: error: unable to find library -lssl",
		"/usr/bin/ld: cannot find -lcudagraph: No such file or directory",
		"libcudnn_license.txt: 3 lines\nlibcudnn.so.9 was found",
		"error: exception specification is incompatible with that of previous function \"foo\"",
		"error: identifier \"__helper\" is undefined",
		"kernel.cu(3): error: identifier \"M_COUNT\" is undefined",
		"unrecognized feature for crate serde: derived",
		"0xc0000135 is the address of the table",
		"make: *** No rule to make target 'test', needed by 'all'.",
		"error: 'custom' was not declared in this scope",
		"GetProcAddress { name: 3 }",
		"python: undefined symbol: cuddly",
		"CUDA_ERROR_NOT_FOUND = 500,",
		"sccache: error: failed to get stats from server",
		"no CUDA-capable drive was found",
		"error[E0308]: mismatched types: two different versions of crate `rand` are being used",
		"Compute capability 121 used",
		"There is no cuda implementation for them in this fork.",
		"note: no cuda implementation for finding the roots",
		"test out_of_memory_is_an_error ... CUDA_ERROR_OUT_OF_MEMORY (expected)",
		"test tests::CUDA_ERROR_NO_DEVICE_is_handled ... ok",
		"batch 64: retrying after CUDA_ERROR_OUT_OF_MEMORY with 32 ... done",
		"    #[error(\"CUDA_ERROR_OUT_OF_MEMORY\")]",
		"If you see CUDA_ERROR_UNSUPPORTED_PTX_VERSION, update the driver.",
		"- `CUDA_ERROR_NO_DEVICE`: no GPU is visible",
	} {
		if got := special(ask(t, text)); len(got) != 0 {
			t.Errorf("%v were found in\n%s", got, text)
		}
	}
}

// TestKinds: the cause comes first, however late it stands and however often its consequences do.
func TestKinds(t *testing.T) {
	log := strings.Repeat("warning C4819: x\nkernel.cu : warning C4819: The file contains a character\n", 50) +
		"error: failed to run custom build command for `candle-kernels v0.9.1`\n" +
		"CMake Error at x.cmake:753 (message):\n  Compiling the CUDA compiler identification source file \"CMakeCUDACompilerId.cu\" failed.\n" +
		strings.Repeat("   Compiling a v1\n", 4000) +
		"nvcc fatal   : Unsupported gpu architecture 'compute_120'\r\n" +
		"nvcc fatal   : Unsupported gpu architecture 'compute_120'\r\n" +
		"LINK : fatal error LNK1181: cannot open input file 'cudnn.lib'\n"
	a := ask(t, log)
	want := "[arch-too-new-for-nvcc lnk1181-cudnn gpu-build-script-failed cmake-cuda-compiler-id-failed c4819-codepage]"
	if got := fmt.Sprint(ids(a)); got != want {
		t.Fatalf("got %s\nwant %s", got, want)
	}
	first := a.Found[0]
	if first.Line != 4104 || first.Count != 2 || first.Values["arch"] != "compute_120" || first.Text != "nvcc fatal   : Unsupported gpu architecture 'compute_120'" {
		t.Errorf("got %+v", first)
	}
	if w := first.Words(nil); !strings.Contains(w.Cause, "compute_120") || strings.Contains(w.Cause, "{arch}") || len(w.Here) > 0 {
		t.Errorf("the arch is not in %q, or what is not known is told: %q", w.Cause, w.Here)
	}
	if a.Lines != 4106 || a.Bytes != int64(len(log)) {
		t.Errorf("%d lines, %d bytes", a.Lines, a.Bytes)
	}
	if !a.Known() || ask(t, "kernel.cu : warning C4819: x").Known() {
		t.Error("a note explains nothing, a cause does")
	}
}

// TestConsequenceOfACause: a consequence is left out only where the cause explains every line of it.
func TestConsequenceOfACause(t *testing.T) {
	rule := func(id, kind, confirm string) string {
		return fmt.Sprintf("[[rule]]\nid='%s'\nkind='%s'\non=['cannot open']\nconfirm='%s'\ncause='c'\nfix='f'\nsource=['https://s']\n", id, kind, confirm)
	}
	rs := hosttest.Must(Parse(rule("one", "cause", "cannot open cudnn") + rule("any", "consequence", "cannot open")))(t)
	for text, want := range map[string]string{
		"cannot open cudnn\n": "[one]", "cannot open cudnn\ncannot open nccl\n": "[one any]", "cannot open nccl\ncannot open cudnn\n": "[one any]",
	} {
		hosttest.Equal(t, fmt.Sprint(ids(hosttest.Must(Read(rs, strings.NewReader(text)))(t))), want, text)
	}
}

// TestNeighbours: what a rule needs beside its line is found near it, and nowhere else.
func TestNeighbours(t *testing.T) {
	tail := "error: failed to run custom build command for `whisper-rs-sys v0.11.1`\nx\nx\ncalled `Result::unwrap()` on an `Err` value: NotPresent\n"
	log := strings.Repeat("a line of a log\n", 20000) + tail + strings.Repeat("more\n", 200)
	a := ask(t, log)
	if got := ids(a); len(got) != 2 || got[0] != "cuda-path-unset-whisper-rs-windows" || got[1] != "gpu-build-script-failed" || a.Found[0].Line != 20004 {
		t.Errorf("%v", describe(a))
	}
	far := "whisper-rs-sys\n" + strings.Repeat("x\n", 40) + "called `Result::unwrap()` on an `Err` value: NotPresent\n"
	if got := special(ask(t, far)); len(got) != 0 {
		t.Errorf("40 lines away are not near: %v", got)
	}
}

// TestTheEndIsRead: of a text of more than 16 MB the end is read, with the true number of each line; UTF-16 stays aligned. In a line without
// an end a text is found wherever it is.
func TestTheEndIsRead(t *testing.T) {
	const text = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
	crate := "   Compiling serde v1.0.228 " + strings.Repeat("(registry)", 20) + "\n"
	fill := strings.Repeat(crate, (keep+keep/3)/len(crate))
	a := ask(t, "rust-lld: error: unable to find library -lcuda\n"+fill+text+"\n")
	if len(a.Found) != 1 || a.Found[0].ID != "arch-too-new-for-nvcc" || a.Found[0].Line != strings.Count(fill, "\n")+2 || a.Lines != a.Found[0].Line {
		t.Errorf("%v", describe(a))
	}
	if a := ask(t, wide(fill[:len(fill)/2]+text, true, false)); len(a.Found) != 1 {
		t.Errorf("UTF-16: %v", describe(a))
	}
	if a := ask(t, strings.Repeat("x", 1<<20)+text+strings.Repeat("y", 1<<20)); len(a.Found) != 1 || a.Found[0].Line != 1 {
		t.Errorf("%v", describe(a))
	}
}

// TestErrorsAreShownWhole: with an error come the lines below that complete it, whatever prefix each line has, and no others.
func TestErrorsAreShownWhole(t *testing.T) {
	for text, want := range map[string]string{
		"2.272 CMake Error at a/CMakeLists.txt:65 (message):\n2.272   No such\n2.272   luck\n\n2.273 -- Configuring":                     "No such|luck",
		"error: failed to load source for dependency `a`\nnote: b\n\nCaused by:\n  Unable to update b\n\nCaused by:\n  c is\nwarning: d": "Unable to update b|c is",
		"  thread 'main' panicked at build.rs:1:2:\r\n  all is lost\r\n  note: run with `RUST_BACKTRACE=1`\r\n":                          "all is lost",
		"thread 'main' panicked at src/main.rs:1:2:\nDriverError(CUDA_ERROR_UNKNOWN, \"unknown error\")\nError: more":                    "DriverError(CUDA_ERROR_UNKNOWN, \"unknown error\")",
		"error: could not compile `a`\n  --- stdout\n  x":                                                                                "",
	} {
		a := ask(t, text)
		hosttest.Equal(t, strings.Join(a.Errors[0].More, "|"), want, text)
		if strings.Contains(text, "UNKNOWN") && (a.Errors[0].Status == nil || len(a.Errors) != 2) {
			t.Errorf("the status is not named once: %+v", a.Errors)
		}
	}
}

// TestSiblings: of rules that look at the same text only the one that fits speaks.
func TestSiblings(t *testing.T) {
	for text, want := range map[string]string{
		"Unable to find libclang: \"couldn't find any valid shared libraries matching: ['clang.dll'], set the `LIBCLANG_PATH` ...\"  (with %LIBCLANG_PATH% = \"C:\\LLVM\")": "[libclang-path-quoted]",
		"Unable to find libclang: \"couldn't find any valid shared libraries matching: ['clang.dll', 'libclang.dll'], set":                                                  "[libclang-missing-windows]",
		"nvcc fatal   : Unsupported gpu architecture 'compute_'":                                                                                                            "[cmake-native-arch-without-gpu]",
		"nvcc fatal   : Unsupported gpu architecture 'compute_90'":                                                                                                          "[arch-too-new-for-nvcc]",
		"LINK : fatal error LNK1181: cannot open input file 'nccl.lib'":                                                                                                     "[lnk1181-nccl]",
		"rust-lld: error: unable to find library -lcudart":                                                                                                                  "[link-cuda-libraries]",
		"rust-lld: error: unable to find library -lcuda":                                                                                                                    "[ld-cannot-find-lcuda]",
		"x: libcudnn.so.8: cannot open shared object file":                                                                                                                  "[cudnn-8-vs-9-soname]",
		"libcuda.so: undefined symbol: cuLogsCurrent":                                                                                                                       "[driver-symbol-missing-linux]",
	} {
		hosttest.Equal(t, fmt.Sprint(ids(ask(t, text))), want, text)
	}
}

// TestAnyWayToWrite: the same text gives the same answer in one piece, byte by byte, and in any pieces.
func TestAnyWayToWrite(t *testing.T) {
	rs := table(t)
	text := coloured("   Compiling x\nerror: linking with `cc` failed\nrust-lld: error: unable to find library -lcuda\n") +
		"\x1b[31merror\x1b[0m: thread 'main' panicked at build.rs\nUnsupported cuda toolkit version: `13.5`. Please raise a github issue.\n"
	for _, text := range []string{text, wide(text, true, true), wide(text+"😀\n", false, true), strings.ReplaceAll(text, "\n", "\r\n")} {
		whole := fmt.Sprintf("%+v", describe(ask(t, text)))
		if !strings.Contains(whole, "ld-cannot-find-lcuda") || !strings.Contains(whole, "cudarc-unsupported-toolkit") {
			t.Fatalf("got %s", whole)
		}
		for _, size := range []int{1, 2, 3, 7, 64, 255, 256, 257} {
			w := &Tail{}
			for p := []byte(text); len(p) > 0; {
				n := min(size, len(p))
				_, _ = w.Write(p[:n])
				p = p[n:]
			}
			hosttest.Equal(t, fmt.Sprintf("%+v", describe(w.Match(rs))), whole, "in pieces of", size)
		}
	}
}

func describe(a Match) []string {
	out := []string{fmt.Sprint(a.Lines, a.Bytes, a.Errors)}
	for _, f := range a.Found {
		out = append(out, fmt.Sprint(f.ID, f.Line, f.Count, f.Text, f.Values))
	}
	return out
}

// TestUnknownIsSaidToBeUnknown: other failures than a GPU's are pointed to and not explained.
func TestUnknownIsSaidToBeUnknown(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "logs", "unknown", "*.log"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d logs of other failures: %v", len(files), err)
	}
	for _, f := range files {
		data := hosttest.Must(os.ReadFile(f))(t)
		a := ask(t, string(data))
		if got := special(a); len(got) != 0 {
			t.Errorf("%s: %v", filepath.Base(f), got)
		}
		if len(a.Errors) == 0 {
			t.Errorf("%s: no line that looks like an error was pointed to", filepath.Base(f))
		}
	}
}

// TestGoodBuildsMatchNothing: logs of builds that succeeded, made by real builds.
func TestGoodBuildsMatchNothing(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "logs", "good", "*.log"))
	if err != nil || len(files) < 60 {
		t.Fatalf("%d logs of good builds: %v", len(files), err)
	}
	for _, f := range files {
		data := hosttest.Must(os.ReadFile(f))(t)
		a := ask(t, string(data))
		if len(a.Found) != 0 {
			t.Errorf("%s: %v: line %d: %s", filepath.Base(f), ids(a), a.Found[0].Line, a.Found[0].Text)
		}
		if n := filepath.Base(f); len(a.Errors) != 0 && n != "gpubuild-help.log" { // exit codes
			t.Errorf("%s: %v", n, a.Errors)
		}
	}
}

// TestFailuresOfRealProjects: logs of GPU builds that failed, and the rule that must come first.
func TestFailuresOfRealProjects(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "logs", "failed", "*.log"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d logs of failures: %v", len(files), err)
	}
	for _, f := range files {
		data := hosttest.Must(os.ReadFile(f))(t)
		want, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".log"), "--")
		hosttest.Equal(t, first(t, string(data)), want, string(data))
	}
}

// TestFactsFillSentences: what is known is told, a sentence with a hole is left out, the line's own words beat the machine's, and the first command that
// is whole is taken.
func TestFactsFillSentences(t *testing.T) {
	rs, err := Parse("[[rule]]\nid='a'\nkind='cause'\non=['needs CUDA']\nconfirm='needs CUDA (?P<cuda>[0-9.]+)'\ncause='{cuda} of {driver}'\nfix='f'\nsource=['https://s']\n" +
		"here=['{cuda} is asked','{driver} is here','{cuda} and {toolkit}','{gpu}']\ncommands=['x {images}','y {cuda} {driver}','z']\ncommand='w {images}'")
	if err != nil {
		t.Fatal(err)
	}
	f := hosttest.Must(Read(rs, strings.NewReader("it needs CUDA 12.4\n")))(t).Found[0]
	got := f.Words(Facts{CUDA: "13.0", Driver: "580", GPU: ""})
	if want := "{12.4 of 580 f y 12.4 580 [12.4 is asked 580 is here]}"; fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if got := (Found{Rule: f.Rule}).Words(nil); got.Command != "z" || got.Here != nil || got.Cause != "CUDA of DRIVER" {
		t.Errorf("without facts: %+v", got)
	}
	f.Rule.Commands = nil
	if got := f.Words(Facts{CUDA: "13.0"}); got.Command != "" || (Found{Rule: f.Rule}).Words(nil).Command != "w IMAGES" {
		t.Errorf("a command with a hole: %+v", got)
	}
	f.Rule.Commands = []string{"x {images}", "y {cuda} {driver}", "z"}
	hosttest.Equal(t, fmt.Sprint(f.Names()), "[images cuda driver toolkit gpu]", "names")
}

func TestTable(t *testing.T) {
	rs, err := parseChecked(rulesText)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[Kind]int{}
	for _, r := range rs.All {
		kinds[r.Kind]++
		for _, s := range r.Source {
			if !strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "measured ") {
				t.Errorf("%s: %q is no source", r.ID, s)
			}
		}
		// A command for one crate is right only where the line, or what must stand near it, shows that crate.
		if _, crate, found := strings.Cut(r.Command, " -p "); found && strings.HasPrefix(r.Command, "cargo ") &&
			!strings.Contains(strings.ToLower(fmt.Sprint(r.Confirm, r.Near, r.Examples)), strings.SplitN(crate, "-", 2)[0]) && r.Kind != Silent {
			t.Errorf("%s: %q, and nothing that it asks for names %s", r.ID, r.Command, crate)
		}
	}
	for _, home := range []string{"/root/", "/home/"} { // the release test takes such a path in a program for one of the builder
		if strings.Contains(rulesText, home) {
			t.Errorf("an example with a home directory: %s", home)
		}
	}
	if kinds[Cause] < 80 {
		t.Errorf("%v", kinds)
	}
	for code, want := range map[string]string{"lnk1181": "lnk1181-cudnn", "803": "driver-combination-803", "CL-EXE-not-in-path": "cl-exe-not-in-path"} {
		if got := rs.Lookup(code); len(got) == 0 || got[0].ID != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if got := rs.Lookup("nonsense"); got != nil {
		t.Errorf("%v", got)
	}
	for word, want := range map[string]string{"v9-header": "cudnn-v9-header-subdir", "ours.unreched": "ours.unreached",
		"CUDA_ERROR_NO_DEVCE": "CUDA_ERROR_NO_DEVICE"} {
		if got := rs.Near(word, []string{"ours.unreached"}); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v", word, got)
		}
	}
	if got := rs.Near("qqqqqqqq", nil); len(got) > 0 {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{
		"[[rule]]\nid='a'\nkind='odd'\ncause='c'\nfix='f'\nsource=['s']",
		"[[rule]]\nid='a'\nkind='cause'\non=['short']\nconfirm='x'\ncause='c'\nfix='f'\nsource=['s']",
		"[[rule]]\nid='a'\nkind='cause'\non=['long enough']\nconfirm='('\ncause='c'\nfix='f'\nsource=['s']",
		"[[rule]]\nid='a'\nkind='cause'\non=['long enough']\ncause='c'\nfix='f'\nsource=['s']",
		"[[rule]]\nid='a'\nkind='cause'\nunknown=1",
		"[[rule]]\nid='a'\nkind='silent'\ncause='c'\nfix='f'\nsource=['s']\n[[rule]]\nid='a'\nkind='silent'\ncause='c'\nfix='f'\nsource=['s']",
		"[[rule]]\nid='a'\nkind='silent'\ncause='{nobody-knows}'\nfix='f'\nsource=['s']",
		"[[rule]]\nid='a'\nkind='silent'\ncause='c'\nfix='f'\nhere=['{nobody-knows}']\nsource=['s']",
		"[[rule]]\nid='a'\nkind='silent'\ncause='c'\nfix='f'\nother='odd'\nsource=['s']",
		"no table",
	} {
		if _, err := parseChecked(bad); err == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
}

// TestCommands: a command is the fix itself and can be pasted: it holds no example value, is no look at something, and needs nothing that
// the text does not name; a rebuild is one only where nothing else must change first.
func TestCommands(t *testing.T) {
	rs := table(t)
	bad := regexp.MustCompile(`/usr/|target[/\\]|sm_\d|\b[A-Z]{5,}$|--gpu-ccbin|` +
		`^(gpubuild (doctor|scan|env|features|stale|prove)|nvidia-smi|vulkaninfo|rocminfo|clinfo|cargo tree|compute-sanitizer)\b`)
	n := 0
	for _, r := range rs.All {
		for _, c := range append(slices.Clone(r.Commands), r.Command) {
			if c != "" {
				n++
			}
			if bad.MatchString(c) || strings.Contains(c, "force-clean") && regexp.MustCompile(`^(Update|Install) `).MatchString(r.Fix) {
				t.Errorf("%s: %q is not the fix: %s", r.ID, c, r.Fix)
			}
		}
		for _, e := range r.Examples {
			for _, f := range ask(t, e).Found {
				if c := f.Words(Facts{Again: "gpubuild --features cuda"}).Command; named.MatchString(f.Command) && f.Values == nil && c != "" {
					t.Errorf("%s: %q holds what the text does not name", f.ID, c)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d commands were looked at", n)
	}
}

// TestShownTextIsTame: a log may hold anything; what is shown of it is one line of letters.
func TestShownTextIsTame(t *testing.T) {
	a := ask(t, "\x1b[2Jnvcc fatal   : Unsupported gpu architecture 'compute_\x07120'\nUnsupported gpu architecture\x00\u202e\x9b31m: nvcc fatal : Unsupported gpu architecture 'sm_1'\x7f"+strings.Repeat("é", 2000))
	if len(a.Found) != 1 {
		t.Fatalf("%v", ids(a))
	}
	for _, r := range a.Found[0].Text {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e {
			t.Errorf("%q holds %U", a.Found[0].Text, r)
		}
	}
	if n := len([]rune(a.Found[0].Text)); n > maxText+1 {
		t.Errorf("%d letters", n)
	}
}

func FuzzTail(f *testing.F) {
	rs := hosttest.Must(Default())(f)
	seen := map[string]bool{} // TestEveryExampleIsRecognised reads them all
	for _, r := range rs.All {
		if len(r.Examples) > 0 && !seen[r.Stage] {
			seen[r.Stage] = true
			f.Add([]byte(r.Examples[0]), 5)
		}
	}
	f.Add([]byte(wide("nvcc fatal", true, true)), 1)
	f.Add([]byte(coloured("nvcc fatal : x")), 2)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		whole, err := Read(rs, bytes.NewReader(data))
		if errors.Is(err, ErrBinary) {
			return
		}
		hosttest.OK(t, err)
		w := &Tail{}
		size = max(1, size&0xff)
		for p := data; len(p) > 0; {
			n := min(size, len(p))
			if got, err := w.Write(p[:n]); got != n || err != nil {
				t.Fatal(got, err)
			}
			p = p[n:]
		}
		if a, b := fmt.Sprint(describe(whole)), fmt.Sprint(describe(w.Match(rs))); a != b {
			t.Fatalf("in pieces of %d:\n%s\nwhole\n%s", size, b, a)
		}
	})
}

// A failing reader's error is the caller's, beside what was seen until then.
func TestBrokenReader(t *testing.T) {
	rs := table(t)
	a, err := Read(rs, io.MultiReader(strings.NewReader("nvcc fatal   : Unsupported gpu architecture 'sm_1'\n"), brokenReader{}))
	if err == nil || len(a.Found) != 1 {
		t.Errorf("%v, %v", err, ids(a))
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestEveryReportedFailure: of each failure that was collected from public threads before the first rule was written, the text is recognised, or it is
// said why it leaves none. The rules were written on these texts, so this shows that none was forgotten; what they do with others is in heldout_test.go.
func TestEveryReportedFailure(t *testing.T) {
	rs := table(t)
	data := hosttest.Must(os.ReadFile(filepath.Join("testdata", "reported.jsonl")))(t)
	known, silent := 0, 0
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var r struct{ ID, Text, As, None string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err, line)
		}
		rules := rs.Lookup(r.ID)
		if len(rules) != 1 {
			t.Errorf("%s: there is no such rule", r.ID)
			continue
		}
		if r.Text == "" {
			silent++
			if rules[0].Kind != Silent || len(r.None) < 20 {
				t.Errorf("%s leaves no text? %q", r.ID, r.None)
			}
			continue
		}
		known++
		want := r.ID
		if r.As != "" {
			want = r.As
		}
		if got := ids(ask(t, r.Text)); !slices.Contains(got, want) {
			t.Errorf("%s: got %v\n%s", r.ID, got, r.Text)
		}
	}
	if known != 100 || silent != 8 {
		t.Errorf("%d are recognised and %d leave no text", known, silent)
	}
}

// TestOwners: what a tool names is looked up; what nobody owns is not claimed, and a general rule is left out where a special one knows.
func TestOwners(t *testing.T) {
	for text, want := range map[string]string{
		"/usr/bin/ld: cannot find -lssl: No such file or directory":                                                          "library-to-link-not-found: part of OpenSSL",
		"a.c:1:10: fatal error: mpi.h: No such file or directory":                                                            "header-not-found: part of MPI",
		"undefined reference to `vkCreateInstance'":                                                                          "function-not-linked: of the Vulkan SDK",
		"undefined reference to `my_own_function'":                                                                           "function-not-linked: which is of no library",
		"a.c:1: fatal error: mpi.h: No such file\nx: /libc.so.6: version `GLIBC_2.38' not found (required by x)":             "glibc-too-old: ",
		"docker: Error response from daemon: Conflict. The container name \"/gpu\" is already in use by container \"5c2a\".": "container-refuses: A container of that name exists",
		"docker: Error response from daemon: No such container: nvidia-gpu":                                                  "container-refuses: A container, network",
		"docker: Error response from daemon: network nvidia-net not found.":                                                  "container-refuses: A container, network",
		"ERROR: failed to solve: failed to compute cache key: \"/gpu-kernels\": not found":                                   "container-refuses: A file that the Dockerfile",
		"docker: Error response from daemon: Bind for 0.0.0.0:80 failed: port is already allocated.":                         "container-refuses: The port",
		"docker: Error response from daemon: Get \"https://nvcr.io/v2/nvidia/cuda\": dial tcp: lookup nvcr.io: no such host": "container-refuses: The network",
		"ERROR: failed to solve: nvidia/cuda:99.0-devel: not found":                                                          "container-refuses: The registry has no such",
		"Error response from daemon: timeout waiting for gpu container to stop":                                              "",
		"curl: (22) The requested URL returned error: 502":                                                                   "network-failed: The server has a fault",
		"wgpu error: operation timed out while waiting for a fence":                                                          "",
		"Error: GPU worker request timed out after 30s":                                                                      "",
		"NCCL WARN error: socketProgress: Connection reset by peer":                                                          "",
		"fatal: could not open '/src/halfs.h' for reading":                                                                   "",
		"Error: https://huggingface.co/x/config.json: status code 503":                                                       "download-refused: ",
		"error: listening on http://0.0.0.0:3000\nGET /favicon.ico 404 Not Found":                                            "",
		"error: UnsupportedFeature(\"let chains\")":                                                                          "",
		"error: TLS 1.3 is not supported by the client":                                                                      "",
		"Error: Lock acquisition failed: /tmp/x.lock":                                                                        "",
		"Error: tcp connect: connection refused (os error 111)":                                                              "os-error: nothing listens there",
	} {
		a := ask(t, text)
		if want == "" {
			if a.Known() {
				t.Errorf("%q: %s", text, a.Found[0].ID)
			}
			continue
		}
		id, is, _ := strings.Cut(want, ": ")
		if !a.Known() || a.Found[0].ID != id || !strings.HasPrefix(a.Found[0].Values["is"], is) || is == "" && len(a.Found) != 1 {
			t.Errorf("%q: %+v", text, a.Found)
		}
	}
}
