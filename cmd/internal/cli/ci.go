package cli

import (
	"context"
	"strings"

	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/elsewhere"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// ciOptions are the flags of `ci init`.
type ciOptions struct {
	ci.Options
	SHA256 string
	Stdout bool
	Force  bool
}

func ciVerb() verb {
	var o ciOptions
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
				toggle("attest", "make GitHub attestations of the receipts of --prove (public repositories; never for a pull request)", &o.Attest),
				newFlag("arch", cargo.Value, "ARCH", "the architecture to build for where there is no GPU (sm_80)", func(v string) error {
					arch, err := gpu.ParseArch(v)
					o.Arch = arch.String()
					return err
				}),
				toggle("stdout", "print the file instead of writing it", &o.Stdout),
				toggle("force", "replace an existing file", &o.Force),
			},
			run: bind(&o, runCIInit),
		}},
	}
}

// runCIInit writes a workflow.
func runCIInit(ctx context.Context, a *invocation, o ciOptions, l cargo.Line) error {
	if len(l.Features) > 0 || l.AllFeatures || l.NoDefault || l.HasTargets() || l.Has("--release", "--profile", "--target") {
		return usage("`gpubuild ci init` takes no features, targets or profiles",
			"it writes a build for each feature that leads to a GPU crate; edit the file")
	}
	s, err := session.Open(a.Machine, l)
	if err == nil {
		s, err = s.WithMetadata(ctx, true)
	}
	if err != nil {
		return err
	}
	if o.Place != "" {
		user, err := tools.User(a.Host)
		if err == nil {
			_, err = elsewhere.Parse(a.Host, o.Place, s.Config.On.Value, user.On)
		}
		if err != nil {
			return err
		}
	}
	if o.Install, err = ci.Install(ctx, s, o.Install, o.SHA256); err != nil {
		return err
	}
	made, err := ci.Make(s, l.Positional[0], o.Options)
	if err != nil {
		return err
	}
	if len(o.Runner) == 0 && o.Place == "" {
		a.Shell.Note("nothing in this workflow runs on a GPU; add --gpu-runner LABEL,... or --on PLACE")
	}
	if o.Stdout {
		return a.Shell.Data(string(made.Text))
	}
	return made.Write(a.Machine, o.Force)
}
