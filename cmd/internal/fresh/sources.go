package fresh

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features/manifest"
)

// sources are the files of a package by what they are good for here.
type sources struct {
	text    []string // may hold a kernel's source
	shipped []string // compiled kernels that came with the package
}

// sourcesOf lists the files of some directories. Build directories and checkouts of others below them are none of their sources.
func (s *State) sourcesOf(dirs []string) (sources, error) {
	var out sources
	left := inputs.MostEntries
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		entries, err := s.host.Files.ReadDir(dir)
		if err != nil {
			return err
		}
		if depth > 0 {
			for _, e := range entries {
				if e.Name() == "CACHEDIR.TAG" { // a build directory of cargo's
					return nil
				}
			}
		}
		for _, e := range entries {
			if left--; left < 0 {
				return errors.New("too many files")
			}
			path := s.host.Join(dir, e.Name())
			if e.IsDir() {
				p := s.b.Graph.Places
				cargos := s.host.SamePath(path, p.BuildDirectory) || s.host.SamePath(path, p.TargetDirectory)
				if e.Name() == ".git" || e.Name() == "node_modules" || depth == inputs.MostDepth || cargos {
					continue
				}
				if err := walk(path, depth+1); err != nil {
					return err
				}
				continue
			}
			switch strings.ToLower(s.host.Ext(path)) {
			case ".cu", ".cuh", ".h", ".hpp", ".inl", ".rs", ".in", ".jinja", ".c", ".cc", ".cpp":
				out.text = append(out.text, path)
			case ".ptx", ".cubin", ".fatbin", ".a", ".lib", ".o", ".obj", ".so", ".dll":
				out.shipped = append(out.shipped, path)
			}
		}
		return nil
	}
	for _, dir := range dirs {
		if err := walk(dir, 0); err != nil {
			return out, err
		}
	}
	return out, nil
}

// copied says whether each piece of code that is not what was asked for came compiled with the sources of its package: nothing is
// built of it.
func (s *State) copied(f *mistake) bool {
	if f.linked != "" || f.told != "" {
		return false
	}
	src, err := s.sourcesOf(s.sourceDirs(f))
	if err != nil || len(src.shipped) == 0 {
		return false
	}
	sums := map[string]bool{}
	for _, path := range src.shipped {
		if sum, err := cache.Hash(path); err == nil {
			sums[sum] = true
		}
	}
	return !slices.ContainsFunc(f.paths, func(path string) bool {
		sum, err := cache.Hash(path)
		return err != nil || !sums[sum]
	})
}

// sourceDirs are where the sources of a package's kernels may lie: in its own directory and, where nothing shows how they come to
// it, in those of the other packages of the project, which are the user's own as well.
func (s *State) sourceDirs(f *mistake) []string {
	dirs := []string{f.unit.Dir}
	if !s.undeclared[f.unit.PkgID] {
		return dirs
	}
	add := func(dir string) {
		if !slices.ContainsFunc(dirs, func(d string) bool { return s.host.Below(dir, d) }) {
			dirs = append(dirs, dir)
		}
	}
	add(s.b.Project.Root)
	for _, list := range [][]*manifest.Package{s.b.Project.Members, s.b.Project.Locals} {
		for _, p := range list {
			add(p.Dir)
		}
	}
	return dirs
}

// kernelsOf lists the names of all kernels that a piece of code stands for.
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

// isOwn says whether any of the kernels of a piece of code is in the package's own sources.
func (s *State) isOwn(f *mistake, c stale.Code, path string) (bool, error) {
	names, err := s.kernelsOf(c, path)
	if err != nil {
		return false, err
	}
	wanted := map[string]bool{}
	for _, k := range names {
		if id := sourceName(k); len(id) > 0 {
			wanted[id] = true
		}
	}
	src, err := s.sourcesOf(s.sourceDirs(f))
	if err != nil {
		return false, err
	}
	for _, path := range src.text {
		data, err := s.host.ReadFile(path, mostSource)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			s.shell.Detail("%v", err)
			continue
		}
		if !strings.Contains(string(data), "__global__") && !strings.Contains(string(data), ".entry") {
			continue
		}
		for _, id := range identifier.FindAllString(string(data), -1) {
			if wanted[id] {
				return true, nil
			}
		}
		for _, m := range pasted.FindAllStringSubmatch(string(data), -1) {
			for id := range wanted {
				if m[1] != "" && strings.HasPrefix(id, m[1]) || m[2] != "" && strings.HasSuffix(id, m[2]) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// pasted is the fixed part of a name that a macro puts together: add_##T, NAME##_kernel.
var pasted = regexp.MustCompile(`(?:([A-Za-z_]\w{2,})\s*##)|(?:##\s*([A-Za-z_]\w{2,}))`)

var identifier = regexp.MustCompile(`[A-Za-z_]\w*`)

// sourceName is a kernel's name as its source writes it: of a mangled name the last part of the qualified name, before any
// template argument. Source: Itanium C++ ABI 5.1, "External names": _Z, then N and parts for a nested name, each part its length
// and its characters.
func sourceName(kernel string) string {
	rest, mangled := strings.CutPrefix(kernel, "_Z")
	if !mangled {
		return kernel
	}
	rest = strings.TrimPrefix(rest, "N")
	rest = strings.TrimPrefix(rest, "L") // internal linkage
	name := ""
	for len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' {
		n := 0
		for len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' && n < 1<<16 {
			n, rest = n*10+int(rest[0]-'0'), rest[1:]
		}
		if n > len(rest) {
			break
		}
		name, rest = rest[:n], rest[n:]
	}
	return name
}
