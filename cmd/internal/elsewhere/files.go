package elsewhere

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/loader"
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

// ofCargo are the variables by which cargo and nextest describe its package to a program; no other is sent without being named.
var ofCargo = lazyregexp.New(`^(CARGO_(PKG|MANIFEST|BIN_EXE)_|NEXTEST)`)

// prepare lists what a task needs there: a bundle, and what the user sends.
func prepare(ctx context.Context, m *session.Machine, p proof.Place, t proof.Task) (request, error) {
	h := m.Host
	limit, err := config.ParseSize(p.Limit)
	if err != nil {
		return request{}, err
	}
	b, err := collect(ctx, m, p, t)
	if err != nil {
		return request{}, err
	}
	req := request{Task: t, Limit: limit, Needs: b.Prove.Glibc}
	if needs := loader.NeedsGlibc(m.Self); loader.Older(req.Needs.Version, needs) {
		req.Needs = loader.Glibc{Version: needs, By: h.Base(m.Self)}
	}
	for _, from := range b.Files {
		f, err := sized(m, file{Name: from.Name, Run: true, from: from.From})
		if err != nil {
			return req, err
		}
		req.Files = append(req.Files, f)
		if from.Link != "" {
			f.Name = from.Link
			req.Files = append(req.Files, f)
		}
	}
	req.Task.Binary, req.Task.CUPTI, req.Task.Others = b.Programs[0], b.Prove.CUPTI, b.Prove.Others
	req.Task.Probe.Library, req.Task.Probe.Control, req.Task.Probe.Watch = b.Prove.Probe, b.Prove.Control, b.Prove.Watch
	root := h.Real(h.Abs(p.Root))
	if dir, err := filepath.Rel(root, h.Real(h.Cwd)); err == nil && filepath.IsLocal(dir) {
		req.Task.Dir = filepath.ToSlash(dir)
	}
	for _, e := range h.Env.Entries() { // cargo's and nextest's own, of which tests read some
		if ofCargo.MatchString(e) {
			req.Env = append(req.Env, e)
		}
	}
	named := map[string]bool{}
	for _, name := range p.Send {
		sent, err := sent(m, root, name)
		if err != nil {
			return req, err
		}
		for _, f := range sent { // one of them may be below another
			if !named[f.Name] {
				req.Files = append(req.Files, f)
			}
			named[f.Name] = true
		}
	}
	for _, name := range p.SendEnv {
		value, set := h.Env.Lookup(name)
		if !set {
			return req, &exit.UsageError{What: "--send-env " + name + " is not set here", Fix: "set it, or leave the flag out"}
		}
		req.Env = append(req.Env, name+"="+value)
	}
	return req, nil
}

// sent are the files of one --send: a file, or everything below a directory, at the same place below the directory of the run.
func sent(m *session.Machine, root, name string) (out []file, err error) {
	from := m.Host.Real(m.Host.Abs(name))
	info, err := os.Stat(from)
	if err != nil {
		return nil, &exit.UsageError{What: "--send " + name + ": " + err.Error(), Fix: "name a file or a directory"}
	}
	rel, err := filepath.Rel(root, from)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, &exit.UsageError{What: fmt.Sprintf("--send %s is not below %s, so the program would not find it there", name, root),
			Fix: "copy it below that directory"}
	}
	if !info.IsDir() {
		f, err := sized(m, file{Name: path.Join("work", filepath.ToSlash(rel)), Run: false, from: from})
		return []file{f}, err
	}
	err = filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		one, err := sent(m, root, path)
		out = append(out, one...)
		return err
	})
	return out, err
}
