package session

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/proc"
)

// Temporary are the directories that are removed when gpubuild ends, by an interrupt or a closed pipe, too. The zero value works.
type Temporary struct {
	mu    sync.Mutex
	dirs  map[string]bool
	pipes chan os.Signal

	once    sync.Once
	scratch string // the directory in place of the cache
	refused error
}

// Scratch is a directory of the cache, or where that cannot be written to one that is removed when gpubuild ends.
func (m *Machine) Scratch(words ...string) (string, error) {
	dir := m.Host.Join(append([]string{m.CacheDir}, words...)...)
	made := cache.Make(dir)
	if made == nil {
		return dir, nil
	}
	t := m.Temp
	t.once.Do(func() { t.scratch, _, t.refused = t.MkdirTemp("", "gpubuild-cache-") })
	if t.refused != nil {
		return "", fmt.Errorf("%w, and no temporary directory: %w", made, t.refused)
	}
	dir = m.Host.Join(append([]string{t.scratch}, words...)...)
	return dir, os.MkdirAll(dir, 0o700)
}

// MkdirTemp is os.MkdirTemp, and a function that removes the directory.
func (t *Temporary) MkdirTemp(parent, pattern string) (dir string, remove func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir, err = os.MkdirTemp(parent, pattern); err != nil {
		return "", nil, err
	}
	if t.dirs == nil {
		t.dirs = map[string]bool{}
		t.pipes = make(chan os.Signal, 1)
		signal.Notify(t.pipes, syscall.SIGPIPE) // it would end us at once
		go t.endByPipe()
	}
	t.dirs[dir] = true
	return dir, func() { t.remove(dir) }, nil
}

// OutliveReaders keeps gpubuild, and the program that it runs, from ending with the reader of its output: a write fails instead.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func (t *Temporary) endByPipe() {
	if _, arrived := <-t.pipes; arrived {
		t.Remove()
		proc.DieBy(int(syscall.SIGPIPE)) // where it returns, the write that failed ends the verb
	}
}

func (t *Temporary) remove(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = os.RemoveAll(dir) // a program that still runs may keep files of it open on Windows
	delete(t.dirs, dir)
}

// Remove removes all directories that are left.
func (t *Temporary) Remove() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dir := range t.dirs {
		_ = os.RemoveAll(dir)
	}
}
