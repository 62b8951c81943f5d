package app

import (
	"context"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// findCompilers lists the host compilers: Visual Studio's on Windows, where nvcc takes no other, else gcc and clang.
func (a *app) findCompilers(ctx context.Context, f *toolchain.Facts, asked ...string) {
	if a.Host.OS != buildenv.Windows {
		f.Compilers = hostcc.Find(ctx, a.Host, a.asking(), asked...)
		return
	}
	found := msvc.FindAsking(ctx, a.Host, a.Host.Arch, a.Runner)
	for _, p := range found.Problems {
		a.Shell.Detail("%s", p)
	}
	f.MSVC = &found
	f.Compilers = toolchain.Compilers(a.Host, found)
}

// asking runs compilers, and remembers what they said of themselves while nothing that it depends on changes.
func (a *app) asking() session.Runner {
	if _, ok := a.Runner.(heard); ok {
		return a.Runner // what is saved of a machine is what its programs say
	}
	return asker{cache.Sayings{Dir: a.Host.Join(a.CacheDir, "said"), Run: a.Runner, Now: time.Now, Told: func(err error) { a.Shell.Detail("%v", err) },
		Inputs: func(c buildenv.Cmd) (files, variables []string, ok bool) { return hostcc.Inputs(a.Host, c) }}}
}

type asker struct{ sayings cache.Sayings }

func (r asker) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	return r.sayings.Ask(ctx, c)
}
