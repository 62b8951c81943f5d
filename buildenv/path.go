package buildenv

import (
	"cmp"
	"iter"
	"path"
	"strings"
)

// slash is the form in which both kinds of path are worked on. Windows accepts both separators.
func (h Host) slash(p string) string {
	if h.OS == Windows {
		return strings.ReplaceAll(p, `\`, "/")
	}
	return p
}

func (h Host) native(p string) string {
	if h.OS == Windows {
		return strings.ReplaceAll(p, "/", `\`)
	}
	return p
}

// Join joins path elements by the host's rules and cleans the result. Empty elements are left out.
func (h Host) Join(elem ...string) string {
	parts := make([]string, 0, len(elem))
	for _, e := range elem {
		if e != "" {
			parts = append(parts, h.slash(e))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return h.Clean(strings.Join(parts, "/"))
}

// Clean is path/filepath.Clean by the host's rules: a UNC prefix keeps its two separators and a drive its root.
func (h Host) Clean(p string) string {
	s := h.slash(p)
	if h.OS != Windows {
		return path.Clean(s)
	}
	if root := volume(s); root != "" {
		rest := path.Clean("/" + s[len(root):])
		if drive(root) && (len(s) == 2 || s[2] != '/') { // relative to the drive's own current directory
			rest = path.Clean(s[2:])
		} else if !drive(root) && rest == "/" {
			rest = ""
		}
		return h.native(root + rest)
	}
	clean := path.Clean(s)
	if drive(clean) { // of a\..\b: is left what would mean a drive
		clean = "./" + clean
	}
	return h.native(clean)
}

// volume returns what no ".." leads out of: "C:" or "//server/share", with separators as slash makes them.
func volume(s string) string {
	if drive(s) {
		return s[:2]
	}
	if !strings.HasPrefix(s, "//") {
		return ""
	}
	end := 2
	for names := 0; names < 2; names++ {
		if i := strings.IndexByte(s[end:], '/'); i < 0 {
			return s
		} else if end += i; names == 0 {
			end++
		}
	}
	return s[:end]
}

func drive(s string) bool {
	return len(s) >= 2 && s[1] == ':' && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z')
}

// Dir returns the directory of a path, cleaned; the root is its own.
func (h Host) Dir(p string) string {
	s := h.slash(h.Clean(p))
	i := strings.LastIndexByte(s, '/')
	switch {
	case i < 0:
		return "."
	case h.OS == Windows && strings.HasPrefix(s, "//") && i < len(volume(s)):
		return h.native(s)
	case h.OS == Windows && drive(s) && i == 2, i == 0:
		return h.native(s[:i+1])
	}
	return h.native(s[:i])
}

// Upwards yields a directory and then those above it, up to the root.
func (h Host) Upwards(dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for yield(dir) && h.Dir(dir) != dir {
			dir = h.Dir(dir)
		}
	}
}

// Base returns the last element of a path.
func (h Host) Base(p string) string { return path.Base(h.slash(p)) }

// Ext returns the extension with its dot, or nothing.
func (h Host) Ext(p string) string { return path.Ext(h.Base(p)) }

// IsAbs reports whether a path names the same file from everywhere.
func (h Host) IsAbs(p string) bool {
	s := h.slash(p)
	if h.OS != Windows {
		return strings.HasPrefix(s, "/")
	}
	return strings.HasPrefix(s, "//") || drive(s) && len(s) > 2 && s[2] == '/'
}

// Abs returns p from the host's current directory when it is relative.
func (h Host) Abs(p string) string { return h.Clean(h.From(h.Cwd, p)) }

// From is a path as it is meant in a directory: a relative one begins there, an absolute one stays as it is. On Windows "\x" begins at the
// root of the directory's drive, and "C:x" in the directory if that is on C, else in the current directory of C, which Windows keeps in the
// variable "=C:". Source: Microsoft, "Naming Files, Paths, and Namespaces", and GetFullPathName.
func (h Host) From(dir, p string) string {
	s := h.slash(p)
	switch {
	case h.IsAbs(p):
		return p
	case h.OS == Windows && drive(s):
		if root := volume(h.slash(dir)); !strings.EqualFold(root, s[:2]) {
			dir = cmp.Or(h.Env.Get("="+strings.ToUpper(s[:2])), s[:2]+"/")
		}
		return h.Join(dir, s[2:])
	case h.OS == Windows && strings.HasPrefix(s, "/"):
		return h.Join(volume(h.slash(dir)), s)
	}
	return h.Join(dir, p)
}

// SamePath reports whether two names are the same path by the host's rules for letters and separators; links are not followed.
func (h Host) SamePath(a, b string) bool {
	a, b = h.Clean(a), h.Clean(b)
	if h.OS == Windows {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// Below reports whether p lies in dir or is dir, by name.
func (h Host) Below(p, dir string) bool {
	a, b := h.slash(h.Clean(p)), strings.TrimSuffix(h.slash(h.Clean(dir)), "/")
	if h.OS == Windows {
		a, b = strings.ToLower(a), strings.ToLower(b)
	}
	return a == b || strings.HasPrefix(a, b+"/")
}

// ListSeparator is what stands between the directories of PATH.
func (h Host) ListSeparator() string {
	if h.OS == Windows {
		return ";"
	}
	return ":"
}

// SplitList splits a PATH-like value; empty entries are left out. On Windows
// quotes are taken off, and what stands between them is no separator.
func (h Host) SplitList(v string) []string {
	var out []string
	for _, e := range h.splitRaw(v) {
		if e = h.unquote(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// splitRaw is SplitList with the entries as they are written.
func (h Host) splitRaw(v string) []string {
	quoted := false
	return strings.FieldsFunc(v, func(r rune) bool {
		if h.OS == Windows && r == '"' {
			quoted = !quoted
		}
		return !quoted && string(r) == h.ListSeparator()
	})
}

func (h Host) unquote(entry string) string {
	if h.OS == Windows {
		return strings.ReplaceAll(entry, `"`, "")
	}
	return entry
}

// JoinList puts the separator between directories, or between lists that are joined already.
func (h Host) JoinList(dirs ...string) string { return strings.Join(dirs, h.ListSeparator()) }
