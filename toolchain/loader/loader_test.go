package loader

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
)

// here is this machine without variables of the loader, in dir.
func here(t *testing.T, dir string, env ...string) buildenv.Host {
	t.Helper()
	if runtime.GOOS != buildenv.Linux {
		need.Missing(t, "linux", "its loader is asked")
	}
	h := hosttest.Must(local.Host())(t)
	for _, name := range h.Env.Names() {
		if strings.HasPrefix(name, "LD_") {
			h.Env = h.Env.Unset(name)
		}
	}
	for _, e := range env {
		name, v, _ := strings.Cut(e, "=")
		h.Env = h.Env.Set(name, v)
	}
	h.Cwd = dir
	return h
}

// answers runs nothing, and prints what a loader of the tests would.
type answers struct {
	asked          []buildenv.Cmd
	stdout, stderr string
}

func (a *answers) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	a.asked = append(a.asked, c)
	return buildenv.Result{Stdout: []byte(a.stdout), Stderr: []byte(a.stderr)}, nil
}

// built compiles what the tests ask the loader about: app needs liba.so.1 and libb.so.1, and libb.so.1 needs libin.so.1.
func built(t *testing.T) string {
	t.Helper()
	need.Program(t, "cc", "gcc")
	dir := t.TempDir()
	cc := func(source string, args ...string) {
		t.Helper()
		c := exec.Command("gcc", append([]string{"-x", "c", "-", "-x", "none"}, args...)...)
		c.Dir, c.Stdin = dir, strings.NewReader(source)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, out)
		}
	}
	library := func(name, source string, args ...string) {
		t.Helper()
		hosttest.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		cc(source, append([]string{"-shared", "-fPIC", "-Wl,--no-as-needed,-soname," + filepath.Base(name), "-o", name}, args...)...)
	}
	for version, in := range map[string]string{"v1": "lib", "v0": "older"} {
		script := filepath.Join(dir, version)
		hosttest.OK(t, os.WriteFile(script, []byte(strings.ToUpper(version)+" { global: *; };\n"), 0o600))
		library(in+"/liba.so.1", "int a(void){return 0;}", "-Wl,--version-script="+script)
	}
	library("lib/libin.so.1", "int in(void){return 0;}")
	library("lib/libb.so.1", "int in(void); int b(void){return in();}", "lib/libin.so.1")
	library("stubs/libcuda.so.1", "int cuInit(void){return 34;}")
	library("own/libcuda.so.1", "int cuInit(void){return 34;} int gpubuild_link_stub;")
	library("audited.so", "int a(void){return 0;}", "-Wl,--audit=/opt/evil/audit.so", "lib/libb.so.1")
	const program = "int a(void), b(void), cuInit(void); int main(void){return 77;}"
	links := []string{"-Wl,--no-as-needed,--allow-shlib-undefined", "lib/liba.so.1", "lib/libb.so.1"}
	cc("int a(void), b(void); int main(void){return a()+b();}", append(links, "-o", "app")...)
	cc(program, "-Wl,--no-as-needed", "stubs/libcuda.so.1", "-o", "cuda")
	cc(program, "-Wl,--dynamic-linker=/opt/evil/ld.so", "-o", "evil")
	cc("int main(void){return 77;}", "-static", "-o", "static")
	cc(program, "-Wl,--audit=/opt/evil/audit.so", "-o", "audited")
	cc(program, "-Wl,--depaudit=/opt/evil/audit.so", "-o", "depaudited")
	shorten(t, filepath.Join(dir, "audited"), filepath.Join(dir, "hidden"))
	for name, text := range map[string]string{"text/liba.so.1": "GROUP ( liba.so.1 )", "text/libb.so.1": ""} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "text"), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shorten copies a program whose section header of .dynamic ends after one entry: only debug/elf reads that, and no loader.
func shorten(t *testing.T, from, to string) {
	t.Helper()
	data := hosttest.Must(os.ReadFile(from))(t)
	f := hosttest.Must(elf.NewFile(bytes.NewReader(data)))(t)
	table := binary.LittleEndian.Uint64(data[0x28:])
	n := slices.IndexFunc(f.Sections, func(s *elf.Section) bool { return s.Name == ".dynamic" })
	binary.LittleEndian.PutUint64(data[table+uint64(n)*64+0x20:], 16)
	hosttest.OK(t, os.WriteFile(to, data, 0o755))
}

// show writes what was found, one library a line, without those of the system.
func show(dir string, libs []Library) string {
	var b strings.Builder
	for _, l := range libs {
		if strings.HasPrefix(l.Path, "/lib") || strings.HasPrefix(l.Path, "/usr/lib") {
			continue
		}
		line := fmt.Sprintf("%s => %s by %s %s: %s", l.Name, l.Path, filepath.Base(l.By), l.Kind, l.Problem)
		b.WriteString(strings.ReplaceAll(line, dir+"/", "") + "\n")
	}
	return b.String()
}

func TestLoader(t *testing.T) {
	dir := built(t)
	t.Run("resolve", func(t *testing.T) { resolves(t, dir) })
	t.Run("open", func(t *testing.T) { opens(t, dir) })
	t.Run("the file's own", func(t *testing.T) { neverTheFilesOwn(t, dir) })
	t.Run("musl", func(t *testing.T) { readsMusl(t, dir) })
}

func resolves(t *testing.T, dir string) {
	const lib = "only in %s, which gpubuild adds to LD_LIBRARY_PATH: a bare start lacks it"
	onlyInLib := strings.Replace(lib, "%s", filepath.Join(dir, "lib"), 1)
	onlyInLib = strings.ReplaceAll(onlyInLib, dir+"/", "")
	for _, tt := range []struct {
		story, program, path string
		dirs                 []string
		want                 string
	}{
		{story: "linked statically", program: "static"},
		{story: "nowhere", program: "app", want: "liba.so.1 =>  by app missing: not found\nlibb.so.1 =>  by app missing: not found\n"},
		{story: "in LD_LIBRARY_PATH, relative to the current directory", program: "app", path: "lib",
			want: "liba.so.1 => lib/liba.so.1 by app : \nlibb.so.1 => lib/libb.so.1 by app : \n" +
				"libin.so.1 => lib/libin.so.1 by libb.so.1 : \n"},
		{story: "only in what gpubuild adds", program: "app", dirs: []string{filepath.Join(dir, "lib")},
			want: "liba.so.1 => lib/liba.so.1 by app added: " + onlyInLib + "\nlibb.so.1 => lib/libb.so.1 by app added: " + onlyInLib +
				"\nlibin.so.1 => lib/libin.so.1 by libb.so.1 added: " + onlyInLib + "\n"},
		{story: "where the loader looks anyway, with a further directory", program: "app", path: "lib", dirs: []string{filepath.Join(dir, "older")},
			want: "liba.so.1 => lib/liba.so.1 by app : \nlibb.so.1 => lib/libb.so.1 by app : \n" +
				"libin.so.1 => lib/libin.so.1 by libb.so.1 : \n"},
		{story: "an older one lacks the version", program: "app", path: "older:lib",
			want: "liba.so.1 => older/liba.so.1 by app broken: version `V1' not found (required by app)\n" +
				"libb.so.1 => lib/libb.so.1 by app : \nlibin.so.1 => lib/libin.so.1 by libb.so.1 : \n"},
		{story: "a text file in a library's place", program: "app", path: "text",
			want: "liba.so.1 => text/liba.so.1 by app broken: file too short\n"},
		{story: "a directory of stubs", program: "cuda", path: "stubs",
			want: "libcuda.so.1 => stubs/libcuda.so.1 by cuda stub: a link stub (in " + filepath.Join(dir, "stubs") + "): every call of it fails\n"},
		{story: "our own stub", program: "cuda", path: "own",
			want: "libcuda.so.1 => own/libcuda.so.1 by cuda stub: a link stub that gpubuild made: every call of it fails\n"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			libs, err := Resolve(t.Context(), here(t, dir, "LD_LIBRARY_PATH="+tt.path), proc.Runner{}, filepath.Join(dir, tt.program), tt.dirs)
			if got := show(dir, libs); err != nil || got != strings.ReplaceAll(tt.want, dir+"/", "") {
				t.Errorf("got\n%s\nwant\n%s%v", got, tt.want, err)
			}
			for _, l := range libs {
				hosttest.Equal(t, slices.Contains(tt.dirs, filepath.Dir(l.Path)), (l.Origin == originAdded), l.Path, "is said to be", l.Origin)
			}
		})
	}
}

func opens(t *testing.T, dir string) {
	names := []string{"libmissing.so.3", "libb.so.1", filepath.Join(dir, "lib/liba.so.1"), "/none/libx.so"}
	libs, err := Open(t.Context(), here(t, dir), proc.Runner{}, "/bin/sh", names, []string{filepath.Join(dir, "lib")})
	want := "libmissing.so.3 =>  by sh missing: not found\n" +
		"libb.so.1 => lib/libb.so.1 by sh added: only in lib, which gpubuild adds to LD_LIBRARY_PATH: a bare start lacks it\n" +
		"lib/liba.so.1 => lib/liba.so.1 by sh : \n/none/libx.so =>  by sh missing: not found\n"
	if got := show(dir, libs); err != nil || got != want {
		t.Errorf("got\n%s\nwant\n%s%v", got, want, err)
	}
}

// neverTheFilesOwn: a repository could name any program as the loader of its files, and any library for it to run.
func neverTheFilesOwn(t *testing.T, dir string) {
	h := here(t, dir)
	nobody := &answers{}
	for _, name := range []string{"evil", "audited", "depaudited", "hidden", "audited.so"} {
		libs, err := Resolve(t.Context(), h, nobody, filepath.Join(dir, name), nil)
		if err != nil || len(nobody.asked) > 0 || len(libs) == 0 || libs[0].Kind != Unknown {
			t.Errorf("%s: %+v, %v, asked %v", name, libs, err, nobody.asked)
		}
	}
	h.Arch = "arm64"
	libs, err := Resolve(t.Context(), h, nobody, filepath.Join(dir, "app"), nil)
	if h.Arch != runtime.GOARCH && (err != nil || len(nobody.asked) > 0 || len(libs) == 0 || libs[0].Kind != Unknown) {
		t.Errorf("of another processor: %+v, %v, asked %v", libs, err, nobody.asked)
	}
}

// readsMusl reads what musl's loader prints (1.2.3).
func readsMusl(t *testing.T, dir string) {
	o := hosttest.Must(open(here(t, dir), filepath.Join(dir, "app")))(t)
	const loader = "/lib/ld-musl-x86_64.so.1"
	said := &answers{nil, "\t" + loader + " (0x7ffb6fddc000)\n\tlibb.so.1 => ./lib/libb.so.1 (0x7f1abefba000)\n" +
		"\tlibc.so.6 => " + loader + " (0x7ffb6fddc000)\n",
		"Error loading shared library liba.so.1: No such file or directory (needed by ./app)\nError relocating ./app: a: symbol not found\n"}
	libs, err := trace(t.Context(), here(t, dir, "LD_LIBRARY_PATH=lib", "LD_PRELOAD=x"), said, loader, o, nil, []string{"/more"})
	want := "libb.so.1 => lib/libb.so.1 by app : \nliba.so.1 =>  by app missing: not found\n"
	if got := show(dir, libs); err != nil || got != want {
		t.Errorf("got\n%s\nwant\n%s%v", got, want, err)
	}
	c := said.asked[0]
	if !slices.Contains(c.Env, "LD_LIBRARY_PATH=lib:/more") || slices.Contains(c.Env, "LD_PRELOAD=x") || c.Args[0] != "--list" {
		t.Errorf("asked by %+v", c)
	}
}

func TestResolveWhatIsNoProgram(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{"": "cut off", "MZ\x90\x00\x03": "a Windows program", "#!/bin/sh\n": "a script",
		"\x7fELF": "cut off", "not an ELF file, but long enough to be one: it has more bytes than a header takes": "bad magic number"} {
		file := filepath.Join(dir, "file")
		hosttest.OK(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Resolve(t.Context(), here(t, dir), &answers{}, file, nil)
		if exit.Of(err) != exit.Usage || exit.Hint(err) == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Resolve(t.Context(), here(t, dir), &answers{}, "/none", nil); err == nil {
		t.Error("a file that is not there")
	}
}

func TestRunDirs(t *testing.T) {
	h := windows(t, map[string]any{`C:\tk\bin\x64\cudart64_13.dll`: "", `C:\tk\bin\nvcc.exe`: "", `C:\old\bin\cudart64_12.dll`: "",
		`C:\stubs\nvcuda.dll`: "", `C:\plain\a.dll`: ""}, "")
	got := strings.Join(RunDirs(h, "", "relative", `C:\tk`, `C:\tk\bin`, `C:\TK\bin\x64`, `C:\old`, `C:\stubs`, `C:\plain`, `C:\none`), " ")
	if want := `C:\tk\bin\x64 C:\old\bin C:\plain`; got != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	self := hosttest.Must(os.ReadFile(os.Args[0]))(f)
	f.Add(self[:min(len(self), 4096)])
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o, err := parse("x", bytes.NewReader(data)); (o == nil) == (err == nil) {
			t.Errorf("%v, %v", o, err)
		}
	})
}
