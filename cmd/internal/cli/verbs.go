package cli

import (
	"context"

	"github.com/urfave/cli/v2"
)

// verbs are our own; every other word is cargo's.
func verbs() []verb {
	return []verb{
		featuresVerb(), doctorVerb(), envVerb(), staleVerb(), cleanVerb(), scanVerb(),
		proveVerb(), receiptVerb(), reportVerb(), auditVerb(), execVerb(), toolchainVerb(),
		ciVerb(), explainVerb(), completionVerb(), initVerb(), cacheVerb(), versionVerb(),
	}
}

func find(name string) (verb, bool) {
	for _, v := range verbs() {
		if v.name == name {
			return v, true
		}
	}
	return verb{}, false
}

// VerbNames lists our own verbs, for tests.
func VerbNames() []string {
	var out []string
	for _, v := range verbs() {
		out = append(out, v.name)
	}
	return out
}

// commandLine prints help, of everything or of a verb.
func commandLine(ctx context.Context, a *invocation, words ...string) error {
	c := application(ctx, a)
	for _, f := range cargoFlags() {
		c.Flags = append(c.Flags, f)
	}
	for _, v := range verbs() {
		c.Commands = append(c.Commands, &cli.Command{
			Name:            v.name,
			Usage:           v.usage,
			UsageText:       v.text,
			Flags:           v.urfave(),
			HideHelpCommand: true,
		})
	}
	return c.RunContext(ctx, append([]string{"gpubuild"}, words...))
}
