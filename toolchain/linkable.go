package toolchain

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
)

// partOf names the part of gpubuild's toolkits that holds a library, an import library and headers; empty: each toolkit has it.
var partOf = map[string]string{
	"cuda": "", "cudart": "", "cublas": "cublas", "cublasLt": "cublas", "curand": "curand", "nvrtc": "nvrtc", "cudnn": "cudnn",
	"culibos": "culibos",
}

// library is the bare name of a file (libcublas.so, cublas_v2.h), and what it ends with.
func library(file string) (name, extension string) {
	base, extension, _ := strings.Cut(file, ".")
	return strings.TrimSuffix(strings.TrimPrefix(base, "lib"), "_v2"), extension
}

// Parts are those that a toolkit of gpubuild's needs on Linux to have these files. Of a library that is linked it has a stub without them.
func Parts(files []string) (parts []string) {
	for _, file := range files {
		name, extension := library(file)
		if part := partOf[name]; part != "" && (extension == "h" || extension == "a") && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// InstallCommand installs a toolkit into gpubuild's cache, or adds parts to the one that is there.
func InstallCommand(v gpu.Version, parts ...string) string {
	command := "gpubuild toolchain install " + v.String()
	if len(parts) > 0 {
		command += " --parts " + strings.Join(parts, ",")
	}
	return command
}

// linkFix is the command that brings the files which Unlinkable misses, and with them the other parts that the crates need.
func linkFix(f Facts, n Needs, t *cuda.Toolkit, missing []string) string {
	var names []string
	ours := true
	for _, file := range missing {
		name, _ := library(file)
		prefix := "lib"
		if strings.HasPrefix(name, "cudart") || name == "culibos" {
			prefix = "cuda-"
		}
		debian := strings.TrimSuffix(strings.TrimSuffix(name, "_static"), "Lt")
		names = append(names, fmt.Sprintf("%s%s-dev-%d-%d", prefix, strings.ToLower(debian), t.Version.Major, t.Version.Minor))
		_, has := partOf[name]
		ours = ours && has
	}
	slices.Sort(names)
	switch {
	case ours && f.MSVC != nil:
		return InstallCommand(t.Version, "run")
	case ours:
		parts := Parts(missing)
		if len(parts) > 0 {
			parts = slices.Compact(slices.Sorted(slices.Values(slices.Concat(parts, n.Parts))))
		}
		return InstallCommand(t.Version, parts...)
	case f.MSVC != nil:
		return "install them by NVIDIA's installer, or name their directory in LIB"
	}
	return fmt.Sprintf("install them (Debian, Ubuntu: apt install %s), or name their directory in LIBRARY_PATH",
		strings.Join(slices.Compact(names), " "))
}

// Unlinkable lists those of the libraries that a program is to be linked with (libcublas) of which the linker will find no file: in the
// chosen toolkit and cuDNN, in LIBRARY_PATH of env, the build's environment, or where a linker looks by itself. Without it cargo compiles
// everything before the linker says so. Where rustc's flags name directories of the user's own nothing is known, and nothing listed.
// A header (cublas_v2.h) has to be in the toolkit, in CPATH or where a compiler looks by itself.
func Unlinkable(h buildenv.Host, s Set, env buildenv.Env, libraries []string) []string {
	if s.Toolkit == nil || h.OS != buildenv.Linux && h.OS != buildenv.Windows {
		return nil
	}
	for _, name := range env.Names() { // RUSTFLAGS, CARGO_ENCODED_RUSTFLAGS, CARGO_BUILD_RUSTFLAGS, CARGO_TARGET_…_RUSTFLAGS
		if (strings.HasSuffix(name, "RUSTFLAGS") || name == "NIX_LDFLAGS") && strings.Contains(env.Get(name), "-L") {
			return nil
		}
	}
	t := s.Toolkit
	dirs := append([]string{t.Lib, t.Stubs, h.Join(t.Root, "lib64"), h.Join(t.Root, "lib"), h.Join(t.Root, "lib", "x64")}, t.Libs...)
	if s.CUDNN != nil {
		dirs = append(dirs, s.CUDNN.Lib)
	}
	if s.LibCUDA != "" {
		dirs = append(dirs, h.Dir(s.LibCUDA))
	}
	if h.OS == buildenv.Linux {
		dirs = append(dirs, h.SplitList(env.Get("LIBRARY_PATH"))...)
		dirs = append(dirs, "/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib64", "/usr/local/lib", "/usr/lib/"+h.Multiarch(),
			"/usr/lib/wsl/lib")
	} else {
		dirs = append(dirs, h.SplitList(env.Get("LIB"))...)
	}
	includes := append(h.SplitList(env.Get("CPATH")+h.ListSeparator()+env.Get("INCLUDE")), t.Include, "/usr/include", "/usr/local/include")
	for _, l := range t.Libs { // the HPC SDK has some of both in another directory
		includes = append(includes, h.Join(h.Dir(l), "include"))
	}
	var out []string
	for _, l := range libraries {
		dirs, files := dirs, []string{l + ".so", l + ".a"}
		switch {
		case strings.HasSuffix(l, ".h"):
			dirs, files = includes, []string{l}
		case strings.HasSuffix(l, ".a"):
			files = []string{l}
		case h.OS == buildenv.Windows:
			files = []string{strings.TrimPrefix(l, "lib") + ".lib"}
		}
		found := slices.ContainsFunc(dirs, func(dir string) bool {
			return dir != "" && slices.ContainsFunc(files, func(f string) bool { return h.IsFile(h.Join(dir, f)) })
		})
		if !found {
			out = append(out, files[0])
		}
	}
	return out
}
