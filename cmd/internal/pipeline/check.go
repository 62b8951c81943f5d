package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"gpubuild/buildenv"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/nvcc"
)

// newestKnown is the release of the stand-in where no crate limits it.
const newestKnown = "13.0"

// chosen are the tools of a build; standIn says that they compile no kernels, for a type check.
type chosen struct {
	tools.Tools
	standIn bool
}

// choose chooses what the build needs of the machine. A type check does without a toolkit where none fits, or where the user wants none.
func (c Command) choose(ctx context.Context, s *session.Session, j featurecheck.Judged) (chosen, error) {
	wish := c.Options.Tools.Toolkit
	checks := s.Line.Verb == "check" || s.Line.Verb == "clippy" || s.Line.Verb == "doc"
	if wish == tools.None && checks {
		t, err := checkOnly(s, j)
		return chosen{t, true}, err
	}
	t, err := choose(ctx, s, j, c.Options.Tools)
	if wish == "" && checks && LacksToolkit(err) && tools.NeedsOf(j.Answer).Toolkit() {
		s.Machine.Shell.Note("%v", err)
		t, err = checkOnly(s, j)
		return chosen{t, true}, err
	}
	return chosen{t, false}, err
}

// LacksToolkit says whether an error of Prepare is that no toolkit, or nothing that fits it, is here.
func LacksToolkit(err error) bool {
	var missing *toolchain.MissingError
	var misfit *toolchain.MisfitError
	return errors.As(err, &missing) || errors.As(err, &misfit)
}

// checkOnly is the environment of a type check with a stand-in for the toolkit.
func checkOnly(s *session.Session, j featurecheck.Judged) (tools.Tools, error) {
	m := s.Machine
	t := unchosen(m, j.Tool)
	t.Needs, t.Line = tools.NeedsOf(j.Answer), s.Line
	release := newestKnown
	switch most := t.Needs.CudarcMax; {
	case !t.Needs.Pin.IsZero():
		release = fmt.Sprintf("%d.%d", t.Needs.Pin.Major, t.Needs.Pin.Minor)
	case !most.IsZero() && most.Compare(gpu.Version{Major: 13}) < 0:
		release = fmt.Sprintf("%d.%d", most.Major, most.Minor)
	}
	root, err := nvcc.StandIn(m.Host, m.CacheDir, release, m.Self)
	if err != nil {
		return t, err
	}
	t.Delta = nvcc.CheckEnvironment(m.Host, root, j.Graph.Places.TargetDirectory)
	t.Env = m.Host.Apply(m.Host.Env, t.Delta)
	t.Cargo, t.ExportFrom, t.Exported = j.Tool.With(t.Env), m.Host.Env, t.Delta
	t.Line = s.Line.WithDirectories(t.Env.Get("CARGO_TARGET_DIR"))
	m.Shell.Status("Checking", "without a CUDA toolkit: a stand-in of release %s compiles no kernels (target directory %s)", release,
		m.Shown(t.Env.Get("CARGO_TARGET_DIR")))
	return t, nil
}

// PrepareCheck is Prepare for a type check with a stand-in for the toolkit.
func PrepareCheck(ctx context.Context, m *session.Machine, line cargo.Line) (Prepared, error) {
	p, err := Look(ctx, m, line, false)
	if err == nil {
		p.Tools, err = checkOnly(p.Features.Session, p.Features)
	}
	return p, err
}

// unmarked refuses a build that holds anything that was made for a type check: an internal error, or one of a compiler cache in between.
func unmarked(m *session.Machine, r Result) error {
	stands, err := filepath.Glob(filepath.Join(m.CacheDir, nvcc.Views, "check-*"))
	if err != nil || len(stands) == 0 {
		return err
	}
	store := m.Memo()
	for _, message := range r.Built.Messages {
		if message.Reason != cargo.ScriptExecuted || message.OutDir == "" {
			continue
		}
		var files []string
		walk(m.Host, message.OutDir, &files)
		key := memo.Key(version.Number(), message.OutDir, fmt.Sprint(len(files)))
		if _, ok := store.Get("unmarked-1", key); ok {
			continue
		}
		inputs := store.Watch(files...)
		for _, f := range files {
			if err := proof.Unmarked(m, f); err != nil {
				return err
			}
		}
		if err := store.Put("unmarked-1", key, inputs, nil); err != nil {
			m.Shell.Detail("what a build script made is searched again next time: %v", err)
		}
	}
	return nil
}

func walk(h buildenv.Host, dir string, files *[]string) {
	for _, name := range h.Names(dir) {
		if path := h.Join(dir, name); h.IsDir(path) {
			walk(h, path, files)
		} else {
			*files = append(*files, path)
		}
	}
}
