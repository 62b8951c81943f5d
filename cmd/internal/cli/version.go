package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/cargo"
)

// versionAnswer is all that a bug report needs of this gpubuild. What is not known is empty.
type versionAnswer struct {
	Version   string            `json:"version"`
	Commit    string            `json:"commit"`
	Modified  bool              `json:"modified"` // the checkout had changes that are in no commit
	Go        string            `json:"go"`
	OS        string            `json:"os"`
	Arch      string            `json:"arch"`
	CGO       bool              `json:"cgo"`
	Probe     string            `json:"probe_sources"`
	Schemas   map[string]string `json:"schemas"` // of the files, without the envelopes gpubuild/<verb>/1
	Libraries map[string]string `json:"libraries"`
}

func versionOf(a *invocation) versionAnswer {
	info, _ := debug.ReadBuildInfo()
	v := versionAnswer{
		Version: version.Number(), Commit: version.Commit(), Modified: version.Setting(info, "vcs.modified") == "true",
		OS: a.Host.OS, Arch: a.Host.Arch,
		CGO: version.Setting(info, "CGO_ENABLED") == "1", Probe: probe.SourceHash(),
		Schemas:   map[string]string{"receipt": receipt.Schema, "stale-record": fmt.Sprint(stale.Schema)},
		Libraries: map[string]string{},
	}
	if info != nil {
		v.Go = info.GoVersion
		for _, d := range info.Deps {
			v.Libraries[d.Path] = d.Version
		}
	}
	return v
}

func versionVerb() verb {
	var json *string
	return verb{
		Verb: help.Verb{
			Name: "version", Usage: "print the version of gpubuild and of its parts", Examples: []string{"gpubuild version --json"},
		},
		flags: []*flag{jsonFlag(&json)},
		run:   func(_ context.Context, a *invocation, _ cargo.Line) error { return showVersion(a, json) },
	}
}

func showVersion(a *invocation, json *string) error {
	v := versionOf(a)
	if json != nil {
		return a.answer(json, "version", true, nil, v)
	}
	commit := ""
	if v.Commit != "" && !strings.Contains(v.Version, v.Commit[:min(12, len(v.Commit))]) {
		commit = " " + v.Commit[:min(12, len(v.Commit))]
	}
	return a.Shell.Print(fmt.Sprintf("gpubuild %s%s (%s, %s/%s)\n", v.Version, commit, v.Go, v.OS, v.Arch))
}
