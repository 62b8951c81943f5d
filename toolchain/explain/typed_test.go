package explain

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestNoLogIsTyped: what a log names stands in a fix or a command only as a word, in which no shell sees more.
func TestNoLogIsTyped(t *testing.T) {
	rs := table(t)
	const hostile = "foo; touch Q `touch Q` $(touch Q)"
	for _, r := range rs.All {
		f := Found{Rule: r, Values: map[string]string{}}
		if r.Confirm != nil {
			for _, name := range r.Confirm.SubexpNames() {
				f.Values[name] = hostile
			}
		}
		for _, onWindows := range []bool{false, true} {
			f.onWindows = onWindows
			if w := f.Words(Facts{Again: "gpubuild"}); strings.Contains(w.Fix+w.Command, "touch Q") {
				t.Errorf("%s: %s\n%s", r.ID, w.Fix, w.Command)
			}
		}
	}
	for _, o := range rs.All[0].owners {
		all := &Owner{Is: o.Is, Get: o.Get, Names: map[string]*regexp.Regexp{"any": regexp.MustCompile("")}}
		r := &Rule{Of: "any", Confirm: regexp.MustCompile(`(?P<thing>.*)`), owners: []*Owner{all}}
		if got := r.owned([][]byte{[]byte(hostile), []byte(hostile)})["get"]; strings.Contains(got, "touch Q") {
			t.Error(got)
		}
	}
	for text, want := range map[string]string{
		"The system library `foo; touch Q` required by crate `bar` was not found.": "apt install THING-dev",
		"The system library `--foo` required by crate `bar` was not found.":        "apt install THING-dev",
		"The system library `foo-1.0` required by crate `bar` was not found.":      "apt install foo-1.0-dev",
	} {
		if fix := ask(t, "error: failed to run custom build command for `a`\n"+text).Found[0].Words(Facts{}).Fix; !strings.Contains(fix, want) {
			t.Errorf("%s\n%s", text, fix)
		}
	}
	f := Found{Rule: &Rule{Commands: []string{"LIB={library-dir} {again}"}}}
	if got := f.Words(Facts{LibraryDir: "/a b", Again: "gpubuild -p x"}).Command; got != "LIB='/a b' gpubuild -p x" {
		t.Error(got)
	}
}

// TestSourcesAreShown: no text speaks of a source by its number, which the short form of an explanation does not print.
func TestSourcesAreShown(t *testing.T) {
	for _, r := range table(t).All {
		if text := r.Cause + r.Fix + r.Windows; regexp.MustCompile(`\b(first|second|third) source\b`).MatchString(text) {
			t.Errorf("%s: %s", r.ID, text)
		}
	}
}

func askOf(t testing.TB, rs *Rules, text string) Match {
	t.Helper()
	a, err := Read(rs, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestProgramsAreNoCompilers: a program's own words are not taken for a compiler's.
func TestProgramsAreNoCompilers(t *testing.T) {
	rs := table(t)
	for text, want := range map[string]string{
		`error: unknown argument "--pw"`: "", "error: invalid value 'x' for '--device <DEVICE>': invalid digit found in string": "",
		"error: invalid value 'c++20' in '-std=c++20'":                                                 "compiler-flag-unknown",
		`c1xx: fatal error C1083: Cannot open source file: 'kernels\a.cpp': No such file or directory`: "source-file-not-found",
	} {
		if got := ids(ask(t, text)); strings.Join(got[:min(1, len(got))], "") != want {
			t.Errorf("%v, want %q: %s", got, want, text)
		}
	}
	const spoken = "cc1plus: error: unrecognized command-line option '-std=c++20'\nLINK : fatal error LNK1201: x\n"
	if got := ids(askOf(t, rs.OfPrograms(), spoken)); len(got) > 0 || len(ask(t, spoken).Found) == 0 {
		t.Errorf("of a program: %v", got)
	}
	if got := ids(askOf(t, rs.OfPrograms(), "Error: CUDA_ERROR_NO_DEVICE\n")); len(got) != 1 {
		t.Errorf("of a program: %v", got)
	}
}

// TestCodesOfWindows: the codes of Microsoft's tools and of Windows are known by themselves, however a status is written.
func TestCodesOfWindows(t *testing.T) {
	rs := table(t)
	for code, want := range map[string]string{
		"LNK1104": "file-locked-at-link msvc-linker-code", "lnk1120": "msvc-linker-code", "LNK1201": "msvc-linker-code",
		"MSB8020": "vs-cuda-integration-missing", "MSB4019": "vs-cuda-integration-missing", "C2894": "c2894-in-cudafe-stub msvc-compiler-code",
		"0xC0000139": "dll-of-another-version", "0xc000007b": "dll-of-another-version", "3221225595": "dll-of-another-version",
		"0xc0000005": "access-violation-windows", "-1073741819": "access-violation-windows", "3221225477": "access-violation-windows",
		"-1073741515": "status-dll-not-found", "3221225781": "status-dll-not-found", "0xC00000FD": "os-error",
		"LNK9999": "", "-1": "", "4294967296": "", "error": "", "0xc0009999": "",
	} {
		var got []string
		for _, r := range rs.Lookup(code) {
			got = append(got, r.ID)
			if strings.ContainsAny(r.Cause+r.Fix, "{}") && r.Examples == nil {
				t.Errorf("%s: %s %s", code, r.Cause, r.Fix)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", code, got, want)
		}
	}
}

// TestPathOutsideTheCodePage: a ? in a path of Windows stands for a letter that the tool was not given.
func TestPathOutsideTheCodePage(t *testing.T) {
	rs := table(t)
	const id = "windows-path-not-in-code-page"
	for text, is := range map[string]bool{
		`nvcc fatal   : no such file or directory: 'C:\work\??\src\matmul.cu'`:                true,
		`clang: error: no such file or directory: 'C:\work\??\src\matmul.cu'`:                 true,
		`c1xx: fatal error C1083: Cannot open source file: 'Z:\work\?? 2\a.cu': No such file`: true,
		`"error: no such file or directory: 'C:\\work\\?\\src\\matmul.cu'"`:                   true,
		`LINK : fatal error LNK1104: cannot open file 'C:\??\x.lib'`:                          true,
		`error: no such file or directory: '\\?\C:\work\src\matmul.cu'`:                       false,
		`error: no such file or directory: '\\\\?\\C:\\work\\src\\matmul.cu'`:                 false,
		`clang: error: no such file or directory: 'C:\work\src\matmul.cu'`:                    false,
		`error: no such file or directory: '/work/??/src/matmul.cu'`:                          false,
		`curl: (6) cannot open https://example.org/a?b=c/: No such file or directory`:         false,
	} {
		if got := ids(ask(t, text)); slices.Contains(got, id) != is || is && got[0] != id {
			t.Errorf("%v: %s", got, text)
		}
	}
	if w := (Found{Rule: rs.Lookup(id)[0]}).Words(Facts{}); !strings.Contains(w.Fix, "UTF-8") || strings.Contains(w.Fix, "submodule") {
		t.Error(w.Fix)
	}
}

// TestCommandNotFoundInAnyLanguage: cmd's texts as users of each language report them, and Wine's.
func TestCommandNotFoundInAnyLanguage(t *testing.T) {
	for _, text := range []string{
		"Der Befehl \"nvcc\" ist entweder falsch geschrieben oder\nkonnte nicht gefunden werden.",
		"Der Befehl \"nvcc.exe\" ist entweder falsch geschrieben oder konnte nicht gefunden werden.",
		"'nvcc' n'est pas reconnu en tant que commande interne\nou externe, un programme exécutable ou un fichier de commandes.",
		"\"nvcc\" no se reconoce como un comando interno o externo,\nprograma o archivo por lotes ejecutable.",
		"\"nvcc\" non è riconosciuto come comando interno o esterno,\n un programma eseguibile o un file batch.",
		"'nvcc' não é reconhecido como um comando interno\nou externo, um programa operável ou um arquivo em lotes.",
		"'nvcc' n\xc6o \x82 reconhecido como um comando interno\nou externo, um programa oper\xa0vel ou um arquivo em lotes.", // code page 850
		"'nvcc' nie jest rozpoznawany jako polecenie wewnętrzne lub zewnętrzne,\nprogram wykonywalny lub plik wsadowy.",
		"Nazwa \"nvcc\" nie jest rozpoznawana jako polecenie wewnętrzne lub zewnętrzne,\nprogram wykonywalny lub plik wsadowy.",
		"\"nvcc\" не является внутренней или внешней\nкомандой, исполняемой программой или пакетным файлом.",
		"'nvcc' 不是内部或外部命令，也不是可运行的程序\n或批处理文件。",
		"'nvcc' は、内部コマンドまたは外部コマンド、\n操作可能なプログラムまたはバッチ ファイルとして認識されていません。",
		"'nvcc'은(는) 내부 또는 외부 명령, 실행할 수 있는 프로그램, 또는\n배치 파일이 아닙니다.",
		"Can't recognize 'nvcc' as an internal or external command, or batch script.",
	} {
		a, ninja := ask(t, text), ask(t, strings.ReplaceAll(text, "nvcc", "ninja"))
		if len(ninja.Found) != 1 || ninja.Found[0].ID != "command-not-found" || ninja.Found[0].Values["thing"] != "ninja" || len(a.Found) != 1 {
			t.Errorf("%v %v\n%s", describe(a), describe(ninja), text)
		}
	}
	if w := ask(t, "'ptxas' is not recognized as an internal or external command,").Found[0].Words(Facts{}); !strings.Contains(w.Cause, "not complete") {
		t.Error(w.Cause)
	}
}

// TestOtherWords: the same failures as tools in other languages, other linkers and other shells say them.
func TestOtherWords(t *testing.T) {
	for text, want := range map[string]string{
		"mold: fatal: library not found: cudart":                                                                                "link-cuda-libraries",
		"lld-link: error: could not open 'cudart.lib': no such file or directory":                                               "lnk1181-cudart-lib64",
		"/usr/bin/ld: no se puede encontrar -lcudart: No existe el fichero o el directorio":                                     "link-cuda-libraries",
		"/usr/bin/ld: impossibile trovare -lcudart":                                                                             "link-cuda-libraries",
		"a.o: referencia a `cudaMalloc' sin definir":                                                                            "cudart-not-linked",
		"a.o: `cudaMalloc' に対する定義されていない参照です":                                                                                    "cudart-not-linked",
		"a.o : error LNK2019: Verweis auf nicht aufgelöstes externes Symbol \"cudaMalloc\" in Funktion \"main\".":               "cudart-not-linked",
		"a.o : error LNK2019: symbole externe non résolu cudaMalloc référencé dans la fonction main":                            "cudart-not-linked",
		"a.o : error LNK2001: 外部シンボル \"cudaMalloc\" は未解決です":                                                                     "cudart-not-linked",
		"./app: error while loading shared libraries: libcudart.so.12: 공유 오브젝트 파일을 열 수 없습니다: 그런 파일이나 디렉터리가 없습니다":                "cuda-library-not-found",
		"./app: error while loading shared libraries: libcudart.so.12: no se puede abrir: No existe el fichero o el directorio": "cuda-library-not-found",
		"a.c:1:10: 致命的エラー: cuda.h: そのようなファイルやディレクトリはありません":                                                                      "cuda-header-missing",
		"bash: nvcc: Kommando nicht gefunden.":                                                                                  "nvcc-not-on-path", "bash: nvcc : commande introuvable": "nvcc-not-on-path",
		"zsh: command not found: nvcc": "nvcc-not-on-path", "fish: Unknown command: nvcc": "nvcc-not-on-path",
		"nvcc : 无法将“nvcc”项识别为 cmdlet、函数、脚本文件或可运行程序的名称。":                  "nvcc-not-on-path",
		"cp: error: Auf dem Gerät ist kein Speicherplatz mehr verfügbar": "disk-full",
	} {
		hosttest.Equal(t, first(t, text), want, text)
	}
}
