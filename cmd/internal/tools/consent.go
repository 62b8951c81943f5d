package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// consent decides whether a file of the repository may name a compiler or a toolkit that lies in the repository: whoever wrote the
// repository also wrote that program, and gpubuild runs compilers even for what builds nothing. Only the user agrees, by a flag or in their
// own configuration. What the user's environment, PATH and flags name is not asked about.
type consent struct {
	host  buildenv.Host
	root  string // of the repository
	home  string // cargo's own directory, whose configuration is the user's
	given bool
}

func consentOf(s *session.Session, o Options) (consent, error) {
	h := s.Machine.Host
	home := cmp.Or(h.Env.Get("CARGO_HOME"), h.Join(h.Home, ".cargo"))
	c := consent{host: h, root: repository(h, s.Project.Root), home: h.Real(h.Abs(home)), given: o.TrustProject}
	if c.given {
		return c, nil
	}
	user, err := User(h)
	c.given = slices.ContainsFunc(user.Trust, func(dir string) bool { return h.Below(c.root, h.Real(dir)) })
	return c, err
}

// repository is the directory that was cloned: the nearest one with .git, else the project's.
func repository(h buildenv.Host, project string) string {
	project = h.Real(project)
	return cmp.Or(h.Repository(project), project)
}

// tables checks the [env] tables of cargo's configuration files.
func (c consent) tables(tables []cargo.Given) error {
	for _, g := range tables {
		if !toolchain.Steers(c.host, g.Name) || !c.host.IsFile(g.Origin) || c.host.Below(c.host.Real(g.Origin), c.home) {
			continue // it selects no tool, or is the user's own: --config, or CARGO_HOME
		}
		// Whoever wrote the file wrote what is below its directory, in a repository or an unpacked archive.
		if err := c.value("the [env] table of "+g.Origin, g.Name, g.Value, c.host.Dir(c.host.Dir(c.host.Real(g.Origin)))); err != nil {
			return err
		}
	}
	return nil
}

// value answers an *UntrustedError where a value that origin gives names something in the repository or below one of dirs, or by a path
// that is relative to it.
func (c consent) value(origin, name, value string, dirs ...string) error {
	if c.given {
		return nil
	}
	words := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n\"'=,"+c.host.ListSeparator(), r) })
	for _, word := range append(words, value) {
		path := c.host.Abs(word)
		if !strings.ContainsAny(word, `/\`) {
			continue // a name that is looked for on the user's PATH
		}
		if _, err := c.host.Files.Stat(path); err != nil {
			continue
		}
		for _, dir := range append(dirs, c.root) {
			if c.host.Below(c.host.Real(path), dir) || !c.host.IsAbs(word) {
				return &UntrustedError{Origin: origin, Name: name, Path: path, Root: dir}
			}
		}
	}
	return nil
}

// UntrustedError says that a repository wants its own compiler or toolkit to be used.
type UntrustedError struct{ Origin, Name, Path, Root string }

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%s sets %s to %s, which is in the repository: gpubuild runs no tool of a repository without your consent",
		e.Origin, e.Name, e.Path)
}

func (e *UntrustedError) ExitCode() int { return exit.Config }

func (e *UntrustedError) Hint() string {
	return fmt.Sprintf("if you trust it: --gpu-trust-project, or trust = [%q] in your own configuration (%s); else remove the setting",
		e.Root, "`gpubuild help config`")
}
