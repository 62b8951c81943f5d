package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/saved"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/features/manifest"
)

// savedMachine is a machine that is overheard while doctor looks at it.
type savedMachine struct {
	app  *app
	path string
	rec  *saved.Recorder
}

// overheard answers an app that remembers what it is told of the machine. The project, cargo's home and what our cache holds of projects are
// the user's own matter; the toolkits in our cache belong to the machine.
func (a *app) overheard(file string) (*app, *savedMachine, error) {
	path := a.Host.Abs(file)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &usageError{file + " is there already", "give --save a name that is free"}
	}
	own := []string{a.Host.Cwd, manifest.CargoHome(a.Host)}
	if found, err := manifest.Find(a.Host, a.Host.Cwd); err == nil {
		own = append(own, a.Host.Dir(found))
		if p, err := manifest.Load(a.Host, found); err == nil {
			own = append(own, p.Root)
		}
	}
	rec := saved.NewRecorder(a.Host, func(p string) bool {
		if a.Host.Below(p, a.CacheDir) && !a.Host.Below(p, a.Host.Join(a.CacheDir, "toolkits")) {
			return true
		}
		for _, dir := range own {
			// Who stands in the home directory, or above it, has no project there.
			if dir != "" && !a.Host.Below(a.Host.Home, dir) && a.Host.Below(p, dir) {
				return true
			}
		}
		return false
	})
	b, machine := *a, *a.Machine
	machine.Host, machine.Runner = rec.Host(), heard{a.Runner, rec, a.Host}
	b.Machine = &machine
	return &b, &savedMachine{app: a, path: path, rec: rec}, nil
}

// heard remembers what compilers and nvidia-smi say of themselves; what cargo says of a project is not kept.
type heard struct {
	session.Runner
	rec     *saved.Recorder
	machine buildenv.Host // for what is looked at without being saved
}

func (h heard) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
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

// write writes it, with what doctor says: all but the project, of whose name and manifest cargo's own words may hold anything.
func (s *savedMachine) write(checks []doctor.Check) error {
	checks = slices.Clone(checks)
	for i := range checks {
		if c := &checks[i]; c.ID == "project" {
			c.Says = "(not told)"
		}
	}
	says := doctorText(checks)
	data := s.rec.Encode("Saved by `gpubuild doctor --save`, version " + version.Number() + ". doctor said:\n\n" + says)
	if err := cache.WriteFile(s.path, data, 0o600); err != nil {
		return err
	}
	s.app.Shell.Status("Saved", "%s: what was looked at on this machine (%s); look at it before you send it", s.app.Shown(s.path), size(len(data)))
	return nil
}

func size(n int) string {
	if n < 10<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d kB", n/1000)
}
