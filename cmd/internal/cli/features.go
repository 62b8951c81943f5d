package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/cmd/internal/app"
	"gpubuild/features/graph"
	"gpubuild/toolchain/cargo"
)

func featuresVerb() verb {
	var o app.Options
	return verb{
		name: "features", usage: "say whether cuda and cudnn reach the GPU crates of each binary, and why not",
		text: "gpubuild features --features cuda,cudnn -p app\ngpubuild features --features cuda --fix --dry-run\n" +
			"gpubuild features --features cuda --why candle-nn/cuda\ngpubuild features --features cuda --route\n\n" +
			"Takes cargo's selection flags as cargo writes them. Nothing is compiled. Ends 0, or 10 where a feature does not " +
			"reach.\n" +
			"--fix writes into manifests of the workspace only; Cargo.lock is left as it was. --manifest-only, the pre-commit " +
			"hook's way, runs no cargo: it\n" +
			"reads the manifests and fails where a member's GPU feature is not passed on to a direct dependency that has it. " +
			"--lint asks cargo about every member.",
		project: true,
		results: &o,
		flags: slices.Concat(
			shared(&o, "strict"),
			[]*flag{
				toggle("fix", "write the missing edges into the workspace's manifests; "+
					"each is checked by cargo and taken back if it did not help", &o.Fix),
				dryRun(&o),
				newFlag("why", cargo.Value, "CRATE[@VERSION][/FEATURE]", "say why a crate is linked, or why it has a feature or has not",
					func(v string) error { o.Why = v; return checkWhy(v) }),
				choice("graph", "dot|mermaid", "draw what leads to GPU crates", &o.Graph, graph.Dot, graph.Mermaid),
				toggle("manifest-only", "check the feature edges between members and to GPU crates from manifests alone, without cargo",
					&o.ManifestOnly),
				toggle("lint", "every member's GPU features, each as if that package were built alone", &o.Lint),
				toggle("route", "find a command line that reaches without a change to any manifest; cargo is asked about each", &o.Route),
			},
			resultFlags(&o),
		),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Features(ctx, a, o, l)
		},
	}
}

func checkWhy(v string) error {
	if v == "" || strings.HasPrefix(v, "/") || strings.HasSuffix(v, "/") {
		return fmt.Errorf("%q is neither CRATE nor CRATE/FEATURE", v)
	}
	if crate, _, _ := strings.Cut(v, "/"); strings.HasPrefix(crate, "@") || strings.HasSuffix(crate, "@") {
		return fmt.Errorf("%q: a version stands behind the crate's name, as in cudarc@0.19", v)
	}
	return nil
}

func dryRun(o *app.Options) *flag {
	return toggle("dry-run", "change nothing: print what features --fix would write, clean remove, or ci run start", &o.DryRun)
}
