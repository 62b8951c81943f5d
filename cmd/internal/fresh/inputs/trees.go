package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/source"
	"gpubuild/toolchain/install/tree"
)

// IncludeDirectory is the input for the toolkit's own headers, all of them.
const IncludeDirectory = "CUDA include directory"

// toolkitHeader are the names directly below a toolkit's include directory that are CUDA's, of a compiler, a runtime or a library
// that comes with it: /usr/include, where distributions have CUDA's, holds everything else.
var toolkitHeader = lazyregexp.New(
	`^(cuda|cu(rand|blas|sparse|solver|fft|pti|file)|nvrtc|nv[A-Z]|nvfatbin|nvml|nvtx|npp|nvjpeg|nv$|crt$|cccl$|cub$|` +
		`thrust$|cooperative_groups|mma\.h|sm_\d|vector_|device_|driver_|math_|host_|texture_|surface_|` +
		`builtin_types|channel_descriptor|common_functions|library_types|fatbinary)`,
)

// tree hashes the files below a directory that count, by name and content. They are read once; after that they are only looked at, one by
// one, as long as size, time and state of each are what they were.
func (n *collector) tree(dir string, most int, enter func(path string) bool, counts func(path, rel string) bool) string {
	type file struct{ name, path string }
	var files []file
	look := sha256.New()
	complete, err := n.host.Walk(dir, func(path, rel string, _ fs.DirEntry, isDir bool) bool {
		if isDir || !counts(path, rel) || len(files) > most {
			return isDir && enter(path)
		}
		if n.host.IsFile(path) { // not one that is gone since, or a link to nothing: nobody can include that
			files = append(files, file{rel, path})
			fmt.Fprintln(look, rel, n.h.identity(path))
		}
		return false
	})
	if errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	n.failed(err)
	if !complete || len(files) > most {
		n.h.tooMany(dir)
	}
	sum, err := n.h.known("files of "+dir+" "+hex.EncodeToString(look.Sum(nil)[:16]), func() (string, error) {
		content := sha256.New()
		for _, f := range files {
			one, err := cache.Hash(f.path)
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return "", err
			}
			fmt.Fprintln(content, f.name, one)
		}
		n.h.Read += len(files)
		return hex.EncodeToString(content.Sum(nil)[:16]), nil
	})
	n.failed(err)
	return sum
}

// includes are the toolkit's headers as a whole, where nobody knows which of them are read. A toolkit of our own cache is complete and
// never changed once its marker is there.
func (n *collector) includes() {
	t := n.set.Toolkit
	if t == nil || t.Include == "" || !n.u.Unknown && !n.u.Inputs.Binds {
		return
	}
	ours := n.host.Real(n.host.Join(n.h.m.CacheDir, "toolkits"))
	id := ""
	if n.host.Below(t.Real, ours) {
		id = n.h.identity(n.host.Join(t.Real, tree.MarkerFile)) // none: it is not complete
	}
	if id != "" {
		id = "by marker " + id
	} else {
		top := func(rel string) bool { name, _, _ := strings.Cut(rel, "/"); return toolkitHeader.MatchString(name) }
		root := n.host.Real(t.Include)
		enter := func(path string) bool { return top(strings.ReplaceAll(path[len(root)+1:], `\`, "/")) }
		id = n.tree(root, 1<<30, enter, func(_, rel string) bool { return top(rel) })
	}
	n.add(IncludeDirectory, t.Version.String()+" "+t.Include, id)
}

// content of what a variable names: the value, and of each path in it the content of the file, or of the C, C++ and CUDA files in the
// directory. The roots of the toolkit and the system's directories count by identity, and by what is read of them. Empty: it names nothing.
func (n *collector) named(value string) string {
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n=,;\"'@", r) })
	parts = append(append(parts, n.host.SplitList(value)...), value)
	sum, any, seen := sha256.New(), false, map[string]bool{}
	shown := value
	if t := n.set.Toolkit; t != nil { // the same toolkit in another place is the same
		for _, root := range []string{t.Real, t.Root} {
			shown = strings.ReplaceAll(strings.ReplaceAll(shown, root+"/", "toolkit/"), root, "toolkit")
		}
	}
	fmt.Fprintln(sum, strings.TrimRight(shown, `/\`))
	for _, p := range parts {
		for _, flag := range []string{"-isystem", "-iquote", "-I", "-L"} {
			p = strings.TrimPrefix(p, flag)
		}
		path := n.host.From(n.u.Dir, p)
		switch t := n.set.Toolkit; {
		case p == "" || seen[path] || path == n.u.Dir:
		case t != nil && (n.host.Below(n.host.Real(path), t.Real) || n.host.Below(path, t.Root)) && shown != value:
			any = true
		case source.Unchanging(n.host, path) || n.host.Dir(path) == path || n.host.SamePath(path, n.host.Home) ||
			n.host.Below(n.h.m.CacheDir, path):
		case n.host.IsFile(path):
			any = true
			fmt.Fprintln(sum, n.content(path))
		case n.host.IsDir(path):
			any = true
			own := func(dir string) bool { return Own(n.host, dir, n.h.built) }
			fmt.Fprintln(sum, n.tree(n.host.Real(path), mostNamed, own, func(path, _ string) bool { return Compiled(n.host, path) }))
		case strings.ContainsAny(p, `/\`): // it may be there one day
			any = true
		}
		seen[path] = true
	}
	if !any {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
