package pipeline

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/report"
)

// verified is what was built, and what is known of how.
type verified struct {
	built cargorun.Built
	state *fresh.State
}

// buildAndVerify runs cargo, checks what it made, and builds once more what turns out not to be what was requested.
func buildAndVerify(ctx context.Context, b builder, state *fresh.State, trace *finding.Trace) (verified, error) {
	built, failed := stage(trace, report.CheckBuild, func() (cargorun.Built, error) { return b.build(ctx) })
	verify := func() (verified, error) {
		next, last, err := state.RecordAndVerify(ctx, built, failed, b.build)
		return verified{last, next}, err
	}
	if failed != nil {
		return verify()
	}
	return stage(trace, report.CheckCode, verify)
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
	f := finding.Of(finding.Finding{ID: "stale.unused", Message: "no package of this build used " + strings.Join(asked, " or "),
		Fix: "if a package compiles kernels all the same, name it in gpubuild.toml: gpu-packages = [\"NAME\"]"})
	c.Machine.Shell.Finding(f)
	return []finding.Finding{f}
}
