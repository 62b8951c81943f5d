package toolchain

import (
	"slices"
	"strings"

	"gpubuild/gpu"
)

// partOf names the part of gpubuild's toolkits that holds a library's headers and static libraries; each toolkit has those of the others.
var partOf = map[string]string{
	"cublas": "cublas", "cublasLt": "cublas", "curand": "curand", "nvrtc": "nvrtc", "cudnn": "cudnn", "culibos": "culibos",
	"tileiras": "tileiras",
}

// Parts are those that a toolkit of gpubuild's needs on Linux to have these files. Of a library that is linked it has a stub without them.
func Parts(files []string) (parts []string) {
	for _, file := range files {
		base, extension, _ := strings.Cut(file, ".") // libculibos.a, cublas_v2.h
		name := strings.TrimSuffix(strings.TrimPrefix(base, "lib"), "_v2")
		if part := partOf[name]; part != "" && (extension == "h" || extension == "a" || file == "tileiras") && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// InstallVerb begins the command that installs a toolkit; the version is next.
const InstallVerb = "gpubuild toolchain install "

// InstallCommand installs a toolkit into gpubuild's cache, or adds parts to the one that is there.
func InstallCommand(v gpu.Version, parts ...string) string {
	command := InstallVerb + v.String()
	if len(parts) > 0 {
		command += " --parts " + strings.Join(parts, ",")
	}
	return command
}
