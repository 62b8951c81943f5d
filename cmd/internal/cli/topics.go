package cli

import (
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
	{"GPUBUILD_CACHE", "where fetched toolkits, the probe and answers are kept"},
	{"GPUBUILD_CONFIG", "your own configuration file (cuda, redist), in place of gpubuild/config.toml among your configuration"},
	{"GPUBUILD_CUDA", "the toolkit to use, below --gpu-toolkit; then gpubuild.toml, then `gpubuild toolchain use`"},
	{"GPUBUILD_READ_ALONG", "never: leave cargo's stderr the real terminal; a failed build is then not explained there"},
	{"GPUBUILD_REDIST", "where NVIDIA's redistributable archives are taken from (CUDA 12, and 13 without pip): a URL, a directory, or never"},
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

const configHelp = `gpubuild.toml, in the workspace root

gpu-features = ["gpu"]         # further features that ask for GPU work
strict = true                  # warnings of the feature check stop the build, too

[toolchain]
cuda = "13.4"                  # a version or a root; never "fetch": that is the user's word
arch = "sm_90"

[prove]                        # build runs what it built, under the probe
args = ["--device", "cuda"]
kernel = "matmul"              # a regular expression, or a list; left out: a matrix product
expect-exit = 0
bin = "app"                    # where the build makes several programs

[test]                         # gpubuild test fails where one of these did not run a kernel on the GPU
gpu = ["kernels", "lib:engine", "integration-*"]  # names of targets; a kind (lib, bin, test, bench, example) or package/ in front narrows them
kernel = "matmul"              # as in [prove]

[bench]                        # the same of gpubuild bench
gpu = ["matmul"]

[matrix]                       # what CI builds; three lines are enough; gpubuild ci matrix lists the rows
features = ["cuda", "cuda,cudnn"]
cuda = ["13.3", "13.4"]        # left out: the newest that gpubuild fetches and the crates know
arch = ["sm_80", "sm_90"]      # left out: as gpubuild chooses on each machine
cudnn = ["auto"]               # auto: where the features need it; none; or a version such as "9.21"
platform = ["linux-x86_64"]    # or linux-aarch64, windows-x86_64, windows-aarch64
profile = ["dev"]
toolkit = "fetch"              # gpubuild fetches it; "runner": the machine has it
args = ["--locked"]            # further words for cargo; none when left out
image = { "12.8" = "nvidia/cuda:12.8.1-devel-ubuntu24.04" }  # rows of this CUDA run in a container that has it

[matrix.runner]                # labels on GitHub, tags on GitLab
linux-x86_64 = ["ubuntu-24.04"]
windows-x86_64 = ["windows-2022"]

[matrix.compilers]             # what a runner or an image has, where gpubuild does not know it
my-label = ["gcc 13"]

[[matrix.exclude]]             # leaves out every row that has one of each
cuda = ["13.3"]
features = ["cuda,cudnn"]

[[matrix.include]]             # further rows; what is left out is as in [matrix]
arch = ["sm_120"]

[[matrix.prove]]               # a machine with a GPU: each row that these axes choose is built and proven there, too
name = "a100"
arch = ["sm_80"]
runner = ["self-hosted", "linux", "gpu"]
wrapper = "srun --gres=gpu:1 --kill-on-bad-exit=1"  # put before the command
driver = "580"                 # its driver, and the capability of its lowest GPU: rows that cannot run there are left out
capability = "8.0"
toolkit = "runner"             # left out: as in [matrix]
args = ["--device", "cuda"]    # left out: those of [prove]

[ci]                           # for gpubuild ci init; shell text
install = "go install example.org/gpubuild/cmd/gpubuild@v1.0.0"
setup = "sudo apt-get install -y libssl-dev"
image = "rust:1-bookworm"      # GitLab: the image of rows that name none

The same keys may stand in [workspace.metadata.gpubuild] and [package.metadata.gpubuild] of Cargo manifests.
flags > GPUBUILD_* > gpubuild.toml > workspace metadata > package metadata > defaults. An unknown key is an error with its line.
`
