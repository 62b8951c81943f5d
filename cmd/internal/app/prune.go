package app

import (
	"os"
	"path/filepath"
	"sort"
)

// keptAnswers bounds what the cache grows to; each file is some hundred kB at most, and what is pruned costs one question more.
const (
	keptAnswers = 200
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
