package stale

import (
	"fmt"

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

func (c Code) String() string {
	kernel := "device code"
	if c.Kernel != "" {
		kernel = "kernel " + c.Kernel
	}
	if c.Kernels > 1 {
		kernel += fmt.Sprintf(" and %d more", c.Kernels-1)
	}
	return c.File + ": " + kernel
}
