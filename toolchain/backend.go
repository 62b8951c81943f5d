package toolchain

import (
	"fmt"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/rocm"
)

// Backends that a user may ask for where the crates reach both.
const (
	CUDA = "cuda"
	ROCm = "rocm"
)

// BackendWish returns which backend the user asked for, and by what: the flag, by the name it has there, else GPUBUILD_BACKEND.
func BackendWish(flag, name string, env buildenv.Env) (backend, origin string) {
	if flag != "" {
		return flag, name
	}
	if v := env.Get("GPUBUILD_BACKEND"); v != "" {
		return v, "GPUBUILD_BACKEND"
	}
	return "", ""
}

// Backend says which GPU backends a build gets its tools for, and why. What the
// crates reach decides; the user's word chooses where they reach both.
func Backend(n Needs, w Wish) (backend []string, why string, err error) {
	cuda := n.CUDA || n.Toolkit()
	switch w.Backend {
	case "":
	case CUDA, ROCm:
		if w.Backend == CUDA && cuda || w.Backend == ROCm && n.ROCm {
			return []string{w.Backend}, w.BackendOrigin, nil
		}
		return nil, "", &MisfitError{
			What: fmt.Sprintf("%s asks for %s, and no crate of this build uses it", w.BackendOrigin, w.Backend),
			Fix:  "ask for a feature that enables such a crate; `gpubuild features` shows them"}
	default:
		return nil, "", exit.Usagef("leave it out: the features choose", "%s: %.200q is neither cuda nor rocm", w.BackendOrigin, w.Backend)
	}
	switch {
	case cuda && n.ROCm:
		return []string{CUDA, ROCm}, "the features reach crates of both", nil
	case n.ROCm:
		return []string{ROCm}, "the features reach crates of ROCm only", nil
	case cuda:
		return []string{CUDA}, "the features reach crates of CUDA only", nil
	}
	return nil, "no crate here uses CUDA or ROCm", nil
}

// only leaves out what the other backend's crates ask for.
func (n Needs) only(backends []string) Needs {
	if !slices.Contains(backends, ROCm) {
		n.ROCm = false
	}
	if !slices.Contains(backends, CUDA) {
		n.NVCC, n.NVCCVersion, n.Libraries, n.CUDNN, n.EmbedsPTX, n.CUDA = false, false, false, false, false, false
	}
	return n
}

// rocmFor picks the ROCm: the user's, then the first in the order in which they were found.
func rocmFor(found []rocm.Install) (*rocm.Install, []Loser, error) {
	var won *rocm.Install
	var lost []Loser
	for _, named := range []bool{true, false} {
		for i := range found {
			c := &found[i]
			why := c.Problem
			switch {
			case c.Named != named:
				continue
			case why == "" && won == nil:
				won = c
				continue
			case why == "":
				why = "not needed: " + won.Root + " comes first"
			}
			lost = append(lost, Loser{"ROCm", c.Root, c.Origin, why})
		}
	}
	if won == nil {
		return nil, lost, &MissingError{
			What:   "ROCm",
			Losers: lost,
			Places: []string{"ROCM_HOME, ROCM_PATH, HIP_PATH", "PATH", "/opt/rocm", "/usr", `C:\Program Files\AMD\ROCm`},
			Fix: "install ROCm with HIP (Debian: apt install hipcc libamdhip64-dev; Windows: AMD HIP SDK), and point ROCM_PATH " +
				"at its root if it is elsewhere",
			Part: PartROCm,
		}
	}
	return won, lost, nil
}

// rocm sets the variables of ROCm's root for whoever reads them. Unset they mean /opt/rocm, and the system's own needs none.
func (e *writer) rocm() {
	h, c := e.h, e.s.ROCm
	for _, name := range []string{"ROCM_PATH", "HIP_PATH"} {
		old := h.Env.Get(name)
		switch {
		case !e.reads(name), old != "" && h.SamePath(h.Real(h.Clean(old)), c.Real):
		case old != "":
			e.d.Add(buildenv.Set, name, c.Root, fmt.Sprintf("was %s, which is not the ROCm chosen", old))
		case c.System, h.OS == buildenv.Linux && h.SamePath(c.Real, h.Real("/opt/rocm")):
		default:
			e.d.Add(buildenv.Set, name, c.Root, "root of "+c.String()+", "+c.Origin)
		}
	}
	if first, err := h.LookPath("hipcc"); c.Hipcc != "" && (err != nil || !h.SamePath(h.Real(first), h.Real(c.Hipcc))) {
		e.d.Add(buildenv.Prepend, "PATH", h.Dir(c.Hipcc), "hipcc and hipconfig of "+c.String())
	}
}
