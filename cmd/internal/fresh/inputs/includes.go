package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/install/tree"
)

// IncludeDirectory is the input for the toolkit's own headers, all of them.
const IncludeDirectory = "CUDA include directory"

// toolkitHeader are the names directly below a toolkit's include directory that are CUDA's, of a compiler, a runtime or a library
// that comes with it. What others put there (cuDNN, NCCL, cuTENSOR) has versions of its own, and /usr/include, where
// distributions have CUDA's, holds everything else.
var toolkitHeader = lazyregexp.New(
	`^(cuda|cu(rand|blas|sparse|solver|fft|pti|file)|nvrtc|nv[A-Z]|nvfatbin|nvml|nvtx|npp|nvjpeg|nv$|crt$|cccl$|cub$|` +
		`thrust$|cooperative_groups|mma\.h|sm_\d|vector_|device_|driver_|math_|host_|texture_|surface_|` +
		`builtin_types|channel_descriptor|common_functions|library_types|fatbinary)`,
)

// headerTree answers the identity of everything below a directory whose name at the top is one of the toolkit's: the same names
// with the same content have the same one, wherever they lie. Thousands of files are read once; after that they are only looked
// at, one by one, as long as size, time and state of each are what they were.
//
// whole says that everything counts, whatever it is called; otherwise what is recorded by itself is left out, too.
func (n *collector) headerTree(dir string, whole bool) (string, error) {
	about := fmt.Sprint("headers ", whole, " of ", dir)
	if sum, ok := n.h.run[about]; ok {
		return sum, nil
	}
	sum, err := "", error(nil)
	// A toolkit of our own cache is complete and never changed once its marker is there.
	id, ours := "", n.host.Real(n.host.Join(n.h.m.CacheDir, "toolkits"))
	if t := n.set.Toolkit; t != nil && n.host.Below(dir, t.Real) && n.host.Below(t.Real, ours) {
		id, _ = n.h.identity(n.host.Join(t.Real, tree.MarkerFile)) // none: it is not complete
	}
	if id != "" {
		sum, err = n.h.known(about+" by marker "+id, func() (string, error) { return n.readTree(about, dir, whole) })
	} else {
		sum, err = n.readTree(about, dir, whole)
	}
	if err == nil {
		n.h.run[about] = sum
	}
	return sum, err
}

func (n *collector) readTree(about, dir string, whole bool) (string, error) {
	type file struct{ name, path string }
	var files []file
	var look []byte
	project := n.host.IsFile(n.host.Join(dir, manifest.FileName))
	complete, err := n.host.Walk(dir, func(path, rel string, e fs.DirEntry, isDir bool) bool {
		top, _, deeper := strings.Cut(rel, "/")
		if !whole && (!deeper && (top == "crt" || !toolkitHeader.MatchString(top)) || slices.Contains(mainHeaders, rel)) {
			return false
		}
		if isDir || whole && (project && !Compiled(n.host, path) || n.host.Ext(path) == ".rs") { // a program's text is no kernel's
			return isDir && (!whole || Own(n.host, path, n.h.built))
		}
		fi, err := e.Info()
		if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			fi, err = n.host.Files.Stat(path)
		}
		if err == nil && fi.Mode().IsRegular() { // not one that is gone since, or a link to nothing: nobody can include that
			files = append(files, file{rel, path})
			look = append(look, rel...)
			for _, v := range [...]int64{fi.Size(), fi.ModTime().UnixNano(), cache.StateTimeOf(fi)} {
				look = strconv.AppendInt(append(look, ' '), v, 10)
			}
			look = append(look, '\n')
		}
		return false
	})
	if err != nil && !whole {
		return "", err
	}
	if !complete {
		n.h.tooMany(dir)
	}
	is := sha256.Sum256(look)
	return n.h.known(about+" "+hex.EncodeToString(is[:16]), func() (string, error) {
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
}

// includes are the toolkit's headers as a whole, for packages that compile with them, and what gcc, clang or cl search besides, whoever
// calls them. Sources: GCC manual, "Environment Variables Affecting GCC"; Microsoft, "CL environment variables" and /I.
func (n *collector) includes() {
	t := n.set.Toolkit
	if t == nil || t.Include == "" || !n.in.Arch && !n.in.Binds {
		return
	}
	sum, err := n.headerTree(n.host.Real(t.Include), false)
	n.failed(err)
	n.add(IncludeDirectory, t.Version.String()+" "+t.Include, sum)
	search, flags := []string{"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"}, []string(nil)
	if n.host.OS == buildenv.Windows {
		search, flags = []string{"INCLUDE"}, []string{"CL", "_CL_"}
	}
	for _, name := range search {
		v := n.env.Get(name)
		if name == "INCLUDE" {
			v = n.foreignIncludes(v)
		}
		if v != "" {
			n.add(name, v, n.below("", n.host.SplitList(v)))
		}
	}
	for _, name := range flags {
		if v, ok := n.env.Lookup(name); ok {
			n.add(name, v, "")
		}
	}
}

// foreignIncludes leaves of INCLUDE, which is as long as the developer's prompt makes it, what is of neither MSVC nor the Windows SDK:
// those are recorded themselves.
func (n *collector) foreignIncludes(v string) string {
	known := func(dir string) bool {
		low, vs := strings.ToLower(strings.ReplaceAll(dir, "/", `\`)), n.set.MSVC
		return vs != nil && (n.host.Below(dir, vs.SDK.Root) || n.host.Below(dir, vs.UCRT.Root)) ||
			strings.Contains(low, `\vc\tools\msvc\`) || strings.Contains(low, `\windows kits\`) || strings.Contains(low, `\vc\auxiliary\`)
	}
	return n.host.JoinList(slices.DeleteFunc(n.host.SplitList(v), known)...)
}

// below answers flags and the content of what they name: files, and directories of headers but for the toolkit's own; empty for nothing.
func (n *collector) below(flags string, places []string) string {
	if len(places) == 0 {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintln(sum, flags)
	for _, p := range places {
		real := n.host.Real(p)
		switch t := n.set.Toolkit; {
		case t != nil && n.host.SamePath(real, n.host.Real(t.Include)):
			fmt.Fprintln(sum, "the toolkit's own")
		case n.host.IsDir(real):
			one, err := n.headerTree(real, true)
			n.failed(err)
			fmt.Fprintln(sum, one)
		default:
			fmt.Fprintln(sum, n.content(p))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// includeFlag is a flag of nvcc or of the host compiler with directories of headers.
var includeFlag = lazyregexp.New(`(?:^|[\s"',=])(?:-I|-isystem|-iquote|--include-path|--system-include)[=\s]*("[^"]+"|'[^']+'|\S+)`)

// headersBy lists where a variable's value has kernels find headers: in what its flags name, and in a directory that it names as a whole
// or in a list, if that holds headers or a directory include.
func (n *collector) headersBy(v string) []string {
	var out []string
	from := func(path string) string {
		if n.host.IsAbs(path) {
			return path
		}
		return n.host.Join(n.dir, path)
	}
	for _, m := range includeFlag.FindAllStringSubmatch(v, -1) {
		for _, dir := range strings.Split(strings.Trim(m[1], `"'`), ",") {
			out = append(out, from(dir))
		}
	}
	if strings.HasPrefix(strings.TrimSpace(v), "-") { // -include FILE, --options-file=FILE
		for _, word := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" \t\n=,\"'@", r) }) {
			if path := from(word); n.host.IsFile(path) {
				out = append(out, path)
			}
		}
		return out
	}
	for _, dir := range n.host.SplitList(v) {
		if !n.host.IsAbs(dir) {
			continue
		}
		if include := n.host.Join(dir, "include"); n.host.IsDir(include) {
			out = append(out, include)
		} else if slices.ContainsFunc(n.host.Names(dir), func(name string) bool { return Compiled(n.host, name) }) {
			out = append(out, dir)
		}
	}
	return out
}
