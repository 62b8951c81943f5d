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
	id, err := cache.Identify(f.from)
	if err != nil {
		return f, err
	}
	f.Size = id.Size
	sums := m.Host.Join(m.CacheDir, "sums")
	note := m.Host.Join(sums, cache.Name(m.Host.Abs(f.from)))
	type remembered struct {
		ID  cache.Identity
		Sum string
	}
	var was remembered
	if data, err := os.ReadFile(note); err == nil && json.Unmarshal(data, &was) == nil && was.ID == id {
		f.SHA256 = was.Sum
		return f, nil
	}
	if f.SHA256, err = cache.Hash(f.from); err != nil {
		return f, err
	}
	data, err := json.Marshal(remembered{id, f.SHA256})
	if err != nil {
		return f, err
	}
	if cache.Make(sums) == nil {
		_ = cache.Keep(note, data, 0o600) // else it is hashed again
	}
	return f, nil
}
