package pipeline

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/report"
)

// cleanStale compares what lies in the target directory, and cleans what is stale.
func cleanStale(ctx context.Context, target fresh.Build) (*fresh.State, error) {
	s, err := fresh.Inspect(ctx, target)
	if err != nil {
		return s, err
	}
	offerEnvBlock(target.Machine, target.Graph.Places.BuildDirectory, s.Foreign())
	return s.Clean(ctx)
}

// buildAndSettle runs cargo, checks what it made, and builds once more what turns out not to be what was requested.
func (r *Result) buildAndSettle(ctx context.Context, b builder, stage func(id string, do func() error) error) error {
	err := stage(report.CheckBuild, func() (err error) {
		r.Built, err = b.build(ctx)
		return err
	})
	if err != nil {
		r.Stale, r.Built, err = r.Stale.Settle(ctx, r.Built, err, b.build)
	} else {
		err = stage(report.CheckCode, func() (err error) {
			r.Stale, r.Built, err = r.Stale.Settle(ctx, r.Built, nil, b.build)
			return err
		})
	}
	r.Cause = b.cause(ctx, r.Built)
	return err
}

// unused warns where the user asked for a toolkit or an architecture that no package of the build used.
func unused(c Command, r Result) []finding.Finding {
	if len(r.Built.Messages) == 0 {
		return nil
	}
	toolkit, arch := r.Stale.Uses()
	var asked []string
	o, env := c.Options.Tools, c.Machine.Host.Env
	for _, a := range []struct {
		flag, value string
		used        bool
	}{
		{"--gpu-toolkit", o.Toolkit, toolkit}, {"GPUBUILD_CUDA", env.Get("GPUBUILD_CUDA"), toolkit},
		{"--gpu-arch", o.Arch, arch}, {"GPUBUILD_ARCH", env.Get("GPUBUILD_ARCH"), arch},
	} {
		if a.value != "" && !a.used {
			asked = append(asked, fmt.Sprintf("%s=%s", a.flag, a.value))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	f := finding.Finding{
		ID: "stale.unused", Severity: finding.Warning, Message: "no package of this build used " + strings.Join(asked, " or "),
		Fix: "if a package compiles kernels all the same, name it in gpubuild.toml: gpu-packages = [\"NAME\"]",
	}
	c.Machine.Shell.Finding(f)
	return []finding.Finding{f}
}
