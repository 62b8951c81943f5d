package cli

import (
	"context"
	"strings"

	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/help"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

func ciVerb() verb {
	var o ci.Options
	return verb{
		Verb: help.Verb{
			Name: "ci", Usage: "write a CI workflow of plain gpubuild commands", Project: true,
			Text: "The matrix of builds is the CI service's own: edit it in the workflow.",
		},
		verbs: []verb{{
			Verb: help.Verb{
				Name: "init", Args: ci.ProviderNames, Usage: "write a workflow that builds, tests and proves this workspace",
				Project: true,
				Examples: []string{"gpubuild ci init github --install tools/gpubuild.whl --stdout",
					"gpubuild ci init gitlab --install tools/gpubuild.whl --gpu-runner gpu " +
						"--prove='--bin app --features cuda -- --device cuda'"},
				Text: "Without CUDA: check, clippy and the feature lint. For each feature that leads to a GPU crate: a build, and with " +
					"--gpu-runner or --on the tests, on the GPU. The last job joins the results, and fails if one is missing.\n" +
					"The file is yours from then on; gpubuild does not read it.",
			},
			flags: []*flag{
				text("install", "URL|FILE|COMMANDS", "what a runner gets gpubuild from: a release's archive or wheel, by its address or "+
					"its path in the repository, or shell commands ([ci] install in gpubuild.toml; a released gpubuild: its own release)", &o.Install),
				text("sha256", "HEX", "the SHA-256 of --install URL (SHA256SUMS next to it)", &o.SHA256),
				newFlag("gpu-runner", cargo.Value, "LABEL,...",
					"run tests and proofs on a runner with these labels (GitHub) or tags (GitLab)",
					func(v string) error {
						for label := range strings.SplitSeq(v, ",") {
							if label == "" {
								return usage("an empty label names no runner", "--gpu-runner self-hosted,gpu")
							}
							o.Runner = append(o.Runner, label)
						}
						return nil
					}),
				text("on", "PLACE", "run tests and proofs at this place, by --gpu-on", &o.Place),
				list("prove", "ARGS", "run a program and prove it: arguments of `gpubuild run`", &o.Programs),
				toggle("attest", "make GitHub attestations of the receipts of --prove (public repositories; never for a pull request)",
					&o.Attest),
				newFlag("arch", cargo.Value, "ARCH", "the architecture to build for where there is no GPU (sm_80)", func(v string) error {
					arch, err := gpu.ParseArch(v)
					o.Arch = arch.String()
					return err
				}),
				toggle("stdout", "print the file instead of writing it", &o.Stdout),
				toggle("force", "replace an existing file", &o.Force),
			},
			run: func(ctx context.Context, a *invocation, l cargo.Line) error { return ci.Run(ctx, a.Machine, l, o) },
		}},
	}
}
