package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// configLimit is far above what anybody writes into a config.toml.
const configLimit = 1 << 20

// WriteEnvBlock writes the environment of the build into the workspace's .cargo/config.toml, which plain cargo and editors read.
func (p Prepared) WriteEnvBlock(m *session.Machine) error {
	table, err := buildenv.Export("cargo-config", m.Host, p.Tools.ExportFrom, p.Tools.Exported)
	if err != nil {
		return err
	}
	path, text, err := configFile(m, p.Features.Session)
	if err == nil && strings.TrimSpace(strings.TrimPrefix(table, "[env]")) == "" {
		m.Shell.Note("nothing to write: this build needs no variables that your environment lacks")
		return nil
	}
	if err == nil {
		text, err = cargo.WithEnvBlock(text, table)
	}
	if err == nil {
		err = cache.Make(m.Host.Dir(path))
	}
	if err == nil {
		err = cache.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		return envBlockError(m.Shown(path), err)
	}
	m.Shell.Status("Wrote", "%s: the variables of this build, for every cargo; they hold until `gpubuild env --write` or --remove",
		m.Shown(path))
	return nil
}

// RemoveEnvBlock takes what WriteEnvBlock wrote out again, and the file with it where nothing else is in it.
func RemoveEnvBlock(m *session.Machine, line cargo.Line) error {
	s, err := session.Open(m, line)
	if err != nil {
		return err
	}
	path, text, err := configFile(m, s)
	if err != nil {
		return envBlockError(m.Shown(path), err)
	}
	rest, was := cargo.WithoutEnvBlock(text)
	switch {
	case !was:
		m.Shell.Note("%s holds nothing that `gpubuild env --write` wrote", m.Shown(path))
		return nil
	case rest == "":
		if err = os.Remove(path); err == nil {
			_ = os.Remove(m.Host.Dir(path)) // which stays where anything else is in it
		}
	default:
		err = cache.WriteFile(path, []byte(rest), 0o644)
	}
	if err != nil {
		return envBlockError(m.Shown(path), err)
	}
	m.Shell.Status("Removed", "gpubuild's variables from %s", m.Shown(path))
	return nil
}

// offeredKind names the cache entries that say that offerEnvBlock was printed.
const offeredKind = "env-write-offered-1"

// offerEnvBlock says once for a target directory that another cargo ran a package's build script since gpubuild did: where it sees other
// variables, each rebuilds what the other built.
func offerEnvBlock(m *session.Machine, buildDirectory, pkg string) {
	store, key := m.Memo(), memo.Key(m.Host.Real(buildDirectory))
	if _, said := store.Get(offeredKind, key); pkg == "" || said {
		return
	}
	m.Shell.Note("another cargo (an editor's, perhaps) ran the build script of %s since; with other variables, each rebuilds "+
		"what the other built", pkg)
	m.Shell.Hint("`gpubuild env --write` with the same features lets both see the same ones; `gpubuild env --remove` takes it back")
	if err := store.Put(offeredKind, key, nil, nil); err != nil {
		m.Shell.Detail("%v", err)
	}
}

// configFile is the file of the workspace that cargo reads: one without an ending comes first (cargo reference, "Configuration").
func configFile(m *session.Machine, s *session.Session) (path, text string, err error) {
	dir := m.Host.Join(s.Project.Root, ".cargo")
	if path = m.Host.Join(dir, "config"); !m.Host.IsFile(path) {
		path = m.Host.Join(dir, "config.toml")
	}
	if real, root := m.Host.Real(dir), m.Host.Real(s.Project.Root); m.Host.IsDir(dir) && !m.Host.Below(real, root) {
		return path, "", fmt.Errorf("%s is a link to %s, outside of the project", m.Shown(dir), real)
	}
	data, err := m.Host.ReadFile(path, configLimit)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return path, string(data), err
}

// envBlockError is why a configuration of cargo's is left as it is.
func envBlockError(path string, err error) error {
	return exit.Errorf(0, "set the variables yourself: gpubuild env --shell cargo-config prints them", "%s: %w", path, err)
}
