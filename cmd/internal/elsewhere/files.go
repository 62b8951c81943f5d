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
	"gpubuild/toolchain/loader"
)

// collect lists the program, first, the libraries that it loads here, what proves it, and, last, this gpubuild.
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
	if err != nil {
		return b, err
	}
	b.Files = append(b.Files, bundle.File{Name: "gpubuild", From: m.Self})
	if needs := loader.NeedsGlibc(m.Self); loader.Older(b.Prove.Glibc.Version, needs) {
		b.Prove.Glibc = loader.Glibc{Version: needs, By: m.Host.Base(m.Self)}
	}
	for i, f := range b.Files {
		is, err := sized(m, file{from: f.From})
		if err != nil {
			return b, err
		}
		b.Files[i].Size, b.Files[i].SHA256 = is.Size, is.SHA256
	}
	data, err := json.Marshal(b)
	if err == nil && note != "" {
		err = cache.Keep(note, data, 0o600)
	}
	return b, err
}

// sized is a file with its size and SHA-256, which is remembered for as long as the file is the same one.
func sized(m *session.Machine, f file) (file, error) {
	sums := m.Host.Join(m.CacheDir, "sums")
	_ = cache.Make(sums) // without it nothing is remembered
	is, err := hashOf(f.from, m.Host.Join(sums, cache.Name(m.Host.Abs(f.from))))
	f.Size, f.SHA256 = is.ID.Size, is.Sum
	return f, err
}

// hashed is a file's SHA-256 while the file is the same one.
type hashed struct {
	ID  cache.Identity
	Sum string
}

// hashOf hashes a file, or takes the note of an earlier look if the file is still that one.
func hashOf(path, note string) (is hashed, err error) {
	if is.ID, err = cache.Identify(path); err != nil {
		return is, err
	}
	var earlier hashed
	if data, err := os.ReadFile(note); err == nil && json.Unmarshal(data, &earlier) == nil && earlier.ID == is.ID {
		return earlier, nil
	}
	if is.Sum, err = cache.Hash(path); err != nil {
		return is, err
	}
	data, err := json.Marshal(is)
	_ = cache.Keep(note, data, 0o600) // else it is hashed again
	return is, err
}
