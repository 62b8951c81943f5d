package elsewhere

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
)

// collect lists the program, first, the libraries that it loads here and what proves it, with the task's paths among them.
func collect(ctx context.Context, m *session.Machine, p proof.Place, t proof.Task) (req request, err error) {
	note := filepath.Join(filepath.Dir(p.Socket), cache.Name(t.Binary)) // nextest starts a program once for each of its tests
	if data, err := os.ReadFile(note); err == nil && json.Unmarshal(data, &req) == nil {
		return req, nil
	}
	b, err := bundle.Collect(ctx, m, bundle.Options{Programs: []string{t.Binary}, Toolkit: p.Toolkit, Own: true,
		Prove: proof.Runtime{Probe: t.Probe, CUPTI: t.CUPTI, Others: t.Others}})
	if err != nil {
		return req, err
	}
	for _, of := range b.Files {
		f, err := sized(m, file{Name: of.Name, Run: true, From: of.From})
		if err != nil {
			return req, err
		}
		req.Files = append(req.Files, f)
		if f.Name = of.Link; f.Name != "" {
			req.Files = append(req.Files, f)
		}
	}
	req.Needs, req.Task.Probe = b.Prove.Glibc, t.Probe
	req.Task.Binary, req.Task.CUPTI, req.Task.Others = b.Programs[0], b.Prove.CUPTI, b.Prove.Others
	req.Task.Probe.Library, req.Task.Probe.Control, req.Task.Probe.Watch = b.Prove.Probe, b.Prove.Control, b.Prove.Watch
	data, err := json.Marshal(req)
	if err == nil {
		err = cache.Keep(note, data, 0o600)
	}
	return req, err
}

// sized is a file with its size and SHA-256, which is remembered for as long as the file is the same one.
func sized(m *session.Machine, f file) (file, error) {
	sums := m.Host.Join(m.CacheDir, "sums")
	_ = cache.Make(sums) // without it nothing is remembered
	id, sum, err := hashOf(f.From, m.Host.Join(sums, cache.Name(m.Host.Abs(f.From))))
	f.Size, f.SHA256 = id.Size, sum
	return f, err
}

// hashOf hashes a file, or takes the note of an earlier look if the file is still that one.
func hashOf(path, note string) (id cache.Identity, sum string, err error) {
	if id, err = cache.Identify(path); err != nil {
		return id, "", err
	}
	earlier, _ := os.ReadFile(note) // none: it is hashed
	if sum, is := strings.CutPrefix(string(earlier), id.String()+" "); is {
		return id, sum, nil
	}
	if sum, err = cache.Hash(path); err == nil {
		_ = cache.Keep(note, []byte(id.String()+" "+sum), 0o600) // else it is hashed again
	}
	return id, sum, err
}
