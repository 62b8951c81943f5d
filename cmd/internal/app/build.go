package app

import (
	"context"
	"io"
	"strings"

	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// program is an executable that the build made or found fresh.
type program struct {
	Path    string
	Package string
	Name    string
	Kind    string // bin, example, test, bench
	Source  string // its first source file
	Unit    bool   // a library's or program's own tests
	Target  string // the kind of what is tested: lib, bin, example, test, bench
}

// build runs cargo with the user's own words and reads its messages; what it prints is what it would have printed without us.
func (j *journey) build(ctx context.Context) error {
	c := cargo.Build(j.Tool, j.Line, j.defaultRun())
	watch := j.watchBuild()
	if j.Line.WantsJSON() {
		j.stream().again()
	}
	messages := &cargo.LineWriter{
		Each: func(m cargo.Message) {
			if j.Line.WantsJSON() {
				j.stream().message(m)
				watch.message(m.Raw)
			}
			m.Raw = nil
			switch m.Reason {
			case cargo.Artifact, cargo.ScriptExecuted, cargo.Finished:
				j.messages = append(j.messages, m)
			}
		},
		Other: func(line []byte) { _, _ = j.otherOut().Write(line) },
	}
	c.Stdin, c.Stdout, c.Stderr, c.Together = j.Stdin, messages, watch.stderr, true
	endedByItself := j.beginBuild()
	ran, err := j.Runner.Run(ctx, c)
	if ctx.Err() == nil && ran.Signal == "" {
		endedByItself()
	}
	_ = messages.Close()
	watch.ended()
	j.compileErrors = watch.errors.Found
	if err != nil && ctx.Err() == nil {
		j.explain(ctx, watch)
	}
	for _, m := range j.messages {
		if m.Reason == cargo.Artifact && m.Executable != "" && !contains(m.Target.Kind, "custom-build") && j.made(m.Executable) {
			id := manifest.ParsePkgID(m.PackageID)
			kind := strings.Join(m.Target.Kind, "+")
			if m.Profile.Test {
				kind = "test"
			}
			j.programs = append(j.programs, program{Path: m.Executable, Package: id.Name, Name: m.Target.Name, Kind: kind, Source: m.Target.SrcPath, Target: targetKind(m.Target.Kind),
				Unit: m.Profile.Test && !contains(m.Target.Kind, "test") && !contains(m.Target.Kind, "bench")})
		}
	}
	return err
}

// made says whether a program that cargo lists was really made: the words after `rustc --` may ask for something else in its place.
func (j *journey) made(path string) bool {
	return j.Line.Verb != "rustc" || j.Line.Links() && j.Host.IsFile(path)
}

// targetKind is the one word for what cargo lists: a library of any kind is lib.
func targetKind(kinds []string) string {
	for _, k := range []string{"bin", "test", "bench", "example"} {
		if contains(kinds, k) {
			return k
		}
	}
	return "lib"
}

// stream is where cargo's messages go that the user asked for.
func (j *journey) stream() *stream {
	if j.passed == nil {
		j.passed = newStream(func(line []byte) { _ = j.ndjson().Whole(line) }) // a stdout that nobody reads is cargo's matter, too
	}
	return j.passed
}

// otherOut is where lines go that are no messages of cargo: stdout, where they may share a line's end with ours.
func (j *journey) otherOut() io.Writer {
	if l := j.ndjson(); l != nil {
		return l
	}
	return j.Shell.Out
}

// defaultRun is the program that `cargo run` means when its package has several.
func (j *journey) defaultRun() string {
	if j.Line.Verb != "run" || j.Project.Selected == nil || len(j.Line.Packages) > 0 {
		return ""
	}
	return j.Project.Selected.DefaultRun
}

// ambiguousRun says that `cargo run` will refuse to choose among several programs. It says so itself, before anything is built.
func (j *journey) ambiguousRun() bool {
	if j.Line.Verb != "run" || len(j.Line.Bin)+len(j.Line.Example) > 0 || j.defaultRun() != "" {
		return false
	}
	names := map[string]bool{}
	for _, r := range j.reach.Roots {
		if r.Kind == "bin" {
			names[r.Package+" "+r.Target] = true
		}
	}
	if len(names) < 2 {
		return false
	}
	for _, p := range j.Project.Members {
		if p.DefaultRun != "" {
			return false
		}
	}
	return true
}

// tellExecutables writes what cargo writes under --no-run, and leaves out when it writes JSON messages, as it does for us.
func (j *journey) tellExecutables() {
	if !j.Line.NoRun || j.Line.WantsJSON() {
		return
	}
	for _, p := range j.programs {
		if p.Kind != "test" && p.Kind != "bench" {
			continue
		}
		source := j.Shown(p.Source)
		if p.Unit {
			source = "unittests " + source
		}
		j.Shell.Status("Executable", "%s (%s)", source, j.Shown(p.Path))
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
