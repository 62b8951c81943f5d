package app

import (
	"context"

	"gpubuild/buildenv"
	"gpubuild/toolchain"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// findCompilers lists the host compilers: Visual Studio's on Windows, where nvcc takes no other, else gcc and clang.
func (a *app) findCompilers(ctx context.Context, f *toolchain.Facts, asked ...string) {
	if a.host.OS != buildenv.Windows {
		f.Compilers = hostcc.Find(ctx, a.host, a.run, asked...)
		return
	}
	found := msvc.Find(a.host, a.host.Arch)
	for _, p := range found.Problems {
		a.shell.Detail("%s", p)
	}
	f.MSVC = &found
	f.Compilers = toolchain.Compilers(a.host, found)
}
