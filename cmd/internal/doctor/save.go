package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/saved"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/install/tree"
)

// Recording is what is remembered of a machine while doctor looks at it.
type Recording struct {
	machine *session.Machine
	path    string
	rec     *saved.Recorder
}

// Record returns a machine that records every answer about this one. The project, cargo's home and what our cache holds of projects are
// private and left out; the toolkits in our cache belong to the machine.
func Record(m *session.Machine, file string) (*session.Machine, *Recording, error) {
	path := m.Host.Abs(file)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &exit.UsageError{What: file + " already exists", Fix: "give --save the name of a new file"}
	}
	own := []string{m.Host.Cwd, manifest.CargoHome(m.Host)}
	if found, err := manifest.Find(m.Host, m.Host.Cwd); err == nil {
		own = append(own, m.Host.Dir(found))
		if p, err := manifest.Load(m.Host, found); err == nil {
			own = append(own, p.Root)
		}
	}
	rec := saved.NewRecorder(m.Host, func(p string) bool {
		if m.Host.Below(p, m.CacheDir) && !m.Host.Below(p, m.Host.Join(m.CacheDir, "toolkits")) {
			return true
		}
		return slices.ContainsFunc(own, func(dir string) bool {
			// Who stands in the home directory, or above it, has no project there.
			return dir != "" && !m.Host.Below(m.Host.Home, dir) && m.Host.Below(p, dir)
		})
	})
	machine := *m
	machine.Host, machine.Runner = rec.Host(), hearing{m.Runner, rec, m.Host}
	return &machine, &Recording{machine: m, path: path, rec: rec}, nil
}

// hearing remembers what compilers and nvidia-smi say of themselves; what cargo says of a project is not kept.
type hearing struct {
	session.Runner
	rec     *saved.Recorder
	machine buildenv.Host // for what is looked at without being saved
}

func (h hearing) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	res, err := h.Runner.Run(ctx, c)
	var exit *buildenv.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Result.TimedOut) {
		return res, err // it did not run to its end: there is nothing that it said
	}
	name := strings.ToLower(c.Path[strings.LastIndexAny(c.Path, `/\`)+1:])
	for _, tool := range []string{"gcc", "g++", "cc", "c++", "clang", "nvidia-smi", "x86_64-", "aarch64-"} {
		if strings.HasPrefix(name, tool) {
			h.rec.Ran(c, res)
			break
		}
	}
	return res, err
}

// Write writes it, with what doctor says: all but the project, of whose name and manifest cargo's own words may hold anything.
func (r *Recording) Write(checks []Check) error {
	checks = slices.Clone(checks)
	for i := range checks {
		if c := &checks[i]; c.ID == "project" {
			c.Says = "(left out)"
		}
	}
	says := Text(checks)
	data := r.rec.Encode("Saved by `gpubuild doctor --save`, version " + version.Number() + ". doctor said:\n\n" + says)
	if err := r.machine.WriteFile(r.path, data, 0o600); err != nil {
		return err
	}
	r.machine.Shell.Status(
		"Saved",
		"%s: what was looked at on this machine (%s); look at it before you send it",
		r.machine.Shown(r.path),
		tree.Size(int64(len(data))),
	)
	return nil
}
