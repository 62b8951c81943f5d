package elsewhere

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
)

// collect lists the program, first, and the libraries that it loads here, with what proves it.
func collect(ctx context.Context, m *session.Machine, p proof.Place, t proof.Task) (b bundle.Bundle, err error) {
	note := ""
	if p.Memo != "" { // of this run: nextest starts a program once for each of its tests
		note = filepath.Join(p.Memo, "elsewhere-"+cache.Name(t.Binary)+".json")
		if data, err := os.ReadFile(note); err == nil && json.Unmarshal(data, &b) == nil {
			return b, nil
		}
	}
	b, err = bundle.Collect(ctx, m, bundle.Options{Programs: []string{t.Binary}, Toolkit: p.Toolkit, Own: true,
		Prove: proof.Runtime{Probe: t.Probe, CUPTI: t.CUPTI, Others: t.Others}})
	if err != nil || note == "" {
		return b, err
	}
	data, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	return b, cache.Keep(note, data, 0o600)
}

// sized is a file with its size and SHA-256, which is remembered for as long as the file is the same one.
func sized(m *session.Machine, f file) (file, error) {
	info, err := os.Stat(f.from)
	if err != nil {
		return f, err
	}
	f.Size = info.Size()
	sums := m.Host.Join(m.CacheDir, "sums")
	_ = cache.Make(sums) // without it nothing is remembered
	f.SHA256, err = hashOf(f.from, m.Host.Join(sums, cache.Name(m.Host.Abs(f.from))))
	return f, err
}

// hashOf is a file's SHA-256: by the note of an earlier look if the file is still that one.
func hashOf(path, note string) (string, error) {
	id, err := cache.Identify(path)
	if err != nil {
		return "", err
	}
	type looked struct {
		ID  cache.Identity
		Sum string
	}
	var earlier looked
	if data, err := os.ReadFile(note); err == nil && json.Unmarshal(data, &earlier) == nil && earlier.ID == id {
		return earlier.Sum, nil
	}
	sum, err := cache.Hash(path)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(looked{id, sum})
	if err != nil {
		return "", err
	}
	_ = cache.Keep(note, data, 0o600) // else it is hashed again
	return sum, nil
}
