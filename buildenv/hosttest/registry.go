package hosttest

import (
	"fmt"
	"io/fs"
	"sort"
	"strings"
)

// registry is what the @registry section says; without one every question is answered fs.ErrNotExist.
type registry struct {
	keys map[string]*key // by view and folded path, as place makes it
}

type key struct {
	path       string // as it was written
	unreadable bool
	values     map[string][2]string // folded name → name, value
}

func place(view int, path string) string { return fmt.Sprintf("%d|%s", view, strings.ToUpper(path)) }

// shortRoot writes the root as HKLM, HKCU, HKCR, HKU or HKCC.
func shortRoot(path string) string {
	root, rest, _ := strings.Cut(strings.Trim(path, `\`), `\`)
	for long, short := range map[string]string{
		"HKEY_LOCAL_MACHINE":  "HKLM",
		"HKEY_CURRENT_USER":   "HKCU",
		"HKEY_CLASSES_ROOT":   "HKCR",
		"HKEY_USERS":          "HKU",
		"HKEY_CURRENT_CONFIG": "HKCC",
	} {
		if strings.EqualFold(root, long) {
			root = short
		}
	}
	if rest == "" {
		return strings.ToUpper(root)
	}
	return strings.ToUpper(root) + `\` + rest
}

func (r *registry) parse(lines []string) error {
	var at []*key
	for _, l := range lines {
		if strings.HasPrefix(l, "[") {
			if !strings.HasSuffix(l, "]") {
				return fmt.Errorf("%q: want [KEY]", l)
			}
			at = r.section(l[1 : len(l)-1])
			continue
		}
		name, value, ok := strings.Cut(l, "=")
		if !ok || at == nil {
			return fmt.Errorf("%q: want NAME=VALUE below a [KEY]", l)
		}
		if name == "@" {
			name = ""
		}
		for _, k := range at {
			k.values[strings.ToUpper(name)] = [2]string{name, value}
		}
	}
	return nil
}

// section makes the key that a header names, and the keys above it, in the views that it belongs to.
func (r *registry) section(head string) []*key {
	var unreadable bool
	var views []int
	for {
		word, rest, ok := strings.Cut(head, " ")
		switch {
		case ok && word == "32":
			views = []int{32}
		case ok && word == "64":
			views = []int{64}
		case ok && word == "both":
			views = []int{64, 32}
		case ok && word == "unreadable":
			unreadable = true
		default:
			path := shortRoot(head)
			if views == nil {
				views = []int{64, 32}
				if up := strings.ToUpper(path) + `\`; strings.HasPrefix(up, `HKLM\SOFTWARE\`) {
					views = []int{64}
				}
			}
			var out []*key
			for _, v := range views {
				out = append(out, r.add(v, path))
			}
			for _, k := range out {
				k.unreadable = unreadable
			}
			return out
		}
		head = rest
	}
}

func (r *registry) add(view int, path string) *key {
	for i, c := range path {
		if c == '\\' {
			r.one(view, path[:i])
		}
	}
	return r.one(view, path)
}

func (r *registry) one(view int, path string) *key {
	p := place(view, path)
	if r.keys[p] == nil {
		r.keys[p] = &key{path: path, values: map[string][2]string{}}
	}
	return r.keys[p]
}

func (r *registry) open(path string, view int) (*key, error) {
	k := r.keys[place(view, shortRoot(path))]
	switch {
	case k == nil:
		return nil, &fs.PathError{Op: "open key", Path: path, Err: fs.ErrNotExist}
	case k.unreadable:
		return nil, &fs.PathError{Op: "open key", Path: path, Err: fs.ErrPermission}
	}
	return k, nil
}

// String reads one value of a key; the empty name is the default value.
func (r *registry) String(path, value string, view int) (string, error) {
	k, err := r.open(path, view)
	if err != nil {
		return "", err
	}
	v, ok := k.values[strings.ToUpper(value)]
	if !ok {
		return "", &fs.PathError{Op: "read value", Path: path + `\` + value, Err: fs.ErrNotExist}
	}
	return v[1], nil
}

// Values lists the names of a key's values.
func (r *registry) Values(path string, view int) ([]string, error) {
	k, err := r.open(path, view)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range k.values {
		out = append(out, v[0])
	}
	sort.Strings(out)
	return out, nil
}

// Keys lists the names of the keys just below one.
func (r *registry) Keys(path string, view int) ([]string, error) {
	if _, err := r.open(path, view); err != nil {
		return nil, err
	}
	var out []string
	prefix := place(view, shortRoot(path)) + `\`
	for p, k := range r.keys {
		if rest, ok := strings.CutPrefix(p, prefix); ok && !strings.Contains(rest, `\`) {
			out = append(out, k.path[len(k.path)-len(rest):])
		}
	}
	sort.Strings(out)
	return out, nil
}
