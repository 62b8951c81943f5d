package cli

import (
	"fmt"
	"strings"
)

// replaced are commands and flags of earlier versions, each with the command that takes its place. A key is a verb of ours ("clean"), a
// flag of one ("doctor --save"), or one of our flags on cargo's verbs ("--gpu-timings"). A whole verb stands here only if cargo has none
// of that name.
var replaced = map[string]string{
	"doctor --save":          "gpubuild doctor --json --verbose",
	"prove --counterfactual": "run it again with CUDA_VISIBLE_DEVICES=-1",
	"prove --min":            "gpubuild prove --json=proof.json; its kernels have their counts",
	"--gpu-counterfactual":   "run it again with CUDA_VISIBLE_DEVICES=-1",
	"--gpu-min":              "--gpu-json=proof.json; its kernels have their counts",
	"--gpu-timings":          "cargo's own --timings",
}

// checkReplaced is the error for a command or a flag that an earlier version had.
func checkReplaced(words []string) error {
	if len(words) == 0 {
		return nil
	}
	if fix, gone := replaced[words[0]]; gone && !strings.HasPrefix(words[0], "-") {
		return usage(fmt.Sprintf("gpubuild has no command `%s` any more", words[0]), fix)
	}
	_, ours := find(words[0])
	for _, w := range words {
		if w == "--" {
			break
		}
		name, _, _ := strings.Cut(w, "=")
		key := name
		if ours {
			key = words[0] + " " + name
		}
		if fix, gone := replaced[key]; gone && strings.HasPrefix(name, "-") {
			return usage(fmt.Sprintf("gpubuild has no flag `%s` any more", name), fix)
		}
	}
	return nil
}

// replacedShells are forms of `env --shell` that earlier versions had, each with the one that says the same.
var replacedShells = map[string]string{"direnv": "bash", "dotenv": "json", "gitlab": "json", "nu": "json"}
