package manifest

import (
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
)

const maxGlob = 20000 // directories that a member pattern looks at

// glob lists the directories that a workspace member pattern such as "crates/*" matches, sorted.
// saw gets every directory whose names, and every path whose existence, decided it.
// Source: the glob crate that cargo uses: * and ? stop at separators, ** is any number of directories, [!a] negates.
func glob(h buildenv.Host, dir, pattern string, saw func(path string)) []string {
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	if h.OS == buildenv.Windows {
		pattern = strings.ReplaceAll(pattern, `\`, "/")
	}
	at := []string{dir}
	if h.IsAbs(pattern) {
		i := strings.IndexByte(pattern, '/')
		at = []string{pattern[:i+1]}
		pattern = pattern[i+1:]
	}
	budget := maxGlob
	for _, part := range strings.Split(pattern, "/") {
		var next []string
		for _, d := range at {
			switch {
			case part == "**":
				built := ""
				for _, sub := range tree(h, d, &budget) {
					if h.Base(sub) == "target" {
						built = sub
					}
					// what builds leave in target changes all the time, and is no member
					if built == "" || sub != built && !h.Below(sub, built) {
						saw(sub)
					}
					next = append(next, sub)
				}
			case !strings.ContainsAny(part, "*?["):
				sub := h.Join(d, part)
				if saw(sub); h.IsDir(sub) {
					next = append(next, sub)
				}
			default:
				saw(d)
				for _, name := range subdirs(h, d, &budget) {
					if ok, err := path.Match(part, name); ok && err == nil {
						next = append(next, h.Join(d, name))
					}
				}
			}
		}
		slices.Sort(next)
		at = slices.Compact(next)
	}
	return at
}

// tree lists dir and every directory below it, links not followed.
func tree(h buildenv.Host, dir string, budget *int) []string {
	out := []string{dir}
	for i := 0; i < len(out); i++ {
		for _, name := range subdirs(h, out[i], budget) {
			sub := h.Join(out[i], name)
			if real, err := h.Files.EvalSymlinks(sub); err == nil && h.Base(real) == name {
				out = append(out, sub)
			}
		}
	}
	return out
}

func subdirs(h buildenv.Host, dir string, budget *int) []string {
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if *budget--; *budget < 0 {
			return names
		}
		if e.IsDir() || !e.Type().IsRegular() && h.IsDir(h.Join(dir, e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names
}
