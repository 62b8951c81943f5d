package app

import (
	"context"
	"io"
	"strings"

	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// program is an executable that the build made or found fresh.
type program struct {
	Path    string
	Package string
	Name    string
	Kind    string // bin, example, test, bench
}

// build runs cargo with the user's own words and reads its messages; what it prints is what it would have printed without us.
func (j *journey) build(ctx context.Context) error {
	c := cargo.Build(j.tool, j.line, "")
	pass := io.Discard
	if j.line.WantsJSON() {
		pass = j.shell.Out
	}
	messages := &cargo.LineWriter{
		Each: func(m cargo.Message) {
			if j.line.WantsJSON() {
				_, _ = pass.Write(append(m.Raw[:len(m.Raw):len(m.Raw)], '\n'))
			}
			m.Raw = nil
			switch m.Reason {
			case cargo.Artifact, cargo.ScriptExecuted, cargo.Finished:
				j.messages = append(j.messages, m)
			}
		},
		Other: func(line []byte) { _, _ = j.shell.Out.Write(line) },
	}
	c.Stdin, c.Stdout, c.Stderr = j.stdin, messages, j.shell.Err
	_, err := j.run.Run(ctx, c)
	_ = messages.Close()
	for _, m := range j.messages {
		if m.Reason == cargo.Artifact && m.Executable != "" && !contains(m.Target.Kind, "custom-build") {
			id := features.ParsePkgID(m.PackageID)
			kind := strings.Join(m.Target.Kind, "+")
			if m.Profile.Test {
				kind = "test"
			}
			j.programs = append(j.programs, program{Path: m.Executable, Package: id.Name, Name: m.Target.Name, Kind: kind})
		}
	}
	return err
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
