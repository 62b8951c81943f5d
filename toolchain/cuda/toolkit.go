// Package cuda finds CUDA toolkits: every tree that a variable, PATH or a usual place names, what each holds and what it lacks.
//
// It decides what is a toolkit, which version it is, which parts are missing and which host compilers its own header takes; it does not
// choose one. It never runs nvcc: a version is read from version.json, version.txt or cuda.h, and a candidate that cannot be used stays in
// the answer with a Problem, so that a user sees why it lost.
//
// It reads releases.toml, which it owns: what each published CUDA release compiles for. The installed crt/host_config.h is the authority on
// compilers (ParseHostConfig).
//
// Limits: Nix's split outputs and Spack's prefixes are found only where a variable or PATH names them. CUDA 12 wheels have no nvcc and no
// root of their own, so they are no toolkit here.
package cuda

import (
	"cmp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// Kind says what sort of place named a toolkit, the one with the user's strongest word first.
type Kind int

const (
	Variable    Kind = iota + 1 // CUDA_HOME, CUDA_PATH and their like
	Environment                 // the active conda environment or virtual environment
	OnPath                      // an nvcc on PATH, or the variable NVCC
	Given                       // gpubuild's cache, and /usr/local/cuda, which the administrator points at one of several
	Usual                       // a usual place
)

// Source is one place that named a toolkit.
type Source struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"` // the variable's name, or the place as a person says it
}

// Candidate is a root that the caller knows of: the user's own word, or a toolkit in gpubuild's cache.
type Candidate struct {
	Root   string
	Origin string // as it is shown: "--gpu-toolkit", "gpubuild's cache"
	Kind   Kind   // zero: Given
}

// Parts that a toolkit may lack, each by itself.
const (
	PartNVCC    = "nvcc"    // bin/nvcc
	PartCRT     = "crt"     // crt/host_config.h, without which nvcc compiles nothing
	PartNVVM    = "nvvm"    // cicc, the device code compiler
	PartCCCL    = "cccl"    // nv/target, which cuda_fp16.h includes
	PartRuntime = "runtime" // cuda_runtime.h
	PartTools   = "tools"   // a file that nvcc needs, such as ptxas
	PartDriver  = "cuda.h"  // cuda.h, for crates that bind the driver's functions
	PartLinks   = "links"   // libcudart.so without a number, by which a linker finds it: wheels lack it
)

// Toolkit is one installed CUDA tree. All paths are absolute; a part that is not there is empty.
type Toolkit struct {
	Root     string      `json:"root"` // as the strongest of its sources names it, cleaned
	Real     string      `json:"real"` // Root without links: two names of one tree are one toolkit
	NVCC     string      `json:"nvcc,omitempty"`
	Version  gpu.Version `json:"version"`
	Label    string      `json:"label,omitempty"`        // the version as its maker writes it: 13.4.92; for display only
	Read     string      `json:"version_file,omitempty"` // the file that the version was read from
	Lib      string      `json:"lib,omitempty"`          // lib64, lib, lib/x64 or targets/…/lib
	Libs     []string    `json:"libs,omitempty"`         // further library directories: the HPC SDK's math_libs
	Include  string      `json:"include,omitempty"`
	Bin      string      `json:"bin,omitempty"`
	Missing  []string    `json:"missing,omitempty"` // Part…
	Damage   string      `json:"-"`                 // the file that is meant by PartTools
	Bounds   Bounds      `json:"bounds"`            // what its crt/host_config.h takes
	Links    []string    `json:"-"`                 // what a linker finds there: libcublas, on Windows, too
	Stubs    string      `json:"stubs,omitempty"`   // directory of link stubs: for a linker, never for a run
	CUPTI    string      `json:"cupti,omitempty"`   // path of libcupti
	MinArch  gpu.Arch    `json:"min_arch"`          // oldest arch that it compiles for; zero when unknown
	MaxArch  gpu.Arch    `json:"max_arch"`          // newest one; zero when unknown
	Origin   string      `json:"origin"`            // its sources as a person reads them
	Sources  []Source    `json:"sources"`           // the strongest first
	Problem  string      `json:"problem,omitempty"` // why it is no toolkit that a build could use at all
	Packaged string      `json:"packaged,omitempty"`
}

// Values of Packaged, for layouts that follow rules of their own.
const (
	Debian = "debian" // Debian's and Ubuntu's own packages, spread over /usr
	Conda  = "conda"
	Wheels = "wheels" // pip's nvidia/cu13
	HPC    = "hpc-sdk"
)

// Has reports whether a part is there.
func (t Toolkit) Has(part string) bool { return !slices.Contains(t.Missing, part) }

// From reports whether a kind of place names the toolkit, and which.
func (t Toolkit) From(k Kind) (names []string) {
	for _, s := range t.Sources {
		if s.Kind == k {
			names = append(names, s.Name)
		}
	}
	return names
}

// Named is the toolkit as a person reads it: "CUDA 13.4.92 in /usr/local/cuda".
func (t Toolkit) Named() string {
	v := cmp.Or(t.Label, t.Version.String())
	if t.Label == "" && t.Version.IsZero() {
		return "the toolkit in " + t.Root
	}
	return "CUDA " + v + " in " + t.Root
}

// Is reports whether path names the toolkit's root: by name, through links, or with a slash at its end.
func (t Toolkit) Is(h buildenv.Host, path string) bool {
	return path != "" && h.IsAbs(path) && (h.SamePath(path, t.Root) || h.SamePath(h.Real(h.Clean(path)), t.Real))
}

// add notes one more source; the strongest comes first and gives the root its name.
func (t *Toolkit) add(s Source, root string) {
	if slices.ContainsFunc(t.Sources, func(has Source) bool { return has.Name == s.Name }) {
		return
	}
	t.Sources = append(t.Sources, s)
	slices.SortStableFunc(t.Sources, func(a, b Source) int { return int(a.Kind - b.Kind) })
	if t.Sources[0] == s && root != "" && t.Packaged != Debian {
		t.rename(root)
	}
	names := make([]string, len(t.Sources))
	for i, s := range t.Sources {
		names[i] = s.Name
	}
	t.Origin = strings.Join(names, ", ")
}

// rename gives every path below the root the root's new name.
func (t *Toolkit) rename(root string) {
	old := t.Root
	for _, p := range []*string{&t.NVCC, &t.Read, &t.Lib, &t.Include, &t.Bin, &t.Stubs, &t.CUPTI, &t.Bounds.File} {
		if rest, ok := strings.CutPrefix(*p, old); ok {
			*p = root + rest
		}
	}
	t.Root = root
}
