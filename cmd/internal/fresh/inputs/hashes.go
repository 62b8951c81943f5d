package inputs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/source"
)

// hashKind names the entries of Hashes in the cache.
const hashKind = "hash-3"

// Hashes remembers the content of files by their identity, so that nvcc and what it runs (300 MB) are read once, not in every build. The
// identity has the time of the last change of the file's state, which no tool sets back: other content of the same size with its old
// time restored is seen, too. On Windows, where that time is not asked for, it is not.
type Hashes struct {
	m     *session.Machine
	store memo.Store

	reader *source.Reader
	built  []string          // where cargo builds, which is nobody's source
	run    map[string]string // what was asked in this run
	ids    map[string]string // of the files that were looked at in this run
	Read   int               // files whose content was read

	Incomplete []string // directories of which not every file was looked at
}

// NewHashes reads nothing yet.
func NewHashes(m *session.Machine, built ...string) *Hashes {
	return &Hashes{m: m, built: built, store: m.Memo(), reader: source.NewReader(m.Host, ""), run: map[string]string{},
		ids: map[string]string{}}
}

// known returns what is remembered under a key that holds the identity of everything that read looks at.
func (h *Hashes) known(key string, read func() string) string {
	if text, ok := h.run[key]; ok {
		return text
	}
	name := memo.Key(key)
	data, ok := h.store.Get(hashKind, name)
	text := string(data)
	if !ok {
		text = read()
		if err := h.store.Put(hashKind, name, nil, []byte(text)); err != nil {
			h.m.Shell.Detail("hashes are not kept: %v", err)
		}
	}
	h.run[key] = text
	return text
}

// tooMany says, once in a run, that not all of a directory is looked at.
func (h *Hashes) tooMany(dir string) {
	if dir = h.m.Shown(dir); !slices.Contains(h.Incomplete, dir) {
		h.Incomplete = append(h.Incomplete, dir)
		h.m.Shell.Warning("%s holds too many files, or some that cannot be read: a change of some of them is not noticed", dir)
	}
}

// NamesNvcc lists those of some libraries of cargo's own home, given by their root files, whose text names nvcc. Cargo never changes them.
func (h *Hashes) NamesNvcc(roots []string) []string {
	if len(roots) == 0 {
		return nil
	}
	text := h.known("names nvcc\n"+strings.Join(roots, "\n"), func() string {
		quiet := func(root string) bool { return !source.NamesNvcc(h.reader.Modules(root)) }
		return strings.Join(slices.DeleteFunc(slices.Clone(roots), quiet), "\n")
	})
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// NoFile is the hash of what is there and is no file, such as a directory.
const NoFile = "no file"

// Each hashes files one by one. One that is not there has its absence for a hash, one that cannot be read (a program that may only be
// run) its identity, one that is larger than memo.Largest its size and time, and what is no file NoFile.
func (h *Hashes) Each(paths ...string) []string {
	if len(paths) == 0 {
		return nil
	}
	var key strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&key, "%s %s\n", p, h.identity(p))
	}
	return strings.Split(h.known("content\n"+key.String(), func() string {
		list := make([]string, len(paths))
		for i, p := range paths {
			if id, err := cache.Identify(p); err == nil && id.Size > memo.Largest {
				list[i] = fmt.Sprintf("large %d %d", id.Size, id.MTime)
				continue
			}
			h.Read++
			sum, err := cache.Hash(p)
			switch {
			case err == nil:
				list[i] = sum[:32]
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
				list[i] = "none" // <atomic/x.h> where atomic is a file: that, too, is not there
			case errors.Is(err, buildenv.ErrUnbounded): // a directory where nvcc looked for a file, or for a directory of files
				list[i] = NoFile
			default:
				list[i] = "unread " + h.identity(p)
			}
		}
		return strings.Join(list, "\n")
	}), "\n")
}

// identity is what a file is without a look at its content; empty where it is not there.
func (h *Hashes) identity(path string) string {
	id, known := h.ids[path]
	if !known {
		id = h.store.State(path)
		h.ids[path] = id
	}
	return id
}
