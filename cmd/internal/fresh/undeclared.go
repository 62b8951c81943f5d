package fresh

import (
	"strings"

	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu"
)

// mostSource is the most that is read of one source file; kernels stand in text.
const mostSource = 8 << 20

// Undeclared finds a package that compiles kernels although nothing in the sources shows it: one whose script left some here
// earlier, or, where the user asked for a toolkit or an architecture with a flag or a variable, one whose script runs programs.
// It is a reason to choose a toolkit, so b has none yet.
func Undeclared(b Build, asked string) tools.Undeclared {
	s := Find(b)
	for _, u := range s.gpu {
		if !s.undeclared[u.PkgID] {
			continue
		}
		var arch gpu.Arch
		nvcc := ""
		for _, dir := range s.outDirsOf(u) {
			held, err := s.holds(dir)
			if err != nil {
				continue // that it cannot be read is told when the build is checked
			}
			for _, c := range held.Code {
				for _, m := range c.Makes {
					// machine code is for one architecture; PTX for that one and all that follow
					if m.NVCC != "" && (nvcc == "" || m.PTX == "") {
						arch, nvcc = m.Arch, m.NVCC
					}
				}
			}
		}
		if nvcc != "" {
			return tools.Undeclared{Package: u.Name, Why: "its build script left kernels here that nvcc " + nvcc + " compiled", Arch: arch}
		}
	}
	if asked == "" {
		return tools.Undeclared{}
	}
	runs := map[string]bool{}
	for _, u := range s.scripts() {
		runs[u.PkgID] = true
	}
	for _, p := range b.localScripts() {
		if b.Graph.Units != nil && !runs[p.PathID(s.host)] {
			continue
		}
		if text, err := s.host.ReadFile(p.BuildScript, mostSource); err == nil && strings.Contains(string(text), "Command") {
			return tools.Undeclared{Package: p.Name, Why: "its build script runs programs, and " + asked + " was given"}
		}
	}
	return tools.Undeclared{}
}
