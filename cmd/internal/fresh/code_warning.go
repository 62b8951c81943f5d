package fresh

import (
	"fmt"
	"slices"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/features/source"
	"gpubuild/gpu"
)

// otherCode says that a build script that has just run did not use the chosen nvcc, or not for the chosen architecture: none of the device
// code that it made is of that release, or for that capability. Empty: it did, or nothing shows it.
func (s *State) otherCode(o out) string {
	t, want := s.b.Tools.Set.Toolkit, gpu.Arch{Capability: s.b.Tools.Set.Capability, Suffix: s.b.Tools.Set.Suffix}
	if t == nil || !o.pkg.Inputs.Arch || len(o.held.Code) == 0 {
		return ""
	}
	var signed, of, forArch []stale.Make
	for _, c := range o.held.Code {
		for _, m := range c.Makes {
			if v, err := gpu.ParseVersion(m.NVCC); err == nil {
				signed = append(signed, m)
				if v.Major == t.Version.Major && v.Minor == t.Version.Minor {
					of = append(of, m)
				}
			}
			if m.Arch.Capability == want.Capability || m.Arch.Capability.IsZero() {
				forArch = append(forArch, m)
			}
		}
	}
	switch found := o.held.Code[0].Makes[0]; {
	case len(signed) > 0 && len(of) == 0:
		return fmt.Sprintf("%s did not use the chosen nvcc: it holds %s; nvcc %s was chosen", o.pkg.Name, signed[0], t.Version)
	case !want.Capability.IsZero() && len(forArch) == 0:
		return fmt.Sprintf("%s holds %s; %s was chosen", o.pkg.Name, found, want)
	}
	return ""
}

// warnOfCode warns of what otherCode says, once for a package.
func (s *State) warnOfCode(o out) {
	text := s.otherCode(o)
	if text == "" || slices.ContainsFunc(s.found, func(f finding.Finding) bool { return f.Message == text }) {
		return
	}
	f := finding.Finding{ID: "stale.other-code", Severity: finding.Warning, Message: text,
		Fix: "look in " + s.b.Machine.Shown(s.b.scriptFile(o.pkg.ScriptUnit)) +
			" for a fixed path, an architecture of its own, or kernels that come compiled"}
	s.found = append(s.found, f)
	s.b.Machine.Shell.Finding(f)
}

// noteUnknown says once for a package that nobody knows which headers its kernels were made from.
func (s *State) noteUnknown(o out) {
	text := o.pkg.Name + ": no nvcc ran through gpubuild, so what its kernels were made of is unknown: every file of the package counts"
	if source.Unchanging(s.b.Machine.Host, o.pkg.Dir) || slices.Contains(s.noted, text) {
		return
	}
	s.noted = append(s.noted, text)
	s.b.Machine.Shell.Note("%s", text)
	s.b.Machine.Shell.Hint("headers are known where a build script runs `nvcc` from PATH, NVIDIA's own program, with the kernel cache on")
}
