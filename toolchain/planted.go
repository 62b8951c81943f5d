package toolchain

import (
	"fmt"

	"gpubuild/buildenv"
)

// planted are the programs that would be started from the directory in which a build script runs instead of the chosen ones: nvcc.exe
// asks for ./cl.exe before it looks at PATH (seen with 13.4.92 under Wine: a cl.exe in the kernel's directory ran, whatever PATH said;
// -ccbin alone would keep it off, but then nvcc starts vcvars64.bat), and it starts its own parts by their bare names through cmd.exe,
// which takes every program of the current directory first (a cudafe++.exe there ran, too). A variable that keeps cmd.exe from that
// (NoDefaultCurrentDirectoryInExePath) would keep users' own batch files from being found, too, so nothing is set: it is refused.
func planted(h buildenv.Host, s Set) (names []string, chosen map[string]string) {
	// A lib.bat of a project's own is no attack, so lib.exe is named with its ending.
	names = []string{"cl", "nvcc", "cudafe++", "cicc", "ptxas", "fatbinary", "nvlink", "bin2c", "link.exe", "lib.exe"}
	chosen = map[string]string{}
	if s.Toolkit.NVCC != "" {
		for _, name := range names[1:8] {
			chosen[name] = h.Join(h.Dir(s.Toolkit.NVCC), name+".exe")
		}
	}
	if s.Compiler != nil {
		chosen["cl"] = s.Compiler.CXX
		for _, name := range names[8:] {
			chosen[name] = h.Join(h.Dir(s.Compiler.CXX), name)
		}
	}
	return names, chosen
}

// Planted says that a directory in which the build will run programs holds a compiler of its own, which Windows would run in place of the
// chosen one. Elsewhere, and for a directory that is the compiler's own, it answers nil.
func Planted(h buildenv.Host, s Set, dirs []string) error {
	if h.OS != buildenv.Windows || s.Toolkit == nil {
		return nil
	}
	names, chosen := planted(h, s)
	for _, dir := range dirs {
		for _, name := range names {
			path := h.ProgramIn(dir, name)
			if path == "" || chosen[name] == "" || h.SamePath(h.Real(path), h.Real(chosen[name])) {
				continue
			}
			return &MisfitError{
				What: fmt.Sprintf(
					"%s lies where the build runs, and Windows would run it instead of %s: it looks into the current directory before PATH",
					path, chosen[name],
				),
				Fix: "move or remove " + path,
			}
		}
	}
	return nil
}
