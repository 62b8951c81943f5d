package session

import (
	"context"
	"errors"
	"os"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/config"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// manifestLimit bounds a configuration file, in bytes.
const manifestLimit = 16 << 20

// Session is the project that a command line is about.
type Session struct {
	Machine *Machine
	Line    cargo.Line
	Project *manifest.Project
	Config  config.Config
}

// Open reads the manifests and the configuration. Where only the configuration is wrong, a *config.Error, the session is returned beside
// the error, without a configuration: `gpubuild init` replaces the file.
func Open(m *Machine, line cargo.Line) (*Session, error) {
	path, err := findManifest(m, line)
	if err != nil {
		return nil, err
	}
	project, err := manifest.Load(m.Host, path)
	if err != nil {
		return nil, err
	}
	read, err := readConfig(m, project)
	return &Session{m, line, project, read}, err
}

// OpenOrRefuse is Open for verbs that can ask cargo: what is wrong with a manifest, cargo says best, as a *cargo.RefusedError. Our own
// error remains where cargo finds nothing wrong, or is not here.
func OpenOrRefuse(ctx context.Context, m *Machine, line cargo.Line) (*Session, error) {
	s, err := Open(m, line)
	var bad *manifest.Error
	if !errors.As(err, &bad) {
		return s, err
	}
	tool, missing := cargo.Find(m.Host, line)
	if missing != nil {
		return nil, err
	}
	private := cargo.Private{Root: m.Host.Join(m.CacheDir, "cargo", cache.Name(m.Host.Cwd))}
	asking := cargo.Asking{Private: private, Colour: m.Shell.Colour, NoLockWrite: true}
	_, answer := cargo.Graph(ctx, m.Host, m.Runner, tool, cargo.Request{Line: line, Asking: asking, Mkdir: cache.Make})
	var refused *cargo.RefusedError
	if errors.As(answer, &refused) {
		return nil, refused
	}
	return nil, err
}

// findManifest is the manifest that the command line is about.
func findManifest(m *Machine, line cargo.Line) (string, error) {
	dir := m.Host.Cwd
	if line.Dir != "" {
		dir = m.Host.Abs(line.Dir)
	}
	file := line.ManifestPath
	if file == "" {
		return manifest.Find(m.Host, dir)
	}
	if !m.Host.IsAbs(file) {
		file = m.Host.Join(dir, file)
	}
	return file, nil
}

// readConfig merges gpubuild.toml with the metadata tables; the nearer to the whole workspace, the stronger.
func readConfig(m *Machine, project *manifest.Project) (config.Config, error) {
	places := []struct{ path, table string }{
		{m.Host.Join(project.Root, "gpubuild.toml"), ""},
		{project.RootManifest, "workspace.metadata.gpubuild"},
		{project.Manifest, "package.metadata.gpubuild"},
	}
	var sources []config.Source
	for _, p := range places {
		data, err := m.Host.ReadFile(p.path, manifestLimit)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return config.Config{}, &config.Error{Path: p.path, Problem: err.Error(), Fix: "make the file readable or remove it"}
		default:
			sources = append(sources, config.Source{Path: m.Shown(p.path), Table: p.table, Data: data})
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

// Quiet is the session on a machine of which only warnings and errors are printed.
func (s *Session) Quiet() *Session {
	other, machine, shell := *s, *s.Machine, *s.Machine.Shell
	shell.Quiet = true
	machine.Shell, other.Machine = &shell, &machine
	return &other
}

// Request is what the command line asks of the features.
func (s *Session) Request() manifest.Request {
	l := s.Line
	return manifest.Request{
		Features: l.Features, AllFeatures: l.AllFeatures, NoDefault: l.NoDefault,
		Packages: l.Packages, Excludes: l.Excludes, Workspace: l.Workspace,
		GPUFeatures: s.Config.GPUFeatures.Value, Targets: l.Target,
		Dev: l.Verb == "test" || l.Verb == "bench" || l.Tests || l.Benches || l.AllTargets || l.Examples ||
			len(l.Test)+len(l.Bench)+len(l.Example) > 0,
	}
}

// GPUWork says whether the command line has GPU work, by the manifests alone, and why; yes may be wrong, no never is.
func (s *Session) GPUWork() (bool, string) { return s.Project.GPUWork(s.Request()) }
