package fresh

import (
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/gpu/verify"
)

// mostSource bounds how much of one source file is read.
const mostSource = 8 << 20

// origin says where the device code of a mistake comes from, as far as the sources of its package show.
type origin struct {
	own    []bool // of each mismatch: one of its kernels is in the package's own sources
	copied bool   // every file came compiled with the sources: nothing is built of it
}

// originOf reads the sources of a package once. What cannot be read is no source.
func (s *State) originOf(f *mistake) origin {
	h := s.b.Machine.Host
	out := origin{own: make([]bool, len(f.list))}
	wanted := map[string][]int{} // the mismatches that involve a kernel of that name
	for i, m := range f.list {
		names, err := s.kernelsOf(m.Code, f.paths[i])
		if err != nil {
			s.b.Machine.Shell.Detail("%s cannot be checked: %v", f.paths[i], err)
		}
		for _, k := range names {
			if id := sourceName(k); id != "" {
				wanted[id] = append(wanted[id], i)
			}
		}
	}
	mark := func(is func(id string) bool) {
		for id, list := range wanted {
			for _, i := range list {
				out.own[i] = out.own[i] || is(id)
			}
		}
	}
	shipped := map[string]bool{}
	read := func(path, _ string, _ fs.DirEntry, isDir bool) bool {
		if isDir {
			return inputs.Own(h, path, s.b.ownDirs())
		}
		switch strings.ToLower(h.Ext(path)) {
		case ".ptx", ".cubin", ".fatbin", ".a", ".lib", ".o", ".obj", ".so", ".dll":
			if sum, err := cache.Hash(path); err == nil {
				shipped[sum] = true
			}
		case ".cu", ".cuh", ".h", ".hpp", ".inl", ".rs", ".in", ".jinja", ".c", ".cc", ".cpp":
			data, err := h.ReadFile(path, mostSource)
			text := string(data)
			if err != nil || !strings.Contains(text, "__global__") && !strings.Contains(text, ".entry") {
				return false
			}
			for _, word := range identifier.FindAllString(text, -1) {
				for _, i := range wanted[word] {
					out.own[i] = true
				}
			}
			for _, m := range pasted.FindAllStringSubmatch(text, -1) {
				mark(func(id string) bool {
					return m[1] != "" && strings.HasPrefix(id, m[1]) || m[2] != "" && strings.HasSuffix(id, m[2])
				})
			}
		}
		return false
	}
	for _, dir := range s.sourceDirs(f) {
		if _, err := h.Walk(dir, read); err != nil {
			s.b.Machine.Shell.Detail("the sources of %s cannot be read: %v", f.pkg.Name, err)
		}
	}
	out.copied = len(shipped) > 0 && !slices.ContainsFunc(f.paths, func(path string) bool {
		sum, err := cache.Hash(path)
		return err != nil || !shipped[sum]
	})
	return out
}

// sourceDirs are where the sources of a package's kernels may lie: in its own directory and, where nothing shows how they come to it, in
// those of the whole project, which are the user's own as well.
func (s *State) sourceDirs(f *mistake) []string {
	if f.pkg.undeclared && s.b.Project.Root != "" {
		return []string{f.pkg.Dir, s.b.Project.Root}
	}
	return []string{f.pkg.Dir}
}

// kernelsOf lists the names of all kernels that were made in the same ways as a piece of code.
func (s *State) kernelsOf(c stale.Code, path string) ([]string, error) {
	report, err := s.b.Scan(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for k, makes := range byKernel(report.Images) {
		same := len(makes) == len(c.Makes)
		for _, m := range makes {
			same = same && slices.Contains(c.Makes, m)
		}
		if same {
			out = append(out, k)
		}
	}
	return out, nil
}

// pasted is the fixed part of a name that a macro puts together: add_##T, NAME##_kernel.
var pasted = lazyregexp.New(`(?:([A-Za-z_]\w{2,})\s*##)|(?:##\s*([A-Za-z_]\w{2,}))`)

var identifier = lazyregexp.New(`[A-Za-z_]\w*`)

// sourceName is a kernel's name as its source writes it: the last part of the qualified name, before any template argument.
func sourceName(kernel string) string {
	name, _, _ := strings.Cut(verify.Plain(kernel), "<")
	return name[strings.LastIndex(name, ":")+1:]
}
