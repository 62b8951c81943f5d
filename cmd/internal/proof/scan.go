package proof

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/nvcc"
)

// scanKind names the cache entries of scans; the number changes whenever what is kept does.
const scanKind = "scan-4"

// Scan returns what a file holds; a file that has not changed is not read again.
func Scan(m *session.Machine, path string) (*fatbin.Report, error) {
	path = m.Host.Abs(path)
	id, err := cache.Identify(path)
	if err != nil {
		return fatbin.ScanFile(m.Host, path) // says what is wrong with it
	}
	// The identity is part of the key: as a watched input, a program that was just built would be hashed, which takes as long as the scan.
	store, key := m.Memo(), memo.Key(version.Number(), path, fmt.Sprint(id.Size, id.MTime, id.Inode, id.Device))
	var kept *fatbin.Report
	if store.GetJSON(scanKind, key, &kept) && kept != nil {
		return kept, nil
	}
	if err := Unmarked(m, path); err != nil {
		return nil, err
	}
	r, err := fatbin.ScanFile(m.Host, path)
	if err != nil {
		return nil, err
	}
	if err := store.PutJSON(scanKind, key, nil, r); err != nil {
		m.Shell.Detail("the scan is not kept: %v", err)
	}
	return r, nil
}

// Unmarked is an error where a file holds what was made for a type check.
func Unmarked(m *session.Machine, path string) error {
	marked, err := nvcc.Marked(path)
	if err == nil && marked {
		err = exit.Errorf(exit.Internal, "run `cargo clean` and build again; if a compiler cache is in use, clear it, too",
			"%s holds what was made for a type check without a CUDA toolkit; it is not a build", m.Shown(path))
	}
	return err
}

// ScanBuilt shows what device code each program of a build holds. asked: the architecture that the user asked for; zero: none.
func ScanBuilt(m *session.Machine, line cargo.Line, programs []cargorun.Program, asked gpu.Arch) error {
	byPath := func(a, b cargorun.Program) int { return strings.Compare(a.Path, b.Path) }
	for _, p := range slices.SortedFunc(slices.Values(programs), byPath) { // cargo names them in the order in which they are finished
		if p.Kind == "test" && line.Purpose() != cargo.Tests {
			continue
		}
		r, err := Scan(m, p.Path)
		if err != nil {
			return err
		}
		m.Shell.Status("Scanned", "%s: %s", m.Shown(p.Path), Line(r))
		// cudaforge adds the a from 9.0 on (compute_cap.rs), as candle-kernels does from 0.10 on.
		narrow := func(im fatbin.Image) bool {
			return im.Arch == gpu.Arch{Capability: asked.Capability, Suffix: "a", Virtual: true}
		}
		if at := slices.IndexFunc(r.Images, narrow); at >= 0 && asked.Suffix == "" && !asked.Capability.IsZero() {
			m.Shell.Warning("%s was asked for, and a build script made PTX for %s, which runs on GPU %s only", asked, r.Images[at].Arch, asked.Capability)
			m.Shell.Hint("PTX that newer GPUs run, too: --gpu-arch=sm_89")
		}
	}
	return nil
}

// Line says in one line what device code a file holds.
func Line(r *fatbin.Report) string {
	if len(r.Images) == 0 {
		libraries := slices.DeleteFunc(slices.Concat(r.Imports, r.Delayed), func(l string) bool { return !IsCUDALibrary(l) })
		if len(libraries) > 0 {
			return "no device code; loads " + strings.Join(libraries, ", ")
		}
		return "no device code (code that is made at run time is not seen)"
	}
	count := map[string]int{}
	var order []string
	for _, im := range r.Images {
		kind := im.Kind
		if kind == fatbin.PTXText {
			kind = fatbin.PTX
		}
		key := kind + " " + im.Arch.String()
		if kind == fatbin.PTX && im.PTXVersion != "" {
			key += " (PTX " + im.PTXVersion + ")"
		}
		if im.Toolkit != "" && kind == fatbin.Cubin { // of PTX its own version says more
			key += " (nvcc " + im.Toolkit + ")"
		}
		if count[key] == 0 {
			order = append(order, key)
		}
		count[key]++
	}
	sort.Strings(order)
	var parts []string
	for _, key := range order {
		parts = append(parts, fmt.Sprintf("%d %s", count[key], key))
	}
	return strings.Join(parts, ", ")
}
