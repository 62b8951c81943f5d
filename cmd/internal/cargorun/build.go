// Package cargorun runs cargo once, to build or as the user typed it, and answers what cargo said
// of it: its JSON messages, the programs that it made, and what its stderr shows of a failure. It
// does not decide what is built, nor whether what was built is right, and it never cleans anything.
package cargorun

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// Program is an executable that the build made or found fresh.
type Program struct {
	Path    string
	Package string
	Name    string
	Kind    string // bin, example, test, bench
	Source  string // its first source file
	Unit    bool   // a library's or program's own tests
	Target  string // the kind of what is tested: lib, bin, example, test, bench
}

// Built is what one run of cargo came to.
type Built struct {
	Programs      []Program
	Messages      []cargo.Message // of artifacts, build scripts and the end of the build
	CompileErrors []cargo.Diagnostic
	Match         explain.Match // what cargo's output shows of a failure; empty where the build succeeded or was interrupted
	Unread        bool          // the build failed, and cargo wrote to a terminal that cannot be read
	Interrupted   bool          // cargo was stopped from outside
	Installed     []string      // files that `cargo install` wrote, as far as it said so
	Waited        bool          // another cargo was at work in the build directory when this one began
}

// Output is where the stdout of a cargo that builds goes.
type Output struct {
	Messages func([]byte) // takes each of cargo's messages; nil unless the user asked for them
	Other    io.Writer    // lines that are no message
}

// Build runs cargo with the user's own words and reads its messages; what it prints is what it would have printed without gpubuild. Built
// is complete after a failure, too.
func Build(ctx context.Context, s *session.Session, tool cargo.Tool, out Output) (Built, error) {
	m, line := s.Machine, s.Line
	var built Built
	watch := newWatch(m)
	if watch.width > 0 {
		line = line.OnTerminal(m.Host, tool, watch.width, m.Shell.Colour)
	}
	c := cargo.Build(tool, line, DefaultRun(s))
	messages := &buildenv.Lines{Each: func(line []byte) {
		m, is := cargo.ParseMessage(line)
		if !is {
			_, _ = out.Other.Write(line)
			return
		}
		if out.Messages != nil {
			out.Messages(m.Raw)
			watch.message(m.Raw)
		}
		m.Raw = nil
		if m.Reason == cargo.Artifact || m.Reason == cargo.ScriptExecuted {
			built.Messages = append(built.Messages, m)
		}
	}}
	c.Stdin, c.Stdout, c.Stderr = m.Stdin, messages, watch.stderr
	ran, err := m.Runner.Run(ctx, c)
	messages.End()
	built.Interrupted = ctx.Err() != nil || ran.Signal != ""
	built.CompileErrors, built.Waited, built.Installed = watch.errors.Found, watch.waited, watch.installed
	if err != nil && ctx.Err() == nil {
		if rules, unusable := explain.Default(); unusable != nil {
			m.Shell.Detail("failures will not be explained: %v", unusable)
		} else {
			built.Match, built.Unread = watch.listener.Match(rules), !watch.sees
		}
	}
	built.Programs = programs(m.Host, line, built.Messages)
	return built, err
}

func programs(h buildenv.Host, line cargo.Line, messages []cargo.Message) []Program {
	var out []Program
	for _, m := range messages {
		program := m.Reason == cargo.Artifact && m.Executable != "" && !slices.Contains(m.Target.Kind, "custom-build")
		// The words after `rustc --` may ask for something else in its place.
		if !program || line.Verb == "rustc" && !(line.Links() && h.IsFile(m.Executable)) {
			continue
		}
		kind := strings.Join(m.Target.Kind, "+")
		if m.Profile.Test {
			kind = "test"
		}
		out = append(out, Program{
			Path: m.Executable, Package: manifest.ParsePkgID(m.PackageID).Name, Name: m.Target.Name, Kind: kind, Source: m.Target.SrcPath,
			Target: TargetKind(m.Target.Kind),
			Unit:   m.Profile.Test && !slices.Contains(m.Target.Kind, "test") && !slices.Contains(m.Target.Kind, "bench"),
		})
	}
	return out
}

// TargetKind is the one word for what cargo lists: a library of any kind is lib.
func TargetKind(kinds []string) string {
	for _, k := range []string{"bin", "test", "bench", "example"} {
		if slices.Contains(kinds, k) {
			return k
		}
	}
	return "lib"
}

// DefaultRun is the program that `cargo run` means when its package has several.
func DefaultRun(s *session.Session) string {
	if s.Line.Purpose() != cargo.Runs || s.Project.Selected == nil || len(s.Line.Packages) > 0 {
		return ""
	}
	return s.Project.Selected.DefaultRun
}

// RefusedRun says that cargo will refuse `run`, for there are several programs or none. It says so itself, before anything is built.
func RefusedRun(s *session.Session, roots []features.Root) bool {
	line := s.Line
	if line.Purpose() != cargo.Runs || line.Has("--bin", "--example") || DefaultRun(s) != "" {
		return false
	}
	names, none := map[string]bool{}, len(roots) > 0
	for _, r := range roots {
		if none = none && r.Kind != "" && r.Kind != "bin"; r.Kind == "bin" { // empty: the target is not known
			names[r.Package+" "+r.Target] = true
		}
	}
	return none || len(names) > 1 && !slices.ContainsFunc(s.Project.Members, func(p *manifest.Package) bool { return p.DefaultRun != "" })
}

// PrintExecutables writes what cargo writes under --no-run, and leaves out when it writes JSON messages, as it does for us.
func PrintExecutables(m *session.Machine, line cargo.Line, programs []Program) {
	if !line.Has("--no-run") || line.WantsJSON() {
		return
	}
	for _, p := range programs {
		if p.Kind != "test" && p.Kind != "bench" {
			continue
		}
		source := m.Shown(p.Source)
		if p.Unit {
			source = "unittests " + source
		}
		m.Shell.Status("Executable", "%s (%s)", source, m.Shown(p.Path))
	}
}

// Target is one of cargo's targets of a workspace.
type Target struct{ Package, Kind, Name string }

// Targets asks cargo for the targets of every member, build scripts left out.
func Targets(ctx context.Context, m *session.Machine, tool cargo.Tool, line cargo.Line) ([]Target, error) {
	res, err := m.Runner.Run(ctx, cargo.MetadataNoDeps(m.Host, tool, line))
	if err != nil {
		return nil, err
	}
	var meta struct {
		Packages []struct {
			Name    string `json:"name"`
			Targets []struct {
				Name string   `json:"name"`
				Kind []string `json:"kind"`
			} `json:"targets"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(res.Stdout, &meta); err != nil {
		return nil, err
	}
	var out []Target
	for _, p := range meta.Packages {
		for _, t := range p.Targets {
			if !slices.Contains(t.Kind, "custom-build") {
				out = append(out, Target{p.Name, TargetKind(t.Kind), t.Name})
			}
		}
	}
	return out, nil
}
