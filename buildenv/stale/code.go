package stale

import (
	"fmt"
	"slices"

	"gpubuild/gpu"
)

// Make is one image of a kernel: what it is, what it is for and what made it.
type Make struct {
	Kind string   `json:"kind"` // as package fatbin names it
	Arch gpu.Arch `json:"arch"`
	NVCC string   `json:"nvcc,omitempty"` // version with which its compiler signed it; empty: unsigned
	PTX  string   `json:"ptx,omitempty"`  // PTX version, where it is PTX
}

// signed names the compiler that made it.
func (m Make) signed() string {
	switch {
	case m.NVCC != "":
		return "nvcc " + m.NVCC
	case m.PTX != "":
		return "PTX " + m.PTX
	}
	return "an unknown compiler"
}

func (m Make) form() string {
	if m.PTX != "" {
		return "PTX for " + m.Arch.String()
	}
	return m.Arch.String() + " code"
}

func (m Make) String() string {
	if m.NVCC == "" && m.PTX != "" { // only its version shows where it is from
		return "PTX " + m.PTX + " for " + m.Arch.String()
	}
	return m.form() + " from " + m.signed()
}

// Code is what a file holds of one kernel, or of several that were made in the same ways.
type Code struct {
	File    string `json:"file"`
	Kernel  string `json:"kernel,omitempty"`  // its name, or the first one's; empty: device code without a kernel
	Kernels int    `json:"kernels,omitempty"` // how many there are of them
	Makes   []Make `json:"makes"`             // one for each architecture and form
}

func (c Code) has(arch gpu.Capability) bool {
	return slices.ContainsFunc(c.Makes, func(m Make) bool { return m.Arch.Capability == arch })
}

// Runs says whether any of the code runs on a device of a capability.
func Runs(code []Code, c gpu.Capability) bool {
	for _, k := range code {
		for _, m := range k.Makes {
			if ok, _ := m.Arch.Runs(c); ok && m.Kind != "lto-ir" { // which needs a link step first
				return true
			}
		}
	}
	return false
}

// Want is what device code should be.
type Want struct {
	NVCC []string `json:"nvcc"` // versions with which the chosen toolkit's nvcc, cicc and ptxas sign; empty: not known
	PTX  string   `json:"ptx"`  // the PTX version that it writes; empty: not known
	Arch gpu.Arch `json:"arch"` // zero: any
}

func (w Want) String() string {
	arch, from := "any architecture", "any nvcc"
	if !w.Arch.Capability.IsZero() {
		arch = w.Arch.String()
	}
	if len(w.NVCC) > 0 {
		from = w.NVCC[0]
	}
	return arch + " from " + from
}

// What a mismatch is about.
const (
	ByNVCC = "nvcc"
	ByArch = "arch"
)

// Mismatch is code that is not what it should be.
type Mismatch struct {
	Code
	At    int    // which of the held code it is
	By    string // ByNVCC or ByArch; code from another nvcc is ByNVCC, whatever it is for
	Found Make   // the one that shows it
}

func (m Mismatch) String() string {
	kernel := "device code"
	if m.Kernel != "" {
		kernel = "kernel " + m.Kernel
	}
	if m.Kernels > 1 {
		kernel += fmt.Sprintf(" and %d more", m.Kernels-1)
	}
	return fmt.Sprintf("%s: %s: %s", m.File, kernel, m.Found)
}

// Hold judges each piece of device code by itself: all that is there of a kernel must be signed by the chosen toolkit, and one of
// it must be for the wanted capability. sm_90a, sm_90f and compute_90 are all for 9.0: build crates choose the form (cudaforge
// makes sm_90a of 90), and a list of architectures that holds the wanted one is no mistake. Nor is a kernel that its source has
// for some architectures of such a list only: others of its file are there for all of its own and for the wanted one.
//
// PTX without a signature is judged by its own version, which each toolkit has one of. PTX that stands as text and has a version
// but no signature was not written by nvcc: where its version differs, nothing is said of it.
// open counts what does not say who made it, or what it is for.
func Hold(code []Code, w Want) (wrong []Mismatch, open int) {
	for at, c := range code {
		by := -1
		for i, m := range c.Makes {
			switch w.made(m) {
			case wrongly:
				if by < 0 || c.Makes[by].NVCC == "" {
					by = i // a signature says more than a PTX version
				}
			case rightly:
			default:
				open++
			}
		}
		if by >= 0 {
			wrong = append(wrong, Mismatch{Code: c, At: at, By: ByNVCC, Found: c.Makes[by]})
			continue
		}
		want := w.Arch.Capability
		if want.IsZero() {
			continue
		}
		unknown := slices.ContainsFunc(c.Makes, func(m Make) bool { return m.Arch.Capability.IsZero() })
		switch {
		case c.has(want), conditional(c, code, want):
		case unknown || len(c.Makes) == 0:
			open++
		default:
			found := c.Makes[0]
			for _, m := range c.Makes[1:] {
				if found.PTX != "" && m.PTX == "" {
					found = m // name what runs first
				}
			}
			wrong = append(wrong, Mismatch{Code: c, At: at, By: ByArch, Found: found})
		}
	}
	return wrong, open
}

func conditional(c Code, all []Code, want gpu.Capability) bool {
	for _, o := range all {
		if o.File != c.File || !o.has(want) {
			continue
		}
		whole := len(c.Makes) > 0
		for _, m := range c.Makes {
			whole = whole && o.has(m.Arch.Capability)
		}
		if whole {
			return true
		}
	}
	return false
}

type made int

const (
	undecided made = iota
	rightly
	wrongly
)

func (w Want) made(m Make) made {
	switch {
	case m.NVCC != "" && len(w.NVCC) > 0:
		if slices.Contains(w.NVCC, m.NVCC) {
			return rightly
		}
		return wrongly
	case m.NVCC == "" && m.PTX != "" && w.PTX != "":
		if m.PTX == w.PTX {
			return rightly
		}
		if m.Kind == "ptx" { // in a fatbin: nvcc or fatbinary put it there
			return wrongly
		}
	}
	return undecided
}

// Describe says what a package holds and what was asked for, by the mismatch that says most: another nvcc before another
// architecture, machine code before PTX.
func Describe(pkg string, list []Mismatch, w Want) string {
	if len(list) == 0 {
		return ""
	}
	weight := func(m Mismatch) int {
		n := 0
		if m.By == ByNVCC {
			n += 2
		}
		if m.Found.NVCC != "" && m.Found.PTX == "" {
			n++
		}
		return n
	}
	best := list[0]
	for _, m := range list[1:] {
		if weight(m) > weight(best) {
			best = m
		}
	}
	if best.By == ByArch {
		return fmt.Sprintf("%s holds %s; the build asked for %s", pkg, best.Found.form(), w.Arch)
	}
	asked := w
	if best.Found.NVCC == "" { // known by the PTX version, so name the wanted one, too
		asked.NVCC = []string{"nvcc " + slices.Concat(w.NVCC, []string{"unknown"})[0] + ", which writes PTX " + w.PTX}
	}
	return fmt.Sprintf("%s holds %s; the build asked for %s", pkg, best.Found, asked)
}
