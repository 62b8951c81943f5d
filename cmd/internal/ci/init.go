package ci

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
)

// WorkflowOf is what of a project's configuration a workflow needs.
func WorkflowOf(s *session.Session) Workflow {
	var w Workflow
	if c := s.Config.CI.Value; c != nil {
		w.Install, w.Setup, w.Image = strings.TrimSpace(c.Install), strings.TrimSpace(c.Setup), c.Image
	}
	if root := repository(s); root != "" {
		w.Dir = strings.TrimPrefix(s.Project.Root, root) // the repository lies above, and is named as the beginning of the same path
		if s.Machine.Host.OS == buildenv.Windows {
			w.Dir = strings.ReplaceAll(w.Dir, `\`, "/")
		}
		w.Dir = strings.Trim(w.Dir, "/")
	}
	return w
}

// repository is the directory above the project that holds .git; empty when there is none.
func repository(s *session.Session) string {
	h := s.Machine.Host
	for dir := s.Project.Root; ; dir = h.Dir(dir) {
		if _, err := h.Files.Stat(h.Join(dir, ".git")); err == nil {
			return dir
		}
		if h.Dir(dir) == dir {
			return ""
		}
	}
}

// Init is the file of a provider's workflow: where it lies and what is in it.
type Init struct {
	Path     string
	Text     []byte
	provider Provider
}

// MakeInit makes the workflow of a project for a provider, and warns of what it lacks.
func MakeInit(s *session.Session, service string) (Init, error) {
	w := WorkflowOf(s)
	if err := w.Check(); err != nil {
		return Init{}, err
	}
	provider := FindProvider(service)
	if provider == nil {
		return Init{}, &exit.UsageError{
			What: fmt.Sprintf("no workflow can be written for %q", service), Fix: "gpubuild ci init " + ProviderNames(", or "),
		}
	}
	m := s.Machine
	if s.Config.Matrix.Value == nil {
		m.Shell.Warning("there is no [matrix] yet, and the workflow computes its rows from it")
		m.Shell.Hint(ThreeLines)
	}
	if w.Install == "" {
		m.Shell.Warning("the workflow does not know yet how a runner gets gpubuild, and fails with these words")
		m.Shell.Hint(NoInstall)
	}
	root := repository(s)
	if root == "" {
		root = s.Project.Root
	}
	return Init{Path: m.Host.Join(append([]string{root}, provider.File()...)...), Text: provider.Workflow(w), provider: provider}, nil
}

// Write writes the workflow. A file that is there and differs is left alone without force.
func (i Init) Write(m *session.Machine, force bool) error {
	switch have, err := m.Host.ReadFile(i.Path, 1<<20); {
	case err == nil && bytes.Equal(have, i.Text):
		m.Shell.Status("Unchanged", "%s", m.Shown(i.Path))
		return nil
	case errors.Is(err, fs.ErrNotExist):
	case !force:
		fix := "--stdout prints what would be written; --force replaces the file"
		if keep := i.provider.Keep(); keep != "" {
			fix += "; or " + keep
		}
		return &exit.UsageError{What: m.Shown(i.Path) + " is there already, and differs", Fix: fix}
	}
	if err := os.MkdirAll(m.Host.Dir(i.Path), 0o755); err != nil {
		return err
	}
	if err := cache.WriteFile(i.Path, i.Text, 0o644); err != nil {
		return err
	}
	m.Shell.Status("Wrote", "%s", m.Shown(i.Path))
	return nil
}
