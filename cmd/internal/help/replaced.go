package help

import "strings"

// replaced is what to use in place of a subcommand ("ci run"), a flag of one ("doctor --save") or one of our flags on cargo's commands
// ("--gpu-timings") that an earlier version had. This is the one list of them.
var replaced = map[string]string{
	"ci matrix":  "the CI service has the matrix now: gpubuild ci init github",
	"ci run":     "run the command of the workflow's step: gpubuild build --features cuda",
	"ci archive": "gpubuild bundle PROGRAM makes a directory for another machine",
	"ci prove":   "gpubuild prove PROGRAM --on ssh:HOST",

	"env --write":            "gpubuild env --shell cargo-config prints the table for .cargo/config.toml",
	"toolchain verify":       "gpubuild toolchain list says what is damaged; to install it again: remove it, then install it",
	"doctor --save":          "gpubuild doctor --json --verbose",
	"features --graph":       "cargo tree -e features -i CRATE",
	"features --route":       "gpubuild build --features CRATE/cuda",
	"prove --counterfactual": "run it again with CUDA_VISIBLE_DEVICES=-1",
	"prove --trace":          "nsys profile PROGRAM (Nsight Systems) records when each kernel ran",
	"prove --min":            "its JSON has the launches of each kernel: --json=proof.json",
	"--gpu-min":              "its JSON has the launches of each kernel: --gpu-json=proof.json",
	"--gpu-timings":          "cargo's own --timings",
	"clean --features":       "`gpubuild clean` is cargo's own; what is stale goes by: gpubuild stale --clean --features cuda",
	"exec --json":            "gpubuild prove PROGRAM --json=proof.json",
	"bundle --dry-run":       "make the bundle in a new directory, and look at it",
	"report --skip-bad":      "name the files that are results",
	"report --sarif":         "each job uploads its own: gpubuild build --gpu-sarif FILE",
}

// Replaced finds a subcommand or a flag that an earlier version had in a command line, and what to use in its place.
func Replaced(words []string) (old, now string) {
	for i, w := range words {
		if w == "--" {
			break
		}
		name, _, _ := strings.Cut(w, "=")
		old := words[0] + " " + name
		if strings.HasPrefix(name, "--gpu-") {
			old = name
		}
		if now := replaced[old]; now != "" && (i == 1 || strings.HasPrefix(name, "-")) {
			return old, now
		}
	}
	return "", ""
}
