package ci

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
)

// WorkflowOf is what of a project's configuration a workflow needs.
func WorkflowOf(s *session.Session) Workflow {
	var w Workflow
	if c := s.Config.CI.Value; c != nil {
		w.Install, w.Setup, w.Image = strings.TrimSpace(c.Install), strings.TrimSpace(c.Setup), c.Image
	}
	if root := s.Machine.Host.Repository(s.Project.Root); root != "" {
		w.Dir = strings.TrimPrefix(s.Project.Root, root) // the repository lies above, and is named as the beginning of the same path
		if s.Machine.Host.OS == buildenv.Windows {
			w.Dir = strings.ReplaceAll(w.Dir, `\`, "/")
		}
		w.Dir = strings.Trim(w.Dir, "/")
	}
	return w
}

// Init is the file of a provider's workflow, and the [matrix] that a project lacks.
type Init struct {
	Path     string
	Text     []byte
	Config   string // the file that gets Matrix
	Matrix   string // lines of [matrix]; empty: the project has one
	provider Provider
}

// MakeInit makes the workflow of a project for a provider. Without a way for a runner to get gpubuild there is none: it could only fail.
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
	i := Init{Config: m.Host.Join(s.Project.Root, "gpubuild.toml"), Text: provider.Workflow(w), provider: provider}
	if w.Install == "" {
		return Init{}, &config.Error{
			Path: m.Shown(i.Config), Problem: "[ci] install is missing: a runner would not know how to get gpubuild",
			Fix: "add to gpubuild.toml:\n      [ci]\n      install = \"go install ADDRESS/cmd/gpubuild@VERSION\""}
	}
	if err := (Matrix{}).pinned(w); err != nil && provider == GitLab {
		return Init{}, err
	}
	if s.Config.Matrix.Value == nil {
		i.Matrix = MatrixLines(s.Project)
	}
	root := cmp.Or(s.Machine.Host.Repository(s.Project.Root), s.Project.Root)
	i.Path = m.Host.Join(append([]string{root}, provider.File()...)...)
	return i, nil
}

// MatrixLines is a [matrix] for a project: the default features, and each feature of its packages that leads to GPU work.
func MatrixLines(p *manifest.Project) string {
	declared, leading := map[string]bool{}, []string{}
	for _, m := range p.Members {
		work := func(features ...string) bool {
			leads, _ := p.GPUWork(manifest.Request{Packages: []string{m.Name}, NoDefault: true, Features: features})
			return leads
		}
		always := work()
		for f := range m.Features {
			if f == "default" || f != "cuda" && f != "cudnn" && (always || !work(f)) {
				continue
			}
			if !declared[f] {
				declared[f], leading = true, append(leading, f)
			}
		}
	}
	slices.Sort(leading)
	sets := []string{}
	for _, f := range leading {
		if f == "cudnn" && declared["cuda"] {
			f = "cuda,cudnn"
		}
		sets = append(sets, buildenv.TOMLString(f))
	}
	sets = append(sets, `""`)
	return "[matrix]\nfeatures = [" + strings.Join(sets, ", ") + "]\narch = [\"sm_80\", \"sm_90\"]\n"
}

// Write writes the workflow. A file that is there and differs is left alone without force.
func (i Init) Write(m *session.Machine, force bool) error {
	if i.Matrix != "" {
		if err := i.writeMatrix(m); err != nil {
			return err
		}
	}
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

// writeMatrix adds [matrix] at the end of the configuration.
func (i Init) writeMatrix(m *session.Machine) error {
	have, err := m.Host.ReadFile(i.Config, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(have) > 0 {
		have = append(bytes.TrimRight(have, "\n"), "\n\n"...)
	}
	if err := cache.WriteFile(i.Config, append(have, i.Matrix...), 0o644); err != nil {
		return err
	}
	m.Shell.Status("Added", "[matrix] to %s", m.Shown(i.Config))
	return nil
}
