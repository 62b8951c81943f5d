package tools

import (
	"context"
	"io"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// compilers lists the host compilers: Visual Studio's on Windows, where nvcc takes no other, else gcc and clang, what was asked for first.
// Without a runner it starts none.
func compilers(ctx context.Context, m *session.Machine, h buildenv.Host, run session.Runner, asked string,
) ([]hostcc.Compiler, *msvc.Found) {
	if h.OS != buildenv.Windows {
		return hostcc.Find(ctx, h, run, asked), nil
	}
	found := msvc.Find(h, h.Arch)
	for _, p := range found.Problems {
		m.Shell.Detail("%s", p)
	}
	return toolchain.Compilers(h, found), &found
}

// machineCode reports whether a file is a program of machine code, ELF or PE.
func machineCode(h buildenv.Host, path string) bool {
	f, err := h.Files.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var mark [4]byte
	if _, err := io.ReadFull(f, mark[:]); err != nil {
		return false
	}
	return string(mark[:]) == "\x7fELF" || string(mark[:2]) == "MZ"
}
