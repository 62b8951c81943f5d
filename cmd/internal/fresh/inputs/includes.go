package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

// Bounds of what is looked at below one OUT_DIR; an ordinary one has some dozens of files, a CMake build some thousands.
const (
	MostEntries = 50_000
	MostDepth   = 16
)

// IncludeDirectory is the input for the toolkit's own headers, all of them.
const IncludeDirectory = "CUDA include directory"

// toolkitHeader are the names directly below a toolkit's include directory that are CUDA's, of a compiler, a runtime or a library
// that comes with it. What others put there (cuDNN, NCCL, cuTENSOR) has versions of its own, and /usr/include, where
// distributions have CUDA's, holds everything else.
var toolkitHeader = regexp.MustCompile(
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
	if sum, ok := n.h.trees[about]; ok {
		return sum, nil
	}
	type file struct{ name, path string }
	var files []file
	// Two thousand files are looked at by every build, so this is written to cost no more than the system's own answers.
	var look []byte
	sep := "/"
	if n.host.OS == buildenv.Windows {
		sep = `\`
	}
	left := MostEntries
	var walk func(dir, below string, depth int) error
	walk = func(dir, below string, depth int) error {
		entries, err := n.host.Files.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := e.Name()
			if !whole && (depth == 0 && (name == "crt" || !toolkitHeader.MatchString(name)) || slices.Contains(mainHeaders, below+name)) {
				continue
			}
			if left--; left < 0 {
				return fmt.Errorf("%s holds more than %d files", dir, MostEntries)
			}
			path := dir + sep + name
			fi, err := e.Info()
			if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
				fi, err = n.host.Files.Stat(path)
			}
			switch {
			case err != nil: // gone since, or a link to nothing: nobody can include it
			case fi.IsDir():
				if depth < MostDepth {
					if err := walk(path, below+name+"/", depth+1); err != nil {
						return err
					}
				}
			case fi.Mode().IsRegular():
				files = append(files, file{below + name, path})
				look = append(append(look, below...), name...)
				for _, v := range [...]int64{fi.Size(), fi.ModTime().UnixNano(), cache.StateTimeOf(fi)} {
					look = strconv.AppendInt(append(look, ' '), v, 10)
				}
				look = append(look, '\n')
			}
		}
		return nil
	}
	if err := walk(dir, "", 0); err != nil {
		return "", err
	}
	is := sha256.Sum256(look)
	sum, err := n.h.known(about+" "+hex.EncodeToString(is[:16]), func() (string, error) {
		content := sha256.New()
		for _, f := range files {
			one, err := cache.Hash(f.path)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(content, f.name, one)
		}
		n.h.Read += len(files)
		return hex.EncodeToString(content.Sum(nil)[:16]), nil
	})
	if err == nil {
		n.h.trees[about] = sum
	}
	return sum, err
}

// searchPaths are the variables by which gcc and clang, and cl, search for headers before those that are given to them, or after;
// whoever calls them. Sources: GCC manual, "Environment Variables Affecting GCC"; Microsoft, "CL environment variables" and /I.
func searchPaths(h buildenv.Host) []string {
	if h.OS == buildenv.Windows {
		return []string{"INCLUDE"}
	}
	return []string{"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"}
}

// includes are the toolkit's headers as a whole, for packages that compile with them, and what comes before them.
func (n *collector) includes() {
	t := n.set.Toolkit
	if t == nil || t.Include == "" || !n.in.Arch && !n.in.Binds {
		return
	}
	sum, err := n.headerTree(n.host.Real(t.Include), false)
	if err != nil && n.err == nil {
		n.err = err
	}
	n.add(IncludeDirectory, t.Version.String()+" "+t.Include, sum)
	for _, name := range searchPaths(n.host) {
		v, ok := n.env.Lookup(name)
		if !ok || v == "" {
			continue
		}
		if n.host.OS == buildenv.Windows { // it is as long as the developer's prompt makes it, and MSVC and the SDK are recorded themselves
			v = n.foreignIncludes(v)
		}
		what := sha256.New()
		for _, dir := range n.host.SplitList(v) {
			if n.host.SamePath(n.host.Real(dir), n.host.Real(t.Include)) {
				fmt.Fprintln(what, "the toolkit's own")
				continue
			}
			fmt.Fprintln(what, dir, n.shadows(dir))
		}
		if v != "" {
			n.add(name, v, hex.EncodeToString(what.Sum(nil)[:16]))
		}
	}
	if n.host.OS == buildenv.Windows {
		for _, name := range []string{"CL", "_CL_"} {
			if v, ok := n.env.Lookup(name); ok {
				n.add(name, v, "")
			}
		}
	}
}

// foreignIncludes leaves of INCLUDE what is of neither MSVC nor the Windows SDK.
func (n *collector) foreignIncludes(v string) string {
	var out []string
	for _, dir := range n.host.SplitList(v) {
		low := strings.ToLower(strings.ReplaceAll(dir, "/", `\`))
		known := strings.Contains(low, `\vc\tools\msvc\`) || strings.Contains(low, `\windows kits\`) ||
			strings.Contains(low, `\vc\auxiliary\`)
		if !known {
			out = append(out, dir)
		}
	}
	return n.host.JoinList(out...)
}

// shadows answers the content of what lies in a directory under the name of one of the toolkit's headers.
func (n *collector) shadows(dir string) string {
	sum := sha256.New()
	for _, name := range n.host.Names(dir) {
		path := n.host.Join(dir, name)
		switch {
		case !toolkitHeader.MatchString(name):
		case n.host.IsFile(path):
			fmt.Fprintln(sum, name, n.content(path))
		case n.host.IsDir(path):
			tree, err := n.headerTree(n.host.Real(path), true)
			if err != nil && n.err == nil {
				n.err = err
			}
			fmt.Fprintln(sum, name, tree)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
