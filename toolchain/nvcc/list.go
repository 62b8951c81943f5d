package nvcc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
)

// listed begins the names of the lists next to a build script's OUT_DIR, one for each compilation: a later one with the same arguments
// replaces it.
const listed = "gpubuild-read-"

// list writes down what a call of a build script reads apart from the toolkit and the system, whatever its name, so that the check for
// stale artifacts need not guess. Without a list it knows files by their endings only, so that it is no error.
func (r *run) list(files []input) {
	out := r.host.Env.Get("OUT_DIR")
	if filepath.Base(out) != "out" || len(files) == 0 {
		return
	}
	for _, path := range slices.Concat(r.in, r.files) {
		sum, _ := r.store.content(path) // none: not there, which nvcc says
		files = append(files, input{Path: path, Content: sum})
	}
	root := filepath.Dir(filepath.Dir(r.real))
	read := map[string]string{}
	add := func(path, content string) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.host.Cwd, path)
		}
		inRoot := r.host.Below(path, root) || r.host.Below(path, r.host.Real(root))
		if read[path] == "" && content != "" && !ofSystem(path) && path != loaderCache && !inRoot {
			read[path] = content
		}
	}
	for _, f := range files {
		add(f.Path, f.Content)
	}
	for _, path := range slices.Collect(maps.Keys(read)) {
		for _, asked := range r.asksFor(path) {
			content, err := r.store.content(asked)
			if err != nil {
				content = Absent
			}
			add(asked, content)
		}
	}
	data, err := json.Marshal(read)
	if err == nil {
		name := listed + hashOf(fmt.Appendf(nil, "%q %q %q", r.host.Cwd, r.words, r.outputs)) + ".json"
		_ = cache.Keep(filepath.Join(filepath.Dir(out), name), data, 0o644)
	}
}

// hasInclude asks whether a header is there; includeDir is a flag with a directory in which it may be.
var (
	hasInclude = lazyregexp.New(`__has_include(?:_next)?\s*\(\s*([<"])([^">\n]+)[">]`)
	includeDir = lazyregexp.New(`^--?(?:I|isystem|iquote|include-path|system-include)=?(.*)$`)
)

// asksFor lists where a file has the preprocessor look for headers with __has_include: what is there or not decides what is compiled,
// and no list of what was read shows it.
func (r *run) asksFor(path string) (headers []string) {
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte("__has_include")) {
		return nil
	}
	dirs := r.host.SplitList(r.host.Env.Get("CPATH"))
	for i, w := range r.words {
		if m := includeDir.FindStringSubmatch(w); m != nil && m[1] != "" {
			dirs = append(dirs, strings.Split(m[1], ",")...)
		} else if m != nil && i+1 < len(r.words) {
			dirs = append(dirs, strings.Split(r.words[i+1], ",")...)
		}
	}
	for _, m := range hasInclude.FindAllSubmatch(text, -1) {
		for _, dir := range dirs {
			headers = append(headers, filepath.Join(dir, string(m[2])))
		}
		if string(m[1]) == `"` {
			headers = append(headers, filepath.Join(filepath.Dir(path), string(m[2])))
		}
	}
	return headers
}

// ask has nvcc itself list what a call reads that the cache does not understand.
func (r *run) ask(ctx context.Context) (files []input) {
	isSource := func(path string) bool {
		return slices.Contains(sourceEndings, filepath.Ext(path)) || slices.Contains(r.words, "-x")
	}
	if r.host.Env.Get("OUT_DIR") == "" || !slices.ContainsFunc(r.in, isSource) {
		return nil
	}
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: append(slices.Clone(r.dryrun), "-M"), Env: r.env})
	if err != nil {
		return nil
	}
	for _, path := range prerequisites(string(res.Stdout)) {
		if sum, err := r.store.content(path); err == nil {
			files = append(files, input{Path: path, Content: sum})
		}
	}
	return files
}

// ofSystem says whether a file comes with the system's packages; /usr/src and /usr/local may hold projects.
func ofSystem(path string) bool {
	of := []string{"/usr/include/", "/usr/lib", "/usr/bin/", "/lib"}
	return slices.ContainsFunc(of, func(p string) bool { return strings.HasPrefix(path, p) })
}

var sourceEndings = []string{".cu", ".cpp", ".cc", ".cxx", ".c"}

// prerequisite is a word of a rule of make; a blank in a name is escaped.
var prerequisite = lazyregexp.New(`(?:\\ |[^\s\\]|\\[^\n\s])+`)

// prerequisites lists the files of a rule of make, as nvcc -M and gcc -MD write it.
func prerequisites(rule string) (paths []string) {
	_, rule, _ = strings.Cut(rule, ": ")
	for _, word := range prerequisite.FindAllString(rule, -1) {
		paths = append(paths, strings.ReplaceAll(word, `\ `, " "))
	}
	return paths
}

// Absent is in place of the hash of a file that was looked for and was not there.
const Absent = "none"

// Read lists what compilers said for an OUT_DIR that they read: by the lists of our nvcc, with the hash of what it saw of each file (which
// is none of any content where it saw different ones), and by the dependency files there (nvcc -MD, gcc -MD), with none.
func Read(h buildenv.Host, outDir, cwd string) (all map[string]string, err error) {
	all = map[string]string{}
	dir := h.Dir(outDir)
	for _, name := range h.Names(dir) {
		if !strings.HasPrefix(name, listed) {
			continue
		}
		var one map[string]string
		if data, err := h.ReadFile(h.Join(dir, name), 16<<20); err != nil || json.Unmarshal(data, &one) != nil {
			continue // without it the endings count
		}
		for path, sum := range one {
			switch was := all[path]; {
			case was == "" || was == Absent:
				all[path] = sum
			case sum != was && sum != Absent:
				all[path] = "not the same each time"
			}
		}
	}
	_, err = h.Walk(outDir, func(path, _ string, _ fs.DirEntry, isDir bool) bool {
		if isDir || h.Ext(path) != ".d" {
			return isDir
		}
		data, err := h.ReadFile(path, 4<<20)
		if err != nil {
			return false // gone since
		}
		for _, path := range prerequisites(string(data)) {
			if !h.IsAbs(path) {
				path = h.Join(cwd, path)
			}
			if path = h.Clean(path); all[path] == "" {
				all[path] = ""
			}
		}
		return false
	})
	return all, err
}
