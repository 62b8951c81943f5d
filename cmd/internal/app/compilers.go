package app

import (
	"context"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/toolchain"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// findCompilers lists the host compilers: Visual Studio's on Windows, where nvcc takes no other, else gcc and clang.
func (a *app) findCompilers(ctx context.Context, f *toolchain.Facts, asked ...string) {
	if a.host.OS != buildenv.Windows {
		f.Compilers = hostcc.Find(ctx, a.host, a.asking(), asked...)
		return
	}
	found := msvc.FindAsking(ctx, a.host, a.host.Arch, a.run)
	for _, p := range found.Problems {
		a.shell.Detail("%s", p)
	}
	f.MSVC = &found
	f.Compilers = toolchain.Compilers(a.host, found)
}

// asking runs compilers, and remembers what they said of themselves while nothing that it depends on changes.
func (a *app) asking() runner {
	if _, ok := a.run.(heard); ok {
		return a.run // what is saved of a machine is what its programs say
	}
	return asker{cache.Sayings{Dir: a.host.Join(a.cacheDir, "said"), Run: a.run, Now: time.Now, Told: func(err error) { a.shell.Detail("%v", err) },
		Inputs: func(c buildenv.Cmd) (files, variables []string, ok bool) { return hostcc.Inputs(a.host, c) }}}
}

type asker struct{ sayings cache.Sayings }

func (r asker) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	return r.sayings.Ask(ctx, c)
}
