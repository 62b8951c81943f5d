package app

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/ci"
	"gpubuild/toolchain/cargo"
)

// ciInit writes a workflow that runs the matrix. A file that is there and differs is left alone without --force.
func (a *app) ciInit(o Options, l cargo.Line, service string) error {
	j, err := a.openCI(o, l)
	if err != nil {
		return err
	}
	if err := j.workflow().Check(); err != nil {
		return err
	}
	var text []byte
	var parts []string
	switch service {
	case "github":
		text, parts = ci.GitHub(j.workflow()), []string{".github", "workflows", "gpu.yml"}
	case "gitlab":
		text, parts = ci.GitLab(j.workflow()), []string{".gitlab-ci.yml"}
	default:
		return &usageError{fmt.Sprintf("no workflow can be written for %q", service), "gpubuild ci init github, or gitlab"}
	}
	if j.Config.Matrix.Value == nil {
		a.Shell.Warning("there is no [matrix] yet, and the workflow computes its rows from it")
		a.Shell.Hint(threeLines)
	}
	if j.workflow().Install == "" {
		a.Shell.Warning("the workflow does not know yet how a runner gets gpubuild, and fails with these words")
		a.Shell.Hint(ci.NoInstall)
	}
	if o.JSON != nil {
		return &usageError{"ci init has no answer for machines", "--stdout prints the workflow"}
	}
	if o.Stdout {
		_, err := a.Shell.Out.Write(text)
		return err
	}
	root := j.repository()
	if root == "" {
		root = j.Project.Root
	}
	path := a.Host.Join(append([]string{root}, parts...)...)
	switch have, err := a.Host.ReadFile(path, 1<<20); {
	case err == nil && bytes.Equal(have, text):
		a.Shell.Status("Unchanged", "%s", a.Shown(path))
		return nil
	case errors.Is(err, fs.ErrNotExist):
	case !o.Force:
		fix := "--stdout prints what would be written; --force replaces the file"
		if service == "gitlab" {
			fix += "; or keep yours, write ours beside it (--stdout > .gitlab/gpubuild.yml) and `include: {local: .gitlab/gpubuild.yml}`"
		}
		return &usageError{a.Shown(path) + " is there already, and differs", fix}
	}
	if err := os.MkdirAll(a.Host.Dir(path), 0o755); err != nil {
		return err
	}
	if err := cache.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	a.Shell.Status("Wrote", "%s", a.Shown(path))
	return nil
}
