package tools

import (
	"maps"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	cargograph "gpubuild/features/graph"
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
	const ofToolkit = " libcublas libcublasLt libcufft libcurand libcusolver libcusparse libnvrtc "
	for _, r := range from.Run {
		if r.Why == "to start" && strings.Contains(ofToolkit, " "+r.Need+" ") { // so it is linked
			n.Links = append(n.Links, r.Need)
		}
	}
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

// buildTools are what build scripts need apart from compilers and the GPU's toolchain, by the name in features.Needs.
var buildTools = []struct {
	need   string
	unless []string // variables that name it, or make the scripts do without
	here   func(buildenv.Host) bool
	pkg    buildenv.Package // empty: libtorchFix
}{
	{"CMake", []string{"CMAKE", "HOST_CMAKE", "TARGET_CMAKE"}, onPath("cmake"),
		buildenv.Package{Debian: "cmake", Fedora: "cmake", Arch: "cmake"}},
	{"libclang", []string{"LIBCLANG_PATH", "LLVM_CONFIG_PATH", "WHISPER_DONT_GENERATE_BINDINGS"}, hasLibclang,
		buildenv.Package{Debian: "libclang-dev", Fedora: "clang-devel", Arch: "clang"}},
	{"Cap'n Proto compiler", nil, onPath("capnp"), buildenv.Package{Debian: "capnproto", Fedora: "capnproto", Arch: "capnproto"}},
	{"libtorch", []string{"LIBTORCH", "LIBTORCH_USE_PYTORCH"}, // torch-sys 0.26 build.rs: prepare_libtorch_dir
		func(h buildenv.Host) bool { return h.IsFile("/usr/lib/libtorch.so") }, buildenv.Package{}},
}

const libtorchFix = "set LIBTORCH to its directory, or LIBTORCH_USE_PYTORCH=1 for PyTorch's; --features tch/download-libtorch " +
	"downloads one; for a type check: --features tch/doc-only"

// AbsentTools is an error if build scripts of the linked crates need what is not there: cargo would compile other crates for minutes before
// one of them says so. built says whose script has finished already. Only Linux is looked at: elsewhere there are too many places.
func AbsentTools(h buildenv.Host, graph session.Graph, reach *features.Reach, built func(crate string) bool) error {
	for _, u := range reach.Units {
		if at := emptySubmodule(h, u.Dir); at != "" && !built(u.Name) {
			return exit.Errorf(exit.Missing, "git submodule update --init --recursive",
				"%s is empty: it is a git submodule, and %s %s compiles what is in it", at, u.Name, u.Version)
		}
	}
	if h.OS != buildenv.Linux {
		return nil
	}
	var absent, fixes []string
	var packages []buildenv.Package
	for _, tool := range buildTools {
		needs := func(n features.NeedReason) bool {
			name, _, _ := strings.Cut(n.Crate, " ")
			return n.Need == tool.need && !built(name) && (tool.need != "libclang" || loadsLibclang(graph)) &&
				(tool.need != "libtorch" || name == "torch-sys" && !slices.ContainsFunc(reach.Units, withoutLibtorch))
		}
		at := slices.IndexFunc(reach.Needs.Because, needs)
		if at < 0 || slices.ContainsFunc(tool.unless, func(v string) bool { return h.Env.Get(v) != "" }) || tool.here(h) {
			continue
		}
		absent = append(absent, tool.need+", which "+reach.Needs.Because[at].Crate+" is built with")
		if tool.pkg.Debian == "" {
			fixes = append(fixes, libtorchFix)
			continue
		}
		packages = append(packages, tool.pkg)
	}
	if absent == nil {
		return nil
	}
	if packages != nil {
		fixes = append(fixes, h.InstallCommand(packages...))
	}
	return exit.Errorf(exit.Missing, strings.Join(fixes, "; "), "there is no %s", strings.Join(absent, ", and no "))
}

// loadsLibclang reports whether clang-sys, bindgen's way to libclang, is part of the build: cust_raw 0.11 brings its bindings along.
func loadsLibclang(graph session.Graph) bool {
	return graph.Units == nil || slices.ContainsFunc(graph.Units.Units, func(u cargograph.Unit) bool {
		return manifest.ParsePkgID(u.PkgID).Name == "clang-sys"
	})
}

// withoutLibtorch reports whether a unit is torch-sys with a feature by which it downloads libtorch, or needs none.
func withoutLibtorch(u features.ScriptUnit) bool {
	return u.Name == "torch-sys" && (slices.Contains(u.Features, "download-libtorch") || slices.Contains(u.Features, "doc-only"))
}

func onPath(program string) func(buildenv.Host) bool {
	return func(h buildenv.Host) bool { return len(h.LookPathAll(program)) > 0 }
}

// hasLibclang looks where bindgen does: clang-sys 1.8.1, build/common.rs (DIRECTORIES_LINUX) and build/dynamic.rs (the names of files).
func hasLibclang(h buildenv.Host) bool {
	dirs := h.SplitList(h.Env.Get("LD_LIBRARY_PATH"))
	if config, err := h.LookPath("llvm-config"); err == nil { // it answers the prefix that it lies in
		prefix := h.Dir(h.Dir(h.Real(config)))
		dirs = append(dirs, h.Join(prefix, "lib"), h.Join(prefix, "bin"))
	}
	for _, pattern := range []string{"/usr/lib*", "/usr/lib*/*", "/usr/lib*/*/*",
		"/usr/local/lib*", "/usr/local/lib*/*", "/usr/local/lib*/*/*", "/usr/local/llvm*/lib*"} {
		dirs = append(dirs, h.Dirs(pattern)...)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(h.Names(dir), func(name string) bool {
			version, ok := strings.CutPrefix(name, "libclang")
			return ok && strings.Contains(version, ".so") &&
				(version[0] == '.' || len(version) > 1 && version[0] == '-' && version[1] < 'A')
		})
	})
}

var submodulePath = lazyregexp.New(`(?m)^\s*path\s*=\s*(.+?)\s*$`)

// emptySubmodule is a submodule below a package of a clone that its build script names and that was not checked out; empty: there is none,
// or the script checks it out itself.
func emptySubmodule(h buildenv.Host, dir string) string {
	script, err := h.ReadFile(h.Join(dir, "build.rs"), buildenv.Source)
	if err != nil || strings.Contains(string(script), "submodule") {
		return ""
	}
	for root := dir; ; root = h.Dir(root) {
		if _, err := h.Files.Stat(h.Join(root, ".git")); err == nil {
			text, _ := h.ReadFile(h.Join(root, ".gitmodules"), buildenv.Source)
			for _, m := range submodulePath.FindAllStringSubmatch(string(text), -1) {
				at := h.Join(root, m[1])
				if h.Below(at, dir) && len(h.Names(at)) == 0 && strings.Contains(string(script), path.Base(m[1])) {
					return at
				}
			}
			return ""
		}
		if h.Dir(root) == root {
			return ""
		}
	}
}
