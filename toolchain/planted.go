package toolchain

import (
	"fmt"

	"gpubuild/buildenv"
)

// planted are the programs that would be started from the directory in which a build script runs instead of the chosen ones: nvcc.exe asks
// for ./cl.exe before it looks at PATH (seen with 13.4.92 under Wine: a cl.exe beside the kernel ran, whatever PATH said; -ccbin alone would keep
// it off, but then nvcc starts vcvars64.bat), and cmd.exe takes every program of the current directory first. A variable that keeps cmd.exe
// from that (NoDefaultCurrentDirectoryInExePath) would keep users' own batch files from being found, too, so nothing is set: it is refused.
var planted = [...]string{"cl", "nvcc"}

// Planted says that a directory in which the build will run programs holds a compiler of its own, which Windows would run in place of the chosen
// one. Elsewhere, and for a directory that is the compiler's own, it answers nil.
func Planted(h buildenv.Host, s Set, dirs []string) error {
	if h.OS != buildenv.Windows || s.Toolkit == nil {
		return nil
	}
	chosen := map[string]string{"nvcc": s.Toolkit.NVCC}
	if s.Compiler != nil {
		chosen["cl"] = s.Compiler.CXX
	}
	for _, dir := range dirs {
		for _, name := range planted {
			path := h.ProgramIn(dir, name)
			if path == "" || chosen[name] == "" || h.SamePath(h.Real(path), h.Real(chosen[name])) {
				continue
			}
			return &MisfitError{
				What: fmt.Sprintf("%s lies where the build runs, and Windows would run it instead of %s: it looks into the current directory before PATH", path, chosen[name]),
				Fix:  "move or remove " + path,
			}
		}
	}
	return nil
}
