package cli

import (
	"context"
	"strings"

	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/toolkits"
	"gpubuild/toolchain/cargo"
)

func toolchainVerb() verb {
	var o toolkits.Options
	json := jsonFlag(&o.JSON)
	type runner func(context.Context, *session.Machine, toolkits.Options, []string) error
	bound := func(run runner) func(context.Context, *invocation, cargo.Line) error {
		return func(ctx context.Context, a *invocation, l cargo.Line) error {
			return run(ctx, a.Machine, o, l.Positional)
		}
	}
	return verb{
		Verb: help.Verb{Name: "toolchain", Usage: "list, install, use or remove CUDA toolkits"},
		verbs: []verb{
			{
				Verb: help.Verb{
					Name: "list", Usage: "list the toolkits of this machine",
					Examples: []string{"gpubuild toolchain list", "gpubuild toolchain list --available"},
					Text: "Starts each nvcc once, and no cargo. `default` marks the toolkit of GPUBUILD_CUDA, else of `toolchain use`, " +
						"else the newest that works. A project can name or need another one: `gpubuild doctor` says which.",
				},
				flags: []*flag{
					toggle("available",
						"list what `toolchain install` can download, by the pinned wheels and by NVIDIA's server", &o.Offer), json,
				},
				run: bound(toolkits.List),
			},
			{
				Verb: help.Verb{
					Name: "install", Args: "[VERSION]", Usage: "download a toolkit into your cache, without admin rights",
					Examples: []string{"gpubuild toolchain install 13.4", "gpubuild toolchain install 13.4 --parts cudnn,run"},
					Text: "There is one toolkit of each version: this adds the parts that it lacks.\n\n" +
						"Downloads NVIDIA's wheels with your own pip. What is not pinned (CUDA 12, whose wheels contain no nvcc) comes " +
						"from NVIDIA's redistributable archives, and so does CUDA 13 if there is no pip. Writes nothing outside the cache.",
				},
				flags: []*flag{
					newFlag("parts", cargo.Value, "LIST", "parts besides the compiler, such as cudnn,run", func(v string) error {
						o.Parts = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
						return nil
					}),
					text("redist", "URL|DIR", "take NVIDIA's redistributable archives from here instead of NVIDIA's server and pip",
						&o.Redist),
					json,
				},
				run: bound(toolkits.Install),
			},
			{
				Verb: help.Verb{
					Name: "use", Args: "[VERSION|DIR|default]", Usage: "choose the toolkit of all your builds, or show the choice",
					Examples: []string{"gpubuild toolchain use 13.4", "gpubuild toolchain use default"},
					Text: "The choice is kept in your own configuration file. --gpu-toolkit, GPUBUILD_CUDA and the project's " +
						"gpubuild.toml take precedence. `use default` removes it.",
				},
				flags: []*flag{json},
				run:   bound(toolkits.Use),
			},
			{
				Verb: help.Verb{
					Name: "remove", Args: "NAME...", Usage: "remove installed toolkits",
					Examples: []string{"gpubuild toolchain remove 13.4"},
				},
				flags: []*flag{json},
				run:   bound(toolkits.Remove),
			},
		},
	}
}
