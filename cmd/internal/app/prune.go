package app

import (
	"os"
	"path/filepath"
	"sort"
)

// keptAnswers and keptScans bound what the cache grows to; each file is some hundred kB at most, and what is pruned costs one question more.
const (
	keptAnswers = 200
	keptScans   = 500
)

// prune removes the oldest files of one of our own cache directories until keep are left. It is called when a file was added, so it fails in silence
// only where that file could not have been written either.
func prune(dir string, keep int) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= keep {
		return
	}
	type aged struct {
		name string
		time int64
	}
	var files []aged
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
			files = append(files, aged{e.Name(), fi.ModTime().UnixNano()})
		}
	}
	sort.Slice(files, func(i, j int) bool { return files[i].time < files[j].time })
	for i := 0; i < len(files)-keep; i++ {
		_ = os.Remove(filepath.Join(dir, files[i].name)) // another gpubuild may have removed it
	}
}

// sweep removes what a writer that was killed left beside a file of ours; cache.WriteFile writes ".NAME.*" there and renames it. Call it only under the
// lock that every writer of the file takes.
func sweep(path string) {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".*"))
	if err != nil {
		return // a directory whose name is a bad pattern: what is left there costs nothing but its bytes
	}
	for _, p := range left {
		_ = os.Remove(p)
	}
}
