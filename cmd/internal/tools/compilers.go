package tools

import (
	"context"
	"io"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// Compilers lists the host compilers: Visual Studio's on Windows, where nvcc takes no other, else gcc and clang.
func Compilers(ctx context.Context, m *session.Machine) ([]hostcc.Compiler, *msvc.Found) {
	return compilers(ctx, m, m.Host, m.Runner)
}

func compilers(ctx context.Context, m *session.Machine, h buildenv.Host, run session.Runner, asked ...string,
) ([]hostcc.Compiler, *msvc.Found) {
	if h.OS != buildenv.Windows {
		return hostcc.Find(ctx, h, run, asked...), nil
	}
	found := msvc.Find(h, h.Arch)
	for _, p := range found.Problems {
		m.Shell.Detail("%s", p)
	}
	return toolchain.Compilers(h, found), &found
}

// askedCompiler is the error of a compiler that the user named and that is not there.
func (o Options) askedCompiler(found []hostcc.Compiler) error {
	for _, c := range found {
		if c.Word == hostcc.Asked && c.Version == "" && c.Problem != "" {
			return exit.Usagef("name a compiler that is there, or leave the flag out", "%sccbin %s: %s", o.Prefix, o.CCBin, c.Problem)
		}
	}
	return nil
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
