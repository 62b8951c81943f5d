package features

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"gpubuild/buildenv"
)

// osFiles reads the machine that the tests run on; the program itself has buildenv/local for that.
type osFiles struct{}

func (osFiles) Stat(p string) (fs.FileInfo, error)      { return os.Stat(p) }
func (osFiles) ReadDir(p string) ([]fs.DirEntry, error) { return os.ReadDir(p) }
func (osFiles) Open(p string) (fs.File, error)          { return os.Open(p) }
func (osFiles) EvalSymlinks(p string) (string, error)   { return filepath.EvalSymlinks(p) }

func realHost(t testing.TB) buildenv.Host {
	t.Helper()
	home, _ := os.UserHomeDir()
	return buildenv.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Env: buildenv.NewEnv(runtime.GOOS, os.Environ()), Files: osFiles{}, Home: home}
}

// memFiles is a machine made of texts by absolute path.
type memFiles struct{ m fstest.MapFS }

func rel(p string) string {
	if p = strings.TrimPrefix(p, "/"); p == "" {
		return "."
	}
	return p
}

func (f memFiles) Stat(p string) (fs.FileInfo, error)      { return fs.Stat(f.m, rel(p)) }
func (f memFiles) ReadDir(p string) ([]fs.DirEntry, error) { return fs.ReadDir(f.m, rel(p)) }
func (f memFiles) Open(p string) (fs.File, error)          { return f.m.Open(rel(p)) }
func (f memFiles) EvalSymlinks(p string) (string, error) {
	_, err := f.Stat(p)
	return p, err
}

func memHost(files map[string]string) buildenv.Host {
	m := fstest.MapFS{}
	for p, text := range files {
		m[rel(p)] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return buildenv.Host{OS: "linux", Arch: "amd64", Files: memFiles{m}, Home: "/home/u", Cwd: "/w"}
}

// pkg is a short way to write a manifest.
func pkg(name, rest string) string {
	return "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n" + rest
}
