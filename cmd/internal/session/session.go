package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/config"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/toolchain/cargo"
)

// Session is the project that a command line is about.
type Session struct {
	Machine *Machine
	Line    cargo.Line
	Project *manifest.Project
	Config  config.Config
}

// WithoutProject is the session of a verb that also works outside a project: Project is nil, and the configuration is empty.
func WithoutProject(m *Machine) *Session { return &Session{Machine: m} }

// Open reads the manifests and the configuration. What is wrong with a manifest, cargo says best. If only the configuration is wrong (a
// *config.Error), it returns the error and a session without a configuration: `gpubuild init` replaces the file.
func Open(m *Machine, line cargo.Line) (*Session, error) {
	path, err := findManifest(m, line)
	if err != nil {
		return nil, err
	}
	project, err := manifest.Load(m.Host, path)
	if err == nil {
		err = bounded(m.Host, project)
	}
	if errors.Is(err, buildenv.ErrUnbounded) {
		err = exit.Errorf(exit.Config, "put a regular file of a sensible size there, or a narrower pattern", "%w", err)
	}
	if err != nil {
		return nil, err
	}
	s := &Session{Machine: m, Line: line, Project: project}
	s.Config, err = s.readConfig()
	return s, err
}

// bounded returns an error for a file that cargo and rustc read whole and that has no end, or is larger than such a file ever is. What we
// would not read of a build script must not count as "no nvcc in it".
func bounded(h buildenv.Host, project *manifest.Project) error {
	err := h.Check(project.LockPath, buildenv.Lock)
	for _, p := range slices.Concat(project.Members, project.Locals) {
		err = cmp.Or(err, h.Check(p.BuildScript, buildenv.Source),
			h.Check(h.Join(p.Dir, "src", "lib.rs"), buildenv.Root), h.Check(h.Join(p.Dir, "src", "main.rs"), buildenv.Root))
	}
	return err
}

// findManifest is the manifest that the command line is about.
func findManifest(m *Machine, line cargo.Line) (string, error) {
	dir := m.Host.Cwd
	if line.Dir != "" {
		dir = m.Host.Abs(line.Dir)
	}
	if line.ManifestPath == "" {
		return manifest.Find(m.Host, dir)
	}
	return m.Host.From(dir, line.ManifestPath), nil
}

// readConfig merges gpubuild.toml with the metadata tables; the nearer to the whole workspace, the stronger. Those of packages are those
// of the selected ones, wherever the user is.
func (s *Session) readConfig() (config.Config, error) {
	p, h := s.Project, s.Machine.Host
	places := []config.Source{{Path: h.Join(p.Root, "gpubuild.toml")}}
	names := func(manifest string) bool { return bytes.Contains(p.Text(manifest), []byte("gpubuild")) } // of many, most have none
	if p.Text(p.RootManifest) == nil || names(p.RootManifest) {
		places = append(places, config.Source{Path: p.RootManifest, Table: "workspace.metadata.gpubuild"})
	}
	selected, _ := p.Selection(s.Request())
	for _, one := range selected {
		if names(one.Manifest) {
			places = append(places, config.Source{Path: one.Manifest, Table: "package.metadata.gpubuild", Owner: one.Name})
		}
	}
	return readPlaces(s.Machine, places)
}

// Anywhere is the session of the working directory, which need not be in a project. Of a manifest that cannot be read, which may configure
// this command, cargo says what is wrong.
func Anywhere(ctx context.Context, m *Machine, line cargo.Line) (*Session, error) {
	if _, none := manifest.Find(m.Host, m.Host.Cwd); none == nil {
		s, err := Open(m, line)
		if err == nil && len(s.Project.Doubts) > 0 {
			return s.WithMetadata(ctx, true)
		}
		return s, err
	}
	read, err := readPlaces(m, []config.Source{{Path: m.Host.Abs("gpubuild.toml")}})
	return &Session{m, line, &manifest.Project{Root: m.Host.Cwd}, read}, err
}

func readPlaces(m *Machine, places []config.Source) (config.Config, error) {
	var sources []config.Source
	for _, p := range places {
		data, err := m.Host.ReadFile(p.Path, buildenv.Manifest)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return config.Config{}, &config.Error{Path: p.Path, Problem: err.Error(), Fix: "make the file readable or remove it"}
		default:
			sources = append(sources, config.Source{Path: m.Shown(p.Path), Table: p.Table, Owner: p.Owner, Data: data,
				User: m.Shown(config.UserPath(m.Host))})
		}
	}
	return config.Read(sources)
}

// With is the session of another command line about the same project.
func (s *Session) With(line cargo.Line) *Session {
	other := *s
	other.Line = line
	return &other
}

// Knowing is the session with the project as an answer of cargo's has it.
func (s *Session) Knowing(p *manifest.Project) *Session {
	other := *s
	other.Project = cmp.Or(p, s.Project)
	return &other
}

// Alone is the session of a command line about one member of a project that is known from cargo's metadata.
func (s *Session) Alone(member *manifest.Package, line cargo.Line) (*Session, error) {
	other := s.With(line).Knowing(s.Project.Alone(member))
	var err error
	other.Config, err = other.readConfig()
	return other, err
}

// Quiet is the session on a machine of which only warnings and errors are printed.
func (s *Session) Quiet() *Session {
	other := *s
	other.Machine = s.Machine.Quiet()
	return &other
}

// Request is what the command line asks of the features.
func (s *Session) Request() manifest.Request {
	l := s.Line
	return manifest.Request{
		Features: l.Features, AllFeatures: l.AllFeatures, NoDefault: l.NoDefault,
		Packages: l.Packages, Excludes: l.Excludes, Workspace: l.Workspace,
		GPUFeatures: s.Config.GPUFeatures.Value,
	}
}

// GPUWork reports whether the command line has GPU work, by manifests and build scripts alone, and why; yes may be wrong, no never is.
func (s *Session) GPUWork() (bool, string) {
	if named := s.Config.GPUPackages; len(named.Value) > 0 {
		return true, named.Origin + " names GPU packages"
	}
	if name := s.MacroWithNvcc(); name != "" {
		return true, "the procedural macro " + name + " runs nvcc"
	}
	return features.NewSources(s.Machine.Host, s.Project).GPUWork(s.Request(), s.remembered)
}

// WarnUnmatched warns of names in the configuration that no package here has: the build would silently pass them over.
func (s *Session) WarnUnmatched() {
	p, c := s.Project, s.Config
	for _, why := range c.Unread {
		s.Machine.Shell.Warning("%s; select one package with -p, or use gpubuild.toml", why)
	}
	own := slices.Concat(p.Members, p.Locals)
	for _, f := range c.GPUFeatures.Value {
		if !slices.ContainsFunc(own, func(m *manifest.Package) bool { return m.Declares(f) }) {
			s.Machine.Shell.Warning("%s: gpu-features: no package here has a feature `%.200s`", c.GPUFeatures.Origin, f)
		}
	}
	for _, name := range c.GPUPackages.Value {
		locked := slices.ContainsFunc(p.Lock, func(l manifest.LockPackage) bool { return l.Name == name })
		if !locked && p.HasLock && !slices.ContainsFunc(own, func(m *manifest.Package) bool { return m.Name == name }) {
			s.Machine.Shell.Warning("%s: gpu-packages: Cargo.lock has no package `%.200s`", c.GPUPackages.Origin, name)
		}
	}
}

// MacroWithNvcc is a procedural macro of the user's own whose text names nvcc: rustc then starts it. Empty: none.
func (s *Session) MacroWithNvcc() string {
	for _, p := range slices.Concat(s.Project.Members, s.Project.Locals) {
		text, err := s.Machine.Host.ReadFile(p.Manifest, buildenv.Manifest)
		if err == nil && strings.Contains(string(text), "proc-macro") &&
			source.NamesNvcc(source.NewReader(s.Machine.Host, "").Modules(s.Machine.Host.Join(p.Dir, "src", "lib.rs"))) {
			return p.Name
		}
	}
	return ""
}

// remembered reads the build scripts of Cargo.lock's packages only once, until another package is locked or unpacked.
func (s *Session) remembered(locked func() []string) []string {
	const kind = "scripts-3"
	store, key := s.Machine.Memo(), memo.Key(s.Project.LockPath, manifest.CargoHome(s.Machine.Host))
	if data, known := store.Get(kind, key); known {
		return strings.FieldsFunc(string(data), func(c rune) bool { return c == '\n' })
	}
	state := store.Watch(append([]string{s.Project.LockPath}, s.Project.UnpackedIn()...)...)
	list := locked()
	if err := store.Put(kind, key, state, []byte(strings.Join(list, "\n"))); err != nil {
		s.Machine.Shell.Detail("the build scripts of Cargo.lock's packages are read again next time: %v", err)
	}
	return list
}
