package session

import (
	"gpubuild/buildenv"
	"gpubuild/buildenv/memo"
)

// watchList collects paths that cargo looks at, each once.
type watchList struct {
	host  buildenv.Host
	seen  map[string]bool
	paths []string
	there []string // those of which cargo asks only whether they are there
}

func (w *watchList) add(paths ...string) {
	for _, p := range paths {
		if p = w.host.Clean(p); !w.seen[p] {
			w.seen[p] = true
			w.paths = append(w.paths, p)
		}
	}
}

// watch is the state of all of them.
func (w *watchList) watch(store memo.Store) []memo.Input {
	return append(store.Watch(w.paths...), store.WatchThere(w.there...)...)
}

// local adds what cargo reads of a local package: its manifest, the files and directories in which it discovers targets, and the manifests
// above, where it looks for the workspace that a package belongs to and inherits from.
func (w *watchList) local(manifest string) {
	h, dir := w.host, w.host.Dir(manifest)
	script := h.Join(dir, "build.rs")
	if w.seen[script] {
		return
	}
	w.add(manifest)
	w.seen[script] = true
	w.there = append(w.there, script, h.Join(dir, "src", "main.rs"), h.Join(dir, "src", "lib.rs"))
	for up := range h.Upwards(h.Dir(dir)) {
		w.add(h.Join(up, h.Base(manifest)))
	}
	for _, name := range []string{h.Join("src", "bin"), "examples", "tests", "benches"} {
		sub := h.Join(dir, name)
		w.add(sub)
		for _, name := range h.Names(sub) {
			if in := h.Join(sub, name); h.IsDir(in) {
				w.add(in) // src/bin/tool/main.rs
			}
		}
	}
}
