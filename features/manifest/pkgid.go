package manifest

import (
	"net/url"
	"strings"

	"gpubuild/buildenv"
)

// PkgID is a cargo package id, taken apart. Source: the cargo book, pkgid-spec.md; the older form is that of cargo before 1.77.
type PkgID struct {
	Kind    string // path, registry, sparse, git; empty when unknown
	URL     string // without kind, query and fragment
	Name    string
	Version string
}

// ParsePkgID reads `kind+url#version`, `kind+url#name@version` and `name version (kind+url)`. What cannot be read gives an empty Name.
func ParsePkgID(s string) PkgID {
	if i := strings.Index(s, " ("); i > 0 && strings.HasSuffix(s, ")") {
		name, version, _ := strings.Cut(s[:i], " ")
		id := source(s[i+2 : len(s)-1])
		id.Name, id.Version = name, version
		return id
	}
	src, frag, found := strings.Cut(s, "#")
	id := source(src)
	if !found {
		frag = ""
	}
	switch name, version, named := strings.Cut(frag, "@"); {
	case named:
		id.Name, id.Version = name, version
	case frag != "" && !('0' <= frag[0] && frag[0] <= '9'):
		id.Name = frag
	default:
		id.Version = frag
		last := strings.TrimRight(strings.ReplaceAll(id.URL, `\`, "/"), "/")
		last = last[strings.LastIndexByte(last, '/')+1:]
		if u, err := url.PathUnescape(last); err == nil {
			last = u
		}
		if id.Kind == "git" {
			last = strings.TrimSuffix(last, ".git")
		}
		id.Name = last
	}
	return id
}

func source(s string) PkgID {
	var id PkgID
	kind, rest, ok := strings.Cut(s, "+")
	if !ok || strings.ContainsAny(kind, ":/") {
		rest, kind = s, ""
		if strings.HasPrefix(s, "file:") {
			kind = "path"
		}
	}
	id.Kind = kind
	rest, _, _ = strings.Cut(rest, "#") // a git source carries its commit in the older form
	id.URL, _, _ = strings.Cut(rest, "?")
	return id
}

// Local says whether the package lies in the user's own files.
func (id PkgID) Local() bool { return id.Kind == "path" }

// Dir answers the directory of a path package by the host's rules; empty for others.
func (id PkgID) Dir(h buildenv.Host) string {
	rest, ok := strings.CutPrefix(id.URL, "file://")
	if !ok || id.Kind != "path" {
		return ""
	}
	if u, err := url.PathUnescape(rest); err == nil {
		rest = u
	}
	if h.OS == buildenv.Windows && len(rest) > 2 && rest[0] == '/' && rest[2] == ':' {
		rest = rest[1:]
	}
	return h.Clean(rest)
}
