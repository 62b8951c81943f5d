package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestWineLoader holds what `scan --libraries` says against a real loader of Windows programs: Wine's, and its own list of what it loaded.
func TestWineLoader(t *testing.T) {
	w := newWine(t)
	mingw := func(args ...string) {
		t.Helper()
		c := exec.Command(args[0], args[1:]...)
		c.Dir = w.work
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	for _, tool := range []string{"x86_64-w64-mingw32-gcc", "ld.lld"} {
		need.Program(t, "wine", tool)
	}
	const libs = "Bibliothèques zwei"
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(w.work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(libs+"/b.c", "__declspec(dllexport) int b(void) { return 1; }\n")
	write("late.c", "__declspec(dllexport) int late(void) { return 40; }\n")
	write("a.c", "__declspec(dllimport) int b(void);\n__declspec(dllexport) int a(void) { return b() + 1; }\n")
	write("bin/app.c", "#include <windows.h>\nint a(void);\nint late(void);\nstatic int has(const char *s, char c) { for (; *s; s++) if "+
		"(*s == c) return 1; return 0; }\n"+
		"void start(void) { ExitProcess(has(GetCommandLineA(), '+') ? a() + late() - 42 : a() - 2); }\n")
	const gcc = "x86_64-w64-mingw32-gcc"
	found, err := exec.Command(gcc, "-print-file-name=libkernel32.a").Output()
	if err != nil {
		t.Fatal(err)
	}
	mingw(gcc, "-shared", "-o", libs+"/b.dll", libs+"/b.c", "-Wl,--out-implib,libb.a")
	mingw(gcc, "-shared", "-o", "bin/a.dll", "a.c", "-L.", "-lb", "-Wl,--out-implib,liba.a")
	// Only lld makes delay-load imports as Microsoft's linker does: GNU ld 2.40 leaves their directory out of the header.
	mingw(gcc, "-O1", "-c", "late.c", "-o", "late.o")
	mingw("ld.lld", "-m", "i386pep", "-shared", "-o", libs+"/late.dll", "late.o", "--entry=late", "--out-implib", "liblate.a")
	mingw(gcc, "-O1", "-c", "bin/app.c", "-o", "app.o")
	mingw("ld.lld", "-m", "i386pep", "-o", "bin/app.exe", "--entry=start", "app.o", "-L.", "-la", "-llate",
		"-L"+filepath.Dir(string(found)), "-lmingwex", "-lmsvcrt", "-lkernel32",
		"--Xlink=-delayload:late.dll")

	path := []string{"WINEPATH=" + z(filepath.Join(w.work, libs))} // Wine puts it on PATH
	app := z(filepath.Join(w.work, "bin", "app.exe"))
	type library struct {
		Name, Path, Kind string
		Delayed          bool
	}
	scan := func() (map[string]library, error) {
		t.Helper()
		out, err := w.run(path, z(w.gpubuild), "scan", "--libraries", "--json=answer.json", app)
		data, e := os.ReadFile(filepath.Join(w.work, "answer.json"))
		if e != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var answer struct {
			Files []struct {
				Libraries []library
				Delayed   []string `json:"delayed_imports"`
			}
		}
		if e := json.Unmarshal(data, &answer); e != nil || len(answer.Files) != 1 {
			t.Fatalf("%v\n%s", e, data)
		}
		if d := answer.Files[0].Delayed; len(d) != 1 || d[0] != "late.dll" {
			t.Errorf("delayed imports of the program: %q", d)
		}
		found := map[string]library{}
		for _, l := range answer.Files[0].Libraries {
			found[strings.ToLower(l.Name)] = l
		}
		return found, err
	}
	// loaded is what Wine loads for the program, by lower-case name, as native code: its own DLLs are built in.
	line := regexp.MustCompile(`(?m)^([0-9a-f]+):trace:loaddll:\S+ Loaded L"(.*)" at [0-9A-F]+: (native|builtin)`)
	loaded := func(args ...string) (map[string]string, error) {
		t.Helper()
		out, err := w.run(append([]string{"WINEDEBUG=-all,+loaddll"}, path...), append([]string{app}, args...)...)
		found := map[string]string{}
		for _, m := range line.FindAllStringSubmatch(out, -1) {
			file := strings.ReplaceAll(m[2], `\\`, `\`)
			if m[3] == "native" && strings.HasPrefix(file, "Z:") {
				found[strings.ToLower(file[strings.LastIndexByte(file, '\\')+1:])] = file
			}
		}
		return found, err
	}

	ours, err := scan()
	if err != nil {
		t.Errorf("everything is there, and scan ended %d", code(err))
	}
	if !ours["late.dll"].Delayed || ours["a.dll"].Delayed || ours["kernel32.dll"].Path == "" {
		t.Errorf("got %+v", ours)
	}
	atStart, err := loaded()
	if err != nil {
		t.Fatalf("the program: %v", err)
	}
	if len(atStart) != 3 { // app.exe, a.dll, b.dll: late.dll was not called
		t.Errorf("Wine loaded %v", atStart)
	}
	all, err := loaded("+")
	if err != nil || len(all) != 4 {
		t.Errorf("Wine loaded %v, %v", all, err)
	}
	plain := regexp.MustCompile(`\\[0-9a-f]{4}`) // the trace writes what is not ASCII as \ and four digits
	for name, want := range all {
		if name == "app.exe" {
			continue
		}
		got := ours[name].Path
		if plain.MatchString(want) {
			got, want = regexp.MustCompile(`[^\x00-\x7f]`).ReplaceAllString(got, "?"), plain.ReplaceAllString(want, "?")
		}
		if !strings.EqualFold(got, want) {
			t.Errorf("%s: scan says %q, Wine loaded %q", name, got, want)
		}
	}

	if err := os.Rename(filepath.Join(w.work, libs, "late.dll"), filepath.Join(w.work, "late.away")); err != nil {
		t.Fatal(err)
	}
	if ours, err = scan(); code(err) != 11 || ours["late.dll"].Kind != "missing" {
		t.Errorf("without late.dll scan ended %d: %+v", code(err), ours["late.dll"])
	}
	if _, err := loaded(); err != nil {
		t.Errorf("without late.dll the program does not start: %v", err)
	}
	for range 3 { // what an exception that nobody handles ends with is up to Wine's debugger, which may not come up
		if _, err = loaded("+"); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("without late.dll the program calls it and ends well")
	}
	if err := os.Rename(filepath.Join(w.work, libs, "b.dll"), filepath.Join(w.work, "b.away")); err != nil {
		t.Fatal(err)
	}
	if ours, err = scan(); code(err) != 11 || ours["b.dll"].Kind != "missing" {
		t.Errorf("without b.dll scan ended %d: %+v", code(err), ours["b.dll"])
	}
	if _, err := loaded(); err == nil {
		t.Error("without b.dll the program starts")
	}
	write("bin/b.dll", "no DLL")
	if ours, err = scan(); code(err) != 12 || ours["b.dll"].Kind != "broken" {
		t.Errorf("with a b.dll that is text scan ended %d: %+v", code(err), ours["b.dll"])
	}
	if _, err := loaded(); err == nil {
		t.Error("with a b.dll that is text the program starts")
	}
}
