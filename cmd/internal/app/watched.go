package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

// watched is one file or directory that a kept answer depends on. A directory is known by the time at which a name in it came or went, on Windows, where a
// file system need not keep that, by its names.
type watched struct {
	Path string
	Is   string // empty: it is not there
}

// young is the age below which a time says nothing: file systems count in steps of up to a clock tick, and two changes within one have the same time.
// What is younger is known by its content, too.
const young = 100 * time.Millisecond

const (
	byContent = " = "
	linkTo    = "-> " // where a path leads by way of links
)

// look answers what a path is now: a file's or a directory's identity, or nothing.
func (a *app) look(path string) string {
	fi, err := a.Host.Files.Stat(path)
	if err != nil {
		return ""
	}
	is := a.identity(path, fi)
	if a.Began.Sub(fi.ModTime()) < young {
		is += byContent + a.content(path, fi)
	}
	return is
}

// same says whether a path is still what it was.
func (a *app) same(w watched) bool {
	if to, link := strings.CutPrefix(w.Is, linkTo); link {
		real, _ := a.Host.Files.EvalSymlinks(w.Path)
		return real == to
	}
	fi, err := a.Host.Files.Stat(w.Path)
	if err != nil {
		return w.Is == ""
	}
	is := a.identity(w.Path, fi)
	if was, content, young := strings.Cut(w.Is, byContent); young {
		return is == was && a.content(w.Path, fi) == content
	}
	return is == w.Is
}

// identity is what tells a file from another one at the same path without a look into it.
func (a *app) identity(path string, fi fs.FileInfo) string {
	if fi.IsDir() && a.Host.OS == buildenv.Windows {
		return "d " + a.content(path, fi)
	}
	id, err := cache.IdentityOf(path, fi)
	if err != nil {
		return "unreadable"
	}
	b := make([]byte, 0, 64)
	if fi.IsDir() {
		b = append(b, "d "...)
	} else {
		b = append(strconv.AppendInt(b, id.Size, 36), ' ')
	}
	b = append(strconv.AppendInt(b, id.MTime, 36), ' ')
	b = append(strconv.AppendUint(b, id.Inode, 36), ' ')
	return string(strconv.AppendUint(b, id.Device, 36))
}

// content is a file's bytes or a directory's names, in short.
func (a *app) content(path string, fi fs.FileInfo) string { return a.contentBy(a.Host.Files, path, fi) }

func (a *app) contentBy(files buildenv.Files, path string, fi fs.FileInfo) string {
	if !fi.IsDir() {
		sum, err := cache.Hash(path)
		if err != nil {
			return "unreadable"
		}
		return sum
	}
	entries, err := files.ReadDir(path)
	if err != nil {
		return "unreadable"
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// unchanged says whether every path is what it was. Thousands are looked at for a large workspace, so several at a time.
func (a *app) unchanged(list []watched) bool {
	var changed atomic.Bool
	a.inParts(len(list), func(i int) bool {
		if !a.same(list[i]) {
			changed.Store(true)
		}
		return !changed.Load()
	})
	return !changed.Load()
}

// watchAll looks at paths as they are now.
func (a *app) watchAll(paths []string) []watched {
	list := make([]watched, len(paths))
	a.inParts(len(paths), func(i int) bool {
		list[i] = watched{paths[i], a.look(paths[i])}
		return true
	})
	return list
}

// inParts does something for each of n, at most four at a time; one that answers false ends its part.
func (a *app) inParts(n int, do func(i int) bool) {
	parts := min(4, max(1, a.Host.CPUs), 1+n/64)
	var wait sync.WaitGroup
	for part := range parts {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := part * n / parts; i < (part+1)*n/parts; i++ {
				if !do(i) {
					return
				}
			}
		}()
	}
	wait.Wait()
}

// writeWatched writes a line for each; false where a path cannot stand on one.
func writeWatched(b *bytes.Buffer, list []watched) bool {
	for _, w := range list {
		if strings.ContainsAny(w.Path, "\n\t") {
			return false
		}
		b.WriteString(w.Is)
		b.WriteByte('\t')
		b.WriteString(w.Path)
		b.WriteByte('\n')
	}
	return true
}

// readWatched reads the n lines that writeWatched wrote, and answers what stands behind them.
func readWatched(data []byte, n int) (list []watched, rest []byte, ok bool) {
	if n < 0 || n > len(data) {
		return nil, nil, false
	}
	list = make([]watched, 0, n)
	for range n {
		line, after, found := bytes.Cut(data, []byte("\n"))
		is, path, tab := bytes.Cut(line, []byte("\t"))
		if !found || !tab {
			return nil, nil, false
		}
		list = append(list, watched{string(path), string(is)})
		data = after
	}
	return list, data, true
}
