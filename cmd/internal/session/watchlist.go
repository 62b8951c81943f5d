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

// local adds what cargo reads of a local package: its manifest, the files and
// directories in which it discovers targets, and the manifests above.
func (w *watchList) local(manifest string) {
	h, dir := w.host, w.host.Dir(manifest)
	if w.seen[manifest] && w.seen[h.Join(dir, "build.rs")] {
		return
	}
	w.add(manifest)
	w.seen[h.Join(dir, "build.rs")] = true
	w.there = append(w.there, h.Join(dir, "build.rs"), h.Join(dir, "src", "main.rs"), h.Join(dir, "src", "lib.rs"))
	for up := h.Dir(dir); ; up = h.Dir(up) {
		at := h.Join(up, h.Base(manifest)) // cargo looks upwards for the workspace that a package belongs to and inherits from
		if w.seen[at] {
			break
		}
		w.add(at)
		if h.Dir(up) == up {
			break
		}
	}
	for _, name := range []string{h.Join("src", "bin"), "examples", "tests", "benches"} {
		sub := h.Join(dir, name)
		w.add(sub)
		if !h.IsDir(sub) {
			continue
		}
		entries, err := h.Files.ReadDir(sub)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() {
				w.add(h.Join(sub, e.Name())) // src/bin/tool/main.rs
			}
		}
	}
}
