package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/driver"
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
	NVML      string            `json:"nvml"` // by what means GPUs are listed
	Probe     string            `json:"probe_sources"`
	Schemas   map[string]string `json:"schemas"` // of what is written and read, beside the envelope gpubuild/<verb>/1 of every verb
	Libraries map[string]string `json:"libraries"`
}

func versionOf(a *invocation) versionAnswer {
	info, _ := debug.ReadBuildInfo()
	v := versionAnswer{
		Version: version.Number(), Commit: version.Commit(), Modified: version.Setting(info, "vcs.modified") == "true",
		OS: a.Host.OS, Arch: a.Host.Arch,
		CGO: version.Setting(info, "CGO_ENABLED") == "1", NVML: driver.Means(), Probe: probe.SourceHash(),
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
	var o Options
	return verb{
		name: "version", usage: "print the version of gpubuild and of what it is made of",
		text:  "gpubuild version --json",
		flags: answerFlag(&o),
		run:   func(_ context.Context, a *invocation, _ cargo.Line) error { return showVersion(a, o) },
	}
}

func showVersion(a *invocation, o Options) error {
	v := versionOf(a)
	if o.JSON != nil {
		return a.answer(o, "version", true, nil, v)
	}
	commit := ""
	if v.Commit != "" && !strings.Contains(v.Version, v.Commit[:min(12, len(v.Commit))]) {
		commit = " " + v.Commit[:min(12, len(v.Commit))]
	}
	_, err := fmt.Fprintf(a.Shell.Out, "gpubuild %s%s (%s, %s/%s, GPU inventory by %s)\n", v.Version, commit, v.Go, v.OS, v.Arch, v.NVML)
	return err
}
