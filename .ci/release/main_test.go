package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// copyTree copies what git tracks, and the release's own files while they are not tracked yet, with other times and permissions.
func copyTree(t *testing.T, to string, when time.Time) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = filepath.Join("..", "..")
	out := hosttest.Must(list.Output())(t)
	for _, name := range strings.Split(strings.Trim(string(out), "\x00"), "\x00") {
		if strings.HasPrefix(name, "testdata/") {
			continue
		}
		data := hosttest.Must(os.ReadFile(filepath.Join("..", "..", name)))(t)
		path := filepath.Join(to, name)
		hosttest.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		hosttest.OK(t, os.WriteFile(path, data, 0o640))
		hosttest.OK(t, os.Chtimes(path, when, when))
	}
}

const (
	testVersion = "1.2.3"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// TestTwoReleasesAreTheSame: from two directories with other times, in other time zones and with other flags in the environment, every byte is the same.
// GPUBUILD_TEST=release=all takes every platform, and gives each run an empty build cache (.ci/long).
func TestTwoReleasesAreTheSame(t *testing.T) {
	only := "linux/amd64,windows/amd64"
	if targets[len(targets)-1].canMake() {
		only += ",linux/amd64/nvml"
	}
	if need.Given("release") == "all" {
		only = ""
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var outs [2]string
	for i := range outs {
		tree := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i*2)+"tree")
		copyTree(t, tree, time.Unix(1500000000+int64(i)*1e7, 0))
		if i == 1 {
			t.Setenv("TZ", "Asia/Tokyo")
			t.Setenv("GOFLAGS", "-tags=something")
			t.Setenv("GOAMD64", "v2")
		}
		if need.Given("release") == "all" {
			t.Setenv("GOCACHE", t.TempDir())
		}
		outs[i] = filepath.Join(t.TempDir(), "dist")
		r := release{root: tree, out: outs[i], version: "v" + testVersion, commit: testCommit, zig: []string{need.Tool(t, "zig")}, address: "https://host.invalid/owner/repository"}
		hosttest.OK(t, r.run(only))
	}
	names := hosttest.Must(os.ReadDir(outs[0]))(t)
	for _, n := range names {
		a, err1 := os.ReadFile(filepath.Join(outs[0], n.Name()))
		b, err2 := os.ReadFile(filepath.Join(outs[1], n.Name()))
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v %v", n.Name(), err1, err2)
		}
	}
	chosen := hosttest.Must(choose(only))(t)
	others := 8 // install.sh, install.ps1, the image, and by -address the formula, the manifest of Scoop and the three of winget
	for _, target := range chosen {
		switch {
		case target.nvml:
		case target.os == "linux":
			others += 3 // a wheel, .deb and .rpm
		default:
			others++ // a wheel
		}
	}
	hosttest.Equal(t, len(names), 2*len(chosen)+others+1, names)
	sum := exec.Command("sha256sum", "-c", "SHA256SUMS")
	sum.Dir = outs[0]
	if out, err := sum.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 2*len(chosen)+others {
		t.Errorf("%v\n%s", err, out)
	}
	for _, target := range chosen {
		checkArchive(t, outs[0], target)
	}
	t.Run("runs", func(t *testing.T) { runs(t, outs[0]) })
	t.Run("an empty root", func(t *testing.T) { inAnEmptyRoot(t, outs[0]) })
	t.Run("Windows", func(t *testing.T) { onlyADriver(t, outs[0]) })
	t.Run("wheel", func(t *testing.T) { installsByPip(t, outs[0]) })
	t.Run("packages", func(t *testing.T) { unpacksPackages(t, outs[0]) })
	t.Run("nvml", func(t *testing.T) { needsGlibc(t, outs[0]) })
	t.Run("install.sh", func(t *testing.T) { installsByScript(t, outs[0]) })
	t.Run("materials", func(t *testing.T) { validMaterials(t, outs[0]) })
}

// checkArchive holds the name, the folder and the content of an archive against what the documents say.
func checkArchive(t *testing.T, dist string, target target) {
	t.Helper()
	fill := strings.NewReplacer("{ name }", "gpubuild", "{ target }", target.triple, "{ version }", testVersion, "{ bin }", "gpubuild", "{ binary-ext }", target.exe(""),
		"{ archive-format }", map[bool]string{true: "zip", false: "tgz"}[target.os == "windows"])
	archive := fill.Replace("{ name }-{ target }-v{ version }.{ archive-format }")
	program := fill.Replace("{ name }-{ target }-v{ version }/{ bin }{ binary-ext }")
	files := unpack(t, filepath.Join(dist, archive))
	folder := strings.TrimSuffix(program, target.exe("gpubuild"))
	for _, n := range []string{"LICENSE", "README.md", "man/gpubuild.1", "completions/gpubuild.bash", "completions/_gpubuild", "completions/gpubuild.fish",
		"completions/gpubuild.ps1", "gpubuild.cdx.json", "THIRD-PARTY.txt"} {
		if len(files[folder+n]) == 0 {
			t.Errorf("%s lacks %s", archive, n)
		}
	}
	count := 10
	if target.nvml {
		count++ // GLIBC.txt
	}
	if len(files) != count || len(files[program]) < 1<<20 {
		t.Errorf("%s: %d files, %s has %d bytes", archive, len(files), program, len(files[program]))
	}
	if place := regexp.MustCompile(`/home/|/root/|` + regexp.QuoteMeta(os.TempDir()) + `/Test`).Find(files[program]); place != nil {
		t.Errorf("%s has a path of this machine in it: %s", program, place)
	}
}

func unpack(t *testing.T, path string) map[string][]byte {
	t.Helper()
	data := hosttest.Must(os.ReadFile(path))(t)
	files := map[string][]byte{}
	if strings.HasSuffix(path, ".zip") {
		r := hosttest.Must(zip.NewReader(bytes.NewReader(data), int64(len(data))))(t)
		for _, f := range r.File {
			in, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if files[f.Name], err = io.ReadAll(in); err != nil {
				t.Fatal(err)
			}
			hosttest.Equal(t, f.Modified.Unix(), 1700000000, f.Name, "is of", f.Modified)
		}
		return files
	}
	z := hosttest.Must(gzip.NewReader(bytes.NewReader(data)))(t)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 1700000000 || h.Uid != 0 || h.Mode != map[bool]int64{true: 0o755, false: 0o644}[strings.HasSuffix(h.Name, "/gpubuild")] {
			t.Errorf("%+v", h)
		}
	}
}

// runs starts the released program: it says its version and its commit.
func runs(t *testing.T, dist string) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		need.Missing(t, "amd64", "not the platform of the archive")
	}
	self := filepath.Join(t.TempDir(), "gpubuild")
	if err := os.WriteFile(self, unpack(t, filepath.Join(dist, targets[0].archive(testVersion)))[targets[0].stem(testVersion)+"/gpubuild"], 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, "version", "--json").Output()
	var v struct {
		Schema, Version, Commit, Go, OS, Arch string
		CGO                                   bool
		Probe                                 string `json:"probe_sources"`
		Schemas                               map[string]string
		Libraries                             map[string]string
	}
	if err2 := json.Unmarshal(out, &v); err != nil || err2 != nil {
		t.Fatal(err, err2, string(out))
	}
	if v.Schema != "gpubuild/version/1" || v.Version != testVersion || v.Commit != testCommit || v.OS != "linux" || v.Arch != "amd64" || v.CGO || len(v.Probe) != 64 ||
		!strings.HasPrefix(v.Go, "go1.") || v.Schemas["receipt"] != "gpubuild/receipt/1" || v.Libraries["github.com/otiai10/copy"] == "" {
		t.Errorf("%s", out)
	}
	text, err := exec.Command(self, "version").Output()
	if err != nil || !strings.HasPrefix(string(text), "gpubuild "+testVersion+" "+testCommit[:12]+" (go1.") {
		t.Errorf("%v %s", err, text)
	}
}

// installsByPip installs the wheel without a network, and starts what it brings.
func installsByPip(t *testing.T, dist string) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		need.Missing(t, "amd64", "not the platform of the wheel")
	}
	venv := filepath.Join(t.TempDir(), "venv")
	for _, words := range [][]string{{need.Tool(t, "python"), "-m", "venv", venv}, {filepath.Join(venv, "bin", "pip"), "install", "-q", "--no-index", "--find-links", dist, "gpubuild"}} {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", words, err, out)
		}
	}
	for _, words := range [][]string{{"gpubuild", "version"}, {"cargo-gpubuild", "gpubuild", "version"}} {
		out, err := exec.Command(filepath.Join(venv, "bin", words[0]), words[1:]...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "gpubuild "+testVersion+" ") {
			t.Errorf("%q: %v\n%s", words, err, out)
		}
	}
}

// unpacksPackages has dpkg and rpm take the packages apart: each has the archive's program, the second name of it, and the licences. None
// recommends anything: apt would install Debian's cargo for who has rustup's.
func unpacksPackages(t *testing.T, dist string) {
	program := unpack(t, filepath.Join(dist, targets[0].archive(testVersion)))[targets[0].stem(testVersion)+"/gpubuild"]
	for _, p := range []struct{ file, tool, command string }{
		{"gpubuild_" + testVersion + "-1_amd64.deb", "apt", `dpkg-deb --info "$0" && dpkg-deb --extract "$0" .`},
		{"gpubuild-" + testVersion + "-1.x86_64.rpm", "rpm", `rpm --dbpath "$PWD/db" -K "$0" && rpm --dbpath "$PWD/db" -qip "$0" && rpm2archive - <"$0" | tar -xz`},
	} {
		need.Tool(t, p.tool)
		c := exec.Command(need.Tool(t, "sh"), "-ec", p.command, filepath.Join(dist, p.file))
		c.Dir = t.TempDir()
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "MIT") && p.tool == "rpm" || strings.Contains(string(out), "Recommends:") {
			t.Errorf("%s: %v\n%s", p.file, err, out)
			continue
		}
		got := hosttest.Must(os.ReadFile(filepath.Join(c.Dir, "usr/bin/cargo-gpubuild")))(t)
		info := hosttest.Must(os.Stat(filepath.Join(c.Dir, "usr/bin/gpubuild")))(t)
		if !bytes.Equal(got, program) || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: the program has %d bytes, mode %v", p.file, len(got), info.Mode())
		}
		licences := hosttest.Must(os.ReadFile(filepath.Join(c.Dir, "usr/share/doc/gpubuild/copyright")))(t)
		if !bytes.Contains(licences, []byte("==== musl")) {
			t.Errorf("%s: no licence of musl", p.file)
		}
	}
}

// needsGlibc starts the program with NVML, which names the C library that it needs.
func needsGlibc(t *testing.T, dist string) {
	target := targets[len(targets)-1]
	if !target.canMake() {
		need.Missing(t, "amd64", "not the platform of the archive")
	}
	files := unpack(t, filepath.Join(dist, target.archive(testVersion)))
	says := string(files[target.stem(testVersion)+"/GLIBC.txt"])
	if !regexp.MustCompile(`^This gpubuild needs Linux x86_64 with glibc 2\.\d+ or newer\.\n$`).MatchString(says) {
		t.Errorf("%q", says)
	}
	self := filepath.Join(t.TempDir(), "gpubuild")
	hosttest.OK(t, os.WriteFile(self, files[target.stem(testVersion)+"/gpubuild"], 0o755))
	out, err := exec.Command(self, "version", "--json").Output()
	if err != nil || !strings.Contains(string(out), `"cgo": true`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// installsByScript installs from the directory of the release, and refuses an archive that was changed.
func installsByScript(t *testing.T, dist string) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		need.Missing(t, "amd64", "not the platform of the archive")
	}
	bin := t.TempDir()
	run := func(base string) (string, error) {
		c := exec.Command(need.Tool(t, "sh"), filepath.Join(dist, "install.sh"))
		c.Env = append(os.Environ(), "GPUBUILD_BIN="+bin, "GPUBUILD_BASE="+base)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, base := range []string{dist, "file://" + dist, ""} { // the archive next to the script is found
		if out, err := run(base); err != nil || !strings.HasPrefix(out, "gpubuild "+testVersion+" ") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	changed, archive := t.TempDir(), targets[0].archive(testVersion)
	data := hosttest.Must(os.ReadFile(filepath.Join(dist, archive)))(t)
	hosttest.OK(t, os.WriteFile(filepath.Join(changed, archive), append(data, 0), 0o600))
	if out, err := run(changed); err == nil || !strings.Contains(out, "is not the one of this release") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInstallScriptFindsNothing: without the archive next to it, and without an address, install.sh says what it wants.
func TestInstallScriptFindsNothing(t *testing.T) {
	need.Tool(t, "linux")
	text := hosttest.Must(os.ReadFile("install.sh"))(t)
	script := filepath.Join(t.TempDir(), "install.sh")
	hosttest.OK(t, os.WriteFile(script, bytes.ReplaceAll(text, []byte("@BASE@"), nil), 0o600))
	for base, want := range map[string]string{"": ".tgz is not next to this script", "http://host.invalid": "is no https address"} {
		c := exec.Command(need.Tool(t, "sh"), script)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GPUBUILD_BASE=" + base}
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v: %s", base, err, out)
		}
	}
}

// validMaterials asks CycloneDX's own Python library, strictly.
func validMaterials(t *testing.T, dist string) {
	bom := filepath.Join(dist, targets[0].stem(testVersion)+".cdx.json")
	data := hosttest.Must(os.ReadFile(bom))(t)
	var got cdx
	hosttest.OK(t, json.Unmarshal(data, &got))
	seen := map[string]bool{}
	for _, c := range got.Components {
		seen[c.Name] = true
	}
	if !seen["std"] || !seen["github.com/BurntSushi/toml"] || !seen["golang.org/x/sys"] || len(got.Dependencies) != 1 || len(got.Dependencies[0].DependsOn) != len(got.Components) {
		t.Errorf("%s", data)
	}
	const check = `
import sys
from cyclonedx.validation.json import JsonStrictValidator
from cyclonedx.schema import SchemaVersion
wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
sys.exit(str(wrong) if wrong else 0)
`
	python := need.Tool(t, "cyclonedx")
	if exec.Command(python, "-c", "import cyclonedx.validation.json, jsonschema").Run() != nil {
		need.Missing(t, "cyclonedx", "pip install 'cyclonedx-python-lib[json-validation]', or cyclonedx=PYTHON")
	}
	if out, err := exec.Command(python, "-c", check, bom).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if exec.Command(python, "-c", check, filepath.Join(dist, "SHA256SUMS")).Run() == nil {
		t.Error("the validator takes anything")
	}
	broken := filepath.Join(t.TempDir(), "x.json")
	hosttest.OK(t, os.WriteFile(broken, bytes.Replace(data, []byte(`"type": "library"`), []byte(`"type": "nonsense"`), 1), 0o600))
	if exec.Command(python, "-c", check, broken).Run() == nil {
		t.Error("the validator takes a component of no known type")
	}
}

// inAnEmptyRoot proves a static program where there is nothing else: no compiler, no shell, no C library. Nothing is proven without a driver,
// and no compiler is asked for.
func inAnEmptyRoot(t *testing.T, dist string) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" || os.Geteuid() != 0 {
		need.Missing(t, "mount", "chroot is tried by root only")
	}
	root := t.TempDir()
	files := unpack(t, filepath.Join(dist, targets[0].archive(testVersion)))
	hosttest.OK(t, os.WriteFile(filepath.Join(root, name), files[targets[0].stem(testVersion)+"/"+name], 0o755))
	source := filepath.Join(t.TempDir(), "app.c")
	hosttest.OK(t, os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o600))
	if out, err := exec.Command(need.CC(t), "-static", "-o", filepath.Join(root, "app"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hosttest.OK(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
	// As a container has it: /proc, and nothing of the host.
	c := exec.Command("unshare", "--mount", "sh", "-c", "mount -t proc proc "+root+"/proc && exec chroot "+root+" /"+name+" prove /app")
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "GPUBUILD_CACHE=/cache"}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 21 || !strings.Contains(string(out), "Not proven") || strings.Contains(string(out), "compiler") {
		t.Errorf("%v\n%s", err, out)
	}
	if made, err := filepath.Glob(filepath.Join(root, "cache", "probe", "*", "libgpubuild_probe.so")); err != nil || len(made) != 1 {
		t.Errorf("%q, %v", made, err)
	}
}

// onlyADriver proves a program under Wine, with no compiler for Windows: the program of the archive, which is that of the wheel, starts its
// own probe's watcher. Nothing is proven without a driver.
func onlyADriver(t *testing.T, dist string) {
	setup := need.Value(t, "wine")
	need.Program(t, "wine", "wine")
	target := targets[2]
	program := unpack(t, filepath.Join(dist, target.archive(testVersion)))[target.stem(testVersion)+"/gpubuild.exe"]
	wheels := hosttest.Must(filepath.Glob(filepath.Join(dist, "*win_amd64.whl")))(t)
	in := hosttest.Must(zip.OpenReader(wheels[0]))(t)
	defer in.Close()
	wheel := hosttest.Must(in.Open("gpubuild-" + testVersion + ".data/scripts/gpubuild.exe"))(t)
	if data := hosttest.Must(io.ReadAll(wheel))(t); !bytes.Equal(data, program) {
		t.Errorf("the wheel's program has %d bytes, the archive's %d", len(data), len(program))
	}
	dir := t.TempDir()
	prefix, self, app, source := filepath.Join(dir, "prefix"), filepath.Join(dir, "gpubuild.exe"), filepath.Join(dir, "app.exe"), filepath.Join(dir, "app.c")
	hosttest.OK(t, os.WriteFile(self, program, 0o755))
	hosttest.OK(t, os.WriteFile(source, []byte("#include <stdio.h>\nint main(void) { puts(\"done\"); return 0; }\n"), 0o600))
	for _, words := range [][]string{{need.Tool(t, "zig"), "cc", "-target", "x86_64-windows-gnu", "-o", app, source}, {"cp", "-a", filepath.Join(setup, "prefix"), prefix}} {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", words, err, out)
		}
	}
	env := append(os.Environ(), "WINEPREFIX="+prefix, "WINEDEBUG=-all", "WINEARCH=win64", "DISPLAY=", "GPUBUILD_CACHE=Z:"+filepath.Join(dir, "cache"))
	t.Cleanup(func() {
		for _, how := range []string{"-k", "-w"} {
			stop := exec.Command("wineserver", how)
			stop.Env = env
			_ = stop.Run() // there may be none any more
		}
	})
	c := exec.Command("wine", "Z:"+self, "prove", "Z:"+app)
	c.Env = env
	// A file, because Wine's services keep what they were started with open, and a pipe would be waited for.
	said := hosttest.Must(os.Create(filepath.Join(dir, "said")))(t)
	defer said.Close()
	c.Stdout, c.Stderr = said, said
	err := c.Run()
	out := hosttest.Must(os.ReadFile(said.Name()))(t)
	if c.ProcessState.ExitCode() != 21 || !bytes.Contains(out, []byte("Not proven")) || !bytes.Contains(out, []byte("done")) || bytes.Contains(out, []byte("compiler")) {
		t.Errorf("%v\n%s", err, out)
	}
	if made, err := filepath.Glob(filepath.Join(dir, "cache", "probe", "*", "gpubuild_probe.dll")); err != nil || len(made) != 1 {
		t.Errorf("%q, %v", made, err)
	}
}

func TestBadReleases(t *testing.T) {
	full := t.TempDir()
	hosttest.OK(t, os.WriteFile(filepath.Join(full, "old"), nil, 0o600))
	for name, r := range map[string]release{
		"no version":      {root: ".", out: t.TempDir(), commit: testCommit},
		"odd version":     {root: ".", out: t.TempDir(), commit: testCommit, version: "1.2 -X x"},
		"odd docs":        {root: ".", out: t.TempDir(), commit: testCommit, version: testVersion, docs: "https://a/' -X main.x=1"},
		"something there": {root: ".", out: full, commit: testCommit, version: testVersion},
	} {
		if err := r.run(""); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	r := release{root: ".", out: t.TempDir(), commit: testCommit, version: testVersion}
	if err := r.run(""); err == nil || !strings.Contains(err.Error(), "yesterday") {
		t.Errorf("%v", err)
	}
	if _, err := choose("plan9/mips"); err == nil {
		t.Error("plan9 is released?")
	}
}
