package manifest

import (
	"net/url"
	"strings"

	"gpubuild/buildenv"
)

// PkgID is a cargo package id, taken apart. Source: the cargo book, pkgid-spec.md.
type PkgID struct {
	Kind    string // path, registry, sparse, git
	Name    string
	Version string

	path string // of its URL
}

// ParsePkgID reads `kind+url#version` and `kind+url#name@version`. What cannot be read gives an empty Name.
func ParsePkgID(s string) (id PkgID) {
	if name, rest, old := strings.Cut(s, " "); old && !strings.Contains(name, "+") { // cargo before 1.77: NAME VERSION (SOURCE)
		version, source, _ := strings.Cut(rest, " ")
		id = ParsePkgID(strings.Trim(source, "()"))
		id.Name, id.Version = name, version
		return id
	}
	u, err := url.Parse(s)
	if err != nil {
		return id
	}
	id.path = u.Path
	id.Kind, _, _ = strings.Cut(u.Scheme, "+")
	name, version, named := strings.Cut(u.Fragment, "@")
	if !named {
		name, version = u.Path[strings.LastIndexByte(u.Path, '/')+1:], u.Fragment
		if id.Kind == "git" {
			name = strings.TrimSuffix(name, ".git")
		}
	}
	id.Name, id.Version = name, version
	return id
}

// Local reports whether the package lies in the user's own files.
func (id PkgID) Local() bool { return id.Kind == "path" }

// Dir returns the directory of a path package by the host's rules; empty for others.
func (id PkgID) Dir(h buildenv.Host) string {
	dir := id.path
	if !id.Local() || dir == "" {
		return ""
	}
	if h.OS == buildenv.Windows && len(dir) > 2 && dir[2] == ':' { // /C:/w
		dir = dir[1:]
	}
	return h.Clean(dir)
}
