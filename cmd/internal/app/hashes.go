package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"gpubuild/buildenv/cache"
)

// hashes remembers the content of files by their identity, so that nvcc and what it runs (300 MB) are read once, not at every build. The identity has
// the time of the last change of the file's state, which no tool sets back: other content of the same size with its old time restored is seen, too.
// On Windows, where that time is not asked for, it is not.
type hashes struct {
	path  string
	Known map[string]string `json:"known"` // identity and path → sha256, or what was read in the file
	dirty bool
	read  int               // files whose content was read
	trees map[string]string // see inputs.headerTree
}

// keptHashes bounds what the file grows to: a toolkit has some thirty entries, and replaced ones stay.
const keptHashes = 10_000

func (a *app) openHashes() *hashes {
	h := &hashes{path: a.Host.Join(a.CacheDir, "hashes.json"), Known: map[string]string{}, trees: map[string]string{}}
	if data, err := a.Host.ReadFile(h.path, 16<<20); err == nil {
		if json.Unmarshal(data, h) != nil || h.Known == nil || len(h.Known) > keptHashes {
			h.Known = map[string]string{} // damaged, or grown for years: only time is lost
		}
	}
	return h
}

// known answers what is remembered of a file, or reads it.
func (h *hashes) known(about, path string, read func(path string) (string, error)) (string, error) {
	id, err := cache.Identify(path)
	if err != nil {
		return "", err
	}
	state, err := cache.StateTime(path)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s%s %d %d %d %d %d", about, path, id.Size, id.MTime, state, id.Inode, id.Device)
	if text, ok := h.Known[key]; ok {
		return text, nil
	}
	h.read++
	text, err := read(path)
	if err != nil {
		return "", err
	}
	h.Known[key], h.dirty = text, true
	return text, nil
}

func (h *hashes) of(path string) (string, error) { return h.known("", path, cache.Hash) }

func (h *hashes) keep(a *app) {
	if !h.dirty {
		return
	}
	data, err := json.Marshal(h)
	if err == nil {
		if err = cache.Make(a.CacheDir); err == nil {
			err = cache.WriteFile(h.path, data, 0o600)
		}
	}
	if err != nil {
		a.Shell.Detail("hashes are not kept: %v", err)
	}
}

// together hashes several files as one. One that is not there counts by its absence, one that may not be read (a program that may only be run) by its
// identity.
func (h *hashes) together(paths ...string) (string, error) {
	sum := sha256.New()
	for _, p := range paths {
		one, err := h.of(p)
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
}
