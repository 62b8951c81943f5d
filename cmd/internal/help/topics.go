package help

import (
	_ "embed"
	"fmt"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/gpu/kernelname"
)

// topics are the words that Topic knows.
var topics = []string{"exit-codes", "environment", "config", "results", "kernels"}

// NearTopic is the topic that a misspelled word means; empty: none.
func NearTopic(word string) string {
	for _, t := range topics {
		if len(word) > 2 && strings.HasPrefix(t, word) {
			return t
		}
	}
	return exit.Nearest(word, topics)
}

// Topic returns the text of `gpubuild help WORD`.
func Topic(word string) (string, bool) {
	switch word {
	case "exit-codes":
		return "Exit codes\n\n" + exit.Table(), true
	case "environment":
		return environmentHelp(), true
	case "config":
		return configHelp, true
	case "results":
		return resultsHelp, true
	case "kernels":
		return "Kernels that count as a matrix product\n\nThis table is what `gpubuild prove` goes by without --kernel REGEX.\n\n" + kernelname.Words, true
	}
	return "", false
}

// variables that gpubuild reads; the table feeds help.
var variables = []struct{ Name, Meaning string }{
	{"GPUBUILD_ARCH", "the architecture to build for, below --gpu-arch and above CUDA_COMPUTE_CAP"},
	{"GPUBUILD_BACKEND", "cuda or rocm, below --gpu-backend: set up the tools of this one only"},
	{"GPUBUILD_CACHE", "the directory of the cache: toolkits, the probe, compiled kernels"},
	{"GPUBUILD_CONFIG", "your own configuration file (cuda, redist, trust), instead of gpubuild/config.toml in your configuration " +
		"directory"},
	{"GPUBUILD_CUDA", "the toolkit to use, below --gpu-toolkit; then gpubuild.toml, then `gpubuild toolchain use`"},
	{"GPUBUILD_READ_ALONG", "never: cargo writes to the terminal directly; a build that fails there is not explained"},
	{"GPUBUILD_REDIST", "where NVIDIA's redistributable archives are downloaded from (CUDA 12, and 13 without pip): a URL, a " +
		"directory, or never"},
	{"GPUBUILD_GPU_CACHE", "on, off or read, below --gpu-cache: whether kernels come from the cache"},
	{"GPUBUILD_ROW", "the id of the matrix row that this run is; every result names it"},
	{"GITHUB_ACTIONS, GITHUB_STEP_SUMMARY, GITHUB_WORKSPACE", "true: findings are also written as annotations and into the step summary"},
	{"CARGO", "the cargo to call, as cargo itself sets it"},
	{"CARGO_TERM_COLOR, NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours, in cargo's order"},
	{"CUDA_HOME, CUDA_PATH, CUDA_ROOT, CUDA_TOOLKIT_ROOT_DIR, CUDA_TOOLKIT_PATH, CUDAToolkit_ROOT", "where the toolkit is, if they agree"},
	{"CUDA_PATH_V13_4", "a further toolkit, which NVIDIA's installer for Windows names; one for each release"},
	{"CUDA_COMPUTE_CAP", "the architecture, as GPU build scripts read it"},
	{"NVCC, NVCC_CCBIN, CUDAHOSTCXX, HOST_COMPILER, CXX, CC", "the nvcc and the host compiler to use. A CXX, HOST_CXX or CXX_TARGET that nvcc " +
		"refuses stops a build in which the cc crate passes it to nvcc"},
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
