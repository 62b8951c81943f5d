package cli

import (
	"context"

	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/toolkits"
	"gpubuild/toolchain/cargo"
)

func cacheVerb() verb {
	var json *string
	var kernels bool
	return verb{
		Verb: help.Verb{Name: "cache", Usage: "show or empty gpubuild's cache", Text: "GPUBUILD_CACHE moves the cache."},
		verbs: []verb{
			{
				Verb: help.Verb{Name: "show", Usage: "show what the kernel cache has saved (the default)",
					Examples: []string{"gpubuild cache"}},
				answer: "cache",
				flags:  []*flag{jsonFlag(&json)},
				run:    func(_ context.Context, a *invocation, _ cargo.Line) error { return toolkits.ShowUse(a.Machine, json) },
			},
			{
				Verb: help.Verb{Name: "dir", Usage: "print the directory of the cache", Examples: []string{"gpubuild cache dir"}},
				run:  func(_ context.Context, a *invocation, _ cargo.Line) error { return a.Shell.Data(a.CacheDir + "\n") },
			},
			{
				Verb: help.Verb{Name: "clean", Usage: "empty the cache, except for CUDA toolkits",
					Examples: []string{"gpubuild cache clean", "gpubuild cache clean --kernels"}},
				flags: []*flag{
					toggle("kernels", "remove compiled kernels, and nothing else", &kernels),
				},
				instead: "`gpubuild toolchain remove NAME` removes a toolkit, and `gpubuild toolchain list` has the names",
				run: func(_ context.Context, a *invocation, _ cargo.Line) error {
					return toolkits.CleanCache(a.Machine, kernels)
				},
			},
		},
	}
}
