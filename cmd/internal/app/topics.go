package app

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// topic answers the text of `gpubuild help WORD`.
func topic(word string) (string, bool) {
	switch word {
	case "exit-codes":
		return "Exit codes\n\n" + exitCodeTable(), true
	case "environment":
		return environmentHelp(), true
	case "config":
		return configHelp, true
	}
	return "", false
}

// variables that gpubuild reads; the table feeds help.
var variables = []struct{ Name, Meaning string }{
	{"GPUBUILD_ARCH", "the architecture to build for, below --gpu-arch and above CUDA_COMPUTE_CAP"},
	{"GPUBUILD_CACHE", "where fetched toolkits, the probe and answers are kept"},
	{"GPUBUILD_CUDA", "the toolkit to use, below --gpu-toolkit"},
	{"GPUBUILD_READ_ALONG", "never: leave cargo's stderr the real terminal; a failed build is then not explained there"},
	{"CARGO", "the cargo to call, as cargo itself sets it"},
	{"CARGO_TERM_COLOR, NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours, in cargo's order"},
	{"CUDA_HOME, CUDA_PATH, CUDA_ROOT, CUDA_TOOLKIT_ROOT_DIR, CUDAToolkit_ROOT", "where a toolkit is; they win when they agree"},
	{"CUDA_COMPUTE_CAP", "the architecture, as GPU build scripts read it"},
	{"NVCC, NVCC_CCBIN, CUDAHOSTCXX, HOST_COMPILER, CXX, CC", "which nvcc and host compiler are meant"},
	{"CUDNN_LIB, CUDNN_PATH, CUDNN_HOME, CUDNN_ROOT", "where cuDNN is"},
}

func environmentHelp() string {
	var b strings.Builder
	b.WriteString("Variables that gpubuild reads\n\n")
	for _, v := range variables {
		fmt.Fprintf(&b, "%s\n        %s\n", v.Name, v.Meaning)
	}
	b.WriteString("\nWhat it sets for the build alone, and why: gpubuild env --diff\n")
	return b.String()
}

const configHelp = `gpubuild.toml, in the workspace root

gpu-features = ["gpu"]         # further features that ask for GPU work
strict = true                  # warnings of the feature check stop the build, too

[toolchain]
cuda = "13.4"                  # a version or a root; never "fetch": that is the user's word
arch = "sm_90"

[prove]                        # build runs what it built, under the probe
args = ["--device", "cuda"]
kernel = "matmul"              # regular expression; left out: the matmul patterns
expect-exit = 0
bin = "app"                    # where the build makes several programs

The same keys may stand in [workspace.metadata.gpubuild] and [package.metadata.gpubuild] of Cargo manifests.
flags > GPUBUILD_* > gpubuild.toml > workspace metadata > package metadata > defaults. An unknown key is an error with its line.
`

func hashName(path string) string { return short(sha256.Sum256([]byte(path))) }
