package session

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// place is a machine with some files, of which w is the current directory.
func newPlace(t *testing.T, files map[string]string) (*Machine, string) {
	t.Helper()
	host := hosttest.Must(local.Host())(t)
	top := t.TempDir()
	for name, text := range files {
		path := filepath.Join(top, filepath.FromSlash(name))
		hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
	}
	host.Cwd, host.Env = filepath.Join(top, "w"), buildenv.NewEnv(host.OS, []string{"CARGO_HOME=" + filepath.Join(top, "home")})
	return &Machine{Host: host, CacheDir: filepath.Join(top, "cache"), Began: time.Now(), Shell: &console.Shell{Out: io.Discard, Err: io.Discard}}, top
}

// TestSpeaking: cargo's flags and its variable say how loud and in what colour gpubuild speaks. The shell that was there stays as it was.
func TestSpeaking(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words, env             string
		quiet, verbose, colour bool
		before                 bool // coloured
	}{
		{words: "build"}, {words: "build", before: true, colour: true}, {words: "build -q", quiet: true}, {words: "build --quiet", quiet: true}, {words: "build -v", verbose: true},
		{words: "build", env: "true", quiet: true}, {words: "build", env: "false"}, {words: "build --color always", colour: true},
		{words: "build --color never", before: true}, {words: "build --color auto", before: true, colour: true},
	} {
		line, _ := hosttest.Must2(cargo.Split(strings.Fields(tt.words), nil))(t)
		m := &Machine{Shell: &console.Shell{Colour: tt.before, OutColour: tt.before}}
		if tt.env != "" {
			m.Host.Env = m.Host.Env.Set("CARGO_TERM_QUIET", tt.env)
		}
		was := *m.Shell
		if s := m.Speaking(line, "gpubuild --fetch").Shell; s.FetchHint != "gpubuild --fetch" || m.Shell.Colour != was.Colour || m.Shell.Quiet || m.Shell.Verbose || s.Quiet != tt.quiet || s.Verbose != tt.verbose || s.Colour != tt.colour || s.OutColour != tt.colour {
			t.Errorf("%+v: %+v", tt, s)
		}
	}
}

// TestKeepLock: what cargo did to Cargo.lock is undone, whatever came of it.
func TestKeepLock(t *testing.T) {
	t.Parallel()
	failed := errors.New("it failed")
	for _, tt := range []struct {
		story, before, after string // empty: it is not there
		err                  error
	}{
		{"nothing changed", "1", "1", nil}, {"it changed", "1", "2", nil}, {"it came", "", "2", nil}, {"it went", "1", "", nil},
		{"none was there", "", "", nil}, {"it changed, and cargo failed", "1", "2", failed}, {"it came, and cargo failed", "", "2", failed},
	} {
		m, top := newPlace(t, nil)
		path := filepath.Join(top, "Cargo.lock")
		put := func(text string) error {
			if text == "" {
				return errors.Join(os.RemoveAll(path))
			}
			return os.WriteFile(path, []byte(text), 0o600)
		}
		hosttest.OK(t, put(tt.before))
		s := &Session{Machine: m, Project: &manifest.Project{LockPath: path}}
		err := s.KeepLock(func() error { return errors.Join(put(tt.after), tt.err) })
		if !errors.Is(err, tt.err) || tt.err == nil && err != nil {
			t.Errorf("%s: %v", tt.story, err)
		}
		data, _ := os.ReadFile(path)
		hosttest.Equal(t, string(data), tt.before, tt.story, "it holds", data)
		if fi, err := os.Stat(path); (err == nil) != (tt.before != "") || err == nil && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", tt.story, fi, err)
		}
	}
	m, top := newPlace(t, map[string]string{"lock/x": ""})
	s := &Session{Machine: m, Project: &manifest.Project{LockPath: filepath.Join(top, "lock")}}
	if err := s.KeepLock(func() error { t.Error("cargo ran"); return nil }); err == nil {
		t.Error("a Cargo.lock that cannot be read is put back as nothing")
	}
}

// TestCopyLock: cargo gets a copy of Cargo.lock, or a place for one, and what a killed gpubuild left goes.
func TestCopyLock(t *testing.T) {
	t.Parallel()
	m, top := newPlace(t, map[string]string{"w/Cargo.lock": "1", "cache/lock-1/Cargo.lock": "", "cache/lock-2/Cargo.lock": "", "cache/graph/x": ""})
	m.Temp = &Temporary{}
	root := filepath.Join(top, "cache")
	for _, old := range []string{"lock-1", "graph"} {
		hosttest.OK(t, os.Chtimes(filepath.Join(root, old), time.Time{}, time.Now().Add(-25*time.Hour)))
	}
	for lock, want := range map[string]string{"w/Cargo.lock": "1", "w/none": ""} {
		path, remove, err := (&Session{Machine: m, Project: &manifest.Project{LockPath: filepath.Join(top, filepath.FromSlash(lock))}}).copyLock(root)
		hosttest.OK(t, err)
		data, err := os.ReadFile(path)
		hosttest.Equal(t, string(data), want)
		if (err == nil) != (want != "") || filepath.Base(path) != "Cargo.lock" {
			t.Errorf("%s: %s: %v", lock, path, err)
		}
		remove()
		hosttest.Equal(t, strings.Join(m.Host.Names(root), " "), "graph lock-2")
	}
}

// TestWhereConfigurationComesFrom: gpubuild.toml of the workspace, then the manifests' tables; outside of a project the file of the current directory.
func TestWhereConfigurationComesFrom(t *testing.T) {
	t.Parallel()
	const pkg = "[package]\nname = \"app\"\nversion = \"1.0.0\"\n"
	for _, tt := range []struct {
		story string
		files map[string]string
		arch  string
		bad   bool
	}{
		{"none", map[string]string{"w/Cargo.toml": pkg}, "", false},
		{"the file", map[string]string{"w/Cargo.toml": pkg + "[package.metadata.gpubuild.toolchain]\narch = \"80\"\n", "w/gpubuild.toml": "toolchain.arch = \"90\"\n"}, "90", false},
		{"the workspace's table", map[string]string{"w/Cargo.toml": pkg + "[workspace]\n[workspace.metadata.gpubuild.toolchain]\narch = \"75\"\n[package.metadata.gpubuild.toolchain]\narch = \"80\"\n"}, "75", false},
		{"the package's table", map[string]string{"w/Cargo.toml": pkg + "[package.metadata.gpubuild.toolchain]\narch = \"80\"\n"}, "80", false},
		{"no project", map[string]string{"w/gpubuild.toml": "toolchain.arch = \"90\"\n"}, "90", false},
		{"a fault of it", map[string]string{"w/gpubuild.toml": "arch = 90\n"}, "", true},
		{"a fault of the project's", map[string]string{"w/Cargo.toml": pkg, "w/gpubuild.toml": "arch = 90\n"}, "", true},
	} {
		m, _ := newPlace(t, tt.files)
		s, err := Anywhere(t.Context(), m, cargo.Line{})
		var wrong *config.Error
		if errors.As(err, &wrong) != tt.bad || err != nil != tt.bad {
			t.Errorf("%s: %v", tt.story, err)
		} else if s == nil || s.Config.Arch.Value != tt.arch {
			t.Errorf("%s: %+v", tt.story, s)
		}
	}
}

// TestTablesOfSelectedPackages: the table of a package counts where the package is selected, wherever the user is. Of several packages the
// names are joined, and what two of them set is said.
func TestTablesOfSelectedPackages(t *testing.T) {
	t.Parallel()
	pkg := func(name, more string) string {
		return "[package]\nname = \"" + name + "\"\nversion = \"1.0.0\"\n[package.metadata.gpubuild]\n" + more
	}
	files := map[string]string{
		"w/Cargo.toml":       "[workspace]\nmembers = [\"*\"]\ndefault-members = [\"b\", \"plai*\"]\n",
		"w/a/Cargo.toml":     pkg("a", "gpu-features = [\"x\"]\ntoolchain.arch = \"80\"\nprove.bin = \"a\"\n"),
		"w/b/Cargo.toml":     pkg("b", "gpu-features = [\"y\"]\ntoolchain.arch = \"90\"\n"),
		"w/bad/Cargo.toml":   pkg("bad", "arhc = \"80\"\n"),
		"w/plain/Cargo.toml": "[package]\nname = \"plain\"\nversion = \"1.0.0\"\n",
	}
	for _, tt := range []struct {
		dir, words, arch, features, unread string
		bad                                bool
	}{
		{dir: "", words: "build", arch: "90", features: "y"},
		{dir: "", words: "build -p a", arch: "80", features: "x"},
		{dir: "", words: "build --manifest-path a/Cargo.toml", arch: "80", features: "x"},
		{dir: "a", words: "build", arch: "80", features: "x"},
		{dir: "a", words: "build -p b", arch: "90", features: "y"},
		{dir: "a", words: "build -p plain"},
		{dir: "plain", words: "build -p a -p b", arch: "80", features: "x y",
			unread: "b/Cargo.toml [package.metadata.gpubuild]: toolchain.arch is not read, since a/Cargo.toml [package.metadata.gpubuild] has it, too"},
		{dir: "b", words: "build --workspace --exclude bad --exclude a", arch: "90", features: "y"},
		{dir: "", words: "build -p bad", bad: true},
		{dir: "", words: "build --workspace", bad: true},
	} {
		m, top := newPlace(t, files)
		m.Host.Cwd = filepath.Join(top, "w", tt.dir)
		line, _ := hosttest.Must2(cargo.Split(strings.Fields(tt.words), nil))(t)
		s, err := Open(m, line)
		if tt.bad {
			if err == nil {
				t.Errorf("%s in %q: no error", tt.words, tt.dir)
			}
			continue
		}
		unread := strings.NewReplacer(filepath.ToSlash(top)+"/w/", "").Replace(strings.ReplaceAll(strings.Join(s.Config.Unread, "\n"), `\`, "/"))
		if err != nil || s.Config.Arch.Value != tt.arch || strings.Join(s.Config.GPUFeatures.Value, " ") != tt.features || unread != tt.unread {
			t.Errorf("%s in %q: %v, %+v", tt.words, tt.dir, err, s.Config)
		}
		if p := s.Config.Prove.Value; p != nil && (!p.Covers("a") || p.Covers("b")) {
			t.Errorf("%s in %q: the table of a covers others, or not its own", tt.words, tt.dir)
		}
	}
}

// TestGPUWorkByConfiguration: packages that the configuration names, and macros that run nvcc, are GPU work whatever the crates are.
func TestGPUWorkByConfiguration(t *testing.T) {
	t.Parallel()
	const pkg = "[package]\nname = \"app\"\nversion = \"1.0.0\"\n"
	for _, tt := range []struct {
		story, manifest, lib, config string
		why                          string // empty: there is none
	}{
		{"nothing", pkg, "", "", ""},
		{"named", pkg, "", "gpu-packages = [\"x\"]\n", "names GPU packages"},
		{"a macro", pkg + "[lib]\nproc-macro = true\n", "Command::new(\"nvcc\")", "", "the procedural macro app runs nvcc"},
		{"a macro without it", pkg + "[lib]\nproc-macro = true\n", "Command::new(\"gcc\")", "", ""},
		{"a library that names it", pkg, "Command::new(\"nvcc\")", "", ""},
	} {
		files := map[string]string{"w/Cargo.toml": tt.manifest, "w/src/lib.rs": tt.lib}
		if tt.config != "" {
			files["w/gpubuild.toml"] = tt.config
		}
		m, _ := newPlace(t, files)
		s := hosttest.Must(Open(m, cargo.Line{}))(t)
		if work, why := s.GPUWork(); work != (tt.why != "") || work && !strings.Contains(why, tt.why) {
			t.Errorf("%s: %v %q", tt.story, work, why)
		}
	}
}

// TestUnmatchedNames: a name in the configuration that no manifest has is said, with its key and file, and one that is there is not.
func TestUnmatchedNames(t *testing.T) {
	t.Parallel()
	const lock = "version = 4\n\n[[package]]\nname = \"kernels\"\nversion = \"1.0.0\"\n"
	for _, tt := range []struct{ story, config, lock, want string }{
		{"all are there", "gpu-features = [\"fast\"]\ngpu-packages = [\"kernels\", \"app\"]\n", lock, ""},
		{"a feature", "gpu-features = [\"fats\"]\n", lock, "warning: gpubuild.toml: gpu-features: no package here has a feature `fats`\n"},
		{"a package", "gpu-packages = [\"kernel\"]\n", lock, "warning: gpubuild.toml: gpu-packages: Cargo.lock has no package `kernel`\n"},
		{"no lock file yet", "gpu-packages = [\"kernel\"]\n", "", ""},
	} {
		files := map[string]string{"w/gpubuild.toml": tt.config, "w/src/lib.rs": "",
			"w/Cargo.toml": "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[features]\nfast = []\n"}
		if tt.lock != "" {
			files["w/Cargo.lock"] = tt.lock
		}
		m, _ := newPlace(t, files)
		var said strings.Builder
		m.Shell.Err = &said
		s := hosttest.Must(Open(m, cargo.Line{Verb: "build"}))(t)
		if s.WarnUnmatched(); said.String() != tt.want {
			t.Errorf("%s: %q, want %q", tt.story, said.String(), tt.want)
		}
	}
}

// TestWhatCargoLooksAt: the paths whose change makes cargo's answer another, and those of which only the presence counts.
func TestWhatCargoLooksAt(t *testing.T) {
	t.Parallel()
	m, top := newPlace(t, map[string]string{"w/a/Cargo.toml": "", "w/a/src/bin/tool/main.rs": "", "w/a/src/bin/one.rs": "", "w/a/tests/t.rs": ""})
	w := watchList{host: m.Host, seen: map[string]bool{}}
	in := func(name string) string { return filepath.Join(top, filepath.FromSlash(name)) }
	w.local(in("w/a/Cargo.toml"))
	w.local(in("w/a/Cargo.toml"))
	w.add(in("w/x"), in("w/./x"))
	list := strings.Join(w.paths, "\n") + "\n"
	for name, want := range map[string]int{"w/a/Cargo.toml": 1, "w/Cargo.toml": 1, "Cargo.toml": 1, "w/a/src/bin": 1, "w/a/src/bin/tool": 1, "w/a/src/bin/one.rs": 0, "w/a/examples": 1,
		"w/a/tests": 1, "w/a/benches": 1, "w/a/build.rs": 0, "w/a/src/lib.rs": 0, "w/x": 1} {
		hosttest.Equal(t, strings.Count(list, in(name)+"\n"), want, name, "is looked at", "times")
	}
	if got := strings.Join(w.there, " "); got != in("w/a/build.rs")+" "+in("w/a/src/main.rs")+" "+in("w/a/src/lib.rs") {
		t.Errorf("of which the presence counts: %s", got)
	}
}

// TestQuiet: the session's own shell stays as loud as it was.
func TestQuiet(t *testing.T) {
	t.Parallel()
	m, _ := newPlace(t, nil)
	s := &Session{Machine: m, Line: cargo.Line{Verb: "build"}, Project: &manifest.Project{Root: "/a"}}
	if q := s.Quiet(); !q.Machine.Shell.Quiet || m.Shell.Quiet || q.Project != s.Project || q.Machine == m {
		t.Errorf("%+v", q)
	}
	other := &manifest.Project{}
	if s.Knowing(nil).Project != s.Project || s.Knowing(other).Project != other || s.Project == other {
		t.Error("a project that is not known replaces one that is")
	}
}
