package hosttest

import (
	"io/fs"
	"strings"
	"testing/fstest"

	"gpubuild/buildenv"
)

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

// Memory is a Linux machine made of texts by absolute path.
func Memory(files map[string]string) buildenv.Host {
	m := fstest.MapFS{}
	for p, text := range files {
		m[rel(p)] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return buildenv.Host{OS: "linux", Arch: "amd64", Files: memFiles{m}, Home: "/home/u", Cwd: "/w"}
}
