package tools

import (
	"maps"
	"slices"
	"strings"

	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/toolchain"
)

// NeedsOf puts what the crates ask for into the toolchain's words; features and toolchain know nothing of each other.
func NeedsOf(reach *features.Reach) toolchain.Needs {
	from := reach.Needs
	n := toolchain.Needs{
		NVCC: from.NVCC, NVCCVersion: from.NVCCVersion, HostCompiler: from.HostCXX, Libraries: from.CUDALibs, CUDNN: from.CUDNN,
		EmbedsPTX: from.EmbedsPTX, CUDA: from.CUDA, ROCm: from.ROCm, CudarcMax: reach.CudarcMax, Pin: reach.Pin,
		Parts:    toolchain.Parts(from.Files),
		RunCUDNN: slices.ContainsFunc(from.Run, func(r features.NeedReason) bool { return r.Need == "libcudnn" })}
	for _, f := range from.Floors {
		n.Floors = append(n.Floors, toolchain.Floor(f))
	}
	n.MaxBy, _, _ = strings.Cut(reach.MaxBy, " ")
	for _, b := range from.Because {
		line := b.Need + ": " + b.Crate
		if b.Why != "" {
			line += " (" + b.Why + ")"
		}
		n.Because = append(n.Because, line)
	}
	return n
}

// LikelyNeeds are those of the crates, and what a package outside of the catalog needs that perhaps compiles kernels.
func LikelyNeeds(reach *features.Reach) toolchain.Needs {
	n := NeedsOf(reach)
	if reach.Needs.Perhaps != "" {
		n.CUDA, n.NVCC, n.Libraries = true, true, true
		n.Because = append(n.Because, "nvcc: "+reach.Needs.Perhaps+" (perhaps: known after the build)")
	}
	return n
}

// Readers lists who reads the variables that we may set: the build crates of the graph, and what the user's own build scripts name.
func Readers(graph session.Graph, reach *features.Reach) []string {
	seen := map[string]bool{}
	for _, u := range reach.Units {
		for _, name := range u.Inputs.Env {
			seen[name] = true
		}
		seen[toolchain.PassesCXX] = seen[toolchain.PassesCXX] || u.Inputs.PassesCXX
	}
	if graph.Units == nil {
		return nil // not known: every known reader
	}
	for _, u := range graph.Units.Units {
		switch name := manifest.ParsePkgID(u.PkgID).Name; name {
		case "cudarc":
			// Its script always declares the variables of the roots, and cargo compares them as text: if they were set without a reader,
			// every change of the toolkit would rebuild cudarc and all that depends on it. Which cudarcs there are may not be known.
			seen[name] = seen[name] || len(reach.Cudarc) == 0 ||
				slices.ContainsFunc(reach.Cudarc, func(c catalog.Cudarc) bool { return !c.Rootless })
		case "cudaforge", "bindgen_cuda", "cust_raw", "cuda-bindings", "cmake":
			seen[name] = true
		case "cuda-device": // what `cargo oxide` compiles for
			seen["CUDA_OXIDE_TARGET"] = true
		case "find_cuda_helper":
			seen["cust_raw"] = true
		}
	}
	maps.DeleteFunc(seen, func(_ string, reads bool) bool { return !reads })
	return append([]string{}, slices.Sorted(maps.Keys(seen))...)
}
