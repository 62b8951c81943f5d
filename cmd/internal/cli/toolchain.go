package cli

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func toolchainVerb() verb {
	var o app.ToolchainOptions
	return verb{
		name: "toolchain", usage: "list, install, use, verify or remove CUDA toolkits",
		text: "gpubuild toolchain list\ngpubuild toolchain install 13.4\ngpubuild toolchain use 13.4\n" +
			"gpubuild toolchain verify|remove 13.4\n\n" +
			"install fetches NVIDIA's wheels with your own pip into your cache: no admin rights, nothing outside the cache. CUDA " +
			"12, whose wheels\n" +
			"hold no nvcc, comes from NVIDIA's redistributable archives, and so does CUDA 13 where there is no pip.\n" +
			"use names the toolkit for all your builds (a version, or a directory), below --gpu-toolkit, GPUBUILD_CUDA and the " +
			"project's own word;\n" +
			"`use default` forgets it, `use` alone shows it. It is kept in your own configuration file.\n" +
			"verify and remove take a version, a name or a directory that `list` shows; verify alone looks at all of them.",
		flags: append([]*flag{
			newFlag("parts", cargo.Value, "LIST", "install: parts beside the compiler, such as cudnn,run", func(v string) error {
				o.Parts = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
				return nil
			}),
			newFlag("link-stubs", cargo.Optional, "no", "install: make link stubs of the CUDA libraries that are not among the parts, "+
				"so that programs link without them (the default); no: leave them out", func(v string) error {
				if v != "" && v != "yes" && v != "no" {
					return fmt.Errorf("%q is neither yes nor no", v)
				}
				o.NoLinkStubs = v == "no"
				return nil
			}),
			text("redist", "URL|DIR", "install: take NVIDIA's redistributable archives from here instead of NVIDIA's server and pip", &o.Redist),
		}, answer(&o.Options)...),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Toolchain(ctx, a, o, l)
		},
	}
}
