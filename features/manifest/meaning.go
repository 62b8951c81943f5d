package manifest

import (
	"cmp"
	"slices"
	"strings"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/catalog"
)

// Backends that a feature's name can mean; AnyGPU is that of a bare `gpu`.
const (
	CUDA   = "cuda"
	ROCm   = "rocm"
	Vulkan = "vulkan" // wgpu, too
	Metal  = "metal"
	OpenCL = "opencl"
	AnyGPU = "gpu"
)

var backendWords = map[string]string{
	"cuda": CUDA, "cudnn": CUDA, "rocm": ROCm, "hip": ROCm, "hipblas": ROCm, "wgpu": Vulkan, "vulkan": Vulkan, "metal": Metal,
	"opencl": OpenCL,
	"gpu":    AnyGPU,
}

// supportWords may stand next to a backend's name without changing what it means.
var supportWords = []string{"use", "with", "enable", "support", "backend", "acceleration", "accelerate", "accel", "static", "dynamic",
	"full", "kernels", "f16", "nvidia"}

var versionWord = lazyregexp.New(`^v?[0-9]+(\.[0-9]+)*$`)

// backendWord is the backend that a word names, a version behind it or not: cuda, cuda12.
func backendWord(w string) string {
	return cmp.Or(backendWords[w], backendWords[strings.TrimRight(w, "0123456789.")])
}

// BackendOf reports which backend a feature means by its name. A name that has other words in it (gpu-stats, cuda-tests, barracuda),
// or that begins with an underscore, is loose: it may mean anything. known reports whether a word is the name of a package of the build,
// as in whisper-cuda; it may be nil. The backend is empty where the name contains none.
func (a *Asked) BackendOf(feature string, known func(word string) bool) (backend string, loose bool) {
	name := strings.ToLower(feature)
	words := strings.FieldsFunc(name, func(c rune) bool { return c == '-' || c == '_' })
	var rest []string
	for _, w := range words {
		switch b := backendWord(w); {
		case b != "" && (backend == "" || backend == AnyGPU || b == CUDA):
			backend = b
		case b == "" && !slices.Contains(supportWords, w) && !versionWord.MatchString(w):
			rest = append(rest, w)
		}
	}
	switch {
	case slices.Contains(a.GPUFeatures, feature):
		return cmp.Or(backend, CUDA), false
	case backend == "" && (strings.Contains(name, "cuda") || strings.Contains(name, "cudnn")):
		return CUDA, true
	case backend == "" || strings.HasPrefix(name, "_"):
		return backend, true
	}
	all := strings.Join(rest, "-") // without the words of backends and of support the rest is a package's name
	is := known != nil && (known(all) || known(strings.ReplaceAll(all, "-", "_")) || known(all+"-rs"))
	return backend, all != "" && !is
}

// IsNamed reports whether a word of a feature's name is a package's: all of it, or of a GPU crate the first part.
func IsNamed(pkg, word string) bool {
	return pkg == word || strings.HasPrefix(pkg, word+"-") && catalog.Default().Crate(pkg) != nil
}

// IsBackend reports whether a feature means a backend by its name alone.
func (a *Asked) IsBackend(feature string) bool {
	b, loose := a.BackendOf(feature, nil)
	return b != "" && !loose
}
