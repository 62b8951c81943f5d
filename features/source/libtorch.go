package source

import (
	"slices"
	"strings"

	"gpubuild/features/libtorch"
	"gpubuild/features/manifest"
)

// Libtorch is which libtorch a program with torch-sys will get, as far as that can be seen here.
type Libtorch struct {
	Says string
	CPU  bool   // it certainly has no CUDA
	Fix  string // what would bring CUDA
}

// LibtorchOf looks where package libtorch says; a download's device is TORCH_CUDA_VERSION or the CPU. cargo's [env] tables may set the same
// variables: where one names them nothing is certain.
func (r *Reader) LibtorchOf(features []string) Libtorch {
	if slices.Contains(features, "doc-only") {
		return Libtorch{Says: "doc-only: no libtorch is linked"}
	}
	at := libtorch.Find(r.h, r.h.Env)
	if at.Python {
		return Libtorch{Says: at.How + ": the PyTorch that python3 imports decides"}
	}
	if r.ConfigNames("LIBTORCH") || at.Lib == "" && r.ConfigNames("TORCH_CUDA_VERSION") {
		return Libtorch{Says: "cargo's [env] names the libtorch"}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return r.h.IsFile(r.h.Join(at.Lib, name)) })
	}
	switch in := at.How + ": " + at.Lib; {
	case at.Lib == "":
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
	if s := r.h.Env.Get("TORCH_CUDA_VERSION"); s != "" {
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
			if data, err := r.h.ReadFile(r.h.Join(dir, f), Limit); err == nil && strings.Contains(string(data), name) {
				return true
			}
		}
	}
	return false
}
