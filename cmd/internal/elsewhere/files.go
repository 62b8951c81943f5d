package elsewhere

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
)

// programFiles are the program, first, and the libraries that it loads here, with the C library that all of them need.
func programFiles(m *session.Machine, p proof.Place, t proof.Task) ([]file, need, error) {
	type found struct {
		Paths []string // the program, then libraries
		Names []string
		Needs need
	}
	var got found
	note := ""
	if p.Memo != "" { // of this run: nextest starts a program once for each of its tests
		note = filepath.Join(p.Memo, "elsewhere-"+cache.Name(t.Binary)+".json")
		if data, err := os.ReadFile(note); err == nil {
			_ = json.Unmarshal(data, &got) // what cannot be read is found again
		}
	}
	if len(got.Paths) == 0 {
		b, err := bundle.Libraries(m, bundle.Options{Program: t.Binary, Toolkit: p.Toolkit, Own: true})
		if err != nil {
			return nil, need{}, err
		}
		for i, f := range b.Files {
			name := "lib/" + path.Base(f.Name)
			if i == 0 {
				name = "bin/" + path.Base(f.Name)
			}
			got.Paths, got.Names = append(got.Paths, f.From), append(got.Names, name)
			if f.Link != "" {
				got.Paths, got.Names = append(got.Paths, f.From), append(got.Names, "lib/"+path.Base(f.Link))
			}
		}
		for _, from := range append(got.Paths[:len(got.Paths):len(got.Paths)], m.Self, t.Probe.Library, t.Probe.Control, t.Probe.Watch) {
			if needs := bundle.Needs(from); from != "" && bundle.Older(got.Needs.Glibc, needs) {
				got.Needs = need{needs, m.Host.Base(from)}
			}
		}
		if data, err := json.Marshal(got); err == nil && note != "" {
			if err := cache.Keep(note, data, 0o600); err != nil {
				return nil, need{}, err
			}
		}
	}
	var out []file
	for i, from := range got.Paths {
		f, err := sized(m, file{Name: got.Names[i], Run: true, from: from})
		if err != nil {
			return nil, need{}, err
		}
		out = append(out, f)
	}
	return out, got.Needs, nil
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
