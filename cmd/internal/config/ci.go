package config

import (
	"strings"

	"gpubuild/features/manifest"
)

// CI is the [ci] table: what `gpubuild ci init` writes into a workflow.
type CI struct {
	// Shell commands that install gpubuild on a runner. `gpubuild ci init --install` takes precedence.
	Install string `toml:"install"`
	// GitLab: the image of jobs without a GPU.
	Image string `toml:"image"`
	// Shell commands that run before everything else, such as the installation of system libraries.
	Setup string `toml:"setup"`
}

const ciKeys = "[ci]: install, image, setup"

// Replacement is what to use in place of something that an earlier version had: a subcommand ("ci run"), a flag behind its command
// ("doctor --save"), one of our flags on cargo's commands ("--gpu-timings"), a flag's value ("--fail-on xid"), or a table of gpubuild.toml.
// It is empty for anything else. This is the one list of them.
func Replacement(old string) string {
	const (
		onCPU   = "run it again with CUDA_VISIBLE_DEVICES=-1"
		counts  = "its JSON has the launches of each kernel: --json=proof.json"
		outside = "what a build script keeps outside of the target directory is removed by hand, see Limits in docs/verdicts.md"
		isStale = "`gpubuild clean` is cargo's own; what is stale goes by: gpubuild stale --clean --features cuda"
	)
	return map[string]string{
		"matrix": "the CI service has the matrix now: `gpubuild ci init` writes a workflow with it; " +
			"[on.NAME] names a machine with a GPU",
		"ci matrix":  "the CI service has the matrix now: gpubuild ci init github",
		"ci run":     "run the command of the workflow's step: gpubuild build --features cuda",
		"ci archive": "gpubuild bundle PROGRAM makes a directory for another machine",
		"ci prove":   "gpubuild prove PROGRAM --on ssh:HOST",

		"clean --minimal": isStale, "clean --external": isStale, "clean --features": isStale, "clean -F": isStale,
		"clean --all-features": isStale, "clean --json": isStale,
		"cache --yes":            "it no longer asks: gpubuild cache clean",
		"env --write":            "gpubuild env --shell cargo-config prints the table for .cargo/config.toml",
		"env --remove":           "take gpubuild's lines out of .cargo/config.toml by hand",
		"toolchain verify":       "gpubuild toolchain list says what is damaged; to install it again: remove it, then install it",
		"doctor --save":          "gpubuild doctor --json --verbose",
		"prove --counterfactual": onCPU, "--gpu-counterfactual": onCPU,
		"prove --trace": "nsys profile PROGRAM (Nsight Systems) records when each kernel ran",
		"prove --min":   counts, "--gpu-min": counts,
		"--gpu-timings":        "cargo's own --timings",
		"--gpu-clean-external": outside, "stale --clean-external": outside,

		"bundle --dry-run":  "make the bundle in a new directory, and look at it",
		"report --skip-bad": "name the files that are results",
		"report --sarif":    "each job uploads its own: gpubuild build --gpu-sarif FILE",
		"--fail-on xid":     "the kernel's log has Xid errors: dmesg | grep Xid",
	}[old]
}

func noControl(s string) bool { return !strings.ContainsAny(s, "\x00\r\n") }

// lineIn finds the line of a key, else that of the nearest table that holds it; 0 if there is none. BurntSushi/toml keeps no positions.
func lineIn(data []byte, path ...string) int {
	keys := manifest.Locate(data)
	for n := len(path); n > 0; n-- {
		if at, ok := keys.At(path[:n]...); ok {
			return at.Line
		}
	}
	return 0
}
