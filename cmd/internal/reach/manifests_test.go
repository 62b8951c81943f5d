package reach

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
)

// metadata is a cargo that knows the packages of a workspace.
type metadata struct{ s *session.Session }

func (m metadata) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	type pkg map[string]any
	var list []pkg
	var ids []string
	for _, p := range m.s.Project.Members {
		id := "path+file://" + p.Dir + "#" + p.Name + "@1.0.0"
		ids = append(ids, id)
		list = append(list, pkg{"id": id, "name": p.Name, "version": "1.0.0", "manifest_path": p.Manifest, "dependencies": []any{}, "features": pkg{}, "targets": []any{}})
	}
	data, err := json.Marshal(pkg{"packages": list, "workspace_members": ids, "workspace_default_members": ids[:1], "workspace_root": m.s.Project.Root, "target_directory": "/t", "version": 1, "resolve": nil})
	return buildenv.Result{Stdout: data}, err
}

// TestFromManifests: each selected package is judged by itself; that none is selected is an error.
func TestFromManifests(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{"build": "app", "build --workspace": "app lib", "build --workspace --exclude app --exclude lib": "", "build -p none": ""} {
		s, _ := open(t, words, "", "")
		path := filepath.Join(s.Project.Root, "cargo")
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		m := *s.Machine
		m.Host.Env, m.Runner = m.Host.Env.Set("CARGO", path), metadata{s}
		list, err := FromManifests(t.Context(), &m, lineOf(t, words), nil)
		var got []string
		for _, j := range list {
			for _, r := range j.Reach.Roots {
				got = append(got, r.Package)
			}
		}
		if text := strings.Join(got, " "); text != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v, want %q", words, text, err, want)
		}
	}
}
