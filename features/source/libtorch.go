package source

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/manifest"
)

// Libtorch is which libtorch a program with torch-sys will get, as far as that can be seen here.
type Libtorch struct {
	Says string
	CPU  bool   // it certainly has no CUDA
	Fix  string // what would bring CUDA
}

// LibtorchOf looks where the build script of torch-sys does (0.26.0 build.rs, SystemInfo::new and prepare_libtorch_dir). It asks no Python
// and reads no library; a download's device is TORCH_CUDA_VERSION or the CPU. cargo's [env] tables may set the same variables: where one
// names them nothing is certain.
func (r *Reader) LibtorchOf(features []string) Libtorch {
	if slices.Contains(features, "doc-only") {
		return Libtorch{Says: "doc-only: no libtorch is linked"}
	}
	env := r.h.Env
	if _, python := env.Lookup("LIBTORCH_USE_PYTORCH"); python {
		return Libtorch{Says: "LIBTORCH_USE_PYTORCH: the PyTorch that python3 imports decides"}
	}
	dir, how := "", ""
	if root, named := env.Lookup("LIBTORCH"); named {
		dir, how = r.h.Join(root, "lib"), "LIBTORCH"
	} else if r.h.OS == buildenv.Linux && r.h.IsFile("/usr/lib/libtorch.so") {
		dir, how = "/usr/lib", "the system's libtorch"
	}
	if lib, named := env.Lookup("LIBTORCH_LIB"); named {
		dir, how = r.h.Join(lib, "lib"), "LIBTORCH_LIB"
	}
	if r.ConfigNames("LIBTORCH") || dir == "" && r.ConfigNames("TORCH_CUDA_VERSION") {
		return Libtorch{Says: "cargo's [env] names the libtorch"}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return r.h.IsFile(r.h.Join(dir, name)) })
	}
	switch in := how + ": " + dir; {
	case dir == "":
	case has("libtorch_cuda.so", "libtorch_cuda_cu.so", "torch_cuda.dll", "torch_cuda_cu.dll"):
		return Libtorch{Says: in + " holds a libtorch with CUDA"}
	case has("libtorch_cpu.so", "libtorch.so", "torch_cpu.dll", "torch.lib"):
		return Libtorch{Says: in + " holds a libtorch without CUDA", CPU: true, Fix: "LIBTORCH=a libtorch built for CUDA"}
	default:
		return Libtorch{Says: in + " holds no libtorch"}
	}
	if !slices.Contains(features, "download-libtorch") {
		return Libtorch{Says: "no libtorch is named: set LIBTORCH or LIBTORCH_USE_PYTORCH=1, or turn on tch/download-libtorch"}
	}
	if s := env.Get("TORCH_CUDA_VERSION"); s != "" {
		return Libtorch{Says: "TORCH_CUDA_VERSION: the libtorch for " + s + " is downloaded"}
	}
	return Libtorch{Says: "TORCH_CUDA_VERSION is not set: the libtorch for the CPU is downloaded", CPU: true,
		Fix: "TORCH_CUDA_VERSION=cu128"}
}

// ConfigNames reports whether a configuration file of cargo's mentions a variable.
func (r *Reader) ConfigNames(name string) bool {
	dirs := []string{manifest.CargoHome(r.h)}
	for _, start := range []string{r.h.Cwd, r.root} {
		for dir := range r.h.Upwards(start) {
			dirs = append(dirs, r.h.Join(dir, ".cargo"))
		}
	}
	for _, dir := range dirs {
		for _, f := range []string{"config.toml", "config"} {
			if data, err := r.h.ReadFile(r.h.Join(dir, f), buildenv.Source); err == nil && strings.Contains(string(data), name) {
				return true
			}
		}
	}
	return false
}
