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

// Replacement is what to use in place of something that version 2 had and version 3 has not: a subcommand, a flag behind its command, or a
// table of gpubuild.toml. It is empty for anything else. This is the one list of them.
func Replacement(old string) string {
	return map[string]string{
		"matrix":     "the CI service has the matrix now: `gpubuild ci init` writes a workflow with it; [on.NAME] names a machine with a GPU",
		"ci matrix":  "the CI service has the matrix now: gpubuild ci init github",
		"ci run":     "run the command of the workflow's step: gpubuild build --features cuda",
		"ci archive": "gpubuild bundle PROGRAM makes a directory for another machine",
		"ci prove":   "gpubuild prove PROGRAM --on ssh:HOST",
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
