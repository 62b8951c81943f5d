// Package initfile makes the gpubuild.toml that `gpubuild init` writes, with the programs of this project and the toolkit of this
// machine. All keys are comments: the file changes nothing until the user edits it.
package initfile

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/template"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

//go:embed gpubuild.toml.tmpl
var file string

// Run is `gpubuild init`: it writes the file, or prints it, with what this project and this machine have.
func Run(ctx context.Context, m *session.Machine, l cargo.Line, providers string, stdout, force bool) error {
	tool, _ := cargo.Find(m.Host, l) // without cargo the programs are not known, and nothing else is lost
	s, err := session.Open(m, l)
	if err != nil {
		if _, is := errors.AsType[*config.Error](err); !is || !force && !stdout { // a broken gpubuild.toml may be replaced
			return err
		}
	}
	cuda := "13.4"
	if d, err := doctor.Gather(ctx, m, l, doctor.Options{}); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		m.Shell.Detail("no toolkit is chosen: %v", err) // the version is an example then
	} else if d.Chosen.Toolkit != nil {
		cuda = d.Chosen.Toolkit.Version.String()
	} else if _, fits, found := strings.Cut(d.Install, toolchain.InstallVerb); found {
		cuda = strings.Fields(fits)[0]
	} else if newest := d.Toolchain.Driver.CUDA; !newest.IsZero() && newest.Compare(gpu.Version{Major: 13, Minor: 4}) < 0 {
		cuda = newest.String()
	}
	content := text(ctx, s, tool, cuda, providers)
	path := m.Host.Join(s.Project.Root, "gpubuild.toml")
	if stdout {
		return m.Shell.Data(content)
	}
	if err := Write(path, content, force); err != nil {
		if errors.Is(err, fs.ErrExist) {
			if m.Host.IsDir(path) {
				return exit.Usagef("move it: gpubuild.toml is a file", "%s is a directory", m.Shown(path))
			}
			return exit.Usagef("gpubuild init --stdout shows what would be written; --force writes it in place of yours",
				"%s already exists", m.Shown(path))
		}
		return err
	}
	m.Shell.Status("Created", "%s", m.Shown(path))
	return nil
}

// Write writes a file that is not there, whole or not at all; with force it may be there, but not read-only.
func Write(path, text string, force bool) error {
	if fi, err := os.Stat(path); force && err == nil && fi.Mode().Perm()&0o200 == 0 {
		return fmt.Errorf("%s is read-only", path)
	}
	if force {
		return cache.WriteFile(path, []byte(text), 0o644)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		if err = cmp.Or(err, f.Close()); err != nil {
			_ = os.Remove(path) // the first error is the one to return
		}
	}
	if err != nil {
		return &cache.WriteError{Path: path, Err: err}
	}
	return nil
}

// text is the file; cuda is the version of the toolkit that a build would take or install, and providers are the CI services that a workflow can be
// written for. A line that begins with "# " and a key is an example that may be used as it is.
func text(ctx context.Context, s *session.Session, tool cargo.Tool, cuda, providers string) string {
	bins := programNames(ctx, s, tool)
	t := template.Must(template.New("").Funcs(template.FuncMap{"join": strings.Join}).Parse(file))
	var out strings.Builder
	if err := t.Execute(&out, struct {
		Bins, Others       []string
		Version, Providers string
	}{bins, bins[min(len(bins), 1):], cuda, providers}); err != nil {
		panic("gpubuild.toml.tmpl: " + err.Error()) // it is part of the program
	}
	return out.String()
}

// programNames asks cargo for the programs of the workspace; without an answer there are none to name.
func programNames(ctx context.Context, s *session.Session, tool cargo.Tool) []string {
	if tool.Path == "" {
		return nil
	}
	targets, err := cargorun.Targets(ctx, s.Machine, tool, s.Line)
	if err != nil {
		s.Machine.Shell.Detail("the programs are not known: %v", err)
		return nil
	}
	var names []string
	for _, t := range targets {
		if t.Kind == "bin" {
			names = append(names, t.Name)
		}
	}
	return names
}
