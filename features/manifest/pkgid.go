package manifest

import (
	"net/url"
	"strings"

	"gpubuild/buildenv"
)

// PkgID is a cargo package id, taken apart. Source: the cargo book, pkgid-spec.md.
type PkgID struct {
	Kind    string // path, registry, sparse, git; empty when unknown
	URL     string // without kind, query and fragment
	Name    string
	Version string
}

// ParsePkgID reads `kind+url#version` and `kind+url#name@version`. What cannot be read gives an empty Name.
func ParsePkgID(s string) (id PkgID) {
	src, frag, _ := strings.Cut(s, "#")
	kind, address, ok := strings.Cut(src, "+")
	if !ok || strings.ContainsAny(kind, ":/") {
		kind, address = "", src
	}
	id.Kind = kind
	id.URL, _, _ = strings.Cut(address, "?")
	if id.Name, id.Version, ok = strings.Cut(frag, "@"); !ok {
		last := id.URL[strings.LastIndexByte(id.URL, '/')+1:]
		id.Name, id.Version = unescaped(last), frag
		if kind == "git" {
			id.Name = strings.TrimSuffix(id.Name, ".git")
		}
	}
	return id
}

// Local reports whether the package lies in the user's own files.
func (id PkgID) Local() bool { return id.Kind == "path" }

// Dir returns the directory of a path package by the host's rules; empty for others.
func (id PkgID) Dir(h buildenv.Host) string {
	dir, ok := strings.CutPrefix(id.URL, "file://")
	if !ok || !id.Local() {
		return ""
	}
	if dir = unescaped(dir); h.OS == buildenv.Windows && len(dir) > 2 && dir[0] == '/' && dir[2] == ':' {
		dir = dir[1:]
	}
	return h.Clean(dir)
}

func unescaped(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}
