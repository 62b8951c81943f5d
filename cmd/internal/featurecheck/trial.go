package featurecheck

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// tried is a build as it would be with edited manifests; its session is still that of the manifests as they are.
type tried struct {
	Judged
	texts map[string][]byte // the edited manifests
	order []string
	lock  []byte // Cargo.lock as cargo leaves it
}

// try asks cargo about a build with edits. Nothing of the user's is written: cargo reads a shadow of the workspace, which has manifests and
// a Cargo.lock of its own and links to everything else.
func (j Judged) try(ctx context.Context, edits []edit.Edit) (tried, error) {
	out := tried{texts: map[string][]byte{}}
	s := j.Session
	m, h := s.Machine, s.Machine.Host
	for _, e := range edits {
		data, known := out.texts[e.Manifest]
		if !known {
			out.order = append(out.order, e.Manifest)
			var err error
			if data, err = h.ReadFile(e.Manifest, manifestLimit); err != nil {
				return out, err
			}
		}
		next, err := edit.AddEdges(data, e)
		if err != nil {
			return out, err
		}
		out.texts[e.Manifest] = next
	}
	name := cache.Name(h.Real(s.Project.Root))
	if err := errors.Join(cache.Make(h.Join(m.CacheDir, "locks")), cache.Make(h.Join(m.CacheDir, "trial"))); err != nil {
		return out, err
	}
	free, err := cache.Lock(ctx, h.Join(m.CacheDir, "locks", "trial-"+name), func(string) {})
	if err != nil {
		return out, err
	}
	defer func() { _ = free() }()
	defer os.RemoveAll(h.Join(m.CacheDir, "trial", name))
	if err := os.RemoveAll(h.Join(m.CacheDir, "trial", name)); err != nil { // one that was killed left it
		return out, err
	}
	w := shadow{host: h, base: commonDir(h, s.Project), root: h.Join(m.CacheDir, "trial", name), texts: out.texts}
	if err := w.make(s.Project); err != nil {
		return out, err
	}
	line, err := s.Line.Change(cargo.Change{Manifest: w.path(s.Project.Manifest)})
	if err != nil {
		return out, err
	}
	copied, err := manifest.Load(h, w.path(s.Project.Manifest))
	if err != nil {
		return out, err
	}
	asked := session.Session{Machine: m, Line: line, Project: copied, Config: s.Config}
	g, err := asked.Graph(ctx, j.Tool, session.Question{Silent: true})
	if err != nil {
		return out, err
	}
	w.relocate(g)
	if out.lock, err = h.ReadFile(w.path(s.Project.LockPath), manifestLimit); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	out.Judged, err = j.with(g, out.texts)
	return out, err
}

// with is the build as features judges it with edited manifests.
func (j Judged) with(g session.Graph, texts map[string][]byte) (Judged, error) {
	h := j.Session.Machine.Host
	h.Files = overlay{h.Files, texts}
	project, err := manifest.Load(h, j.Session.Project.Manifest)
	if err != nil {
		return j, err
	}
	j.Graph, j.Input.Project, j.Input.Graph, j.Input.Tree, j.Input.Sources = g, project, g.Units, g.Tree, nil
	j.Answer, err = features.Judge(h, j.Input)
	return j, err
}

// overlay reads some files as they would be.
type overlay struct {
	buildenv.Files
	texts map[string][]byte
}

func (o overlay) Open(path string) (fs.File, error) {
	f, err := o.Files.Open(path)
	if text, edited := o.texts[path]; edited && err == nil {
		return overlaid{f, bytes.NewReader(text)}, nil
	}
	return f, err
}

type overlaid struct {
	fs.File
	text *bytes.Reader
}

func (o overlaid) Read(p []byte) (int, error) { return o.text.Read(p) }

// shadow is a copy of the directories of a workspace's packages: base is the directory that holds them all.
type shadow struct {
	host       buildenv.Host
	base, root string
	texts      map[string][]byte
}

// commonDir is the directory above everything that holds the workspace's packages and path dependencies, so that ../x is there, too.
func commonDir(h buildenv.Host, p *manifest.Project) string {
	dir := h.Clean(p.Root)
	for _, list := range [][]*manifest.Package{p.Members, p.Locals} {
		for _, m := range list {
			for !h.Below(m.Dir, dir) && h.Dir(dir) != dir {
				dir = h.Dir(dir)
			}
		}
	}
	return h.Dir(dir)
}

// path is where the shadow has what lies below base.
func (w shadow) path(path string) string {
	if w.host.SamePath(path, w.base) {
		return w.root
	}
	return w.host.Join(w.root, strings.TrimLeft(path[len(w.base):], `/\`))
}

// make makes the shadow.
func (w shadow) make(p *manifest.Project) error {
	h := w.host
	own := map[string]bool{h.Clean(p.Root): true} // directories that are not links
	for _, list := range [][]*manifest.Package{p.Members, p.Locals} {
		for _, m := range list {
			own[m.Dir] = true
		}
	}
	var above []string
	for dir := range own {
		for d := dir; !h.SamePath(d, w.base) && h.Dir(d) != d; d = h.Dir(d) {
			above = append(above, h.Dir(d))
		}
	}
	for _, dir := range above {
		own[dir] = true
	}
	for dir := range own {
		if err := w.fill(dir, own, h.SamePath(dir, p.Root)); err != nil {
			return err
		}
	}
	return nil
}

func (w shadow) fill(dir string, own map[string]bool, root bool) error {
	h, to := w.host, w.path(dir)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, at := h.Join(dir, e.Name()), h.Join(to, e.Name())
		if own[from] || e.Name() == "target" || e.Name() == ".git" { // it is filled itself, or nothing that cargo looks at for a graph
			continue
		}
		switch {
		case e.Name() == manifest.FileName || root && e.Name() == "Cargo.lock":
			data, edited := w.texts[from]
			if !edited {
				if data, err = h.ReadFile(from, manifestLimit); err != nil {
					return err
				}
			}
			if err := os.WriteFile(at, data, 0o600); err != nil {
				return err
			}
		default:
			if err := w.link(from, at, e.IsDir()); err != nil {
				return err
			}
		}
	}
	return nil
}

// link makes a symbolic link, or a copy where the system allows none.
func (w shadow) link(from, at string, dir bool) error {
	if os.Symlink(from, at) == nil {
		return nil
	}
	if dir {
		return os.CopyFS(at, os.DirFS(from))
	}
	data, err := w.host.ReadFile(from, manifestLimit)
	if err != nil {
		return err
	}
	return os.WriteFile(at, data, 0o600)
}

// relocate replaces the shadow's paths in cargo's answer by those of the workspace that it copies.
func (w shadow) relocate(g session.Graph) {
	address := func(path string) string {
		u := url.URL{Scheme: "file", Path: "/" + strings.TrimLeft(strings.ReplaceAll(path, `\`, "/"), "/")}
		return u.String()
	}
	from, to := address(w.root), address(w.base)
	if w.base == "/" {
		to = "file://"
	}
	move := func(path string) string {
		if w.host.Below(path, w.root) {
			return w.host.Join(w.base, strings.TrimLeft(path[len(w.root):], `/\`))
		}
		return path
	}
	if g.Units != nil {
		for i := range g.Units.Units {
			u := &g.Units.Units[i]
			u.PkgID, u.Target.SrcPath = strings.Replace(u.PkgID, from, to, 1), move(u.Target.SrcPath)
		}
	}
	if g.Tree != nil {
		for i := range g.Tree.Nodes {
			if n := &g.Tree.Nodes[i]; w.host.IsAbs(n.Source) {
				n.Source = move(n.Source)
			}
		}
	}
}
