package cli

import (
	_ "embed"
	"fmt"
	"strings"

	"gpubuild/buildenv/exit"
)

// topic answers the text of `gpubuild help WORD`.
func topic(word string) (string, bool) {
	switch word {
	case "exit-codes":
		return "Exit codes\n\n" + exit.Table(), true
	case "environment":
		return environmentHelp(), true
	case "config":
		return configHelp, true
	case "results":
		return resultsHelp, true
	}
	return "", false
}

// variables that gpubuild reads; the table feeds help.
var variables = []struct{ Name, Meaning string }{
	{"GPUBUILD_ARCH", "the architecture to build for, below --gpu-arch and above CUDA_COMPUTE_CAP"},
	{"GPUBUILD_BACKEND", "cuda or rocm, below --gpu-backend: set up the tools of this one only"},
	{"GPUBUILD_CACHE", "where fetched toolkits, the probe and answers are kept"},
	{"GPUBUILD_CONFIG", "your own configuration file (cuda, redist), in place of gpubuild/config.toml among your configuration"},
	{"GPUBUILD_CUDA", "the toolkit to use, below --gpu-toolkit; then gpubuild.toml, then `gpubuild toolchain use`"},
	{"GPUBUILD_READ_ALONG", "never: leave cargo's stderr the real terminal; a failed build is then not explained there"},
	{
		"GPUBUILD_REDIST",
		"where NVIDIA's redistributable archives are taken from (CUDA 12, and 13 without pip): a URL, a directory, or never",
	},
	{"GPUBUILD_ROW", "the id of the matrix row that this run is; it stands in every result"},
	{"GITHUB_ACTIONS, GITHUB_STEP_SUMMARY, GITHUB_WORKSPACE", "true: findings are also written as annotations and into the step summary"},
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

//go:embed topics/config.txt
var configHelp string

//go:embed topics/results.txt
var resultsHelp string
