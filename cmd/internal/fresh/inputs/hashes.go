package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
)

// hashKind names the entries of Hashes in the cache.
const hashKind = "hash-1"

// Hashes remembers what was read of files by their identity, so that nvcc and what it runs (300 MB) are read once, not at every
// build. The identity has the time of the last change of the file's state, which no tool sets back: other content of the same
// size with its old time restored is seen, too. On Windows, where that time is not asked for, it is not.
type Hashes struct {
	m     *session.Machine
	store memo.Store
	run   map[string]string // what was asked in this run
	trees map[string]string // see headerTree
	Read  int               // files whose content was read
}

// NewHashes reads nothing yet.
func NewHashes(m *session.Machine) *Hashes {
	return &Hashes{m: m, store: m.Memo(), run: map[string]string{}, trees: map[string]string{}}
}

// known answers what is remembered under a key that holds the identity of everything that read looks at.
func (h *Hashes) known(key string, read func() (string, error)) (string, error) {
	if text, ok := h.run[key]; ok {
		return text, nil
	}
	name := memo.Key(key)
	data, ok := h.store.Get(hashKind, name)
	text := string(data)
	if !ok {
		var err error
		if text, err = read(); err != nil {
			return "", err
		}
		if err := h.store.Put(hashKind, name, nil, []byte(text)); err != nil {
			h.m.Shell.Detail("hashes are not kept: %v", err)
		}
	}
	h.run[key] = text
	return text, nil
}

// About answers what was read of one file; what names what is read in it.
func (h *Hashes) About(what, path string, read func() (string, error)) (string, error) {
	id, err := identity(path)
	if err != nil {
		return "", err
	}
	return h.known(what+" "+path+" "+id, func() (string, error) { h.Read++; return read() })
}

// Together hashes several files as one. One that is not there counts by its absence, one that may not be read (a program that may
// only be run) by its identity.
func (h *Hashes) Together(paths ...string) (string, error) {
	var key strings.Builder
	key.WriteString("content")
	for _, p := range paths {
		id, err := identity(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(&key, "\n%s %s", p, id)
	}
	return h.known(key.String(), func() (string, error) {
		sum := sha256.New()
		for _, p := range paths {
			h.Read++
			one, err := cache.Hash(p)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				one = "none"
			case errors.Is(err, fs.ErrPermission):
				id, err := cache.Identify(p)
				if err != nil {
					return "", err
				}
				one = "unread " + id.String()
			case err != nil:
				return "", err
			}
			fmt.Fprintln(sum, one)
		}
		return hex.EncodeToString(sum.Sum(nil)[:16]), nil
	})
}

// identity is what a file is without a look at its content.
func identity(path string) (string, error) {
	id, err := cache.Identify(path)
	if err != nil {
		return "", err
	}
	state, err := cache.StateTime(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d %d %d %d", id.Size, id.MTime, state, id.Inode, id.Device), nil
}
